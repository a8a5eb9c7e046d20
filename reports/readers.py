"""One side of a comparison: a file, or a folder of launches, of Assay or another tool, reduced to its unit medians.

Each file is parsed, reduced and dropped before the next, so that a side of 1e5 cases stays small. What a tool does not
record (placement, verification, rounds) is listed in `Side.lacks`; nothing is assumed in its place.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from . import SCHEMA, foreign
from .errors import InputProblem, visible
from .load import STATUSES, read_json
from .shape import NAMELESS, Shape, median

NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
# What two results must share to be compared; without --force-mixed a difference is refused.
KINDS = ("machine", "placement", "driver", "toolkit", "data")
# Resources by case: name for people, the unit, and the names under which results hold them.
RESOURCES = {
    "memory": ("bytes", ("peak_memory", "peak_memory_bytes", "memory_bytes", "peak_rss_bytes", "max_bytes_used")),
    "registers": ("", ("registers", "registers_per_thread")),
    "spills": ("bytes", ("spill_bytes", "spills")),
    "binary size": ("bytes", ("binary_bytes", "binary_size_bytes", "code_bytes")),
    "energy": ("J", ("energy_joules", "energy_per_operation_joules", "energy")),
}
RESOURCE_OF = {alias: name for name, (_, aliases) in RESOURCES.items() for alias in aliases}


@dataclass(slots=True)
class Found:
    """One case of one side. `launches` holds one list of round medians for each process launch."""

    status: str = "not_reached"
    reason: str | None = None
    launches: list = field(default_factory=list)
    unit: str = "ns"
    better: str = "lower"
    suspect: tuple = ()
    checks: dict = field(default_factory=dict)  # what must be equal on both sides: input checksum, work
    resources: dict = field(default_factory=dict)
    quartiles: list = field(default_factory=list)  # of all samples of a launch, on their better side; where asked for


@dataclass
class Side:
    path: Path
    files: int = 0
    tools: list = field(default_factory=list)
    lacks: list = field(default_factory=list)
    facets: dict = field(default_factory=dict)  # kind of KINDS, or "settings": label to value
    cases: dict = field(default_factory=dict)
    inner: list = field(default_factory=list)  # (kind, text): differences between the files of this side
    identity: dict | None = None  # machine identity, for the calibration
    label: str = ""  # shown in place of the path


@contextmanager
def collector_paused() -> Iterator[None]:
    """Parsed JSON has no cycles; the collector would walk its millions of objects again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_side(path, quartiles: bool = False) -> Side:
    path = Path(path)
    side = Side(path)
    for file in _files(path):
        with collector_paused():
            _add_file(side, file, quartiles)
    if not side.cases:
        raise InputProblem(f"{path}: holds no case; give a result with at least one")
    return side


def join(path: Path, launches: list, left_out: set) -> Side:
    """One side of results that were read one by one. The launches of a case in `left_out`, (index, case), are not
    taken; a case without any launch keeps the status of its first."""
    side = Side(path)
    for index, one in enumerate(launches):
        side.files += one.files
        side.tools += [tool for tool in one.tools if tool not in side.tools]
        side.identity = side.identity or one.identity
        side.inner += one.inner
        _merge_facets(side, one.path, one.facets)
        for name, found in one.cases.items():
            if (index, name) not in left_out:
                _merge_case(side, one.path, name, _copy(found))
    for one in launches:
        for name, found in one.cases.items():
            side.cases.setdefault(name, found)
    return side


def _copy(found: Found) -> Found:
    """What merging changes is the copy's own."""
    return replace(
        found,
        launches=[*found.launches],
        quartiles=[*found.quartiles],
        checks={**found.checks},
        resources={label: [*values] for label, values in found.resources.items()},
    )


def _files(path: Path) -> list:
    if not path.is_dir():
        return [path]
    try:
        found = sorted(p for p in path.iterdir() if p.name.endswith((".json", ".json.gz")) and p.is_file())
    except OSError as error:
        raise InputProblem(f"{path}: cannot be read ({error.strerror}); name an existing folder") from None
    if not found:
        raise InputProblem(f"{path}: the folder holds no .json or .json.gz file; name a folder of results")
    return found


def _add_file(side: Side, path: Path, quartiles: bool) -> None:
    tokens = []
    raw = read_json(path, tokens)
    if isinstance(raw, dict) and "schema" in raw:
        if raw["schema"] != SCHEMA:
            raise InputProblem(
                f"{path}: schema is {raw['schema']!r}, this version reads {SCHEMA}: use the matching assay"
            )
        if tokens:
            raise InputProblem(f"{path}: {tokens[0]} is no JSON number; a result holds null where there is no value")
        tool, lacks, facets, cases = "assay", (), _facets(path, raw), _cases(path, raw, quartiles)
        side.identity = side.identity or machine_identity(raw["context"])
    else:
        tool, lacks, facets, rows = foreign.read(path, raw)
        cases = {name: Found(**row) for name, row in rows.items()}
    side.files += 1
    if tool not in side.tools:
        side.tools.append(tool)
    side.lacks += [line for line in lacks if line not in side.lacks]
    _merge_facets(side, path, facets)
    for name, found in cases.items():
        _merge_case(side, path, name, found)


