"""What stands on a side: our own results, those of other tools, folders; and how broken input is refused."""

from __future__ import annotations

import copy
import gzip
import json

import pytest

from reports.compare import compare
from reports.compare_output import as_json, junit, markdown, text
from reports.errors import InputProblem
from reports.readers import machine_identity, read_side

import launches
from conftest import CPU, GPU, ODD, ROOT

FOREIGN = ROOT / "tests" / "fixtures" / "foreign"
GOOGLE, NVBENCH, HYPERFINE, HYPERFINE_2 = (
    FOREIGN / f"{name}.json" for name in ("google_benchmark", "nvbench", "hyperfine", "hyperfine_2")
)


@pytest.mark.parametrize("path", [GPU, CPU, ODD], ids=lambda p: p.stem)
def test_our_fixtures_are_read_whole(path):
    raw = json.loads(path.read_text(encoding="utf-8"))
    side = read_side(path)
    assert list(side.cases) == [c["id"] for c in raw["cases"]]
    assert sum(f.status == "done" for f in side.cases.values()) == sum(c["status"] == "done" for c in raw["cases"])
    assert side.tools == ["assay"]
    assert not side.lacks


def test_units_are_round_medians_over_batch_by_launch(save):
    rounds = [[[10, 30, 20], [40, 60]], [[100]]]
    side = read_side(save(launches.result(launches.case("a", rounds, batch=10))))
    assert side.cases["a"].launches == [[2.0, 5.0], [10.0]]


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
def test_time_units_become_ns(save, unit, factor):
    side = read_side(save(launches.result(launches.case("a", [[[3]]], unit=unit))))
    assert side.cases["a"].launches == [[3 * factor]]
    assert side.cases["a"].unit == "ns"


def test_other_units_stay_what_they_are(save):
    side = read_side(save(launches.result(launches.case("a", [[[3]]], unit="tokens_per_s"))))
    assert side.cases["a"].unit == "tokens_per_s"


