"""Probes, and `assay claims --id X --run`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from reports.probes import cgroup_gpu_files, clock_step, may_set_clock

from claims_text import NAIVE, TILED, claim
from conftest import GPU, ROOT

ARTICLES = ROOT / "results" / "claims" / "articles.toml"


# ---- probes ----


def test_cgroup_probe(tmp_path):
    assert cgroup_gpu_files(tmp_path, tmp_path / "self").tried is False
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    own = tmp_path / "self"
    own.write_text("0::/job\n")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "memory.max").write_text("max\n")
    seen = cgroup_gpu_files(tmp_path, own)
    assert seen.seen is False and "cpu memory" in seen.evidence
    (tmp_path / "job" / "cuda.memory.max").write_text("max\n")
    seen = cgroup_gpu_files(tmp_path, own)
    assert seen.seen is True and "cuda.memory.max" in seen.evidence


def test_clock_probe_sees_each_outcome():
    def clock(values):
        it = iter(values)
        last = [0]

        def read():
            last[0] = next(it, last[0] + 1)
            return last[0]

        return read

    steady = clock([])
    assert clock_step(steady, lambda: 0, lambda: False).seen is None
    assert clock_step(clock([10, 11, 5]), lambda: 0, lambda: True).seen is True
    wall = clock([0, 10**9])
    stepped = clock_step(clock([]), wall, lambda: False)
    assert stepped.seen is False and "stepped by" in stepped.evidence
    real = clock_step()
    assert real.seen is not True and "0 of them backwards" in real.evidence


def test_right_to_set_the_clock(tmp_path):
    status = tmp_path / "status"
    for mask, expected in (("0000000002000000", True), ("00000000fdffffff", False)):
        status.write_text(f"Name:\tx\nCapEff:\t{mask}\n")
        assert may_set_clock(status) is expected
    assert may_set_clock(tmp_path / "none") is None


# ---- --run ----

STUB = """#!{python}
import json, shutil, sys
document = json.load(open({result!r}))
if sys.argv[1] == "list":
    print(json.dumps(document["plan"]["catalogue"]))
elif "--benchmark_list_tests" in sys.argv:
    big = sys.argv[sys.argv.index("--profile") + 1] == "standard"
    print("\\n".join(c["id"] for c in document["cases"] if big or "n:1024" not in c["id"]))
else:
    words = sys.argv[1:]
    cases = open(words[words.index("--cases") + 1]).read()
    json.dump({{"argv": words, "cases": cases.split()}}, open({log!r}, "w"))
    shutil.copy({result!r}, words[words.index("--out") + 1])
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """A command that notes what it is asked to measure and hands out the synthetic result."""
    path, log = tmp_path / "assay-stub", tmp_path / "log.json"
    path.write_text(STUB.format(python=sys.executable, result=str(GPU), log=str(log)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ASSAY_COMMAND", str(path))
    return lambda: json.loads(log.read_text())


def test_run_measures_just_what_the_claim_selects(command, save, stub, tmp_path):
    kept = tmp_path / "kept.json"
    path = save(claim(), "claims.toml")
    code, out, err = command("claims", path, "--id", "c", "--run", "--budget", "7s", "--out", kept)
    assert (code, err) == (0, "")
    asked = stub()
    assert asked["cases"] == ["matmul/tiled32/n:1024/dev:cuda0", "matmul/naive/n:1024/dev:cuda0"]
    argv = asked["argv"]
    assert argv[argv.index("--profile") + 1] == "standard"  # quick does not plan them
    assert argv[argv.index("--budget") + 1] == "7s" and argv[argv.index("--ceilings") + 1] == "off"
    assert "It holds" in out and kept.is_file()
    assert command("claims", path, "--id", "c", "--run", "--out", kept)[0] == 2  # nothing is overwritten


def test_run_measures_ceilings_where_the_claim_looks_at_them(command, save, stub):
    text = claim("fraction(new) / fraction(old) > 1")
    assert command("claims", save(text, "claims.toml"), "--id", "c", "--run")[0] == 0
    assert stub()["argv"][stub()["argv"].index("--ceilings") + 1] == "on"


@pytest.mark.usefixtures("stub")
def test_run_of_what_no_plan_has(command, save):
    text = claim(select=(TILED + NAIVE).replace("1024", "77"))
    code, out, _ = command("claims", save(text, "claims.toml"), "--id", "c", "--run")
    assert code == 0 and "untestable: the plan has no suite matmul" in out
    path = save(claim(select=TILED.replace("tiled32", "x") + NAIVE), "claims.toml")
    code, _, err = command("claims", path, "--id", "c", "--run")
    assert code == 2 and f"{path}:8: " in err


def test_run_without_a_command(command, save, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_COMMAND", str(tmp_path / "none"))
    code, out, err = command("claims", save(claim(), "claims.toml"), "--id", "c", "--run")
    assert (code, out) == (3, "") and "ASSAY_COMMAND" in err


@pytest.mark.skipif("ASSAY" not in os.environ, reason="ASSAY names the built command")
def test_the_built_command_runs_a_claim(save):
    """From `assay claims` through a real measurement to a verdict."""
    select = 'select.new = { suite = "matmul", variant = "tiled", device = "cpu", n = 256 }\n'
    select += 'select.old = { suite = "matmul", variant = "naive", device = "cpu", n = 256 }\n'
    path = save(claim(select=select), "claims.toml")
    words = [os.environ["ASSAY"], "claims", str(path), "--id", "c", "--run", "--budget", "10s"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "It holds" in done.stdout and "measured just now" in done.stdout
