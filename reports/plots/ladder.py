"""Rungs as bars: how fast each variant is against the library that stands beside it, with the limit's line."""

from __future__ import annotations

from .. import labels
from .. import ladder as steps
from ..load import Result
from ..units import percent, quantity
from .bars import Bar, BarPanel, Group, bars_figure
from .figure import Drawing

SIZES_OF_MATMUL = ("n", "m", "k")


def heading(ladder: steps.Ladder, fallback: dict, skip: tuple, t) -> str:
    """`fp32, n = 4096; limit 125%`: what the rungs share, and where the dashed line stands."""
    words = [
        labels.parameter(k, v, t)
        for k, v in ladder.fixed.items()
        if k not in skip and (k in ("n", "type") or str(v) != fallback.get(k))
    ]
    line = ""
    if ladder.limit is not None:
        key = "ladder_limit_suspect" if ladder.limit_suspect else "ladder_limit"
        line = t(key, percent=percent(ladder.limit))
    base = t("ladder_base", base=ladder.base.variant)
    return "; ".join(x for x in (", ".join(words), base, line) if x)


def group(ladder: steps.Ladder, title: str, metric: str) -> Group:
    """Bars in percent of the base; beside each the percentage and the metric itself."""
    bars = []
    for rung in ladder.rungs:
        shown = rung.case.metrics.get(metric, rung.case.metrics["time"])
        ends = [None if x is None else 100 * x for x in (rung.ratio.low, rung.ratio.high)]
        text = f"{percent(rung.ratio.value)} · {quantity(shown.value, shown.unit, 3)}"
        bars.append(Bar(rung.case.variant, 100 * rung.ratio.value, text, *ends))
    return Group(title, bars, None if ladder.limit is None else 100 * ladder.limit)


def finding(ladder: steps.Ladder, what: str, metric: str, t) -> str:
    best = ladder.best()
    shown = best.case.metrics.get(metric, best.case.metrics["time"])
    words = {
        "device": ladder.device,
        "what": what,
        "label": best.case.variant,
        "value": quantity(shown.value, shown.unit),
        "percent": percent(best.ratio.value),
        "base": ladder.base.variant,
    }
    return t("finding_ladder" if ladder.by_reference else "finding_ladder_alone", **words)


def draw(result: Result, cases: list, t) -> Drawing | None:
    """Matrix products: one panel for each device and number of threads, groups by type."""
    square = [c for c in cases if all(c.parameters.get(k, 0) in (0, c.parameters.get("n")) for k in ("m", "k"))]
    fallback = labels.defaults(result, "matmul")
    panels, parts = {}, []
    for ladder in steps.ladders(result, square, SIZES_OF_MATMUL):
        where = [f"{ladder.device}: {labels.device_model(result, ladder.device)}"]
        skip = ("m", "k", "threads")
        if ladder.base.kind == "cpu":
            where.append(labels.parameter("threads", ladder.fixed.get("threads", "1"), t))
        title = heading(ladder, fallback, skip, t)
        panels.setdefault(", ".join(where), []).append(group(ladder, title, "flop_rate"))
        named = ("n", "type", "threads") if ladder.base.kind == "cpu" else ("n", "type")
        words = [labels.parameter(k, v, t) for k, v in ladder.fixed.items() if k in named]
        parts.append(finding(ladder, ", ".join(words), "flop_rate", t))
    if not panels:
        return None
    drawn = [BarPanel(k, g, t("axis.ladder"), "%", base=100.0) for k, g in panels.items()]
    return Drawing(" ".join(parts), lambda width: bars_figure(drawn, width))
