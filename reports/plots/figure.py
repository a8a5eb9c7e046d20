"""What all plots share: a drawing with its sentence, a grid of panels, legends, colours, and the files. Each plot is
drawn twice, wide and narrow: a phone does not shrink a wide picture's text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from .. import style
from ..errors import EnvironmentProblem
from ..style import CEILING, MARKERS, NARROW, SERIES, SIZES, SURFACE, WIDE, drawable
from ..units import quantity

PANEL_POINTS = 290  # width of one panel's legend, wide and narrow drawing alike


@dataclass(frozen=True)
class Drawing:
    """What a plot's function hands back: the sentence computed from the data, and the figure for a width."""

    finding: str
    make: Callable


@dataclass
class Plot:
    """A drawn plot: inline SVG by width, and what it shows in words."""

    name: str
    title: str
    finding: str
    svg: dict


def color(index: int) -> str:
    return SERIES[index % len(SERIES)][0]


def marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def text_inches(text: str, points: float) -> float:
    """Width of a text, about: 0.6 of its size a letter, twice that for a wide one."""
    return sum(2 if ord(c) > 0x2E80 else 1 for c in text) * points * 0.6 / 72


def wrapped(text: str, room: float, points: float) -> list:
    """The text in as many lines as it takes, cut behind commas and semicolons; `room` in inches."""
    lines = [""]
    for word in re.split(r"(?<=[,;:]) ", text):
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and text_inches(longer, points) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


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


def columns_of(entries: list, room: float = PANEL_POINTS) -> int:
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
            ncols=columns_of(entries, 2 * PANEL_POINTS if alone else PANEL_POINTS),
            borderaxespad=0,
            handlelength=1.8,
            columnspacing=1.2,
            labelspacing=0.35,
        )


def legend_rows(entries: list) -> int:
    return -(-len(entries) // columns_of(entries))


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


def ceiling_lines(ax, panel, drawn: list) -> None:
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


def save(name: str, title: str, finding: str, make, folder: Path) -> Plot:
    """Draws both widths; writes the wide one as PNG and SVG files."""
    svg = {}
    for width in (WIDE, NARROW):
        plt.rcParams["svg.hashsalt"] = f"assay-{name}-{width}"
        figure = make(width)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        text = buffer.getvalue()
        figure.set_layout_engine("none")  # the files below take the layout as it stands
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
