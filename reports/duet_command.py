"""The command line of `assay duet`."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from .compare_command import add_common, check_outputs, put_out, thresholds
from .duet import LEAST_PAIRS, Side, run_pairs
from .errors import EnvironmentProblem, InputProblem

NEEDS = ("numpy", "scipy")
EPILOG = (
    "exit codes: 0 nothing slower (what is undecided is counted in a warning); 1 a case is slower, or failed in B "
    "alone; 2 malformed, or not comparable; 3 the environment, a launch left no result; 4 undecided or missing cases "
    "under --strict. Interrupted: the folder is kept and the signal raised again"
)
MOST_PAIRS = 1000
MOST_BUDGET_S = 10  # longer launches are further apart, and the machine drifts between them
HANDED_ON = ("suite", "filter", "device", "profile", "cpus")  # options of `run`
# --suite and --filter have settled the list by then; --profile also sets the targets and lengths of rounds.
LAUNCH_OPTIONS = ("profile", "device", "cpus")
STATISTICS = {"quartile": "lower quartile", "median": "median"}


class NothingToRun(InputProblem):
    """B lists no case, or none that A has."""


class Interrupted(BaseException):
    """By the signal in args[0]. Not an Exception: nothing on the way may swallow it."""


def add_parser(commands):
    duet = commands.add_parser("duet", help="two builds side by side, launches in turns", epilog=EPILOG)
    duet.add_argument("a", metavar="A", help="an assay binary")
    duet.add_argument("b", metavar="B", nargs="?", help="the other (default: A again, with --env-a or --env-b)")
    add_side_options(duet)
    add_options(duet)
    duet.add_argument("--folder", metavar="DIR", help="keeps the launches; a duet begun there goes on")
    return duet


def add_side_options(parser) -> None:
    for side in "ab":
        text = f"set for the launches of {side.upper()}; repeatable"
        parser.add_argument(f"--env-{side}", action="append", default=[], metavar="KEY=VALUE", help=text)


def add_options(parser) -> None:
    """What bisect takes too."""
    parser.add_argument(
        "--pairs", default="16", metavar="N", help=f"launches a side, {LEAST_PAIRS} or more (default 16)"
    )
    text = f"of one launch, at most {MOST_BUDGET_S}s (default {MOST_BUDGET_S}s; it ends when it has what it needs)"
    parser.add_argument("--budget", default=f"{MOST_BUDGET_S}s", metavar="TIME", help=text)
    parser.add_argument(
        "--seed", default="42", metavar="N", help="of inputs and of the order in each pair (default 42)"
    )
    parser.add_argument("--cases", metavar="FILE", help="take exactly the ids listed in FILE, one a line")
    for name in HANDED_ON:
        parser.add_argument(f"--{name}", metavar="VALUE", help="as of `assay run`")
    text = "what stands for a launch: the lower quartile of its samples (default), or the median"
    parser.add_argument("--statistic", choices=tuple(STATISTICS), default="quartile", help=text)
    add_common(parser)


def run(args) -> int:
    limits = thresholds(args.threshold)
    check_outputs(args)
    settings = launch_settings(args)
    a, b = sides(args)
    with interruptible():
        settled = settle(args, a, b)
        words = lock_words(settled[0])
        if words:
            sys.stdout.flush()
            os.execv(words[0], words)
        folder = Path(args.folder or tempfile.mkdtemp(prefix="assay-duet-"))
        try:
            found = duet(args, a, b, folder, limits, settings, settled)
        except BaseException:
            _kept(args, folder)
            raise
    code = found.exit_code(args.strict)
    put_out(found, code, args)
    if not args.folder and code == 1:
        print(f"assay duet: the launches are kept in {folder}", file=sys.stderr)
    elif not args.folder:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _kept(args, folder: Path) -> None:
    """Says how to go on, if there is something to go on with."""
    if any(folder.glob("?/*.json")):
        words = ["assay", *sys.argv[1:]]
        again = shlex.join(words if args.folder else [*words, "--folder", str(folder)])
        print(f"assay duet: the launches so far are kept; go on with\n  {again}", file=sys.stderr)
    elif not args.folder:
        shutil.rmtree(folder, ignore_errors=True)


# ---- options ----


def whole_number(name: str, word: str, least: int, most: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 20 and least <= int(word) <= most):
        raise InputProblem(f"--{name} {word}: give a whole number from {least} to {most}")
    return int(word)


def _budget(word: str) -> str:
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|)", word)
    seconds = int(match[1]) * {"ms": 1e-3, "s": 1, "m": 60, "h": 3600, "": 1}[match[2]] if match else 0
    if not 0 < seconds <= MOST_BUDGET_S:
        raise InputProblem(
            f"--budget {word}: give a whole number with ms or s, at most {MOST_BUDGET_S}s; take fewer cases"
        )
    return word


def _environment(option: str, words: list) -> dict:
    out = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) or "\0" in value:
            raise InputProblem(f"{option} {word}: give KEY=VALUE")
        out[key] = value
    return out


def binary(path: str) -> str:
    """Absolute, so that the folder of a resumed duet does not depend on where it was started."""
    found = shutil.which(path if os.sep in path else f".{os.sep}{path}") or shutil.which(path)
    if found is None:
        raise InputProblem(f"{path}: is no command that can be run; give the path of an assay binary")
    return str(Path(found).absolute())


def sides(args) -> tuple:
    if args.b is None and not args.env_a and not args.env_b:
        raise InputProblem("give B, or a setting that differs: --env-b KEY=VALUE")
    out = []
    for path, option, words in ((args.a, "--env-a", args.env_a), (args.b or args.a, "--env-b", args.env_b)):
        label = " ".join([*words, path])
        out.append(Side(label, (binary(path),), _environment(option, words)))
    return tuple(out)


# ---- which cases ----


def _listed(side: Side, options: list) -> list:
    words = [*side.command, "run", "--benchmark_list_tests", *options]
    try:
        done = subprocess.run(
            words, env=os.environ | side.env, capture_output=True, text=True, timeout=300, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise EnvironmentProblem(f"{side.label} does not list its cases ({error}); give an assay binary") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        problem = EnvironmentProblem if done.returncode == 3 or done.returncode < 0 else InputProblem
        raise problem(f"{side.label} does not list its cases: {said[0]}")
    return done.stdout.split()


def _ids(path: Path) -> list:
    try:
        return list(dict.fromkeys(path.read_text(encoding="utf-8").split()))
    except (OSError, UnicodeDecodeError) as error:
        raise InputProblem(f"--cases {path}: cannot be read ({error}); name a file of ids, one a line") from None


def _offered(side: Side, args, options: list) -> list:
    """The ids of this build, of --cases those that it has: a build that lacks one of them refuses the whole list."""
    if not args.cases:
        return _listed(side, options)
    path = Path(args.cases)
    with contextlib.suppress(InputProblem):
        return _listed(side, [*options, "--cases", str(path)])
    found, problem = [], None
    with tempfile.TemporaryDirectory(prefix="assay-duet-") as folder:
        single = Path(folder) / "case"
        for name in _ids(path):
            single.write_text(f"{name}\n", encoding="utf-8")
            try:
                found += _listed(side, [*options, "--cases", str(single)])
            except InputProblem as refused:
                problem = refused
    if not found and problem:
        raise problem
    return found


def settle(args, a: Side, b: Side) -> tuple:
    """(ids that both offer, (ids of A alone, of B alone)), in A's order."""
    options = handed_on(args)
    if args.cases:
        _ids(Path(args.cases))
    listed = [_offered(a, args, options)]
    try:
        listed.append(_offered(b, args, options))
    except InputProblem as problem:
        raise NothingToRun(str(problem)) from None
    have = [set(names) for names in listed]
    both = [name for name in listed[0] if name in have[1]]
    if not both:
        raise NothingToRun(f"{a.label} and {b.label} offer no case in common; choose others with --filter, --cases")
    only = tuple([name for name in names if name not in other] for names, other in zip(listed, have[::-1], strict=True))
    return both, only


