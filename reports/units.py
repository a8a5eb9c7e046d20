"""Numbers for people: four significant digits, the unit always beside them, GB = 1e9 bytes."""

from __future__ import annotations

import math

TIMES = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
PREFIXES = ((1e-3, "m"), (1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"))
# Units that take a prefix (k, M, G), with the text that follows it.
PREFIXED = {
    "flops_per_s": "FLOP/s",
    "bytes_per_s": "B/s",
    "launches_per_s": " launches/s",
    "additions_per_s": " additions/s",
    "flops": "FLOP",
    "J": "J",
}
PLAIN = {"items_per_s": "items/s", "tokens_per_s": "tokens/s"}
NONE = "–"


def significant(value: float, digits: int = 4) -> str:
    """Fixed notation with `digits` significant digits, trailing zeros kept: columns stay comparable."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if magnitude < -6 or magnitude > 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"


def scale(value: float, unit: str) -> tuple[float, str]:
    """Divisor and unit text under which `value` reads best."""
    if unit == "ns":
        steps, suffix = TIMES, ""
    elif unit in PREFIXED:
        steps, suffix = PREFIXES, PREFIXED[unit]
    else:
        return 1.0, PLAIN.get(unit, unit)
    best = steps[0] if unit == "ns" else (1.0, "")
    for step in steps:
        if abs(value) >= step[0] * 0.99995:
            best = step
    return best[0], (best[1] + suffix).strip()


def quantity(value: float | None, unit: str, digits: int = 4) -> str:
    """`12.34 µs`, `1.234 TB/s`."""
    if value is None:
        return NONE
    divisor, text = scale(value, unit)
    return f"{significant(value / divisor, digits)} {text}".rstrip()


def interval(metric) -> str:
    """`[12.1, 12.5] µs` in the unit of the value."""
    if metric is None or metric.low is None or metric.high is None:
        return NONE
    divisor, text = scale(metric.value, metric.unit)
    return f"[{significant(metric.low / divisor)}, {significant(metric.high / divisor)}] {text}".rstrip()


def percent(fraction: float | None) -> str:
    """One decimal, so that a column lines up; two significant digits where that would read 0.0%."""
    if fraction is None:
        return NONE
    value = 100 * fraction
    return f"{value:.1f}%" if value >= 0.1 or value == 0 else f"{value:.2g}%"


def binary(count: float) -> str:
    """Sizes that are powers of two read as KiB, MiB, GiB; other sizes as plain bytes or kB, MB."""
    for step, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= step and count % (step // 8 if step > 1024 else step) == 0:
            return f"{count / step:g} {name}"
    return decimal(count)


def decimal(count: float) -> str:
    """`80 GB` with GB = 1e9 bytes."""
    for step, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= step:
            return f"{count / step:.4g} {name}"
    return f"{count:.4g} B"
