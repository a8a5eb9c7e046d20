"""Writes tests/fixtures/results: synthetic assay.result/1 files from a seed. Run it after a change of the format.

python tests/python/make_fixture.py [DIR]
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from pathlib import Path

from scipy import stats as scipy_stats

import synthetic as model
from synthetic_context import catalogue, context

SEED = 20260101
ROUNDS, SAMPLES = 6, 8
CONFIDENCE, TARGET = 0.95, 0.05
FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "results"


def _round_floats(value):
    """12 significant digits: the files do not change with the platform's last bits."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {k: _round_floats(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_round_floats(v) for v in value]
    return value


def _interval(medians, batch):
    """Student t on logarithms of the round medians, written out again here so that the tests have two sources."""
    logs = [math.log(m) for m in medians]
    mean = sum(logs) / len(logs)
    half = scipy_stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean) / batch, math.exp(mean - half) / batch, math.exp(mean + half) / batch


def _metric(name, unit, better, triple, formula):
    return {
        "name": name,
        "unit": unit,
        "better": better,
        "value": triple[0],
        "low": triple[1],
        "high": triple[2],
        "formula": formula,
    }


def _rate(amount, time):
    return tuple(amount / t * 1e9 for t in (time[0], time[2], time[1]))


class Maker:
    """Makes cases in order and keeps the clock of the imaginary run."""

    def __init__(self, seed: int, speed: float = 1.0):
        self.random = random.Random(seed)
        self.speed = speed
        self.clock = 1_000_000
        self.order = 0

    def blank(self, suite, variant, device, given, work, status="done", reason=None):
        """A case with nothing measured."""
        parameters = model.with_defaults(suite, given) or dict(given)
        return {
            "id": model.case_id(suite, variant, parameters, device["name"]),
            "suite": suite,
            "variant": variant,
            "device": {"name": device["name"], "kind": device["kind"]},
            "parameters": parameters,
            "status": status,
            "reason": reason,
            "priority": 0,
            "work": work,
            "verification": {
                "kind": "reference",
                "status": "failed" if status == "failed" else "not_run",
                "checked": 0,
                "max_error": None,
                "tolerance": None,
                "deterministic": True,
                "input_checksum": "00000000deadbeef",
                "output_checksum": None,
                "after_timing": "not_run",
                "detail": reason if status == "failed" else None,
            },
            "validity": {"status": "invalid", "reasons": [] if reason is None else [reason]},
            "statistics": None,
            "rounds": [],
            "series": [],
            "metrics": [],
            "ceiling": {
                "fraction": None,
                "limit": None,
                "ceiling_id": None,
                "floor_ns": None,
                "reason": "nothing was measured",
            },
            "parts": [],
            "telemetry": {},
            "cost": {"prepare_ns": 0, "verify_ns": 0, "warmup_ns": 0, "warm": False, "copies": 1},
        }

    def measured(self, suite, variant, device, given, work, time_ns, noise=0.01):
        """A done case whose samples scatter log-normally around time_ns."""
        case = self.blank(suite, variant, device, given, work)
        time_ns /= self.speed
        batch = max(1, math.ceil(20_000 / time_ns))
        rounds, samples = [], []
        for index in range(ROUNDS):
            shift = math.exp(self.random.gauss(0, noise / 2))
            row = [round(time_ns * batch * shift * math.exp(abs(self.random.gauss(0, noise)))) for _ in range(SAMPLES)]
            rounds.append(
                {
                    "launch": 0,
                    "round": index,
                    "order": self.order,
                    "begin_ns": self.clock,
                    "end_ns": self.clock + sum(row),
                    "samples": SAMPLES,
                    "flags": [],
                    "counters": {"minor_faults": 0},
                }
            )
            self.clock += sum(row) + 50_000
            self.order += 1
            samples.append(row)
        time = _interval([statistics.median(row) for row in samples], batch)
        flat = sorted(x / batch for row in samples for x in row)
        middle = statistics.median(flat)
        half = time[2] / time[0] - 1
        metrics = [_metric("time", "ns", "lower", time, "exp(mean(log(unit medians))) / batch")]
        if work["flops"]:
            metrics.append(_metric("flop_rate", "flops_per_s", "higher", _rate(work["flops"], time), "flops / time"))
        moved = work["bytes_read"] + work["bytes_written"]
        if moved:
            metrics.append(
                _metric("bandwidth", "bytes_per_s", "higher", _rate(moved, time), "(bytes_read + bytes_written) / time")
            )
        if work["items"]:
            metrics.append(
                _metric("time_per_item", "ns", "lower", tuple(t / work["items"] for t in time), "time / items")
            )
        converged = half <= TARGET
        case.update(
            {
                "verification": {
                    "kind": "reference",
                    "status": "passed",
                    "checked": 4096,
                    "max_error": 0.03,
                    "tolerance": 1e-6,
                    "deterministic": True,
                    "input_checksum": "0123456789abcdef",
                    "output_checksum": "fedcba9876543210",
                    "after_timing": "passed",
                    "detail": None,
                },
                "validity": {
                    "status": "valid" if converged else "suspect",
                    "reasons": [] if converged else [f"not converged: +-{100 * half:.1f}%, target {100 * TARGET:g}%"],
                },
                "statistics": {
                    "scope": "within-launch",
                    "units": ROUNDS,
                    "samples": len(flat),
                    "median_ns": middle,
                    "mad_ns": statistics.median(abs(x - middle) for x in flat),
                    "min_ns": flat[0],
                    "max_ns": flat[-1],
                    "relative_half_width": half,
                    "converged": converged,
                    "percentiles": [{"p": 0.5, "ns": middle, "confidence": 0.14}],
                },
                "rounds": rounds,
                "metrics": metrics,
                "series": [
                    {
                        "name": "time",
                        "unit": "ns",
                        "better": "lower",
                        "clock": "host" if device["kind"] == "cpu" else "device",
                        "batch": batch,
                        "primary": True,
                        "samples": samples,
                    }
                ],
                "cost": {"prepare_ns": 100_000, "verify_ns": 200_000, "warmup_ns": 300_000, "warm": True, "copies": 1},
            }
        )
        return case

    def ceiling(self, device, resource, variant, given, rate, amount):
        """A ceiling case and its rate."""
        unit = {"m": "bytes_per_s", "l": "bytes_per_s", "f": "flops_per_s"}[resource[0]]
        unit = "launches_per_s" if resource == "launch" else unit
        work = _work(
            flops=amount if unit == "flops_per_s" else 0.0,
            read=amount if unit == "bytes_per_s" else 0.0,
            items=amount if unit == "launches_per_s" else 0.0,
        )
        case = self.measured("ceiling", variant, device, given, work, amount / rate * 1e9, noise=0.004)
        case["ceiling"]["reason"] = "is a ceiling itself"
        time = case["metrics"][0]
        series = case["series"][0]
        fastest = min(statistics.median(row) for row in series["samples"]) / series["batch"]
        value = amount / fastest * 1e9
        low, high = amount / time["high"] * 1e9, max(value, amount / time["low"] * 1e9)
        case["rate"] = {
            "resource": resource,
            "unit": unit,
            "value": value,
            "low": low,
            "high": high,
        }
        return case


