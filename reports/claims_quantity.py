"""Numbers with a unit and an interval, for claims. docs/claims.md states the rules for users.

A quantity remembers how it depends on each measured figure: its slope against that figure's logarithm. Errors then
combine by the delta method, and a figure that stands twice in an expression is the same figure both times, so that
time(a) / time(a) is exactly 1.

    se(q)^2 = sum (slope_i se_i)^2            se_i: standard error of log(figure i)
    df      = se(q)^4 / sum((slope_i se_i)^4 / df_i)                    (Welch and Satterthwaite)
    half    = t(df) se(q)

For time(a) / time(b) this is Welch's interval on the logarithms of the unit medians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from scipy import stats as scipy_stats

from .units import quantity as time_or_rate
from .units import significant

BASES = ("s", "B", "FLOP", "J", "USD")
PLAIN = (0,) * len(BASES)


def _base(index: int) -> tuple:
    return tuple(int(i == index) for i in range(len(BASES)))


TIME, BYTES, FLOPS, ENERGY, MONEY = (_base(i) for i in range(len(BASES)))


def _power(dimension: tuple, exponent: int) -> tuple:
    return tuple(d * exponent for d in dimension)


def product(a: tuple, b: tuple, sign: int = 1) -> tuple:
    """Dimension of a b, or of a / b with sign -1."""
    return tuple(x + sign * y for x, y in zip(a, b, strict=True))


def _units() -> dict:
    prefixes = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    out = {"%": (0.01, PLAIN), "s": (1.0, TIME), "ms": (1e-3, TIME), "us": (1e-6, TIME), "ns": (1e-9, TIME)}
    out |= {"min": (60.0, TIME), "h": (3600.0, TIME), "Hz": (1.0, _power(TIME, -1))}
    out |= {"B": (1.0, BYTES), "bit": (0.125, BYTES), "FLOP": (1.0, FLOPS), "J": (1.0, ENERGY), "USD": (1.0, MONEY)}
    out |= {"W": (1.0, product(ENERGY, TIME, -1)), "kW": (1e3, product(ENERGY, TIME, -1)), "Wh": (3600.0, ENERGY)}
    out |= {"kWh": (3.6e6, ENERGY), "KiB": (1024.0, BYTES), "MiB": (1024.0**2, BYTES), "GiB": (1024.0**3, BYTES)}
    for prefix, factor in prefixes.items():
        for unit in ("B", "bit", "FLOP", "Hz"):
            out[prefix + unit] = (out[unit][0] * factor, out[unit][1])
    return out


UNITS = _units()  # name to (factor to base units, dimension)


def parse_unit(text: str) -> tuple | None:
    """(factor, dimension) of `ms`, `GB/s`, `%`; None for an unknown unit."""
    top, slash, bottom = text.partition("/")
    if top not in UNITS or slash and (bottom not in UNITS or bottom == "%"):
        return None
    factor, dimension = UNITS[top]
    if slash:
        factor, dimension = factor / UNITS[bottom][0], product(dimension, UNITS[bottom][1], -1)
    return factor, dimension


def dimension_text(dimension: tuple) -> str:
    """`B/s`, `plain number`."""
    above = [b if d == 1 else f"{b}^{d}" for b, d in zip(BASES, dimension, strict=True) if d > 0]
    below = [b if d == -1 else f"{b}^{-d}" for b, d in zip(BASES, dimension, strict=True) if d < 0]
    if not above and not below:
        return "plain number"
    return "/".join([" ".join(above) or "1", *below])


@dataclass(frozen=True)
class Figure:
    """One measured figure. `error` is the standard error of its logarithm, widened as its interval was; None where
    it has no interval. `freedom`: degrees of freedom of that error."""

    key: tuple
    error: float | None
    freedom: float


@dataclass(frozen=True)
class Quantity:
    value: float
    dimension: tuple = PLAIN
    slopes: dict = field(default_factory=dict)  # Figure to d(value) / d(log figure)

    @property
    def exact(self) -> bool:
        return not self.slopes

    def _with(self, value: float, dimension: tuple, *terms) -> Quantity:
        slopes: dict = {}
        for quantity, factor in terms:
            for figure, slope in quantity.slopes.items():
                slopes[figure] = slopes.get(figure, 0.0) + factor * slope
        return Quantity(value, dimension, slopes)

    def plus(self, other: Quantity, sign: int = 1) -> Quantity:
        return self._with(self.value + sign * other.value, self.dimension, (self, 1.0), (other, float(sign)))

    def times(self, other: Quantity) -> Quantity:
        dimension = product(self.dimension, other.dimension)
        return self._with(self.value * other.value, dimension, (self, other.value), (other, self.value))

    def over(self, other: Quantity) -> Quantity:
        value = self.value / other.value
        dimension = product(self.dimension, other.dimension, -1)
        return self._with(value, dimension, (self, 1 / other.value), (other, -value / other.value))

    def power(self, exponent: float) -> Quantity:
        value = self.value**exponent
        slope = exponent * self.value ** (exponent - 1) if self.slopes else 0.0
        dimension = tuple(d * int(exponent) for d in self.dimension) if any(self.dimension) else PLAIN
        return self._with(value, dimension, (self, slope))

    def mapped(self, value: float, slope: float, dimension: tuple = PLAIN) -> Quantity:
        """A function of one quantity: its value, and its derivative there."""
        return self._with(value, dimension, (self, slope))

    def half_width(self, confidence: float) -> float | None:
        """Half-width on the scale of the value; 0 where it is exact, None where a figure has no interval."""
        parts = [(slope, figure) for figure, slope in self.slopes.items() if slope != 0]
        if any(figure.error is None for _, figure in parts):
            return None
        variances = [((slope * figure.error) ** 2, figure.freedom) for slope, figure in parts]
        total = math.fsum(v for v, _ in variances)
        if total == 0:
            return 0.0
        freedom = 1 / math.fsum((v / total) ** 2 / df for v, df in variances)  # scaled: squares of tiny numbers vanish
        return float(scipy_stats.t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(total)

    def interval(self, confidence: float) -> tuple:
        """(low, high): on the logarithm for a positive value, else on the value. (None, None) where there is none."""
        half = self.half_width(confidence)
        if half is None:
            return None, None
        if half == 0:
            return self.value, self.value
        if self.value > 0 and half / self.value < 50:
            return self.value * math.exp(-half / self.value), self.value * math.exp(half / self.value)
        return self.value - half, self.value + half


def number(value: float) -> str:
    """Four significant digits, a minus sign and thousands kept readable."""
    return f"{value:.0f}" if 10000 <= abs(value) < 1e7 else significant(value)


def _form(dimension: tuple) -> tuple | None:
    """(factor from base units, the unit's name in reports.units) for the dimensions that have prefixes there."""
    return {
        TIME: (1e9, "ns"),
        product(BYTES, TIME, -1): (1.0, "bytes_per_s"),
        product(FLOPS, TIME, -1): (1.0, "flops_per_s"),
    }.get(dimension)


def _decimal_bytes(value: float) -> str:
    for step, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= step:
            return f"{significant(value / step)} {name}"
    return f"{number(value)} B"


def shown(value: float, dimension: tuple, unit: str | None = None) -> str:
    """`12.34 ms`, `55.42 GB/s`, `1.840`; in `unit` where one is asked for."""
    if unit is not None:
        return f"{number(value / parse_unit(unit)[0])}{'' if unit == '%' else ' '}{unit}"
    form = _form(dimension)
    if form is not None:
        return time_or_rate(value * form[0], form[1])
    if dimension == BYTES:
        return _decimal_bytes(value)
    if dimension == PLAIN:
        return number(value)
    return f"{number(value)} {dimension_text(dimension)}"
