"""`assay size --score`: predicted against measured, the goals, and what cannot be scored."""

from __future__ import annotations

import copy
import json

import pytest

from conftest import GPU
from sizing import named

pytestmark = pytest.mark.usefixtures("lists_models")

CONTEXT, BATCH = 511, 4
MODEL = "llama-1b"


def predicted() -> dict:
    """By hand: 3 TB/s, 1.2 M launches/s, 5 kernels a layer."""
    model = named(MODEL)
    weights = 2 * model.parameters
    kv = BATCH * (CONTEXT + 1) * model.kv_bytes("bf16")
    rows = BATCH * (2048 * 6 + (2 * 2048 + 2 * 512 + 3 * 8192) * 2 + 128_256 * 4)
    norms_and_head = 2 * (model.parameters - 2048)  # the final norm is not counted as read
    step = (norms_and_head + kv) / 3e12 * 1e9 + 16 * 5 / 1.2e6 * 1e9
    return {"weights_bytes": weights, "kv_bytes": kv, "peak_bytes": weights + kv + rows, "time": step}


@pytest.fixture
def measured(gpu):
    """Adds a case of the suite inference whose figures are `shares` of the prediction; returns the document."""
    pattern = next(c for c in gpu["cases"] if c["status"] == "done" and c["device"]["name"] == "cuda0")

    def add(variant="graph", shares=None, **parameters):
        case = copy.deepcopy(pattern)
        p = {"model": MODEL, "phase": "decode", "batch": BATCH, "context": CONTEXT, "prompt": 0, "type": "bf16"}
        p |= parameters
        case.update(suite="inference", variant=variant, parameters={k: v for k, v in p.items() if v is not None})
        case["id"] = f"inference/{variant}/" + "/".join(f"{k}:{v}" for k, v in case["parameters"].items())
        case["metrics"] = [
            {"name": n, "unit": "ns" if n == "time" else "bytes", "value": v * (shares or {}).get(n, 1.0), "low": None,
             "high": None, "formula": "test", "better": "lower"}
            for n, v in predicted().items()
        ]  # fmt: skip
        gpu["cases"].append(case)
        return gpu

    return add


@pytest.fixture
def score(command, save):
    def run(document, *words):
        code, out, err = command("size", "--score", "--format", "json", *words, save(document, "scored.json"))
        assert err == ""
        return code, json.loads(out)

    return run


def figures(document) -> dict:
    return {f["name"]: f for f in document["scores"][0]["figures"]}


def test_a_right_prediction_has_no_error(measured, score):
    code, found = score(measured(), "--strict")
    assert code == 0
    assert {name: round(f["error"], 9) for name, f in figures(found).items()} == {
        "weights": 0.0,
        "KV cache": 0.0,
        "peak": 0.0,
        "ITL": 0.0,
    }
    assert found["counts"] == {"met": 4, "missed": 0, "unknown": 0, "no goal": 0}


@pytest.mark.parametrize(
    ("name", "shown", "share", "outcome"),
    [
        ("weights_bytes", "weights", 1.04, "met"),
        ("weights_bytes", "weights", 1.06, "missed"),
        ("kv_bytes", "KV cache", 0.94, "missed"),
        ("peak_bytes", "peak", 0.96, "met"),
        ("peak_bytes", "peak", 1.06, "missed"),
        ("time", "ITL", 1.11, "met"),
        ("time", "ITL", 1.12, "missed"),
        ("time", "ITL", 0.90, "missed"),
    ],
)
def test_goals(name, shown, share, outcome, measured, score):
    document = measured(shares={name: share})
    code, found = score(document, "--strict")
    assert figures(found)[shown]["outcome"] == outcome
    assert code == (1 if outcome == "missed" else 0)
    assert score(document)[0] == 0


def test_the_fastest_variant_is_scored(measured, score):
    measured("eager", {"time": 7.0})
    _, found = score(measured("graph"))
    assert [s["variant"] for s in found["scores"]] == ["graph"]


def test_prefill_is_shown_without_a_goal(measured, score):
    code, found = score(measured(phase="prefill", context=0, prompt=512, shares={"time": 40.0}), "--strict")
    first = figures(found)["TTFT"]
    assert (first["goal"], first["outcome"]) == (None, "no goal")
    model = named(MODEL)
    tokens = BATCH * 512
    layers = tokens * model.layer_flops + 2 * BATCH * 16 * 2048 * 512 * 513
    head = model.head_bytes("bf16") / 3e12
    expected = (layers / 8e14 + head) * 1e9 + 16 * 5 / 1.2e6 * 1e9
    assert first["predicted"]["value"] == pytest.approx(expected)


def test_an_absent_ceiling_is_unknown_not_missed(measured, score):
    document = measured()
    document["ceilings"] = [c for c in document["ceilings"] if "/read/level:hbm/" not in c["id"]]
    code, found = score(document, "--strict")
    itl = figures(found)["ITL"]
    assert code == 4 and itl["outcome"] == "unknown" and itl["predicted"] is None and itl["error"] is None
    assert "read/level:hbm" in itl["reason"] and "assay run --device cuda0 --suite ceiling,inference" in itl["reason"]


def test_what_cannot_be_scored_is_named(measured, score):
    measured("graph")
    measured("graph", phase="generate")
    measured("graph", model="mine")
    measured("graph", type="tq3")
    measured("graph", model="bert-base")
    _, found = score(measured("graph", batch=None))
    assert len(found["scores"]) == 1
    reasons = " ".join(row["reason"] for row in found["left_out"])
    for said in ("phase generate", "model mine", "type tq3", "only decoders", "its batch is None"):
        assert said in reasons


def test_nothing_to_score(command, save, measured):
    for path in (GPU, save(measured(phase="generate"), "r.json")):
        code, _, err = command("size", "--score", path)
        assert code == 2 and err.count("\n") == 1 and "assay run --suite inference" in err
    code, _, err = command("size", "--score", "--model", "llama-8b", GPU)
    assert code == 2 and "leave --model out" in err
    code, _, err = command("size", "--score", "--device", "cuda7", save(measured(), "s.json"))
    assert code == 2 and "no measured case" in err


def test_table_and_markdown(measured, command, save):
    path = save(measured(shares={"time": 1.5}), "r.json")
    code, out, _ = command("size", "--score", path)
    assert code == 0 and "-33.3%" in out and "3 met, 1 missed" in out
    rows = [line for line in out.splitlines() if line.startswith("inference/")]
    assert len(rows) == 4 and len({line.index("%") for line in rows}) <= 2
    code, out, _ = command("size", "--score", "--format", "markdown", path)
    assert code == 0 and out.count("\n| ") == 2 + 4


def test_cold_cases_stream_from_memory(measured, score):
    """The whole tiny model would fit the L2 cache."""
    document = measured(model="llama-15m", cache="cold", batch=1, context=7)
    model = named("llama-15m")
    streamed = 2 * (model.parameters - 288) + 8 * model.kv_bytes("bf16")
    cold = figures(score(document)[1])["ITL"]["predicted"]["value"]
    assert cold == pytest.approx(streamed / 3e12 * 1e9 + 6 * 5 / 1.2e6 * 1e9)
    document["cases"][-1]["parameters"]["cache"] = "warm"
    assert figures(score(document)[1])["ITL"]["predicted"]["value"] < cold
