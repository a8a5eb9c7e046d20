"""60 synthetic nights, each judged with nothing but the nights before it: what is found, and what is not."""

from __future__ import annotations

import json
from datetime import timedelta

import numpy as np
import pytest

from reports import baseline, history, nightly, nightly_history, trend
from reports.calibration import FIELDS, OPTIONAL, Calibration

import browser
import make_history as made
from conftest import ROOT

STEADY = [name for name in made.CASES if "steady" in name]
STEP, DRIFT, OUTLIER = (next(n for n in made.CASES if f"/{word}/" in n) for word in ("step", "drift", "outlier"))
FASTER, SLOWER, VANISHES = (next(n for n in made.CASES if f"/{w}" in n) for w in ("faster", "slower_t", "vanishes"))


@pytest.fixture(scope="session")
def replay(tmp_path_factory):
    """The verdict of each of 60 nights, judged with nothing but the nights before it. Suspects are measured again
    minutes later: the same night, without what disturbed one case."""
    folder, rng, found = tmp_path_factory.mktemp("replay"), np.random.default_rng(made.SEED), []
    store, last = folder / "store", made.NIGHTS - 1
    for index in range(made.NIGHTS):
        shifts = made.shifts_of_a_night(rng)
        path, again = folder / "night.json", folder / "again.json"
        path.write_text(json.dumps(made.night(index, last, shifts, rng)), encoding="utf-8")
        shifts[made.DISTURBED] /= made.SLOW if index == last else 1
        shifts[OUTLIER] /= made.OUTLIER if index == made.OUTLIER_AT else 1
        again.write_text(json.dumps(made.night(index, last, shifts, rng)), encoding="utf-8")
        found.append(nightly.judge(store, history.read_result(path), repeat=again))
        if index == made.ACCEPTED_AT:
            baseline.accept(path, "quiet", store)
    return found


def alerting(replay, case) -> list:
    return [index for index, verdict in enumerate(replay) if case in verdict.alerts()]


def changed(replay, case) -> list:
    """Nights on which a change of the case stands in the verdict."""
    return [i for i, verdict in enumerate(replay) if any(s.case == case for s in verdict.shifts)]


# ---- the 60 nights ----


def test_the_step_is_found_within_three_nights_and_stays(replay):
    found = changed(replay, STEP)
    assert found == list(range(found[0], made.NIGHTS))
    assert made.STEP_AT <= found[0] <= made.STEP_AT + 2
    (shift,) = (s for s in replay[-1].shifts if s.case == STEP)
    assert abs((shift.date - made.FIRST).days - made.STEP_AT) <= 1
    assert shift.change.kind == "step"
    assert shift.change.ratio == pytest.approx(made.STEP, abs=0.02)
    assert [i for i in alerting(replay, STEP) if i >= found[0]] == found


def test_the_outlier_is_called_nothing(replay):
    assert not changed(replay, OUTLIER)
    assert not alerting(replay, OUTLIER)
    assert OUTLIER in {row.id for row in replay[made.OUTLIER_AT].suspects}


def test_the_drift_is_reported_as_later_changes_for_the_worse(replay):
    found = changed(replay, DRIFT)
    assert made.DRIFT_AT + 3 <= found[0] <= made.DRIFT_AT + 25
    shifts = [s for s in replay[-1].shifts if s.case == DRIFT]
    assert 1 <= len(shifts) <= 4
    assert all(s.change.size > 0 for s in shifts)
    assert alerting(replay, DRIFT)


def test_equal_cases_raise_at_most_one_false_alert(replay):
    """20 cases x 60 nights."""
    assert sum(len(alerting(replay, case)) for case in STEADY) <= 1


def test_an_improvement_is_no_alert(replay):
    assert not alerting(replay, FASTER)
    assert {s.state for s in replay[-1].shifts if s.case == FASTER} == {"better"}


def test_only_what_is_slower_again_counts(replay):
    last = replay[-1]
    suspects, confirmed = {r.id for r in last.suspects}, {r.id for r in last.confirmed}
    assert {SLOWER, made.DISTURBED} <= suspects
    assert SLOWER in confirmed
    assert made.DISTURBED not in confirmed
    row = next(r for r in last.comparison.rows if r.id == made.DISTURBED)
    assert row.verdict == "inconclusive"
    assert "when repeated" in row.detail
    assert last.exit_code() == 1


