"""Which cases make which lines: picks axes, groups cases and finds the ceilings of a panel. No drawing here."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import labels
from .load import Case, Metric, Result

# What a suite is about. A suite that is not listed is drawn by time.
SUITE_METRIC = {"matmul": "flop_rate", "memcpy": "bandwidth", "launch": "time_per_item"}
SUITE_AXIS = {"matmul": "n", "memcpy": "bytes", "launch": "chain"}
# Launch variants that build or change a graph: their cost is paid once, so it is drawn apart, by the whole operation.
GRAPH_BUILD = ("graph_instantiate", "graph_first_launch", "graph_upload", "graph_set_params", "graph_update")
MOST_CEILINGS = 3
MOST_LINES = 12  # of a panel: those with most points
PARTS = ("", "h2d", "d2h", "device", "peer", "build")  # in the order of the panels


@dataclass
class Line:
    """Cases of one label in the order of x, and of each the metric that is drawn."""

    label: str
    x: list = field(default_factory=list)
    cases: list = field(default_factory=list)
    values: list = field(default_factory=list)


@dataclass
class Panel:
    """The lines of one suite on one device."""

    device: str
    model: str
    part: str  # what of the suite stands here, "" for all of it
    x_axis: str
    metric: str
    unit: str
    lines: list
    ceilings: list  # (label, value in the metric's unit), highest first
    what: str = ""  # stands over the panel in place of the part or the metric
    marks: list = field(default_factory=list)  # (label, x): capacities
    left_out: int = 0  # lines that stand in the table only


def best(metric: Metric) -> float:
    """Sort key: higher is better for every metric."""
    return -metric.value if metric.unit in ("ns", "cycles") else metric.value


def best_by(case: Case, metric: str) -> float:
    return best(case.metrics[metric])


def metric_of(suite: str, cases: list) -> str | None:
    """The suite's own metric where a case has it, else time. Cases without it stand in the table."""
    wanted = SUITE_METRIC.get(suite)
    if any(wanted in c.metrics for c in cases):
        return wanted
    return "time" if cases and all("time" in c.metrics for c in cases) else None


def x_axis(cases: list) -> str | None:
    """The whole-number parameter with most different values; at least two."""
    counts = {}
    for name in {k for c in cases for k in c.parameters if k != "threads"}:
        values = {labels.whole(c.parameters.get(name)) for c in cases} - {None, 0}
        counts[name] = len(values)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ranked[0][0] if ranked and ranked[0][1] >= 2 else None


def varying(cases: list) -> set:
    """Parameters that do not have one value in all cases."""
    names = {k for c in cases for k in c.parameters}
    return {n for n in names if len({str(c.parameters.get(n)) for c in cases}) > 1}


def _square(case: Case) -> bool:
    """Of matmul only square shapes make a line over n; the others stand in the table."""
    n = case.parameters.get("n")
    return all(case.parameters.get(k, 0) in (0, n) for k in ("m", "k"))


def part_of(case: Case) -> str:
    """Cases of one suite that belong in different panels: links are far slower than memories."""
    if case.suite == "memcpy" and case.kind != "cpu":
        way = case.parameters.get("dir")
        return way if way in ("h2d", "d2h") else "peer" if way in ("p2d", "d2p") else "device"
    if case.suite == "launch":
        return "build" if case.variant in GRAPH_BUILD else ""
    return ""


def panels(result: Result, suite: str, t) -> list:
    """One panel for each device and part that has a line of at least one done case."""
    out = []
    for device in [d["name"] for d in result.context["devices"]]:
        own = [c for c in result.cases if c.suite == suite and c.device == device and c.done]
        for part in sorted({part_of(c) for c in own}, key=PARTS.index):
            panel = _panel(result, suite, device, [c for c in own if part_of(c) == part], part, t)
            if panel is not None:
                out.append(panel)
    return out


def _panel(result: Result, suite: str, device: str, cases: list, part: str, t) -> Panel | None:
    if suite == "matmul":
        cases = [c for c in cases if _square(c)]
    metric = "time" if part == "build" else metric_of(suite, cases)
    if metric is None:
        return None
    cases = [c for c in cases if metric in c.metrics]
    own = SUITE_AXIS.get(suite)
    axis = own if len({c.parameters.get(own) for c in cases}) > 1 else x_axis(cases)
    return panel(result, device, cases, axis, metric, t, part=part)