def handed_on(args, names=HANDED_ON) -> list:
    return [word for name in names if getattr(args, name) is not None for word in (f"--{name}", getattr(args, name))]


# ---- the duet ----


def launch_settings(args) -> tuple:
    """(pairs, seed, budget), checked."""
    pairs = whole_number("pairs", args.pairs, LEAST_PAIRS, MOST_PAIRS)
    return pairs, whole_number("seed", args.seed, 0, 2**64 - 1), _budget(args.budget)


def duet(args, a: Side, b: Side, folder: Path, limits: list, settings: tuple, settled: tuple):
    """The Comparison. `settings` from launch_settings, `settled` from settle."""
    from .calibration import chosen
    from .duet_judge import judge

    pairs, seed, budget = settings
    cases, only = settled
    calibration = chosen(args.calibration)
    options = ("--budget", budget, *handed_on(args, LAUNCH_OPTIONS))
    run_pairs(a, b, folder, pairs, cases=cases, seed=seed, options=options, progress=show_progress, unshared=only)
    return judge(folder, limits, calibration, args.force_mixed, STATISTICS[args.statistic])


def lock_words(cases: list) -> list | None:
    """A duet on a GPU holds its lock from the first launch to the last, so it starts itself again under `assay lock`:
    these words; None where the cases need no lock, or it is held."""
    devices = sorted({match[1] for name in cases if (match := re.search(r"/dev:([^/]+)$", name))} - {"cpu"})
    if not devices or "ASSAY_LOCKS" in os.environ:
        return None
    command = os.environ.get("ASSAY_COMMAND")
    if not command:
        raise EnvironmentProblem(
            "a GPU needs its lock, which `assay` takes: start this by the command, not by python -m"
        )
    return [command, "lock", "--device", ",".join(devices), "--", command, *sys.argv[1:]]


def show_progress(done: int, pairs: int, left_s: float | None) -> None:
    left = "" if left_s is None else f", about {left_s / 60:.0f} min left" if left_s >= 90 else f", {left_s:.0f} s left"
    said = f"pair {done + 1} of {pairs}{left}" if done < pairs else f"{pairs} pairs done"
    print(f"duet: {said}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def interruptible():
    """SIGINT and SIGTERM end the launch that runs, then what is kept is said, then the signal ends this process."""

    def stop(number, _):
        raise Interrupted(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Interrupted as interrupt:
        signal.signal(interrupt.args[0], signal.SIG_DFL)
        os.kill(os.getpid(), interrupt.args[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
