"""The statistics of calibrate: spreads that are known recovered, alarms and detections counted, least effects right."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reports import calibrate_study as study
from reports import verdicts
from reports.calibrate_cases import SIDE_BY_SIDE, STORED, Cases, cases_for, kind_of
from reports.compare import Row
from reports.errors import InputProblem
from reports.readers import Found, Side

PAIRS = 14


def _aim(cases: Cases) -> study.Aim:
    return study.Aim(PAIRS, len(cases.unchanged) + 1, 0.02, 0.02)


MACHINE = {"cpu_model": "synthetic"}


def _cases(unchanged: int, slowed: int = 2) -> Cases:
    return Cases(
        tuple(f"u{i}" for i in range(unchanged)), {k: tuple(f"s{k}.{i}" for i in range(slowed)) for k in (1, 2)}
    )


def sessions_of(rng, cases, count, launch=0.02, session=0.03, shared=0.0, pairs=PAIRS, slow=(0.05, 0.20)) -> list:
    """Launches of two sides: a shift by session, one shared by the pair, one of the launch; B of slowed cases later."""
    out = []
    for number in range(count):
        sides = {"a": {}, "b": {}}
        for name in cases.all:
            base = math.log(1e6) + rng.normal(0, session)
            common = rng.normal(0, shared, pairs)
            for side, rows in sides.items():
                entry = next((k for k, names in cases.slowed.items() if name in names), 0)
                more = math.log1p(slow[entry - 1]) if side == "b" and entry else 0.0
                values = np.exp(base + more + common + rng.normal(0, launch, pairs))
                rows[name] = Found("done", launches=[[v] for v in values.tolist()], quartiles=values.tolist())
        both = (Side(Path(s), files=pairs, tools=["assay"], cases=rows, identity=MACHINE) for s, rows in sides.items())
        out.append(study.Session(number, *both))
    return out


def verdict(name, ratio, q) -> Row:
    row = Row(name, "slower" if q <= 0.05 and ratio > 1 else "faster" if q <= 0.05 else "inconclusive")
    row.ratio, row.q = ratio, q
    return row


def test_known_spreads_are_recovered():
    cases = _cases(40, 1)
    sessions = sessions_of(np.random.default_rng(1), cases, 12, launch=0.02, session=0.03, shared=0.01)
    found = [study.spread_of(sessions, name, False) for name in cases.unchanged]
    launch = math.sqrt(np.mean([s.launch[0] for s in found]))
    session = math.sqrt(np.mean([s.session[0] for s in found]))
    pair = math.sqrt(np.mean([s.pair[0] for s in found]))
    assert launch == pytest.approx(math.hypot(0.02, 0.01), rel=0.03)
    assert session == pytest.approx(0.03, rel=0.1)
    # What a pair shares cancels out; a trimmed mean is a little less certain than a mean.
    assert 0.02 * math.sqrt(2) < pair < 1.12 * 0.02 * math.sqrt(2)
    assert {s.launch[1] for s in found} == {12 * 2 * (PAIRS - 1)}
    assert {s.session[1] for s in found} == {11} and {s.pair[1] for s in found} == {12 * (PAIRS - 1 - 4)}


def test_slow_down_is_no_spread():
    """The sides of a slowed case differ by 20%: that is neither between launches nor between sessions."""
    cases = _cases(1, 30)
    sessions = sessions_of(np.random.default_rng(2), cases, 10, launch=0.01, session=0.0)
    found = [study.spread_of(sessions, name, True) for name in cases.slowed[STORED]]
    assert math.sqrt(np.mean([s.launch[0] for s in found])) == pytest.approx(0.01, rel=0.05)
    assert math.sqrt(np.mean([s.session[0] for s in found])) < 0.002
    assert 0.01 * math.sqrt(2) < math.sqrt(np.mean([s.pair[0] for s in found])) < 0.0165


def test_rare_disturbed_launches_do_not_widen_pairs():
    cases = _cases(20, 1)
    sessions = sessions_of(np.random.default_rng(12), cases, 6, launch=0.01)
    quiet = [study.spread_of(sessions, name, False) for name in cases.unchanged]
    for session in sessions:
        for name in cases.unchanged:
            session.b.cases[name].quartiles[3] *= 2
            session.b.cases[name].launches[3][0] *= 2
    loud = [study.spread_of(sessions, name, False) for name in cases.unchanged]
    pairs, sides = ([np.mean([getattr(s, k)[0] for s in group]) for group in (quiet, loud)] for k in ("pair", "launch"))
    assert pairs[1] < 1.5 * pairs[0]
    assert sides[1] > 20 * sides[0]  # a comparison with a stored result does suffer from them


def test_equal_sessions_have_no_session_spread():
    cases = _cases(20, 1)
    sessions = sessions_of(np.random.default_rng(3), cases, 10, session=0.0)
    values = [study.spread_of(sessions, name, False).session[0] for name in cases.unchanged]
    assert min(values) == 0.0 and math.sqrt(np.mean(values)) < 0.004


def test_case_that_was_not_studied_gets_the_mean_and_the_freedom_of_unlike_cases():
    like = study.typical_spread([study.Spread(launch=(0.0004, 50), session=(0.0001, 9))] * 5)
    assert like.launch == pytest.approx((0.0004, 250)) and like.session == pytest.approx((0.0001, 45))
    unlike = study.typical_spread([study.Spread(launch=(v, 50)) for v in (0.0001, 0.0001, 0.0001, 0.0081)])
    assert unlike.launch == pytest.approx((0.0021, 1.0), abs=1e-6) and unlike.session is None
    assert study.typical_spread([]) == study.Spread()


@pytest.mark.parametrize(("sd", "threshold", "tests"), [(0.03, 0.02, 11), (0.003, 0.02, 11), (0.05, 0.001, 2)])
def test_least_effect_is_found_in_95_of_100_trials(sd, threshold, tests):
    """By duet's own test, at the level of a single change."""
    rng = np.random.default_rng(4)
    noise = rng.normal(0, sd, (4000, 16))
    estimate = verdicts.stack([verdicts.pair_estimate(row) for row in noise.tolist()])
    spread = study.Spread(pair=(float(estimate.per_launch.mean()), 500))
    estimate.mean += math.log1p(study.least_side_by_side(spread, 16, tests, threshold))
    difference, _, _, p = verdicts.paired(estimate)
    found = (p <= min(0.01, 0.05 / tests)) & (difference >= math.log1p(threshold))
    assert 0.93 < found.mean() < 0.975


