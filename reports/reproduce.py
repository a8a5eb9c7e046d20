"""`assay reproduce RESULT`: what of a result holds again, case by case. Rules: docs/reproduce.md."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

from . import verdicts
from .compare import compare
from .readers import Side
from .reproduce_environment import ARCHITECTURE, KIND, SAME, differences, likeness, threads_changed
from .reproduce_plan import Recorded, Refusal, read_recorded

# Of a case's time, or of the case where there is no time. In the order in which they are shown.
VERDICTS = (
    "failed",
    "not reproduced",
    "shifted",
    "undecided",
    "reproduced",
    "not comparable",
    "not reached",
    "unknown",
    "not run",
    "not here",
    "failed before",
)
WITHIN_RUN = "rounds only"
WITHIN_RUN_NOTE = (
    f"'{WITHIN_RUN}': fewer than 6 launches and no calibration of this machine, so the interval lacks what launches "
    "differ by, and a time outside it stays undecided; `assay calibrate`, or 6 launches in both results, decide"
)


@dataclass
class Row:
    id: str
    device: str
    verdict: str
    detail: str = ""
    likeness: str | None = None  # None: there is no new result of it
    inputs: str = "-"  # identical, DIFFER, none, -
    outputs: str = "-"  # identical, DIFFER, not deterministic, not comparable, -
    then: tuple | None = None  # (ns, low, high) of one operation
    now: tuple | None = None
    ratio: tuple | None = None  # (now / then, low, high); low and high None without an interval
    margin: float | None = None
    notes: list = field(default_factory=list)
    metrics: list = field(default_factory=list)  # (name, unit, then, now), each (value, low, high)

    @property
    def wrong(self) -> bool:
        """What makes the exit code 1."""
        alike = self.likeness in (SAME, KIND)
        return (
            self.verdict == "failed"
            or self.inputs == "DIFFER"
            or (self.outputs == "DIFFER" and alike)
            or (self.verdict == "not reproduced" and self.likeness == SAME)
        )

    @property
    def open(self) -> bool:
        """What could not be compared: exit code 4 under --strict."""
        closed = ("reproduced", "shifted", "not reproduced", "failed", "failed before")
        return self.verdict not in closed or self.outputs == "not comparable"


@dataclass
class Reproduction:
    old: Recorded
    new: Recorded | None
    kept: bool  # the new result stays on disk
    rows: list
    differences: list
    notes: list

    def counts(self) -> dict:
        counted = Counter(row.verdict for row in self.rows)
        return {verdict: counted[verdict] for verdict in VERDICTS if counted[verdict]}

    def exit_code(self, strict: bool = False) -> int:
        if any(row.wrong for row in self.rows):
            return 1
        if all(row.verdict == "not here" for row in self.rows):
            return 3
        if all(row.likeness is None for row in self.rows):
            return 4  # nothing was compared at all
        return 4 if strict and any(row.open for row in self.rows) else 0


def reproduction(
    old: Recorded, new_path, refused: Refusal, thresholds=(), calibration=None, kept: bool = True
) -> Reproduction:
    """`new_path`: the new result, or None where nothing could be run."""
    notes = list(refused.notes)
    if old.untried:
        notes.append(f"{old.untried} cases of the result were not measured then, and are not now")
    rows = [Row(name, old.cases[name]["device"]["name"], *refused.cases[name]) for name in refused.cases]
    new, found = None, []
    if new_path is not None:
        new = read_recorded(new_path)
        ids = [name for name in old.cases if name not in refused.cases]
        rows += [_row(name, old, new) for name in ids]
        _judge_times(rows, old, new, thresholds, calibration, notes)
        found = differences(old.raw, new.raw, {case["device"]["name"] for case in old.cases.values()})
    rows.sort(key=lambda row: (not row.wrong, VERDICTS.index(row.verdict)))  # stable: the result's own order else
    return Reproduction(old, new, kept, rows, found, notes)


# ---- what is exact ----


def _row(name: str, old: Recorded, new: Recorded) -> Row:
    then = old.cases[name]
    row = Row(name, then["device"]["name"], "undecided")
    now = next((case for case in new.raw["cases"] if case["id"] == name), None)
    if now is None:
        row.verdict, row.detail = "not reached", "the new result has no such case"
        return row
    row.likeness = likeness(old.raw, new.raw, then["device"])
    _set_status(row, then, now)
    if now["status"] in ("skipped", "not_reached"):
        row.likeness = None
        return row
    checks = [case["verification"] for case in (then, now)]
    row.inputs = _equal(*(c.get("input_checksum") for c in checks), absent="none")
    row.outputs = _outputs(row, then, checks, threads_changed(old.raw, new.raw))
    row.then, row.now = (_metrics(case).get("time", (None, None))[1] for case in (then, now))
    before, after = _metrics(then), _metrics(now)
    row.metrics = [(key, before[key][0], before[key][1], after[key][1]) for key in before if key in after]
    return row


def _set_status(row: Row, then: dict, now: dict) -> None:
    """Where one of the two has no number."""
    reason = str(now.get("reason") or now["status"])
    if now["status"] in ("failed", "lost"):
        row.verdict, row.detail = ("failed", reason) if then["status"] == "done" else ("failed before", "and again")
    elif now["status"] != "done":
        row.verdict, row.detail = "not reached", reason
    elif then["status"] != "done":
        row.verdict, row.detail = "failed before", f"done now; then: {then.get('reason') or then['status']}"


def _equal(a, b, absent: str) -> str:
    if a is None and b is None:
        return absent
    if None in (a, b):
        return "-"
    return "identical" if a == b else "DIFFER"


def _outputs(row: Row, then: dict, checks: list, other_threads: bool) -> str:
    if not all(c.get("deterministic") is True for c in checks):
        return "not deterministic"
    said = _equal(*(c.get("output_checksum") for c in checks), absent="-")
    if row.inputs == "DIFFER" or said == "-":
        return "-"
    if said == "identical":
        return said
    if other_threads and _all_threads(then):
        row.notes.append("outputs of another number of threads")
        return "not comparable"
    return said if row.likeness in (SAME, KIND, ARCHITECTURE) else "not comparable"


def _all_threads(case: dict) -> bool:
    parameters = case.get("parameters")
    return isinstance(parameters, dict) and parameters.get("threads") == "all"


def _metrics(case: dict) -> dict:
    """Name to (unit, (value, low, high))."""
    out = {}
    for metric in case["metrics"] if case["status"] == "done" else ():
        if isinstance(metric.get("value"), (int, float)):
            value = (metric["value"], metric.get("low"), metric.get("high"))
            out[str(metric.get("name"))] = (str(metric.get("unit")), value)
    return out


# ---- times ----


def _judge_times(rows: list, old: Recorded, new: Recorded, thresholds, calibration, notes: list) -> None:
    """Through compare's test, which adds the calibrated spread of launches. Without a calibration and with fewer than
    6 launches there is only the spread of the rounds: too narrow an interval, but with the same centre. What it holds
    for reproduced, a wider one would too; what it does not stays undecided."""
    timed = [row for row in rows if row.verdict == "undecided" and row.likeness is not None]
    if not timed:
        return
    wanted = {row.id for row in timed}
    sides = [_only(r.side, wanted) for r in (old, new)]
    found = compare(*sides, thresholds, calibration, forced=True)
    compared = {row.id: row for row in found.rows}
    if found.calibration is not None:
        notes.append(f"calibration {found.calibration.path.name} of this machine widens the intervals by its launches")
    fewer = threads_changed(old.raw, new.raw)
    for row in timed:
        other = compared[row.id]
        for word, side in zip(("then", "now"), sides, strict=True):
            if side.cases[row.id].suspect:
                row.notes.append(f"suspect {word}: {'; '.join(side.cases[row.id].suspect)}")
        row.margin = other.margin
        if other.verdict == "failed":  # a time of 0, or a verification that failed in a case called done
            row.verdict = "failed before" if sides[0].cases[row.id].status == "failed" else "failed"
            row.detail = other.detail
            continue
        narrow = None
        if other.p is None:
            narrow = _within_run(*(side.cases[row.id].launches for side in sides))
        low, high = narrow or (other.low, other.high)
        if row.likeness not in (SAME, KIND):
            row.verdict = "not comparable"
        elif fewer and _all_threads(old.cases[row.id]):
            row.verdict, row.detail = "not comparable", "the time of another number of threads"
        else:
            row.ratio = (other.ratio, low, high)
            _judge_time(row, other, narrow is not None)
    if any(row.detail.endswith(WITHIN_RUN) for row in timed):
        notes.append(WITHIN_RUN_NOTE)


def _only(side: Side, wanted: set) -> Side:
    return replace(side, cases={name: found for name, found in side.cases.items() if name in wanted})


def _judge_time(row: Row, other, narrow: bool) -> None:
    _, low, high = row.ratio
    if low is None:
        row.detail = "one round has no interval; give more time with --budget"
        return
    below, above = 1 / (1 + row.margin), 1 + row.margin
    if low <= 1 <= high or (below <= low and high <= above):
        row.verdict, row.detail = "reproduced", WITHIN_RUN if narrow else ""
    elif narrow:
        row.detail = f"{_by(row)}; {WITHIN_RUN}"
    elif (low > above or high < below) and other.q <= verdicts.LEVEL:
        row.verdict, row.detail = "not reproduced", _by(row)
    else:
        row.verdict, row.detail = "shifted", f"{_by(row)}, not clear of the threshold of {100 * row.margin:.2g}%"


def _by(row: Row) -> str:
    """What the time says, whatever the direction: ratios of times are above 1 where it is slower."""
    change = 100 * (row.ratio[0] - 1)
    return f"{abs(change):.1f}% {'above' if change > 0 else 'below'} the old one"


def _within_run(old: list, new: list) -> tuple | None:
    """Interval of the ratio from the rounds alone; None where a side has one round a launch."""
    if any(sum(map(len, side)) <= len(side) for side in (old, new)):
        return None
    sides = [verdicts.stack([verdicts.side_estimate(side, (0.0, math.inf))]) for side in (old, new)]
    _, low, high, _ = verdicts.welch(*sides)
    return math.exp(low[0]), math.exp(high[0])
