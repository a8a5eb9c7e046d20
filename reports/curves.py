"""The run's telemetry as a report needs it: times in seconds, columns by device, and which suite ran when."""

from __future__ import annotations

import math
from dataclasses import dataclass

FEWEST = 5  # rows below which there is no curve to see
JOIN = 0.004  # of the run's length: rounds of one suite closer than this are one span


@dataclass(frozen=True)
class Curves:
    seconds: list  # since the first sample
    devices: dict  # device to {column: values, None where unknown}
    spans: list  # (suite, device, begin, end) in seconds


def curves(reader, raw: dict) -> Curves | None:
    """None where the run has no telemetry (switched off, or older than it) or too little of it."""
    run = raw.get("telemetry")
    if run is None:
        return None
    times = reader.take(run, "time_ns", list, "telemetry")
    if not all(_number(x) for x in times):
        reader.fail("telemetry.time_ns holds something that is no number")
    if len(times) < FEWEST:
        return None
    devices = {}
    for index, column in enumerate(reader.take(run, "columns", list, "telemetry")):
        where = f"telemetry.columns[{index}]"
        values = reader.take(column, "values", list, where)
        if len(values) != len(times) or not all(x is None or _number(x) for x in values):
            reader.fail(f"{where}.values are not one number or null for each time")
        device, name = reader.take(column, "device", str, where), reader.take(column, "name", str, where)
        devices.setdefault(device, {})[name] = values
    return Curves([(x - times[0]) * 1e-9 for x in times], devices, _spans(reader, raw, times))


def _number(x) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


def _spans(reader, raw: dict, times: list) -> list:
    """Rounds in the order of time; neighbours of one suite on one device are joined."""
    rounds = []
    for record in raw["cases"]:
        for row in reader.take(record, "rounds", list, "cases"):
            begin, end = (reader.number(row, key, "cases.rounds") for key in ("begin_ns", "end_ns"))
            if begin is not None and end is not None and end >= times[0] and begin <= times[-1]:
                rounds.append((begin, end, record["suite"], record["device"]["name"]))
    gap, out = JOIN * (times[-1] - times[0]), []
    for begin, end, suite, device in sorted(rounds):
        if out and out[-1][2:] == (suite, device) and begin - out[-1][1] <= gap:
            out[-1] = (out[-1][0], max(out[-1][1], end), suite, device)
        else:
            out.append((begin, end, suite, device))
    return [(suite, device, (a - times[0]) * 1e-9, (b - times[0]) * 1e-9) for a, b, suite, device in out]
