"""What the nights say by themselves: the series of each case, its changes, and how far equal nights lie apart."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from scipy import stats as scipy_stats

from . import calibration as stored
from . import changes
from .compare import DEFAULT_THRESHOLD
from .verdicts import LEVEL

MOST_NIGHTS = 200  # looked at, the latest
RECENT = 30  # nights within which a change for the worse raises an alert until it is accepted
DETECTED = 0.95  # chance with which a change of the stated detectable effect is found
# Relative, with its degrees of freedom: what nights are taken to differ by before there are enough of them. A shared
# virtual machine's medians wander by as much; a smaller guess would call its second night a regression.
ASSUMED_SD, ASSUMED_FREEDOM = 0.05, 8.0
SESSION = ("session_sd", "session_degrees_of_freedom")  # of a calibration: what the nights can tell
ALL_KEYS = stored.FIELDS + stored.OPTIONAL
TOGETHER = 0.5  # share of cases that change in one night above which the machine is suspected, not a kernel
STATES = ("alert", "acknowledged", "undone", "old", "gone", "better")


@dataclass(frozen=True)
class Series:
    """The nights of one case, oldest first. `nights` are indexes into the history."""

    case: str
    unit: str
    better: str
    nights: list
    values: list
    lows: list
    highs: list
    launches: list
    segments: changes.Segments


@dataclass(frozen=True)
class Shift:
    """A change of a case's level at a night, and what is to be done about it."""

    case: str
    series: Series
    change: changes.Change
    date: datetime  # of the first night of the new level
    commits: tuple  # of the last night before and of the first night after
    state: str  # of STATES


def threshold_of(case: str, thresholds) -> float:
    """As in compare: the last pattern that matches holds."""
    out = DEFAULT_THRESHOLD
    for pattern, value in thresholds:
        if pattern is None or fnmatchcase(case, pattern):
            out = value
    return out


def series_of(nights: list, thresholds=()) -> dict:
    """Case to Series, of every case that was measured. Nights in another unit than the latest are left out."""
    nights = nights[-MOST_NIGHTS:]
    points = {}
    for index, night in enumerate(nights):
        for case in night.cases:
            value = night.value(case)
            if value is not None:
                unit = tuple(night.units.get(case, ("ns", "lower")))
                points.setdefault(case, []).append((index, unit, value))
    enough = sum(1 for rows in points.values() if len(rows) >= changes.FEWEST_NIGHTS)
    out = {}
    for case, rows in points.items():
        unit = rows[-1][1]
        rows = [row for row in rows if row[1] == unit]
        columns = [list(c) for c in zip(*(row[2] for row in rows), strict=True)]
        found = changes.find(columns[0], threshold_of(case, thresholds), max(1, enough))
        out[case] = Series(case, *unit, [row[0] for row in rows], *columns, found)
    return out


def shifts_of(nights: list, series: dict, acknowledged: datetime | None, thresholds=(), recent: int = RECENT) -> list:
    """Every change, the worst alerts first."""
    nights = nights[-MOST_NIGHTS:]
    out = []
    for case, one in series.items():
        for index, change in enumerate(one.segments.changes):
            first, last = one.nights[change.at], one.nights[change.at - 1]
            state = _state(one, index, nights, acknowledged, threshold_of(case, thresholds), recent)
            commits = (nights[last].commit, nights[first].commit)
            out.append(Shift(case, one, change, nights[first].date, commits, state))
    return sorted(out, key=lambda s: (STATES.index(s.state), -abs(s.change.size), s.case))


def _state(one: Series, index: int, nights: list, acknowledged, threshold: float, recent: int) -> str:
    sign = 1 if one.better == "lower" else -1
    change, levels = one.segments.changes[index], one.segments.levels
    if change.size * sign <= 0:
        return "better"
    if acknowledged is not None and nights[one.nights[change.at]].date <= acknowledged:
        return "acknowledged"
    if (levels[-1] - levels[index]) * sign < math.log1p(threshold):
        return "undone"
    if one.case not in nights[-1].cases:
        return "gone"
    return "alert" if len(one.nights) - change.at <= recent else "old"


