"""`assay claims FILE --id X --run`: measures just the cases that one claim selects."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from .claims_file import Claim
from .claims_language import walk
from .claims_measured import Unknown, Untestable, check_selection, full_parameters, suite_entry
from .errors import EnvironmentProblem, InputProblem

PROFILES = ("quick", "standard", "publish")
NEEDS_CEILINGS = ("fraction",)


def find_command() -> str:
    """$ASSAY_COMMAND, which `assay` sets; else bin/assay beside the package's share/assay."""
    asked = os.environ.get("ASSAY_COMMAND")
    beside = Path(__file__).absolute().parents[3] / "bin" / "assay"
    for candidate in [asked] if asked else [str(beside)]:
        if os.access(candidate, os.X_OK) and Path(candidate).is_file():
            return candidate
    raise EnvironmentProblem(
        f"the command to measure with is not at {asked or beside}: start `assay claims`, or set ASSAY_COMMAND"
    )


def output_of(command: list) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{command[0]} does not run: {error}") from None
    if done.returncode != 0:
        raise EnvironmentProblem(f"{' '.join(command[:2])} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def catalogue(command: str) -> dict:
    try:
        return json.loads(output_of([command, "list", "--json"]))
    except ValueError:
        raise EnvironmentProblem(f"{command} list --json gave no JSON; set ASSAY_COMMAND to a whole build") from None


def needed_ids(claim: Claim, offered: dict, listed: list) -> tuple:
    """(ids of the plan that the claim selects, what it selects beside them)."""
    found, missing = [], []
    for variables in claim.instances():
        for selection in claim.selections(variables).values():
            try:
                check_selection(selection, offered)
            except (Unknown, Untestable) as reason:
                missing.append(str(reason))
                continue
            pattern = _id_pattern(selection, suite_entry(offered, selection["suite"]))
            match = next((i for i in listed if pattern.fullmatch(i)), None)
            (missing if match is None else found).append(match or f"the plan has no {_words(selection)}")
    return list(dict.fromkeys(found)), list(dict.fromkeys(missing))


def _words(selection: dict) -> str:
    return ", ".join(f"{k} {v}" for k, v in selection.items())


def _id_pattern(selection: dict, suite: dict) -> re.Pattern:
    """How the harness writes the id of these fields: axes at their default left out, any device of the kind."""
    full = full_parameters(selection, suite)
    axes = [f"{a['name']}:{full[a['name']]}" for a in suite["axes"] if full[a["name"]] != str(a["default"])]
    text = "/".join([selection["suite"], selection["variant"], *axes, f"dev:{selection['device']}"])
    return re.compile(re.escape(text) + r"\d*")


def measure(claim: Claim, check, budget: str, keep: str | None, folder: str) -> tuple:
    """Runs the claim's cases; (path of the result, what the plan has not). `check` raises for an illegal selection.
    The result goes to `keep`, else into `folder`. Without a case to run the path is None."""
    command = find_command()
    offered = catalogue(command)
    check(claim, offered)
    best: tuple = ([], [], PROFILES[0])
    for profile in PROFILES:
        listed = output_of([command, "run", "--profile", profile, "--benchmark_list_tests"]).split()
        found, missing = needed_ids(claim, offered, listed)
        if len(found) > len(best[0]) or profile == PROFILES[0]:
            best = (found, missing, profile)
        if not missing:
            break
    ids, missing, profile = best
    if not ids:
        return None, missing
    cases = Path(folder) / "cases"
    cases.write_text("".join(f"{i}\n" for i in ids), encoding="utf-8")
    out = Path(keep) if keep else Path(folder) / "result.json"
    if keep and out.exists():
        raise InputProblem(f"{out}: exists already; --out names a new file")
    ceilings = any(n.form == "call" and n.value in NEEDS_CEILINGS for n in walk(claim.test.node))
    words = [command, "run", "--profile", profile, "--cases", str(cases), "--budget", budget, "--quiet"]
    words += ["--ceilings", "on" if ceilings else "off", "--out", str(out)]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, check=False)
    if not out.is_file():
        raise EnvironmentProblem(f"assay run ended with {done.returncode} and no result")
    return out, missing