def test_folder_of_launches_is_one_side(tmp_path):
    for i, value in enumerate((10, 12, 14)):
        text = json.dumps(launches.result(launches.case("a", [[[value]]])))
        (tmp_path / f"{i}.json").write_text(text, encoding="utf-8")
    (tmp_path / "3.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "notes.txt").write_text("not read", encoding="utf-8")
    side = read_side(tmp_path)
    assert side.files == 4
    assert side.cases["a"].launches == [[10.0], [12.0], [14.0], [14.0]]


def test_one_failed_launch_fails_the_case_and_is_named(tmp_path):
    (tmp_path / "1.json").write_text(json.dumps(launches.result(launches.case("a", [[[5]]]))), encoding="utf-8")
    (tmp_path / "2.json").write_text(json.dumps(launches.result(launches.failed("a"))), encoding="utf-8")
    found = read_side(tmp_path).cases["a"]
    assert found.status == "failed"
    assert "2.json" in found.reason
    assert "wrong at (3, 5)" in found.reason


def test_launch_that_was_not_reached_is_only_not_counted(tmp_path):
    later = launches.failed("a", "not_reached", "budget")
    for name, record in (("1", later), ("2", launches.case("a", [[[5]]])), ("3", later)):
        (tmp_path / f"{name}.json").write_text(json.dumps(launches.result(record)), encoding="utf-8")
    found = read_side(tmp_path).cases["a"]
    assert (found.status, found.launches) == ("done", [[5.0]])


def test_files_of_one_side_that_differ_are_seen(tmp_path):
    one, two = (launches.result(launches.case("a", [[[5]]])) for _ in range(2))
    two["context"]["machine"]["cpu_model"] = "Another CPU"
    for name, record in (("1", one), ("2", two)):
        (tmp_path / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    assert [kind for kind, _ in read_side(tmp_path).inner] == ["machine"]


def test_empty_folder_and_missing_file_name_the_remedy(tmp_path):
    with pytest.raises(InputProblem, match="holds no .json"):
        read_side(tmp_path)
    with pytest.raises(InputProblem, match="name an existing result file"):
        read_side(tmp_path / "nothing.json")


def test_zero_time_is_no_measurement(save):
    found = read_side(save(launches.result(launches.case("a", [[[0, 0, 0]]])))).cases["a"]
    assert found.status == "failed"
    assert "no measurement" in found.reason


def test_verification_that_failed_is_no_measurement(save):
    record = launches.case("a", [[[5]]])
    record["verification"]["after_timing"] = "failed"
    assert read_side(save(launches.result(record))).cases["a"].status == "failed"


def test_resources_are_found_wherever_a_result_holds_them(save):
    record = launches.case("a", [[[5]], [[6]]], telemetry={"registers": 32, "spill_bytes": 0, "unknown": 1})
    record["metrics"] = [{"name": "energy_joules", "unit": "J", "value": 1.5}, {"name": "energy", "value": None}]
    record["series"].append(
        {"name": "peak_memory", "unit": "bytes", "better": "lower", "primary": False, "samples": [[100], [300]]}
    )
    found = read_side(save(launches.result(record))).cases["a"]
    assert found.resources == {"memory": [200.0], "registers": [32.0], "spills": [0.0], "energy": [1.5]}


def test_identity_of_a_machine_holds_nothing_that_fluctuates():
    context = launches.head()["context"]
    other = copy.deepcopy(context)
    other |= {"date": "2027-01-01T00:00:00Z", "load_avg": [9.0], "mhz_per_cpu": 1, "host_name": "x", "argv": ["y"]}
    other["machine"]["memory_bytes"] -= 4096
    assert machine_identity(context) == machine_identity(other)


# ---- other tools ----


def test_google_benchmark():
    side = read_side(GOOGLE)
    found = side.cases["BM_Sum/1024"]
    assert found.launches == [pytest.approx([1000.0, 1010.0, 1020.0])]
    assert found.resources == {"memory": [4096.0]}
    assert side.cases["BM_OnlyAggregates"].launches == [[2.5e6]]
    assert (side.cases["BM_Broken"].status, side.cases["BM_Broken"].reason) == ("failed", "synthetic error")
    assert len(side.cases) == 3
    assert "no placement, verification" in side.lacks[0]


def test_google_benchmark_with_nan_in_a_counter_is_read(save):
    text = GOOGLE.read_text(encoding="utf-8").replace('"items_per_second": 1.0e9', '"items_per_second": NaN')
    assert read_side(save(text)).cases["BM_Sum/1024"].status == "done"


def test_google_benchmark_with_nan_as_time_is_no_measurement(save):
    text = GOOGLE.read_text(encoding="utf-8").replace('"real_time": 1.01,', '"real_time": NaN,')
    assert read_side(save(text)).cases["BM_Sum/1024"].status == "failed"


def test_nvbench():
    side = read_side(NVBENCH)
    assert side.cases["copy/Device=0 Bytes=1024"].launches == [[1e6]]
    skipped = side.cases["copy/Device=0 Bytes=2048"]
    assert skipped.status == "failed"
    assert "out of memory" in skipped.reason
    assert side.facets["machine"]["device 0 name"] == "Synthetic GPU 1000"
    assert "no rounds, placement, verification" in side.lacks[0]


def test_hyperfine_runs_are_launches():
    side = read_side(HYPERFINE)
    found = side.cases["synthetic --size 1"]
    assert len(found.launches) == 8
    assert found.launches[0] == pytest.approx([99e6])
    assert found.resources == {"memory": [1e6]}
    assert side.cases["synthetic --fail"].reason == "exit code 7"
    assert "no machine, placement, verification" in side.lacks[0]


def test_hyperfine_schema_2():
    found = read_side(HYPERFINE_2).cases["synthetic sleep"]
    assert found.launches == [[1e9], [pytest.approx(1.1e9)]]
    assert found.resources == {"memory": [2e6]}


def test_a_side_of_two_tools_says_so(tmp_path):
    (tmp_path / "1.json").write_bytes(HYPERFINE.read_bytes())
    (tmp_path / "2.json").write_bytes(GOOGLE.read_bytes())
    assert read_side(tmp_path).tools == ["hyperfine", "Google Benchmark"]


# ---- broken input: one line with the file's name, exit 2 ----


def _ours(change):
    record = launches.result(launches.case("a", [[[5, 6]], [[7]]]))
    change(record)
    return record


def _foreign(path, change):
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    return record


BROKEN = {
    "empty file": "",
    "not json": "{",
    "truncated": CPU.read_bytes()[:20000],
    "truncated gzip": gzip.compress(CPU.read_bytes())[:500],
    "a list": "[]",
    "a number": "7",
    "an empty object": "{}",
    "not utf-8": b"\xff\xfe\x00",
    "no cases": _ours(lambda d: d.update(cases=[])),
    "another schema": _ours(lambda d: d.update(schema="assay.result/2")),
    "schema is null": _ours(lambda d: d.update(schema=None)),
    "NaN": json.dumps(_ours(lambda d: d["cases"][0]["series"][0].update(samples=[[float("nan")], [7]]))),
    "Infinity": json.dumps(_ours(lambda d: d["cases"][0]["metrics"].append({"name": "x", "value": float("inf")}))),
    "number out of range": json.dumps(launches.result(launches.case("a", [[[5, 6]]]))).replace("[5, 6]", "[1e999]"),
    "sample is null": _ours(lambda d: d["cases"][0]["series"][0].update(samples=[[None], [7]])),
    "sample is text": _ours(lambda d: d["cases"][0]["series"][0].update(samples=[["5"], [7]])),
    "sample is true": _ours(lambda d: d["cases"][0]["series"][0].update(samples=[[True], [7]])),
    "row is null": _ours(lambda d: d["cases"][0]["series"][0].update(samples=[None, [7]])),
    "no samples": _ours(lambda d: d["cases"][0]["series"][0].update(samples=[[], []])),
    "samples and rounds differ": _ours(lambda d: d["cases"][0]["series"][0].update(samples=[[5]])),
    "no series": _ours(lambda d: d["cases"][0].update(series=[])),
    "batch 0": _ours(lambda d: d["cases"][0]["series"][0].update(batch=0)),
    "batch is null": _ours(lambda d: d["cases"][0]["series"][0].update(batch=None)),
    "status unknown": _ours(lambda d: d["cases"][0].update(status="fine")),
    "status is a number": _ours(lambda d: d["cases"][0].update(status=0)),
    "a case is null": _ours(lambda d: d["cases"].append(None)),
    "id twice": _ours(lambda d: d["cases"].append(d["cases"][0])),
    "id is null": _ours(lambda d: d["cases"][0].update(id=None)),
    "no context": _ours(lambda d: d.pop("context")),
    "no machine": _ours(lambda d: d["context"].pop("machine")),
    "no placement": _ours(lambda d: d["plan"].pop("placement")),
    "device is null": _ours(lambda d: d["context"].update(devices=[None])),
    "google: unit": _foreign(GOOGLE, lambda d: d["benchmarks"][0].update(time_unit="hours")),
    "google: unit is null": _foreign(GOOGLE, lambda d: d["benchmarks"][0].update(time_unit=None)),
    "google: time is text": _foreign(GOOGLE, lambda d: d["benchmarks"][0].update(real_time="1.0")),
    "google: time is null": _foreign(GOOGLE, lambda d: d["benchmarks"][0].update(real_time=None)),
    "google: no time": _foreign(GOOGLE, lambda d: d["benchmarks"][0].pop("real_time")),
    "google: row is null": _foreign(GOOGLE, lambda d: d["benchmarks"].append(None)),
    "google: nothing": _foreign(GOOGLE, lambda d: d.update(benchmarks=[])),
    "nvbench: version 2": _foreign(NVBENCH, lambda d: d["meta"]["version"]["json"].update(major=2)),
    "nvbench: no version": _foreign(NVBENCH, lambda d: d.pop("meta")),
    "nvbench: value": _foreign(
        NVBENCH, lambda d: d["benchmarks"][0]["states"][0]["summaries"][2]["data"][0].update(value="fast")
    ),
    "nvbench: state is null": _foreign(NVBENCH, lambda d: d["benchmarks"][0].update(states=[None])),
    "hyperfine: version 3": _foreign(HYPERFINE_2, lambda d: d.update(schema_version=3)),
    "hyperfine: time is null": _foreign(HYPERFINE, lambda d: d["results"][0].update(times=[None])),
    "hyperfine: no times": _foreign(HYPERFINE, lambda d: d["results"][0].update(times=[])),
    "hyperfine: command twice": _foreign(HYPERFINE, lambda d: d["results"].append(d["results"][1])),
    "hyperfine: unit": _foreign(
        HYPERFINE_2, lambda d: d["results"][0]["measurements"][0]["time_wall_clock"].update(unit="minute")
    ),
    "hyperfine: run is null": _foreign(HYPERFINE_2, lambda d: d["results"][0].update(measurements=[None])),
    "hyperfine: result is null": _foreign(HYPERFINE, lambda d: d.update(results=[None])),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("side", ["BASE", "NEW"])
def test_malformed_file_is_one_line_and_exit_2(command, save, content, side):
    path, good = save(content), save(launches.result(launches.case("a", [[[5, 6]], [[7]]])), "good.json")
    code, out, err = command("compare", *((path, good) if side == "BASE" else (good, path)))
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert str(path) in err


def _places(value, at=()):
    """The paths of all nodes of a parsed document; of long lists the first two."""
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, child in children:
        yield from _places(child, (*at, key))


def _replaced(document, at, value):
    out = copy.deepcopy(document)
    if not at:
        return value
    node = out
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return out


@pytest.mark.parametrize("path", [None, GOOGLE, NVBENCH, HYPERFINE, HYPERFINE_2], ids=lambda p: p.stem if p else "ours")
def test_any_node_replaced_by_anything_never_ends_in_a_traceback(tmp_path, path):
    """Either it is read, or it is refused in one line; the comparison with the good file too."""
    ours = launches.result(launches.case("a", [[[5, 6]], [[7]]], telemetry={"registers": 3}))
    ours["cases"][0]["metrics"].append({"name": "energy_joules", "unit": "J", "value": 1.5})
    extra = {"name": "peak_memory", "unit": "bytes", "better": "lower", "primary": False, "samples": [[1], [2]]}
    ours["cases"][0]["series"].append(extra)
    good = json.loads(path.read_text(encoding="utf-8")) if path else ours
    base, file = tmp_path / "good.json", tmp_path / "x.json"
    base.write_text(json.dumps(good), encoding="utf-8")
    refused = 0
    for at in _places(good):
        for value in (None, "text", -1, 0, True, [], [None], {}, {"x": None}):
            file.write_text(json.dumps(_replaced(good, at, value)), encoding="utf-8")
            try:
                found = compare(read_side(base), read_side(file), forced=True)
                as_json(found, 0), text(found), markdown(found), junit(found)
            except InputProblem as problem:
                refused += 1
                assert str(problem)
    assert refused > 20
