"""What the duets of a calibration say about a machine: spreads, least effects, false alarms and detections.

A session is one duet: the launches of two sides A and B, taken in turns. Formulas and reasons: docs/calibrate.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy import optimize
from scipy import stats as scipy_stats

from .calibrate_cases import SIDE_BY_SIDE, STORED, Cases
from .calibration import FIELDS, OPTIONAL, Calibration
from .compare import compare
from .duet import LEAST_PAIRS
from .duet_judge import Pairs, judge_pairs
from .readers import Side
from .shape import median
from .verdicts import LEVEL, PAIR_LEVEL, pair_estimate, trimmed

FOUND = 0.95  # of the slow-downs of the least detectable effect are found
AIM = 0.01  # the effect whose budget is stated
MOST_PAIRS = 1000
LARGEST_EFFECT = 10.0  # a least effect above it is not stated
LEAST_SESSIONS = 6  # two to judge, four others to calibrate with: fewer say next to nothing of sessions


@dataclass(frozen=True)
class Session:
    """`a` and `b` hold all launches of a side; `pairs` the same launches one by one, as duet judges them."""

    number: int
    a: Side
    b: Side
    pairs: Pairs | None = None

    def logs(self, side: str, case: str) -> np.ndarray | None:
        """Logarithms of the launch medians, or None where the case was not measured in every launch."""
        found = getattr(self, side).cases.get(case)
        if found is None or found.status != "done" or len(found.launches) != getattr(self, side).files:
            return None
        return np.log([median(rounds) for rounds in found.launches])

    def ratios(self, case: str) -> list:
        """Logarithms of B over A of each pair, by what stands for a launch in a duet: its better quartile."""
        a, b = (getattr(self, side).cases[case].quartiles for side in "ab")
        return [math.log(y / x) for x, y in zip(a, b, strict=True)]

    def measured(self, case: str) -> bool:
        return self.logs("a", case) is not None and self.logs("b", case) is not None

    def why_not(self, case: str) -> str:
        for label, side in (("A", self.a), ("B", self.b)):
            found = side.cases.get(case)
            if found is None or found.status != "done":
                return f"{label}: {'absent' if found is None else found.reason or found.status}"
        return "measured in some launches only"


# ---- spreads ----


@dataclass
class Spread:
    """Variances of logarithms with their degrees of freedom, None where there is none. `pair`: n times the squared
    error of duet's trimmed mean of n pairs, so that rare disturbed launches count as little as they do there."""

    launch: tuple | None = None
    session: tuple | None = None
    pair: tuple | None = None


def _pooled(groups: list) -> tuple | None:
    """Variance about each group's own mean."""
    freedom = sum(len(g) - 1 for g in groups)
    return (sum(float(((g - g.mean()) ** 2).sum()) for g in groups) / freedom, freedom) if freedom > 0 else None


def spread_of(sessions: list, case: str, slowed: bool) -> Spread:
    """The means of sessions come from both sides where these do the same work, else from A."""
    have = [(s.logs("a", case), s.logs("b", case)) for s in sessions if s.measured(case)]
    if not have:
        return Spread()
    launch = _pooled([logs for pair in have for logs in pair])
    pairs = [pair_estimate(s.ratios(case)) for s in sessions if s.measured(case)]
    pair = (float(np.mean([e[3] for e in pairs])), sum(e[2] for e in pairs))
    session = None
    if len(have) >= 2 and launch:
        used = [a if slowed else np.concatenate([a, b]) for a, b in have]
        explained = launch[0] * float(np.mean([1 / len(u) for u in used]))
        between = float(np.var([u.mean() for u in used], ddof=1))
        session = (max(0.0, between - explained), len(have) - 1)
    return Spread(launch, session, pair)


def _typical(parts: list) -> tuple | None:
    """One variance for a case that was not studied: the mean. Cases differ more than chance makes them differ, so the
    degrees of freedom are those of a scaled chi-square with the variance that is seen among the cases."""
    parts = [p for p in parts if p is not None]
    if not parts:
        return None
    values = np.array([v for v, _ in parts])
    mean, freedom = float(values.mean()), float(sum(f for _, f in parts))
    scatter = float(values.var(ddof=1)) if len(parts) > 1 else 0.0
    if scatter > 0:
        freedom = max(1.0, min(freedom, 2 * mean**2 / scatter))
    return mean, freedom


def typical_spread(spreads: list) -> Spread:
    return Spread(*(_typical([getattr(s, name) for s in spreads]) for name in ("launch", "session", "pair")))


# ---- least effects ----


@cache
def _shift(freedom: float, level: float) -> float:
    """Effect over its standard error with which |t| passes the two-sided `level` in a share FOUND of trials: of the
    noncentral t, since the error is itself an estimate."""
    critical = float(scipy_stats.t.ppf(1 - level / 2, freedom))
    return float(optimize.brentq(lambda d: scipy_stats.nct.sf(critical, freedom, d) - FOUND, 0, 20 * critical + 20))


