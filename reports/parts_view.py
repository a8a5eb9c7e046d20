"""Tables of the breakdown: the stages of each case that has them, and what they close against."""

from __future__ import annotations

from . import inference, labels
from .load import Case, Result
from .parts import Stage, stages
from .units import NONE, decimal, percent, quantity


def breakdowns(result: Result, t) -> list:
    return [_breakdown(c, result, t) for c in result.cases if c.parts and c.breakdown]


def _breakdown(case: Case, result: Result, t) -> dict:
    closes = case.breakdown
    whole = closes.instrumented_ns
    fallback = labels.defaults(result, case.suite)
    words = inference.label(case, fallback, t)
    return {
        "title": f"{case.device}: {case.variant}, {words}",
        "closes": t(
            "parts_close",
            total=quantity(closes.series_ns, "ns"),
            instrumented=quantity(closes.instrumented_ns, "ns"),
            attributed=percent(closes.attributed_ns / whole),
            rest=percent(closes.unattributed_ns / whole),
            cost=quantity(closes.instrumentation_ns, "ns"),
            operations=f"{closes.operations:g}",
        ),
        "rows": [_row(s, whole, t) for s in stages(case.parts, closes.operations)],
    }


def _row(stage: Stage, whole: float, t) -> dict:
    return {
        "path": stage.path,
        "phase": t.or_raw("value", stage.phase),
        "where": t.or_raw("waterfall", stage.where),
        "source": stage.source,
        "count": stage.count,
        "time": quantity(stage.ns, "ns"),
        "share": percent(stage.ns / whole),
        "mean": quantity(stage.mean_ns, "ns"),
        "p50": quantity(stage.p50_ns, "ns", 3),
        "p99": quantity(stage.p99_ns, "ns", 3),
        "bytes": decimal(stage.bytes) if stage.bytes else NONE,
        "flops": quantity(stage.flops or None, "flops"),
        "floor": percent(stage.floor_share),
    }
