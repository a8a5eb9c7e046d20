"""Draws the run's telemetry: clocks, power, temperature and load over time, the suites' rounds shaded."""

from __future__ import annotations

import numpy as np

from ..load import Result
from ..style import MARKERS, MUTED, NARROW, SERIES, drawable
from ..units import significant
from .figure import Drawing, grid, legend

# Panel, its unit for people and the factor to it, and the columns that it may hold.
PANELS = (
    ("clock", "GHz", 1e-9, ("sm_clock_hz", "memory_clock_hz", "clock_hz")),
    ("power", "W", 1.0, ("power_watts", "package_power_watts")),
    ("temperature", "°C", 1.0, ("temperature_c", "memory_temperature_c")),
    ("load", "CPUs", 1.0, ("busy_cpus", "steal_cpus")),
)


def _panels(result: Result) -> list:
    """(device, panel, unit, [(column, values in the unit)]) of what has values."""
    out = []
    for device, columns in result.curves.devices.items():
        for panel, unit, factor, names in PANELS:
            lines = [
                (name, np.array([np.nan if v is None else v * factor for v in columns[name]], dtype=float))
                for name in names
                if name in columns
            ]
            lines = [(name, y) for name, y in lines if np.isfinite(y).sum() >= 2]
            if lines:
                out.append((device, panel, unit, lines))
    return out


def _shade(ax, spans: list, suites: list) -> None:
    """Behind the curves. Suites differ by hatch too, never by colour alone."""
    named = set()
    for suite, _, begin, end in spans:
        index = suites.index(suite)
        ax.axvspan(
            begin,
            end,
            facecolor=SERIES[(index + 3) % len(SERIES)][0],
            edgecolor=MUTED[0],
            alpha=0.16,
            hatch=("", "//", "..", "xx", "--")[index % 5],
            linewidth=0,
            label=None if suite in named else drawable(suite),
            zorder=0,
        )
        named.add(suite)


def _figure(result: Result, panels: list, width: str, t):
    suites = list(dict.fromkeys(span[0] for span in result.curves.spans))
    figure, axes = grid(len(panels), 2, width, 2.9 + (0.2 if width == NARROW else 0.1) * len(suites))
    for ax, (device, panel, unit, lines) in zip(axes, panels, strict=True):
        _shade(ax, [s for s in result.curves.spans if s[1] == device], suites)
        for index, (name, y) in enumerate(lines):
            ax.plot(
                result.curves.seconds,
                y,
                color=SERIES[index][0],
                linestyle=("-", "--", ":")[index % 3],
                marker=MARKERS[index] if len(y) < 40 else None,
                markersize=3,
                linewidth=1.3,
                label=drawable(t.or_raw("metric", name)),
            )
        ax.set_title(drawable(f"{device}: {t.or_raw('metric', panel)} ({unit})"))
        ax.set_xlabel(t("axis.seconds"))
        ax.set_ylim(bottom=min(0, np.nanmin([np.nanmin(y) for _, y in lines])))
        legend(ax)
    return figure


def _finding(panels: list, t) -> str:
    parts = []
    for device, panel, unit, lines in panels:
        y = lines[0][1]
        parts.append(
            t(
                "finding_telemetry",
                device=device,
                what=t.or_raw("metric", panel),
                low=significant(float(np.nanmin(y)), 3),
                high=significant(float(np.nanmax(y)), 3),
                unit=unit,
            )
        )
    return " ".join(parts)


def draw(result: Result, _cases: list, t) -> Drawing | None:
    """None where the run kept no curves."""
    panels = _panels(result) if result.curves else []
    return Drawing(_finding(panels, t), lambda width: _figure(result, panels, width, t)) if panels else None