def noise(series: dict, base: stored.Calibration | None, identity: dict, count: int) -> tuple:
    """(calibration, note): the nights say what two runs at other times differ by, where no study has said it.

    Within segments, so that no step counts as noise. From the variance of a night's value the part of its launches is
    taken off; compare adds that itself. A case of few nights has the median of the others; without any, what is
    assumed.
    """
    if base is not None and base.fallback["session_sd"] is not None:
        return base, None
    rows = {case: row for case, one in series.items() if (row := _noise_row(one)) is not None}
    middle = {key: _middle([row[key] for row in rows.values()]) for key in ALL_KEYS}
    note = None
    if not rows:
        middle |= {"session_sd": ASSUMED_SD, "session_degrees_of_freedom": ASSUMED_FREEDOM}
        note = (
            f"{counted(count, 'earlier night')} and no calibration: nights are taken to differ by "
            f"{100 * ASSUMED_SD:g}%, so that only large changes are called; {changes.FEWEST_NIGHTS} nights or "
            "`assay calibrate` sharpen it"
        )
    if base is None:
        return stored.Calibration(Path(f"from {counted(count, 'night')}"), identity, middle, rows), note
    kept = {key: middle[key] for key in SESSION}
    cases = {case: row | kept for case, row in base.cases.items()}
    for case, row in rows.items():
        cases[case] = base.cases.get(case, base.fallback) | {key: row[key] for key in SESSION}
    return dataclasses.replace(base, fallback=base.fallback | kept, cases=cases), note


def _middle(values: list) -> float | None:
    return float(np.median(values)) if values and None not in values else None


def _noise_row(one: Series) -> dict | None:
    if len(one.values) < changes.FEWEST_NIGHTS:
        return None
    sd, freedom = one.segments.sd, one.segments.freedom
    within = [
        (math.log(high / low) / 2 / scipy_stats.t.ppf(1 - LEVEL / 2, n - 1)) ** 2
        for low, high, n in zip(one.lows, one.highs, one.launches, strict=True)
        if low is not None and n > 1
    ]
    session = math.sqrt(max(0.0, sd**2 - (float(np.median(within)) if within else 0.0)))
    sure = sum(float(scipy_stats.t.ppf(q, freedom)) for q in (1 - LEVEL / 2, DETECTED))
    row = dict.fromkeys(ALL_KEYS)
    row |= {"session_sd": session, "session_degrees_of_freedom": float(freedom)}
    return row | {"detectable_effect": math.expm1(sure * math.sqrt(2) * sd)}


def chance(one: Series | None, nights: list, accepted: datetime, value: float, cases: int) -> float | None:
    """Of a night as bad as `value` where nothing has changed since the baseline was accepted, in any of `cases` cases.
    Against the level at that time, by Student t. None where there are too few nights to say.

    A baseline is one night. Where that night happened to be a good one every later night looks slower; its level, the
    median of its neighbours, does not have that fault.
    """
    if one is None or len(one.values) < changes.FEWEST_NIGHTS:
        return None
    nights, segments = nights[-MOST_NIGHTS:], one.segments
    at = max((i for i, night in enumerate(one.nights) if nights[night].date <= accepted), default=0)
    which = max(i for i, start in enumerate(segments.starts) if start <= at)
    length = [*segments.starts, len(one.values)][which + 1] - segments.starts[which]
    worse = (math.log(value) - segments.levels[which]) * (1 if one.better == "lower" else -1)
    error = segments.sd * math.sqrt(1 + changes.MEDIAN_COST**2 / length)
    return min(1.0, cases * float(scipy_stats.t.sf(worse / error, segments.freedom)))


def counted(count: int, noun: str) -> str:
    """`1 night`, `2 nights`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def remarks(nights: list, series: dict, shifts: list) -> list:
    """What is odd about the history as a whole."""
    out = []
    days = Counter(night.date.date() for night in nights)
    twice = [day for day, count in days.items() if count > 1]
    if twice:
        shown = ", ".join(map(str, twice[-3:]))
        out.append(
            f"{counted(len(twice), 'date')} with more than one night ({shown}): each counts as a night of its own"
        )
    if nights:
        first, last = min(days), max(days)
        gone = [d for i in range((last - first).days) if (d := first + timedelta(days=i)) not in days]
        if gone:
            out.append(
                f"{counted(len(gone), 'date')} between {first} and {last} without a night, the last of them {gone[-1]}"
            )
        known, absent = nights[-1].cases, []
        if len(nights) > 1:
            absent = [case for case in nights[-2].cases if case not in known]
            fresh = [case for case in known if not any(case in night.cases for night in nights[:-1])]
            out += [
                f"{counted(len(x), 'case')} {what}: {_some(x)}"
                for x, what in ((absent, "vanished"), (fresh, "appeared"))
                if x
            ]
    enough = sum(1 for one in series.values() if len(one.values) >= changes.FEWEST_NIGHTS)
    for date, count in Counter(s.date for s in shifts if s.state in ("alert", "better")).items():
        if enough > 1 and count / enough > TOGETHER:
            out.append(
                f"{count} of {enough} cases changed in the night of {date:%Y-%m-%d}: look at the machine (kernel, "
                "clocks, neighbours) before the code"
            )
    return out


def _some(names: list) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
