"""What `assay reproduce` has found as terminal table, Markdown and JSON (assay.reproduce/1)."""

from __future__ import annotations

import json
import math

from .errors import visible
from .reproduce import Reproduction, Row
from .reproduce_environment import ALLOWED, SAME
from .reproduce_plan import Recorded
from .tables import aligned, markdown_table, markdown_text
from .units import quantity, scale, significant

SCHEMA = "assay.reproduce/1"
NONE = "-"
HEAD = ("verdict", "case", "inputs", "outputs", "then", "now", "now / then", "remarks")
DIFFERENCE_HEAD = ("of", "what", "then", "now")
METRIC_HEAD = ("case", "metric", "then", "now")
NUMBERS = {4, 5, 6}


def _value(value: tuple | None, unit: str) -> str:
    """`12.3 ms [12.1, 12.5]`: the interval in the unit of the value."""
    if value is None:
        return NONE
    middle, low, high = value
    text = quantity(middle, unit).replace("µ", "u")
    if low is None or high is None:
        return text
    divisor, _ = scale(middle, unit)
    return f"{text} [{significant(low / divisor)}, {significant(high / divisor)}]"


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return NONE
    middle, low, high = row.ratio
    return f"{middle:.3f}" if low is None else f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def remarks(row: Row) -> str:
    out = [row.detail] if row.detail else []
    if row.likeness not in (None, SAME):
        out.append(row.likeness)
    return "; ".join([*out, *row.notes])


def _cells(row: Row) -> tuple:
    times = (_value(row.then, "ns"), _value(row.now, "ns"), _ratio(row))
    return (row.verdict, row.id, row.inputs, row.outputs, *times, remarks(row))


def _follows_time(row: Row, then: tuple, now: tuple) -> bool:
    """The time, or a rate of it: it says nothing that the table above does not."""
    if row.then is None or row.now is None or not then[0] or not row.then[0]:
        return False
    change, time = now[0] / then[0], row.now[0] / row.then[0]
    return math.isclose(change, time, rel_tol=1e-6) or math.isclose(change * time, 1, rel_tol=1e-6)


def _metric_rows(found: Reproduction) -> list:
    """Metrics whose intervals do not overlap."""
    out = []
    for row in found.rows:
        for name, unit, then, now in row.metrics:
            known = None not in (*then, *now)
            if known and (then[1] > now[2] or then[2] < now[1]) and not _follows_time(row, then, now):
                out.append((row.id, name, _value(then, unit), _value(now, unit)))
    return out


def summary(found: Reproduction) -> list:
    total = len(found.rows)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in found.counts().items())
    out = [f"{total} case{'s' if total != 1 else ''}: {verdicts}"]
    for what in ("inputs", "outputs"):
        values = [getattr(row, what) for row in found.rows]
        said = [f"{values.count(v)} {v}" for v in dict.fromkeys(values) if v != "-"]
        if said:
            out.append(f"{what}: {', '.join(sorted(said, key=lambda s: 'DIFFER' not in s))}")
    return out


def _count(side: Recorded) -> str:
    return f"{len(side.cases)} case{'s' if len(side.cases) != 1 else ''}"


def _title(found: Reproduction) -> list:
    then = found.old.context.get("date")
    out = [f"THEN {found.old.path} ({then}, {_count(found.old)})"]
    if found.new is not None:
        path = found.new.path if found.kept else "not kept (--out FILE keeps it)"
        out.append(f"NOW  {path} ({found.new.context.get('date')}, {_count(found.new)})")
    return out


def _scope(found: Reproduction) -> list:
    """What may be compared at all, by device."""
    alike = {row.device: row.likeness for row in found.rows if row.likeness is not None}
    return [f"{device}: {value}; comparable: {ALLOWED[value]}" for device, value in sorted(alike.items())]


def text(found: Reproduction) -> str:
    lines = [*_title(found), ""]
    if found.new is not None:
        if found.differences:
            lines += [
                "the environment differs",
                *aligned(DIFFERENCE_HEAD, _safe(map(_short, found.differences)), set()),
            ]
        else:
            lines.append("the environment does not differ in anything that a result records")
        lines += ["", *_scope(found), ""]
    lines += [f"note: {note}" for note in found.notes]
    lines += [*aligned(HEAD, _safe(_cells(row) for row in found.rows), NUMBERS), ""]
    metrics = _metric_rows(found)
    if metrics:
        lines += ["metrics whose intervals do not overlap", *aligned(METRIC_HEAD, _safe(metrics), {2, 3}), ""]
    return "\n".join(map(visible, [*lines, *summary(found)])) + "\n"


def _safe(rows) -> list:
    return [tuple(map(visible, row)) for row in rows]


def _short(difference: tuple) -> tuple:
    """Long texts, such as a mitigation's, are cut for the terminal; Markdown and JSON hold them whole."""
    kind, what, *values = difference
    return (kind, what, *(v if len(v) <= 60 else f"{v[:57]}..." for v in values))


def markdown(found: Reproduction) -> str:
    lines = ["## assay reproduce", "", *(f"- {markdown_text(line)}" for line in [*_title(found), *_scope(found)]), ""]
    lines += [f"**{markdown_text(line)}**" for line in summary(found)] + [""]
    lines += [f"- {markdown_text(note)}" for note in found.notes]
    if found.differences:
        lines += ["", "The environment differs", "", *markdown_table(DIFFERENCE_HEAD, found.differences, set(), 1)]
    lines += ["", *markdown_table(HEAD, [_cells(row) for row in found.rows], NUMBERS, 1)]
    metrics = _metric_rows(found)
    if metrics:
        lines += ["", "Metrics whose intervals do not overlap", "", *markdown_table(METRIC_HEAD, metrics, {2, 3}, 0)]
    return "\n".join(lines) + "\n"


def as_json(found: Reproduction, exit_code: int) -> str:
    """Strict JSON, one case a line."""
    head = {
        "schema": SCHEMA,
        "exit_code": exit_code,
        "old": str(found.old.path),
        "new": str(found.new.path) if found.new is not None and found.kept else None,
        "counts": found.counts(),
        "notes": found.notes,
        "differences": [dict(zip(("of", "what", "then", "now"), row, strict=True)) for row in found.differences],
    }
    body = ",\n".join(json.dumps(_case(row), allow_nan=False) for row in found.rows)
    return f'{json.dumps(head, allow_nan=False)[:-1]}, "cases": [\n{body}\n]}}\n'


def _case(row: Row) -> dict:
    def interval(value):
        return None if value is None else dict(zip(("value", "low", "high"), value, strict=True))

    return {
        "id": row.id,
        "verdict": row.verdict,
        "detail": row.detail or None,
        "machine": row.likeness,
        "inputs": row.inputs,
        "outputs": row.outputs,
        "then_ns": interval(row.then),
        "now_ns": interval(row.now),
        "ratio": interval(row.ratio),
        "threshold": row.margin,
        "notes": row.notes,
        "metrics": [
            {"name": name, "unit": unit, "then": interval(then), "now": interval(now)}
            for name, unit, then, now in row.metrics
        ],
    }