def _merge_facets(side: Side, path: Path, facets: dict) -> None:
    for kind, values in facets.items():
        have = side.facets.setdefault(kind, {})
        for label, value in values.items():
            if have.setdefault(label, value) != value and kind in KINDS:
                side.inner.append((kind, f"{label} is {have[label]!s}, but in {path.name} it is {value!s}"))


def _merge_case(side: Side, path: Path, name: str, found: Found) -> None:
    """A further launch of a case. One failure fails the case; a launch that was not measured is only not counted."""
    old = side.cases.get(name)
    if old is None:
        side.cases[name] = found
        return
    if "failed" in (old.status, found.status):
        if old.status != "failed":
            old.status, old.reason = "failed", f"in {path.name}: {found.reason}"
        return
    if found.status != "done":
        return
    if old.status != "done":
        side.cases[name] = found
        return
    if (old.unit, old.better) != (found.unit, found.better):
        raise InputProblem(f"{path}: {name!r} is in {found.unit}, in another file of the side in {old.unit}")
    old.launches += found.launches
    old.quartiles += found.quartiles
    old.suspect = tuple(dict.fromkeys(old.suspect + found.suspect))
    for label, value in found.checks.items():
        if old.checks.setdefault(label, value) != value:
            side.inner.append(("data", f"{label} of {name} differs in {path.name}"))
    for label, values in found.resources.items():
        old.resources.setdefault(label, []).extend(values)


# ---- our own results ----


def machine_identity(context: dict) -> dict:
    """What makes a machine the same machine: nothing that fluctuates, no clock reading, no load, no free memory."""
    machine = context["machine"]
    keys = ("cpu_model", "cpu_vendor", "packages", "cores", "hardware_threads", "numa_nodes", "l3_bytes", "hypervisor")
    identity = {key: machine.get(key) for key in keys}
    models = [str(d.get("model")) for d in context["devices"] if d.get("kind") != "cpu"]
    return identity | {"accelerators": models}


def _facets(path: Path, raw: dict) -> dict:
    shape = Shape(path)
    context, plan = shape.take(raw, "context", dict, "result"), shape.take(raw, "plan", dict, "result")
    machine, build = shape.take(context, "machine", dict, "context"), shape.take(context, "assay", dict, "context")
    placement = shape.take(plan, "placement", dict, "plan")
    container = context.get("container") if isinstance(context.get("container"), dict) else {}
    identity = {k: v for k, v in _identity(shape, context).items() if k != "accelerators"}
    host = shape.take(context, "host_name", str, "context")
    if not NAMELESS.fullmatch(host):
        identity["host name"] = host
    facets = {
        "machine": identity,
        "placement": {
            "CPUs": str(placement.get("cpus")),
            "NUMA node": placement.get("numa_node"),
            "memory policy": placement.get("memory_policy"),
            "CPU quota": container.get("cpu_quota") or None,
        },
        "driver": {},
        "toolkit": {},
        "data": {"seed": shape.take(context, "seed", str, "context")},
        "settings": {k: machine.get(k) for k in ("governor", "turbo", "smt")}
        | {k: context.get(k) for k in ("kernel", "os", "mitigations", "environment_variables")}
        | {k: build.get(k) for k in ("compiler", "flags", "build_type", "sanitizers")},
    }
    used = set()
    for index, case in enumerate(shape.take(raw, "cases", list, "result")):
        if shape.take(case, "status", str, f"cases[{index}]") == "done":
            device = shape.take(case, "device", dict, f"cases[{index}]")
            used.add(shape.take(device, "name", str, f"cases[{index}].device"))
    for device in shape.take(context, "devices", list, "context"):
        name, kind = shape.take(device, "name", str, "context.devices"), device.get("kind")
        if kind == "cpu" or name not in used:
            continue
        facets["machine"] |= {f"{name} {k}": device.get(k) for k in ("model", "uuid")}
        facets["driver"] |= {f"{name} {k}": device.get(k) for k in ("driver", "driver_api")}
        facets["toolkit"] |= {f"{name} runtime": device.get("runtime"), "toolkit": build.get("toolkit")}
        facets["settings"] |= {f"{name} {k}": device.get(k) for k in ("power_limit_watts", "ecc", "mig", "persistence")}
    return facets


def _identity(shape: Shape, context: dict) -> dict:
    shape.take(context["machine"], "cpu_model", str, "context.machine")
    for index, device in enumerate(shape.take(context, "devices", list, "context")):
        shape.take(device, "kind", str, f"context.devices[{index}]")
    return machine_identity(context)


