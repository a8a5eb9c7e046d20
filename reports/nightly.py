"""Judges one night: against the baseline, once more for what looks slower, and by the changes of the history."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import baseline, history, nightly_history
from . import calibration as stored
from .compare import Comparison, compare
from .errors import EnvironmentProblem, InputProblem
from .history import Folder, Night, Tonight
from .nightly_history import RECENT
from .readers import Side, read_side
from .verdicts import side_estimate

# A night as bad as this one must be rarer, over all cases, than this share of nights. compare's 0.05 alone would call
# one of equal cases slower every 20 nights, and a repetition minutes later shares what the night differs by.
ALERT_LEVEL = 0.01


@dataclass
class Verdict:
    """All that summary, JUnit and page show."""

    folder: Folder
    nights: list
    tonight: Tonight | None = None
    base: baseline.Baseline | None = None
    comparison: Comparison | None = None
    repeat: Comparison | None = None
    suspects: list = field(default_factory=list)  # called slower at first
    confirmed: list = field(default_factory=list)  # and slower again
    usual: list = field(default_factory=list)  # slower again, but other nights were as slow
    broken: list = field(default_factory=list)  # (case, reason): failed, and measured before
    series: dict = field(default_factory=dict)
    shifts: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    blind: str | None = None  # why there is no comparison
    unable: bool = False  # the suspects could not be measured again

    @property
    def alerting(self) -> list:
        return [s for s in self.shifts if s.state == "alert"]

    @property
    def undecided(self) -> list:
        return [r for r in self.comparison.rows if r.verdict == "inconclusive"] if self.comparison else []

    def alerts(self) -> dict:
        """Case to the reasons why somebody should look at it."""
        out: dict = {}
        for row in self.confirmed:
            out.setdefault(row.id, []).append(row)
        for case, reason in self.broken:
            out.setdefault(case, []).append(f"failed, and was measured before: {reason}")
        for shift in self.alerting:
            out.setdefault(shift.case, []).append(shift)
        return out

    def exit_code(self, strict: bool = False) -> int:
        if self.alerts():
            return 1
        if self.unable:
            return 3
        return 4 if strict and (self.blind or self.undecided) else 0


def judge(
    store,
    tonight: Tonight | None,
    key: str | None = None,
    repeat: Callable[[Tonight, list], Path] | str | None = None,
    thresholds=(),
    recent: int = RECENT,
) -> Verdict:
    """`tonight` is kept first, so that nothing that follows can lose it. `repeat` measures the cases that it is given
    once more and returns the result, or is the path of such a result; None: they stay unconfirmed and do not alert."""
    folder = Folder(store, key or tonight.machine.key)
    found = Verdict(folder, [], tonight)
    if tonight is not None and not folder.add(tonight):
        found.notes.append("this very result stands in the history already: not added again")
    found.nights, skipped = folder.nights()
    found.notes += skipped
    if not found.nights:
        raise InputProblem(f"{folder.history}: holds no night that can be read; give a RESULT")
    machine = tonight.machine if tonight else history.read_machine(folder.path / "machine.json")
    found.base, notes = baseline.current(store, machine)
    found.notes += notes
    before = [n for n in found.nights if tonight is None or n.digest != tonight.digest]
    _compare(found, before, thresholds, repeat)
    found.series = nightly_history.series_of(found.nights, thresholds)
    acknowledged = found.base.date if found.base else None
    found.shifts = nightly_history.shifts_of(found.nights, found.series, acknowledged, thresholds, recent)
    found.notes += nightly_history.remarks(found.nights, found.series, found.shifts)
    _failures(found, before)
    return found


def _compare(found: Verdict, before: list, thresholds, repeat) -> None:
    tonight = found.tonight
    if tonight is None:
        found.blind = "no result was given: the history alone is judged"
        return
    if found.base is None:
        found.blind = "there is no baseline of this machine, driver and toolkit"
        return
    series = nightly_history.series_of(before, thresholds)
    identity = tonight.side.identity
    known, note = nightly_history.noise(series, stored.of_machine(identity), identity, len(before))
    found.notes += [note] if note else []
    try:
        base = read_side(found.base.path)
        usable = [t for t in thresholds if _matches(t, base, tonight.side)]
        found.comparison = compare(base, tonight.side, usable, known)
    except InputProblem as problem:
        found.blind = f"the baseline cannot be compared with: {problem}".replace(
            "pass --force-mixed to", "accept a new"
        )
        return
    found.suspects = [row for row in found.comparison.rows if row.verdict == "slower"]
    if found.suspects and repeat is not None:
        _again(found, base, usable, known, repeat, series, before)
    dropped = {row.id for row in found.suspects} - {row.id for row in found.confirmed}
    found.comparison.rows = [_unconfirmed(r, found) if r.id in dropped else r for r in found.comparison.rows]


def _matches(threshold: tuple, *sides: Side) -> bool:
    """A pattern of --threshold that fits no case of today is no fault of the night."""
    both = [name for name in sides[0].cases if name in sides[1].cases]
    return any(nightly_history.threshold_of(name, [(threshold[0], -1.0)]) < 0 for name in both)


def _again(found: Verdict, base: Side, thresholds, known, repeat, series: dict, before: list) -> None:
    names = [row.id for row in found.suspects]
    try:
        path = repeat if isinstance(repeat, (str, Path)) else repeat(found.tonight, names)
        part = _only(read_side(path), names)
        usable = [t for t in thresholds if _matches(t, _only(base, names), part)]
        found.repeat = compare(_only(base, names), part, usable, known)
    except (InputProblem, EnvironmentProblem) as problem:
        found.notes.append(f"the suspects could not be repeated: {problem}")
        found.unable = isinstance(problem, EnvironmentProblem)
        return
    for row in found.repeat.rows:
        if row.verdict == "slower":
            value = math.exp(side_estimate(found.tonight.side.cases[row.id].launches, None)[0])
            p = nightly_history.chance(series.get(row.id), before, found.base.date, value, len(base.cases))
            (found.confirmed if p is None or p <= ALERT_LEVEL else found.usual).append(row)


def _only(side: Side, names: list) -> Side:
    return dataclasses.replace(side, cases={n: side.cases[n] for n in names if n in side.cases})


def _unconfirmed(row, found: Verdict):
    """Slower once is not slower: undecided, with what the repetition said."""
    again = next((r for r in found.repeat.rows if r.id == row.id), None) if found.repeat else None
    if again is None or again.verdict == "missing":
        said = "slower once, not repeated"
    elif again.verdict == "slower":
        said = "slower than the baseline twice, but not than other nights of its level"
    else:
        said = f"slower once, {again.verdict} when repeated"
    budget = again.budget if again is not None else None
    return dataclasses.replace(row, verdict="inconclusive", detail=said, budget=budget or 2 * max(row.launches))


def _failures(found: Verdict, before: list) -> None:
    """Cases that failed tonight and had a number: in the baseline, or the last time that they ran."""
    last: Night = found.nights[-1]
    broken = {row.id: row.detail for row in found.comparison.broken} if found.comparison else {}
    for case, value in last.cases.items():
        if isinstance(value, dict) and value["status"] == "failed" and case not in broken:
            earlier = [n.cases[case] for n in before if case in n.cases and n.digest != last.digest]
            if earlier and isinstance(earlier[-1], list):
                broken[case] = str(value.get("reason"))
    found.broken = sorted(broken.items())
