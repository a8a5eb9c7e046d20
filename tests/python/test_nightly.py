"""`assay nightly` night by night over a synthetic history, and what is odd in a store."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import timedelta

import numpy as np
import pytest

from reports import baseline, history, nightly, nightly_history
from reports.errors import EnvironmentProblem

import browser
import launches
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


# ---- one night ----


@pytest.fixture
def night(save):
    def make(index, *cases, name=None, **changes):
        return save(made.result(index, list(cases), **changes), name or f"night-{index}.json")

    return make


@pytest.fixture
def judge(command, tmp_path):
    def run(*args):
        return command("nightly", "--store", tmp_path / "store", *args)

    return run


def accept(command, tmp_path, path, *more):
    assert command("baseline", "accept", path, "--reason", "x", "--store", tmp_path / "store", *more)[0] == 0


def plain(factor=1.0, name="a"):
    return launches.case(name, launches.fixed(1e6 * factor))


def the_folder(tmp_path):
    (folder,) = (tmp_path / "store").iterdir()
    return folder


def test_the_first_night_stores_and_says_how_to_go_on(judge, night, tmp_path):
    code, out, err = judge(night(0, plain()))
    assert (code, err) == (0, "")
    assert "there is no baseline" in out
    assert "assay baseline accept" in out
    nights, skipped = history.Folder(tmp_path / "store", the_folder(tmp_path).name).nights()
    assert len(nights) == 1
    assert not skipped
    assert history.read_result(the_folder(tmp_path) / nights[0].result).side.cases.keys() == {"a"}
    assert {p.name for p in (the_folder(tmp_path) / "latest").iterdir()} == {"summary.md", "junit.xml", "trend.html"}
    assert judge(night(1, plain()), "--strict")[0] == 4


def test_the_same_result_twice_is_one_night(judge, night, tmp_path):
    path = night(0, plain())
    judge(path)
    code, out, _ = judge(path)
    assert code == 0
    assert "not added again" in out
    assert len((the_folder(tmp_path) / "history.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_slower_twice_alerts_and_once_does_not(judge, night, command, tmp_path):
    accept(command, tmp_path, night(0, plain(), plain(name="b")))
    slow, calm = night(1, plain(3), plain(name="b")), night(2, plain(), plain(name="b"))
    code, out, _ = judge(slow, "--repeat", night(3, plain(3)))
    assert code == 1
    assert "slower than the baseline, x 3 when repeated" in out
    code, out, _ = judge(slow, "--repeat", calm)
    assert code == 0
    assert "slower once" in out
    code, out, _ = judge(slow, "--no-repeat")
    assert code == 0
    assert "slower once, not repeated" in out
    assert judge(slow, "--no-repeat", "--strict")[0] == 4


def test_a_small_change_of_a_young_history_is_no_alert(judge, night, command, tmp_path):
    """Two nights of a machine may differ by more than launches say; how much is assumed until it is known."""
    accept(command, tmp_path, night(0, plain()))
    code, out, _ = judge(night(1, plain(1.08)), "--no-repeat")
    assert code == 0
    assert "1 inconclusive" in out
    assert "nights are taken to differ by 5%" in out


def test_junit_and_markdown_tell_the_alert(judge, night, command, tmp_path):
    accept(command, tmp_path, night(0, plain()))
    judge(night(1, plain(3)), "--repeat", night(2, plain(3)), "-o", tmp_path / "out")
    suites = {s.get("name"): s for s in ET.parse(tmp_path / "out" / "junit.xml").getroot()}
    assert suites["assay compare"].get("failures") == "1"
    assert suites["assay history"].get("skipped") == "1"
    markdown = (tmp_path / "out" / "summary.md").read_text(encoding="utf-8")
    assert "## Alerts" in markdown
    assert "<details>" in markdown
    assert json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))["counts"]["slower"] == 1


def test_suspects_are_measured_again_alike(judge, night, command, tmp_path, monkeypatch):
    """By the command of ASSAY_COMMAND: the suspects alone, twice the launches, the options of the night."""
    accept(command, tmp_path, night(0, plain(), plain(name="b")))
    again = night(2, plain(3))
    fake, words = tmp_path / "assay", tmp_path / "words"
    fake.write_text(
        f"#!/usr/bin/env bash\nprintf '%s\\n' \"$@\" >{words}\n"
        f'while [ "$1" != --out ]; do [ "$1" != --cases ] || cat "$2" >>{words}; shift; done\ncp {again} "$2"\n',
        encoding="utf-8",
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ASSAY_COMMAND", str(fake))
    code, _, _ = judge(night(1, plain(3), plain(name="b")), "--", "--cpus", "0-3")
    assert code == 1
    said = words.read_text(encoding="utf-8").splitlines()
    assert said[:3] == ["run", "--cpus", "0-3"]
    assert said[said.index("--launches") + 1] == "12"
    assert said[said.index("--profile") + 1] == "quick"
    assert said[-1] == "a"


def test_a_repeat_that_cannot_run_costs_no_summary(judge, night, command, tmp_path, monkeypatch):
    accept(command, tmp_path, night(0, plain()))
    monkeypatch.setenv("ASSAY_COMMAND", "/bin/false")
    code, out, err = judge(night(1, plain(3)))
    assert (code, err) == (3, "")
    assert "assay run ended with 1" in out
    assert "slower once, not repeated" in (the_folder(tmp_path) / "latest" / "summary.md").read_text(encoding="utf-8")


def test_a_failed_case_that_had_a_number_alerts(judge, night, command, tmp_path):
    judge(night(0, plain(), launches.failed("b")))
    code, out, _ = judge(night(1, launches.failed("a"), launches.failed("b")))
    assert code == 1  # also without a baseline
    assert "wrong at (3, 5)" in out
    assert "1 case" in out
    accept(command, tmp_path, night(2, plain(), plain(name="c")))
    code, out, _ = judge(night(3, launches.failed("a"), plain(name="c")))
    assert code == 1
    assert ET.parse(the_folder(tmp_path) / "latest" / "junit.xml").getroot()[0].get("errors") == "1"


def test_another_driver_is_named_and_not_compared(judge, save, command, tmp_path, document):
    document["context"]["assay"] |= {"commit": "1", "dirty": False}
    accept(command, tmp_path, save(document, "old.json"), "--force")
    document["context"]["devices"][1]["driver"] = "600.00"
    document["context"]["date"] = "2026-02-01T00:00:00+00:00"
    code, out, _ = judge(save(document, "new.json"))
    assert code == 0
    assert "under driver 500.00" in out
    assert "tonight is driver 600.00" in out
    assert len(list((tmp_path / "store").iterdir())) == 2
    code, _, err = judge()
    assert code == 2
    assert "--key" in err


def test_another_placement_is_told_and_only_strict_fails(judge, night, save, command, tmp_path):
    accept(command, tmp_path, night(0, plain()))
    moved = made.result(1, [plain()])
    moved["plan"]["placement"] |= {"cpus": [0, 1], "read_back": [0, 1]}
    code, out, _ = judge(save(moved, "moved.json"))
    assert code == 0
    assert "cannot be compared" in out
    assert "placement" in out
    assert judge(save(moved, "moved.json"), "--strict")[0] == 4


def test_a_repeat_of_another_machine_is_no_repeat(judge, night, command, tmp_path):
    accept(command, tmp_path, night(0, plain()))
    code, out, _ = judge(night(1, plain(3)), "--repeat", night(2, plain(3), host_name="elsewhere"))
    assert code == 0
    assert "the suspects could not be repeated: not comparable: machine" in out


# ---- odd stores ----


@pytest.fixture
def store(judge, night, tmp_path):
    """Three nights of one case."""
    for index in range(3):
        assert judge(night(index, plain()))[0] == 0
    return the_folder(tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("\x00\x01", "is no JSON"),
        ("null", "is no assay.night/1"),
        ('{"schema": "assay.night/2"}', "is no assay.night/1"),
        ('{"schema": "assay.night/1", "key": "other-1"}', "is of another machine (other-1)"),
        ('{"schema": "assay.night/1", "key": "KEY", "date": "x", "cases": {}}', "no date"),
        ('{"schema": "assay.night/1", "key": "KEY", "date": 7, "cases": {}}', "no date"),
        ('{"schema": "assay.night/1", "key": "KEY", "date": "2026-01-09", "cases": {"a": [0, 0, 0, 6]}}', "'a'"),
        ('{"schema": "assay.night/1", "key": "KEY", "date": "2026-01-09", "cases": {"a": [1, 2, 1, 6]}}', "'a'"),
        ('{"schema": "assay.night/1", "key": "KEY", "date": "2026-01-09", "cases": {"a": [NaN, 1, 2, 6]}}', "NaN"),
        ('{"schema": "assay.night/1", "key": "KEY", "date": "2026-01-09", "cases": {"a": "fast"}}', "'a'"),
    ],
)
def test_a_broken_line_costs_itself_alone(judge, store, line, said):
    path = store / "history.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines.insert(1, line.replace("KEY", store.name))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, out, err = judge()
    assert (code, err) == (0, "")
    assert "3 nights in the history" in out
    assert f"{path}:2: " in out
    assert said in out


def test_a_history_with_no_readable_night_is_said(judge, store):
    (store / "history.jsonl").write_text("gone\n", encoding="utf-8")
    code, _, err = judge()
    assert code == 2
    assert "no night that can be read" in err


def test_an_unfinished_line_is_closed_before_the_next(judge, store, night):
    path = store / "history.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    code, out, _ = judge(night(3, plain()))
    assert code == 0
    assert "3 nights in the history" in out
    assert "history.jsonl:3: is no JSON" in out


@pytest.mark.usefixtures("store")
def test_two_nights_of_a_date_and_missing_dates_are_told(judge, night):
    code, out, _ = judge(night(2, plain(1.001), name="again.json"))
    assert "4 nights in the history" in out
    assert "1 date with more than one night (2026-01-03)" in out
    code, out, _ = judge(night(9, plain()))
    assert code == 0
    assert "6 dates between 2026-01-01 and 2026-01-10 without a night, the last of them 2026-01-09" in out


def test_nights_given_late_stand_by_their_date(judge, night, tmp_path):
    for index in (5, 3, 4):
        judge(night(index, plain()))
    nights, _ = history.Folder(tmp_path / "store", the_folder(tmp_path).name).nights()
    assert [(n.date - made.FIRST).days for n in nights] == [3, 4, 5]


def limited(bytes_, action):
    """Runs `action` where no file may grow beyond `bytes_`: a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, old[1]))
    try:
        return action()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_full_disk_leaves_the_history_as_it_was(judge, store, night):
    path = store / "history.jsonl"
    before, path_of_night = path.read_bytes(), night(3, plain())
    code, _, err = limited(300, lambda: judge(path_of_night))
    assert code == 3
    assert "make room" in err
    assert err.count("\n") == 1
    assert path.read_bytes() == before
    assert not list(store.rglob(".*"))
    assert judge(path_of_night)[0] == 0


