"""`assay reproduce`: verdicts from two results, and the run that it makes from a file alone."""

from __future__ import annotations

import copy
import gzip
import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from reports.reproduce import WITHIN_RUN
from reports.reproduce_plan import list_of

import launches
import synthetic as model
from conftest import GPU, ROOT
from synthetic_context import context

ID = "dot/synthetic/n:1/dev:cpu"
OUTPUT = {"deterministic": True, "output_checksum": "00000000000000aa", "input_checksum": "00000000000000bb"}
PASSED = {"status": "passed", "after_timing": "passed"} | OUTPUT


def case(name=ID, rows=None, time=1000.0, **changes) -> dict:
    metric = {"name": "time", "unit": "ns", "value": time, "low": time * 0.99, "high": time * 1.01}
    record = launches.case(name, rows or launches.fixed(time), metrics=[metric], verification=dict(PASSED))
    return record | changes


def result(*cases, cpus=(0, 1), words=(), **changes) -> dict:
    document = launches.result(*cases, **changes)
    document["context"]["argv"] = ["assay", "run", *words]
    document["plan"] |= {"profile": "quick", "budget_ns": 20_000_000_000, "launches": 1}
    document["plan"]["placement"]["cpus"] = list(cpus)
    return document


@pytest.fixture
def judged(command, save):
    """Two documents through `reproduce --against`: exit code and the JSON."""

    def run(old, new, *words):
        paths = [save(document, name) for document, name in ((old, "old.json"), (new, "new.json"))]
        code, out, err = command("reproduce", paths[0], "--against", paths[1], "--json", "-", *words)
        assert err == ""
        return code, json.loads(out)

    return run


def only(answer: tuple) -> tuple:
    code, document = answer
    (row,) = document["cases"]
    assert document["exit_code"] == code
    return code, row


# ---- times ----


@pytest.mark.parametrize(
    ("factor", "verdict", "code"),
    [(1.0, "reproduced", 0), (1.015, "reproduced", 0), (1.021, "shifted", 0), (1.1, "not reproduced", 1)],
)
@pytest.mark.parametrize("down", [False, True])
def test_time_on_the_same_machine(judged, factor, verdict, code, down):
    """Inside the threshold of 2%, across its edge, outside it; faster counts as well as slower."""
    factor = 1 / factor if down else factor
    got, row = only(judged(result(case(time=100_000)), result(case(time=100_000 * factor))))
    assert (got, row["verdict"]) == (code, verdict)
    assert row["ratio"]["low"] < factor < row["ratio"]["high"] and row["machine"] == "the same machine"


def test_threshold_is_that_of_compare(judged):
    code, row = only(judged(result(case()), result(case(time=1100.0)), "--threshold", "20%"))
    assert (code, row["verdict"], row["threshold"]) == (0, "reproduced", 0.2)


def test_one_launch_decides_only_what_a_wider_interval_would_too(judged):
    def one(time, step=10):
        return result(case(rows=[[[time - step] * 3, [time] * 3, [time + step] * 3] * 2]))

    code, row = only(judged(one(1000), one(1004)))
    assert (code, row["verdict"], row["detail"]) == (0, "reproduced", WITHIN_RUN)
    code, row = only(judged(one(1000), one(1500)))
    assert (code, row["verdict"]) == (0, "undecided") and row["detail"].startswith("50.0% above")
    assert judged(one(1000), one(1500), "--strict")[0] == 4
    code, row = only(judged(result(case(rows=[[[1000] * 3]])), one(1000)))
    assert row["verdict"] == "undecided" and row["ratio"]["low"] is None  # one round has no interval


def test_a_wandering_machine_is_not_called_unreproduced(judged):
    """200 cases whose launches wander by 5% from one to the next, and nothing else: no failure."""
    rng = np.random.default_rng(5)

    def session():
        rows = [launches.drawn(rng, 1e6, spread=0.05) for _ in range(200)]
        return result(*(case(f"dot/synthetic/n:{i}/dev:cpu", r) for i, r in enumerate(rows)))

    code, document = judged(session(), session())
    assert code == 0 and document["counts"].get("not reproduced", 0) == 0
    assert document["counts"]["reproduced"] >= 180  # the intervals are of 95%


# ---- what is exact ----


def changed(**verification) -> dict:
    return case(verification=PASSED | verification)


def test_inputs_that_differ_fail_anywhere(judged):
    new = changed(input_checksum="ff")
    code, row = only(judged(result(case()), result(new)))
    assert (code, row["inputs"], row["outputs"], row["verdict"]) == (1, "DIFFER", "-", "reproduced")
    other = result(new)
    other["context"]["machine"]["cpu_model"] = "another"
    assert judged(result(case()), other)[0] == 1


