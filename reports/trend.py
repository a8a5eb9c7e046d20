"""The trend page: plots of what changed and of each group of cases, and a table of all. One self-contained file."""

from __future__ import annotations

import io
import math
from datetime import timedelta
from pathlib import Path

import jinja2
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np

from . import nightly_output as said
from . import style
from .changes import FEWEST_NIGHTS
from .errors import visible
from .nightly import Verdict
from .nightly_history import MOST_NIGHTS, Series
from .style import CEILING, MUTED, NARROW, SERIES, SIZES, SURFACE, WIDE, drawable
from .units import quantity, scale, significant

TEMPLATES = Path(__file__).parent / "templates"
MOST_PANELS = 24  # cases with a plot of their own
PANEL_HEIGHT = 2.5  # inches
ALERT, CALM = SERIES[1][0], SERIES[0][0]


def page(found: Verdict) -> str:
    dates = [night.date for night in found.nights[-MOST_NIGHTS:]]
    with style.plotting("en"):
        figures = [_changed(found, dates), *(_group(found, dates, *group) for group in _groups(found))]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda v: v if hasattr(v, "__html__") else visible(v) if isinstance(v, str) else v,
    )
    return environment.get_template("trend.html.j2").render(
        head=said.head_lines(found),
        alerts=len(found.alerts()),
        sections=said.sections(found),
        notes=found.notes + said.remedies(found),
        figures=[f for f in figures if f is not None],
        rows=[_row(found, one) for one in found.series.values()],
        tokens=style.TOKENS,
        css=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
    )


def _row(found: Verdict, one: Series) -> dict:
    """One case of the table."""
    alert = one.case in found.alerts()
    enough = len(one.values) >= FEWEST_NIGHTS
    first, last = one.segments.levels[0], one.segments.levels[-1]
    return {
        "case": one.case,
        "alert": alert,
        "nights": len(one.values),
        "last": quantity(one.values[-1], one.unit),
        "level": quantity(math.exp(last), one.unit),
        "since": said.change(math.exp(last - first)) if one.segments.changes else "",
        "noise": f"{100 * one.segments.sd:.2g}%" if enough else "",
        "state": "alert" if alert else "steady" if enough and not one.segments.changes else "" if enough else "young",
    }


# ---- figures ----


def _figure(name: str, title: str, caption: str, make) -> dict:
    svg = {}
    for width in (WIDE, NARROW):
        plt.rcParams["svg.hashsalt"] = f"assay-{name}-{width}"
        figure = make(width)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
        svg[width] = style.inline_svg(out.getvalue(), f"{name}-{width}", title, caption)
    return {"id": name, "title": title, "caption": caption, "svg": svg}


def _panels(count: int, columns: int, width: str):
    columns = min(columns, count) if width == WIDE else 1
    rows = -(-count // columns)
    size = (SIZES[width], rows * PANEL_HEIGHT + 0.1)
    figure, axes = plt.subplots(rows, columns, squeeze=False, layout="constrained", figsize=size)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.08)
    flat = list(axes.flat)
    for spare in flat[count:]:
        spare.set_visible(False)
    return figure, flat[:count]


def _date_axis(ax, dates: list, width: str) -> None:
    pad = max(timedelta(days=1), (dates[-1] - dates[0]) * 0.02)
    ax.set_xlim(dates[0] - pad, dates[-1] + pad)
    locator = mdates.AutoDateLocator(minticks=3, maxticks=5 if width == NARROW else 6)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))


def _changed(found: Verdict, dates: list) -> dict | None:
    """A panel for each case that changed or was called slower, alerts first."""
    names = list(dict.fromkeys([*found.alerts(), *(s.case for s in found.shifts), *(r.id for r in found.suspects)]))
    shown = [found.series[name] for name in names if name in found.series][:MOST_PANELS]
    if not shown:
        return None
    alerts = found.alerts()

    def make(width):
        figure, axes = _panels(len(shown), 2, width)
        for ax, one in zip(axes, shown, strict=True):
            _draw_case(ax, one, dates, one.case in alerts, found.base.date if found.base else None)
            _date_axis(ax, dates, width)
        return figure

    left = len(names) - len(shown)
    caption = (
        "Each dot is a night, its bar the 95% interval of that night's launches. Lines are the levels between changes; "
        "a dotted upright line marks a change, a dashed one the accepted baseline. Cases with an alert are orange."
    )
    return _figure("changed", "Cases that changed", caption + (f" {left} more are not drawn." if left else ""), make)