def _least(error: float, freedom: float, level: float, threshold: float) -> float | None:
    """Smallest relative slow-down that is found with probability FOUND: p must pass `level`, and the estimate, which
    scatters by `error`, the threshold."""
    passes = math.log1p(threshold) + float(scipy_stats.norm.ppf(FOUND)) * error
    effect = max(_shift(freedom, level) * error, passes)
    return math.expm1(effect) if effect < math.log1p(LARGEST_EFFECT) else None


def level_of(tests: int, paired: bool) -> float:
    """What Benjamini-Hochberg leaves to a single change among `tests` tests, and what duet asks beside it."""
    return min(PAIR_LEVEL, LEVEL / tests) if paired else LEVEL / tests


def least_stored(spread: Spread, launches: int, tests: int, threshold: float) -> float | None:
    """Against a stored result: two sides of `launches` launches each, at different times."""
    if spread.launch is None or spread.session is None or launches < 2:
        return None
    within, between = spread.launch[0] / launches, spread.session[0]
    total = 2 * (within + between)
    # Each side has its own launches; the spread of sessions is one estimate, and stands in the sum twice.
    divisor = 2 * within**2 / (launches - 1) + (2 * between) ** 2 / spread.session[1]
    freedom = total**2 / divisor if divisor > 0 else launches - 1
    return _least(math.sqrt(total), freedom, level_of(tests, False), threshold)


def least_side_by_side(spread: Spread, pairs: int, tests: int, threshold: float) -> float | None:
    if spread.pair is None or pairs < LEAST_PAIRS:
        return None
    freedom = pairs - 1 - 2 * trimmed(pairs)
    return _least(math.sqrt(spread.pair[0] / pairs), freedom, level_of(tests, True), threshold)


def pairs_for(spread: Spread, effect: float, tests: int) -> int | None:
    """Least launch pairs with which a slow-down of `effect` is found, if the threshold is set below it."""
    if spread.pair is None:
        return None
    counts = range(LEAST_PAIRS, MOST_PAIRS + 1)

    def enough(count: int) -> bool:
        freedom = count - 1 - 2 * trimmed(count)
        return _shift(freedom, level_of(tests, True)) * math.sqrt(spread.pair[0] / count) <= math.log1p(effect)

    at = bisect_left(counts, True, key=enough)
    return counts[at] if at < len(counts) else None


# ---- a calibration ----


@dataclass(frozen=True)
class Aim:
    """What least effects are stated for: launches a side, tests in one comparison, thresholds of the two kinds."""

    launches: int
    tests: int
    side_by_side: float
    stored: float


def values_of(spread: Spread, aim: Aim) -> dict:
    """The keys that compare and duet read (calibration.FIELDS and OPTIONAL)."""

    def root(part):
        return (None, None) if part is None else (math.sqrt(part[0]), part[1])

    (launch, launch_freedom), (session, session_freedom) = root(spread.launch), root(spread.session)
    return {
        "launch_sd": launch,
        "degrees_of_freedom": launch_freedom,
        "detectable_effect": least_stored(spread, aim.launches, aim.tests, aim.stored),
        "session_sd": session,
        "session_degrees_of_freedom": session_freedom,
        "side_by_side_effect": least_side_by_side(spread, aim.launches, aim.tests, aim.side_by_side),
    }


def overall_of(by_case: dict, cases: Cases, aim: Aim) -> dict:
    """Values for a case that was not studied. Its least effect is the middle of those of the studied ones: with so few
    degrees of freedom as the typical spread has, its own would call a factor of three the same."""
    own = [values_of(spread, aim) for name, spread in by_case.items() if name in cases.unchanged]

    def middle(key: str) -> float | None:
        effects = [math.inf if row[key] is None else row[key] for row in own]
        found = float(np.median(effects)) if effects else math.inf
        return found if math.isfinite(found) else None

    kinds = ("detectable_effect", "side_by_side_effect")
    return values_of(typical_of(by_case, cases), aim) | {key: middle(key) for key in kinds}


def spreads(sessions: list, cases: Cases) -> dict:
    slowed = {name for names in cases.slowed.values() for name in names}
    found = {name: spread_of(sessions, name, name in slowed) for name in cases.all}
    return {name: spread for name, spread in found.items() if spread.launch is not None}


def typical_of(by_case: dict, cases: Cases) -> Spread:
    return typical_spread([spread for name, spread in by_case.items() if name in cases.unchanged])