def _work(flops=0.0, read=0.0, written=0.0, items=0.0, item=None, convention="read + written", fixed_ns=0.0):
    return {
        "flops": flops,
        "bytes_read": read,
        "bytes_written": written,
        "convention": convention,
        "working_set_bytes": read + written,
        "items": items,
        "item": item,
        "fixed_ns": fixed_ns,
    }


def _limit(case, ceilings, bounds, level=None):
    """Floor of a case: its fixed time and the longest of its amounts over the highest ceiling of each resource."""
    best = None
    for resource, amount in bounds:
        rows = [
            c
            for c in ceilings
            if c["rate"]["resource"] == resource
            and c["device"] == case["device"]
            and (resource != "memory" or c["parameters"]["level"] == level)
            and (case["device"]["kind"] != "cpu" or c["parameters"]["threads"] == case["parameters"]["threads"])
        ]
        if rows:
            top = max(rows, key=lambda c: c["rate"]["value"])
            floor = amount / top["rate"]["value"] * 1e9
            if best is None or floor > best[0]:
                best = (floor, resource, top["id"])
    if best is None:
        case["ceiling"]["reason"] = "its ceiling was not measured"
        return case
    floor = best[0] + case["work"]["fixed_ns"]
    case["ceiling"] = {
        "fraction": floor / case["metrics"][0]["value"],
        "limit": best[1],
        "ceiling_id": best[2],
        "floor_ns": floor,
        "reason": None,
    }
    return case


def _cases(make, device, ceilings):
    kind = device["kind"]
    far = "dram" if kind == "cpu" else "hbm"
    for variant, axes, flops, (read, written), time in model.matmul_cases(kind):
        case = make.measured(
            "matmul",
            variant,
            device,
            axes,
            _work(flops, read, written),
            time,
            noise=0.3 if variant == "naive" and axes["n"] == 256 else 0.01,
        )
        yield _limit(case, ceilings, [("flops.f32", flops), ("memory", read + written)], far)
    for variant, axes, size, rate, latency in model.memcpy_cases(kind):
        link = axes.get("dir") in ("h2d", "d2h")
        work = _work(0.0, size, 0.0, convention="copied once") if link else _work(0.0, size, size)
        case = make.measured("memcpy", variant, device, axes, work, size / rate * 1e9 + latency)
        bound = (f"link.{axes['dir']}", size) if link else ("memory", 2 * size)
        near = "l1" if kind == "cpu" and size <= 8192 else "l2" if size < 8 * model.MIB else far
        yield _limit(case, ceilings, [bound], near)
    for variant, axes, chain, time in model.launch_cases(kind):
        fixed = 1e4 * chain if axes.get("kernel") == "10us" else 0.0
        case = make.measured("launch", variant, device, axes, _work(items=chain, item="kernel", fixed_ns=fixed), time)
        yield _limit(case, ceilings, [] if "kernel" in axes or variant == "graph_first_launch" else [("launch", chain)])


