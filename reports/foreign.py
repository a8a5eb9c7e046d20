"""The JSON of Google Benchmark, nvbench and hyperfine, as rows for readers.Found.

Sources of the formats: Google Benchmark's src/json_reporter.cc (--benchmark_out), nvbench's json_printer.cu (--json,
file version 1), hyperfine's benchmark_result.rs (--export-json; version 2 of its 2.0 prereleases is read too).
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from .errors import InputProblem
from .shape import NAMELESS, Shape, median

NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
GOOGLE, NVBENCH, HYPERFINE = "Google Benchmark", "nvbench", "hyperfine"
LACKS = {
    GOOGLE: "Google Benchmark records no placement, verification, input data or driver: not checked. A file is one "
    "launch, its repetitions stand for rounds, and each is a mean of its iterations",
    NVBENCH: "nvbench records no rounds, placement, verification, input data or driver: not checked. A file is one "
    "launch with one mean a state",
    HYPERFINE: "hyperfine records no machine, placement, verification of output or input data: not checked. Each run "
    "is a launch of one sample",
}
# The first that a state has: the mean of the kernel alone, of a host function, of the batch.
NVBENCH_TIMES = (
    "nv/cold/time/gpu/mean",
    "nv/cpu_only/time/cpu/mean",
    "nv/cold/time/cpu/mean",
    "nv/batch/time/gpu/mean",
)


def read(path: Path, raw) -> tuple:
    """(tool, what it lacks, facets, cases as keywords of Found)."""
    if isinstance(raw, dict):
        if "results" in raw and "benchmarks" not in raw:
            return _result(HYPERFINE, path, _hyperfine, raw)
        if "benchmarks" in raw and "context" in raw:
            return _result(GOOGLE, path, _google, raw)
        if "benchmarks" in raw and ("devices" in raw or "meta" in raw):
            return _result(NVBENCH, path, _nvbench, raw)
    raise InputProblem(
        f"{path}: no result that is known here: give one of `assay run`, Google Benchmark (--benchmark_out), "
        "nvbench (--json) or hyperfine (--export-json)"
    )


def _result(tool: str, path: Path, reader, raw: dict) -> tuple:
    facets, cases = reader(Shape(path, f"it reads as a file of {tool}: make it again"), raw)
    return tool, (LACKS[tool],), facets, cases


def _row(launches: list, **more) -> dict:
    """A done case, unless one of its times is none."""
    for value in (v for rounds in launches for v in rounds):
        if not value > 0 or not math.isfinite(value):
            return _failed(f"a time of {value:g} is no measurement")
    return {"status": "done", "launches": launches, **more}


def _failed(reason) -> dict:
    return {"status": "failed", "reason": str(reason or "no reason is recorded")}


# ---- Google Benchmark ----


def _google(shape: Shape, raw: dict) -> tuple:
    context = shape.take(raw, "context", dict, "file")
    facets = {"machine": {"number of CPUs": context.get("num_cpus")}}
    if not NAMELESS.fullmatch(str(context.get("host_name", ""))):
        facets["machine"]["host name"] = context["host_name"]
    caches = context.get("caches")
    if isinstance(caches, list):
        facets["machine"]["caches"] = str([(c.get("level"), c.get("size")) for c in caches if isinstance(c, dict)])
    facets["settings"] = {k: context.get(k) for k in ("cpu_scaling_enabled", "library_build_type")}
    rounds, means, failed, memory = {}, {}, {}, {}
    for index, row in enumerate(shape.take(raw, "benchmarks", list, "file")):
        where = f"benchmarks[{index}]"
        name = row.get("run_name") if isinstance(row, dict) and "run_name" in row else None
        if name is None:
            name = shape.take(row, "name", str, where)
        if not isinstance(name, str):
            shape.fail(f"{where}.run_name is no text")
        if row.get("error_occurred") or row.get("skipped"):
            failed[name] = row.get("error_message") or row.get("skip_message")
            continue
        aggregate = row.get("aggregate_name") if row.get("run_type") == "aggregate" else None
        if row.get("run_type") == "aggregate" and aggregate not in ("median", "mean"):
            continue
        time = _google_time(shape, row, where)
        if aggregate is None:
            rounds.setdefault(name, []).append(time)
            if shape.is_number(row.get("max_bytes_used")):
                memory.setdefault(name, []).append(float(row["max_bytes_used"]))
        elif aggregate == "median" or name not in means:
            means[name] = [time]
    cases = {}
    for name in dict.fromkeys([*rounds, *means, *failed]):
        more = {"resources": {"memory": [median(memory[name])]}} if name in memory else {}
        cases[name] = _failed(failed[name]) if name in failed else _row([rounds.get(name) or means[name]], **more)
    return facets, cases


def _google_time(shape: Shape, row: dict, where: str) -> float:
    value = shape.take(row, "real_time", (int, float), where)
    unit = row.get("time_unit", "ns")
    if not isinstance(unit, str) or unit not in NS:
        shape.fail(f"{where}.time_unit is {unit!r}, not one of {', '.join(NS)}")
    return value * NS[unit]


# ---- nvbench ----


def _nvbench(shape: Shape, raw: dict) -> tuple:
    meta = shape.take(raw, "meta", dict, "file")
    version = shape.take(shape.take(meta, "version", dict, "meta"), "json", dict, "meta.version")
    if version.get("major") != 1:
        shape.fail(f"its file version is {version.get('string') or version.get('major')!r}, 1 is read here")
    devices = {}
    for device in shape.take(raw, "devices", (list, type(None)), "file") or []:
        devices[shape.take(device, "id", int, "devices")] = device
    facets, cases = {"machine": {}}, {}
    for b, bench in enumerate(shape.take(raw, "benchmarks", list, "file")):
        title = shape.take(bench, "name", str, f"benchmarks[{b}]")
        for s, state in enumerate(shape.take(bench, "states", (list, type(None)), f"benchmarks[{b}]") or []):
            where = f"benchmarks[{b}].states[{s}]"
            name = f"{title}/{shape.take(state, 'name', str, where)}"
            if name in cases:
                shape.fail(f"{where}: the name {name!r} stands twice")
            cases[name] = _nvbench_state(shape, state, where)
            device = devices.get(state.get("device")) if type(state.get("device")) is int else None
            for key in ("name", "sm_version", "number_of_sms", "global_memory_size") if device else ():
                facets["machine"][f"device {device['id']} {key}"] = device.get(key)
            if device:
                facets.setdefault("settings", {})[f"device {device['id']} ecc_state"] = device.get("ecc_state")
    return facets, cases


def _nvbench_state(shape: Shape, state: dict, where: str) -> dict:
    # nvbench turns errors into skips, so a skip is never read as "nothing was asked for".
    if state.get("is_skipped"):
        return _failed(f"skipped by nvbench: {state.get('skip_reason') or 'no reason'}")
    found = {}
    for i, summary in enumerate(shape.take(state, "summaries", (list, type(None)), where) or []):
        tag = shape.take(summary, "tag", str, f"{where}.summaries[{i}]")
        data = summary.get("data")
        for item in data if isinstance(data, list) else []:
            if isinstance(item, dict) and item.get("name") == "value":
                found[tag] = item.get("value")
    tag = next((t for t in NVBENCH_TIMES if t in found), None)
    if tag is None:
        return _failed("no mean time is recorded")
    try:
        seconds = float(found[tag])
    except (TypeError, ValueError):
        shape.fail(f"{where}: {tag} is {found[tag]!r}, not a number")
    return _row([[seconds * 1e9]], checks={"statistic": tag})


# ---- hyperfine ----


def _hyperfine(shape: Shape, raw: dict) -> tuple:
    version = raw.get("schema_version", 1)
    if version not in (1, 2):
        shape.fail(f"its schema version is {version!r}, 1 and 2 are read here")
    results = shape.take(raw, "results", list, "file")
    commands = [shape.take(r, "command", str, f"results[{i}]") for i, r in enumerate(results)]
    cases, count = {}, Counter(commands)
    for index, (result, command) in enumerate(zip(results, commands, strict=True)):
        where = f"results[{index}]"
        name = result.get("name") if isinstance(result.get("name"), str) else command
        given = result.get("parameters")
        if (count[command] > 1 or name in cases) and isinstance(given, dict) and given:
            name += " " + " ".join(f"{k}={v}" for k, v in given.items())
        if name in cases:
            shape.fail(f"{where}: the command {name!r} stands twice")
        cases[name] = _hyperfine_2(shape, result, where) if version == 2 else _hyperfine_1(shape, result, where)
    return {}, cases


def _hyperfine_1(shape: Shape, result: dict, where: str) -> dict:
    codes = result.get("exit_codes")
    bad = [c for c in codes if c != 0] if isinstance(codes, list) else []
    if bad:
        return _failed(f"exit code {bad[0]}" if bad[0] is not None else "ended by a signal")
    times = result.get("times")
    if times is None:
        times = [shape.take(result, "median" if "median" in result else "mean", (int, float), where)]
    memory = result.get("memory_usage_byte")
    values = [float(x) for x in memory if shape.is_number(x)] if isinstance(memory, list) else []
    more = {"resources": {"memory": [median(values)]}} if values else {}
    return _row(_runs(shape, times, f"{where}.times"), **more)


def _hyperfine_2(shape: Shape, result: dict, where: str) -> dict:
    times, memory = [], []
    for i, run in enumerate(shape.take(result, "measurements", list, where)):
        place = f"{where}.measurements[{i}]"
        wall = shape.take(run, "time_wall_clock", dict, place)
        if run.get("exit_code", 0) != 0:
            return _failed(f"exit code {run['exit_code']}")
        if wall.get("unit") != "second":
            shape.fail(f"{place}: the unit is {wall.get('unit')!r}, not 'second'")
        times.append(wall.get("value"))
        used = run.get("memory_peak_resident")
        if isinstance(used, dict) and used.get("unit") == "byte" and shape.is_number(used.get("value")):
            memory.append(float(used["value"]))
    more = {"resources": {"memory": [median(memory)]}} if any(memory) else {}
    return _row(_runs(shape, times, where), **more)


def _runs(shape: Shape, times, where: str) -> list:
    """Each run is a fresh process, so a launch of one sample."""
    if not isinstance(times, list) or not times:
        shape.fail(f"{where} holds no times")
    for value in times:
        if type(value) not in (int, float):
            shape.fail(f"{where}: {value!r} is no number")
    return [[value * 1e9] for value in times]
