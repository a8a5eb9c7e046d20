"""Measured ceilings as roofs, cases as points."""

from __future__ import annotations

from .. import series as pick
from .. import style
from ..load import Result
from ..style import CEILING, SURFACE, drawable
from ..units import quantity
from .figure import Drawing, color, grid, legend, legend_rows, marker


def _roofline_figure(rows: list, width: str, t):
    rows_below = max(legend_rows([p[0] for p in r.points] + [f"{p[0]}: 000.0 GB/s" for p in r.roofs]) for r in rows)
    figure, axes = grid(len(rows), 2, width, 3.5 + 0.19 * rows_below)
    for ax, row in zip(axes, rows, strict=True):
        xs = [x for _, points in row.points for x, _ in points]
        ys = [y for _, points in row.points for _, y in points]
        top = row.tops[0][1] if row.tops else max(ys) * 2
        ridges = [top / bandwidth for _, bandwidth in row.roofs]
        left, right = min([*xs, *ridges]) / 4, max([*xs, *ridges]) * 6
        ax.set(xscale="log", yscale="log", xlim=(left, right), ylim=(min(ys) / 3, top * 6))
        for label, rate in row.tops:
            ax.plot([min(ridges, default=left), right], [rate, rate], color=CEILING[0], linewidth=1.3)
            ax.annotate(
                drawable(f"{label}: {quantity(rate, 'flops_per_s', 3)}"),
                xy=(right, rate),
                ha="right",
                va="bottom",
                fontsize=8,
                xytext=(-3, 2),
                textcoords="offset points",
                color=CEILING[0],
            )
        shades = ((0, ()), (0, (6, 2)), (0, (4, 2, 1, 2)), (0, (1.5, 1.5)))
        for index, (label, bandwidth) in enumerate(row.roofs):
            ax.plot(
                [left, top / bandwidth],
                [left * bandwidth, top],
                color=CEILING[0],
                linewidth=1.2,
                linestyle=shades[min(index, 3)],
                label=drawable(f"{label}: {quantity(bandwidth, 'bytes_per_s', 3)}"),
            )
        for index, (label, points) in enumerate(row.points):
            ax.plot(
                *zip(*points, strict=True),
                linestyle="none",
                marker=marker(index),
                color=color(index),
                markersize=6,
                markeredgecolor=SURFACE[0],
                markeredgewidth=0.6,
                label=drawable(label),
                zorder=3,
            )
        style.decade_ticks(ax.yaxis, "flops_per_s", *ax.get_ylim())
        style.decade_ticks(ax.xaxis, "", 1, 1e9)
        ax.set_title(drawable(f"{row.device}: {row.model}"))
        ax.set_xlabel(t("axis.intensity"))
        legend(ax)
    return figure


def draw(result: Result, cases: list, t) -> Drawing | None:
    """Measured ceilings as roofs, cases as points; None where no case does arithmetic."""
    rows = pick.rooflines(result, cases, t)
    if not rows:
        return None
    parts = []
    for row in rows:
        label, points = row.points[0]
        best = max(y for _, y in points)
        if row.tops:
            parts.append(
                t(
                    "finding_roofline",
                    device=row.device,
                    label=label,
                    value=quantity(best, "flops_per_s"),
                    roof=row.tops[0][0],
                    top=quantity(row.tops[0][1], "flops_per_s"),
                )
            )
        else:
            parts.append(t("finding_roofless", device=row.device, label=label, value=quantity(best, "flops_per_s")))
    return Drawing(" ".join(parts), lambda width: _roofline_figure(rows, width, t))
