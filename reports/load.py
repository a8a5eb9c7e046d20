"""Reads results into plain records. Every file that is not a whole assay.result/1 ends in one InputProblem line.

This is not the schema (results/schema holds that, `validate` applies it): it checks what a report touches, so that a
report needs no jsonschema and a broken file never ends in a traceback.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from . import SCHEMA
from .curves import Curves, curves
from .errors import InputProblem
from .parts import Breakdown, breakdown, parts

STATUSES = ("done", "failed", "skipped", "lost", "not_reached")
REMEDY = "make it again with `assay run`; `python -m reports validate` lists every fault"


@dataclass(frozen=True)
class Metric:
    """A derived quantity; low and high are None where there is no interval."""

    unit: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Case:
    """One case of the plan, or one ceiling (then `rate` is set where it was measured)."""

    id: str
    suite: str
    variant: str
    device: str
    kind: str
    parameters: dict
    status: str
    reason: str | None
    validity: str
    reasons: list
    work: dict
    verification: dict
    statistics: dict | None
    metrics: dict = field(default_factory=dict)
    fraction: float | None = None
    limit: str | None = None
    ceiling_id: str | None = None
    ceiling_reason: str | None = None
    resource: str | None = None
    rate: Metric | None = None
    ceiling_suspect: bool = False  # the ceiling that limits is itself suspect
    extras: dict = field(default_factory=dict)  # further series: name to (unit, median)
    parts: list = field(default_factory=list)
    breakdown: Breakdown | None = None
    defaults: dict = field(default_factory=dict)  # of the suite's axes, as text, by the result's own catalogue

    @property
    def done(self) -> bool:
        return self.status == "done" and "time" in self.metrics

    @property
    def chosen(self) -> dict:
        """Parameters off their default: an axis that a later version adds changes none of the older cases."""
        return {k: v for k, v in self.parameters.items() if str(v) != self.defaults.get(k)}

    @property
    def key(self) -> tuple:
        """What makes a case the same case on another machine: fields, never the id's text."""
        return (self.suite, self.variant, self.kind, tuple(sorted((k, str(v)) for k, v in self.chosen.items())))


@dataclass(frozen=True)
class Result:
    path: Path
    context: dict
    plan: dict
    cases: list
    ceilings: list
    curves: Curves | None = None


class _Reader:
    """Typed access that names the file and the place of whatever is missing or wrong."""

    def __init__(self, path: Path):
        self.path = path

    def fail(self, what: str):
        raise InputProblem(f"{self.path}: {what}; {REMEDY}")

    def take(self, record, key: str, types, where: str):
        if not isinstance(record, dict):
            self.fail(f"{where} is not an object")
        if key not in record:
            self.fail(f"{where} has no key {key!r}")
        value = record[key]
        wanted = types if isinstance(types, tuple) else (types,)
        if isinstance(value, bool) and bool not in wanted or not isinstance(value, wanted):
            self.fail(f"{where}.{key} has the wrong type ({type(value).__name__})")
        return value

    def number(self, record, key: str, where: str) -> float | None:
        value = self.take(record, key, (int, float, type(None)), where)
        return None if value is None else float(value)

    def metric(self, record, where: str, unit: str) -> Metric | None:
        value = self.number(record, "value", where)
        low, high = self.number(record, "low", where), self.number(record, "high", where)
        return None if value is None else Metric(unit, value, low, high)


NULLABLE_TEXT = (str, type(None))


