"""Inference: rungs against the floor, TTFT and ITL by length, scaling by batch, CPU against GPU."""

from __future__ import annotations

from .. import inference, labels
from .. import ladder as steps
from ..load import Result
from ..series import Panel
from ..units import percent, quantity, significant
from .bars import Bar, BarPanel, Group, bars_figure
from .figure import Drawing
from .lines import lines_figure

SIZE = ("batch", "context", "prompt", "tokens")
MOST_WORKLOADS = 12


def _of(cases: list, *phases: str) -> list:
    return [c for c in cases if inference.phase(c) in phases]


def draw_rungs(result: Result, cases: list, t) -> Drawing | None:
    """One group for each model, type and phase; 100% is the floor where one was measured."""
    fallback = labels.defaults(result, inference.SUITE)
    panels, parts = {}, []
    for ladder in steps.ladders(result, cases, SIZE, inference.HOW, smallest=True):
        words = [labels.parameter(k, ladder.fixed[k], t) for k in inference.shown(ladder.fixed, fallback)]
        base = ladder.base.metrics["time"].value
        if ladder.limit is None:
            title, whole = t("ladder_base", base=ladder.base.variant), 1.0
        else:
            key = "rungs_floor_suspect" if ladder.limit_suspect else "rungs_floor"
            title, whole = t(key, floor=quantity(base / ladder.limit, "ns", 3)), ladder.limit
        bars = [_rung_bar(r, whole) for r in ladder.rungs]
        where = f"{ladder.device}: {labels.device_model(result, ladder.device)}"
        panels.setdefault(where, []).append(Group("; ".join([", ".join(words), title]), bars))
        best = min(ladder.rungs, key=lambda r: inference.time_of(r.case))
        slow = max(ladder.rungs, key=lambda r: inference.time_of(r.case))
        parts.append(
            t(
                "finding_rungs",
                device=ladder.device,
                what=", ".join(words),
                label=best.case.variant,
                value=quantity(inference.time_of(best.case), "ns"),
                percent=percent(best.ratio.value / whole),
                ratio=significant(inference.time_of(slow.case) / inference.time_of(best.case), 3),
                slow=slow.case.variant,
            )
        )
    if not panels:
        return None
    drawn = [BarPanel(k, groups, t("axis.rungs"), "%", base=100.0) for k, groups in panels.items()]
    return Drawing(" ".join(parts), lambda width: bars_figure(drawn, width))


def _rung_bar(rung: steps.Rung, whole: float) -> Bar:
    ends = [None if x is None else 100 * x / whole for x in (rung.ratio.low, rung.ratio.high)]
    time = rung.case.metrics["time"]
    text = f"{percent(rung.ratio.value / whole)} · {quantity(time.value, time.unit, 3)}"
    return Bar(rung.case.variant, 100 * rung.ratio.value / whole, text, *ends)


def draw_lengths(result: Result, cases: list, t) -> Drawing | None:
    """TTFT by prompt and ITL by context, of each model's rung with most points, at its smallest batch."""
    panels, parts = [], []
    for device, own in _by_device(result, cases):
        for phase, axis, what in (("prefill", "prompt", "ttft"), ("decode", "context", "itl")):
            held = inference.smallest_batch(_of(own, phase))
            _add(result, device, inference.lines(held, axis, _time, t), axis, what, panels, parts, t)
    return Drawing(" ".join(parts), lambda width: lines_figure(panels, width, t)) if panels else None


def draw_batches(result: Result, cases: list, t) -> Drawing | None:
    """What a larger batch gains in tokens or items a second, and what it costs in ITL."""
    panels, parts = [], []
    for device, own in _by_device(result, cases):
        for phase, what, value in (
            ("decode", "tokens", inference.rate),
            ("decode", "itl", _time),
            ("forward", "items", inference.rate),
        ):
            lines = inference.lines(_of(own, phase), "batch", value, t)
            _add(result, device, lines, "batch", what, panels, parts, t)
    return Drawing(" ".join(parts), lambda width: lines_figure(panels, width, t)) if panels else None


