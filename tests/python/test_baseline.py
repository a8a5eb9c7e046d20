"""`assay baseline`: the key of a machine, what may be accepted, and how it is told."""

from __future__ import annotations

import copy
import json

import pytest

from reports import baseline, history

import launches
import make_history
from conftest import GPU, ROOT


@pytest.fixture
def night(save):
    """A result of the synthetic machine; `build` goes into context.assay, the rest into the context."""

    def make(index=0, cases=None, name="night.json", count=8, build=None, **changes):
        record = make_history.result(index, cases or [launches.case("a", launches.fixed(1e6, count))], **changes)
        record["context"]["assay"] |= build or {}
        record["plan"]["launches"] = count
        return save(record, name)

    return make


@pytest.fixture
def accept(command, tmp_path):
    def run(path, *more, reason="why not"):
        return command("baseline", "accept", path, "--reason", reason, "--store", tmp_path / "store", *more)

    return run


# ---- the key ----


def key(context) -> str:
    return history.machine_of(context).key


def test_what_fluctuates_is_not_in_the_key(document):
    other = copy.deepcopy(document)["context"]
    other |= {"mhz_per_cpu": 3711, "load_avg": [9.5, 3.0, 1.0], "date": "2027-05-05T00:00:00+00:00", "kernel": "6.9"}
    other |= {"bogomips": 5200.41, "argv": ["assay"], "warnings": ["hot"], "cpu_scaling_enabled": True}
    other["machine"] |= {"governor": "performance", "turbo": False, "memory_bytes": 31e9, "bogomips": 4800.02}
    other["assay"] |= {"commit": "f" * 40, "source_hash": "1" * 40}
    for device in other["devices"]:
        device |= {"memory_bytes": 79e9, "power_limit_watts": 400, "persistence": False, "temperature_c": 77}
        device["pcie"] = {"generation": 1, "generation_max": 5, "width": 8, "width_max": 16}
    assert key(other) == key(document["context"])


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["machine"].update(cpu_model="Other CPU"),
        lambda c: c["machine"].update(cores=64),
        lambda c: c.update(host_name="another"),
        lambda c: c["devices"][1].update(driver="600.00"),
        lambda c: c["devices"][1].update(uuid="GPU-1"),
        lambda c: c["assay"].update(toolkit="CUDA 14.0 (90)"),
    ],
    ids=["cpu", "cores", "host", "driver", "uuid", "toolkit"],
)
def test_machine_driver_and_toolkit_are_the_key(document, change):
    other = copy.deepcopy(document)["context"]
    change(other)
    assert key(other) != key(document["context"])


def test_a_container_id_is_no_host(document):
    one, two = (copy.deepcopy(document)["context"] | {"host_name": name} for name in ("0a1b2c3d4e5f", "f" * 12))
    assert key(one) == key(two)


def test_a_machine_is_read_as_it_was_written(document, save):
    machine = history.machine_of(document["context"])
    assert history.read_machine(save(machine.record(), "machine.json")) == machine


# ---- accept ----


def test_accepted_with_its_reason_and_without_a_name(accept, night, tmp_path):
    code, out, err = accept(night(), reason="clocks are fixed now")
    assert (code, err) == (0, "")
    (folder,) = (tmp_path / "store").iterdir()
    (line,) = (folder / "baseline.jsonl").read_text(encoding="utf-8").splitlines()
    record = json.loads(line)
    assert record["reason"] == "clocks are fixed now"
    assert set(record) == {"schema", "accepted", "reason", "date", "commit", "result", "warnings"}
    assert folder.name in out
    assert history.read_result(folder / record["result"]).side.cases.keys() == {"a"}


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ({"dirty": True}, "dirty"),
        ({"sanitizers": "address,undefined"}, "sanitized"),
        ({"build_type": "Debug"}, "Debug"),
        ({"build_type": ""}, "unknown"),
    ],
)
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_unfit_builds_never_become_a_baseline(accept, night, tmp_path, build, said, force):
    code, out, err = accept(night(build=build), *force)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.glob("store/*/baseline.jsonl"))


def test_failed_cases_need_force(accept, night):
    path = night(cases=[launches.case("a", launches.fixed(1e6)), launches.failed("b")])
    code, _, err = accept(path)
    assert code == 2
    assert "--force" in err
    code, out, _ = accept(path, "--force")
    assert code == 0
    assert "warning: 1 of its cases failed (b)" in out


def test_a_result_without_measured_cases_is_refused(accept, night):
    code, _, err = accept(night(cases=[launches.failed("b")]), "--force")
    assert code == 2
    assert "no measured case" in err


def test_few_launches_are_a_warning(accept, night):
    code, out, _ = accept(night(count=5))
    assert code == 0
    assert "5 launches" in out
    assert "--launches 6" in out
    assert "warning" not in accept(night(count=6))[1]


def test_the_last_acceptance_holds_and_all_are_shown(accept, night, command, tmp_path):
    accept(night(0), reason="first")
    accept(night(1, name="b.json"), reason="second")
    code, out, _ = command("baseline", "list", "--store", tmp_path / "store")
    assert code == 0
    assert "second" in out
    assert "first" not in out
    code, out, _ = command("baseline", "show", "--store", tmp_path / "store")
    assert code == 0
    assert out.index("first") < out.index("second")
    assert "Synthetic CPU 1000" in out


def test_an_unreadable_acceptance_is_named_and_the_one_before_holds(accept, night, tmp_path):
    path = night()
    accept(path)
    machine = history.read_result(path).machine
    with (tmp_path / "store" / machine.key / "baseline.jsonl").open("a", encoding="utf-8") as out:
        out.write('{"schema": "assay.baseline/1", "accepted"\n{"schema": "assay.baseline/9"}\n')
    found, notes = baseline.current(tmp_path / "store", machine)
    assert found.reason == "why not"
    assert "2 lines cannot be read" in notes[0]


def test_nothing_accepted_yet(command, tmp_path):
    code, out, _ = command("baseline", "list", "--store", tmp_path / "none")
    assert code == 0
    assert "assay baseline accept" in out
    code, _, err = command("baseline", "show", "--store", tmp_path / "none")
    assert code == 2
    assert err.count("\n") == 1


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_an_empty_reason_is_refused(accept, night, reason):
    code, _, err = accept(night(), reason=reason)
    assert code == 2
    assert "--reason" in err


@pytest.mark.parametrize(
    "path",
    [ROOT / "tests/fixtures/foreign/hyperfine.json", ROOT / "README.md", ROOT / "nowhere.json"],
    ids=["foreign", "text", "absent"],
)
def test_what_is_no_result_is_one_line(accept, path):
    code, out, err = accept(path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_a_date_that_is_none_is_refused(accept, night):
    code, _, err = accept(night(date="yesterday"))
    assert code == 2
    assert "ISO 8601" in err


def test_a_gpu_result_is_named_after_its_gpu():
    assert history.read_result(GPU).machine.key.startswith("synthetic-gpu-9000-")
