"""Checks a result twice: against the JSON Schema, and every derived figure against its raw samples."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import jsonschema

from . import SCHEMA
from .errors import EnvironmentProblem, InputProblem, visible
from .load import read_json
from .stats import case_time, fastest_round_ns, unit_medians, variance_components
from .validate_parts import parts_faults
from .validate_telemetry import energy_figures, telemetry_faults

TOLERANCE = 1e-6  # relative; both sides compute in float64
SHOWN = 20  # faults printed for each file


def schema_path() -> Path:
    """In the source tree and in an installed one the schema stands beside the package's folder."""
    path = Path(__file__).resolve().parent.parent / "results" / "schema" / f"{SCHEMA.replace('/', '.')}.json"
    if not path.is_file():
        raise EnvironmentProblem(f"{path}: the schema is missing; install assay again, or run from its source tree")
    return path


def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_path().read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def validate_files(paths: list, out) -> int:
    """0: all hold; 1: one does not. Every fault is a line that names file, place and what was expected."""
    check = validator()
    status = 0
    for path in paths:
        faults = document_faults(read_json(path), check, str(path))
        for fault in faults[:SHOWN]:
            print(visible(f"{path}: {fault}"), file=out)
        if len(faults) > SHOWN:
            print(f"{path}: and {len(faults) - SHOWN} more", file=out)
        print(visible(f"{path}: {'valid' if not faults else f'{len(faults)} fault(s)'}"), file=out)
        status = 1 if faults else status
    return status


def document_faults(document, check=None, name="document") -> list:
    """All faults of one parsed document. Figures are recomputed only where the shape is right."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = _schema_of(document)
        raise InputProblem(f"{name}: no {SCHEMA} document, its schema is {found!r}; give the JSON of assay run")
    errors = sorted((check or validator()).iter_errors(document), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        return [f"{e.json_path}: {_short(e.message)}" for e in errors]
    return semantic_faults(document)


def _schema_of(document):
    return document.get("schema") if isinstance(document, dict) else None


def _short(message: str) -> str:
    return message if len(message) < 200 else message[:97] + " ... " + message[-97:]


def semantic_faults(document: dict) -> list:
    """Faults that no schema sees."""
    faults = _not_finite(document, "$")
    ids = [c["id"] for c in document["ceilings"] + document["cases"]]
    faults += [f"id {i!r} stands {ids.count(i)} times" for i in sorted({i for i in ids if ids.count(i) > 1})]
    ceilings = {c["id"]: c for c in document["ceilings"]}
    for case in document["ceilings"] + document["cases"]:
        faults += [f"{case['id']}: {fault}" for fault in _Case(case, document["plan"], ceilings).faults()]
    return faults + _benchmark_faults(document) + telemetry_faults(document)


def _not_finite(value, where: str) -> list:
    if isinstance(value, float) and not math.isfinite(value):
        return [f"{where} is {value}"]
    if isinstance(value, dict):
        return [f for k, v in value.items() for f in _not_finite(v, f"{where}.{k}")]
    if isinstance(value, list):
        return [f for i, v in enumerate(value) for f in _not_finite(v, f"{where}[{i}]")]
    return []


def _benchmark_faults(document: dict) -> list:
    """Google Benchmark's rows: one for each round of each done case, and of nothing else."""
    rows = {}
    for row in document["benchmarks"]:
        rows[row["name"]] = rows.get(row["name"], 0) + 1
    wanted = {c["id"]: len(c["rounds"]) for c in document["cases"] if c["status"] == "done"}
    faults = [f"benchmarks: {name!r} is no done case" for name in rows if name not in wanted]
    return faults + [
        f"benchmarks: {name!r} has {rows.get(name, 0)} rows for {count} rounds"
        for name, count in wanted.items()
        if rows.get(name, 0) != count
    ]


