"""Models and ceilings for the tests of `assay size`."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from reports.size_model import Model, from_record

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "size" / "catalogue.json"
# What `assay list --json` prints as models; tests/cli/test_size.sh holds it against the command.
MODELS = json.loads(FIXTURE.read_text(encoding="utf-8"))["models"]


def record(name: str) -> dict:
    return next(r for r in MODELS if r["name"] == name)


def named(name: str) -> Model:
    return from_record(record(name), "fixture")


def add_ceiling(document, device, resource, variant, axes, rate, low=0.0, high=0.0) -> None:
    """Adds it, or takes the place of the one of that id. low, high: 0 stands for 1% around the rate."""
    pattern = next(c for c in document["ceilings"] if c["device"]["name"] == device)
    case = copy.deepcopy(pattern)
    words = ["ceiling", variant, *(f"{k}:{v}" for k, v in axes.items()), f"dev:{device}"]
    unit = {"memory": "bytes_per_s", "link": "bytes_per_s", "flops": "flops_per_s", "launch": "launches_per_s"}[
        resource.partition(".")[0]
    ]
    case.update(id="/".join(words), variant=variant, parameters=case["parameters"] | axes)
    case["rate"] = {
        "resource": resource,
        "unit": unit,
        "value": rate,
        "low": rate * 0.99 if low == 0 else low,
        "high": rate * 1.01 if high == 0 else high,
    }
    document["ceilings"] = [c for c in document["ceilings"] if c["id"] != case["id"]] + [case]
