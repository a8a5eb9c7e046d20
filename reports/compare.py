"""`assay compare BASE NEW`: pairs cases by id and gives each a verdict. Rules and formulas: docs/compare.md."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from . import calibration as stored
from . import verdicts
from .calibration import Calibration
from .errors import InputProblem
from .readers import KINDS, RESOURCES, Found, Side, read_side
from .shape import median

DEFAULT_THRESHOLD = 0.02
# In the order in which they are shown.
VERDICTS = ("slower", "failed", "inconclusive", "missing", "new", "faster", "same")
SHOWN = 3  # examples in a message


@dataclass
class Row:
    """One case. Ratios are NEW over BASE; low, high, p and q are None where there is no test."""

    id: str
    verdict: str
    detail: str = ""
    unit: str = "ns"
    better: str = "lower"
    base: float | None = None
    new: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    q: float | None = None
    margin: float = DEFAULT_THRESHOLD
    threshold: float = DEFAULT_THRESHOLD
    launches: tuple = (0, 0)
    budget: int | None = None
    paired: bool = False  # tested by its pairs: `launches` are as many a side, `budget` is one of pairs
    notes: list = field(default_factory=list)
    resources: list = field(default_factory=list)  # (name, unit, base, new, grew)


@dataclass
class Comparison:
    base: Side
    new: Side
    rows: list
    notes: list
    mixed: list  # kinds that differ and were forced
    calibration: Calibration | None
    name: str = "compare"
    footer: list = field(default_factory=list)  # lines below the table

    def counts(self) -> dict:
        counted = Counter(row.verdict for row in self.rows)
        return {verdict: counted[verdict] for verdict in VERDICTS}

    @property
    def broken(self) -> list:
        """Cases that failed in NEW and were measured in BASE: a regression, whatever the times say."""
        return [r for r in self.rows if r.verdict == "failed" and r.base is not None and r.new is None]

    @property
    def grown(self) -> list:
        return [(row, item) for row in self.rows for item in row.resources if item[4]]

    def exit_code(self, strict: bool = False, resources: bool = False) -> int:
        counts = self.counts()
        if not any(row.base is not None and row.new is not None for row in self.rows) and not self.broken:
            return 4  # not one case was measured on both sides
        if counts["slower"] or self.broken or (resources and self.grown):
            return 1
        return 4 if strict and (counts["inconclusive"] or counts["missing"] or counts["failed"]) else 0


def compare_paths(base, new, thresholds=(), calibration=None, forced: bool = False) -> Comparison:
    """`thresholds`: pairs (pattern or None, relative change); the last that matches a case holds for it."""
    return compare(read_side(base), read_side(new), thresholds, calibration, forced)


def compare(base: Side, new: Side, thresholds=(), calibration: Calibration | None = None, forced: bool = False):
    both = [name for name in base.cases if name in new.cases]
    if not both:
        raise InputProblem(
            f"{base.path} and {new.path} have no case in common ({_some(base.cases)} against {_some(new.cases)}): "
            "give results of the same cases"
        )
    check_patterns(thresholds, both)
    calibration, notes, mixed = agreed(base, new, both, calibration, forced)
    notes += [*_remarks(base, new), *_calibration_remarks(calibration)]
    rows = _paired(base, new, both, thresholds, calibration)
    rows += [unpaired(name, base.cases[name], "missing", "not in NEW") for name in base.cases if name not in new.cases]
    rows += [unpaired(name, new.cases[name], "new", "not in BASE") for name in new.cases if name not in base.cases]
    return Comparison(base, new, in_order(rows), notes, mixed, calibration)


def check_patterns(thresholds, both) -> None:
    for pattern, _ in thresholds:
        if pattern is not None and not any(fnmatchcase(name, pattern) for name in both):
            raise InputProblem(f"--threshold {pattern}: no case that both sides have matches this pattern")


def in_order(rows: list) -> list:
    """What asks for action first; within a verdict the largest change."""
    return sorted(rows, key=lambda r: (VERDICTS.index(r.verdict), -abs(math.log(r.ratio)) if r.ratio else 0.0, r.id))


# ---- what may be compared ----


def agreed(base: Side, new: Side, both: list, calibration: Calibration | None, forced: bool, kinds=KINDS) -> tuple:
    """(calibration, notes, kinds that differ and were forced). Refuses what differs in one of `kinds`, unless forced;
    a difference of another kind is a note."""
    found = _differences(base, new, both)
    mixed = {kind: lines for kind, lines in found.items() if kind in kinds}
    if calibration is None:
        calibration = stored.of_machine(base.identity)
    elif calibration is stored.NONE:
        calibration = None
    elif None not in (base.identity, new.identity):
        sides = [s for s in (base, new) if s.identity != calibration.machine]
        if sides:
            mixed.setdefault("calibration", []).append(f"{calibration.path} is of another machine than {sides[0].path}")
    if mixed and not forced:
        raise InputProblem(_refusal(mixed))
    notes = [f"mixed {kind}: {text}" for kind, lines in mixed.items() for text in _shortened(lines)]
    notes += [f"{kind}: {text}" for kind, lines in found.items() if kind not in mixed for text in _shortened(lines)]
    return calibration, notes, list(mixed)


def _some(cases) -> str:
    names = list(cases)
    return ", ".join(map(repr, names[:SHOWN])) + (" ..." if len(names) > SHOWN else "")


def _shortened(lines: list) -> list:
    return lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"and {len(lines) - SHOWN} more"]


def _differences(base: Side, new: Side, both: list) -> dict:
    """Kind to what differs, of KINDS. What one side does not know is no difference; it stands among the remarks."""
    found = {}
    for side in (base, new):
        for kind, text in side.inner:
            found.setdefault(kind, []).append(f"within {side.path}: {text}")
    for kind in KINDS:
        left, right = base.facets.get(kind, {}), new.facets.get(kind, {})
        for label in left:
            a, b = left[label], right.get(label)
            if None not in (a, b) and a != b:
                found.setdefault(kind, []).append(f"{label} is {a} in BASE and {b} in NEW")
    for name in both:
        a, b = base.cases[name].checks, new.cases[name].checks
        for label in a.keys() & b.keys():
            if a[label] != b[label]:
                found.setdefault("data", []).append(f"{label} of {name} differs")
    return {kind: found[kind] for kind in KINDS if kind in found}


def _refusal(mixed: dict) -> str:
    said = "; ".join(f"{kind}: {', '.join(_shortened(lines))}" for kind, lines in mixed.items())
    return f"not comparable: {said}. Measure both sides alike, or pass --force-mixed to compare all the same"


def _remarks(base: Side, new: Side) -> list:
    out = []
    if base.tools != new.tools or len(base.tools) > 1:
        tools = f"BASE by {', '.join(base.tools)}, NEW by {', '.join(new.tools)}"
        out.append(f"measured by different tools ({tools}): their protocols differ")
    out += list(dict.fromkeys(base.lacks + new.lacks))
    for kind in KINDS:
        left, right = base.facets.get(kind, {}), new.facets.get(kind, {})
        unknown = [k for k in left if k in right and (left[k] is None) != (right[k] is None)]
        if unknown:
            out.append(f"{kind} not checked, one side does not know it: {', '.join(unknown)}")
    return out + settings_remarks(base, new)


def settings_remarks(base: Side, new: Side) -> list:
    left, right = base.facets.get("settings", {}), new.facets.get("settings", {})
    differ = [k for k in left if k in right and left[k] != right[k]]
    return [f"settings differ: {', '.join(_setting(k, left[k], right[k]) for k in differ)}"] if differ else []


def _calibration_remarks(calibration: Calibration | None) -> list:
    drift = "what changed on the machine between the two runs is not in the intervals; side by side it cancels out"
    if calibration is None:
        few = f"a side of fewer than {verdicts.MIN_LAUNCHES} launches decides nothing"
        return [f"no calibration of this machine: 'same' means inside the threshold, and {few}", drift]
    effect, session = calibration.fallback["detectable_effect"], calibration.fallback["session_sd"]
    shown = "not stated" if effect is None else f"{100 * effect:.2g}%"
    by_case = f", {len(calibration.cases)} cases have values of their own" if calibration.cases else ""
    known = drift if session is None else f"runs at other times differ by {100 * session:.2g}%, part of the intervals"
    return [f"calibration {calibration.path.name}: detectable effect {shown}{by_case}", known]


def _setting(name: str, a, b) -> str:
    text = f"{name} ({a} and {b})"
    return text if len(text) < 80 else name


# ---- verdicts ----


def unpaired(name: str, found: Found, verdict: str, detail: str) -> Row:
    if found.status == "failed":
        detail += f"; failed: {found.reason}"
        verdict = "failed" if verdict == "new" else verdict
    elif found.status != "done":
        detail += f"; {found.status}: {found.reason}"
    row = Row(name, verdict, detail, found.unit, found.better)
    if found.status == "done":
        setattr(row, "base" if verdict == "missing" else "new", centre(found))
    return row


def centre(found: Found) -> float:
    logs = [math.log(x) for x in map(median, found.launches)]
    return math.exp(sum(logs) / len(logs))


def _paired(base: Side, new: Side, both: list, thresholds, calibration) -> list:
    rows, tested = [], []
    for name in both:
        a, b = base.cases[name], new.cases[name]
        row = Row(name, "inconclusive", "", a.unit, a.better)
        rows.append(row)
        set_limits(row, thresholds, calibration.detectable(name) if calibration else None)
        note_suspects(row, a, b)
        if a.status != "done" or b.status != "done":
            not_measured(row, a, b)
            continue
        if (a.unit, a.better) != (b.unit, b.better):
            raise InputProblem(f"{name!r} is in {a.unit} in BASE and in {b.unit} in NEW: these cannot be compared")
        row.resources = compare_resources(a, b, row.threshold)
        row.launches = (len(a.launches), len(b.launches))
        tested.append((row, _estimate(a, name, calibration), _estimate(b, name, calibration)))
    _test(tested)
    return rows


def note_suspects(row: Row, a: Found, b: Found) -> None:
    for label, found in (("BASE", a), ("NEW", b)):
        if found.suspect:
            row.notes.append(f"suspect in {label}: {'; '.join(found.suspect)}")


def set_limits(row: Row, thresholds, detectable: float | None) -> None:
    for pattern, value in thresholds:
        if pattern is None or fnmatchcase(row.id, pattern):
            row.threshold = value
    row.margin = max(row.threshold, detectable or 0.0)


def _estimate(found: Found, name: str, calibration) -> tuple:
    if calibration is None:
        return verdicts.side_estimate(found.launches, None)
    return verdicts.side_estimate(found.launches, calibration.between(name), calibration.session(name))


def not_measured(row: Row, a: Found, b: Found) -> None:
    if a.status == "done":
        row.base = centre(a)
    if b.status == "done":
        row.new = centre(b)
    said = [f"{label}: {f.reason}" for label, f in (("BASE", a), ("NEW", b)) if f.status != "done"]
    row.detail = f"both: {a.reason}" if len(said) == 2 and a.reason == b.reason else "; ".join(said)
    if "failed" in (a.status, b.status):
        row.verdict = "failed"
    else:
        row.verdict = "missing" if b.status != "done" else "new"


def _test(tested: list) -> None:
    """Fills the rows from one vectorised pass over all cases."""
    if not tested:
        return
    rows = [row for row, _, _ in tested]
    base, new = (verdicts.stack([t[i] for t in tested]) for i in (1, 2))
    decide(rows, verdicts.welch(base, new), (base, new))
    for i, row in enumerate(rows):
        row.base, row.new = math.exp(base.mean[i]), math.exp(new.mean[i])
        if row.p is None:
            fewest = min(row.launches)
            row.detail = "one launch" if fewest == 1 else f"{fewest} launches"
            row.budget = verdicts.MIN_LAUNCHES


def decide(rows: list, test: tuple, sides: tuple, most_p: float = 1.0) -> None:
    """Verdict, interval, q and budget of each row from `test` = (difference, low, high, p), NaN where there is none,
    and the estimates that it came from: two sides, or one of pairs. A change needs p <= most_p beside its q."""
    difference, low, high, p = test
    q = verdicts.benjamini_hochberg(p)
    threshold = np.log1p([row.threshold for row in rows])
    margin = np.log1p([row.margin for row in rows])
    sign = np.array([1.0 if row.better == "lower" else -1.0 for row in rows])
    said = verdicts.judge(difference, low, high, (q <= verdicts.LEVEL) & (p <= most_p), threshold, margin, sign)
    needed = np.zeros(len(rows))
    open_ = np.flatnonzero((said == "inconclusive") & ~np.isnan(p))
    if open_.size:
        parts = tuple(side.part(open_) for side in sides)
        needed[open_] = verdicts.budget(parts, difference[open_], q, threshold[open_], margin[open_], most_p)
    for i, row in enumerate(rows):
        row.ratio = math.exp(difference[i])
        if math.isnan(p[i]):
            continue
        row.low, row.high, row.p, row.q = (float(x) for x in (np.exp(low[i]), np.exp(high[i]), p[i], q[i]))
        row.verdict = str(said[i])
        if row.verdict == "inconclusive":
            row.budget = int(needed[i]) or None


# ---- resources ----


def compare_resources(a: Found, b: Found, threshold: float) -> list:
    """Only what both sides hold. Grew: by more than the threshold; registers, spills and binary size are exact, so any
    growth counts."""
    out = []
    for name, (unit, _) in RESOURCES.items():
        if name not in a.resources or name not in b.resources:
            continue
        old, now = median(a.resources[name]), median(b.resources[name])
        slack = 1.0 if name in ("registers", "spills", "binary size") else 1.0 + threshold
        out.append((name, unit, old, now, now > old * slack))
    return out