class _Case:
    """Recomputes one case."""

    def __init__(self, case: dict, plan: dict, ceilings: dict):
        self.case, self.plan, self.ceilings = case, plan, ceilings
        self.found = []

    def faults(self) -> list:
        case = self.case
        if case["verification"]["status"] == "failed" and case["status"] == "done":
            self.found.append("verification failed, yet its status is done")
        if self._arrays() and case["status"] == "done":
            self._time()
        return self.found

    def _same(self, what: str, stated, computed) -> None:
        if (stated is None) != (computed is None):
            self.found.append(f"{what} is {stated}, from the samples it is {computed}")
        elif stated is not None and not math.isclose(stated, computed, rel_tol=TOLERANCE, abs_tol=1e-12):
            self.found.append(f"{what} is {stated:.9g}, from the samples it is {computed:.9g}")

    def _arrays(self) -> bool:
        """Samples align with the rounds."""
        before = len(self.found)
        rounds = self.case["rounds"]
        for series in self.case["series"]:
            sizes = [len(row) for row in series["samples"]]
            if len(sizes) != len(rounds):
                self.found.append(f"series {series['name']!r} has {len(sizes)} rows for {len(rounds)} rounds")
            elif series["primary"] and sizes != [r["samples"] for r in rounds]:
                self.found.append(f"series {series['name']!r} and rounds[].samples disagree on the number of samples")
            if series["primary"] and any(x <= 0 for row in series["samples"] for x in row):
                self.found.append(f"series {series['name']!r} holds a time that is not positive")
        places = [(r["launch"], r["round"]) for r in rounds]
        if len(set(places)) != len(places):
            self.found.append("two rounds have the same launch and round number")
        if any(r["end_ns"] < r["begin_ns"] for r in rounds):
            self.found.append("a round ends before it begins")
        return len(self.found) == before

    def _time(self) -> None:
        case, work = self.case, self.case["work"]
        metrics = {m["name"]: m for m in case["metrics"]}
        if "time" not in metrics or not any(row for s in case["series"] if s["primary"] for row in s["samples"]):
            self.found.append("a done case needs samples and the metric 'time'")
            return
        time = case_time(case, self.plan["confidence"])
        triple = (time.value, time.low, time.high)
        self._metric(metrics, "time", triple)
        if work["flops"] > 0:
            self._metric(metrics, "flop_rate", _rate(work["flops"], triple))
        if work["bytes_read"] + work["bytes_written"] > 0:
            self._metric(metrics, "bandwidth", _rate(work["bytes_read"] + work["bytes_written"], triple))
        if work["items"] > 0:
            self._metric(metrics, "time_per_item", tuple(None if t is None else t / work["items"] for t in triple))
        self._energy(metrics)
        self._utilisation(metrics, triple)
        self.found += parts_faults(case, self.ceilings)
        self._statistics(time)
        self._fraction(time)
        if "rate" in case:
            self._rate(triple)
        for series in case["series"]:
            if (name := f"{series['name']}_per_item") in metrics and name != "time_per_item":
                middle = statistics.median(x for row in series["samples"] for x in row) / work["items"]
                self._metric(metrics, name, (middle, None, None))

    def _energy(self, metrics: dict) -> None:
        computed = energy_figures(self.case["telemetry"].get("energy"), self.plan["confidence"])
        for name, triple in computed.items():
            self._metric(metrics, name, triple)
        for name in metrics:
            if name.endswith(("_joules", "_watts")) and name not in computed:
                self.found.append(f"the metric {name!r} has no energy pass behind it")

    def _utilisation(self, metrics: dict, triple: tuple) -> None:
        """mbu and mfu name the ceiling that they are a share of at the end of their formula."""
        for name in ("mbu", "mfu"):
            if name not in metrics:
                continue
            ceiling = self.ceilings.get(metrics[name]["formula"].rpartition(" ")[2])
            if ceiling is None or ceiling["status"] != "done":
                self.found.append(f"the formula of {name} names no measured ceiling of this result")
                continue
            resource = ceiling["rate"]["resource"]
            share = _amount(self.case["work"], resource) / _amount(ceiling["work"], resource)
            floor = share * fastest_round_ns(ceiling)
            value, low, high = triple
            shares = [None if t is None else floor / t for t in (value, high, low)]
            self._metric(metrics, name, tuple(shares))

    def _metric(self, metrics: dict, name: str, computed: tuple) -> None:
        if name not in metrics:
            self.found.append(f"the metric {name!r} is missing")
            return
        for key, value in zip(("value", "low", "high"), computed, strict=True):
            self._same(f"{name}.{key}", metrics[name][key], value)

    def _statistics(self, time) -> None:
        stated = self.case["statistics"]
        series = next(s for s in self.case["series"] if s["primary"])
        flat = [x / series["batch"] for row in series["samples"] for x in row]
        middle = statistics.median(flat)
        launches = len({r["launch"] for r in self.case["rounds"]})
        scope = "launches" if launches >= self.plan["min_units"] else "within-launch"
        if stated["scope"] != scope:
            self.found.append(f"statistics.scope is {stated['scope']}, with {launches} launches it is {scope}")
        units = len(unit_medians(self.case["rounds"], series["samples"], stated["scope"]))
        for key, value in (
            ("units", units),
            ("samples", len(flat)),
            ("median_ns", middle),
            ("min_ns", min(flat)),
            ("max_ns", max(flat)),
            ("mad_ns", statistics.median(abs(x - middle) for x in flat)),
            ("relative_half_width", time.relative_half_width),
        ):
            self._same(f"statistics.{key}", stated[key], value)
        if "variance" in stated:
            self._variance(stated["variance"], series)
        width = time.relative_half_width
        converged = units >= self.plan["min_units"] and width is not None
        converged = converged and width <= self.plan["target_relative_half_width"]
        if stated["converged"] != converged:
            self.found.append(f"statistics.converged is {stated['converged']}, from the samples it is {converged}")

    def _variance(self, stated: dict, series: dict) -> None:
        """Results of older builds have no levels."""
        for level, found in variance_components(self.case["rounds"], series["samples"], series["batch"]).items():
            row, what = stated[level], f"statistics.variance.{level}"
            if (row is None) != (found is None):
                self.found.append(f"{what} is {row}, from the samples it is {found}")
            elif row is not None:
                variance, freedom = found
                self._same(f"{what}.degrees_of_freedom", row["degrees_of_freedom"], freedom)
                sd = math.sqrt(math.expm1(max(variance, 0)))
                if not math.isclose(row["relative_sd"], sd, rel_tol=1e-4, abs_tol=1e-6):
                    stated_sd = row["relative_sd"]
                    self.found.append(f"{what}.relative_sd is {stated_sd:.9g}, from the samples it is {sd:.9g}")

    def _rate(self, triple: tuple) -> None:
        work, rate = self.case["work"], self.case["rate"]
        amount = {
            "flops_per_s": work["flops"],
            "launches_per_s": work["items"],
            "additions_per_s": work["items"],
            "bytes_per_s": work["bytes_read"] + work["bytes_written"],
        }[rate["unit"]]
        value = amount / fastest_round_ns(self.case) * 1e9
        _, low, high = _rate(amount, triple)
        high = None if high is None else max(high, value)
        for key, computed in (("value", value), ("low", low), ("high", high)):
            self._same(f"rate.{key}", rate[key], computed)

    def _fraction(self, time) -> None:
        """Share of the limit: floor from the ceiling's own samples over time from the case's own."""
        stated = self.case["ceiling"]
        if stated["fraction"] is None:
            if not stated["reason"]:
                self.found.append("ceiling.fraction is null without a reason")
            return
        work, limit = self.case["work"], stated["limit"]
        floor = work["fixed_ns"]
        if limit is not None:
            ceiling = self.ceilings.get(stated["ceiling_id"])
            if ceiling is None or ceiling["status"] != "done":
                self.found.append(f"ceiling.ceiling_id {stated['ceiling_id']!r} is no measured ceiling of this result")
                return
            if ceiling["rate"]["resource"] not in _SERVED_BY.get(limit, (limit,)):
                self.found.append(f"ceiling.limit is {limit}, its ceiling measures {ceiling['rate']['resource']}")
            floor += _amount(work, limit) / _amount(ceiling["work"], limit) * fastest_round_ns(ceiling)
        self._same("ceiling.floor_ns", stated["floor_ns"], floor)
        self._same("ceiling.fraction", stated["fraction"], floor / time.value)


# A host may multiply bf16 faster widened to f32 than as it is.
_SERVED_BY = {"flops.bf16": ("flops.bf16", "flops.f32")}


def _amount(work: dict, resource: str) -> float:
    """How much of a resource one operation needs; by formula in results that do not state their bounds."""
    for bound in work.get("bounds", ()):
        if bound["resource"] == resource:
            return bound["amount"]
    if resource.startswith("flops"):
        return work["flops"]
    return work["items"] if resource.startswith(("launch", "atomics")) else work["bytes_read"] + work["bytes_written"]


def _rate(amount: float, triple: tuple) -> tuple:
    """amount / time as (value, low, high) a second."""
    value, low, high = triple
    return (
        amount / value * 1e9,
        None if high is None else amount / high * 1e9,
        None if low is None else amount / low * 1e9,
    )
