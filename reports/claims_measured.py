"""Finds the cases that a claim selects in a result, by fields, and reads figures from them with their errors."""

from __future__ import annotations

import bisect
import math
import statistics
from dataclasses import dataclass

from scipy import stats as scipy_stats

from .claims_quantity import BYTES, FLOPS, PLAIN, TIME, Figure, Quantity, product
from .errors import InputProblem
from .labels import machine_name
from .load import REMEDY, Case, Metric, Result, from_document, read_json
from .stats import sequential_factor, unit_medians

FIELDS = ("suite", "variant", "device")
KINDS = ("cpu", "cuda")  # kinds of device that some build of Assay offers
FEWEST_UNITS = 2


class Untestable(Exception):
    """Legal, but this result has no answer: the reason."""


class Illegal(Exception):
    """A selection that the suite's catalogue rules out: what is wrong and the field at fault."""

    def __init__(self, message: str, name: str):
        super().__init__(message)
        self.field = name


class Unknown(Illegal):
    """A variant or an axis that the catalogue does not have: misspelt, or newer than the command of the result."""


@dataclass(frozen=True)
class Source:
    """A result with its raw document, which holds the samples."""

    result: Result
    raw: dict
    label: str  # where it is, for people

    @classmethod
    def read(cls, path, label: str | None = None) -> Source:
        raw = read_json(path)
        result = from_document(path, raw)
        fault = _fault(raw, result)
        if fault:
            raise InputProblem(f"{path}: {fault}; {REMEDY}")
        return cls(result, raw, label or str(path))

    @property
    def name(self) -> str:
        return machine_name(self.result)

    @property
    def confidence(self) -> float:
        return float(self.result.plan["confidence"])


def _fault(raw: dict, result: Result) -> str | None:
    """What a claim touches beyond a report: the catalogue's variants, intervals, samples. None where all is well."""
    if not 0 < result.plan["confidence"] < 1:
        return "plan.confidence is not between 0 and 1"
    for suite in result.plan["catalogue"]["suites"]:
        rows = [(v, ("name", "device")) for v in suite.get("variants") or [{}]]
        rows += [(axis, ("name", "default")) for axis in suite["axes"]]
        if not all(isinstance(row, dict) and isinstance(row.get(k), str) for row, keys in rows for k in keys):
            return f"plan.catalogue: suite {suite['name']!r} lacks variants or defaults"
    for case, record in zip(result.ceilings + result.cases, raw["ceilings"] + raw["cases"], strict=True):
        if case.done and not _sound(case, record):
            return f"{case.id}: its metrics, statistics, rounds and samples do not fit together"
    return None


def _sound(case: Case, record: dict) -> bool:
    units = (case.statistics or {}).get("units")
    rounds = record.get("rounds")
    metrics = [*case.metrics.values(), *([case.rate] if case.rate else [])]
    return (
        all(m.value > 0 and (m.low is None or m.low > 0) and (m.high is None or m.high > 0) for m in metrics)
        and isinstance(units, int)
        and isinstance(case.statistics.get("scope"), str)
        and isinstance(rounds, list)
        and all(isinstance(r, dict) and isinstance(r.get("launch"), int) for r in rounds)
        and all(_whole_series(series, len(rounds)) for series in record["series"])
    )


def _whole_series(series: dict, rounds: int) -> bool:
    rows, batch = series.get("samples"), series.get("batch")
    return (
        isinstance(batch, int)
        and batch > 0
        and isinstance(rows, list)
        and len(rows) == rounds
        and all(isinstance(row, list) and all(isinstance(x, (int, float)) for x in row) for row in rows)
    )


# ---- selection ----


def suite_entry(catalogue: dict, name: str) -> dict | None:
    return next((s for s in catalogue["suites"] if s["name"] == name), None)


def check_selection(selection: dict, catalogue: dict) -> None:
    """Raises Illegal for what the catalogue rules out, Untestable for what this result's command does not offer."""
    suite = suite_entry(catalogue, selection["suite"])
    if suite is None:
        raise Untestable(f"the result has no suite {selection['suite']}")
    kind, variant = selection["device"], selection["variant"]
    known = {v["device"] for s in catalogue["suites"] for v in s["variants"]} | set(KINDS)
    if kind not in known:
        raise Illegal(f"there is no kind of device {kind!r}: {', '.join(sorted(known))}", "device")
    axes = {axis["name"]: axis for axis in suite["axes"]}
    variants = [v["name"] for v in suite["variants"] if v["device"] == kind]
    if variants and variant not in variants:
        raise Unknown(f"{suite['name']} has no variant {variant!r} on {kind}: {', '.join(variants)}", "variant")
    for name, value in selection.items():
        if name not in FIELDS:
            _check_axis(suite["name"], axes, name, value)
    if not variants:
        raise Untestable(f"the command that made the result offers suite {suite['name']} on no {kind}")


