"""The verdict of a night for a terminal, as Markdown, and as JUnit XML."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from . import compare_output
from .changes import FEWEST_NIGHTS
from .errors import visible
from .nightly import Verdict
from .nightly_history import Shift, counted
from .tables import aligned, markdown_table, markdown_text
from .units import quantity

MOST_ROWS = 30  # of a table of the summary; all of them stand in compare.json and on the page
MEANING = {
    "alert": "slower, not accepted",
    "acknowledged": "slower, accepted by the baseline",
    "undone": "slower, and back since",
    "old": "slower, long ago",
    "gone": "slower, no longer measured",
    "better": "faster",
}


@dataclass(frozen=True)
class Section:
    title: str
    head: tuple
    rows: list
    right: frozenset = frozenset()
    code: int = 0  # the column that holds a case's id


def change(ratio: float) -> str:
    """Of a ratio of times, as compare writes it."""
    return f"{100 * (ratio - 1):+.1f}%" if 0.5 < ratio < 2 else f"x {ratio:.3g}"


def commits(shift: Shift) -> str:
    before, after = ((c or "unknown")[:9] for c in shift.commits)
    return after if before == after else f"{before}..{after}"


def levels(shift: Shift) -> str:
    one = shift.series
    index = one.segments.changes.index(shift.change)
    before, after = (quantity(math.exp(v), one.unit, 3) for v in one.segments.levels[index : index + 2])
    return f"{before} to {after}"


def head_lines(found: Verdict) -> list:
    """(label, text): machine, night, baseline, outcome."""
    last, tonight = found.nights[-1], found.tonight
    out = [("machine", found.folder.key)]
    launches = f", {tonight.launches} launches" if tonight else ""
    commit = (last.commit or "unknown")[:12]
    dirty = ", dirty build: it cannot become a baseline" if tonight and tonight.context["assay"].get("dirty") else ""
    night = f"{last.date:%Y-%m-%d %H:%M} UTC, commit {commit}, {counted(len(last.cases), 'case')}{launches}{dirty}"
    out.append(("night", f"{night}; {counted(len(found.nights), 'night')} in the history"))
    if found.base:
        out.append(("baseline", f"{found.base.date:%Y-%m-%d}, {(found.base.commit or 'unknown')[:12]}: {_why(found)}"))
    out.append(("compared", compare_output.summary(found.comparison) if found.comparison else f"no: {found.blind}"))
    again = f"{len(found.suspects)} slower at first, {len(found.confirmed) + len(found.usual)} when repeated"
    again += f", {len(found.usual)} of them no more than other nights" if found.usual else ""
    out += [("suspects", again)] if found.suspects else []
    count = len(found.alerts())
    out.append(("alerts", counted(count, "case") if count else "none"))
    return out


def _why(found: Verdict) -> str:
    return found.base.reason.splitlines()[0][:100]


def remedies(found: Verdict) -> list:
    """What to do next."""
    out = []
    if found.base is None and found.tonight is not None:
        path = found.folder.path / found.nights[-1].result
        place = f"--store {found.folder.path.parent}"
        out.append(f"to compare later nights with this one: assay baseline accept {path} --reason TEXT {place}")
    elif found.alerts() and found.tonight is not None:
        path = found.folder.path / found.nights[-1].result
        out.append(f"if it is meant: assay baseline accept {path} --reason TEXT --store {found.folder.path.parent}")
    return out


# ---- sections ----


def sections(found: Verdict) -> list:
    made = [_alerts(found), _changes(found), _open(found)]
    return [s for s in made if s.rows]


def _alerts(found: Verdict) -> Section:
    rows = []
    for case, reasons in found.alerts().items():
        for reason in reasons:
            if isinstance(reason, Shift):
                detail = f"{reason.change.kind} in the night of {reason.date:%Y-%m-%d}, {levels(reason)}"
                rows.append((case, change(reason.change.ratio), detail, commits(reason)))
            elif isinstance(reason, str):
                rows.append((case, "", reason, ""))
            else:
                first = next(r for r in found.suspects if r.id == case)
                said = f"slower than the baseline, {change(reason.ratio)} when repeated, q {reason.q:.2g}"
                rows.append((case, change(first.ratio), said, ""))
    return Section("Alerts", ("case", "change", "what", "commits"), rows, frozenset({1}))


def _changes(found: Verdict) -> Section:
    rows = [
        (s.case, change(s.change.ratio), f"{s.date:%Y-%m-%d}", s.change.kind, MEANING[s.state], commits(s))
        for s in found.shifts
        if s.state != "alert"
    ]
    head = ("case", "change", "since", "kind", "state", "commits")
    return Section("Other changes in the history", head, rows, frozenset({1}))


def _open(found: Verdict) -> Section:
    rows = []
    for row in found.undecided:
        shown = "-" if row.ratio is None else change(row.ratio)
        spread = "-" if row.low is None else f"[{change(row.low)}, {change(row.high)}]"
        rows.append((row.id, shown, spread, row.detail or "-", _budget(found, row)))
    head = ("case", "change", "95% interval", "why", "would decide")
    return Section("Inconclusive", head, rows, frozenset({1, 2}))


def _budget(found: Verdict, row) -> str:
    """Launches, and the time of a run with as many, by that of tonight's."""
    if row.budget is None:
        return "no budget: nights differ by more; assay duet"
    spent = found.tonight.plan.get("budget_ns")
    if not isinstance(spent, (int, float)):
        return f"{row.budget} launches"
    seconds = spent * 1e-9 * row.budget / found.tonight.launches
    time = f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
    return f"{row.budget} launches a side, {time}"


