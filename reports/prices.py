"""Reads a file of prices (TOML): what a machine costs an hour, by its name. Every fault names file and entry."""

from __future__ import annotations

import datetime
import fnmatch
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import labels
from .errors import InputProblem
from .load import Metric, Result

KEYS = {"match": str, "per_hour": (int, float), "currency": str, "source": str, "date": datetime.date}
REMEDY = "docs/prices.toml explains the keys"


@dataclass(frozen=True)
class Price:
    match: str  # pattern of the machine's name or host name, * and ? as in a shell, case ignored
    per_hour: float
    currency: str
    source: str
    date: datetime.date

    def fits(self, result: Result) -> bool:
        names = (labels.machine_name(result), result.context["host_name"])
        return any(fnmatch.fnmatchcase(name.lower(), self.match.lower()) for name in names)


def read(path) -> list:
    """The entries in the file's order; the first that fits a machine counts."""
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputProblem(f"{path}: cannot be read ({error.strerror}); name an existing file of prices") from None
    except UnicodeDecodeError:
        raise InputProblem(f"{path}: not UTF-8 text; {REMEDY}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputProblem(f"{path}: not TOML ({error}); {REMEDY}") from None
    unknown = sorted(set(document) - {"machine"})
    if unknown:
        raise InputProblem(f"{path}: unknown key {unknown[0]!r}; {REMEDY}")
    entries = document.get("machine", [])
    if not isinstance(entries, list) or not entries:
        raise InputProblem(f"{path}: no [[machine]] entry; copy docs/prices.toml and fill in what you pay")
    return [_entry(path, index + 1, entry) for index, entry in enumerate(entries)]


def _entry(path: Path, number: int, entry) -> Price:
    where = f"{path}: [[machine]] number {number}"
    if not isinstance(entry, dict):
        raise InputProblem(f"{where} is no table; {REMEDY}")
    unknown = sorted(set(entry) - set(KEYS))
    if unknown:
        raise InputProblem(f"{where}: unknown key {unknown[0]!r}; {REMEDY}")
    for key, types in KEYS.items():
        value = entry.get(key)
        if value is None:
            raise InputProblem(f"{where} has no {key}; {REMEDY}")
        if isinstance(value, bool) or not isinstance(value, types) or isinstance(value, str) and not value.strip():
            raise InputProblem(f"{where}: {key} has the wrong type or is empty; {REMEDY}")
    if not 0 < entry["per_hour"] < math.inf:
        raise InputProblem(f"{where}: per_hour is {entry['per_hour']}, no number above 0; {REMEDY}")
    date = entry["date"].date() if isinstance(entry["date"], datetime.datetime) else entry["date"]
    words = {k: entry[k] for k in ("match", "currency", "source")}
    return Price(**words, per_hour=float(entry["per_hour"]), date=date)


def of(result: Result, entries: list) -> Price | None:
    return next((p for p in entries if p.fits(result)), None)


def per_million(rate: Metric, price: Price) -> Metric:
    """Cost of a million tokens (or items): price an hour / 3600 s / rate x 1e6. The price is taken as exact, so the
    interval is the rate's."""
    each = price.per_hour / 3600 * 1e6
    low = None if rate.high is None else each / rate.high
    high = None if rate.low is None else each / rate.low
    return Metric(price.currency, each / rate.value, low, high)
