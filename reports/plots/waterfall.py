"""Where the time of one operation goes: stages in order, each from where the one before it ended."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from .. import inference, labels, style
from ..load import Case, Result
from ..parts import stages
from ..style import CEILING, INK, MUTED, NARROW, SERIES, SIZES, SURFACE, drawable
from ..units import percent, quantity
from .bars import ROW, SMALL
from .figure import Drawing, text_inches, wrapped

TITLE = 9.5  # points
MOST_STAGES = 16  # beyond these the smallest are one row
PAINT = {"device": SERIES[0][0], "host": SERIES[1][0], "gap": SERIES[4][0], "rest": SURFACE[0]}


@dataclass(frozen=True)
class Row:
    label: str
    kind: str  # device, host, gap or rest
    ns: float
    floor_share: float | None = None


def rows(case: Case, t) -> list:
    """Stages in order, the gaps as one row, what is not attributed at the end."""
    found = stages(case.parts, case.breakdown.operations)
    own = [s for s in found if not s.is_gap]
    gaps = [s for s in found if s.is_gap]
    least = sorted((s.ns for s in own), reverse=True)[MOST_STAGES - 1] if len(own) > MOST_STAGES else 0.0
    shown = [s for s in own if s.ns >= least]
    small = [s for s in own if s.ns < least]
    out = [Row(s.path, "host" if s.where == "host" else "device", s.ns, s.floor_share) for s in shown]
    if small:
        out.append(Row(t("waterfall.smaller", n=len(small)), small[0].where, sum(s.ns for s in small)))
    if gaps:
        out.append(Row(t("waterfall.gaps", n=len(gaps)), "gap", sum(s.ns for s in gaps)))
    out.append(Row(t("waterfall.unattributed"), "rest", case.breakdown.unattributed_ns))
    return out


def chosen(cases: list) -> list:
    """For each device and phase the case to look at: the largest model (longest step) at its smallest batch, of its
    settings the one with most rungs, of these the fastest rung."""
    groups = {}
    for case in cases:
        if case.parts and case.breakdown and inference.phase(case) != "generate":  # that has the stages of two
            groups.setdefault((case.device, inference.phase(case)), []).append(case)
    out = []
    for group in groups.values():
        models = {}
        for case in group:
            models.setdefault(case.parameters.get("model"), []).append(case)
        held = max(
            (inference.smallest_batch(own) for own in models.values()),
            key=lambda own: inference.time_of(inference.fastest(own)),
        )
        settings = {}
        for case in held:
            settings.setdefault(inference.workload(case), []).append(case)
        most = max(settings.values(), key=lambda own: len({c.variant for c in own}))
        out.append(inference.fastest(most))
    return out


def draw(result: Result, cases: list, t) -> Drawing | None:
    picked = chosen(cases)
    if not picked:
        return None
    fallback = labels.defaults(result, inference.SUITE)
    panels, parts = [], []
    for case in picked:
        name = f"{case.device}: {case.variant}, {inference.label(case, fallback, t)}"
        drawn = rows(case, t)
        panels.append((name, case.breakdown, drawn))
        parts.append(_finding(case, name, drawn, t))
    return Drawing(" ".join(parts), lambda width: _figure(panels, width, t))


def _finding(case: Case, name: str, drawn: list, t) -> str:
    whole = case.breakdown.instrumented_ns
    longest = max((r for r in drawn if r.kind != "rest"), key=lambda r: r.ns)
    said = t(
        "finding_waterfall",
        name=name,
        total=quantity(case.breakdown.series_ns, "ns"),
        stage=longest.label,
        percent=percent(longest.ns / whole),
        rest=percent(case.breakdown.unattributed_ns / whole),
        cost=percent(case.breakdown.instrumentation_ns / case.breakdown.series_ns),
    )
    sum_ns, stated = sum(r.ns for r in drawn if r.kind != "rest"), case.breakdown.attributed_ns
    if abs(sum_ns - stated) > 0.01 * whole:
        said += " " + t("waterfall.open", sum=quantity(sum_ns, "ns"), stated=quantity(stated, "ns"))
    return said


def _figure(panels: list, width: str, t):
    counts = [len(drawn) for _, _, drawn in panels]
    figure, axes = plt.subplots(
        len(panels),
        1,
        squeeze=False,
        layout="constrained",
        figsize=(SIZES[width], sum(c * ROW + 0.8 for c in counts) + 0.35),
        gridspec_kw={"height_ratios": counts},
    )
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.08, hspace=0.02)
    for ax, (name, closes, drawn) in zip(axes.flat, panels, strict=True):
        _draw(ax, name, closes, drawn, width, t)
    kinds = [k for k in PAINT if any(r.kind == k for _, _, drawn in panels for r in drawn)]
    patches = [
        Patch(facecolor=PAINT[k], edgecolor=MUTED[0], hatch="////" if k == "rest" else None, label=t("waterfall." + k))
        for k in kinds
    ]
    patches.append(Patch(facecolor=INK[0], edgecolor=INK[0], label=t("waterfall.floor")))
    axes.flat[-1].legend(
        handles=patches,
        loc="upper left",
        bbox_to_anchor=(0, -0.45 / (counts[-1] * ROW)),
        ncols=2 if width == NARROW else 5,
        borderaxespad=0,
        handlelength=1.4,
    )
    return figure


def _draw(ax, name: str, closes, drawn: list, width: str, t) -> None:
    start = 0.0
    ends = [0.0, closes.series_ns]
    for item in drawn:
        ends += [start + item.ns, start + item.ns * (item.floor_share or 0)]
        start += item.ns
    reach = (min(ends), max(ends) * 1.01)
    start = 0.0
    room = SIZES[width] - max(text_inches(r.label, 9.5) for r in drawn) - 0.4
    for row, item in enumerate(drawn):
        end = start + item.ns
        rest = item.kind == "rest"
        ax.barh(
            row,
            item.ns,
            left=start,
            height=0.68,
            color=PAINT[item.kind],
            edgecolor=MUTED[0] if rest else "none",
            hatch="////" if rest else None,
            linewidth=0.6,
            zorder=2,
        )
        if item.floor_share is not None:
            ax.barh(row, item.ns * item.floor_share, left=start, height=0.2, color=INK[0], zorder=3)
        span = (start, end, start + item.ns * (item.floor_share or 0))
        _label(ax, item, row, span, closes.instrumented_ns, reach, room, t)
        start = end
    ax.axvline(closes.series_ns, color=CEILING[0], linewidth=1.2, linestyle=(0, (5, 2)), zorder=1.5)
    ax.set_xlim(*reach)
    ax.set_ylim(len(drawn) - 0.4, -0.6)
    ax.set_yticks(range(len(drawn)), [drawable(r.label) for r in drawn])
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_locator(plt.MaxNLocator(3 if width == NARROW else 8))
    ax.xaxis.set_major_formatter(plt.FuncFormatter(style.with_unit("ns")))
    title = wrapped(drawable(f"{name}: {quantity(closes.series_ns, 'ns', 3)}"), room, TITLE)
    ax.set_title("\n".join(title), fontsize=TITLE)


def _label(ax, item: Row, row: int, span: tuple, whole: float, reach: tuple, room: float, t) -> None:
    """On the side of the bar, and of its floor, with more room, in as many words as fit there."""
    words = [quantity(item.ns, "ns", 3), percent(item.ns / whole)]
    if item.floor_share is not None:
        words.append(t("waterfall.of_floor", percent=percent(item.floor_share)))
    low, high = min(span), max(span)
    before, behind = low - reach[0], reach[1] - high
    right = behind >= before
    free = room * max(before, behind) / (reach[1] - reach[0]) - 0.15
    while len(words) > 1 and text_inches(" · ".join(words), SMALL) > free:
        words.pop()
    ax.annotate(
        drawable(" · ".join(words)),
        xy=(high if right else low, row),
        xytext=(4 if right else -4, 0),
        textcoords="offset points",
        va="center",
        ha="left" if right else "right",
        fontsize=SMALL,
        color=INK[0],
        zorder=4,
        bbox={"boxstyle": "square,pad=0.05", "facecolor": SURFACE[0], "edgecolor": "none", "alpha": 0.8},
    )
