"""The verdict of a duet, from the launches in its folder. Formulas and reasons: docs/duet.md."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import verdicts
from .calibration import Calibration
from .compare import (
    Comparison,
    Row,
    agreed,
    check_patterns,
    compare_resources,
    decide,
    in_order,
    not_measured,
    set_limits,
    settings_remarks,
    unpaired,
)
from .duet import LEAST_PAIRS, SIDES, launch_path, pair_done, read_head
from .errors import InputProblem
from .readers import Found, join, read_side
from .shape import median

# A duet may well be about two toolkits: what compare refuses beside these is only a note here.
KINDS = ("machine", "placement", "data")
STATISTICS = ("lower quartile", "median")
NOT_CONVERGED = "not converged"
REPEATED = 2  # a failure in one launch may be the machine's; as often as this, in B alone, it is B's


@dataclass(frozen=True)
class Pairs:
    """What a folder holds: for each whole pair the two launches, each read as a side of its own."""

    folder: Path
    head: dict
    a: list
    b: list

    @property
    def count(self) -> int:
        return len(self.a)


def read_pairs(folder) -> Pairs:
    folder = Path(folder)
    head = read_head(folder)
    done = [k for k in range(head["pairs"]) if pair_done(folder, k)]
    if len(done) < LEAST_PAIRS:
        raise InputProblem(f"{folder}: holds {len(done)} whole pairs; a verdict needs at least {LEAST_PAIRS}")
    a, b = ([read_side(launch_path(folder, side, k), quartiles=True) for k in done] for side in SIDES)
    return Pairs(folder, head, a, b)


def judge(
    folder, thresholds=(), calibration: Calibration | None = None, forced: bool = False, statistic: str = STATISTICS[0]
) -> Comparison:
    """A is BASE, B is NEW. `thresholds`: pairs (pattern or None, relative change); the last that matches holds."""
    return judge_pairs(read_pairs(folder), thresholds, calibration, forced, statistic)


def judge_pairs(
    pairs: Pairs, thresholds=(), calibration=None, forced: bool = False, statistic: str = STATISTICS[0], names=None
) -> Comparison:
    """`statistic`: what stands for a launch, of STATISTICS. `names`: of these cases, as if the duet had no others."""
    names = list(pairs.head["cases"] if names is None else names)
    found = {name: [_both(pairs, k, name) for k in range(pairs.count)] for name in names}
    left_out = {(k, name) for name in names for k, (a, b) in enumerate(found[name]) if not _usable(a, b)}
    base, new = (join(pairs.folder / side, getattr(pairs, side), left_out) for side in SIDES)
    for side, described in zip((base, new), pairs.head["sides"], strict=True):
        side.label = str(described["label"])
        side.cases = {name: side.cases.get(name, Found()) for name in names}
    check_patterns(thresholds, names)
    calibration, notes, mixed = agreed(base, new, names, calibration, forced, KINDS)
    notes += [*_protocol(pairs, statistic), *settings_remarks(base, new), *_calibrated(calibration)]
    rows, tested = [], []
    for name in names:
        row = Row(name, "inconclusive", "", base.cases[name].unit, base.cases[name].better)
        set_limits(row, thresholds, calibration.side_by_side(name) if calibration else None)
        rows.append(row)
        times = _times(row, found[name], base.cases[name], new.cases[name], statistic)
        if times:
            tested.append((row, times, base.cases[name], new.cases[name]))
    footer = _test(tested)
    for ids, verdict, detail in zip(pairs.head["unshared"], ("missing", "new"), ("not in B", "not in A"), strict=True):
        rows += [unpaired(name, Found("skipped", "only one side offers it"), verdict, detail) for name in ids]
    return Comparison(base, new, in_order(rows), notes, mixed, calibration, "duet", footer)


def _both(pairs: Pairs, k: int, name: str) -> tuple:
    return tuple(side[k].cases.get(name, Found(reason="not in this launch")) for side in (pairs.a, pairs.b))


def _usable(a: Found, b: Found) -> bool:
    return a.status == b.status == "done"


def _protocol(pairs: Pairs, statistic: str) -> list:
    taken = f"{pairs.count} pairs of launches in turns, seed {pairs.head['seed']}"
    return [f"{taken}; a launch counts by the {statistic} of its samples"]


def _calibrated(calibration: Calibration | None) -> list:
    if calibration is None or calibration.fallback["side_by_side_effect"] is None:
        return []
    effect = calibration.fallback["side_by_side_effect"]
    return [f"calibration {calibration.path.name}: side by side, changes from {100 * effect:.2g}% are found"]


# ---- one case ----


def _times(row: Row, found: list, base: Found, new: Found, statistic: str) -> list:
    """Logarithms of (A, B) of the usable pairs; empty where the case is failed, missing or has too few."""
    usable = [(k, a, b) for k, (a, b) in enumerate(found) if _usable(a, b)]
    failed = [sum(pair[i].status == "failed" for pair in found) for i in (0, 1)]
    dropped = len(found) - len(usable)
    if dropped and usable:
        row.notes.append(f"{dropped} of {len(found)} pairs left out: {_reasons(found)}")
    if not usable or (failed[1] >= REPEATED and not failed[0]):
        a, b = (_first_unlike_done(found, i) or side for i, side in enumerate((base, new)))
        not_measured(row, a, b)
        return []
    if (base.unit, base.better) != (new.unit, new.better):
        raise InputProblem(f"{row.id!r} is in {base.unit} in A and in {new.unit} in B: these cannot be compared")
    for i, label in enumerate(("BASE", "NEW")):
        row.notes += _doubts([pair[i] for _, *pair in usable], label)
    row.resources = compare_resources(base, new, row.threshold)
    row.launches, row.paired = (len(usable), len(usable)), True
    if len(usable) < LEAST_PAIRS:
        row.detail = f"{len(usable)} pairs"
        row.budget = LEAST_PAIRS
        return []
    return [(math.log(_unit(a, statistic)), math.log(_unit(b, statistic))) for _, a, b in usable]


def _unit(found: Found, statistic: str) -> float:
    """What stands for a launch."""
    if statistic == "median":
        return median([value for rounds in found.launches for value in rounds])
    return median(found.quartiles)


def _first_unlike_done(found: list, i: int) -> Found | None:
    """The failure of a side that failed in some launches; else what it was instead of done, if it never was."""
    bad = [pair[i] for pair in found if pair[i].status == "failed"]
    if bad:
        return bad[0]
    return None if any(pair[i].status == "done" for pair in found) else found[0][i]


def _reasons(found: list) -> str:
    said = []
    for i, label in enumerate("AB"):
        bad = [pair[i] for pair in found if pair[i].status != "done"]
        if bad:
            said.append(f"{label} {bad[0].status.replace('_', ' ')} in {len(bad)} ({bad[0].reason})")
    return "; ".join(said)


def _doubts(launches: list, label: str) -> list:
    """Reasons to suspect the launches of a side, with how many have each. That a launch alone did not reach its target
    is none: the pairs decide, and their interval shows what they could."""
    counted = Counter(reason.split(":")[0] for found in launches for reason in set(found.suspect))
    counted.pop(NOT_CONVERGED, None)
    return [f"suspect in {label}: {reason} ({count} of {len(launches)})" for reason, count in counted.items()]


# ---- the test ----


def _test(tested: list) -> list:
    """Fills the rows; returns the lines below the table."""
    if not tested:
        return []
    rows = [row for row, *_ in tested]
    estimate = verdicts.stack([verdicts.pair_estimate([b - a for a, b in times]) for _, times, _, _ in tested])
    test = verdicts.paired(estimate)
    decide(rows, test, (estimate,), verdicts.PAIR_LEVEL)
    for row, times, *_ in tested:
        kept = _kept(times)
        row.base, row.new = (math.exp(math.fsum(t[i] for t in kept) / len(kept)) for i in (0, 1))
    sides = [verdicts.stack([verdicts.side_estimate(t[i].launches, None) for t in tested]) for i in (2, 3)]
    return [_unpaired_line(test, verdicts.welch(*sides))]


def _kept(times: list) -> list:
    """The pairs that the estimate keeps, so that the times shown have the ratio shown."""
    cut = verdicts.trimmed(len(times))
    return sorted(times, key=lambda t: t[1] - t[0])[cut : len(times) - cut]


def _unpaired_line(paired: tuple, welch: tuple) -> str:
    """What two stored results of as many launches could have seen at best: without the drift between them."""
    halves = [np.expm1((t[2] - t[1]) / 2) for t in (paired, welch)]
    middle = [100 * float(np.median(h)) for h in halves]
    return (
        f"the same launches as two stored results, unpaired: intervals of +-{middle[1]:.2g}% (median of the cases) in "
        f"place of +-{middle[0]:.2g}%, and what the machine drifts between two runs beside it"
    )
