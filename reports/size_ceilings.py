"""What a result measured of one device, as rates: the ceilings that a prediction divides by, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputProblem
from .load import Case, Result

PEER = "link.p2p"  # between GPUs


@dataclass(frozen=True)
class Span:
    """A time or a rate; low and high are None where there is no interval."""

    value: float
    low: float | None
    high: float | None

    def plus(self, other: Span) -> Span:
        """Ends are added as if all ceilings erred the same way: wider than independent errors would make it."""
        if self.low is None or other.low is None:
            return Span(self.value + other.value, None, None)
        return Span(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Span:
        low, high = (None, None) if self.low is None else (self.low * factor, self.high * factor)
        return Span(self.value * factor, low, high)

    def over(self, amount: float) -> Span:
        """amount / this, the ends exchanged."""
        if self.low is None:
            return Span(amount / self.value, None, None)
        return Span(amount / self.value, amount / self.high, amount / self.low)


NOTHING = Span(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Rate:
    """A measured ceiling, or one that the command line states (then `assumed`)."""

    id: str
    unit: str
    span: Span
    suspect: bool = False
    assumed: bool = False

    def time_ns(self, amount: float) -> Span:
        return self.span.over(amount).times(1e9) if amount else NOTHING


@dataclass(frozen=True)
class Missing:
    """A ceiling that the result does not hold."""

    resource: str
    text: str


def rate_of(case: Case) -> Rate:
    """The fastest round counts and may lie above the interval of the mean, which then ends there: docs/method.md."""
    low, high = case.rate.low, case.rate.high
    if low is None or high is None:
        low = high = None
    else:
        low, high = min(low, case.rate.value), max(high, case.rate.value)
    return Rate(case.id, case.rate.unit, Span(case.rate.value, low, high), case.validity != "valid")


class Machine:
    """One device of one result."""

    def __init__(self, result: Result, device: dict):
        self.result, self.device = result, device
        self.name, self.kind, self.model = device["name"], device["kind"], device["model"] or device["name"]
        self.ceilings = [c for c in result.ceilings if c.device == self.name]
        self.measured = [c for c in self.ceilings if c.status == "done" and c.rate is not None and c.rate.value > 0]

    @property
    def on_cpu(self) -> bool:
        return self.kind == "cpu"

    def _number(self, key: str) -> float:
        value = self.device.get(key)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else 0.0

    @property
    def memory_bytes(self) -> float:
        """The device's; on the CPU at most what the container may use. 0: unknown."""
        own = self._number("memory_bytes")
        limit = self.result.context["container"].get("memory_limit_bytes") if self.on_cpu else None
        return min(own, float(limit)) if isinstance(limit, (int, float)) and limit > 0 else own

    def level(self, streamed_bytes: float, threads: str = "all") -> str:
        """The memory level that holds what a step streams. A cache counts with its size: the limit of a case may be
        generous here (docs/method.md), a prediction may not."""
        if not self.on_cpu:
            return "l2" if streamed_bytes <= self._number("l2_bytes") else "hbm"
        count = self._cores() if threads == "all" else max(1.0, float(threads))
        share = streamed_bytes / count
        if share <= self._number("l1d_bytes"):
            return "l1"
        if share <= self._number("l2_bytes"):
            return "l2"
        return "l3" if streamed_bytes <= self._number("l3_bytes") * self._l3_instances(count) else "dram"

    def _cores(self) -> float:
        used = self.result.plan["placement"].get("cores")
        return float(used) if isinstance(used, int) and used > 0 else max(1.0, self._number("cores"))

    def _l3_instances(self, threads: float) -> float:
        """Instances that so many threads reach, from Google Benchmark's list of caches; 1 where it has none."""
        for cache in self.result.context.get("caches") or []:
            if isinstance(cache, dict) and cache.get("level") == 3 and isinstance(cache.get("num_sharing"), int):
                per_core = max(1.0, self._number("hardware_threads") / max(1.0, self._number("cores")))
                cores = max(1.0, cache["num_sharing"] / per_core)
                return max(1.0, -(-min(threads, max(1.0, self._number("cores"))) // cores))
        return 1.0

    # ---- rates ----

    def _find(self, resource: str, variant: str | None, axes: dict) -> Rate | Missing:
        def fits(case: Case) -> bool:
            named = all(str(case.parameters.get(k)) == v for k, v in axes.items())
            return case.resource == resource and variant in (None, case.variant) and named

        found = [rate_of(c) for c in self.measured if fits(c)]
        if found:
            return max(found, key=lambda r: r.span.value)
        known = next((c for c in self.ceilings if fits(c)), None)
        if known is not None:
            return Missing(resource, f"{known.id}: {known.status.replace('_', ' ')}")
        words = "/".join([variant or resource, *(f"{k}:{v}" for k, v in axes.items())])
        return Missing(resource, f"ceiling/{words}/dev:{self.name}: not in this result")

    def memory(self, level: str, threads: str = "all") -> Rate | Missing:
        """Reading: a decode step writes next to nothing."""
        return self._find("memory", "read", {"level": level} | ({"threads": threads} if self.on_cpu else {}))

    def matrix(self, kind: str, threads: str = "all") -> Rate | Missing:
        """On the CPU all types are widened to f32 and multiplied there; a GPU has tensor cores for all others."""
        if self.on_cpu:
            return self._find("flops.f32", "fma", {"type": "f32", "threads": threads})
        return self._find(f"flops.{kind}", "fma" if kind == "f32" else "tensor", {"type": kind})

    def least_matrix(self, threads: str = "all") -> Rate | Missing:
        """A rate that every type reaches on this device: each of them widens to f32 exactly."""
        return self.matrix("f32", threads)

    def launch(self) -> Rate | Missing:
        return self._find("launch", "launch", {})

    def peer(self) -> Rate | Missing:
        return self._find(PEER, None, {})

    def remedy(self, also=()) -> str:
        """The run whose result holds all that a prediction divides by; it ends when all is done."""
        suites = ",".join(("ceiling", *also))
        return f"assay run --device {self.name} --suite {suites} --budget 10m --out FILE"


def machines(result: Result, device: str | None) -> list:
    """The result's devices, or those of that name or kind."""
    found = [Machine(result, d) for d in result.context["devices"] if device in (None, d["name"], d["kind"])]
    if not found:
        have = ", ".join(d["name"] for d in result.context["devices"])
        raise InputProblem(f"{result.path}: has no device {device}; give --device one of {have or 'another result'}")
    if not any(m.measured for m in found):
        names = ", ".join(m.name for m in found)
        raise InputProblem(f"{result.path}: holds no measured ceiling of {names}; measure them: {found[-1].remedy()}")
    return found