def _check_axis(suite: str, axes: dict, name: str, value) -> None:
    if name not in axes:
        raise Unknown(f"{suite} has no axis {name!r}: {', '.join(axes)}", name)
    whole = str(axes[name].get("default", "")).isdigit()
    named = axes[name].get("unit") == "threads" and value == "all"
    if whole and not named and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise Illegal(f"{suite}'s axis {name} takes a whole number, not {value!r}", name)
    if not whole and not isinstance(value, str):
        raise Illegal(f"{suite}'s axis {name} takes text, not {value!r}", name)


def full_parameters(selection: dict, suite: dict) -> dict:
    """Every axis as text: what is selected, else the default, in the order of the catalogue."""
    return {axis["name"]: str(selection.get(axis["name"], axis["default"])) for axis in suite["axes"]}


def describe(selection: dict) -> str:
    """`memcpy/sync on cuda, bytes 1048576, dir h2d`."""
    rest = "".join(f", {k} {v}" for k, v in selection.items() if k not in FIELDS)
    return f"{selection['suite']}/{selection['variant']} on {selection['device']}{rest}"


def find_case(selection: dict, result: Result) -> Case:
    """The measured case. Of several devices of the kind, the first by name."""
    check_selection(selection, result.plan["catalogue"])
    wanted = full_parameters(selection, suite_entry(result.plan["catalogue"], selection["suite"]))
    found = [
        case
        for case in result.cases
        if (case.suite, case.variant, case.kind) == tuple(selection[f] for f in FIELDS)
        and {k: str(v) for k, v in case.parameters.items()} == wanted
    ]
    if not found:
        raise Untestable(f"{describe(selection)} was not measured in this result")
    case = min(found, key=lambda c: (not c.done, c.device))
    if not case.done:
        raise Untestable(f"{describe(selection)} is {case.status}: {case.reason or 'no reason given'}")
    if case.validity == "invalid":
        raise Untestable(f"{describe(selection)} is invalid: {'; '.join(case.reasons)}")
    return case


# ---- figures ----


def _error_of(value: float, low: float | None, high: float | None, units: int, confidence: float) -> tuple:
    """Standard error of the logarithm from an interval on it: log(high / value) = t se, with its freedom."""
    if low is None or high is None or units < FEWEST_UNITS:
        return None, 0
    half = max(math.log(high / value), math.log(value / low))
    return half / float(scipy_stats.t.ppf((1 + confidence) / 2, units - 1)), units - 1


