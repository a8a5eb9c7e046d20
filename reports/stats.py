"""The statistics of a result, again from its raw samples: the report's and the tests' second source.

Formulas: docs/method.md. Units of statistics are round medians, or launch medians where the scope says `launches`.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from scipy import stats as scipy_stats


@dataclass(frozen=True)
class Interval:
    value: float
    low: float | None
    high: float | None
    units: int

    @property
    def relative_half_width(self) -> float | None:
        return None if self.high is None else self.high / self.value - 1


def unit_medians(rounds: list, samples: list, scope: str) -> list:
    """Median of each round's samples; for scope `launches` the median of each launch's round medians."""
    medians = [(r["launch"], statistics.median(row)) for r, row in zip(rounds, samples, strict=True) if row]
    if scope != "launches":
        return [m for _, m in medians]
    launches = {}
    for launch, median in medians:
        launches.setdefault(launch, []).append(median)
    return [statistics.median(group) for _, group in sorted(launches.items())]


def sequential_factor(units: int) -> float:
    """Widening of the interval for having stopped when it looked narrow: 1 + 3/n (1 - 6/n) above 6 units."""
    return 1 + 3 / units * (1 - 6 / units) if units > 6 else 1.0


def t_interval(medians: list, batch: int, confidence: float) -> Interval:
    """exp(mean(log(medians))) / batch with Student's t interval on the logarithms, widened for the stop rule."""
    logs = [math.log(m) for m in medians]
    mean, n = math.fsum(logs) / len(logs), len(logs)
    value = math.exp(mean) / batch
    if n < 2:
        return Interval(value, None, None, n)
    half = float(scipy_stats.t.ppf((1 + confidence) / 2, n - 1)) * statistics.stdev(logs) / math.sqrt(n)
    half *= sequential_factor(n)
    return Interval(value, value * math.exp(-half), value * math.exp(half), n)


def case_time(case: dict, confidence: float) -> Interval:
    """Time of one operation of a done case, from the samples of its primary series alone."""
    series = next(s for s in case["series"] if s["primary"])
    medians = unit_medians(case["rounds"], series["samples"], case["statistics"]["scope"])
    return t_interval(medians, series["batch"], confidence)


def fastest_round_ns(case: dict) -> float:
    """Median of the fastest round, one operation: what a ceiling's rate is made from (a disturbance only slows)."""
    series = next(s for s in case["series"] if s["primary"])
    return min(statistics.median(row) for row in series["samples"]) / series["batch"]


def variance_components(rounds: list, samples: list, batch: int) -> dict:
    """(variance, degrees of freedom) of the logarithms by level, as nested ANOVA with unequal counts gives them.

    None where a level has no degrees of freedom; a negative estimate is returned as it is.
    """
    launches = {}
    for r, row in zip(rounds, samples, strict=True):
        if row:
            launches.setdefault(r["launch"], []).append([math.log(x / batch) for x in row])
    everything = [x for launch in launches.values() for row in launch for x in row]
    n, r, levels = len(everything), sum(map(len, launches.values())), len(launches)
    df = {"launch": levels - 1, "round": r - levels, "sample": n - r}
    grand = statistics.fmean(everything)
    squares = dict.fromkeys(df, 0.0)
    ratio = 0.0
    for launch in launches.values():
        flat = [x for row in launch for x in row]
        mean = statistics.fmean(flat)
        squares["launch"] += len(flat) * (mean - grand) ** 2
        ratio += sum(len(row) ** 2 for row in launch) / len(flat)
        for row in launch:
            middle = statistics.fmean(row)
            squares["round"] += len(row) * (middle - mean) ** 2
            squares["sample"] += sum((x - middle) ** 2 for x in row)
    sample = squares["sample"] / df["sample"] if df["sample"] else 0.0
    within = (squares["round"] / df["round"] - sample) / ((n - ratio) / df["round"]) if df["round"] else 0.0
    between = 0.0
    if df["launch"]:
        k2 = (ratio - sum(len(row) ** 2 for launch in launches.values() for row in launch) / n) / df["launch"]
        k3 = (n - sum(sum(map(len, launch)) ** 2 for launch in launches.values()) / n) / df["launch"]
        between = (squares["launch"] / df["launch"] - sample - k2 * within) / k3
    found = {"launch": between, "round": within, "sample": sample}
    return {level: (found[level], df[level]) if df[level] else None for level in df}