def _cases(path: Path, raw: dict, quartiles: bool) -> dict:
    shape, out = Shape(path), {}
    size = raw["context"]["assay"].get("binary_bytes")
    for index, record in enumerate(shape.take(raw, "cases", list, "result")):
        where = f"cases[{index}]"
        name = shape.take(record, "id", str, where)
        if name in out:
            shape.fail(f"{where}: the id {name!r} stands twice")
        out[name] = _case(shape, record, where, quartiles)
        if shape.is_number(size) and out[name].status == "done":
            out[name].resources.setdefault("binary size", [float(size)])
    return out


def _case(shape: Shape, record: dict, where: str, quartiles: bool) -> Found:
    status = shape.take(record, "status", str, where)
    reason = shape.take(record, "reason", (str, type(None)), where)
    if status not in STATUSES:
        shape.fail(f"{where}.status is {status!r}, not one of {', '.join(STATUSES)}")
    verification = shape.take(record, "verification", dict, where)
    if status in ("failed", "lost"):
        return Found("failed", reason or status)
    if status != "done":
        return Found(status, reason or status)
    if verification.get("status") == "failed" or verification.get("after_timing") == "failed":
        return Found("failed", "its verification failed")
    all_series = shape.take(record, "series", list, where)
    main = [s for s in all_series if shape.take(s, "primary", bool, f"{where}.series")]
    if len(main) != 1:
        shape.fail(f"{where} is done, but has {len(main)} primary series")
    unit = shape.take(main[0], "unit", str, f"{where}.series")
    factor = NS.get(unit, 1.0) / shape.positive(main[0], "batch", f"{where}.series")
    launches = _launches(shape, record, main[0], factor, where)
    if any(not value > 0 for rounds in launches for value in rounds):
        return Found("failed", f"a {'time of 0' if unit in NS else 'value of 0 or less'} is no measurement")
    validity = shape.take(record, "validity", dict, where)
    reasons = validity.get("reasons") if isinstance(validity.get("reasons"), list) else []
    work = shape.take(record, "work", dict, where)
    checks = {"work": tuple(work.get(k) for k in ("flops", "bytes_read", "bytes_written", "items"))}
    if verification.get("input_checksum") is not None:
        checks["input checksum"] = verification["input_checksum"]
    better = "higher" if main[0].get("better") == "higher" else "lower"
    return Found(
        "done",
        None,
        launches,
        "ns" if unit in NS else unit,
        better,
        () if validity.get("status") == "valid" else tuple(map(str, reasons)) or ("suspect",),
        checks,
        _resources(shape, record, all_series, where),
        _quartiles(record["rounds"], main[0]["samples"], factor, better) if quartiles else [],
    )


def _quartiles(rounds: list, samples: list, factor: float, better: str) -> list:
    """By launch, of all its samples: the quartile on the better side, by linear interpolation."""
    pooled = {}
    for entry, row in zip(rounds, samples, strict=True):
        pooled.setdefault(entry["launch"], []).extend(row)
    share = 0.75 if better == "higher" else 0.25
    return [float(np.quantile(pooled[key], share)) * factor for key in sorted(pooled) if pooled[key]]


def _launches(shape: Shape, record: dict, series: dict, factor: float, where: str) -> list:
    """Round medians in ns, or in the unit of the series, by launch."""
    rounds = shape.take(record, "rounds", list, where)
    samples = shape.take(series, "samples", list, f"{where}.series")
    if len(rounds) != len(samples):
        shape.fail(f"{where} has {len(samples)} rows of samples for {len(rounds)} rounds")
    launches = {}
    for entry, row in zip(rounds, samples, strict=True):
        launch = shape.take(entry, "launch", int, f"{where}.rounds")
        if not isinstance(row, list):
            shape.fail(f"{where}.series: a row of samples is no list")
        for value in row:
            if type(value) is not int and (type(value) is not float or not math.isfinite(value)):
                shape.fail(f"{where}.series: the sample {visible(repr(value))[:40]} is no number")
        if row:
            launches.setdefault(launch, []).append(median(row) * factor)
    if not launches:
        shape.fail(f"{where} is done, but has no samples")
    return [launches[key] for key in sorted(launches)]


def _resources(shape: Shape, record: dict, all_series: list, where: str) -> dict:
    """Values by name of RESOURCES, wherever a result holds them: metrics, further series, telemetry."""
    out = {}
    for metric in shape.take(record, "metrics", list, where):
        name = RESOURCE_OF.get(shape.take(metric, "name", str, f"{where}.metrics"))
        if name and shape.is_number(metric.get("value")):
            out[name] = [float(metric["value"])]
    for series in all_series:
        name = RESOURCE_OF.get(shape.take(series, "name", str, f"{where}.series"))
        if name and not series["primary"]:
            rows = [r for r in shape.take(series, "samples", list, where) if isinstance(r, list)]
            values = [x for row in rows for x in row if shape.is_number(x)]
            if values:
                out[name] = [median(values)]
    telemetry = record.get("telemetry")
    for key, value in telemetry.items() if isinstance(telemetry, dict) else ():
        if key in RESOURCE_OF and shape.is_number(value):
            out.setdefault(RESOURCE_OF[key], [float(value)])
    return out
