"""Change points in the nights of one case: where its level moved and stayed. Method and reasons: docs/nightly.md.

ruptures proposes the cuts (exact least-squares segmentation); a robust test, on the two segments beside a cut alone,
says which of them are real. The scale of the noise is that within segments, so that a step does not hide the next one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import ruptures
from scipy import stats as scipy_stats

FEWEST_NIGHTS = 8  # with fewer nothing is said
BEFORE, AFTER = 5, 3  # nights beside the first and the last cut; a step is found on its third night at the earliest
LEVEL = 0.01  # chance of a false change, over all cuts of all cases of one night
BEYOND = 0.8  # share of each segment that must lie on its own side of the middle of the step
NOISE_FLOOR = 1e-3  # of a night, relative: clocks and rounding; without it a constant history makes anything certain
MEDIAN_COST = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean, normal noise
MAD_TO_SD = 1.4826
CLIP = 2.5  # residuals further out, in robust standard deviations, are outliers and count as this far
SPIKE = 4.0
PENALTY = 3.0  # of one more segment, in noise variances times log(nights); generous, the test decides


@dataclass(frozen=True)
class Change:
    """The level before night `at` (an index) against the level from it on. `size` is the logarithm of their ratio."""

    at: int
    size: float
    p: float  # for all cuts of all cases of the night
    kind: str  # step, or drift where one line fits the two segments better than two levels

    @property
    def ratio(self) -> float:
        return math.exp(self.size)


@dataclass(frozen=True)
class Segments:
    """`starts` of the segments, their `levels` (medians of logarithms), the noise of a night within them."""

    starts: list
    levels: list
    sd: float
    freedom: int
    changes: list


def find(values: list, threshold: float, cases: int = 1) -> Segments:
    """`values`: one a night, above 0, oldest first. `cases`: how many are looked at in the same night, each of which
    could raise a false alarm."""
    y = np.log(np.asarray(values, dtype=float))
    cuts = _candidates(y) if len(y) >= FEWEST_NIGHTS else []
    while True:
        levels, sd, freedom = _levels(y, cuts)
        tests = [_test(y, cuts, levels, i, sd, freedom, cases) for i in range(len(cuts))]
        weak = [(p, i) for i, (p, clear) in enumerate(tests) if not _holds(levels, i, p, clear, threshold)]
        if not weak:
            break
        cuts = [c for i, c in enumerate(cuts) if i != max(weak)[1]]
    edges = [0, *cuts, len(y)]
    changes = [
        Change(cut, float(levels[i + 1] - levels[i]), tests[i][0], _kind(y[edges[i] : edges[i + 2]], cut - edges[i]))
        for i, cut in enumerate(cuts)
    ]
    return Segments(edges[:-1], [float(v) for v in levels], sd, freedom, changes)


def _noise(y: np.ndarray) -> float:
    """From differences of neighbours: a step is in one of them only, and the median does not see it."""
    steps = np.diff(y)
    return max(float(MAD_TO_SD * np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2), NOISE_FLOOR)


def _without_spikes(y: np.ndarray, sd: float) -> np.ndarray:
    """Single nights far from both neighbours, on the same side, get the neighbours' mean: least squares would give
    each a segment. The first night of a step has its level's second night beside it and stays."""
    out = y.copy()
    left, right = y[1:-1] - y[:-2], y[1:-1] - y[2:]
    lone = (np.minimum(np.abs(left), np.abs(right)) > SPIKE * sd) & (left * right > 0)
    at = np.flatnonzero(lone) + 1
    out[at] = (y[at - 1] + y[at + 1]) / 2
    return out


def _candidates(y: np.ndarray) -> list:
    sd = _noise(y)
    clean = _without_spikes(y, sd).reshape(-1, 1)
    found = ruptures.KernelCPD(kernel="linear", min_size=AFTER).fit(clean)
    cuts = found.predict(pen=PENALTY * sd**2 * math.log(len(y)))
    return [int(c) for c in cuts if BEFORE <= c <= len(y) - AFTER]


def _levels(y: np.ndarray, cuts: list) -> tuple:
    """(levels, standard deviation within segments, its degrees of freedom); outliers are clipped, not dropped."""
    parts = np.split(y, cuts)
    levels = np.array([np.median(part) for part in parts])
    rest = np.concatenate([part - level for part, level in zip(parts, levels, strict=True)])
    limit = CLIP * max(MAD_TO_SD * float(np.median(np.abs(rest))), NOISE_FLOOR)
    freedom = max(1, len(y) - len(parts))
    spread = math.sqrt(float(np.sum(np.clip(rest, -limit, limit) ** 2)) / freedom)
    return levels, max(spread, NOISE_FLOOR), freedom


def _test(y, cuts, levels, index, sd, freedom, cases) -> tuple:
    """(p, whether the nights lie clearly on both sides). Student t of two medians, Bonferroni over cuts and cases."""
    edges = [0, *cuts, len(y)]
    before, after = y[edges[index] : edges[index + 1]], y[edges[index + 1] : edges[index + 2]]
    size = levels[index + 1] - levels[index]
    error = MEDIAN_COST * sd * math.sqrt(1 / len(before) + 1 / len(after))
    p = 2 * float(scipy_stats.t.sf(abs(size) / error, freedom)) * (len(y) - BEFORE - AFTER + 1) * cases
    middle = (levels[index + 1] + levels[index]) / 2
    sides = ((after - middle) * np.sign(size) > 0, (middle - before) * np.sign(size) > 0)
    clear = all(side.sum() >= max(AFTER, BEYOND * len(side)) for side in sides)
    return min(1.0, p), clear


def _holds(levels, index, p, clear, threshold) -> bool:
    return clear and p <= LEVEL and abs(levels[index + 1] - levels[index]) >= math.log1p(threshold)


def _kind(part: np.ndarray, cut: int) -> str:
    levels = np.repeat([np.median(part[:cut]), np.median(part[cut:])], [cut, len(part) - cut])
    nights = np.arange(len(part))
    slope, middle, _, _ = scipy_stats.theilslopes(part, nights)
    line = middle + slope * nights
    return "drift" if np.abs(part - line).sum() < np.abs(part - levels).sum() else "step"
