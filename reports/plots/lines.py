"""Lines by size: a suite's own metric over the parameter that varies most, with ceilings, and share of the limit."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from .. import labels, style
from .. import series as pick
from ..load import Result
from ..style import CEILING, MUTED, NARROW, SERIES, SURFACE, drawable
from ..units import percent, quantity
from .figure import Drawing, ceiling_lines, color, grid, legend, legend_rows, marker


def draw_lines(ax, panel, width: str) -> None:
    """Metric over x with interval bars, log-log."""
    values, xs, drawn = [], [], []
    for index, line in enumerate(panel.lines):
        metrics = line.values
        y = np.array([m.value for m in metrics])
        low = np.array([m.value if m.low is None else m.low for m in metrics])
        high = np.array([m.value if m.high is None else m.high for m in metrics])
        keep = y > 0
        if not keep.any():
            continue
        x = np.array(line.x, dtype=float)[keep]
        bars = np.abs(np.vstack([np.minimum(y - low, y * 0.999), high - y]))[:, keep]
        ax.errorbar(x, y[keep], yerr=bars, fmt="none", ecolor=color(index), elinewidth=1.1, capsize=2.2)
        ax.plot(
            x,
            y[keep],
            label=drawable(line.label),
            color=color(index),
            marker=marker(index),
            markeredgecolor=SURFACE[0],
            markeredgewidth=0.6,
            linestyle="-" if index < len(SERIES) else ":",
        )
        drawn.append(list(zip(x, y[keep], strict=True)))
        values += [*(y[keep] - bars[0]), *(y[keep] + bars[1])]
        xs += list(x)
    if not values:
        return
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    span = [*values, *(v for _, v in panel.ceilings)]
    low, high = min(span), max(span)
    pad = max((high / low) ** 0.07, 1.25)
    ax.set_ylim(low / pad, high * pad * (1.3 if panel.ceilings else 1))
    style.doubling_ticks(ax.xaxis, min(xs), max(xs), panel.x_axis in labels.BYTES, width == NARROW)
    ceiling_lines(ax, panel, drawn)
    _marks(ax, panel, min(xs), max(xs))
    style.decade_ticks(ax.yaxis, panel.unit, *ax.get_ylim())


def _marks(ax, panel, low: float, high: float) -> None:
    """Dotted uprights where a capacity ends, named at the top, those within the drawn range."""
    for label, x in panel.marks:
        if low <= x <= high:
            ax.axvline(x, color=MUTED[0], linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
            ax.annotate(
                drawable(label),
                xy=(x, 1),
                xycoords=("data", "axes fraction"),
                xytext=(-2, -2),
                textcoords="offset points",
                rotation=90,
                va="top",
                ha="right",
                fontsize=8,
                color=MUTED[0],
                zorder=4,
                bbox={"boxstyle": "square,pad=0.05", "facecolor": SURFACE[0], "edgecolor": "none", "alpha": 0.75},
            )


def _draw_fractions(ax, panel, width: str, t) -> None:
    """Percent of each case's own limit over x."""
    xs, top = [], 1.0
    for index, line in enumerate(panel.lines):
        pairs = [(x, c.fraction) for x, c in zip(line.x, line.cases, strict=True) if c.fraction is not None]
        if pairs:
            ax.plot(
                *zip(*[(x, 100 * f) for x, f in pairs], strict=True),
                color=color(index),
                marker=marker(index),
                markeredgecolor=SURFACE[0],
                markeredgewidth=0.6,
                label=drawable(line.label),
            )
            xs += [x for x, _ in pairs]
            top = max(top, *(f for _, f in pairs))
    ax.axhline(100, color=CEILING[0], linewidth=1.1, linestyle=(0, (5, 2)), zorder=1.5)
    ax.annotate(
        t("plot_limit_100"),
        xy=(0.012, 100),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        va="bottom",
        fontsize=8,
        color=CEILING[0],
    )
    ax.set_ylim(0, max(112, 106 * top))
    ax.yaxis.set_major_formatter(plt.FuncFormatter(lambda v, _: f"{v:g}%"))
    ax.set_xscale("log", base=2)
    if xs:
        style.doubling_ticks(ax.xaxis, min(xs), max(xs), panel.x_axis in labels.BYTES, width == NARROW)


def _axis_title(name: str, t) -> str:
    return t.or_raw("axis", name)


def lines_figure(panels: list, width: str, t, fractions: bool = False):
    """One panel of lines for each of `panels`, and with `fractions` its cases' shares of their limits beside it."""
    count = len(panels) * (2 if fractions else 1)
    rows = max(legend_rows([line.label for line in p.lines]) for p in panels)
    figure, axes = grid(count, 2, width, 3.2 + 0.19 * rows)
    for index, panel in enumerate(panels):
        where = drawable(f"{panel.device}: {panel.model}")
        what = t("part." + panel.part) if panel.part else panel.what or t.or_raw("metric", panel.metric)
        ax = axes[2 * index if fractions else index]
        draw_lines(ax, panel, width)
        ax.set_title(where + "\n" + drawable(what))
        ax.set_xlabel(drawable(_axis_title(panel.x_axis, t)))
        legend(ax)
        if fractions:
            other = axes[2 * index + 1]
            _draw_fractions(other, panel, width, t)
            other.set_title(where + "\n" + t("metric.fraction"))
            other.set_xlabel(drawable(_axis_title(panel.x_axis, t)))
            if width == NARROW:
                legend(other)
    return figure


def best_finding(panels: list, t) -> str:
    """The best case of each panel in one sentence, with its share of the limit."""
    parts = []
    for panel in panels:
        if panel.part == "build":
            continue
        cases = [
            (line.label, *row) for line in panel.lines for row in zip(line.x, line.cases, line.values, strict=True)
        ]
        label, x, case, metric = max(cases, key=lambda row: pick.best(row[3]))
        value = quantity(metric.value, panel.unit)
        at = labels.parameter(panel.x_axis, x, t)
        key = "finding_best" if case.fraction is None else "finding_best_limit"
        parts.append(t(key, device=panel.device, label=label, value=value, at=at, percent=percent(case.fraction)))
        if panel.left_out:
            parts.append(t("finding_left_out", device=panel.device, n=panel.left_out))
    return " ".join(parts)


def draw(result: Result, cases: list, t) -> Drawing | None:
    """Lines of one suite; None where nothing varies or nothing is done."""
    panels = pick.panels(result, cases[0].suite, t)
    if not panels:
        return None
    fractions = cases[0].suite == "matmul" and any(
        c.fraction is not None for p in panels for line in p.lines for c in line.cases
    )
    return Drawing(best_finding(panels, t), lambda width: lines_figure(panels, width, t, fractions))
