"""The plots of a report, made by a table: one row a plot. A plot appears only where its cases exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import summary
from ..load import Case, Result
from . import costs, inference, ladder, lines, memory, offload, roofline, telemetry, waterfall
from .figure import Plot, save


@dataclass(frozen=True)
class Select:
    """Cases by fields, never by the text of an id: those that are done, or all ceilings."""

    suite: str = ""  # "": of every suite
    variants: tuple = ()  # (): all
    where: tuple = ()  # (parameter, values it may have)
    ceilings: bool = False  # measured or not: a missing one is shown as missing

    def __call__(self, result: Result) -> list:
        if self.ceilings:
            return result.ceilings
        return [c for c in result.cases if c.done and self._takes(c)]

    def _takes(self, case: Case) -> bool:
        return (
            self.suite in ("", case.suite)
            and (not self.variants or case.variant in self.variants)
            and all(str(case.parameters.get(name)) in values for name, values in self.where)
        )


@dataclass(frozen=True)
class Row:
    """`draw`(result, cases, texts) -> Drawing, or None where these cases make no picture. The title is `plot.NAME`."""

    name: str
    select: Select
    draw: Callable
    needs_cases: bool = True


BANDWIDTH = ("read", "write", "triad")
PATTERNS = tuple(row[0] for row in memory.PATTERNS)
WARM = (("cache", ("warm", "None")),)

TABLE = (
    Row("roofline", Select(), roofline.draw),
    Row("ladder", Select("matmul", where=WARM), ladder.draw),
    Row("matmul", Select("matmul"), lines.draw),
    Row("memory_latency", Select("memory", ("chase",)), memory.draw_latency),
    Row("memory_levels", Select(ceilings=True), memory.draw_levels),
    Row("memory_sweep", Select("memory", BANDWIDTH), memory.draw_sweep),
    Row("memory_patterns", Select("memory", PATTERNS), memory.draw_patterns),
    Row("memcpy", Select("memcpy"), lines.draw),
    Row("launch", Select("launch"), lines.draw),
    Row("alloc", Select("alloc", where=WARM), costs.draw),
    Row("offload", Select("offload", where=WARM), offload.draw),
    Row("inference_waterfall", Select("inference"), waterfall.draw),
    Row("inference_rungs", Select("inference"), inference.draw_rungs),
    Row("inference_lengths", Select("inference"), inference.draw_lengths),
    Row("inference_batches", Select("inference"), inference.draw_batches),
    Row("inference_devices", Select("inference"), inference.draw_devices),
    Row("telemetry", Select(), telemetry.draw, needs_cases=False),
)


def _rows(result: Result) -> list:
    """The table, and lines by size for every suite that it does not know, before the telemetry."""
    known = {row.select.suite for row in TABLE}
    others = [Row(suite, Select(suite), lines.draw) for suite in summary.suites(result) if suite not in known]
    return [*TABLE[:-1], *others, TABLE[-1]]


def _title(row: Row, t) -> str:
    title = t.or_raw("plot", row.name)
    return title if title != row.name else t("plot_generic", suite=row.name)


def draw_all(result: Result, folder: Path, t, prefix: str = "") -> list:
    """Every plot that this result has cases for, in the table's order; files go into `folder`."""
    out: list[Plot] = []
    for row in _rows(result):
        cases = row.select(result)
        drawing = row.draw(result, cases, t) if cases or not row.needs_cases else None
        if drawing is not None:
            name = prefix + "".join(c if c.isascii() and c.isalnum() else "_" for c in row.name)
            out.append(save(name, _title(row, t), drawing.finding, drawing.make, folder))
    return out
