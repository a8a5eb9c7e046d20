"""The command line of `assay size`."""

from __future__ import annotations

import re

from .duet_command import whole_number
from .errors import EnvironmentProblem, InputProblem

NEEDS = ("scipy",)
FORMATS = ("table", "markdown", "json")
KINDS = ("f32", "bf16", "f16", "e4m3", "s8")
MOST_BATCH, MOST_PAGE, MOST_KERNELS = 1_000_000, 65_536, 1000
KERNELS = 5  # QKV, attention, output projection, gate and up, down: a decoder's layer with all else fused into them
EPILOG = (
    "exit codes: 0 predicted (what is unknown says what to run); 1 under --strict: it does not fit, a goal is missed; "
    "2 malformed, no ceilings, nothing to score; 3 the environment; 4 under --strict: a figure is unknown. "
    "docs/size.md has every formula"
)
_PREDICTING = ("model", "context", "batch", "prompt", "type", "kv_type", "page", "gpus", "link", "alpha", "use")


def add_parser(commands):
    text = "predict memory, concurrency, TTFT and ITL of a model from measured ceilings"
    size = commands.add_parser("size", help=text, epilog=EPILOG)
    size.add_argument("results", nargs="+", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    size.add_argument(
        "--model", metavar="P", help="a preset (`assay list --json`: models), or a folder with config.json"
    )
    size.add_argument("--context", metavar="C", help="tokens of a sequence in the cache at the step that is predicted")
    size.add_argument("--batch", metavar="B", help="sequences decoded together (default 1)")
    size.add_argument("--prompt", metavar="T", help="tokens of the prompt (default: the context)")
    size.add_argument("--type", choices=KINDS, help="of the weights (default bf16)")
    size.add_argument("--kv-type", choices=KINDS, help="of keys and values (default: the weights', of one byte bf16)")
    size.add_argument("--use", metavar="SHARE", help="of the device's memory (default 0.9)")
    size.add_argument("--page", metavar="N", help="tokens of a page of the cache (default 16)")
    size.add_argument("--gpus", metavar="N", help="split each layer over N such GPUs (default 1)")
    size.add_argument("--kernels", metavar="N", help=f"launches a layer, all in one graph (default {KERNELS})")
    size.add_argument("--link", metavar="RATE", help="of --gpus, where no ceiling tells it: 450GB/s")
    size.add_argument("--alpha", metavar="TIME", help="latency of an all-reduce between the GPUs: 10us")
    size.add_argument("--device", metavar="NAME", help="take this device, or kind of device, alone")
    size.add_argument("--score", action="store_true", help="predicted against what the results measured (inference)")
    size.add_argument("--format", choices=FORMATS, default="table", help="default table")
    size.add_argument("--strict", action="store_true", help="exit 1 or 4 where it does not fit, misses or is unknown")
    return size


def run(args) -> int:
    from .files import print_text
    from .load import load

    results = [load(path) for path in args.results]
    if args.score:
        given = [f"--{name.replace('_', '-')}" for name in _PREDICTING if getattr(args, name) is not None]
        if given:
            raise InputProblem(f"--score takes model, batch and context from the cases: leave {given[0]} out")
        text, code = _score(args, results)
    else:
        text, code = _size(args, results)
    print_text(text)
    return code


def _size(args, results: list) -> tuple:
    from . import size_output as output
    from .size_ceilings import machines
    from .size_predict import predict

    plan = _plan(args, results)
    rows = []
    for result in results:
        found = machines(result, args.device)
        if plan.gpus > 1:
            found = [m for m in found if not m.on_cpu]
            if not found:
                raise InputProblem(f"{result.path}: --gpus {plan.gpus} needs a GPU; leave it out, or --device")
        rows += [(result, predict(plan, machine)) for machine in found]
    makers = {"table": output.table, "markdown": output.markdown, "json": output.as_json}
    predictions = [p for _, p in rows]
    code = 0
    if args.strict:
        unfit = any(not p.memory.fits for p in predictions if p.machine.memory_bytes)
        code = 1 if unfit else 4 if any(p.throughput is None or p.first.span is None for p in predictions) else 0
    return makers[args.format](plan, rows), code


def _score(args, results: list) -> tuple:
    from . import size_score_output as output
    from .size_score import scores

    models, where = catalogue(results)
    found = scores(results, models, where, args.device, kernels(args))
    makers = {"table": output.table, "markdown": output.markdown, "json": output.as_json}
    code = 0
    if args.strict:
        outcomes = {f.outcome for s in found.scores for f in s.figures}
        code = 1 if "missed" in outcomes else 4 if "unknown" in outcomes else 0
    return makers[args.format](found), code


# ---- options ----


def kernels(args) -> int:
    return KERNELS if args.kernels is None else whole_number("kernels", args.kernels, 0, MOST_KERNELS)


def _plan(args, results: list):
    from .size_model import TYPES, choose
    from .size_predict import MOST_GPUS, Plan, splits

    if args.model is None or args.context is None:
        raise InputProblem("give --model and --context, or --score to score what was measured")
    models, where = catalogue(results)
    model = choose(args.model, models, where)
    context = whole_number("context", args.context, 1, 10**12)
    if context > model.max_positions:
        raise InputProblem(f"--context {context}: {model.name} has {model.max_positions} positions; give at most these")
    prompt = context if args.prompt is None else whole_number("prompt", args.prompt, 1, context)
    gpus = whole_number("gpus", args.gpus or "1", 1, MOST_GPUS)
    if not splits(model, gpus):
        raise InputProblem(
            f"--gpus {gpus}: {model.heads} heads over {model.kv_heads} key/value heads do not split so; give a divisor "
            f"of {model.heads}"
        )
    kind = args.type or "bf16"
    return Plan(
        model=model,
        context=context,
        batch=whole_number("batch", args.batch or "1", 1, MOST_BATCH),
        prompt=prompt,
        kind=kind,
        kv_kind=args.kv_type or (kind if TYPES[kind] > 1 else "bf16"),
        use=_share(args.use or "0.9"),
        page=whole_number("page", args.page or "16", 1, MOST_PAGE),
        gpus=gpus,
        kernels=kernels(args),
        link=_link(args.link),
        alpha_ns=_alpha(args.alpha),
    )


def _share(word: str) -> float:
    value = float(word) if re.fullmatch(r"[0-9]{0,3}\.?[0-9]{1,9}", word) else 0.0
    if not 0 < value <= 1:
        raise InputProblem(f"--use {word}: give a share of the memory above 0, at most 1: 0.9")
    return value


def _link(word: str | None):
    from .size_ceilings import Rate, Span

    if word is None:
        return None
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)([MGT])B/s", word)
    value = float(match[1]) * {"M": 1e6, "G": 1e9, "T": 1e12}[match[2]] if match else 0.0
    if not value:
        raise InputProblem(f"--link {word}: give a rate in each direction: 450GB/s")
    return Rate("--link", "bytes_per_s", Span(value, value, value), assumed=True)


def _alpha(word: str | None) -> float | None:
    if word is None:
        return None
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(ns|us|ms)", word)
    if not match:
        raise InputProblem(f"--alpha {word}: give a time: 10us")
    return float(match[1]) * {"ns": 1.0, "us": 1e3, "ms": 1e6}[match[2]]


def catalogue(results: list) -> tuple:
    """(the table of models, where it stands): a result's own, else that of the binary that called."""
    from .claims_run import catalogue as listed
    from .claims_run import find_command

    for result in results:
        models = result.plan["catalogue"].get("models")
        if isinstance(models, list) and models:
            return models, str(result.path)
    try:
        command = find_command()
        offered = listed(command)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(f"no result here lists the models, and no command either ({problem})") from None
    if not (isinstance(offered, dict) and isinstance(offered.get("models"), list) and offered["models"]):
        raise EnvironmentProblem(f"{command} lists no models; set ASSAY_COMMAND to an assay of this version")
    return offered["models"], command
