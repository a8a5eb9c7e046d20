"""The statistics of `assay compare` and `assay duet`, on arrays with one element a case. Formulas and reasons:
docs/compare.md, docs/duet.md."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from scipy import stats as scipy_stats

from .shape import median

MIN_LAUNCHES = 6  # a side with fewer needs the calibrated variance between launches
LEVEL = 0.05  # of the interval's complement and of q
PAIR_LEVEL = 0.01  # p of a change between pairs: bounds false alarms where q cannot, with few or like-minded cases
POWER = 0.8  # with which a stated budget decides, if the effect is as estimated
MOST_LAUNCHES = 1000  # a budget above this is not offered


@dataclass
class Estimate:
    """Of one side, or of pairs: mean of logarithms, its variance and the degrees of freedom of that, NaN where nothing
    is known. For budgets: the variance of one launch, and what no launch reduces, between sessions."""

    mean: np.ndarray
    variance: np.ndarray
    freedom: np.ndarray
    per_launch: np.ndarray
    session: np.ndarray
    session_freedom: np.ndarray

    def part(self, index) -> Estimate:
        return Estimate(*(getattr(self, f.name)[index] for f in fields(self)))


def side_estimate(launches: list, between: tuple | None, session: tuple | None = None) -> tuple:
    """The fields of Estimate of one case.

    `launches` holds round medians by launch, above 0. With 6 launches or more the units are the launches. With fewer
    the units are rounds, within launches, and `between` = (standard deviation, degrees of freedom) of launches as
    calibrated is added; without it the variance is NaN. `session`, alike, is what two runs at other times differ by
    beyond their launches, where the calibration knows it.
    """
    count = len(launches)
    # Both sides use this one estimate: added up as if each had its own, its degrees of freedom would count twice.
    added = (0.0, math.inf) if session is None else (session[0] ** 2, session[1] / 2)
    if count >= MIN_LAUNCHES:
        middles = [math.log(median(rounds)) for rounds in launches]
        # Equal launches have no spread at all, not that of rounding.
        flat = min(middles) == max(middles)
        mean = middles[0] if flat else math.fsum(middles) / count
        spread = 0.0 if flat else math.fsum((m - mean) ** 2 for m in middles) / (count - 1)
        parts, per_launch = [(spread / count, count - 1.0)], spread
    else:
        logs = [[math.log(x) for x in rounds] for rounds in launches]
        centres = [sum(rounds) / len(rounds) for rounds in logs]
        mean = sum(centres) / count
        if between is None:
            return mean, np.nan, np.nan, np.nan, *added
        rounds = sum(map(len, launches))
        freedom = rounds - count
        within = 0.0
        if freedom > 0:
            within = sum((x - c) ** 2 for r, c in zip(logs, centres, strict=True) for x in r) / freedom
            within *= _sequential(rounds) ** 2
        parts = [(within / rounds, freedom), (between[0] ** 2 / count, between[1])]
        per_launch = between[0] ** 2 + within * count / rounds
    return mean, *_sum([*parts, added]), per_launch, *added


def _sum(parts: list) -> tuple:
    """Variance and degrees of freedom, by Welch and Satterthwaite, of a sum of (variance, degrees of freedom)."""
    total = sum(variance for variance, _ in parts)
    divisor = sum(variance**2 / freedom for variance, freedom in parts if variance > 0)
    return total, total**2 / divisor if divisor > 0 else parts[0][1] or parts[1][1]


def _sequential(units: int) -> float:
    """The widening of stats.sequential_factor: rounds were stopped when their interval looked narrow."""
    return 1 + 3 / units * (1 - 6 / units) if units > 6 else 1.0


def trimmed(count: int) -> int:
    """Pairs that are cut off at each end: a fifth."""
    return count // 5


def pair_estimate(ratios: list) -> tuple:
    """The fields of Estimate of one case from the logarithms of the ratios of its pairs, 2 or more.

    Yuen: mean of what is left after a fifth is cut off at each end, its variance from the Winsorised values. The factor
    holds p at 0.01 for normal ratios of 6 to 60 pairs, where Yuen's own test is too bold (docs/duet.md)."""
    values, count = sorted(ratios), len(ratios)
    cut = trimmed(count)
    kept = values[cut : count - cut]
    flat = kept[0] == kept[-1]
    mean = kept[0] if flat else math.fsum(kept) / len(kept)
    pulled = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = math.fsum(pulled) / count
    spread = 0.0 if flat else math.fsum((d - centre) ** 2 for d in pulled)
    variance = spread / (len(kept) * (len(kept) - 1)) * (1 + 2 * cut / len(kept) ** 2) ** 2
    return mean, variance, len(kept) - 1.0, variance * count, 0.0, math.inf