def read_json(path, constants: list | None = None) -> dict:
    """The parsed file. Plain or gzip by content, not by name. Bare NaN and Infinity are refused, unless `constants`
    is given: then they read as NaN and are listed there (Google Benchmark writes them in counters)."""
    path = Path(path)

    def refuse(token):
        if constants is not None:
            constants.append(token)
            return math.nan
        raise InputProblem(f"{path}: {token} is no JSON number; a result holds null where there is no value")

    def unique(pairs):
        record = dict(pairs)
        if len(record) != len(pairs):
            raise InputProblem(f"{path}: a key stands twice in one object; {REMEDY}")
        return record

    def finite(text):
        value = float(text)
        if not math.isfinite(value):
            raise InputProblem(f"{path}: the number {text} is out of range; {REMEDY}")
        return value

    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        text = data.decode("utf-8")
        del data  # not kept beside the text: results may have 100 MB
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique, parse_float=finite)
    except OSError as error:
        raise InputProblem(f"{path}: cannot be read ({error.strerror}); name an existing result file") from None
    except (EOFError, zlib.error) as error:
        raise InputProblem(f"{path}: truncated or corrupt gzip data ({error}); copy the file again") from None
    except UnicodeDecodeError:
        raise InputProblem(f"{path}: not UTF-8 text; a result is JSON as `assay run` writes it") from None
    except json.JSONDecodeError as error:
        raise InputProblem(f"{path}: not JSON (line {error.lineno}: {error.msg}); {REMEDY}") from None
    except (RecursionError, ValueError) as error:
        raise InputProblem(f"{path}: not a result ({type(error).__name__}: {error}); {REMEDY}") from None


def load(path) -> Result:
    """One result, checked as far as a report needs it."""
    return from_document(path, read_json(path))


def from_document(path, raw) -> Result:
    """The same from a document that has been read already; `path` stands in messages."""
    path = Path(path)
    reader = _Reader(path)
    if not isinstance(raw, dict) or "schema" not in raw:
        reader.fail(f"no key 'schema': not an {SCHEMA} file")
    if raw["schema"] != SCHEMA:
        raise InputProblem(f"{path}: schema is {raw['schema']!r}, this version reads {SCHEMA}: use the matching assay")
    context, plan = _context(reader, raw), _plan(reader, raw)
    defaults = {
        s["name"]: {a["name"]: str(a.get("default", "")) for a in s["axes"]} for s in plan["catalogue"]["suites"]
    }
    cases = _cases(reader, raw, "cases", defaults)
    ceilings = _cases(reader, raw, "ceilings", defaults)
    return Result(path, context, plan, cases, ceilings, curves(reader, raw))


def _context(reader: _Reader, raw: dict) -> dict:
    context = reader.take(raw, "context", dict, "result")
    for key, types in {
        "date": str,
        "host_name": str,
        "num_cpus": int,
        "assay": dict,
        "argv": list,
        "seed": str,
        "machine": dict,
        "kernel": str,
        "os": str,
        "container": dict,
        "devices": list,
        "absent": list,
        "environment_variables": dict,
        "warnings": list,
        "load_avg": list,
    }.items():
        reader.take(context, key, types, "context")
    for key in ("version", "commit", "compiler", "build_type", "sanitizers", "source_hash"):
        reader.take(context["assay"], key, str, "context.assay")
    reader.take(context["assay"], "dirty", (bool, type(None)), "context.assay")
    for key in ("cpu_model",):
        reader.take(context["machine"], key, str, "context.machine")
    for key in (
        "packages",
        "cores",
        "hardware_threads",
        "numa_nodes",
        "l1d_bytes",
        "l2_bytes",
        "l3_bytes",
        "memory_bytes",
    ):
        reader.take(context["machine"], key, (int, float), "context.machine")
    for index, device in enumerate(context["devices"]):
        for key in ("name", "kind", "model"):
            reader.take(device, key, str, f"context.devices[{index}]")
        if device.get("pcie") is not None:
            for key in ("generation", "generation_max", "width", "width_max"):
                reader.take(device["pcie"], key, (int, type(None)), f"context.devices[{index}].pcie")
    for index, row in enumerate(context["absent"]):
        for key in ("kind", "reason"):
            reader.take(row, key, str, f"context.absent[{index}]")
    return context