class Figures:
    """What the functions of the language read from one result."""

    def __init__(self, source: Source):
        self.source, self.confidence = source, source.confidence
        self.records = {c["id"]: c for c in source.raw["cases"]}
        self.ceilings = {c.id: c for c in source.result.ceilings}
        self.cache: dict = {}

    def _figure(self, case: Case, name: str, value: float, low, high, units: int) -> Figure:
        if (case.id, name) not in self.cache:
            error, freedom = _error_of(value, low, high, units, self.confidence)
            self.cache[case.id, name] = Figure((case.id, name), error, freedom)
        return self.cache[case.id, name]

    def _time_figure(self, case: Case) -> Figure:
        metric = case.metrics["time"]
        return self._figure(case, "time", metric.value, metric.low, metric.high, self.units(case))

    @staticmethod
    def units(case: Case) -> int:
        return int((case.statistics or {}).get("units") or 0)

    def time(self, case: Case) -> Quantity:
        seconds = case.metrics["time"].value * 1e-9
        return Quantity(seconds, TIME, {self._time_figure(case): seconds})

    def _of_time(self, case: Case, name: str, factor: float, dimension: tuple, sign: int) -> Quantity:
        """A metric that is some amount over the time (sign -1), or the time over some amount (sign 1)."""
        metric: Metric | None = case.metrics.get(name)
        if metric is None:
            raise Untestable(f"{case.id} has no figure {name}")
        value = metric.value * factor
        return Quantity(value, dimension, {self._time_figure(case): sign * value})

    def item_time(self, case: Case) -> Quantity:
        return self._of_time(case, "time_per_item", 1e-9, TIME, 1)

    def bandwidth(self, case: Case) -> Quantity:
        return self._of_time(case, "bandwidth", 1.0, product(BYTES, TIME, -1), -1)

    def flop_rate(self, case: Case) -> Quantity:
        return self._of_time(case, "flop_rate", 1.0, product(FLOPS, TIME, -1), -1)

    def speedup(self, new: Case, base: Case) -> Quantity:
        return self.time(base).over(self.time(new))

    def fraction(self, case: Case) -> Quantity:
        """Share of the limit: falls with the case's time and with the ceiling's rate, each with its own error."""
        if case.fraction is None:
            raise Untestable(f"{case.id} has no limit: {case.ceiling_reason or 'no reason given'}")
        slopes = {self._time_figure(case): -case.fraction}
        ceiling = self.ceilings.get(case.ceiling_id)
        if ceiling is not None and ceiling.rate is not None:
            rate = ceiling.rate
            figure = self._figure(ceiling, "rate", rate.value, rate.low, rate.high, self.units(ceiling))
            slopes[figure] = -case.fraction
        return Quantity(case.fraction, PLAIN, slopes)

    def bytes(self, case: Case) -> Quantity:
        return Quantity(float(case.work["bytes_read"]) + float(case.work["bytes_written"]), BYTES)

    def flops(self, case: Case) -> Quantity:
        return Quantity(float(case.work["flops"]), FLOPS)

    def items(self, case: Case) -> Quantity:
        return Quantity(float(case.work["items"]))

    def _link(self, case: Case, key: str) -> Quantity:
        device = next((d for d in self.source.result.context["devices"] if d["name"] == case.device), {})
        value = (device.get("pcie") or {}).get(key)
        if value is None:
            raise Untestable(f"the PCIe {key} of {case.device} is not in the result")
        return Quantity(float(value))

    def pcie_generation(self, case: Case) -> Quantity:
        return self._link(case, "generation")

    def pcie_width(self, case: Case) -> Quantity:
        return self._link(case, "width")

    # ---- from the samples ----

    def _series(self, case: Case, name: str | None) -> dict:
        """The primary series for None, else the one of that name."""
        found = [s for s in self.records[case.id]["series"] if (s["primary"] if name is None else s["name"] == name)]
        if not found:
            others = ", ".join(s["name"] for s in self.records[case.id]["series"])
            raise Untestable(f"{case.id} has no series {name!r}; it has {others}")
        return found[0]

    def series(self, case: Case, name: str) -> Quantity:
        """A further series of a case: the geometric mean of its unit medians, with Student's interval."""
        series = self._series(case, name)
        if series["unit"] != "ns":
            raise Untestable(f"series {name!r} of {case.id} is in {series['unit']}, not a time")
        medians = unit_medians(self.records[case.id]["rounds"], series["samples"], case.statistics["scope"])
        if not medians or min(medians) <= 0:
            raise Untestable(f"series {name!r} of {case.id} has no time above 0")
        logs = [math.log(m) for m in medians]
        seconds = math.exp(math.fsum(logs) / len(logs)) / series["batch"] * 1e-9
        figure = Figure((case.id, f"series {name}"), None, 0)
        if len(logs) >= FEWEST_UNITS:
            error = statistics.stdev(logs) / math.sqrt(len(logs)) * sequential_factor(len(logs))
            figure = Figure(figure.key, error, len(logs) - 1)
        return Quantity(seconds, TIME, {figure: seconds})

    def observed(self, case: Case, name: str) -> Quantity:
        """What a series holds that is no measurement, such as a code: the same number in every sample, exact."""
        series = self._series(case, name)
        values = {x for row in series["samples"] for x in row}
        if len(values) != 1:
            seen = ", ".join(f"{x:g}" for x in sorted(values)[:5]) or "nothing"
            raise Untestable(f"series {name!r} of {case.id} is not one and the same number: {seen}")
        return Quantity(float(values.pop()))

    def percentile(self, case: Case, percent: Quantity) -> Quantity:
        return self.series_percentile(case, None, percent)

    def series_percentile(self, case: Case, name: str | None, percent: Quantity) -> Quantity:
        """Woodruff's interval: the share of samples below the percentile varies from unit to unit; the percentiles
        at p -+ t se(share) bound it. So samples of one round are not taken for independent ones."""
        series = self._series(case, name)
        if series["unit"] != "ns":
            raise Untestable(f"series {name!r} of {case.id} is in {series['unit']}, not a time")
        if series["batch"] != 1:
            raise Untestable(f"a sample of {case.id} is a mean of {series['batch']} operations: no percentile is known")
        by_launch = case.statistics["scope"] == "launches"
        units: dict = {}
        for i, (record, row) in enumerate(zip(self.records[case.id]["rounds"], series["samples"], strict=True)):
            if row:
                units.setdefault(record["launch"] if by_launch else i, []).extend(row)
        pooled = sorted(x for row in units.values() for x in row)
        p, n, m = percent.value / 100, len(pooled), len(units)
        if n * (1 - p) < 1:
            raise Untestable(f"{case.id} has {n} samples, too few for its percentile {percent.value:g}")
        value = _quantile(pooled, p)
        figure = Figure((case.id, f"percentile {percent.value:g} of {name or 'time'}"), None, 0)
        if m >= FEWEST_UNITS:
            residuals = [bisect.bisect_right(sorted(row), value) - p * len(row) for row in units.values()]
            spread = math.sqrt(m / (m - 1) * math.fsum(r * r for r in residuals)) / n
            spread = max(spread, math.sqrt(p * (1 - p) / n))  # never surer than independent samples would be
            reach = float(scipy_stats.t.ppf((1 + self.confidence) / 2, m - 1)) * spread
            if p + reach < 1 and p - reach > 0:
                low, high = _quantile(pooled, p - reach), _quantile(pooled, p + reach)
                error, freedom = _error_of(value, low, high, m, self.confidence)
                figure = Figure(figure.key, error, freedom)
        return Quantity(value * 1e-9, TIME, {figure: value * 1e-9})


def _quantile(ordered: list, p: float) -> float:
    """The smallest sample that at least the share p does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, math.ceil(p * len(ordered)) - 1))]