def _by_device(result: Result, cases: list) -> list:
    return [(d["name"], [c for c in cases if c.device == d["name"]]) for d in result.context["devices"]]


def _time(case):
    return case.metrics["time"]


def _add(result: Result, device: str, lines: list, axis: str, what: str, panels: list, parts: list, t) -> None:
    """The panel of these lines and a sentence for each, where there are lines."""
    if not lines:
        return
    unit = lines[0].values[0].unit
    metric = "time" if unit == "ns" else "rate"
    model = labels.device_model(result, device)
    panels.append(Panel(device, model, "", axis, metric, unit, lines, [], t("what." + what)))
    parts += [_line_finding(device, what, axis, line, t) for line in lines]


def _line_finding(device: str, what: str, axis: str, line, t) -> str:
    first, last = line.values[0], line.values[-1]
    return t(
        "finding_line",
        device=device,
        what=t("what." + what),
        label=line.label,
        first=quantity(first.value, first.unit, 3),
        first_at=labels.parameter(axis, line.x[0], t),
        last=quantity(last.value, last.unit, 3),
        last_at=labels.parameter(axis, line.x[-1], t),
    )


def draw_devices(result: Result, cases: list, t) -> Drawing | None:
    """The fastest rung of each device at the same work, for work that two devices or more have done."""
    work = {}
    for case in cases:
        if inference.rate(case) is not None:
            work.setdefault(inference.workload(case), {}).setdefault(case.device, []).append(case)
    shared = {k: {d: inference.fastest(own) for d, own in v.items()} for k, v in work.items() if len(v) > 1}
    if not shared:
        return None
    fallback = labels.defaults(result, inference.SUITE)
    panels = {}
    for key in _kept(list(shared)):
        named = dict(key)
        title = ", ".join(labels.parameter(k, named[k], t) for k in inference.shown(named, fallback))
        group = Group(title, [_device_bar(d, c) for d, c in shared[key].items()])
        panels.setdefault(inference.rate(next(iter(shared[key].values()))).unit, []).append(group)
    drawn = [BarPanel("", groups, t("rate." + unit), unit, log=True) for unit, groups in panels.items()]
    return Drawing(_devices_finding(shared, t), lambda width: bars_figure(drawn, width))


def _device_bar(device: str, case) -> Bar:
    made = inference.rate(case)
    text = quantity(made.value, made.unit, 3)
    return Bar(f"{device}, {case.variant}", made.value, text, made.low, made.high, paint=int(case.kind == "cpu"))


def _devices_finding(shared: dict, t) -> str:
    """For each model, type and phase: how many times as fast the fastest device is as the slowest, least and most."""
    ratios = {}
    for key, best in shared.items():
        slow, fast = (f(best.values(), key=inference.time_of) for f in (max, min))
        named = dict(key)
        what = ", ".join(labels.parameter(k, named[k], t) for k in ("model", "phase", "type") if k in named)
        ratio = inference.time_of(slow) / inference.time_of(fast)
        ratios.setdefault((what, fast.device, slow.device), []).append(ratio)
    return " ".join(
        t(
            "finding_devices",
            what=what,
            fast=fast,
            slow=slow,
            low=significant(min(found), 3),
            high=significant(max(found), 3),
            n=len(found),
        )
        for (what, fast, slow), found in ratios.items()
    )


def _kept(keys: list) -> list:
    """All, or where they are many the smallest and the largest of each model, type and phase."""
    if len(keys) <= MOST_WORKLOADS:
        return keys
    groups = {}
    for key in keys:
        named = dict(key)
        groups.setdefault(tuple(str(named.get(k)) for k in ("model", "type", "phase")), []).append(key)
    return [k for own in groups.values() for k in dict.fromkeys((own[0], own[-1]))]