def test_outputs(judged):
    code, row = only(judged(result(case()), result(changed(output_checksum="ff"))))
    assert (code, row["outputs"]) == (1, "DIFFER")
    code, row = only(judged(result(case()), result(changed(deterministic=False, output_checksum="ff"))))
    assert (code, row["outputs"]) == (0, "not deterministic")


def machine(document, **changes) -> dict:
    document["context"]["machine"] |= changes
    return document


def test_what_another_machine_allows(judged):
    """The same vendor and units: outputs can be told apart, and are no failure; else inputs alone."""
    new = result(changed(output_checksum="ff"))
    code, row = only(judged(result(case()), machine(copy.deepcopy(new), cores=8)))
    assert (code, row["outputs"], row["verdict"], row["ratio"]) == (0, "DIFFER", "not comparable", None)
    assert "same architecture" in row["machine"]
    code, row = only(judged(result(case()), machine(new, isa=["avx512f"], cores=8)))
    assert (code, row["inputs"], row["outputs"], row["machine"]) == (
        0,
        "identical",
        "not comparable",
        "another machine",
    )
    assert judged(result(case()), new, "--strict")[0] == 4


def test_another_host_of_the_same_kind(judged):
    """Its outputs must be equal; its times may differ."""
    slow = result(case(time=2000.0), host_name="elsewhere")
    code, row = only(judged(result(case()), slow))
    assert (code, row["verdict"], row["machine"]) == (0, "not reproduced", "the same kind of machine")
    assert judged(result(case()), result(changed(output_checksum="ff"), host_name="elsewhere"))[0] == 1
    assert only(judged(result(case()), result(case(time=2000.0), host_name="host")))[0] == 1  # hidden: no other name


def gpu_result(time=1000.0, **device) -> dict:
    document = result(case("dot/synthetic/n:1/dev:cuda0", time=time, device={"name": "cuda0", "kind": "cuda"}))
    document["context"] = context([model.CPU, model.CUDA | device], 4, "7", []) | {"argv": ["assay", "run"]}
    return document


def test_gpus_by_uuid_model_and_capability(judged):
    assert only(judged(gpu_result(), gpu_result(2000.0)))[0] == 1
    code, row = only(judged(gpu_result(), gpu_result(2000.0, uuid="GPU-1")))
    assert (code, row["machine"], row["verdict"]) == (0, "the same kind of machine", "not reproduced")
    row = only(judged(gpu_result(), gpu_result(2000.0, uuid="GPU-1", model="Synthetic GPU 9100")))[1]
    assert "same architecture" in row["machine"] and row["verdict"] == "not comparable"
    row = only(judged(gpu_result(), gpu_result(model="x", compute_capability="8.0")))[1]
    assert row["machine"] == "another machine"


def test_all_threads_of_another_placement(judged):
    """More CPUs: another time, and perhaps another order of additions."""
    wide = result(changed(output_checksum="ff") | {"parameters": {"threads": "all"}}, cpus=range(4))
    narrow = result(case(parameters={"threads": "all"}))
    code, row = only(judged(narrow, wide))
    assert (code, row["verdict"], row["outputs"]) == (0, "not comparable", "not comparable")


def test_failures(judged):
    code, row = only(judged(result(case()), result(launches.failed(ID))))
    assert (code, row["verdict"], row["detail"]) == (1, "failed", "wrong at (3, 5)")
    code, row = only(judged(result(case()), result(launches.failed(ID, "lost", "died"))))
    assert (code, row["verdict"]) == (1, "failed")
    code, row = only(judged(result(launches.failed(ID)), result(launches.failed(ID))))
    assert (code, row["verdict"]) == (0, "failed before")
    code, row = only(judged(result(launches.failed(ID)), result(case())))
    assert row["detail"] == "done now; then: wrong at (3, 5)"
    skipped = case(status="skipped", reason="no library", series=[], rounds=[], metrics=[])
    code, row = only(judged(result(case()), result(skipped)))
    assert (code, row["verdict"], row["detail"]) == (4, "not reached", "no library")
    code, row = only(judged(result(case()), result(case("dot/x/dev:cpu"))))
    assert (code, row["verdict"]) == (4, "not reached")


