"""Telemetry in the reports: the curves are drawn, and what does not follow from the samples is refused."""

from __future__ import annotations

import copy
import math

import pytest

from reports.load import load
from reports.validate_telemetry import energy_figures, telemetry_faults

SAMPLER = {
    "scheduling": "own core",
    "cpu": 3,
    "shortest_period_ns": 100000000,
    "last_period_ns": 350000000,
    "thinned": 0,
    "start_cpu_ns": 1e6,
    "cpu_ns": 3e8,
    "wall_ns": 2e11,
    "cpu_share": 1.5e-3,
    "worst_share_60s": 2e-3,
}


def _column(device, name, values):
    return {"device": device, "name": name, "values": values}


@pytest.fixture
def sampled(document):
    """The synthetic GPU result with one sample every 0.35 s, and in each case those of its rounds."""
    begin = min(r["begin_ns"] for c in document["cases"] for r in c["rounds"])
    times = [begin + i * 350_000_000 for i in range(320)]
    document["telemetry"] = {
        "state": "complete",
        "fault": None,
        "clock": "CLOCK_MONOTONIC_RAW",
        "sampler": dict(SAMPLER),
        "samples": len(times),
        "joined": 1,
        "time_ns": times,
        "columns": [
            _column("cpu", "busy_cpus", [8 + math.sin(i / 7) for i in range(len(times))]),
            _column("cuda0", "sm_clock_hz", [None, *[1.9e9 + 1e6 * i for i in range(len(times) - 1)]]),
            _column("cuda0", "power_watts", [75.0 + i for i in range(len(times))]),
        ],
        "unreadable": ["cpu.clock_hz"],
    }
    for case in document["ceilings"] + document["cases"]:
        within = [t for t in times if any(r["begin_ns"] <= t <= r["end_ns"] for r in case["rounds"])]
        if within:
            case["telemetry"] = {
                "samples": len(within),
                "columns": [{"device": "cpu", "name": "busy_cpus", "min": 7.0, "mean": 8.0, "max": 9.0}],
            }
    return document


def test_sampled_result_is_valid(sampled):
    pytest.importorskip("jsonschema")
    from reports import validate

    assert any("samples" in c["telemetry"] for c in sampled["cases"])
    assert validate.document_faults(sampled) == []
    sampled["telemetry"] = None  # switched off
    for case in sampled["ceilings"] + sampled["cases"]:
        case["telemetry"] = {}
    assert validate.document_faults(sampled) == []
    del sampled["telemetry"]  # older than telemetry
    assert validate.document_faults(sampled) == []


def _with_samples(d):
    return next(c for c in d["cases"] if "samples" in c["telemetry"])["telemetry"]


FAULTS = {
    "time falls": (lambda d: d["telemetry"]["time_ns"].reverse(), "does not grow"),
    "rows": (lambda d: d["telemetry"].update(samples=999), "rows for"),
    "short column": (lambda d: d["telemetry"]["columns"][0]["values"].pop(), "values for"),
    "empty column": (lambda d: d["telemetry"]["columns"][0].update(values=[None] * 320), "no value"),
    "share": (lambda d: d["telemetry"]["sampler"].update(cpu_share=0.001), "cpu_share"),
    "death without a word": (lambda d: d["telemetry"].update(state="died"), "disagree"),
    "fault of a whole one": (lambda d: d["telemetry"].update(fault="x"), "disagree"),
    "case's samples": (lambda d: _with_samples(d).update(samples=1000), "lie within"),
    "mean above maximum": (lambda d: _with_samples(d)["columns"][0].update(mean=9.1), "in order"),
    "samples from nowhere": (lambda d: d.update(telemetry=None), "without telemetry"),
}


@pytest.mark.parametrize(("mutate", "word"), FAULTS.values(), ids=FAULTS.keys())
def test_what_does_not_follow_is_refused(sampled, mutate, word):
    assert telemetry_faults(sampled) == []
    mutate(sampled)
    assert any(word in fault for fault in telemetry_faults(sampled))


SHAPES = {
    "unknown key": lambda d: d["telemetry"].update(extra=1),
    "key missing": lambda d: d["telemetry"].pop("joined"),
    "unknown state": lambda d: d["telemetry"].update(state="fine"),
    "text among values": lambda d: d["telemetry"]["columns"][0]["values"].append("1"),
    "zero samples in a case": lambda d: d["cases"][0].update(telemetry={"samples": 0}),
    "energy absent without reason": lambda d: d["cases"][0].update(
        telemetry={"energy": {"state": "absent", "reason": None}}
    ),
}


