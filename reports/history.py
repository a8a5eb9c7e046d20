"""A store of nights: one folder for each machine, driver and toolkit. Formats: docs/nightly.md.

STORE/KEY/machine.json        what the key stands for
STORE/KEY/history.jsonl       one line a night: case to value and interval, or to its failure
STORE/KEY/results/*.json.gz   the whole result of each night
STORE/KEY/baseline.jsonl      acceptances, the last one holds; STORE/KEY/baseline/*.json.gz their results
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scipy import stats as scipy_stats

from .errors import InputProblem
from .history_files import append_line, parsed_lines, write_whole, writing
from .load import read_json
from .readers import Side, machine_identity, read_side
from .shape import NAMELESS, Shape
from .verdicts import LEVEL, side_estimate

NIGHT = "assay.night/1"
MACHINE = "assay.machine/1"
LONGEST_REASON = 200


# ---- the key ----


@dataclass(frozen=True)
class Machine:
    """What two results must share to stand in one history: what `compare` refuses to mix."""

    identity: dict
    host: str | None
    uuids: tuple
    drivers: tuple
    toolkit: str | None

    @property
    def key(self) -> str:
        """A readable name and a hash of all that makes the machine."""
        models = self.identity["accelerators"] or [str(self.identity["cpu_model"] or "machine")]
        name = re.sub(r"[^a-z0-9]+", "-", models[0].lower()).strip("-")[:32]
        digest = hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()
        return f"{name}-{digest[:10]}"

    @property
    def same(self) -> tuple:
        """Equal for one machine under several drivers or toolkits."""
        return json.dumps(self.identity, sort_keys=True), self.host, self.uuids

    @property
    def software(self) -> str:
        parts = [f"driver {', '.join(dict.fromkeys(self.drivers))}"] if self.drivers else ["no GPU driver"]
        return f"{parts[0]}, {self.toolkit or 'no CUDA toolkit'}"

    def record(self) -> dict:
        out = {"schema": MACHINE, "identity": self.identity, "host_name": self.host}
        return out | {"uuids": list(self.uuids), "drivers": list(self.drivers), "toolkit": self.toolkit}


def machine_of(context: dict) -> Machine:
    """Of a result's context. The host's name counts where it says anything; clocks, load and the like never do."""
    host = str(context.get("host_name") or "")
    cards = [d for d in context["devices"] if d.get("kind") != "cpu"]
    return Machine(
        machine_identity(context),
        None if NAMELESS.fullmatch(host) else host,
        tuple(str(d.get("uuid")) for d in cards),
        tuple(f"{d.get('driver')} (API {d.get('driver_api')}, runtime {d.get('runtime')})" for d in cards),
        context["assay"].get("toolkit"),
    )


def read_machine(path: Path) -> Machine:
    raw = read_json(path)
    shape = Shape(path, "delete the file; the next night writes it again")
    if not isinstance(raw, dict) or raw.get("schema") != MACHINE:
        shape.fail(f"is no {MACHINE}")
    lists = [shape.take(raw, name, list, "machine") for name in ("uuids", "drivers")]
    toolkit, host = (shape.take(raw, name, (str, type(None)), "machine") for name in ("toolkit", "host_name"))
    return Machine(shape.take(raw, "identity", dict, "machine"), host, tuple(lists[0]), tuple(lists[1]), toolkit)


# ---- one result, as a night ----


@dataclass(frozen=True)
class Tonight:
    """A result with what the store needs of it."""

    path: Path
    content: bytes  # plain JSON
    context: dict
    plan: dict
    side: Side
    machine: Machine
    date: datetime

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:16]

    @property
    def launches(self) -> int:
        return int(self.plan.get("launches") or 1)


def read_result(path) -> Tonight:
    path = Path(path)
    raw = read_json(path)
    side = read_side(path)  # checks whatever is read below
    if side.tools != ["assay"]:
        raise InputProblem(f"{path}: is a result of {side.tools[0]}; give one of `assay run`")
    context, shape = raw["context"], Shape(path)
    date = parse_date(shape.take(context, "date", str, "context"))
    if date is None:
        shape.fail(f"context.date is {context['date']!r}, no ISO 8601 date")
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    return Tonight(path, content, context, raw["plan"], side, machine_of(context), date)


def parse_date(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def night_line(tonight: Tonight, stored: str) -> dict:
    """The compact record of a night. A case: [value, low, high, launches], or {status, reason}."""
    build = tonight.context["assay"]
    cases, units = {}, {}
    for name, found in tonight.side.cases.items():
        if found.status != "done":
            cases[name] = {"status": found.status, "reason": str(found.reason)[:LONGEST_REASON]}
            continue
        cases[name] = _value(found.launches)
        if (found.unit, found.better) != ("ns", "lower"):
            units[name] = [found.unit, found.better]
    line = {"schema": NIGHT, "key": tonight.machine.key, "date": tonight.date.isoformat(), "digest": tonight.digest}
    line |= {"commit": build.get("commit"), "dirty": build.get("dirty"), "result": stored}
    return line | {"launches": tonight.launches, "cases": cases} | ({"units": units} if units else {})


def _value(launches: list) -> list:
    """Five digits; the interval is that of the launches, null where they are too few."""
    mean, variance, freedom = side_estimate(launches, None)[:3]
    half = math.nan
    if not math.isnan(variance):
        half = float(scipy_stats.t.ppf(1 - LEVEL / 2, freedom)) * math.sqrt(variance)
    ends = [None, None] if math.isnan(half) else [float(f"{math.exp(mean + s * half):.5g}") for s in (-1, 1)]
    return [float(f"{math.exp(mean):.6g}"), *ends, len(launches)]


@dataclass(frozen=True)
class Night:
    date: datetime
    commit: str | None
    digest: str
    result: str
    cases: dict
    units: dict

    def value(self, case: str) -> tuple | None:
        """(value, low, high, launches) of a measured case."""
        found = self.cases.get(case)
        return tuple(found) if isinstance(found, list) else None


def _night(record, key: str) -> Night | str:
    """The night, or what is wrong with the line."""
    if not isinstance(record, dict) or record.get("schema") != NIGHT:
        return f"is no {NIGHT}"
    if record.get("key") != key:
        return f"is of another machine ({str(record.get('key'))[:60]})"
    date = parse_date(record["date"]) if isinstance(record.get("date"), str) else None
    cases, units = record.get("cases"), record.get("units", {})
    if date is None or not isinstance(cases, dict) or not isinstance(units, dict):
        return "has no date or no cases"
    for name, value in cases.items():
        number = isinstance(value, list) and len(value) == 4 and _positive(value[0], value[3])
        if number and value[1] is not None:
            number = _positive(*value[1:3]) and value[1] <= value[2]
        if not number and not (isinstance(value, dict) and isinstance(value.get("status"), str)):
            return f"has no value of {name!r}"
    texts = [record.get("commit"), record.get("digest"), record.get("result")]
    commit, digest, result = (t if isinstance(t, str) else "" for t in texts)
    return Night(date, commit or None, digest, result, cases, units)


def _positive(*values) -> bool:
    return all(Shape.is_number(v) and v > 0 for v in values)


# ---- the store ----


class Folder:
    """STORE/KEY."""

    def __init__(self, store, key: str):
        self.path = Path(store) / key
        self.key = key

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    def nights(self) -> tuple:
        """(nights by date, what was skipped and why). A broken line costs itself alone."""
        if not self.history.exists():
            return [], []
        found, skipped = [], []
        for number, record in parsed_lines(self.history):
            night = record if isinstance(record, str) else _night(record, self.key)
            if isinstance(night, str):
                skipped.append(f"{self.history}:{number}: {night}; skipped: repair or delete the line")
            else:
                found.append(night)
        return sorted(found, key=lambda n: n.date), skipped

    def keep(self, tonight: Tonight, part: str) -> str:
        """The whole result, compressed, under a name of its date; once. Returns the path below the folder."""
        name = f"{part}/{tonight.date:%Y-%m-%dT%H%M%SZ}-{tonight.digest[:8]}.json.gz"
        target = self.path / name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                write_whole(target, gzip.compress(tonight.content, mtime=0))
            machine = self.path / "machine.json"
            if not machine.exists():
                write_whole(machine, (json.dumps(tonight.machine.record(), indent=1) + "\n").encode())
        return name

    def add(self, tonight: Tonight) -> bool:
        """Appends the night, unless the very same result stands there."""
        nights, _ = self.nights()
        if any(n.digest == tonight.digest for n in nights):
            return False
        append_line(self.history, night_line(tonight, self.keep(tonight, "results")))
        return True


def folders(store) -> list:
    """(folder, machine) of each key in the store; what is no such folder is not ours."""
    found = sorted(p.parent for p in Path(store).glob("*/machine.json"))
    return [(Folder(store, p.name), read_machine(p / "machine.json")) for p in found]


def relatives(store, machine: Machine) -> list:
    """(folder, machine) of the same machine under other drivers or toolkits."""
    return [(f, m) for f, m in folders(store) if m.same == machine.same and m.key != machine.key]
