"""What is read, and how broken input is refused: one line, with the file's name and a remedy, exit 2."""

from __future__ import annotations

import gzip
import json

import pytest

from reports import labels, units
from reports.errors import InputProblem, visible
from reports.load import load

from conftest import CPU, EMPTY, GPU, ODD


@pytest.mark.parametrize("path", [GPU, CPU, EMPTY, ODD], ids=lambda p: p.stem)
def test_fixtures_load_whole(path):
    raw = json.loads(path.read_text(encoding="utf-8"))
    result = load(path)
    assert [c.id for c in result.cases] == [c["id"] for c in raw["cases"]]
    assert [c.id for c in result.ceilings] == [c["id"] for c in raw["ceilings"]]
    assert sum(c.done for c in result.cases) == sum(c["status"] == "done" for c in raw["cases"])


def test_gzip_is_read_whatever_its_name(save):
    data = gzip.compress(CPU.read_bytes())
    whole = load(CPU)
    for name in ("a.json.gz", "b.json"):
        assert [c.id for c in load(save(data, name)).cases] == [c.id for c in whole.cases]


def test_same_case_on_two_machines_has_one_key():
    left = {c.key for c in load(GPU).cases if c.kind == "cpu"}
    right = {c.key for c in load(CPU).cases}
    assert left == right
    assert len(left) == sum(c.kind == "cpu" for c in load(GPU).cases)


def test_axis_that_a_later_version_adds_keeps_the_key(document, save):
    before = {c.key for c in load(GPU).cases}
    for suite in document["plan"]["catalogue"]["suites"]:
        suite["axes"].append(dict(suite["axes"][-1], name="added", default="usual"))
    for case in document["cases"]:
        case["parameters"]["added"] = "usual"
    assert {c.key for c in load(save(document)).cases} == before
    document["cases"][0]["parameters"]["added"] = "other"
    assert len({c.key for c in load(save(document)).cases} - before) == 1


BROKEN = {
    "empty file": "",
    "not json": "{",
    "a list": "[]",
    "a number": "7",
    "nan": '{"schema": "assay.result/1", "x": NaN}',
    "infinity": '{"schema": "assay.result/1", "x": -Infinity}',
    "overflow": '{"schema": "assay.result/1", "x": 1e999}',
    "key twice": '{"schema": "assay.result/1", "schema": "assay.result/1"}',
    "deep": "[" * 100000,
    "other schema": '{"schema": "assay.result/2"}',
    "google benchmark": '{"context": {}, "benchmarks": []}',
    "not utf-8": b"\xff\xfe\x00",
    "cut gzip": gzip.compress(CPU.read_bytes())[:500],
    "gzip of nothing": b"\x1f\x8b",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_malformed_file_is_one_line_and_exit_2(command, save, tmp_path, content):
    path = save(content)
    code, out, err = command("report", path, "-o", tmp_path / "out")
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert str(path) in err
    assert not (tmp_path / "out").exists()


def _without(key):
    return lambda d: d.pop(key)


MUTATIONS = {
    "no cases": _without("cases"),
    "no plan": _without("plan"),
    "no context": _without("context"),
    "context is text": lambda d: d.update(context="x"),
    "a case is null": lambda d: d["cases"].append(None),
    "status unknown": lambda d: d["cases"][0].update(status="fine"),
    "value is text": lambda d: d["cases"][0]["metrics"][0].update(value="5"),
    "value is true": lambda d: d["cases"][0]["metrics"][0].update(value=True),
    "no parameters": lambda d: d["cases"][0].pop("parameters"),
    "parameter is a list": lambda d: d["cases"][0]["parameters"].update(n=[1]),
    "id twice": lambda d: d["cases"].append(d["cases"][0]),
    "no memory size": lambda d: d["context"]["machine"].pop("memory_bytes"),
    "no rate": lambda d: d["ceilings"][0].pop("rate"),
    "no ceiling": lambda d: d["cases"][0].pop("ceiling"),
    "pcie is a list": lambda d: d["context"]["devices"][1].update(pcie=[]),
    "catalogue is a list": lambda d: d["plan"].update(catalogue=[]),
}


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_wrong_shape_is_one_line_and_exit_2(command, save, document, tmp_path, mutate):
    mutate(document)
    path = save(document)
    code, _, err = command("report", path, "-o", tmp_path / "out")
    assert code == 2
    assert err.count("\n") == 1
    assert str(path) in err


def test_missing_file_is_exit_2(command, tmp_path):
    code, _, err = command("report", tmp_path / "nothing.json", "-o", tmp_path / "out")
    assert code == 2
    assert "nothing.json" in err
    assert "name an existing result file" in err


def test_message_never_carries_control_characters(save):
    path = save('{"schema": "x\\u001b[31m\\nhello"}')
    with pytest.raises(InputProblem) as caught:
        load(path)
    assert "\x1b" not in visible(str(caught.value))
    assert "\n" not in visible(str(caught.value))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "ns", "0 ns"),
        (1.5, "ns", "1.500 ns"),
        (999.96, "ns", "1.000 µs"),
        (1234.5, "ns", "1.234 µs"),
        (2.5e9, "ns", "2.500 s"),
        (55.37e9, "bytes_per_s", "55.37 GB/s"),
        (4.1e12, "bytes_per_s", "4.100 TB/s"),
        (50.2e12, "flops_per_s", "50.20 TFLOP/s"),
        (3.0, "widgets", "3.000 widgets"),
        (None, "ns", "–"),
    ],
)
def test_quantities_carry_their_unit(value, unit, text):
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (4096, "4 KiB"),
        (1 << 20, "1 MiB"),
        (512 << 20, "512 MiB"),
        (1000003, "1 MB"),
        (63, "63 B"),
        (1 << 30, "1 GiB"),
    ],
)
def test_sizes_read_as_powers_of_two_only_where_they_are(count, text):
    assert units.binary(count) == text


def test_default_parameters_are_left_out_but_the_axis_is_not():
    case = load(GPU).cases[0]
    fallback = labels.defaults(load(GPU), case.suite)
    text = labels.parameters_text(case, fallback, lambda key, **_: key, always=("n",))
    assert text == f"n = {case.parameters['n']}"
