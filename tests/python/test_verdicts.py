"""The statistics of compare: formulas, rates by simulation, cost."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats as scipy_stats

from reports import verdicts

import launches
from conftest import ROOT


def _side(values, between=None, session=None) -> verdicts.Estimate:
    """`values`: logarithms of times by case, launch, round."""
    return verdicts.stack([verdicts.side_estimate(case, between, session) for case in np.exp(values).tolist()])


def test_interval_and_p_are_one_test():
    rng = np.random.default_rng(4)
    sides = [_side(rng.normal(0, spread, (500, 7, 1))) for spread in (0.01, 0.03)]
    _, low, high, p = verdicts.welch(*sides)
    outside = (low > 0) | (high < 0)
    assert outside.any()
    assert (outside == (p < 0.05)).all()


def test_benjamini_hochberg_worked_by_hand_leaves_out_what_was_not_tested():
    q = verdicts.benjamini_hochberg(np.array([0.01, np.nan, 0.0, 0.04, 0.03, 1.0, 0.045]))
    assert q == pytest.approx([0.03, np.nan, 0.0, 0.054, 0.054, 1.0, 0.054], nan_ok=True)


def test_stated_budget_decides_as_often_as_promised():
    """At the stated number of launches, and the effect and spread of the estimate, at least 7 of 10 trials decide."""
    rng = np.random.default_rng(5)
    first = [_side(rng.normal(m, 0.05, (1, 6, 1))) for m in (0.0, 0.0)]
    first[1].mean[0] = first[0].mean[0] + 0.06
    limit = np.log1p([0.02])
    difference, _, _, p = verdicts.welch(*first)
    needed = int(verdicts.budget(first, difference, np.minimum(p, 1), limit, limit)[0])
    spread = np.sqrt([e.per_launch[0] for e in first])
    trials = 500
    sides = [_side(rng.normal(m, s, (trials, needed, 1))) for m, s in zip((0.0, 0.06), spread, strict=True)]
    difference, low, high, p = verdicts.welch(*sides)
    said = verdicts.judge(
        difference, low, high, p <= verdicts.LEVEL, np.full(trials, limit[0]), np.full(trials, limit[0]), 1.0
    )
    assert 0.7 < np.mean(said == "slower") < 0.95


def test_variance_of_few_launches_is_rounds_within_plus_launches_as_calibrated():
    rounds = np.exp([[0.0, 0.02], [0.1, 0.12]]).tolist()
    mean, variance, freedom, per_launch, *_ = verdicts.side_estimate(rounds, (0.03, 50))
    within, added = 0.0002, 0.03**2 / 2
    assert mean == pytest.approx(0.06)
    assert variance == pytest.approx(within / 4 + added)
    assert freedom == pytest.approx(variance**2 / ((within / 4) ** 2 / 2 + added**2 / 50))
    assert per_launch == pytest.approx(0.03**2 + within / 2)


# ---- rates, by simulation ----


def _study(seed, repetitions, count, spread, slow=0, factor=1.0, between=None, cases=200):
    """(false alarms among unchanged cases, slow-downs found), as shares. Launches have a variance of their own."""
    rng = np.random.default_rng(seed)
    shift = np.zeros((cases, 1, 1))
    shift[:slow] = math.log(factor)
    limit = np.full(cases, math.log1p(0.02))
    alarms = found = 0
    for _ in range(repetitions):
        sides = [
            _side(rng.normal(0, spread, (cases, count, 1)) + rng.normal(0, 0.01, (cases, count, 3)) + add, between)
            for add in (0.0, shift)
        ]
        difference, low, high, p = verdicts.welch(*sides)
        certain = verdicts.benjamini_hochberg(p) <= verdicts.LEVEL
        said = verdicts.judge(difference, low, high, certain, limit, limit, 1.0)
        alarms += int(np.sum(np.isin(said[slow:], ("slower", "faster"))))
        found += int(np.sum(said[:slow] == "slower"))
    return alarms / (repetitions * (cases - slow)), found / max(1, repetitions * slow)


@pytest.mark.parametrize(("count", "spread"), [(6, 0.05), (6, 0.005), (10, 0.03)])
def test_false_alarms_of_200_equal_cases_in_200_repetitions(count, spread):
    alarms, _ = _study(11, 200, count, spread)
    assert alarms <= 0.01


def test_false_alarms_among_real_changes_stay_under_1_percent_and_these_are_found():
    alarms, found = _study(12, 50, 8, 0.05, slow=10, factor=1.2)
    assert alarms <= 0.01
    assert found >= 0.95


def test_one_calibrated_launch_a_side_keeps_the_rate():
    """The calibration of 19 degrees of freedom is itself drawn anew: its error is part of the rate."""
    rng, alarms = np.random.default_rng(13), 0.0
    for repetition in range(100):
        known = 0.03 * math.sqrt(rng.chisquare(19) / 19)
        alarms += _study(1000 + repetition, 1, 1, 0.03, between=(known, 19))[0]
    assert alarms / 100 <= 0.01


@pytest.mark.parametrize("known", [False, True])
def test_drift_between_two_runs_alarms_falsely_unless_it_is_calibrated(known):
    """Each run of a case is 5% off its launches' own spread. That is the limit of a stored baseline."""
    rng, limit = np.random.default_rng(15), np.full(200, math.log1p(0.02))
    alarms = 0
    for _ in range(50):
        session = (0.05 * math.sqrt(rng.chisquare(19) / 19), 19) if known else None
        drift = rng.normal(0, 0.05, (2, 200, 1, 1))
        sides = [_side(rng.normal(0, 0.01, (200, 6, 1)) + d, session=session) for d in drift]
        difference, low, high, p = verdicts.welch(*sides)
        certain = verdicts.benjamini_hochberg(p) <= verdicts.LEVEL
        said = verdicts.judge(difference, low, high, certain, limit, limit, 1.0)
        alarms += int(np.sum(np.isin(said, ("slower", "faster"))))
    assert alarms / (50 * 200) <= 0.01 if known else alarms / (50 * 200) > 0.5


