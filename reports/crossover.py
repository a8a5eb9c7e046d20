"""From which size on a GPU pays: where two measured curves of time over size cross, with the interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .load import Metric


@dataclass(frozen=True)
class Crossover:
    """`kind`: "crosses" (value is set); "always", "never" or "falls" (at some size, but not at the largest) within the
    sizes compared; "none": fewer than two sizes. `low` or `high` is None where the interval's end lies outside of
    these sizes."""

    kind: str
    first: float | None  # smallest and largest size that both have
    last: float | None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    gains: tuple = ()  # (size, time of the CPU over that of the GPU)


def _crossing(sizes: list, heights: list) -> float | None:
    """Size at which the polygon over log(size) last rises through 0 and stays above; None where it does not."""
    for i in range(len(sizes) - 2, -1, -1):
        if heights[i + 1] <= 0:
            return None
        if heights[i] <= 0:
            share = -heights[i] / (heights[i + 1] - heights[i])
            a, b = math.log(sizes[i]), math.log(sizes[i + 1])
            return math.exp(a + share * (b - a))
    return None


def _ends(metric: Metric) -> tuple:
    low = metric.value if metric.low is None else metric.low
    high = metric.value if metric.high is None else metric.high
    return low, high


def crossover(cpu: dict, gpu: dict) -> Crossover:
    """`cpu` and `gpu`: size to Metric of time. g(n) = ln(t_cpu / t_gpu) is taken as straight between neighbouring
    sizes over ln n; the crossover is where it last rises through 0. The interval comes from the same of the curves
    ln(cpu.low / gpu.high) and ln(cpu.high / gpu.low): the ends of both times at once, so it is a wide one."""
    sizes = sorted(n for n in cpu.keys() & gpu.keys() if n > 0)
    if not sizes:
        return Crossover("none", None, None)
    first, last = float(sizes[0]), float(sizes[-1])
    middle = [math.log(cpu[n].value / gpu[n].value) for n in sizes]
    gains = tuple((n, math.exp(g)) for n, g in zip(sizes, middle, strict=True))
    if len(sizes) < 2:
        return Crossover("none", first, last, gains=gains)
    value = _crossing(sizes, middle)
    if value is None:
        paying = [g > 0 for g in middle]
        kind = "always" if all(paying) else "falls" if any(paying) else "never"
        return Crossover(kind, first, last, gains=gains)
    late = [math.log(_ends(cpu[n])[0] / _ends(gpu[n])[1]) for n in sizes]
    early = [math.log(_ends(cpu[n])[1] / _ends(gpu[n])[0]) for n in sizes]
    return Crossover("crosses", first, last, value, _crossing(sizes, early), _crossing(sizes, late), gains)
