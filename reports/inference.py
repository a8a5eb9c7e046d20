"""What the cases of suite `inference` say: TTFT, ITL, tokens a second, and which rung is fastest. No drawing here.

One operation of phase `decode` is a step: one token for each row of the batch, so that its time is the ITL. One of
`prefill` reads the prompt of each row: its time is the TTFT. One of `forward` is a batch through an encoder or a CNN.
"""

from __future__ import annotations

from . import labels
from .load import Case, Metric
from .series import Line

SUITE = "inference"
# Parameters of how, not of what: of these the fastest setting counts.
HOW = ("threads",)
# Of each phase the parameters that always stand in a label: its lengths. The others only off their default.
LENGTHS = {"decode": ("context",), "prefill": ("prompt",), "generate": ("prompt", "tokens")}


def phase(case: Case) -> str:
    return str(case.parameters.get("phase", ""))


def number(case: Case, name: str) -> int:
    return labels.whole(case.parameters.get(name)) or 0


def tokens(case: Case) -> tuple | None:
    """(how many, unit of the rate) one operation makes: tokens, or items of an encoder or CNN."""
    if case.work["items"] > 0 and case.work.get("item") == "token":
        return case.work["items"], "tokens_per_s"
    batch = max(1, number(case, "batch"))
    if phase(case) == "decode":
        return batch, "tokens_per_s"
    if phase(case) == "prefill" and number(case, "prompt"):
        return batch * number(case, "prompt"), "tokens_per_s"
    return (batch, "items_per_s") if phase(case) == "forward" else None


def rate(case: Case) -> Metric | None:
    """Tokens (or items) a second; the interval's ends are the count over the ends of the time."""
    made = tokens(case)
    if made is None:
        return None
    count, unit = made
    time = case.metrics["time"]
    low = None if time.high is None else count / time.high * 1e9
    high = None if time.low is None else count / time.low * 1e9
    return Metric(unit, count / time.value * 1e9, low, high)


def workload(case: Case) -> tuple:
    """What is done, without rung and threads: the same on two machines is the same work."""
    return tuple(sorted((k, str(v)) for k, v in case.chosen.items() if k not in HOW))


def shown(case_parameters: dict, fallback: dict) -> list:
    """Names of the parameters that a label tells, in the order of the axes, threads left out."""
    always = ("model", "phase", "batch", "type", *LENGTHS.get(str(case_parameters.get("phase")), ()))
    return [k for k, v in case_parameters.items() if k not in HOW and (k in always or str(v) != fallback.get(k))]


def label(case: Case, fallback: dict, t) -> str:
    """The work and the threads: `llama-1b, decode, batch = 1, context = 512, bf16, all threads`."""
    names = [*shown(case.parameters, fallback), *(k for k in HOW if k in case.parameters)]
    return ", ".join(labels.parameter(k, case.parameters[k], t) for k in names)


def time_of(case: Case) -> float:
    return case.metrics["time"].value


def fastest(cases: list) -> Case:
    return min(cases, key=time_of)


def smallest_batch(cases: list) -> list:
    least = min((number(c, "batch") for c in cases), default=0)
    return [c for c in cases if number(c, "batch") == least]


def _pick(cases: list, axis: str) -> list:
    """Of one device, model and type: the setting of the other parameters with most values of the axis, there the rung
    with most of them (of equals the fastest at the largest), one case for each value."""
    settings, rungs = {}, {}
    for case in cases:
        key = tuple((k, str(v)) for k, v in case.parameters.items() if k not in (axis, *HOW))
        settings.setdefault(key, []).append(case)
    held = max(settings.values(), key=lambda group: (len({number(c, axis) for c in group}), -number(group[0], "batch")))
    for case in held:
        rungs.setdefault(case.variant, {}).setdefault(number(case, axis), []).append(case)
    best = max(rungs.values(), key=lambda by_x: (len(by_x), -time_of(fastest(by_x[max(by_x)]))))
    return [fastest(best[x]) for x in sorted(best) if x > 0]


def lines(cases: list, axis: str, value, t, with_device: bool = False) -> list:
    """One line for each device, model and type that has two values of the axis or more."""
    groups = {}
    for case in cases:
        key = (case.device, case.parameters.get("model"), case.parameters.get("type"))
        groups.setdefault(key, []).append(case)
    out = []
    for (device, model, kind), group in groups.items():
        held = _pick(group, axis)
        if len(held) < 2:
            continue
        words = [device] if with_device else []
        words += [str(model), labels.parameter("type", kind, t) if kind is not None else "", held[0].variant]
        label = ", ".join(w for w in words if w)
        out.append(Line(label, [number(c, axis) for c in held], held, [value(c) for c in held]))
    return out
