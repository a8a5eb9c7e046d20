"""Accepted results: which one a machine is compared with, since when, and why. Rules: docs/nightly.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from . import history
from .errors import InputProblem
from .history import Folder, Machine, Tonight
from .history_files import append_line, read_lines
from .verdicts import MIN_LAUNCHES

SCHEMA = "assay.baseline/1"
FIT_BUILDS = ("Release", "RelWithDebInfo")


@dataclass(frozen=True)
class Baseline:
    """One acceptance."""

    folder: Folder
    accepted: str
    reason: str
    date: datetime  # of the result: changes up to it are acknowledged
    commit: str | None
    result: str
    warnings: list

    @property
    def path(self) -> Path:
        return self.folder.path / self.result


def published() -> Path:
    """Baselines that are committed with the sources."""
    return Path(__file__).resolve().parent.parent / "results" / "baselines"


def accepted(folder: Folder) -> tuple:
    """(acceptances, oldest first, how many lines cannot be read)."""
    rows, broken = read_lines(folder.path / "baseline.jsonl")
    found = []
    for row in rows:
        texts = [row.get(k) for k in ("accepted", "reason", "date", "result")]
        date = history.parse_date(texts[2]) if isinstance(texts[2], str) else None
        if row.get("schema") != SCHEMA or date is None or not all(isinstance(t, str) for t in texts):
            broken += 1
            continue
        warnings = [str(w) for w in row.get("warnings") or []]
        found.append(Baseline(folder, texts[0], texts[1], date, row.get("commit"), texts[3], warnings))
    return found, broken


def current(store, machine: Machine) -> tuple:
    """(the baseline or None, notes). The store's own goes before one committed with the sources."""
    notes = []
    for place in (store, published()):
        folder = Folder(place, machine.key)
        rows, broken = accepted(folder)
        if broken:
            notes.append(f"{folder.path / 'baseline.jsonl'}: {broken} lines cannot be read; repair or delete them")
        if rows:
            return rows[-1], notes
    for place in (store, published()):
        for folder, other in history.relatives(place, machine):
            rows, _ = accepted(folder)
            if rows:
                notes.append(
                    f"a baseline of {rows[-1].date:%Y-%m-%d} is of this machine under {other.software}; tonight is "
                    f"{machine.software}: not compared"
                )
    return None, notes


def doubts(tonight: Tonight) -> tuple:
    """(what forbids it, what --force overrides, warnings) of a result as a baseline."""
    build = tonight.context["assay"]
    never = []
    if build.get("dirty"):
        never.append("its build was dirty: commit, build and measure again")
    if build.get("sanitizers"):
        never.append(f"its build was sanitized ({build['sanitizers']}): measure a release build")
    elif build.get("build_type") not in FIT_BUILDS:
        never.append(f"its build type is {build.get('build_type') or 'unknown'}: measure a release build")
    cases = tonight.side.cases
    failed = [name for name, found in cases.items() if found.status == "failed"]
    if not any(found.status == "done" for found in cases.values()):
        never.append("it has no measured case")
    forced = []
    if failed:
        forced.append(f"{len(failed)} of its cases failed ({', '.join(failed[:3])}): mend them, or pass --force")
    warnings = []
    if tonight.launches < MIN_LAUNCHES:
        warnings.append(
            f"{tonight.launches} launches: compare decides little with fewer than {MIN_LAUNCHES}; "
            f"measure with --launches {MIN_LAUNCHES} or more"
        )
    if build.get("dirty") is None:
        warnings.append("its commit is unknown: build in a git checkout, or set ASSAY_COMMIT")
    suspect = sum(1 for found in cases.values() if found.suspect)
    if suspect:
        warnings.append(f"{suspect} of {len(cases)} cases are suspect")
    return never, forced, warnings


def accept(path, reason: str, store, force: bool = False) -> tuple:
    """(the baseline, warnings). The result is copied into the store."""
    if not reason.strip():
        raise InputProblem("--reason is empty: say why this result is the new baseline")
    tonight = history.read_result(path)
    never, forced, warnings = doubts(tonight)
    stop = never or ([] if force else forced)
    if stop:
        raise InputProblem(f"{path} cannot become a baseline: {'; '.join(stop)}")
    warnings += forced
    folder = Folder(store, tonight.machine.key)
    kept = folder.keep(tonight, "baseline")
    record = {"schema": SCHEMA, "accepted": datetime.now(UTC).isoformat(timespec="seconds"), "reason": reason.strip()}
    record |= {"date": tonight.date.isoformat(), "commit": tonight.context["assay"].get("commit"), "result": kept}
    append_line(folder.path / "baseline.jsonl", record | {"warnings": warnings})
    return accepted(folder)[0][-1], warnings
