"""`assay nightly` for one night, what is odd in a store, and ci/nightly."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from reports import history
from reports.errors import EnvironmentProblem
from reports.history_files import append_line

import launches
import make_history as made
from conftest import ROOT

STEP, DRIFT, SLOWER = (next(n for n in made.CASES if f"/{word}" in n) for word in ("step", "drift", "slower"))


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
        limited(len(before) + 10, lambda: append_line(path, {"x": "y" * 100}))
    assert path.read_bytes() == before


@pytest.mark.parametrize("args", [(), ("--key", "nothing")])
def test_without_a_result_and_without_a_history(judge, args):
    code, _, err = judge(*args)
    assert code == 2
    assert err.count("\n") == 1


# ---- hostile names, the script ----


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