def test_a_case_that_vanished_or_appeared_is_told(replay):
    assert any("vanished" in n and VANISHES in n for n in replay[50].notes)
    assert any("appeared" in n and "memcpy/appears" in n for n in replay[20].notes)
    assert not any("vanished" in n for n in replay[52].notes)


def test_acceptance_acknowledges_changes_up_to_its_night(replay):
    last = replay[-1]
    before = nightly_history.shifts_of(last.nights, last.series, None)
    after = nightly_history.shifts_of(last.nights, last.series, last.nights[-1].date)
    assert {s.case for s in before if s.state == "alert"} == {STEP, DRIFT}
    assert not [s for s in after if s.state == "alert"]
    assert {s.state for s in after if s.case == STEP} == {"acknowledged"}


def test_a_step_that_went_back_is_no_alert():
    values = made_up({"a": [1.0] * 20 + [1.2] * 10 + [1.0] * 10})
    shifts = nightly_history.shifts_of(values, nightly_history.series_of(values), None)
    assert [s.state for s in shifts] == ["undone", "better"]


def test_an_old_change_and_a_higher_is_better_case():
    values = made_up({"a": [1.0] * 20 + [1.2] * 40, "rate": [1.0] * 50 + [0.8] * 10}, units={"rate": ["x", "higher"]})
    shifts = nightly_history.shifts_of(values, nightly_history.series_of(values), None)
    assert {s.case: s.state for s in shifts} == {"a": "old", "rate": "alert"}
    assert nightly_history.shifts_of(values, nightly_history.series_of(values), None, recent=40)[0].state == "alert"


def made_up(values: dict, units=None) -> list:
    """Nights from lists of values; None: the case was not there. Noise of 0.5%."""
    rng = np.random.default_rng(1)
    out = []
    for index in range(max(map(len, values.values()))):
        cases = {}
        for name, row in values.items():
            if index < len(row) and row[index] is not None:
                value = row[index] * float(np.exp(rng.normal(0, 0.005)))
                cases[name] = [value, value * 0.999, value * 1.001, 6]
        out.append(history.Night(made.FIRST + timedelta(days=index), f"c{index}", f"d{index}", "", cases, units or {}))
    return out


def test_many_cases_at_once_point_at_the_machine():
    values = made_up({f"c{i}": [1.0] * 20 + [1.2] * 10 for i in range(4)})
    series = nightly_history.series_of(values)
    notes = nightly_history.remarks(values, series, nightly_history.shifts_of(values, series, None))
    assert any("4 of 4 cases changed" in n for n in notes)


def test_the_page_draws_in_a_browser(replay, tmp_path):
    page = tmp_path / "trend.html"
    page.write_text(trend.page(replay[-1]), encoding="utf-8")
    for width in (1200, 380):
        seen = browser.probe(page, width, tmp_path)
        assert seen["figures"] == seen["drawn"] == seen["named"] == 4
        assert seen["scroll"] <= seen["inner"]
        assert not seen["wide"]
        assert not seen["resources"]
        assert not seen["console"]


# ---- what nights differ by ----


def test_the_nights_tell_what_a_study_does_not(replay):
    series, keys = replay[-1].series, FIELDS + OPTIONAL
    known, note = nightly_history.noise(series, None, {"a": 1}, 60)
    assert note is None
    assert known.machine == {"a": 1}
    assert known.session(STEP)[0] == pytest.approx(made.NIGHT_SD, rel=0.35)  # the step is no noise
    assert known.session("a case of tomorrow")[0] == pytest.approx(made.NIGHT_SD, rel=0.15)
    assert 0.04 < known.detectable(STEADY[0]) < 0.12
    study = Calibration(ROOT, {"a": 1}, dict.fromkeys(keys) | {"launch_sd": 0.2, "degrees_of_freedom": 9.0}, {})
    merged, _ = nightly_history.noise(series, study, {"a": 1}, 60)
    assert merged.session(STEADY[0]) == known.session(STEADY[0])
    assert merged.between(STEADY[0]) == (0.2, 9.0)
    study.fallback.update(session_sd=0.5, session_degrees_of_freedom=9.0)
    assert nightly_history.noise(series, study, {"a": 1}, 60) == (study, None)