# ---- the three forms ----


def text(found: Verdict) -> str:
    out = [f"{label:9} {visible(said)}" for label, said in head_lines(found)]
    for section in sections(found):
        rows = [tuple(map(visible, row)) for row in section.rows]
        out += ["", section.title.lower(), *aligned(section.head, rows[:MOST_ROWS], set(section.right))]
        out += [f"and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    notes = [f"note: {n}" for n in found.notes] + remedies(found)
    out += ["", *map(visible, notes)] if notes else []
    return "\n".join(out) + "\n"


def markdown(found: Verdict) -> str:
    out = ["# assay nightly", ""]
    out += [f"- **{label}** {markdown_text(said)}" for label, said in head_lines(found)]
    for section in sections(found):
        rows = section.rows[:MOST_ROWS]
        out += ["", f"## {section.title}", "", *markdown_table(section.head, rows, set(section.right), section.code)]
        more = len(section.rows) - len(rows)
        out += ["", f"and {more} more: compare.json, trend.html"] if more else []
    notes = [f"- {markdown_text(note)}" for note in found.notes + remedies(found)]
    out += ["", "## Notes", "", *notes] if notes else []
    if found.comparison:
        whole = compare_output.markdown(found.comparison).rstrip("\n")
        out += ["", "<details><summary>The whole comparison</summary>", "", whole, "", "</details>"]
    return "\n".join(out) + "\n"


def junit(found: Verdict) -> str:
    """The suite of compare, and one of the history: a case is a test in each."""
    root = ET.Element("testsuites")
    if found.comparison:
        root = ET.fromstring(compare_output.junit(found.comparison))
    suite = ET.SubElement(root, "testsuite", name="assay history")
    counts = {"failure": 0, "error": 0, "skipped": 0}
    alerts = found.alerts()
    for case in sorted({*found.series, *(name for name, _ in found.broken)}):
        node = ET.SubElement(suite, "testcase", classname="assay.history", name=visible(case))
        tag, message = _test(found, case, alerts.get(case, []))
        if tag is None:
            ET.SubElement(node, "system-out").text = visible(message)
            continue
        counts[tag] += 1
        ET.SubElement(node, tag, message=visible(message))
    suite.set("tests", str(len(suite)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(counts[tag]))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _test(found: Verdict, case: str, reasons: list) -> tuple:
    texts = [r for r in reasons if isinstance(r, str)]
    if texts:
        return "error", texts[0]
    shifts = [r for r in reasons if isinstance(r, Shift)]
    if shifts:
        said = [f"{s.change.kind} {change(s.change.ratio)} since {s.date:%Y-%m-%d}, {commits(s)}" for s in shifts]
        return "failure", "; ".join(said)
    count = len(found.series[case].values)
    if count < FEWEST_NIGHTS:
        return "skipped", f"{count} nights, {FEWEST_NIGHTS} are needed to look for changes"
    return None, f"{count} nights, no change that calls for action"
