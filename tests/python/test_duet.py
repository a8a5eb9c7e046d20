"""`assay duet`: what is measured and in which order, what goes on after an interrupt, verdicts, the lock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from reports import duet
from reports.duet_judge import judge, judge_pairs, read_pairs
from reports.errors import EnvironmentProblem, InputProblem

import fake_assay
from conftest import ROOT

FAST = ("--pairs", "6")
CASES = {"dot/x/dev:cpu": 1e6, "dot/y/dev:cpu": 2e6}


@pytest.fixture
def builds(tmp_path):
    """Two builds, A and B; B's times and faults as the test says."""

    def make(b=CASES, **changes):
        paths = []
        for name, times, more in (("A", CASES, {}), ("B", b, changes)):
            (tmp_path / name).mkdir(exist_ok=True)
            paths.append(fake_assay.write(tmp_path / name / "assay", times, **more))
        return paths

    return make


def sides(paths):
    return tuple(duet.Side(name, (path,), {}) for name, path in zip("AB", paths, strict=True))


def measured(paths, folder, pairs=6, cases=tuple(CASES), **options):
    duet.run_pairs(*sides(paths), folder, pairs, cases=list(cases), seed=5, **options)
    return folder


def slower(share, *names):
    return CASES | {name: CASES[name] * (1 + share) for name in names or CASES}


def verdicts(comparison):
    return {row.id: row.verdict for row in comparison.rows}


# ---- order and folder ----


def test_each_side_goes_first_equally_often_in_an_order_that_the_seed_decides():
    assert {duet.orders(seed, 8).count("a") for seed in range(20)} == {4}
    assert len({tuple(duet.orders(seed, 8)) for seed in range(20)}) > 10
    assert duet.orders(7, 16)[:9] == duet.orders(7, 9)


def test_launches_alternate_in_the_stated_order_with_one_seed_and_one_list(builds, tmp_path):
    folder = measured(builds(), tmp_path / "d", options=("--budget", "2s"))
    head = json.loads((folder / "duet.json").read_text(encoding="utf-8"))
    files = sorted(folder.glob("?/*.json"), key=lambda p: p.stat().st_mtime_ns)
    wanted = []
    for k, first in enumerate(head["order"]):
        wanted += [f"{side}/{k:04d}.json" for side in (first, "ab".replace(first, ""))]
    assert [str(f.relative_to(folder)) for f in files] == wanted
    assert {json.loads(f.read_text(encoding="utf-8"))["context"]["seed"] for f in files} == {"5"}
    assert head["cases"] == list(CASES)
    assert head["launch"].endswith("--ceilings off --quiet --seed 5 --out FILE --budget 2s")


def test_progress_is_told_before_the_first_launch_and_after_each_pair(builds, tmp_path):
    told = []
    measured(builds(), tmp_path / "d", progress=lambda *a: told.append(a[:2]))
    assert told == [(k, 6) for k in range(7)]


def test_a_stopped_duet_goes_on_and_half_a_pair_is_measured_again(builds, tmp_path):
    paths, folder = builds(crash=(3,)), tmp_path / "d"
    with pytest.raises(
        duet.LaunchProblem, match="a launch of B ended with 3 and left no result: assay: crashed"
    ) as found:
        measured(paths, folder)
    assert found.value.side == "b"
    old = {f: f.stat().st_mtime_ns for f in folder.glob("?/*.json")}
    whole = [f for f in old if int(f.stem) < 3]
    assert len(whole) == 6
    assert not list(folder.glob("?/*.part*"))
    (folder / "a" / "0003.json").write_text("half a pair", encoding="utf-8")
    head = json.loads((folder / "duet.json").read_text(encoding="utf-8"))
    builds()
    head["sides"][1]["sha256"] = duet._fingerprint((paths[1],))
    (folder / "duet.json").write_text(json.dumps(head), encoding="utf-8")
    measured(paths, folder, 8)
    assert all(f.stat().st_mtime_ns == old[f] for f in whole)
    assert read_pairs(folder).count == 8


@pytest.mark.parametrize("what", ["seed", "cases", "options", "binary"])
def test_another_duet_does_not_go_on_in_the_folder(builds, tmp_path, what):
    paths = builds()
    folder = measured(paths, tmp_path / "d")
    change = {"seed": 5, "cases": list(CASES), "options": ()}
    change |= {"seed": {"seed": 6}, "cases": {"cases": list(CASES)[:1]}, "options": {"options": ("--x",)}}.get(what, {})
    if what == "binary":
        builds(slower(0.1))
    with pytest.raises(InputProblem, match="differs in .*(seed|cases|options|binaries).*name another folder"):
        duet.run_pairs(*sides(paths), folder, 6, **change)


