"""What a result says of how it was made, and the run that does it again. Nothing is taken from elsewhere.

A result may come from a stranger: its values reach the command line as single words after checks of their own, its ids
only where this binary lists them, and a program (--exec) only where the user allows it.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import SCHEMA
from .claims_run import PROFILES, find_command
from .errors import EnvironmentProblem, InputProblem, visible
from .load import read_json
from .readers import Side, read_side
from .shape import Shape

REPEATED = ("done", "failed", "lost")  # statuses of cases that were tried
DURATION = re.compile(r"[0-9]{1,12}(ms|s|m|h|)")
# Options of `run` that only the command line holds, with their other spelling and what a value must look like.
WORDS = {
    "rounds": (("rounds", "benchmark_repetitions"), re.compile(r"[1-9][0-9]{0,4}")),
    "timeout": (("timeout",), DURATION),
    "ceilings": (("ceilings",), re.compile(r"on|off")),
    "exec": (("exec",), re.compile(r".+", re.DOTALL)),
    "name": (("name",), re.compile(r".+", re.DOTALL)),
}


@dataclass
class Recorded:
    """A result and the plan that it tells."""

    path: Path
    raw: dict
    side: Side  # its times, as compare reads them
    seed: str
    profile: str
    budget_ns: int
    launches: int
    cpus: list
    chosen_by_user: bool
    words: dict  # of WORDS, those that were given
    cases: dict  # id to record, those that were tried
    untried: int = 0

    @property
    def context(self) -> dict:
        return self.raw["context"]

    @property
    def is_exec(self) -> bool:
        return any(case["suite"] == "exec" for case in self.cases.values())


@dataclass
class Refusal:
    """Cases that cannot be run here: id to (kind, why)."""

    cases: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)


def read_recorded(path) -> Recorded:
    path = Path(path)
    if path.is_dir():
        raise InputProblem(f"{path}: is a folder; name the one result that is to be reproduced")
    raw, shape = read_json(path), Shape(path)
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, dict) else None
        raise InputProblem(f"{path}: schema is {found!r}, not {SCHEMA}; give a result of `assay run`")
    context, plan = shape.take(raw, "context", dict, "result"), shape.take(raw, "plan", dict, "result")
    placement = shape.take(plan, "placement", dict, "plan")
    out = Recorded(
        path,
        raw,
        read_side(path),
        shape.take(context, "seed", str, "context"),
        shape.take(plan, "profile", str, "plan"),
        int(shape.positive(plan, "budget_ns", "plan")),
        shape.take(plan, "launches", int, "plan"),
        shape.take(placement, "cpus", list, "plan.placement"),
        placement.get("chosen_by") == "user",
        _words(shape, shape.take(context, "argv", list, "context")),
        {},
    )
    if not re.fullmatch(r"[0-9]{1,20}", out.seed):
        shape.fail(f"context.seed is {visible(out.seed)[:40]!r}, not a whole number")
    if out.profile not in PROFILES:
        shape.fail(f"plan.profile is {visible(out.profile)[:40]!r}, not one of {', '.join(PROFILES)}")
    if not 1 <= out.launches <= 1000:
        shape.fail(f"plan.launches is {out.launches}, not from 1 to 1000")
    if not out.cpus or not all(type(cpu) is int and cpu >= 0 for cpu in out.cpus):
        shape.fail("plan.placement.cpus holds no CPU numbers")
    for index, case in enumerate(shape.take(raw, "cases", list, "result")):
        where = f"cases[{index}]"
        name = shape.take(case, "id", str, where)
        shape.take(case, "suite", str, where)
        device = shape.take(case, "device", dict, where)
        shape.take(device, "name", str, f"{where}.device")
        shape.take(device, "kind", str, f"{where}.device")
        shape.take(case, "verification", dict, where)
        if shape.take(case, "status", str, where) in REPEATED:
            out.cases[name] = case
        else:
            out.untried += 1
    return out


def _words(shape: Shape, argv: list) -> dict:
    """Values of WORDS on a command line of `run`, which never takes a word that begins with -- as a value."""
    given = {}
    for at, word in enumerate(argv):
        if not isinstance(word, str):
            shape.fail(f"context.argv[{at}] is no text")
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            continue
        if not equals and at + 1 < len(argv) and isinstance(argv[at + 1], str):
            value = argv[at + 1]
        given[name] = value
    out = {}
    for key, (spellings, pattern) in WORDS.items():
        value = next((given[s] for s in spellings if s in given), None)
        if value is None:
            continue
        if not pattern.fullmatch(value):
            shape.fail(f"context.argv: --{key} {visible(value)[:40]!r} is no value of this option")
        out[key] = value
    return out


def select(recorded: Recorded, devices: list, pattern: str | None) -> None:
    """Keeps the cases of these devices (names or kinds) whose id matches."""
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise InputProblem(f"--filter {pattern}: is no regular expression ({error})") from None
    kept = {}
    for name, case in recorded.cases.items():
        device = case["device"]
        if (not devices or device["name"] in devices or device["kind"] in devices) and wanted.search(name):
            kept[name] = case
    if not kept:
        asked = f" of --device {','.join(devices)}" if devices else ""
        asked += f" that --filter '{pattern}' matches" if pattern else ""
        raise InputProblem(f"{recorded.path}: holds no measured case{asked}; `assay report` shows what it holds")
    recorded.cases = kept


# ---- the run ----


def list_of(cpus: list) -> str:
    """0-3,8"""
    runs: list = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _listed(command: str, profile: str) -> list:
    words = [command, "run", f"--profile={profile}", "--benchmark_list_tests"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{command} does not run: {error}") from None
    if done.returncode != 0:
        raise EnvironmentProblem(f"{command} cannot list its plan: {done.stderr.strip()}")
    return done.stdout.split("\n")


def refusals(recorded: Recorded, command: str, allow_exec: bool) -> Refusal:
    """What cannot be run here, each with its reason."""
    out = Refusal()
    if recorded.is_exec:
        for name in recorded.cases:
            if not recorded.words.get("exec") or not recorded.words.get("name"):
                out.cases[name] = ("not run", "the result keeps no command line of this program")
            elif not allow_exec:
                said = visible(recorded.words["exec"])
                out.cases[name] = ("not run", f"starts the program `{said}`; --allow-exec runs it")
        return out
    listed = set(_listed(command, recorded.profile))
    here = {name.rsplit("/dev:", 1)[-1] for name in listed if "/dev:" in name}
    for name, case in recorded.cases.items():
        device = case["device"]["name"]
        if device not in here:
            out.cases[name] = ("not here", f"no {device} in this machine, or none that this binary can use")
        elif name not in listed:
            out.cases[name] = ("unknown", f"this binary's {recorded.profile} plan has no such case on this machine")
    return out


def run_words(recorded: Recorded, command: str, ids: Path, out: Path, budget: str | None, extra: dict) -> tuple:
    """(command line, notes). `extra`: further options of run that the user gave."""
    notes = []
    words = [command, "run", f"--profile={recorded.profile}", f"--seed={recorded.seed}"]
    words += [f"--launches={recorded.launches}"]
    words += [f"--budget={budget or f'{max(1, recorded.budget_ns // 1_000_000)}ms'}"]
    if "ceilings" in recorded.words:
        words.append(f"--ceilings={recorded.words['ceilings']}")
    words += [f"--{key}={recorded.words[key]}" for key in ("rounds", "timeout") if key in recorded.words]
    if recorded.is_exec:
        words += [f"--exec={recorded.words['exec']}", f"--name={recorded.words['name']}"]
    else:
        words.append(f"--cases={ids}")
    allowed = os.sched_getaffinity(0)
    if set(recorded.cpus) <= allowed:
        if recorded.chosen_by_user or set(recorded.cpus) != allowed:
            words.append(f"--cpus={list_of(recorded.cpus)}")
    else:
        notes.append(f"CPUs {list_of(recorded.cpus)} are not all here: this run took those that it may use")
    words += [f"--{key}={value}" for key, value in extra.items() if value]
    return [*words, f"--out={out}"], notes


def measure(recorded: Recorded, options, folder: Path) -> tuple:
    """Runs what can be run; (path of the new result or None, Refusal). `options`: budget, wait, quiet, allow_exec,
    out."""
    command = find_command()
    refused = refusals(recorded, command, options.allow_exec)
    ids = [name for name in recorded.cases if name not in refused.cases]
    if not ids:
        return None, refused
    listing, out = folder / "cases", Path(options.out) if options.out else folder / "result.json"
    listing.write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
    words, refused.notes = run_words(recorded, command, listing, out, options.budget, {"wait": options.wait})
    if options.quiet:
        words.append("--quiet")
    # Its table would stand before ours; its progress goes to standard error.
    done = subprocess.run(words, stdout=subprocess.DEVNULL, check=False)
    if not out.is_file():
        raise EnvironmentProblem(f"assay run ended with {done.returncode} and no result; its message stands above")
    return out, refused
