"""Recomputes the breakdown of a case: sums over layers, shares, floors and what is left over."""

from __future__ import annotations

import math

from .stats import fastest_round_ns

TOLERANCE = 1e-6


def _differs(stated: float, computed: float, scale: float) -> bool:
    """Differences of nearly equal times are judged by the size of the times."""
    return abs(stated - computed) > TOLERANCE * max(scale, 1.0)


def parts_faults(case: dict, ceilings: dict) -> list:
    parts, closure = case["parts"], case.get("breakdown")
    if (closure is None) != (not parts):
        return ["parts and breakdown go together: one of them is missing"]
    if closure is None:
        return []
    places = [(p["phase"], p["path"], p["layer"], p["where"]) for p in parts]
    found = [f"parts: {place} stands twice" for place in sorted(set(places), key=str) if places.count(place) > 1]
    found += _layer_faults(parts) + _row_faults(case, ceilings)
    return found + _closure_faults(case)


def _layer_faults(parts: list) -> list:
    """A path's row without a layer is the sum over its layers."""
    found = []
    sums = {(p["phase"], p["path"], p["where"]): p for p in parts if p["layer"] is None}
    layers = {}
    for p in parts:
        if p["layer"] is not None:
            layers.setdefault((p["phase"], p["path"], p["where"]), []).append(p)
    for place, rows in layers.items():
        whole = sums.get(place)
        total = math.fsum(p["total_ns"] for p in rows)
        if whole is None:
            found.append(f"parts: {place[1]} of {place[0]} has layers and no sum over them")
        elif _differs(whole["total_ns"], total, total):
            found.append(f"parts: {place[1]} of {place[0]} takes {whole['total_ns']:.9g} ns, its layers {total:.9g}")
    return found


def _row_faults(case: dict, ceilings: dict) -> list:
    found = []
    closure = case["breakdown"]
    all_ns = closure["instrumented_ns"] * closure["operations"]
    for p in case["parts"]:
        name = f"parts: {p['path']} of {p['phase']}, layer {p['layer']}"
        for key, computed in (("mean_ns", p["total_ns"] / p["count"]), ("share", p["total_ns"] / all_ns)):
            if _differs(p[key], computed, computed):
                found.append(f"{name}: {key} is {p[key]:.9g}, from the total it is {computed:.9g}")
        if (p["floor_ns"] is None) != (p["percent_of_floor"] is None):
            found.append(f"{name}: floor_ns and percent_of_floor go together")
        elif p["floor_ns"] is not None:
            if _differs(p["percent_of_floor"], 100 * p["floor_ns"] / p["mean_ns"], p["percent_of_floor"]):
                found.append(f"{name}: percent_of_floor is not 100 floor_ns / mean_ns")
            if not _is_a_floor(case, p, ceilings):
                found.append(f"{name}: floor_ns follows from no ceiling of this result")
    return found


def _is_a_floor(case: dict, part: dict, ceilings: dict) -> bool:
    """The amount over the best rate of one of the case's bounds."""
    for bound in case["work"].get("bounds", ()):
        resource = bound["resource"]
        amount = part["flops" if resource.startswith("flops") else "bytes"]
        for ceiling in ceilings.values():
            if ceiling["status"] != "done" or ceiling["rate"]["resource"] != resource:
                continue
            rate = next(b["amount"] for b in ceiling["work"]["bounds"] if b["resource"] == resource)
            if math.isclose(part["floor_ns"], amount / rate * fastest_round_ns(ceiling), rel_tol=TOLERANCE):
                return True
    return False


def _closure_faults(case: dict) -> list:
    closure, found = case["breakdown"], []
    samples = sorted(x / s["batch"] for s in case["series"] if s["primary"] for row in s["samples"] for x in row)
    middle = len(samples) // 2
    median = samples[middle] if len(samples) % 2 else (samples[middle - 1] + samples[middle]) / 2
    attributed = math.fsum(p["total_ns"] for p in case["parts"] if p["layer"] is None) / closure["operations"]
    for key, computed in (
        ("series_ns", median),
        ("attributed_ns", attributed),
        ("unattributed_ns", closure["instrumented_ns"] - attributed),
        ("instrumentation_ns", closure["instrumented_ns"] - median),
    ):
        if _differs(closure[key], computed, closure["instrumented_ns"]):
            found.append(f"breakdown.{key} is {closure[key]:.9g}, from the parts and samples it is {computed:.9g}")
    if attributed > closure["instrumented_ns"] * (1 + TOLERANCE):
        found.append("breakdown: the parts take longer than the operation: they overlap")
    return found