def stack(rows: list) -> Estimate:
    columns = np.array(rows, dtype=float).reshape(-1, 6).T
    return Estimate(*columns)


def welch(base: Estimate, new: Estimate) -> tuple:
    """(difference, low, high, p): Welch's t on the logarithms of two sides."""
    return student(new.mean - base.mean, *_pooled((base.variance, base.freedom), (new.variance, new.freedom)))


def paired(pairs: Estimate) -> tuple:
    """(difference, low, high, p): Yuen's one-sample t on the logarithms of the ratios of pairs."""
    return student(pairs.mean, *_pooled((pairs.variance, pairs.freedom)))


def student(difference, error, freedom) -> tuple:
    """(difference, low, high, p): p and interval are one test, so that the interval excludes 0 exactly where p < 0.05.
    Without any spread p is 1 or 0 and stands as it is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.abs(difference) / error
        p = 2 * scipy_stats.t.sf(score, freedom)
        half = scipy_stats.t.ppf(1 - LEVEL / 2, freedom) * error
    exact = error == 0
    p = np.where(exact, np.where(difference == 0, 1.0, 0.0), p)
    half = np.where(exact, 0.0, half)
    return difference, difference - half, difference + half, p


def _at(side: Estimate, count: float, paired: bool) -> tuple:
    """Variance and degrees of freedom of a side of `count` launches, or of as many pairs."""
    own = count - 1 - (2 * trimmed(int(count)) if paired else 0)
    launches = side.per_launch / count
    total = launches + side.session
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = total**2 / (launches**2 / own + side.session**2 / side.session_freedom)
    return total, np.where(total == 0, own, freedom)


def _pooled(*parts) -> tuple:
    """Standard error and Welch-Satterthwaite degrees of freedom of a sum of (variance, degrees of freedom)."""
    total = sum(variance for variance, _ in parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = total**2 / sum(variance**2 / freedom for variance, freedom in parts)
    return np.sqrt(total), np.where(total == 0, 1.0, freedom)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """q: the smallest false-discovery rate at which a case is still called different. NaN stays out of the count."""
    q = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    if known.size == 0:
        return q
    order = known[np.argsort(p[known], kind="stable")]
    scaled = p[order] * known.size / np.arange(1, known.size + 1)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return q


def judge(difference, low, high, certain, threshold, margin, sign) -> np.ndarray:
    """Verdicts as text. `certain`: the test calls the case different. `threshold` and `margin` are logarithms of
    ratios; `sign` is 1 where lower is better."""
    same = (low >= -margin) & (high <= margin)
    different = certain & (np.abs(difference) >= threshold)
    worse = np.where(difference * sign > 0, "slower", "faster")
    # A margin that is wide because the study met a noisy hour must not hide what the test is certain of now.
    return np.where(different, worse, np.where(same, "same", "inconclusive"))


def budget(sides: tuple, difference, q, threshold, margin, most_p: float = 1.0) -> np.ndarray:
    """Launches a side (of a single Estimate: pairs) after which the verdict falls with probability 0.8, if the effect
    is as estimated; 0 where more than 1000 would be needed. One launch has the variance that was seen (or calibrated)
    here; what sessions differ by stays."""
    counts = np.unique(np.geomspace(MIN_LAUNCHES, MOST_LAUNCHES, 60).round())
    needed = np.zeros(difference.shape)
    known = ~np.isnan(q)
    rejected, tests = int(np.sum(q[known] <= LEVEL)), max(1, int(known.sum()))
    level = min(most_p, LEVEL * min(1.0, (rejected + 1) / tests))
    size = np.abs(difference)
    for count in counts:
        error, freedom = _pooled(*(_at(side, count, len(sides) == 1) for side in sides))
        certain = scipy_stats.t.ppf(POWER, freedom) * error
        same = size + scipy_stats.t.ppf(1 - LEVEL / 2, freedom) * error + certain <= margin
        other = (size >= threshold) & (scipy_stats.t.ppf(1 - level / 2, freedom) * error + certain <= size)
        needed = np.where((needed == 0) & (same | other), count, needed)
    return needed
