"""Horizontal bars in groups: one row a bar, its figure written beside it, a limit as a dashed upright of its group."""

from __future__ import annotations

import math
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from .. import style
from ..style import CEILING, INK, MUTED, NARROW, SIZES, SURFACE, drawable
from .figure import color, text_inches, wrapped

ROW = 0.235  # inches of one row of bars
# Points: titles of panels, names of bars, titles of groups, figures beside the bars.
TITLE, NAME, HEADING, SMALL = 10.5, 9.5, 8.5, 8.0


@dataclass(frozen=True)
class Bar:
    """`value` None: nothing was measured, and `text` says why."""

    label: str
    value: float | None
    text: str
    low: float | None = None
    high: float | None = None
    paint: int | None = None  # index of its colour; None: that of its group


@dataclass(frozen=True)
class Group:
    title: str  # stands in a row of its own; "" for none
    bars: list
    limit: float | None = None


@dataclass(frozen=True)
class BarPanel:
    title: str
    groups: list
    axis: str
    unit: str  # of the ticks: a unit of units.py, or "%" for shares
    log: bool = False
    base: float | None = None  # a solid upright through all groups: what 100% means

    def room(self, width: str) -> float:
        """Inches from the names of the bars to the right edge."""
        names = max((text_inches(b.label, NAME) for g in self.groups for b in g.bars), default=0)
        return max(1.0, SIZES[width] - names - 0.4)

    def headings(self, width: str) -> list:
        """The lines of each group's title; each line takes a row."""
        return [wrapped(drawable(g.title), self.room(width), HEADING) if g.title else [] for g in self.groups]

    def rows(self, width: str) -> int:
        return sum(len(g.bars) for g in self.groups) + sum(len(lines) for lines in self.headings(width))

    @property
    def ends(self) -> list:
        """All that must lie within the axis."""
        bars = [b for g in self.groups for b in g.bars if b.value is not None]
        values = [x for b in bars for x in (b.value, b.low, b.high) if x is not None and x > 0]
        return values + [g.limit for g in self.groups if g.limit] + ([self.base] if self.base else [])


def bars_figure(panels: list, width: str):
    """Panels one under another, each as high as its rows need."""
    rows = [p.rows(width) for p in panels]
    heights = [n * ROW + 0.75 for n in rows]
    figure, axes = plt.subplots(
        len(panels),
        1,
        squeeze=False,
        layout="constrained",
        figsize=(SIZES[width], sum(heights)),
        gridspec_kw={"height_ratios": rows},
    )
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.08, hspace=0.02)
    for ax, panel in zip(axes.flat, panels, strict=True):
        _draw(ax, panel, width)
    return figure


def _limits(panel: BarPanel, width: str) -> tuple:
    """Ends of the axis: each bar has room for its figures to the right of it."""
    bars = [b for g in panel.groups for b in g.bars]
    points = [x for b in bars if b.value is not None for x in (b.value, b.low, b.high) if x is not None and x > 0]
    lines = [g.limit for g in panel.groups if g.limit] + ([panel.base] if panel.base else [])
    low = min(points, default=1.0) / 2 if panel.log else 0.0
    high = max([*points, *lines], default=1.0) * 1.02
    for bar in bars:
        end = max(x for x in (low, bar.value, bar.high) if x is not None)
        left = 1 - min(0.75, (text_inches(bar.text, SMALL) + 0.15) / panel.room(width))  # share of the axis before it
        needed = low * math.exp(math.log(end / low) / left) if panel.log else end / left
        high = max(high, needed)
    return low, high


def _draw(ax, panel: BarPanel, width: str) -> None:
    low, high = _limits(panel, width)
    if panel.log:
        ax.set_xscale("log")
    ax.set_xlim(low, high)
    places, names, row = [], [], 0
    for index, (group, heading) in enumerate(zip(panel.groups, panel.headings(width), strict=True)):
        for line in heading:
            _heading(ax, line, row)
            row += 1
        first = row
        for bar in group.bars:
            _bar(ax, bar, row, low, color(index if bar.paint is None else bar.paint))
            places.append(row)
            names.append(drawable(bar.label))
            row += 1
        if group.limit:
            span = [first - 0.5, row - 0.5]
            ax.plot([group.limit] * 2, span, color=CEILING[0], linewidth=1.3, linestyle=(0, (4, 2)), zorder=2.5)
    if panel.base:
        ax.axvline(panel.base, color=MUTED[0], linewidth=0.9, zorder=1)
    ax.set_ylim(row - 0.4, -0.6)
    ax.set_yticks(places, names)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.set_title("\n".join(wrapped(drawable(panel.title), panel.room(width), TITLE)))
    ax.set_xlabel(drawable(panel.axis))
    _ticks(ax, panel, low, high, width)


def _ticks(ax, panel: BarPanel, low: float, high: float, width: str) -> None:
    if panel.log:
        style.decade_ticks(ax.xaxis, panel.unit, low, high, sparse=width == NARROW)
    elif panel.unit == "%":
        ax.xaxis.set_major_locator(plt.MaxNLocator(4 if width == NARROW else 8, steps=[1, 2, 2.5, 5, 10]))
        ax.xaxis.set_major_formatter(plt.FuncFormatter(lambda v, _: f"{v:g}%"))
    else:
        ax.xaxis.set_major_locator(plt.MaxNLocator(3 if width == NARROW else 7))
        ax.xaxis.set_major_formatter(plt.FuncFormatter(style.with_unit(panel.unit)))


def _heading(ax, line: str, row: int) -> None:
    ax.annotate(
        line,
        xy=(0, row + 0.1),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=HEADING,
        color=INK[0],
        zorder=4,
    )


def _bar(ax, bar: Bar, row: int, low: float, paint: str) -> None:
    if bar.value is not None:
        ax.barh(row, bar.value - low, left=low, height=0.68, color=paint, zorder=2)
        if bar.low is not None and bar.high is not None:
            ends = np.array([[max(bar.value - bar.low, 0)], [max(bar.high - bar.value, 0)]])
            ax.errorbar([bar.value], [row], xerr=ends, fmt="none", ecolor=INK[0], elinewidth=1.0, capsize=2.0, zorder=3)
    ax.annotate(
        drawable(bar.text),
        xy=(max(x for x in (low, bar.value, bar.high) if x is not None), row),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL,
        color=INK[0] if bar.value is not None else MUTED[0],
        zorder=4,
        bbox={"boxstyle": "square,pad=0.05", "facecolor": SURFACE[0], "edgecolor": "none", "alpha": 0.8},
    )
