"""Checks what the sampler and the energy pass stored: curves that fit together, figures that follow from the raw."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import pairwise

from .stats import t_interval


def telemetry_faults(document: dict) -> list:
    """Faults of the run's curves and of what the cases took from them."""
    run = document.get("telemetry")
    if run is None:
        return [
            f"{c['id']}: telemetry.samples without telemetry of the run"
            for c in document["ceilings"] + document["cases"]
            if "samples" in c["telemetry"]
        ]
    faults = _curves(run)
    for case in document["ceilings"] + document["cases"]:
        faults += [f"{case['id']}: {f}" for f in _case(case, run, document["plan"]["resumed"] > 0)]
    return faults


def _curves(run: dict) -> list:
    faults, times = [], run["time_ns"]
    if any(b <= a for a, b in pairwise(times)):
        faults.append("telemetry.time_ns does not grow")
    if len(times) != math.ceil(run["samples"] / run["joined"]):
        faults.append(f"telemetry: {len(times)} rows for {run['samples']} samples, {run['joined']} in a row")
    for column in run["columns"]:
        name = f"{column['device']}.{column['name']}"
        if len(column["values"]) != len(times):
            faults.append(f"telemetry: {name} has {len(column['values'])} values for {len(times)} times")
        elif all(v is None for v in column["values"]):
            faults.append(f"telemetry: {name} has no value; it belongs into unreadable")
    sampler = run["sampler"]
    if sampler and sampler["wall_ns"] > 0:
        share = sampler["cpu_ns"] / sampler["wall_ns"]
        if not math.isclose(sampler["cpu_share"], share, rel_tol=1e-6, abs_tol=1e-12):
            faults.append(f"telemetry.sampler.cpu_share is {sampler['cpu_share']:.9g}, cpu_ns / wall_ns is {share:.9g}")
    if (run["fault"] is None) != (run["state"] == "complete"):
        faults.append(f"telemetry: the state {run['state']!r} and its fault disagree")
    return faults


def _rounding(column: dict) -> float:
    """Values are stored with five digits."""
    return 1e-4 * max(abs(column["min"]), abs(column["max"]))


def _case(case: dict, run: dict, resumed: bool) -> list:
    own = case["telemetry"]
    faults = [
        f"telemetry: {c['device']}.{c['name']}: minimum, mean and maximum are not in order"
        for c in own.get("columns", ())
        if not c["min"] - _rounding(c) <= c["mean"] <= c["max"] + _rounding(c)
    ]
    if run["joined"] == 1 and not resumed:  # else the samples' own times are not in the file
        times = run["time_ns"]
        within = sum(bisect_right(times, r["end_ns"]) - bisect_left(times, r["begin_ns"]) for r in case["rounds"])
        if own.get("samples", 0) != within:
            faults.append(f"telemetry.samples is {own.get('samples', 0)}, {within} lie within its rounds")
    return faults


def energy_figures(energy: dict | None, confidence: float) -> dict:
    """Metrics by name as (value, low, high), from the steps of the counter; empty where the pass measured nothing."""
    if not energy or energy["state"] != "measured":
        return {}
    joules, low, high = energy["joules"], energy["operations_low"], energy["operations_high"]
    middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    count, total = middle[-1] - middle[0], joules[-1]
    seconds = (energy["at_ns"][-1] - energy["at_ns"][0]) * 1e-9
    windows = [(joules[i + 1] - joules[i]) / (middle[i + 1] - middle[i]) for i in range(len(joules) - 1)]
    resolution = ((high[0] - low[0]) + (high[-1] - low[-1])) / 2 / count
    value = total / count
    half = value * (t_interval(windows, 1, confidence).relative_half_width + resolution)
    figures = {
        "energy_joules": (value, max(0.0, value - half), value + half),
        "power_watts": (total / seconds, None, None),
    }
    if energy["idle_watts"] is not None:
        above = (total - energy["idle_watts"] * seconds) / count
        figures["energy_above_idle_joules"] = (above, above - half, above + half)
        figures["idle_power_watts"] = (energy["idle_watts"], None, None)
    return figures