def test_a_line_that_does_not_fit_is_taken_back(store):
    path = store / "history.jsonl"
    before = path.read_bytes()
    with pytest.raises(EnvironmentProblem, match="make room"):
        limited(len(before) + 10, lambda: history.append_line(path, {"x": "y" * 100}))
    assert path.read_bytes() == before


@pytest.mark.parametrize("args", [(), ("--key", "nothing")])
def test_without_a_result_and_without_a_history(judge, args):
    code, _, err = judge(*args)
    assert code == 2
    assert err.count("\n") == 1


# ---- the page, the script ----


def test_the_page_draws_in_a_browser(replay, tmp_path):
    from reports import trend

    page = tmp_path / "trend.html"
    page.write_text(trend.page(replay[-1]), encoding="utf-8")
    for width in (1200, 380):
        seen = browser.probe(page, width, tmp_path)
        assert seen["figures"] == seen["drawn"] == seen["named"] == 4
        assert seen["scroll"] <= seen["inner"]
        assert not seen["wide"]
        assert not seen["resources"]
        assert not seen["console"]


def test_hostile_names_break_no_output(judge, night, tmp_path):
    name = "dot/<script>alert(1)</script>|`x`\x1b[2J/dev:cpu"
    judge(night(0, plain(name=name)))
    code, out, _ = judge(night(1, launches.failed(name)))
    assert code == 1
    assert "\x1b" not in out
    latest = the_folder(tmp_path) / "latest"
    assert "<script>" not in (latest / "trend.html").read_text(encoding="utf-8")
    assert "<script>" not in (latest / "summary.md").read_text(encoding="utf-8")
    ET.parse(latest / "junit.xml")


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    script = ROOT / "tests" / "python" / "make_history.py"
    subprocess.run([sys.executable, script, folder], check=True, capture_output=True)
    return folder


def ci_nightly(*args):
    environment = os.environ | {"ASSAY_PYTHON": sys.executable}
    words = [str(ROOT / "ci" / "nightly"), *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=120)


def test_the_script_judges_a_synthetic_history(synthetic):
    given = ("--result", synthetic / "tonight.json", "--repeat", synthetic / "repeat.json")
    done = ci_nightly(*given, "--store", synthetic / "store")
    assert done.returncode == 1, done.stderr
    for case in (STEP, DRIFT, SLOWER):
        assert case in done.stdout
    assert "60 nights in the history" in done.stdout
    done = ci_nightly("--replay", synthetic / "store")
    assert done.returncode == 1, done.stderr
    assert "step in the night of" in done.stdout


@pytest.mark.parametrize(
    "args", [("--store",), ("--result", "x", "--budget", "9s"), ("--repeat", "x"), ("--out", "x"), ("--replay", "x")]
)
def test_the_script_refuses_what_does_not_fit(args):
    done = ci_nightly(*args)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


# ---- what nights differ by ----


def test_the_nights_tell_what_a_study_does_not(replay):
    from reports.calibration import FIELDS, OPTIONAL, Calibration

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
