"""Several results side by side: the same case, by its fields, on each machine, with the ratio to the first."""

from __future__ import annotations

from . import labels
from . import series as pick
from .units import NONE, interval, quantity, significant


def rows(results: list, t) -> list:
    """One row for each case that stands in two results or more, in the first one's order."""
    tables = [{c.key: c for c in r.cases} for r in results]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    out = []
    for key in keys:
        found = [table.get(key) for table in tables]
        if sum(c is not None for c in found) >= 2:
            out.append(_row(found, results, t))
    return out


def left_out(results: list) -> int:
    """Cases that only one result has."""
    seen = [key for r in results for key in {c.key for c in r.cases}]
    return sum(1 for key in set(seen) if seen.count(key) == 1)


def _row(found: list, results: list, t) -> dict:
    first = next(c for c in found if c is not None)
    home = results[found.index(first)]
    axis = pick.x_axis([c for c in home.cases if c.suite == first.suite and c.device == first.device])
    text = labels.parameters_text(first, labels.defaults(home, first.suite), t, always=(axis,))
    done = [c for c in found if c is not None and c.done]
    metric = pick.metric_of(first.suite, done)
    if not all(metric in c.metrics for c in done):
        metric = "time"
    base = found[0]
    cells = []
    for index, case in enumerate(found):
        if case is None:
            cells.append({"value": NONE, "note": t("cell_absent"), "ratio": NONE})
        elif not case.done or metric is None:
            cells.append({"value": t(f"status.{case.status}"), "note": case.reason or "", "ratio": NONE})
        else:
            value = case.metrics[metric]
            ratio = NONE
            if index and base is not None and base.done and metric in base.metrics:
                ratio = _ratio(base.metrics[metric], value)
            cells.append(
                {
                    "value": quantity(value.value, value.unit),
                    "ratio": ratio,
                    "note": f"{interval(value)} · {labels.share(case)}",
                }
            )
    return {"suite": first.suite, "kind": first.kind, "variant": first.variant, "parameters": text, "cells": cells}


def _ratio(base, value) -> str:
    """Speed-up over the first result: > 1 is faster, whatever the metric's direction."""
    if not base.value > 0 or not value.value > 0:
        return NONE
    ratio = base.value / value.value if value.unit == "ns" else value.value / base.value
    return f"{significant(ratio, 3)}×"