def test_interval_covers_the_true_ratio_95_times_in_100():
    rng = np.random.default_rng(14)
    sides = [_side(rng.normal(0, s, (4000, n, 1))) for s, n in ((0.01, 6), (0.05, 9))]
    _, low, high, _ = verdicts.welch(*sides)
    assert 0.94 < np.mean((low <= 0) & (high >= 0)) < 0.965


# ---- cost ----


def _cost(base, new):
    """(exit code, seconds, peak bytes) of the command in a process of its own."""
    code = "import resource, sys; from reports.__main__ import main; rc = main(sys.argv[1:]); "
    code += "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)); sys.exit(rc)"
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, "compare", str(base), str(new)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, time.monotonic() - begin, int(done.stderr) * 1024


def test_10000_cases_of_100_samples_take_under_20_s_and_1_gb(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for seed, path in enumerate(paths):
        launches.write_big(path, 10_000, rounds=2, samples=5, launches=10, seed=seed)
    code, seconds, peak = _cost(*paths)
    assert code == 0
    assert seconds < 20
    assert peak < 1e9


def test_100000_rows_a_side_take_under_4_gb(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for seed, path in enumerate(paths):
        launches.write_rows(path, 100_000, seed)
    code, _, peak = _cost(*paths)
    assert code == 0
    assert peak < 4e9


# ---- pairs ----


def _pairs(ratios):
    return verdicts.stack([verdicts.pair_estimate(case) for case in ratios.tolist()])


@pytest.mark.parametrize(("pairs", "cut"), [(6, 1), (16, 3), (20, 4)])
def test_pairs_are_tested_as_yuen_by_scipy_but_for_the_factor(pairs, cut):
    """scipy has Yuen's test of two samples; against a sample without spread it is that of one."""
    ratios = np.random.default_rng(21).normal(0.01, 0.05, pairs)
    peer = scipy_stats.ttest_ind(ratios, np.zeros(pairs), trim=cut / pairs + 1e-9, equal_var=False)
    difference, low, high, p = (float(x[0]) for x in verdicts.paired(_pairs(ratios[None])))
    freedom = pairs - 2 * cut - 1
    score = peer.statistic / (1 + 2 * cut / (pairs - 2 * cut) ** 2)
    assert difference == pytest.approx(scipy_stats.trim_mean(ratios, 0.2), rel=1e-9)
    assert p == pytest.approx(2 * scipy_stats.t.sf(abs(score), freedom), rel=1e-6)
    assert high - low == pytest.approx(2 * scipy_stats.t.ppf(0.975, freedom) * difference / score, rel=1e-6)


@pytest.mark.parametrize("ratio", [0.0, 0.1])
def test_pairs_without_any_spread(ratio):
    _, low, high, p = verdicts.paired(_pairs(np.full((1, 8), ratio)))
    assert (low[0], high[0], p[0]) == (ratio, ratio, 1.0 if ratio == 0 else 0.0)


@pytest.mark.parametrize("pairs", [6, 8, 10, 14, 16, 20, 60])
def test_p_of_pairs_holds_its_level_where_it_decides(pairs):
    """Normal ratios, 40,000 cases: p <= 0.01 in at most 1% (0.0005 is one standard error), and not much rarer."""
    p = verdicts.paired(_pairs(np.random.default_rng(22).normal(0, 0.05, (40_000, pairs))))[3]
    share = float(np.mean(p <= verdicts.PAIR_LEVEL))
    assert 0.004 < share < verdicts.PAIR_LEVEL + 3 * 0.0005


def _launches(rng, trials, cases, count, kind):
    """Logarithms of times in the order of the launches. Disturbances only slow down; a drift is common to all cases."""
    shape = (trials, cases, count)
    own = rng.normal(0, 0.01, shape)
    if kind == "bursts":
        return own + rng.exponential(0.2, shape) * (rng.random(shape) < 0.15)
    if kind == "common bursts":
        one = (trials, 1, count)
        return own + rng.exponential(0.2, one) * (rng.random(one) < 0.15)
    if kind == "drift":
        steps = rng.normal(0, 1, (count, trials, 1))
        drift = np.zeros((trials, 1, count))
        for i in range(count):
            drift[..., i] = (0.9 * drift[..., i - 1] if i else 0) + steps[i] * (math.sqrt(1 - 0.81) if i else 1)
        return own + 0.05 * drift
    return 0.012 * rng.standard_t(2, shape)


@pytest.mark.parametrize(
    ("kind", "least"), [("bursts", 0.92), ("common bursts", 0.92), ("drift", 0.99), ("heavy tails", 0.99)]
)
def test_pairs_on_a_noisy_machine(kind, least):
    """6 cases, 20 pairs in random order: false alarms at most 1% of comparisons, and 5% in one case is found."""
    rng, trials, cases = np.random.default_rng(23), 400, 6
    times = _launches(rng, trials, cases, 40, kind)
    turned = np.where(rng.random((trials, 1, 20)) < 0.5, -1.0, 1.0)
    ratios = turned * (times[..., 1::2] - times[..., 0::2])
    limit = np.full(cases, math.log1p(0.02))
    alarms = found = 0
    for trial in ratios:
        for added in (0.0, math.log(1.05)):
            trial[0] += added
            difference, low, high, p = verdicts.paired(_pairs(trial))
            certain = (verdicts.benjamini_hochberg(p) <= verdicts.LEVEL) & (p <= verdicts.PAIR_LEVEL)
            said = verdicts.judge(difference, low, high, certain, limit, limit, 1.0)
            if added:
                found += said[0] == "slower"
            else:
                alarms += int(np.isin(said, ("slower", "faster")).sum())
    assert alarms / (trials * cases) <= 0.01
    assert found / trials >= least


def test_the_budget_of_pairs_decides():
    """As many pairs as stated: the verdict falls about as often as promised."""
    rng, limit, trials = np.random.default_rng(24), np.log1p([0.02]), 500
    first = _pairs(rng.normal(0, 0.04, (1, 12)))
    first.mean[0] = 0.05
    spread = math.sqrt(first.per_launch[0])
    difference, _, _, p = verdicts.paired(first)
    needed = int(verdicts.budget((first,), difference, p, limit, limit, verdicts.PAIR_LEVEL)[0])
    _, _, _, p = verdicts.paired(_pairs(rng.normal(0.05, spread, (trials, needed))))
    assert 12 < needed < 100
    assert 0.7 <= np.mean(p <= verdicts.PAIR_LEVEL) <= 0.97
