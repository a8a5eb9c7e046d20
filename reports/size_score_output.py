"""Scores of predictions: an aligned table, Markdown, JSON."""

from __future__ import annotations

import json

from .errors import visible
from .labels import machine_name
from .size_score import GOALS, MET, MISSED, SHOWN, UNKNOWN, Figure, Scores
from .tables import aligned, markdown_table, markdown_text
from .units import NONE, decimal, quantity

SCHEMA = "assay.size.score/1"
HEAD = ("case", "figure", "predicted", "measured", "error", "goal", "outcome")
RIGHT = {2, 3, 4, 5}


def _value(value: float, unit: str) -> str:
    return decimal(value) if unit == "bytes" else quantity(value, unit)


def _row(case_id: str, f: Figure) -> tuple:
    return (
        case_id,
        f.name,
        UNKNOWN if f.predicted is None else _value(f.predicted.value, f.unit),
        _value(f.measured.value, f.unit),
        NONE if f.error is None else f"{100 * f.error:+.1f}%",
        NONE if f.goal is None else f"{100 * f.goal:g}%",
        f.outcome,
    )


def _rows(found: Scores) -> list:
    return [_row(s.case.id, f) for s in found.scores for f in s.figures]


def _counts(found: Scores) -> dict:
    outcomes = [f.outcome for s in found.scores for f in s.figures]
    return {name: outcomes.count(name) for name in (MET, MISSED, UNKNOWN, SHOWN)}


def _sum(found: Scores) -> str:
    goals = ", ".join(f"{name} within {100 * goal:g}%" for name, goal in GOALS.items())
    return ", ".join(f"{n} {name}" for name, n in _counts(found).items()) + f" (goals: {goals})"


def _notes(found: Scores) -> list:
    out = [f"{s.case.id}: unknown without {f.reason}" for s in found.scores for f in s.figures if f.reason]
    return out + [f"{case}: not scored: {why}" for case, why in found.left_out]


def _machines(found: Scores) -> list:
    results = {id(s.result): s.result for s in found.scores}
    return [f"{machine_name(r)}, {r.path}" for r in results.values()]


def table(found: Scores) -> str:
    lines = [*_machines(found), "", *aligned(HEAD, _rows(found), RIGHT), ""]
    notes = _notes(found)
    lines += [*notes, ""] if notes else []
    return "\n".join([*map(visible, lines), _sum(found), ""])


def markdown(found: Scores) -> str:
    lines = [*(f"- {markdown_text(m)}" for m in _machines(found)), ""]
    lines += [*markdown_table(HEAD, _rows(found), RIGHT, 0), ""]
    lines += [f"- {markdown_text(note)}" for note in _notes(found)]
    return "\n".join([*lines, "", _sum(found), ""])


def _figure_json(f: Figure) -> dict:
    span = f.predicted
    return {
        "name": f.name,
        "unit": f.unit,
        "predicted": None if span is None else {"value": span.value, "low": span.low, "high": span.high},
        "measured": {"value": f.measured.value, "low": f.measured.low, "high": f.measured.high},
        "error": f.error,
        "goal": f.goal,
        "outcome": f.outcome,
        "reason": f.reason,
    }


def as_json(found: Scores) -> str:
    document = {
        "schema": SCHEMA,
        "goals": GOALS,
        "scores": [
            {
                "path": str(s.result.path),
                "machine": machine_name(s.result),
                "id": s.case.id,
                "device": s.case.device,
                "variant": s.case.variant,
                "parameters": s.case.parameters,
                "figures": [_figure_json(f) for f in s.figures],
            }
            for s in found.scores
        ],
        "left_out": [{"id": case, "reason": why} for case, why in found.left_out],
        "counts": _counts(found),
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