def _plan(reader: _Reader, raw: dict) -> dict:
    plan = reader.take(raw, "plan", dict, "result")
    for key, types in {
        "profile": str,
        "launches": int,
        "confidence": (int, float),
        "filter": NULLABLE_TEXT,
        "suites": list,
        "devices": list,
        "placement": dict,
        "catalogue": dict,
        "hash": str,
        "budget_ns": (int, float),
        "target_relative_half_width": (int, float),
    }.items():
        reader.take(plan, key, types, "plan")
    reader.take(plan["placement"], "cpus", list, "plan.placement")
    for index, suite in enumerate(reader.take(plan["catalogue"], "suites", list, "plan.catalogue")):
        where = f"plan.catalogue.suites[{index}]"
        reader.take(suite, "name", str, where)
        for axis in reader.take(suite, "axes", list, where):
            reader.take(axis, "name", str, f"{where}.axes")
    return plan


def _cases(reader: _Reader, raw: dict, key: str, defaults: dict) -> list:
    out, seen = [], set()
    for index, record in enumerate(reader.take(raw, key, list, "result")):
        case = _case(reader, record, f"{key}[{index}]", key == "ceilings", defaults)
        if case.id in seen:
            reader.fail(f"{key}[{index}]: the id {case.id!r} stands twice")
        seen.add(case.id)
        out.append(case)
    return out


def _case(reader: _Reader, record: dict, where: str, ceiling: bool, defaults: dict) -> Case:
    take = reader.take
    device = take(record, "device", dict, where)
    work = take(record, "work", dict, where)
    for key in ("flops", "bytes_read", "bytes_written", "items"):
        take(work, key, (int, float), f"{where}.work")
    validity = take(record, "validity", dict, where)
    verification = take(record, "verification", dict, where)
    take(verification, "status", str, f"{where}.verification")
    limit = take(record, "ceiling", dict, where)
    metrics = {}
    for i, metric in enumerate(take(record, "metrics", list, where)):
        place = f"{where}.metrics[{i}]"
        value = reader.metric(metric, place, take(metric, "unit", str, place))
        if value is not None:
            metrics[take(metric, "name", str, place)] = value
    status = take(record, "status", str, where)
    if status not in STATUSES:
        reader.fail(f"{where}.status is {status!r}, not one of {', '.join(STATUSES)}")
    rate = resource = None
    if ceiling:
        row = take(record, "rate", dict, where)
        resource = take(row, "resource", str, f"{where}.rate")
        rate = reader.metric(row, f"{where}.rate", take(row, "unit", str, f"{where}.rate"))
    extras = {}
    for i, series in enumerate(take(record, "series", list, where)):
        place = f"{where}.series[{i}]"
        if not take(series, "primary", bool, place) and take(series, "name", str, place) != "host_time":
            values = [x for row in take(series, "samples", list, place) for x in (row if isinstance(row, list) else [])]
            if values and all(isinstance(x, (int, float)) for x in values) and status == "done":
                extras[series["name"]] = (take(series, "unit", str, place), statistics.median(values))
    parameters = take(record, "parameters", dict, where)
    for name in parameters:
        take(parameters, name, (int, float, str), f"{where}.parameters")
    return Case(
        id=take(record, "id", str, where),
        suite=take(record, "suite", str, where),
        variant=take(record, "variant", str, where),
        device=take(device, "name", str, f"{where}.device"),
        kind=take(device, "kind", str, f"{where}.device"),
        parameters=parameters,
        status=status,
        reason=take(record, "reason", NULLABLE_TEXT, where),
        validity=take(validity, "status", str, f"{where}.validity"),
        reasons=[str(r) for r in take(validity, "reasons", list, f"{where}.validity")],
        work=work,
        verification=verification,
        statistics=take(record, "statistics", (dict, type(None)), where),
        metrics=metrics,
        fraction=reader.number(limit, "fraction", f"{where}.ceiling"),
        limit=take(limit, "limit", NULLABLE_TEXT, f"{where}.ceiling"),
        ceiling_id=take(limit, "ceiling_id", NULLABLE_TEXT, f"{where}.ceiling"),
        ceiling_reason=take(limit, "reason", NULLABLE_TEXT, f"{where}.ceiling"),
        ceiling_suspect=limit.get("suspect") is True,
        resource=resource,
        rate=rate,
        extras=extras,
        parts=parts(reader, record, where),
        breakdown=breakdown(reader, record, where),
        defaults=defaults.get(record["suite"], {}),
    )
