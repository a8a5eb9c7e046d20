"""`assay bisect`: what it tells git, and a whole search over commits with builds that fail or decide nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import fake_assay
from conftest import ROOT

CASES = {"dot/x/dev:cpu": 1e6, "dot/y/dev:cpu": 2e6}
FAST = ("--", "--pairs", "6")


@pytest.fixture
def judged(command, tmp_path, monkeypatch):
    """Exit code and standard error of one commit whose build makes `out/assay` as told."""
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    good = fake_assay.write(tmp_path / "good", CASES)

    def judge(times=None, *words, build="true", after=FAST, **changes):
        if times is not None:
            fake_assay.write(tmp_path / "out" / "assay", times, **changes)
        code, _, err = command("bisect", "--good", good, "--build", build, "--binary", "out/assay", *words, *after)
        return code, err.strip().splitlines()[-1]

    return judge


def slower(share):
    return {name: value * (1 + share) for name, value in CASES.items()}


@pytest.mark.parametrize(
    ("times", "changes", "code"),
    [
        (CASES, {}, 0),
        (slower(-0.1), {}, 0),
        (slower(0.1), {}, 1),
        (CASES, {"spread": 0.3}, 125),
        (CASES, {"crash": (0,)}, 125),
        (CASES, {"fail": {"dot/x/dev:cpu": [0, 1, 2, 3, 4, 5]}}, 125),
        ({"other/dev:cpu": 1e6}, {}, 125),
        (None, {}, 125),
    ],
)
def test_exit_code_for_git(judged, times, changes, code):
    assert judged(times, **changes)[0] == code


def test_a_build_that_fails_is_skipped_even_where_an_older_binary_stands(judged):
    assert judged(CASES, build="exit 7") == (125, "assay bisect: skipped: the build failed")


def test_only_the_named_cases_decide(judged):
    times = CASES | {"dot/y/dev:cpu": 3e6}
    assert judged(times)[0] == 1
    assert judged(times, "--case", "dot/x/dev:cpu")[0] == 0
    assert judged(times, "--filter", "dot/x/")[0] == 0
    assert judged(times, "--case", "dot/y/dev:cpu")[0] == 1


@pytest.mark.parametrize(
    ("words", "after", "code"),
    [
        (("--no-such-option",), FAST, 130),
        ((), ("--", "--pairs", "5"), 130),
        ((), ("--", "--pears", "5"), 130),
        ((), ("--", "--threshold", "5x"), 130),
        (("--case", "x", "--filter", "x"), FAST, 130),
        (("--case", "x"), FAST, 130),
        (("--filter", "nothing"), FAST, 130),
        (("--good", "out/assay"), FAST, 130),
        ((), ("--", "--json", "/nowhere/x.json"), 131),
    ],
)
def test_what_is_wrong_with_the_command_is_no_verdict_on_the_commit(judged, words, after, code):
    try:
        found = judged(CASES, *words, after=after)[0]
    except SystemExit as left:
        found = left.code
    assert found == code


def test_a_good_build_that_does_not_run_stops_the_search(judged, tmp_path):
    fake_assay.write(tmp_path / "good", CASES, crash=(0,))
    assert judged(CASES)[0] == 131


# ---- a whole search ----

# What the commits build. The first is good, the last is bad; the seventh is the first that is slower.
COMMITS = ("good", "good", "unbuildable", "good", "noisy", "good", "slow", "slow", "slow")
BUILD = """#!/bin/sh
mkdir -p out
case $(cat state) in
unbuildable) echo "no rule to make it" >&2; exit 2 ;;
*) cp "{builds}/$(cat state)" out/assay ;;
esac
"""


def git(folder, *words, **options):
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_bisect_run_ends_at_the_commit_that_made_it_slower(tmp_path):
    builds, tree = tmp_path / "builds", tmp_path / "tree"
    builds.mkdir()
    tree.mkdir()
    good = fake_assay.write(builds / "good", CASES)
    fake_assay.write(builds / "noisy", CASES, spread=0.3)
    fake_assay.write(builds / "slow", slower(0.05))
    (tree / "build.sh").write_text(BUILD.format(builds=builds), encoding="utf-8")
    (tree / ".gitignore").write_text("out/\n", encoding="utf-8")
    git(tree, "init", "-q")
    for number, state in enumerate(COMMITS):
        (tree / "state").write_text(state + "\n", encoding="utf-8")
        (tree / "change").write_text(f"{number}\n", encoding="utf-8")
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", f"commit {number}")
    commits = git(tree, "rev-list", "--reverse", "HEAD").split()
    git(tree, "bisect", "start", commits[-1], commits[0])
    words = [sys.executable, "-m", "reports", "bisect", "--good", good, "--build", "sh build.sh"]
    words += ["--binary", "out/assay", "--", "--pairs", "6"]
    said = git(tree, "bisect", "run", *words, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert f"{commits[6]} is the first bad commit" in said
    log = git(tree, "bisect", "log")
    assert f"git bisect skip {commits[4]}" in log