def _benchmarks(cases):
    rows = []
    for family, case in enumerate(c for c in cases if c["status"] == "done"):
        series = case["series"][0]
        for index, row in enumerate(series["samples"]):
            time = sum(row) / len(row) / series["batch"]
            rows.append(
                {
                    "name": case["id"],
                    "run_name": case["id"],
                    "run_type": "iteration",
                    "repetitions": ROUNDS,
                    "repetition_index": index,
                    "threads": 1,
                    "iterations": len(row) * series["batch"],
                    "real_time": time,
                    "cpu_time": time,
                    "time_unit": "ns",
                    "family_index": family,
                    "per_family_instance_index": 0,
                }
            )
    return rows


def document(seed: int, devices, cores: int = 4, measure: bool = True, absent=(), speed: float = 1.0):
    """One whole result."""
    make = Maker(seed, speed)
    ceilings, cases = [], []
    for device in devices:
        own = [make.ceiling(device, *row) for row in model.CEILINGS[device["kind"]]] if measure else []
        ceilings += own
        cases += list(_cases(make, device, own)) if measure else []
    cpu = devices[0]
    for status, reason, variant, n in [
        ("failed", "verification: element (3, 5) is 1.25, expected 1.5", "tiled", 1000),
        ("lost", "worker died with signal 9; the case was the one at fault", "openblas", 4096),
        ("skipped", "OpenBLAS is not in this build", "openblas", 17),
        ("not_reached", "dropped by priority: the budget of 170 s is reserved", "naive", 2048),
    ]:
        cases.append(
            make.blank("matmul", variant, cpu, {"n": n}, _work(2.0 * n**3, 8.0 * n * n, 4.0 * n * n), status, reason)
        )
    return _round_floats(
        {
            "schema": "assay.result/1",
            "context": context(list(devices), cores, str(seed), list(absent)),
            "plan": {
                "profile": "quick",
                "budget_ns": 170_000_000_000,
                "target_relative_half_width": TARGET,
                "confidence": CONFIDENCE,
                "min_units": 6,
                "launches": 1,
                "resumed": 0,
                "clock_cost_ns": 24.5,
                "strict": False,
                "filter": None,
                "suites": list(model.SUMMARIES),
                "devices": [d["name"] for d in devices],
                "hash": f"{seed:016x}",
                "placement": {
                    "cpus": list(range(cores)),
                    "cores": cores,
                    "numa_node": 0,
                    "chosen_by": "default",
                    "read_back": list(range(cores)),
                    "memory_policy": "bind",
                    "warnings": [],
                },
                "catalogue": catalogue(),
            },
            "ceilings": ceilings,
            "cases": cases,
            "benchmarks": _benchmarks(cases),
        }
    )


def odd(seed: int):
    """A suite that no plot knows, and names that attack HTML, CSV and mathtext."""
    result = document(seed, [model.CPU], measure=False)
    make = Maker(seed)
    names = [
        'quo"te',
        "<b>&amp;</b>",
        "comma,semi;=1+1",
        "dollar$x^2$",
        "control\x01\x1b[31m",
        "中文 variant",
        "sl/ash\\",
    ]
    for name in names:
        for length in (4096, 8192, 16384):
            case = make.measured(
                "dot", name, model.CPU, {"length": length}, _work(2.0 * length, 8.0 * length), length * 0.5
            )
            case["ceiling"]["reason"] = "no ceiling is declared by this suite"
            result["cases"].append(case)
    result["plan"]["suites"].append("dot")
    result["benchmarks"] = _benchmarks(result["cases"])
    return _round_floats(result)


def all_documents():
    """File name to content."""
    none = [{"kind": "cuda", "reason": "no NVIDIA driver library (libcuda.so.1)"}]
    return {
        "synthetic-gpu.json": document(SEED, [model.CPU, model.CUDA]),
        "synthetic-cpu.json": document(SEED + 1, [model.CPU], cores=8, absent=none, speed=1.6),
        "synthetic-empty.json": document(SEED + 2, [model.CPU], measure=False, absent=none),
        "synthetic-odd.json": odd(SEED + 3),
    }


def text(result) -> str:
    """One case a line: small files that still diff well."""
    lines = []
    for key, value in result.items():
        if isinstance(value, list):
            body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            lines.append(f'"{key}":[\n{body}\n]')
        else:
            lines.append(f'"{key}":{json.dumps(value, separators=(",", ":"))}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, result in all_documents().items():
        (folder / name).write_text(text(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
