"""A breakdown must close: sums over layers, shares, floors and what is left over follow from the rows."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest

from reports.validate import schema_path
from reports.validate_parts import parts_faults

CEILING = {
    "id": "ceiling/read/level:dram/dev:cpu",
    "status": "done",
    "rate": {"resource": "memory"},
    "work": {"bounds": [{"resource": "memory", "amount": 1000.0}]},
    "series": [{"primary": True, "batch": 1, "samples": [[100, 100], [50, 50, 50]]}],
    "rounds": [{"launch": 0, "round": 0}, {"launch": 0, "round": 1}],
}


def _part(path, layer, total, share, count=4, nbytes=0.0, floor=None):
    mean = total / count
    return {
        "phase": "decode",
        "path": path,
        "layer": layer,
        "where": "host",
        "source": "clock",
        "count": count,
        "total_ns": total,
        "mean_ns": mean,
        "p50_ns": mean,
        "p99_ns": mean,
        "share": share,
        "bytes": nbytes,
        "flops": 0.0,
        "floor_ns": floor,
        "percent_of_floor": None if floor is None else 100 * floor / mean,
    }


@pytest.fixture
def case():
    """Four operations of 1000 ns: a norm of two layers, a head that reads 2000 bytes, 100 ns left over."""
    return {
        "work": {"bounds": [{"resource": "memory", "amount": 2000.0}]},
        "series": [{"primary": True, "batch": 2, "samples": [[1800, 1900], [1900, 1960]]}],
        "parts": [
            _part("norm", None, 1600.0, 0.4),
            _part("norm", 0, 600.0, 0.15),
            _part("norm", 1, 1000.0, 0.25),
            _part("head", None, 2000.0, 0.5, nbytes=2000.0, floor=100.0),
        ],
        "breakdown": {
            "series_ns": 950.0,
            "instrumented_ns": 1000.0,
            "attributed_ns": 900.0,
            "unattributed_ns": 100.0,
            "instrumentation_ns": 50.0,
            "operations": 4,
        },
    }


def _faults(case):
    return parts_faults(case, {CEILING["id"]: CEILING})


def test_a_closed_breakdown_has_no_fault(case):
    assert _faults(case) == []
    assert parts_faults({"parts": []}, {}) == []


@pytest.mark.parametrize("key", ["series_ns", "attributed_ns", "unattributed_ns", "instrumentation_ns"])
def test_the_closure_is_recomputed(case, key):
    case["breakdown"][key] += 1
    assert any(f"breakdown.{key}" in fault for fault in _faults(case))


@pytest.mark.parametrize("key", ["mean_ns", "share", "percent_of_floor", "floor_ns"])
def test_each_row_is_recomputed(case, key):
    case["parts"][3][key] *= 1.01
    assert any("head of decode" in fault for fault in _faults(case))


def test_layers_add_up_to_their_sum(case):
    case["parts"][1].update(total_ns=700.0, mean_ns=175.0, share=0.175)
    assert any("its layers 1700" in fault for fault in _faults(case))
    del case["parts"][0]
    assert any("no sum over them" in fault for fault in _faults(case))


def test_parts_do_not_overlap(case):
    case["parts"][3].update(total_ns=3000.0, mean_ns=750.0, share=0.75, percent_of_floor=100 * 100 / 750)
    case["breakdown"].update(attributed_ns=1150.0, unattributed_ns=-150.0)
    assert _faults(case) == ["breakdown: the parts take longer than the operation: they overlap"]


def test_rows_and_closure_go_together(case):
    lone = copy.deepcopy(case)
    del lone["breakdown"]
    assert _faults(lone) == ["parts and breakdown go together: one of them is missing"]
    case["parts"].append(copy.deepcopy(case["parts"][3]))
    assert any("stands twice" in fault for fault in _faults(case))


def test_the_schema_knows_the_keys(case):
    definitions = json.loads(schema_path().read_text(encoding="utf-8"))["$defs"]
    for name, good in (("part", case["parts"][0]), ("breakdown", case["breakdown"])):
        check = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
        assert check.is_valid(good)
        assert not check.is_valid({**good, "more": 1})
        for key in good:
            assert not check.is_valid({k: v for k, v in good.items() if k != key})
