"""Memory: latency by working set with capacities, bandwidth by level, and what access patterns cost."""

from __future__ import annotations

from .. import labels
from .. import series as pick
from ..load import Result
from ..units import binary, quantity, significant
from .bars import Bar, BarPanel, Group, bars_figure
from .figure import Drawing
from .lines import best_finding, lines_figure

# Fastest first: the order of a pyramid from its top.
LEVELS = ("shared", "l1", "l2", "l3", "dram", "hbm")
CAPACITIES = (("l1d_bytes", "l1"), ("l2_bytes", "l2"), ("l3_bytes", "l3"))
# Variant, the axis of its pattern, and of its metrics the first that is there.
PATTERNS = (
    ("shared", "stride", ("cycles_per_item", "time_per_item")),
    ("constant", "distinct", ("cycles_per_item", "time_per_item")),
    ("strided", "stride", ("bandwidth",)),
    ("atomic", "targets", ("time_per_item",)),
    ("counters", "stride", ("time_per_item",)),
)


def _devices(result: Result, cases: list) -> list:
    """(name, its cases) in the order of the result."""
    named = [(d["name"], [c for c in cases if c.device == d["name"]]) for d in result.context["devices"]]
    return [(name, own) for name, own in named if own]


def _marks(result: Result, device: str, t) -> list:
    record = next(d for d in result.context["devices"] if d["name"] == device)
    return [
        (f"{t('level.' + level)} {binary(record[key])}", record[key]) for key, level in CAPACITIES if record.get(key)
    ]


def draw_latency(result: Result, cases: list, t) -> Drawing | None:
    """Nanoseconds of one dependent load over the working set."""
    panels, parts = [], []
    for device, own in _devices(result, cases):
        panel = pick.panel(result, device, own, "bytes", "time_per_item", t, what=t("what.latency"))
        if panel is None or len(panel.lines[0].x) < 2:
            continue
        panel.x_axis = "working_set"
        panel.marks = _marks(result, device, t)
        panels.append(panel)
        line = max(panel.lines, key=lambda x: len(x.x))
        words = {"device": device, "low_at": binary(line.x[0]), "high_at": binary(line.x[-1])}
        ends = [quantity(m.value, m.unit, 3) for m in (line.values[0], line.values[-1])]
        parts.append(t("finding_latency", low=ends[0], high=ends[1], **words))
    return Drawing(" ".join(parts), lambda width: lines_figure(panels, width, t)) if panels else None


def _rank(case) -> tuple:
    level = str(case.parameters.get("level", "none"))
    return (LEVELS.index(level) if level in LEVELS else len(LEVELS), case.resource, case.variant)


def draw_levels(result: Result, ceilings: list, t) -> Drawing | None:
    """Measured bandwidth of every level and link, fastest level first; what was not measured keeps its row."""
    panels, parts = [], []
    for device, own in _devices(result, [c for c in ceilings if c.rate is None or c.rate.unit == "bytes_per_s"]):
        groups, measured = {}, []
        for case in sorted(own, key=_rank):
            if not case.resource.startswith(("memory", "link")):
                continue
            several = case.kind == "cpu"
            title = labels.parameter("threads", case.parameters.get("threads", "1"), t) if several else ""
            groups.setdefault(title, []).append(_level_bar(case, t))
            if case.done and case.rate is not None:
                measured.append((case.rate.value, labels.ceiling_label(case, t)))
        if not measured:
            continue
        title = f"{device}: {labels.device_model(result, device)}"
        groups = [Group(k, bars) for k, bars in sorted(groups.items())]
        panels.append(BarPanel(title, groups, t("metric.bandwidth"), "bytes_per_s", log=True))
        (high, top), (low, last) = max(measured), min(measured)
        words = {"high": quantity(high, "bytes_per_s", 3), "low": quantity(low, "bytes_per_s", 3)}
        parts.append(t("finding_levels", device=device, top=top, last=last, **words))
    return Drawing(" ".join(parts), lambda width: bars_figure(panels, width)) if panels else None


def _level_bar(case, t) -> Bar:
    is_memory = case.resource.startswith("memory")
    name = labels.access(case, t) if is_memory else labels.resource(case.resource, t)
    if not case.done or case.rate is None:
        return Bar(name, None, t("status." + case.status) if not case.done else t("unknown"))
    text = quantity(case.rate.value, case.rate.unit, 3)
    if case.validity != "valid":
        text += f" ({t.or_raw('validity', case.validity)})"
    return Bar(name, case.rate.value, text, case.rate.low, case.rate.high)


def draw_sweep(result: Result, cases: list, t) -> Drawing | None:
    """Reads, writes and triads by size."""
    panels = [
        pick.panel(result, device, own, "bytes", "bandwidth", t, what=t("metric.bandwidth"))
        for device, own in _devices(result, cases)
    ]
    panels = [p for p in panels if p is not None and len(p.lines[0].x) > 1]
    for panel in panels:
        panel.x_axis = "working_set"
    return Drawing(best_finding(panels, t), lambda width: lines_figure(panels, width, t)) if panels else None


def draw_patterns(result: Result, cases: list, t) -> Drawing | None:
    """Bank conflicts, broadcast, coalescing, contention: one panel for each pattern that varies."""
    panels, parts = [], []
    for variant, axis, metrics in PATTERNS:
        for device, own in _devices(result, [c for c in cases if c.variant == variant]):
            metric = next((m for m in metrics if all(m in c.metrics for c in own)), None)
            panel = metric and pick.panel(result, device, own, axis, metric, t, what=t("what." + variant))
            if not panel or len(panel.lines[0].x) < 2:
                continue
            panel.x_axis = f"{variant}_{axis}"
            panel.ceilings = []
            panels.append(panel)
            parts.append(_pattern_finding(panel, variant, axis, t))
    return Drawing(" ".join(parts), lambda width: lines_figure(panels, width, t)) if panels else None


def _pattern_finding(panel, variant: str, axis: str, t) -> str:
    line = max(panel.lines, key=lambda x: len(x.x))
    first, last = line.values[0], line.values[-1]
    return t(
        "finding_pattern",
        device=panel.device,
        what=t("what." + variant),
        first=quantity(first.value, first.unit, 3),
        first_at=labels.parameter(axis, line.x[0], t),
        last=quantity(last.value, last.unit, 3),
        last_at=labels.parameter(axis, line.x[-1], t),
        ratio=significant(last.value / first.value, 3) if first.value else "?",
    )
