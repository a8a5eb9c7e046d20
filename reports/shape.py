"""Typed access to parsed JSON for the readers: whatever is missing or wrong ends in one line with file and place."""

from __future__ import annotations

import math
import re
from pathlib import Path

from .errors import InputProblem

# A host name that says nothing about the machine: hidden by the user, or the id of a container.
NAMELESS = re.compile(r"|host|localhost|[0-9a-f]{12}")


def median(values: list) -> float:
    """Of few values; faster than numpy or statistics there."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Shape:
    def __init__(self, path: Path, remedy: str = "make it again with `assay run`; `assay validate` lists every fault"):
        self.path, self.remedy = path, remedy

    def fail(self, what: str):
        raise InputProblem(f"{self.path}: {what}; {self.remedy}")

    @staticmethod
    def is_number(value) -> bool:
        return type(value) in (int, float) and math.isfinite(value)

    def take(self, record, key: str, types, where: str):
        if type(record) is not dict:
            self.fail(f"{where} is not an object")
        if key not in record:
            self.fail(f"{where} has no key {key!r}")
        value = record[key]
        if not isinstance(value, types) or (value is True or value is False) and types is not bool:
            self.fail(f"{where}.{key} has the wrong type ({type(value).__name__})")
        return value

    def positive(self, record, key: str, where: str) -> float:
        value = self.take(record, key, (int, float), where)
        if not value > 0:
            self.fail(f"{where}.{key} is {value}, not above 0")
        return value
