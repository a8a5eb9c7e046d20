"""Results of many launches with times that the test chooses: for compare. Nothing here was measured."""

from __future__ import annotations

import json
import math

import numpy as np

import synthetic as model
from synthetic_context import context

IDENTITY_SEED = "7"


def head(**changes) -> dict:
    """A result without cases; `changes` go into the context."""
    return {
        "schema": "assay.result/1",
        "context": context([model.CPU], 4, IDENTITY_SEED, []) | changes,
        "plan": {
            "placement": {
                "cpus": [0, 1, 2, 3],
                "cores": 4,
                "numa_node": 0,
                "chosen_by": "default",
                "read_back": [0, 1, 2, 3],
                "memory_policy": "bind",
                "warnings": [],
            }
        },
        "ceilings": [],
        "cases": [],
        "benchmarks": [],
    }


def case(name: str, launches: list, unit: str = "ns", batch: int = 1, **changes) -> dict:
    """`launches`: for each launch its rounds, for each round its samples in `unit`."""
    rounds = [(launch, r) for launch, rows in enumerate(launches) for r in range(len(rows))]
    record = {
        "id": name,
        "suite": "dot",
        "variant": "synthetic",
        "device": {"name": "cpu", "kind": "cpu"},
        "parameters": {},
        "status": "done",
        "reason": None,
        "work": {"flops": 2.0, "bytes_read": 8.0, "bytes_written": 0.0, "items": 0.0},
        "verification": {"status": "passed", "after_timing": "passed", "input_checksum": "0123456789abcdef"},
        "validity": {"status": "valid", "reasons": []},
        "rounds": [{"launch": launch, "round": r} for launch, r in rounds],
        "series": [
            {
                "name": "time",
                "unit": unit,
                "better": "lower",
                "clock": "host",
                "batch": batch,
                "primary": True,
                "samples": [row for rows in launches for row in rows],
            }
        ],
        "metrics": [],
        "telemetry": {},
    }
    return record | changes


def failed(name: str, status: str = "failed", reason: str = "wrong at (3, 5)") -> dict:
    return case(name, [], status=status, reason=reason, series=[], rounds=[])


def drawn(rng, median: float, launches: int = 8, spread: float = 0.02, rounds: int = 6, within: float = 0.01) -> list:
    """Log-normal launches around `median` (in 1 ns steps), rounds within them, three samples a round."""
    out = []
    for shift in rng.normal(0, spread, launches):
        middles = median * np.exp(shift + rng.normal(0, within, rounds))
        out.append([[round(m), round(m * 1.001), round(m * 1.002)] for m in middles])
    return out


def fixed(median: float, launches: int = 8, spread: float = 0.004) -> list:
    """Launches spread evenly around `median`: the same every time, so that a verdict is known beforehand."""
    steps = np.linspace(-spread, spread, launches)
    return [[[round(median * math.exp(s))] * 3] * 2 for s in steps]


def result(*cases: dict, **changes) -> dict:
    return head(**changes) | {"cases": list(cases)}


def write_big(path, names: int, rounds: int, samples: int, launches: int, seed: int) -> None:
    """A large result straight to the file, one case after another."""
    rng = np.random.default_rng(seed)
    top = head()
    top.pop("cases")
    with path.open("w", encoding="utf-8") as out:
        out.write(json.dumps(top)[:-1] + ', "cases": [\n')
        for index in range(names):
            values = rng.integers(100_000, 103_000, (launches, rounds, samples)).tolist()
            out.write((",\n" if index else "") + json.dumps(case(f"dot/synthetic/n:{index}/dev:cpu", values)))
        out.write("\n]}\n")


def write_rows(path, rows: int, seed: int) -> None:
    """A file of Google Benchmark with one row a case."""
    rng = np.random.default_rng(seed)
    times = rng.uniform(1, 2, rows).tolist()
    with path.open("w", encoding="utf-8") as out:
        out.write('{"context": {"host_name": "synthetic", "num_cpus": 4}, "benchmarks": [\n')
        for index, value in enumerate(times):
            row = {"name": f"BM/{index}", "run_name": f"BM/{index}", "run_type": "iteration", "repetitions": 1}
            row |= {"threads": 1, "iterations": 10, "real_time": value, "cpu_time": value, "time_unit": "us"}
            out.write((",\n" if index else "") + json.dumps(row))
        out.write("\n]}\n")