def calibration_of(others: list, machine: dict, cases: Cases, aim: Aim) -> Calibration:
    """From the sessions that are not judged. Fewer than two know nothing: then it is empty, and stands in the place of
    one that is stored for this machine, which may have been made of the very sessions that are judged."""
    path = Path("the other duets")
    if len(others) < LEAST_SESSIONS - 2:
        return Calibration(path, machine, dict.fromkeys(FIELDS + OPTIONAL), {})
    by_case = spreads(others, cases)
    values = {name: values_of(spread, aim) for name, spread in by_case.items()}
    return Calibration(path, machine, overall_of(by_case, cases, aim), values)


# ---- false alarms and detections ----


@dataclass
class Tally:
    """Of one kind of comparison. An alarm or a miss: (session, other session or None, case, verdict, ratio, q)."""

    injected: float
    threshold: float
    comparisons: int = 0
    inconclusive: int = 0
    alarms: list = field(default_factory=list)
    missed: list = field(default_factory=list)
    trials: dict = field(default_factory=dict)  # id of a slowed case: [found, trials, sum of logarithms of ratios]

    @property
    def found(self) -> int:
        return sum(row[0] for row in self.trials.values())

    @property
    def tried(self) -> int:
        return sum(row[1] for row in self.trials.values())

    def count_unchanged(self, rows: list, where: tuple) -> None:
        for row in rows:
            self.comparisons += 1
            self.inconclusive += row.verdict == "inconclusive"
            if row.verdict in ("slower", "faster"):
                self.alarms.append((*where, row.id, row.verdict, row.ratio, row.q))

    def count_slowed(self, row, where: tuple) -> None:
        known = self.trials.setdefault(row.id, [0, 0, 0.0])
        good = row.verdict == "slower" and row.q is not None and row.q <= LEVEL
        known[0] += good
        known[1] += 1
        known[2] += math.log(row.ratio)
        if not good:
            self.missed.append((*where, row.id, row.verdict, row.ratio, row.q))


def only(side: Side, names) -> Side:
    return replace(side, cases={name: side.cases[name] for name in names if name in side.cases})


def _judged(tally: Tally, unchanged: list, slowed: list, where: tuple, judge) -> None:
    """The unchanged cases are judged among themselves, as in an A/A study. Each slowed one is judged beside them as
    the only change: many true changes in one family would make the test of each too easy."""
    if unchanged:
        tally.count_unchanged(judge(unchanged), where)
    for name in slowed:
        row = next(row for row in judge([*unchanged, name]) if row.id == name)
        tally.count_slowed(row, where)


def _judge_duet(session: Session, names: list, threshold: float, calibration: Calibration) -> list:
    return judge_pairs(session.pairs, [(None, threshold)], calibration, names=names).rows


def side_by_side(sessions: list, cases: Cases, injected: float, aim: Aim, judge=_judge_duet) -> Tally:
    tally = Tally(injected, aim.side_by_side)
    for session in sessions:
        others = [s for s in sessions if s is not session]
        calibration = calibration_of(others, session.a.identity, cases, aim)
        _judged(
            tally,
            [name for name in cases.unchanged if session.measured(name)],
            [name for name in cases.slowed[SIDE_BY_SIDE] if session.measured(name)],
            (session.number, None),
            partial(_rows, judge, session, aim.side_by_side, calibration),
        )
    return tally


def _rows(judge, session: Session, threshold: float, calibration: Calibration, names: list) -> list:
    return judge(session, names, threshold, calibration)


def opposite(count: int) -> list:
    """Each session's A against the B of the session half the study away: every launch is used once."""
    return [(i, (i + count // 2) % count) for i in range(count)]


def _judge_stored(base: Session, new: Session, threshold: float, calibration: Calibration, names: list) -> list:
    return compare(only(base.a, names), only(new.b, names), [(None, threshold)], calibration).rows


def stored(sessions: list, cases: Cases, injected: float, aim: Aim) -> Tally | None:
    """As `assay compare`, with a calibration from the sessions that are not judged. None with too few of them."""
    if len(sessions) < LEAST_SESSIONS:
        return None
    tally = Tally(injected, aim.stored)
    for i, j in opposite(len(sessions)):
        base, new = sessions[i], sessions[j]
        others = [s for k, s in enumerate(sessions) if k not in (i, j)]
        calibration = calibration_of(others, base.a.identity, cases, aim)

        def both(names, base=base, new=new):
            return [n for n in names if base.logs("a", n) is not None and new.logs("b", n) is not None]

        _judged(
            tally,
            both(cases.unchanged),
            both(cases.slowed[STORED]),
            (base.number, new.number),
            partial(_judge_stored, base, new, aim.stored, calibration),
        )
    return tally


def binomial_interval(count: int, total: int) -> tuple:
    """Clopper and Pearson, 95%: exact if trials are independent."""
    if total == 0:
        return None, None
    found = scipy_stats.binomtest(count, total).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)