def _draw_case(ax, one: Series, dates: list, alert: bool, accepted) -> None:
    x = [dates[i] for i in one.nights]
    color = ALERT if alert else CALM
    divisor, unit = scale(one.values[-1], one.unit)
    y = np.array(one.values) / divisor
    known = [i for i, low in enumerate(one.lows) if low is not None]
    if known:
        ends = [[one.lows[i] / divisor for i in known], [one.highs[i] / divisor for i in known]]
        ax.vlines([x[i] for i in known], *ends, color=color, linewidth=1, alpha=0.45)
    ax.plot(x, y, linestyle="none", marker="o", markersize=3, color=color, zorder=3)
    edges = [*one.segments.starts, len(x)]
    for start, end, level in zip(edges, edges[1:], one.segments.levels, strict=False):
        ax.plot([x[start], x[end - 1]], [math.exp(level) / divisor] * 2, color=color, linewidth=1.4)
    for change in one.segments.changes:
        ax.axvline(x[change.at], color=color, linewidth=0.9, linestyle=(0, (1, 2)))
        ax.annotate(
            said.change(change.ratio),
            xy=(x[change.at], 0.98),
            xycoords=("data", "axes fraction"),
            xytext=(-3, 0),
            textcoords="offset points",
            va="top",
            ha="right",
            fontsize=8,
            color=color,
            bbox={"boxstyle": "square,pad=0.05", "facecolor": SURFACE[0], "edgecolor": "none", "alpha": 0.75},
        )
    if accepted is not None and dates[0] <= accepted <= dates[-1]:
        ax.axvline(accepted, color=CEILING[0], linewidth=0.9, linestyle=(0, (5, 2)))
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.18 * (high - low))  # room for the labels of changes
    ax.yaxis.set_major_formatter(plt.FuncFormatter(lambda v, _: f"{float(significant(v, 3)):g} {unit}".rstrip()))
    ax.set_title(drawable(_short(one.case)), fontsize=9)


def _short(case: str) -> str:
    return case if len(case) <= 60 else f"{case[:38]}...{case[-19:]}"


def _groups(found: Verdict) -> list:
    """(title, cases) by suite and device, as they stand in the id."""
    groups = {}
    for one in found.series.values():
        parts = one.case.split("/")
        device = next((p[4:] for p in reversed(parts) if p.startswith("dev:")), "")
        groups.setdefault(f"{parts[0]}, {device}" if device else parts[0], []).append(one)
    return sorted(groups.items())


def _group(found: Verdict, dates: list, title: str, members: list) -> dict | None:
    """All cases of a group as change from the level of their first nights."""
    members = [one for one in members if len(one.values) > 1]
    if not members:
        return None
    moved = {s.case for s in found.shifts if s.state in ("alert", "better")} | set(found.alerts())
    named = [one for one in members if one.case in moved][: len(SERIES)]

    def make(width):
        figure, axes = _panels(1, 1, width)
        ax = axes[0]
        for one in members:
            if one not in named:
                ax.plot(*_relative(one, dates), color=MUTED[0], linewidth=0.7, alpha=0.55)
        for index, one in enumerate(named):
            color, label = SERIES[index][0], drawable(_short(one.case))
            ax.plot(*_relative(one, dates), color=color, linewidth=1.4, label=label, zorder=3)
        ax.yaxis.set_major_formatter(plt.FuncFormatter(lambda v, _: f"{v:+.3g}%" if v else "0%"))
        _date_axis(ax, dates, width)
        if named:
            extra = 0.19 * len(named)
            figure.set_figheight(PANEL_HEIGHT + 0.2 + extra)
            ax.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.16), borderaxespad=0, handlelength=1.8)
        return figure

    caption = f"{len(members)} cases, each as its change from the level of its first nights."
    caption += " In colour, those with an alert or an improvement." if named else ""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in title)
    return _figure(f"group-{name}", title, caption, make)


def _relative(one: Series, dates: list) -> tuple:
    start = one.segments.levels[0]
    return [dates[i] for i in one.nights], [100 * math.expm1(math.log(v) - start) for v in one.values]
