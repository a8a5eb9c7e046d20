"""The breakdown of one operation into stages, as an instrumented pass saw it: typed records of `parts` and `breakdown`.

Of a phase and path that stands in several rows, those with a layer add up to the one without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A stage of one operation, from the instrumented pass. `layer` None: summed over layers, or outside of them.
    `total_ns` is over all operations of the pass; `floor_share` is floor / time, None where no floor is known."""

    phase: str
    path: str
    layer: int | None
    where: str
    source: str
    count: int
    total_ns: float
    mean_ns: float
    p50_ns: float | None
    p99_ns: float | None
    bytes: float | None
    flops: float | None
    floor_share: float | None


@dataclass(frozen=True)
class Breakdown:
    """What the parts close against, each of one operation."""

    series_ns: float  # end to end, without instrumentation
    instrumented_ns: float  # end to end, with it: attributed + unattributed
    attributed_ns: float
    unattributed_ns: float
    instrumentation_ns: float  # instrumented - series
    operations: float


@dataclass(frozen=True)
class Stage:
    """One phase and path of a case, summed over layers; `ns` is of one operation."""

    phase: str
    path: str
    where: str
    source: str
    count: int
    ns: float
    mean_ns: float
    p50_ns: float | None
    p99_ns: float | None
    bytes: float | None
    flops: float | None
    floor_share: float | None

    @property
    def is_gap(self) -> bool:
        """`gap/norm`, `gap.norm`: the time before a kernel."""
        return re.split(r"[./]", self.path)[0] == "gap"


def stages(case_parts: list, operations: float) -> list:
    """Stages in the order of the result; parts do not overlap, so that they add up. Percentiles stand where one row
    holds all layers."""
    rows = {}
    for part in case_parts:
        rows.setdefault((part.phase, part.where, part.path), []).append(part)
    out = []
    for held in rows.values():
        whole = [p for p in held if p.layer is None]
        out.append(_stage(whole or held, operations))
    return out


def _total(values: list) -> float | None:
    return None if any(v is None for v in values) else sum(values)


def _stage(held: list, operations: float) -> Stage:
    first, total = held[0], sum(p.total_ns for p in held)
    count = sum(p.count for p in held)
    floors = [None if p.floor_share is None else p.floor_share * p.total_ns for p in held]
    floor = _total(floors)
    alone = len(held) == 1
    return Stage(
        first.phase,
        first.path,
        first.where,
        first.source,
        count,
        total / operations,
        total / count if count else 0.0,
        first.p50_ns if alone else None,
        first.p99_ns if alone else None,
        _total([p.bytes for p in held]),
        _total([p.flops for p in held]),
        floor / total if floor is not None and total > 0 else None,
    )


def parts(reader, record: dict, where: str) -> list:
    """Every row of a case; a result older than the breakdown has none."""
    if "parts" not in record:
        return []
    rows = reader.take(record, "parts", list, where)
    return [_part(reader, row, f"{where}.parts[{i}]") for i, row in enumerate(rows)]


def _part(reader, record: dict, where: str) -> Part:
    take, number = reader.take, reader.number
    words = {key: take(record, key, str, where) for key in ("phase", "path", "where", "source")}
    known = {key: number(record, key, where) for key in ("p50_ns", "p99_ns", "bytes", "flops")}
    share = number(record, "percent_of_floor", where)
    return Part(
        **words,
        **known,
        layer=take(record, "layer", (int, type(None)), where),
        count=take(record, "count", int, where),
        total_ns=float(take(record, "total_ns", (int, float), where)),
        mean_ns=float(take(record, "mean_ns", (int, float), where)),
        floor_share=None if share is None else share / 100,
    )


def breakdown(reader, record: dict, where: str) -> Breakdown | None:
    found = record.get("breakdown")
    if found is None:
        return None
    where += ".breakdown"
    keys = ("series_ns", "instrumented_ns", "attributed_ns", "unattributed_ns", "instrumentation_ns", "operations")
    values = {key: float(reader.take(found, key, (int, float), where)) for key in keys}
    for key in ("series_ns", "instrumented_ns", "operations"):
        if not values[key] > 0:
            reader.fail(f"{where}.{key} is {values[key]:g}, not above 0")
    return Breakdown(**values)