def test_differences_of_the_environment(judged):
    old, new = result(case()), result(case(), kernel="Linux 6.2", environment_variables={"OMP_NUM_THREADS": "9"})
    new["context"]["assay"]["source_hash"] = "1" * 40
    new["context"]["load_avg"] = [9.0, 9.0, 9.0]  # of the moment: no difference
    new["context"]["machine"]["governor"] = "performance"
    said = {(d["of"], d["what"]): (d["then"], d["now"]) for d in judged(old, new)[1]["differences"]}
    assert said == {
        ("system", "kernel"): ("Linux 6.1.0 x86_64", "Linux 6.2"),
        ("system", "governor"): ("powersave", "performance"),
        ("system", "$OMP_NUM_THREADS"): ("4", "9"),
        ("build", "source_hash"): ("0" * 40, "1" * 40),
    }
    assert judged(old, old)[1]["differences"] == []


def test_metrics_that_do_not_follow_from_the_time(command, save):
    def with_metrics(memory, rate):
        document = result(case())
        document["cases"][0]["metrics"] += [
            {"name": "peak", "unit": "bytes", "value": memory, "low": memory - 1, "high": memory + 1},
            {"name": "rate", "unit": "flops_per_s", "value": rate, "low": rate * 0.99, "high": rate * 1.01},
        ]
        return document

    old, new = save(with_metrics(100, 5e9), "old.json"), save(with_metrics(200, 5e9), "new.json")
    out = command("reproduce", old, "--against", new)[1]
    table = out[out.index("metrics whose") :]
    assert "peak" in table and "rate" not in table


