"""A comparison as terminal table, Markdown, JSON (assay.compare/1) and JUnit XML. Names are made safe for each."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from .compare import Comparison, Row
from .errors import visible
from .tables import aligned, markdown_table, markdown_text
from .units import quantity

SCHEMA = "assay.compare/1"
NONE = "-"
HEAD = ("verdict", "case", "base", "new", "change", "95% interval", "q", "same within")


# ---- cells ----


def _amount(value: float | None, unit: str) -> str:
    return NONE if value is None else quantity(value, unit).replace("µ", "u")


def _change(ratio: float | None) -> str:
    """+20.0%: NEW takes a fifth more. Factors from 2 on read as such."""
    if ratio is None:
        return NONE
    return f"{100 * (ratio - 1):+.1f}%" if 0.5 < ratio < 2 else f"x {ratio:.3g}"


def _interval(row: Row) -> str:
    if row.low is None or row.high is None:
        return NONE
    return f"[{_change(row.low)}, {_change(row.high)}]"


def _q(row: Row) -> str:
    return NONE if row.q is None else f"{row.q:.2g}"


def verdict_text(row: Row) -> str:
    """`inconclusive (one launch)` where that is why."""
    short = row.verdict == "inconclusive" and row.detail
    return f"{row.verdict} ({row.detail})" if short else row.verdict


def remarks(row: Row, mixed: list) -> list:
    """What stands behind a line: reason, budget, doubts, and on every line that unlike sides were compared."""
    out = []
    if row.detail and row.verdict != "inconclusive":
        out.append(row.detail)
    if row.verdict == "inconclusive":
        out.append(_budget(row))
    out += row.notes
    if mixed:
        out.append(f"MIXED {', '.join(mixed)}")
    return out


def _budget(row: Row) -> str:
    if row.p is None:
        return f"needs {row.budget} launches a side"
    if row.budget is None:
        return "too near the threshold: more than 1000 launches a side"
    return f"about {row.budget} launches a side would decide"


def _cells(row: Row) -> tuple:
    margin = f"+-{100 * row.margin:.2g}%"
    values = (_amount(row.base, row.unit), _amount(row.new, row.unit), _change(row.ratio), _interval(row), _q(row))
    return (verdict_text(row), row.id, *values, margin)


def _resource_cells(row: Row, item: tuple) -> tuple:
    name, unit, old, new, grew = item
    change = _change(new / old) if old > 0 else "from 0" if new > 0 else "+0.0%"
    shown = [f"{value:.6g} {unit}".strip() for value in (old, new)]
    return (row.id, name, *shown, change, "grew" if grew else "")


def resource_rows(comparison: Comparison) -> list:
    """Cells of all resources that changed, those that grew first, and how many did not change."""
    items = [(row, item) for row in comparison.rows for item in row.resources if item[2] != item[3]]
    items.sort(key=lambda pair: not pair[1][4])
    return [_resource_cells(*pair) for pair in items]


RESOURCE_HEAD = ("case", "resource", "base", "new", "change", "")


def summary(comparison: Comparison) -> str:
    counts = comparison.counts()
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def warnings(comparison: Comparison) -> list:
    """What exit code 0 must not hide."""
    counts = comparison.counts()
    out = []
    for verdict, text in (
        ("inconclusive", "undecided: see the budget on its line"),
        ("missing", "not measured in NEW"),
        ("failed", "failed on a side"),
    ):
        if counts[verdict]:
            out.append(f"{counts[verdict]} case{'s' if counts[verdict] > 1 else ''} {text}")
    suspect = sum(1 for row in comparison.rows if row.notes)
    if suspect:
        out.append(f"{suspect} case{'s' if suspect > 1 else ''} suspect on a side")
    if comparison.grown:
        out.append(f"{len(comparison.grown)} resource{'s' if len(comparison.grown) > 1 else ''} grew")
    return out


def _title(comparison: Comparison) -> list:
    out = []
    for name, side in (("BASE", comparison.base), ("NEW", comparison.new)):
        files = "" if side.files == 1 else f", {side.files} files"
        out.append(f"{name} {side.path} ({', '.join(side.tools)}{files}, {len(side.cases)} cases)")
    return out


# ---- terminal ----


def text(comparison: Comparison) -> str:
    rows = [tuple(map(visible, _cells(row))) for row in comparison.rows]
    lines = aligned(HEAD, rows, {2, 3, 4, 5, 6, 7})
    for i, row in enumerate(comparison.rows):
        said = remarks(row, comparison.mixed)
        if said:
            lines[i + 1] += "  " + visible("; ".join(said))
    head = [*_title(comparison), *(f"note: {n}" for n in comparison.notes)]
    out = [*map(visible, head), "", *lines]
    resources = resource_rows(comparison)
    if resources:
        cells = [tuple(map(visible, r)) for r in resources]
        mark = f"  MIXED {', '.join(comparison.mixed)}" if comparison.mixed else ""
        table = aligned(RESOURCE_HEAD, cells, {2, 3, 4})
        out += ["", "resources that differ", table[0], *(line + mark for line in table[1:])]
    out += ["", summary(comparison), *(f"warning: {w}" for w in warnings(comparison))]
    return "\n".join(out) + "\n"


# ---- Markdown ----


def markdown(comparison: Comparison) -> str:
    rows = [(*_cells(row), "; ".join(remarks(row, comparison.mixed))) for row in comparison.rows]
    out = ["## assay compare", "", *(f"- {markdown_text(line)}" for line in _title(comparison)), ""]
    out += [f"**{summary(comparison)}**", ""]
    out += [f"- {markdown_text(f'warning: {line}')}" for line in warnings(comparison)]
    out += [f"- {markdown_text(line)}" for line in comparison.notes]
    out += ["", *markdown_table((*HEAD, "remarks"), rows, {2, 3, 4, 5, 6, 7}, 1)]
    resources = resource_rows(comparison)
    if resources:
        mixed = f"MIXED {', '.join(comparison.mixed)}" if comparison.mixed else ""
        cells = [(*r[:-1], " ".join(filter(None, (r[-1], mixed)))) for r in resources]
        out += ["", "Resources that differ", "", *markdown_table(RESOURCE_HEAD, cells, {2, 3, 4}, 0)]
    return "\n".join(out) + "\n"


# ---- JSON ----


def as_json(comparison: Comparison, exit_code: int) -> str:
    """Strict JSON, one case a line."""
    head = {
        "schema": SCHEMA,
        "exit_code": exit_code,
        "counts": comparison.counts(),
        "notes": comparison.notes,
        "mixed": comparison.mixed,
        "warnings": warnings(comparison),
        "calibration": comparison.calibration.path.name if comparison.calibration else None,
    }
    for name, side in (("base", comparison.base), ("new", comparison.new)):
        head[name] = {"path": str(side.path), "files": side.files, "tools": side.tools, "cases": len(side.cases)}
    body = ",\n".join(_dump(_case(row, comparison.mixed)) for row in comparison.rows)
    return f'{_dump(head)[:-1]}, "cases": [\n{body}\n]}}\n'


def _dump(value) -> str:
    return json.dumps(value, allow_nan=False)


def _case(row: Row, mixed: list) -> dict:
    keys = ("name", "unit", "base", "new", "grew")
    return {
        "id": row.id,
        "verdict": row.verdict,
        "detail": row.detail or None,
        "unit": row.unit,
        "better": row.better,
        "base": row.base,
        "new": row.new,
        "ratio": row.ratio,
        "low": row.low,
        "high": row.high,
        "p": row.p,
        "q": row.q,
        "threshold": row.threshold,
        "same_within": row.margin,
        "launches": {"base": row.launches[0], "new": row.launches[1]},
        "budget_launches": row.budget if row.verdict == "inconclusive" else None,
        "notes": row.notes,
        "mixed": mixed,
        "resources": [dict(zip(keys, item, strict=True)) for item in row.resources],
    }


# ---- JUnit ----


def junit(comparison: Comparison, strict: bool = False) -> str:
    """One test a case. Slower fails, a case that broke is an error; what decides nothing is skipped, or fails where
    --strict asks for a decision."""
    broken = {row.id for row in comparison.broken}
    suite = ET.Element("testsuite", name="assay compare")
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for row in comparison.rows:
        suite_name = row.id.split("/", 1)[0] or "assay"
        case = ET.SubElement(suite, "testcase", classname=f"assay.{visible(suite_name)}", name=visible(row.id))
        message = visible("; ".join([verdict_text(row), *_facts(row), *remarks(row, comparison.mixed)]))
        if row.verdict == "slower":
            tag = "failure"
        elif row.id in broken:
            tag = "error"
        elif row.verdict in ("inconclusive", "missing", "failed"):
            tag = "failure" if strict else "skipped"
        else:
            tag = "skipped" if row.verdict == "new" else None
        if tag is None:
            ET.SubElement(case, "system-out").text = message
            continue
        counts[{"failure": "failures", "error": "errors", "skipped": "skipped"}[tag]] += 1
        ET.SubElement(case, tag, message=message)
    suite.set("tests", str(len(comparison.rows)))
    for key, count in counts.items():
        suite.set(key, str(count))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _facts(row: Row) -> list:
    if row.ratio is None:
        return []
    return [f"{_amount(row.base, row.unit)} to {_amount(row.new, row.unit)}", f"{_change(row.ratio)} {_interval(row)}"]
