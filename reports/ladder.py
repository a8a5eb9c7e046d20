"""Rungs of a ladder: the variants of one operation at one size, in the catalogue's order, against one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import labels
from .load import Case, Metric, Result

# Variants that are a library's: what our own rungs are held against.
REFERENCES = ("openblas", "onednn", "cublas", "cublaslt", "cudnn")


@dataclass(frozen=True)
class Rung:
    case: Case
    ratio: Metric  # speed over the base's: 1 is as fast


@dataclass(frozen=True)
class Ladder:
    """Rungs of one device, type and so on, all of one size. `base` is the fastest reference, or the fastest rung where
    there is no reference. `limit` is the speed at the floor over the base's."""

    device: str
    fixed: dict  # the parameters that all rungs share
    rungs: list
    base: Case
    by_reference: bool
    limit: float | None
    limit_suspect: bool

    def best(self) -> Rung:
        """The fastest rung that is no reference; where all are, the fastest."""
        own = [r for r in self.rungs if r.case.variant not in REFERENCES] or self.rungs
        return max(own, key=lambda r: r.ratio.value)


def order(result: Result, suite: str, kind: str) -> list:
    """Names of the suite's variants for a kind of device, as the catalogue lists them."""
    for entry in result.plan["catalogue"]["suites"]:
        if entry["name"] == suite:
            return [v["name"] for v in entry.get("variants", []) if v.get("device") == kind]
    return []


def speed_ratio(case: Case, base: Case) -> Metric:
    """time(base) / time(case). The interval takes both times' relative half-widths, independent, in quadrature."""
    ours, theirs = case.metrics["time"], base.metrics["time"]
    value = theirs.value / ours.value
    if case is base:
        return Metric("", value, None, None)
    halves = [_log_half(m) for m in (ours, theirs)]
    if None in halves:
        return Metric("", value, None, None)
    half = math.hypot(*halves)
    return Metric("", value, value * math.exp(-half), value * math.exp(half))


def _log_half(metric: Metric) -> float | None:
    if metric.low is None or metric.high is None or not metric.low > 0:
        return None
    return math.log(metric.high / metric.low) / 2


def ladder(result: Result, cases: list, fixed: dict) -> Ladder | None:
    """One ladder from cases of one device and size; None below two rungs."""
    by_name = {}
    for case in cases:
        held = by_name.get(case.variant)
        if held is None or case.metrics["time"].value < held.metrics["time"].value:
            by_name[case.variant] = case
    if len(by_name) < 2:
        return None
    listed = order(result, cases[0].suite, cases[0].kind)
    ranked = sorted(by_name.values(), key=lambda c: listed.index(c.variant) if c.variant in listed else len(listed))
    references = [c for c in ranked if c.variant in REFERENCES]
    base = min(references or ranked, key=lambda c: c.metrics["time"].value)
    rungs = [Rung(c, speed_ratio(c, base)) for c in ranked]
    limited = [c for c in ranked if c.fraction]
    # Rungs on one thread and on all have their own floors: the lowest is what the machine could do.
    lowest = min(limited, key=_floor) if limited else None
    limit = None if lowest is None else base.metrics["time"].value / _floor(lowest)
    suspect = lowest is not None and lowest.ceiling_suspect
    return Ladder(cases[0].device, fixed, rungs, base, bool(references), limit, suspect)


def _floor(case: Case) -> float:
    return case.metrics["time"].value * case.fraction


def ladders(result: Result, cases: list, sizes: tuple, ignore: tuple = (), smallest: bool = False) -> list:
    """One ladder for each device and setting of the parameters other than `sizes`: of the sizes, the one with most
    rungs, of these the largest (or smallest). Of parameters in `ignore` the fastest setting counts."""
    sign = -1 if smallest else 1
    groups = {}
    for case in cases:
        fixed = tuple((k, v) for k, v in case.parameters.items() if k not in sizes and k not in ignore)
        at = tuple((k, case.parameters.get(k)) for k in sizes if k in case.parameters)
        groups.setdefault((case.device, fixed), {}).setdefault(at, []).append(case)
    out = []
    for (_, fixed), by_size in groups.items():
        at = max(by_size, key=lambda s: (len({c.variant for c in by_size[s]}), [sign * _number(v) for _, v in s]))
        made = ladder(result, by_size[at], dict(fixed) | dict(at))
        if made is not None:
            out.append(made)
    return out


def _number(value) -> float:
    return float(value) if labels.whole(value) is not None else 0.0
