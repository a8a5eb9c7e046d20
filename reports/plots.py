"""Draws the plots. Each is drawn twice, wide and narrow: a phone does not shrink a wide picture's text."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from . import series as pick
from . import style
from .errors import EnvironmentProblem
from .load import Result
from .style import CEILING, MARKERS, NARROW, SERIES, SIZES, SURFACE, WIDE, drawable
from .units import percent, quantity

PANEL_POINTS = 290  # width of one panel's legend, wide and narrow drawing alike


@dataclass
class Plot:
    """A drawn plot: inline SVG by width, and what it shows in words."""

    name: str
    title: str
    finding: str
    svg: dict


def _color(index: int) -> str:
    return SERIES[index % len(SERIES)][0]


def _marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def grid(panels: int, columns: int, width: str, height: float):
    """Figure with panels * columns axes; one column on a phone."""
    columns = min(columns, panels) if width == WIDE else 1
    rows = -(-panels // columns)
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, layout="constrained", figsize=(SIZES[width], rows * height)
    )
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.08, hspace=0.04, wspace=0.04)
    flat = list(axes.flat)
    for spare in flat[panels:]:
        spare.set_visible(False)
    return figure, flat[:panels]


def _columns(entries: list, room: float = PANEL_POINTS) -> int:
    """Columns of the legend: as many as their text fits into the room, in points; at most four."""
    widest = max((sum(2 if ord(c) > 0x2E80 else 1 for c in text) for text in entries), default=0)
    return max(1, min(4, len(entries), int(room / (36 + 5.3 * widest))))


def legend(ax) -> None:
    """Below the axes, so that no point is hidden."""
    _, entries = ax.get_legend_handles_labels()
    alone = ax.get_subplotspec().get_gridspec().ncols == 1 and ax.figure.get_figwidth() > SIZES[NARROW]
    if entries:
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.2),
            ncols=_columns(entries, 2 * PANEL_POINTS if alone else PANEL_POINTS),
            borderaxespad=0,
            handlelength=1.8,
            columnspacing=1.2,
            labelspacing=0.35,
        )


def _legend_rows(entries: list) -> int:
    return -(-len(entries) // _columns(entries))


def _free_side(lines: list, low: float, high: float) -> str:
    """Left or right: where the drawn lines pass less often between two heights."""
    found = {"left": 0, "right": 0}
    start, end = (f(x for x, _ in (p for line in lines for p in line)) for f in (min, max))
    for points in lines:
        x, y = (np.log([p[i] for p in points]) for i in (0, 1))
        grid = np.linspace(np.log(start), np.log(end), 81)
        heights = np.interp(grid, x, y, left=np.nan, right=np.nan)
        hit = (heights > np.log(low)) & (heights < np.log(high))
        found["left"] += int(hit[:45].sum())
        found["right"] += int(hit[-45:].sum())
    return "left" if found["left"] <= found["right"] else "right"


def _ceiling_groups(panel, gap: float) -> list:
    """(value, labels) from the top: ceilings so close that their labels would touch share one."""
    groups = []
    for label, value in panel.ceilings:
        text = drawable(f"{label}: {quantity(value, panel.unit, 3)}")
        if groups and value * gap ** len(groups[-1][1]) > groups[-1][0]:
            groups[-1][1].append(text)
        else:
            groups.append((value, [text]))
    return groups


def _label_gap(ax) -> float:
    """Ratio of values that one line of small text spans on the logarithmic axis."""
    low, high = ax.get_ylim()
    return (high / low) ** 0.07


def _ceiling_lines(ax, panel, drawn: list) -> None:
    """Dashed. Labels stand above their line on the side with more room."""
    for _, value in panel.ceilings:
        ax.axhline(value, color=CEILING[0], linewidth=1.1, linestyle=(0, (5, 2)), zorder=1.5)
    for _ in range(2 if panel.ceilings else 0):  # the labels of the highest ceiling need room inside the axes
        low, high = ax.get_ylim()
        gap = _label_gap(ax)
        value, texts = _ceiling_groups(panel, gap)[0]
        ax.set_ylim(low, max(high, value * gap ** (len(texts) + 0.3)))
    gap = _label_gap(ax)
    for value, texts in _ceiling_groups(panel, gap):
        side = _free_side(drawn, value / gap**0.1, value * gap ** len(texts)) if drawn else "left"
        ax.annotate(
            "\n".join(texts),
            xy=(0.012 if side == "left" else 0.988, value),
            va="bottom",
            ha=side,
            fontsize=8,
            xycoords=("axes fraction", "data"),
            xytext=(0, 1.5),
            textcoords="offset points",
            color=CEILING[0],
            zorder=4,
            linespacing=1.1,
            bbox={"boxstyle": "square,pad=0.05", "facecolor": SURFACE[0], "edgecolor": "none", "alpha": 0.75},
        )


def _draw_lines(ax, panel, width: str) -> None:
    """Metric over x with interval bars, log-log."""
    values, xs, drawn = [], [], []
    for index, line in enumerate(panel.lines):
        metrics = [c.metrics[panel.metric] for c in line.cases]
        y = np.array([m.value for m in metrics])
        low = np.array([m.value if m.low is None else m.low for m in metrics])
        high = np.array([m.value if m.high is None else m.high for m in metrics])
        keep = y > 0
        if not keep.any():
            continue
        x = np.array(line.x, dtype=float)[keep]
        bars = np.abs(np.vstack([np.minimum(y - low, y * 0.999), high - y]))[:, keep]
        ax.errorbar(x, y[keep], yerr=bars, fmt="none", ecolor=_color(index), elinewidth=1.1, capsize=2.2)
        ax.plot(
            x,
            y[keep],
            label=drawable(line.label),
            color=_color(index),
            marker=_marker(index),
            markeredgecolor=SURFACE[0],
            markeredgewidth=0.6,
            linestyle="-" if index < len(SERIES) else ":",
        )
        drawn.append(list(zip(x, y[keep], strict=True)))
        values += list(y[keep])
        xs += list(x)
    if not values:
        return
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    span = [*values, *(v for _, v in panel.ceilings)]
    low, high = min(span), max(span)
    pad = max((high / low) ** 0.07, 1.25)
    ax.set_ylim(low / pad, high * pad * (1.3 if panel.ceilings else 1))
    style.doubling_ticks(ax.xaxis, min(xs), max(xs), panel.x_axis in ("bytes", "size"), width == NARROW)
    _ceiling_lines(ax, panel, drawn)
    style.decade_ticks(ax.yaxis, panel.unit, *ax.get_ylim())


def _draw_fractions(ax, panel, width: str, t) -> None:
    """Percent of each case's own limit over x."""
    xs, top = [], 1.0
    for index, line in enumerate(panel.lines):
        pairs = [(x, c.fraction) for x, c in zip(line.x, line.cases, strict=True) if c.fraction is not None]
        if pairs:
            ax.plot(
                *zip(*[(x, 100 * f) for x, f in pairs], strict=True),
                color=_color(index),
                marker=_marker(index),
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
        style.doubling_ticks(ax.xaxis, min(xs), max(xs), panel.x_axis in ("bytes", "size"), width == NARROW)


def _axis_title(name: str, t) -> str:
    return t.or_raw("axis", name)


def _suite_figure(panels: list, width: str, fractions: bool, t):
    columns = 2
    count = len(panels) * (2 if fractions else 1)
    legend_rows = max(_legend_rows([line.label for line in p.lines]) for p in panels)
    figure, axes = grid(count, columns, width, 3.2 + 0.19 * legend_rows)
    for index, panel in enumerate(panels):
        where = drawable(f"{panel.device}: {panel.model}")
        what = t("part." + panel.part) if panel.part else t.or_raw("metric", panel.metric)
        ax = axes[2 * index if fractions else index]
        _draw_lines(ax, panel, width)
        ax.set_title(where + "\n" + what)
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


def _roofline_figure(rows: list, width: str, t):
    legend_rows = max(_legend_rows([p[0] for p in r.points] + [f"{p[0]}: 000.0 GB/s" for p in r.roofs]) for r in rows)
    figure, axes = grid(len(rows), 2, width, 3.5 + 0.19 * legend_rows)
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
                marker=_marker(index),
                color=_color(index),
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


def save(name: str, title: str, finding: str, make, folder: Path) -> Plot:
    """Draws both widths; writes the wide one as PNG and SVG files."""
    svg = {}
    for width in (WIDE, NARROW):
        plt.rcParams["svg.hashsalt"] = f"assay-{name}-{width}"
        figure = make(width)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        text = buffer.getvalue()
        svg[width] = style.inline_svg(text, f"{name}-{width}", title, finding)
        if width == WIDE:
            try:
                (folder / f"{name}.svg").write_text(style.standalone_svg(text, title, finding), encoding="utf-8")
                figure.savefig(folder / f"{name}.png", dpi=160, metadata={"Software": None})
            except OSError as error:
                raise EnvironmentProblem(
                    f"{folder}: cannot be written ({error.strerror}); name another -o DIR"
                ) from None
        plt.close(figure)
    return Plot(name, title, finding, svg)


def _suite_finding(panels: list, t) -> str:
    """The best case of each panel in one sentence, with its share of the limit."""
    parts = []
    for panel in panels:
        if panel.part == "build":
            continue
        cases = [(line.label, x, c) for line in panel.lines for x, c in zip(line.x, line.cases, strict=True)]
        label, x, case = max(cases, key=lambda row: pick.best_by(row[2], panel.metric))
        value = quantity(case.metrics[panel.metric].value, panel.unit)
        at = pick.labels.parameter(panel.x_axis, x, t)
        key = "finding_best" if case.fraction is None else "finding_best_limit"
        parts.append(t(key, device=panel.device, label=label, value=value, at=at, percent=percent(case.fraction)))
    return " ".join(parts)


def suite_plot(result: Result, suite: str, folder: Path, t, prefix: str = "") -> Plot | None:
    """Lines by size of one suite; None where nothing varies or nothing is done."""
    panels = pick.panels(result, suite, t)
    if not panels:
        return None
    title = t.or_raw("plot", suite)
    title = title if title != suite else t("plot_generic", suite=suite)
    fractions = suite == "matmul" and any(
        c.fraction is not None for p in panels for line in p.lines for c in line.cases
    )
    name = prefix + "".join(c if c.isascii() and c.isalnum() else "_" for c in suite)
    return save(
        name, title, _suite_finding(panels, t), lambda width: _suite_figure(panels, width, fractions, t), folder
    )


def roofline_plot(result: Result, folder: Path, t, prefix: str = "") -> Plot | None:
    """Measured ceilings as roofs, cases as points; None where no case does arithmetic."""
    rows = pick.rooflines(result, t)
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
    return save(
        prefix + "roofline", t("plot.roofline"), " ".join(parts), lambda w: _roofline_figure(rows, w, t), folder
    )