def test_text_and_markdown_are_safe(command, save, tmp_path):
    name = "dot/|\x1b[2J<b>/dev:cpu"
    old, new = save(result(case(name)), "old.json"), save(result(case(name), kernel="a|\nb"), "new.json")
    code, out, _ = command("reproduce", old, "--against", new, "--markdown", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert code == 0 and "\x1b" not in out + page and "<b>" not in page
    assert "cpu: the same machine; comparable: inputs, outputs and times" in out


# ---- the run ----

STUB = """#!{python}
import json, shutil, sys
words = sys.argv[1:]
if "--benchmark_list_tests" in words:
    print("\\n".join({listed!r}))
else:
    given = dict(w.removeprefix("--").split("=", 1) for w in words if "=" in w)
    cases = open(given["cases"]).read().split() if "cases" in given else []
    json.dump({{**given, "argv": words, "cases": cases}}, open({log!r}, "w"))
    shutil.copy({result!r}, given["out"])
"""


@pytest.fixture
def stub(tmp_path, save, monkeypatch):
    """A command that lists these ids, notes how it is run, and hands out this result."""

    def make(listed, document):
        path, log = tmp_path / "assay-stub", tmp_path / "log.json"
        answer = save(document, "answer.json")
        path.write_text(STUB.format(python=sys.executable, listed=listed, log=str(log), result=str(answer)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("ASSAY_COMMAND", str(path))
        return lambda: json.loads(log.read_text()) if log.exists() else None

    return make


def test_the_plan_is_rebuilt_from_the_file(command, save, stub, tmp_path):
    words = ["--rounds", "7", "--timeout=9s", "--ceilings", "off", "--strict"]
    document = result(case(), case("dot/gone/dev:cpu"), cpus=[0], words=words)
    document["plan"] |= {"profile": "standard", "launches": 3}
    asked = stub([ID], result(case()))
    kept = tmp_path / "kept.json"
    code, out, err = command("reproduce", save(document, "old.json"), "--out", kept, "--quiet", "--wait", "5m")
    assert (code, err) == (0, "")
    run = asked()
    assert run["cases"] == [ID] and run["argv"][0] == "run" and "--quiet" in run["argv"]
    told = {key: run[key] for key in ("seed", "profile", "launches", "rounds", "timeout", "ceilings", "budget", "wait")}
    assert told == {
        "seed": "7",
        "profile": "standard",
        "launches": "3",
        "rounds": "7",
        "timeout": "9s",
        "ceilings": "off",
        "budget": "20000ms",
        "wait": "5m",
    }
    allowed = os.sched_getaffinity(0)
    assert run.get("cpus") == ("0" if 0 in allowed and len(allowed) > 1 else None)
    assert "unknown" in out and "no such case" in out and kept.is_file()
    assert command("reproduce", save(document, "old.json"), "--out", kept)[0] == 2  # nothing is overwritten
    assert command("reproduce", save(document, "old.json"), "--strict", "--quiet")[0] == 4
    assert command("reproduce", save(document, "old.json"), "--budget", "3s")[0] == 0 and asked()["budget"] == "3s"


def test_cpus_that_are_not_here(command, save, stub):
    asked = stub([ID], result(case()))
    code, out, _ = command("reproduce", save(result(case(), cpus=[0, 1022, 1023]), "old.json"))
    assert code == 0 and "CPUs 0,1022-1023 are not all here" in out and "cpus" not in asked()
    assert list_of([8, 0, 1, 2]) == "0-2,8"


def test_devices_that_are_not_here(command, save, stub):
    asked = stub([ID], result(case()))
    code, out, _ = command("reproduce", save(gpu_result(), "old.json"))
    assert code == 3 and "not here" in out and "no cuda0 in this machine" in out and asked() is None
    both = gpu_result()
    both["cases"].append(case())
    assert command("reproduce", save(both, "old.json"))[0] == 0 and asked()["cases"] == [ID]
    assert command("reproduce", save(both, "old.json"), "--strict")[0] == 4
    assert command("reproduce", save(both, "old.json"), "--strict", "--device", "cpu")[0] == 0


def test_a_program_is_started_only_when_allowed(command, save, stub):
    name = "exec/nap/dev:cpu"
    words = ["--exec", "touch /nonexistent/x", "--name", "nap"]
    old = save(result(case(name, suite="exec"), words=words), "old.json")
    asked = stub([], result(case(name, suite="exec")))
    code, out, _ = command("reproduce", old)
    assert code == 4 and "starts the program `touch /nonexistent/x`; --allow-exec runs it" in out and asked() is None
    code, out, _ = command("reproduce", old, "--allow-exec")
    assert code == 0 and asked()["exec"] == "touch /nonexistent/x" and asked()["name"] == "nap"
    # The words alone start nothing: the case decides, and without the words there is nothing to start.
    command("reproduce", save(result(case(), words=words), "old.json"))
    assert asked()["cases"] == [] or "exec" not in asked()
    code, out, _ = command("reproduce", save(result(case(name, suite="exec")), "old.json"), "--allow-exec")
    assert code == 4 and "keeps no command line" in out


def test_a_published_file_packed(command, tmp_path):
    path = tmp_path / "old.json.gz"
    path.write_bytes(gzip.compress(json.dumps(result(case())).encode()))
    assert command("reproduce", path, "--against", path)[0] == 0
    assert command("reproduce", GPU, "--against", GPU)[0] == 0


def broken(**changes) -> dict:
    document = result(case())
    for path, value in changes.items():
        part, key = document, path
        if "__" in path:
            first, key = path.split("__")
            part = document[first]
        part[key] = value
    return document


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("", "JSON"),
        ("[]", "schema is None"),
        (broken(schema="assay.result/9"), "assay.result/9"),
        (broken(context__seed="--exec=x"), "not a whole number"),
        (broken(context__argv=["assay", "run", "--timeout", "1s --exec x"]), "--timeout"),
        (broken(context__argv=["assay", "run", "--ceilings=--exec"]), "--ceilings"),
        (broken(context__argv=[3]), "no text"),
        (broken(plan__profile="quick;x"), "not one of quick"),
        (broken(plan__budget_ns=0), "not above 0"),
        (broken(plan__launches=0), "not from 1 to 1000"),
        (broken(plan__placement={"cpus": ["0"]}), "no CPU numbers"),
        (broken(context__devices=[3]), "is not an object"),
        (broken(cases=[]), "no case"),
        (broken(cases=[case() | {"device": "cpu"}]), "wrong type"),
        (broken(cases=[case(), case()]), "stands twice"),
    ],
)
def test_malformed_files(command, save, document, says):
    path = save(document, "old.json")
    code, out, err = command("reproduce", path, "--against", path)
    assert (code, out) == (2, "") and says in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--filter", "("),
        ("--filter", "nosuch"),
        ("--device", "cuda7"),
        ("--budget", "soon"),
        ("--wait", "-1"),
        ("--threshold", "x"),
        ("--markdown", "-", "--json", "-"),
    ],
)
def test_usage(command, save, words):
    path = save(result(case()), "old.json")
    code, out, err = command("reproduce", path, "--against", path, *words)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1


def test_without_a_command(command, save, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_COMMAND", str(tmp_path / "none"))
    code, out, err = command("reproduce", save(result(case()), "old.json"))
    assert (code, out) == (3, "") and "ASSAY_COMMAND" in err


@pytest.mark.skipif("ASSAY" not in os.environ, reason="ASSAY names the built command")
def test_the_published_result_of_a_cpu():
    """Its smallest cases measured here, whatever this machine is: inputs are the same everywhere."""
    published = ROOT / "results" / "amd-epyc-2-cores" / "quick.json.gz"
    words = ["reproduce", str(published), "--filter", "^matmul/naive/n:(1|17)/dev:cpu", "--budget", "10s", "--quiet"]
    done = subprocess.run(
        [os.environ["ASSAY"], *words, "--json", "-"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in (0, 1), done.stderr
    rows = json.loads(done.stdout)["cases"]
    assert len(rows) == 2 and all(row["inputs"] == "identical" for row in rows)