def test_stated_pairs_find_one_percent():
    spread = study.Spread(pair=(0.02**2, 500))
    pairs = study.pairs_for(spread, 0.01, 11)
    assert (
        study.least_side_by_side(spread, pairs, 11, 1e-9)
        <= 0.01
        < study.least_side_by_side(spread, pairs - 1, 11, 1e-9)
    )
    assert study.pairs_for(study.Spread(pair=(0.5**2, 500)), 0.01, 11) is None
    assert study.pairs_for(study.Spread(), 0.01, 11) is None


def test_sessions_limit_what_launches_can_show_against_a_stored_result():
    steady = study.Spread(launch=(0.02**2, 400), session=(0.0, 19))
    moody = replace(steady, session=(0.03**2, 19))
    few, many = (study.least_stored(moody, n, 11, 0.02) for n in (16, 1000))
    assert study.least_stored(steady, 16, 11, 0.02) < few
    assert many > 0.12  # more launches do not help beyond that
    assert study.least_stored(study.Spread(launch=(0.02**2, 9)), 16, 11, 0.02) is None
    assert study.least_stored(replace(moody, session=(4.0, 1)), 16, 11, 0.02) is None  # beyond what is stated


def test_stored_kind_uses_each_launch_once_and_never_a_session_against_itself():
    for count in (4, 5, 20):
        pairs = study.opposite(count)
        assert sorted(i for i, _ in pairs) == sorted(j for _, j in pairs) == list(range(count))
        assert all(i != j for i, j in pairs)


def test_stored_kind_has_few_false_alarms_and_finds_what_is_large():
    """Sessions that differ by 3%, launches by 2%: without the sessions' spread over a third would be called changed."""
    rng = np.random.default_rng(6)
    cases, alarms, comparisons, found, tried = _cases(10, 5), 0, 0, 0, 0
    for _ in range(5):
        tally = study.stored(sessions_of(rng, cases, 20, slow=(0.05, 0.25)), cases, 0.25, _aim(cases))
        alarms, comparisons = alarms + len(tally.alarms), comparisons + tally.comparisons
        found, tried = found + tally.found, tried + tally.tried
    assert comparisons == 5 * 200 and tried == 5 * 100
    assert alarms <= 0.01 * comparisons
    assert found >= 0.95 * tried


def test_stored_kind_needs_others_to_calibrate_with():
    cases = _cases(3)
    sessions = sessions_of(np.random.default_rng(7), cases, 6)
    assert study.stored(sessions[:5], cases, 0.2, _aim(cases)) is None
    assert study.stored(sessions, cases, 0.2, _aim(cases)).comparisons == 18