def test_a_folder_with_other_files_is_refused(builds, tmp_path):
    with pytest.raises(InputProblem, match="holds other files"):
        measured(builds(), tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": "assay.duet/1", "sides": [1, 2]}', "{"])
def test_a_damaged_head_is_no_traceback(builds, tmp_path, text):
    folder = measured(builds(), tmp_path / "d")
    (folder / "duet.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputProblem):
        judge(folder)


def test_fewer_than_six_pairs_have_no_verdict(builds, tmp_path):
    folder = measured(builds(), tmp_path / "d")
    (folder / "b" / "0002.json").unlink()
    with pytest.raises(InputProblem, match="holds 5 whole pairs"):
        judge(folder)


# ---- verdicts ----


def test_a_change_is_found_in_its_case_alone(builds, tmp_path):
    found = judge(measured(builds(slower(0.05, "dot/x/dev:cpu")), tmp_path / "d", 8))
    assert verdicts(found) == {"dot/x/dev:cpu": "slower", "dot/y/dev:cpu": "same"}
    row = found.rows[0]
    assert row.new / row.base == pytest.approx(row.ratio)
    assert row.low < 1.05 < row.high
    assert (row.launches, row.paired) == ((8, 8), True)
    assert found.exit_code() == 1
    assert "two stored results, unpaired" in found.footer[0]


def test_a_part_of_the_cases_is_judged_as_if_it_were_all(builds, tmp_path):
    pairs = read_pairs(measured(builds(slower(0.05)), tmp_path / "d", 8))
    one = judge_pairs(pairs, names=["dot/x/dev:cpu"]).rows
    assert [row.id for row in one] == ["dot/x/dev:cpu"]
    assert one[0].q == one[0].p


def test_a_failure_in_one_launch_costs_that_pair(builds, tmp_path):
    found = judge(measured(builds(fail={"dot/x/dev:cpu": [2]}), tmp_path / "d", 7))
    row = next(r for r in found.rows if r.id == "dot/x/dev:cpu")
    assert (row.verdict, row.launches) == ("same", (6, 6))
    assert row.notes == ["1 of 7 pairs left out: B failed in 1 (wrong at (3, 5))"]
    assert found.exit_code() == 0


def test_failures_that_repeat_in_b_alone_are_a_fault_of_b(builds, tmp_path):
    found = judge(measured(builds(fail={"dot/x/dev:cpu": [2, 5]}), tmp_path / "d", 12))
    row = found.rows[0]
    assert (row.id, row.verdict, row.new, row.ratio) == ("dot/x/dev:cpu", "failed", None, None)
    assert row.base == pytest.approx(1e6, rel=0.01)
    assert "NEW: wrong at (3, 5)" in row.detail
    assert found.exit_code() == 1


def test_too_few_pairs_left_decide_nothing(builds, tmp_path):
    found = judge(measured(builds(fail={"dot/x/dev:cpu": [0]}), tmp_path / "d"))
    row = next(r for r in found.rows if r.id == "dot/x/dev:cpu")
    assert (row.verdict, row.detail, row.p) == ("inconclusive", "5 pairs", None)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("data", {"checksum": "f" * 16}),
        ("machine", {"host_name": "another"}),
    ],
)
def test_sides_that_do_not_agree_are_refused_unless_forced(builds, tmp_path, kind, changes):
    folder = measured(builds(**changes), tmp_path / "d")
    with pytest.raises(InputProblem, match=f"not comparable: {kind}"):
        judge(folder)
    assert judge(folder, forced=True).mixed == [kind]


def test_two_toolkits_are_what_a_duet_may_be_about(builds, tmp_path):
    folder = measured(builds(), tmp_path / "d")
    for side in "ab":
        for path in (folder / side).glob("*.json"):
            record = json.loads(path.read_text(encoding="utf-8"))
            record["context"]["devices"].append({"name": "cuda0", "kind": "cuda", "driver": "1", "runtime": side})
            record["cases"][0]["device"] = {"name": "cuda0", "kind": "cuda"}
            path.write_text(json.dumps(record), encoding="utf-8")
    found = judge(folder)
    assert found.mixed == []
    assert any(note.startswith("toolkit: cuda0 runtime is a in BASE and b in NEW") for note in found.notes)


# ---- the command ----


def test_command_with_two_builds(command, builds, tmp_path):
    a, b = builds(slower(0.1, "dot/y/dev:cpu") | {"dot/z/dev:cpu": 1e6})
    out = {form: tmp_path / form for form in ("markdown", "json", "junit")}
    words = [w for form, path in out.items() for w in (f"--{form}", path)]
    code, text, err = command("duet", a, b, "--pairs", "8", "--folder", tmp_path / "d", *words)
    assert code == 1
    lines = [line.split()[:2] for line in text.splitlines() if "/dev:cpu" in line]
    assert lines == [["slower", "dot/y/dev:cpu"], ["new", "dot/z/dev:cpu"], ["same", "dot/x/dev:cpu"]]
    assert "not in A" in text
    assert "duet: pair 1 of 8" in err
    assert out["markdown"].read_text(encoding="utf-8").startswith("## assay duet")
    record = json.loads(out["json"].read_text(encoding="utf-8"))
    assert (record["command"], record["base"]["path"], record["exit_code"]) == ("duet", a, 1)
    assert 'name="assay duet"' in out["junit"].read_text(encoding="utf-8")


def test_command_with_one_build_and_a_setting(command, builds, tmp_path):
    a, _ = builds()
    folder = tmp_path / "d"
    assert command("duet", a, "--env-b", "FAKE_FACTOR=1.2", *FAST, "--folder", folder)[0] == 1
    code, out, _ = command("duet", a, "--env-a", "FAKE_FACTOR=1.2", "--pairs", "8")
    assert code == 0
    assert "2 faster" in out
    assert "settings differ" in out


def test_cases_of_one_side_alone_are_reported(command, builds, tmp_path):
    a, b = builds({"dot/x/dev:cpu": 1e6})
    listed = tmp_path / "cases"
    listed.write_text("dot/x/dev:cpu\ndot/y/dev:cpu\n", encoding="utf-8")
    code, out, _ = command("duet", a, b, *FAST, "--cases", listed)
    assert code == 0
    assert "missing  dot/y/dev:cpu" in out
    assert "not in B" in out
    assert command("duet", a, b, *FAST, "--cases", listed, "--strict")[0] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give B, or a setting that differs"),
        (("--env-b", "X"), "give KEY=VALUE"),
        (("nowhere/assay",), "give the path of an assay binary"),
        (("--env-b", "X=1", "--pairs", "5"), "a whole number from 6 to 1000"),
        (("--env-b", "X=1", "--budget", "11s"), "at most 10s"),
        (("--env-b", "X=1", "--budget", "x"), "at most 10s"),
        (("--env-b", "X=1", "--seed=-1"), "--seed -1"),
        (("--env-b", "X=1", "--filter", "nothing"), "does not list its cases"),
        (("--env-b", "X=1", "--cases", "/nowhere"), "cannot be read"),
    ],
)
def test_bad_command_lines(command, builds, words, said):
    code, out, err = command("duet", builds()[0], *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_nothing_in_common_is_exit_2(command, builds):
    code, _, err = command("duet", *builds({"other/dev:cpu": 1e6}), *FAST)
    assert code == 2
    assert "no case in common" in err


def test_a_launch_without_a_result_is_exit_3_and_says_how_to_go_on(command, builds, tmp_path):
    code, _, err = command("duet", *builds(crash=(4,)), *FAST, "--folder", tmp_path / "d")
    assert code == 3
    assert "go on with" in err
    assert "assay: crashed" in err


def shell(*words, **env):
    return subprocess.Popen(
        [sys.executable, "-m", "reports", *map(str, words)],
        cwd=ROOT,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_folder_that_goes_on_and_no_process(builds, tmp_path, number, command):
    a, b = builds(sleep=0.3)
    folder = tmp_path / "d"
    child = shell("duet", a, b, *FAST, "--folder", folder)
    for _ in range(600):
        if len(list(folder.glob("?/*.json"))) >= 3:
            break
        time.sleep(0.05)
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert child.returncode == -number
    assert "go on with\n  assay duet" in err
    assert "Traceback" not in err
    assert not list(folder.glob("?/*.part"))
    assert 3 <= len(list(folder.glob("?/*.json"))) < 12
    assert command("duet", a, b, *FAST, "--folder", folder)[0] == 0


def test_a_gpu_is_locked_for_the_whole_duet_and_its_descriptor_handed_on(tmp_path):
    """The command starts itself again under `assay lock`, here a stand-in that says what it was given."""
    gpu = fake_assay.write(tmp_path / "gpu", {"dot/x/dev:cuda0": 1e6, "dot/y/dev:cpu": 1e6})
    lock = tmp_path / "lock"
    lock.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    lock.chmod(0o755)
    words = ("duet", gpu, "--env-b", "X=1", *FAST)
    child = shell(*words, ASSAY_COMMAND=str(lock))
    out, _ = child.communicate(timeout=60)
    assert out.split() == ["lock", "--device", "cuda0", "--", str(lock), *words]


def test_launches_inherit_the_locks(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.write_text("", encoding="utf-8")
    descriptor = os.open(path, os.O_RDWR)
    probe = tmp_path / "probe"
    target = tmp_path / "seen"
    probe.write_text(f'#!/bin/sh\nreadlink /proc/self/fd/{descriptor} >"{target}"\nexit 3\n', encoding="utf-8")
    probe.chmod(0o755)
    monkeypatch.setenv("ASSAY_LOCKS", f"GPU-1:{descriptor}")
    side = duet.Side("probe", (str(probe),), {})
    with pytest.raises(EnvironmentProblem):
        duet.run_pairs(side, side, tmp_path / "d", 6, cases=["x"], seed=1)
    os.close(descriptor)
    assert target.read_text(encoding="utf-8").strip() == str(path)
    monkeypatch.setenv("ASSAY_LOCKS", "GPU-1:x")
    with pytest.raises(InputProblem, match="ASSAY_LOCKS"):
        duet.run_pairs(side, side, tmp_path / "e", 6, cases=["x"], seed=1)
