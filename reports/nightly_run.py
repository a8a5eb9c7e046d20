"""Measures the cases that looked slower once more, in the same way, with more launches."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .claims_run import find_command
from .errors import EnvironmentProblem
from .history import Tonight
from .nightly_history import counted

MORE = 2  # times the launches of the night
LEAST_BUDGET_S = 30


def budget_s(tonight: Tonight, count: int) -> int:
    """A part of the night's budget, by the share of the cases, for twice the launches; never more than the night's."""
    whole = tonight.plan.get("budget_ns", 0) * 1e-9
    return max(LEAST_BUDGET_S, int(min(whole, MORE * whole * count / max(1, len(tonight.side.cases)))))


def repeater(options: list, folder: Path):
    """`options` are those of `assay run` that the night was measured with; what follows them goes before."""

    def measure(tonight: Tonight, names: list) -> Path:
        command = find_command()
        cases, out = folder / "suspects.txt", folder / "repeat.json"
        try:
            cases.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
            out.unlink(missing_ok=True)
        except OSError as error:
            raise EnvironmentProblem(f"{cases}: cannot be written ({error.strerror}); name another -o DIR") from None
        seconds = budget_s(tonight, len(names))
        words = [command, "run", *options, "--profile", str(tonight.plan["profile"]), "--seed", tonight.context["seed"]]
        words += ["--cases", str(cases), "--launches", str(MORE * tonight.launches), "--budget", f"{seconds}s"]
        words += ["--ceilings", "off", "--quiet", "--out", str(out)]
        print(f"{counted(len(names), 'suspect')} to measure once more, {seconds} s of budget", flush=True)
        done = subprocess.run(words, stdout=subprocess.DEVNULL, check=False)
        if not out.is_file():
            raise EnvironmentProblem(
                f"the suspects could not be measured again: assay run ended with {done.returncode}"
            )
        return out

    return measure