def test_judged_sessions_are_not_in_their_own_calibration():
    """One session whose launches scatter tenfold: it must not make its own comparison cautious."""
    cases = _cases(1, 1)
    rng = np.random.default_rng(8)
    sessions = sessions_of(rng, cases, 7, launch=0.01)
    wild = sessions_of(rng, cases, 1, launch=0.1)[0]
    sessions[0] = replace(wild, number=0)
    seen = []
    original = study.compare

    def spy(base, new, thresholds, calibration):
        seen.append(calibration.between("u0")[0])
        return original(base, new, thresholds, calibration)

    study.compare, saved = spy, study.compare
    try:
        study.stored(sessions, cases, 0.2, _aim(cases))
    finally:
        study.compare = saved
    # (0, 3) and (4, 0) leave session 0 out; the others hold it. Each judges its unchanged and its slowed case.
    assert [value < 0.02 for value in seen[::2]] == [i in (0, 4) for i in range(7)] and seen[::2] == seen[1::2]


def test_alarms_and_misses_are_counted_by_verdict_and_q():
    cases = _cases(3, 2)
    sessions = sessions_of(np.random.default_rng(9), cases, 2)
    rows = {
        "u0": verdict("u0", 1.04, 0.01),
        "u1": verdict("u1", 0.97, 0.02),
        "u2": verdict("u2", 1.0, 0.9),
        "s1.0": verdict("s1.0", 1.05, 0.001),
        "s1.1": verdict("s1.1", 1.05, 0.2),
    }
    families = []

    def judge(session, names, threshold, _calibration):
        families.append((session.number, tuple(names), threshold))
        return [rows[name] for name in names]

    tally = study.side_by_side(sessions, cases, 0.05, _aim(cases), judge)
    assert (tally.comparisons, len(tally.alarms), tally.inconclusive) == (6, 4, 2)
    assert (tally.tried, tally.found) == (4, 2)
    assert tally.trials["s1.0"][:2] == [2, 2] and tally.trials["s1.1"][:2] == [0, 2]
    assert tally.trials["s1.0"][2] / 2 == pytest.approx(math.log(1.05))
    assert tally.missed == [(n, None, "s1.1", "inconclusive", 1.05, 0.2) for n in (0, 1)]
    assert families[:3] == [(0, ("u0", "u1", "u2", *more), 0.02) for more in ((), ("s1.0",), ("s1.1",))]


def test_faster_is_not_a_slow_down_found():
    tally = study.Tally(0.05, 0.02)
    tally.count_slowed(verdict("s", 0.9, 0.001), (0, None))
    assert (tally.found, tally.tried) == (0, 1)


def test_failed_case_is_left_out_of_its_session():
    cases = _cases(2, 1)
    sessions = sessions_of(np.random.default_rng(10), cases, 2)
    sessions[0].b.cases["u0"] = Found("failed", "wrong at (3, 5)")
    sessions[1].a.cases["s1.0"].launches.pop()
    assert sessions[0].why_not("u0") == "B: wrong at (3, 5)"
    assert not sessions[1].measured("s1.0") and "some launches" in sessions[1].why_not("s1.0")
    equal = study.side_by_side(
        sessions, cases, 0.05, _aim(cases), lambda _s, names, *_: [verdict(n, 1.0, 0.5) for n in names]
    )
    assert (equal.comparisons, equal.tried) == (3, 1)
    assert study.spread_of(sessions, "u0", False).launch[1] == 2 * (PAIRS - 1)


def _at_least(count: int, total: int, p: float) -> float:
    return sum(math.comb(total, k) * p**k * (1 - p) ** (total - k) for k in range(count, total + 1))


def test_binomial_interval_leaves_a_fortieth_at_either_end():
    low, high = study.binomial_interval(38, 40)
    assert _at_least(38, 40, low) == pytest.approx(0.025)
    assert 1 - _at_least(39, 40, high) == pytest.approx(0.025)
    assert study.binomial_interval(0, 200) == pytest.approx((0.0, 1 - 0.025 ** (1 / 200)))
    assert study.binomial_interval(0, 0) == (None, None)


def test_cases_are_those_that_the_plan_offers():
    slowed = [f"synthetic/spin/us:200/inject:{k}/dev:cuda0" for k in (1, 2)]
    wanted, missing = cases_for("cuda0", ["launch/graph/chain:64/dev:cuda0", "launch/graph/dev:cuda0", *slowed])
    assert wanted.all == ["launch/graph/chain:64/dev:cuda0", *slowed]
    assert set(wanted.slowed) == {SIDE_BY_SIDE, STORED}
    assert "synthetic/spin/us:50/inject:1/dev:cuda0" in missing and not set(missing) & set(wanted.all)
    with pytest.raises(InputProblem, match="too few cases of cpu"):
        cases_for("cpu", [])


@pytest.mark.parametrize("device", ["cuda", "cpu0", "tpu0", "", "cuda0,cpu"])
def test_one_device_is_calibrated_at_a_time(device):
    with pytest.raises(InputProblem, match="one device"):
        kind_of(device)