def panel(result: Result, device: str, cases: list, axis: str | None, metric: str, t, part="", what="") -> Panel | None:
    """The lines of a metric over an axis; None where nothing varies."""
    cases = [c for c in cases if axis and labels.whole(c.parameters.get(axis)) and metric in c.metrics]
    if not cases:
        return None
    drawn = lines(cases, axis, lambda c: c.metrics[metric], labels.defaults(result, cases[0].suite), t)
    unit = drawn[0].values[0].unit
    kept = sorted(drawn, key=lambda line: -len(line.x))[:MOST_LINES]
    kept = [line for line in drawn if line in kept]
    held = _ceilings(result, [c for line in kept for c in line.cases], metric, t)
    made = Panel(device, labels.device_model(result, device), part, axis, metric, unit, kept, held, what)
    made.left_out = len(drawn) - len(kept)
    return made


def lines(cases: list, axis: str, value, fallback: dict, t, skip=()) -> list:
    """Best line first; `value` gives a case's metric. Points that make no line of their own stand in the table, where
    others do make lines."""
    names = varying(cases)
    skip = {axis, *skip} | ({"m", "k"} if axis == "n" else set())
    found = {}
    for case in sorted(cases, key=lambda c: c.parameters[axis]):
        label = labels.series_label(case, names, fallback, t, skip)
        line = found.setdefault(label, Line(label))
        line.x.append(case.parameters[axis])
        line.cases.append(case)
        line.values.append(value(case))
    long = [line for line in found.values() if len(set(line.x)) > 1]
    return sorted(long or found.values(), key=lambda line: -best(line.values[-1]))


def _ceilings(result: Result, cases: list, metric: str, t) -> list:
    """Ceilings that these cases name and that are in the metric's unit; a launch rate as ns a launch. Of many, only
    those of all threads: the table of ceilings holds every one."""
    named = {c.ceiling_id for c in cases}
    rows = {}
    for ceiling in result.ceilings:
        if ceiling.id not in named or ceiling.rate is None or not ceiling.rate.value > 0:
            continue
        if metric == "time_per_item" and ceiling.rate.unit == "launches_per_s":
            value = 1e9 / ceiling.rate.value
        elif {"flop_rate": "flops_per_s", "bandwidth": "bytes_per_s"}.get(metric) == ceiling.rate.unit:
            value = ceiling.rate.value
        else:
            continue
        rows[labels.ceiling_label(ceiling, t)] = (value, ceiling.parameters.get("threads") == "1")
    if len(rows) > MOST_CEILINGS:
        rows = {k: v for k, v in rows.items() if not v[1]} or rows
    return sorted(((label, value) for label, (value, _) in rows.items()), key=lambda row: -row[1])


@dataclass
class Roofline:
    device: str
    model: str
    roofs: list  # (label, bytes/s), highest first
    tops: list  # (label, FLOP/s), highest first
    points: list  # (variant label, [(flops/byte, FLOP/s)])


def rooflines(result: Result, done: list, t) -> list:
    """One roofline for each device: highest measured rate of each memory level and of each arithmetic type."""
    out = []
    for device in [d["name"] for d in result.context["devices"]]:
        own = [c for c in result.ceilings if c.device == device and c.rate is not None and c.rate.value > 0]
        groups = {"memory": {}, "flops": {}}
        for ceiling in own:
            group = groups.get(ceiling.resource.partition(".")[0])
            if group is not None:
                label = labels.level(ceiling, t)
                group[label] = max(group.get(label, 0.0), ceiling.rate.value)
        cases = [
            c
            for c in done
            if c.device == device and "flop_rate" in c.metrics and c.work["bytes_read"] + c.work["bytes_written"] > 0
        ]
        points = {}
        names = varying(cases) & {"threads"}
        for case in cases:
            label = labels.series_label(case, names, {}, t)
            intensity = case.work["flops"] / (case.work["bytes_read"] + case.work["bytes_written"])
            points.setdefault(label, []).append((intensity, case.metrics["flop_rate"].value))
        if points:
            ranked = sorted(points.items(), key=lambda item: -max(y for _, y in item[1]))
            tops, roofs = (sorted(groups[g].items(), key=lambda r: -r[1]) for g in ("flops", "memory"))
            out.append(Roofline(device, labels.device_model(result, device), roofs, tops, ranked))
    return out