@pytest.mark.parametrize("mutate", SHAPES.values(), ids=SHAPES.keys())
def test_schema_refuses(sampled, mutate):
    pytest.importorskip("jsonschema")
    from reports import validate

    mutate(sampled)
    assert not validate.validator().is_valid(sampled)


# ---- energy ----

PASS = {
    "state": "measured",
    "reason": None,
    "step_ns": 1e8,
    "idle_watts": 50.0,
    "at_ns": [0, 1_000_000_000, 2_000_000_000, 3_000_000_000],
    "joules": [0.0, 100.0, 200.0, 330.0],
    "operations_low": [-1.0, 10.0, 20.0, 29.0],
    "operations_high": [1.0, 10.0, 20.0, 31.0],
    "resolution_joules": 11 * 2 / 30,
}


def test_energy_by_hand():
    """330 J / 30 operations; windows of 10, 10, 13 J: logs spread by s, t(0.975, 2) = 4.302653; 2 of 30 in doubt."""
    logs = [math.log(x) for x in (10, 10, 13)]
    mean = sum(logs) / 3
    spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / 2)
    half = math.exp(4.302652729911275 * spread / math.sqrt(3)) - 1 + 2 / 30
    figures = energy_figures(PASS, 0.95)
    assert figures["energy_joules"] == pytest.approx((11, max(0, 11 - 11 * half), 11 + 11 * half))
    assert figures["energy_above_idle_joules"] == pytest.approx((6, 6 - 11 * half, 6 + 11 * half))
    assert figures["power_watts"] == (pytest.approx(110), None, None)
    assert set(energy_figures({**PASS, "idle_watts": None}, 0.95)) == {"energy_joules", "power_watts"}
    assert energy_figures({"state": "absent", "reason": "no counter"}, 0.95) == {}
    assert energy_figures(None, 0.95) == {}


def test_energy_metrics_are_recomputed(document):
    pytest.importorskip("jsonschema")
    from reports import validate

    case = next(c for c in document["cases"] if c["status"] == "done")
    case["telemetry"] = {"energy": copy.deepcopy(PASS)}
    for name, (value, low, high) in energy_figures(PASS, document["plan"]["confidence"]).items():
        unit = "J" if name.endswith("joules") else "W"
        row = {"name": name, "unit": unit, "better": "lower", "value": value, "low": low, "high": high, "formula": "f"}
        case["metrics"].append(row)
    assert validate.document_faults(document) == []
    case["metrics"][-1]["value"] *= 1.01
    assert any(case["metrics"][-1]["name"] in f for f in validate.document_faults(document))
    case["metrics"][-1]["value"] /= 1.01
    case["telemetry"] = {}
    assert any("no energy pass" in f for f in validate.document_faults(document))


# ---- the report ----


def test_curves_are_drawn(command, sampled, save, tmp_path):
    path = save(sampled, "sampled.json")
    code, _, err = command("report", path, "-o", tmp_path / "page")
    assert code == 0, err
    assert (tmp_path / "page" / "plots" / "telemetry.png").stat().st_size > 10_000
    html = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "cuda0: power 75.0 to 394 W" in html
    curves = load(path).curves
    assert {s[0] for s in curves.spans} >= {"matmul", "memcpy"}
    assert all(begin <= end for _, _, begin, end in curves.spans)


def test_no_telemetry_is_no_plot(command, document, save, tmp_path):
    document["telemetry"] = None
    document["cases"], document["ceilings"] = document["cases"][:2], []
    assert command("report", save(document, "off.json"), "-o", tmp_path / "page")[0] == 0
    assert not (tmp_path / "page" / "plots" / "telemetry.png").exists()


@pytest.mark.parametrize(
    "mutate",
    [
        lambda t: t.update(columns=None),
        lambda t: t.pop("time_ns"),
        lambda t: t["time_ns"].__setitem__(3, "1"),
        lambda t: t["columns"][0]["values"].pop(),
        lambda t: t["columns"][0]["values"].__setitem__(0, True),
        lambda t: t["columns"][0].pop("device"),
    ],
)
def test_broken_telemetry_is_exit_2(command, sampled, save, tmp_path, mutate):
    mutate(sampled["telemetry"])
    code, _, err = command("report", save(sampled), "-o", tmp_path / "page")
    assert code == 2
    assert "telemetry" in err and err.count("\n") == 1
