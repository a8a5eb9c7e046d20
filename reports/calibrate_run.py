"""The study of `assay calibrate` on disk: what it is (Settings), its folder, its launches, its time.

folder/calibrate.json              settings and cases, which a study that goes on must agree with
folder/duet-000/a, b, duet.json    one duet each, as duet.run_pairs leaves it
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from . import duet
from .calibrate_cases import SIDE_BY_SIDE, STORED, Cases
from .calibrate_study import Aim, Session
from .duet_judge import read_pairs
from .errors import EnvironmentProblem, InputProblem
from .load import read_json
from .readers import join

MOST_THRESHOLD = 0.02  # compare's default


@dataclass(frozen=True)
class Settings:
    device: str
    pairs: int
    rounds: int
    seed: int
    injected: tuple  # shares by the entries of ASSAY_INJECT
    duets: int

    def threshold(self, entry: int) -> float:
        """Below what is injected: an estimate of a change just as large as the threshold passes every other time."""
        return min(MOST_THRESHOLD, self.injected[entry - 1] / 2)

    def aim(self, cases: Cases) -> Aim:
        return Aim(self.pairs, len(cases.unchanged) + 1, self.threshold(SIDE_BY_SIDE), self.threshold(STORED))

    @property
    def command(self) -> str:
        shares = ",".join(f"{100 * share:.10g}%" for share in self.injected)
        return (
            f"assay calibrate --device {self.device} --duets {self.duets} --pairs {self.pairs} "
            f"--rounds {self.rounds} --inject {shares} --seed {self.seed}"
        )

    @property
    def inject_variable(self) -> str:
        return ",".join(f"{share:.10f}" for share in self.injected)

    @property
    def fixed(self) -> dict:
        """What must stay for a study to go on; duets may be added."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if k != "duets"}


# ---- the study on disk ----


def open_study(folder: Path, settings: Settings, cases: Cases) -> None:
    """Makes the folder, or checks that the study in it is the one that was asked for."""
    head = folder / "calibrate.json"
    wanted = settings.fixed | {"cases": cases.all}
    if head.exists():
        have = read_json(head)
        if not isinstance(have, dict):
            raise InputProblem(f"{head}: is no study of assay calibrate; name another --folder")
        differ = [key for key in wanted if have.get(key) != wanted[key]]
        if differ:
            said = ", ".join(key if key == "cases" else f"{key} is {have.get(key)!r} there" for key in differ)
            raise InputProblem(f"{folder}: holds a study with other settings ({said}); name another --folder")
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise InputProblem(f"{folder}: holds other files and no calibrate.json; name a new or an empty --folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        head.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentProblem(f"{folder}: cannot be made ({error.strerror}); name another --folder") from None


def duet_folder(folder: Path, number: int) -> Path:
    return folder / f"duet-{number:03d}"


def pairs_done(folder: Path, settings: Settings) -> list:
    """Whole pairs by duet."""
    homes = [duet_folder(folder, number) for number in range(settings.duets)]
    return [sum(duet.pair_done(home, k) for k in range(settings.pairs)) for home in homes]


# ---- measuring ----


class TimeUp(Exception):
    """Raised between two pairs."""


class Clock:
    """Progress on standard error, and the end of the time that was given: the longest pair so far must still
    fit. Each call measures a pair at least."""

    def __init__(self, settings: Settings, seconds: float | None, done: int):
        self.total, self.done, self.seconds = settings.duets * settings.pairs, done, seconds
        self.begin = self.last = time.monotonic()
        self.measured, self.longest = 0, 0.0

    def tick(self, after_a_pair: bool) -> None:
        now = time.monotonic()
        if after_a_pair:
            self.done, self.measured = self.done + 1, self.measured + 1
            self.longest = max(self.longest, now - self.last)
        elif self.measured:
            return  # between two duets
        self.last, spent = now, now - self.begin
        left = f", about {self._minutes_left(spent):.0f} min left" if self.measured else ""
        print(f"calibrate: pair {self.done} of {self.total}{left}", file=sys.stderr, flush=True)
        late = self.seconds is not None and spent + self.longest > self.seconds
        if late and self.measured and self.done < self.total:
            raise TimeUp

    def _minutes_left(self, spent: float) -> float:
        return spent / self.measured * (self.total - self.done) / 60


def measure(command: str, folder: Path, settings: Settings, cases: Cases, clock: Clock) -> None:
    """The pairs that the study lacks, one duet after the other. TimeUp ends it between two pairs."""
    hidden = {"ASSAY_ANONYMOUS": "1"}
    a = duet.Side("nothing injected", (command,), hidden | {"ASSAY_INJECT": "0,0"})
    b = duet.Side("injected", (command,), hidden | {"ASSAY_INJECT": settings.inject_variable})
    # Orders differ from duet to duet; inputs must not, or no launch could be compared with one of another duet. The
    # seed that stands last on the command line holds.
    options = ("--device", settings.device, "--rounds", str(settings.rounds), "--seed", str(settings.seed))
    for number, done in enumerate(pairs_done(folder, settings)):
        if done == settings.pairs:
            continue
        calls = iter([False])  # run_pairs reports before its first launch, then after each pair
        duet.run_pairs(
            a,
            b,
            duet_folder(folder, number),
            settings.pairs,
            cases=cases.all,
            seed=settings.seed + number,
            options=options,
            progress=lambda *_, calls=calls: clock.tick(next(calls, True)),
        )


# ---- reading ----


def read_sessions(folder: Path, settings: Settings) -> list:
    """One Session a duet; InputProblem where they are not of one machine, one binary and whole."""
    out, binaries = [], set()
    for number in range(settings.duets):
        home = duet_folder(folder, number)
        pairs = read_pairs(home)
        binaries |= {side.get("sha256") for side in pairs.head["sides"]}
        if len(binaries) > 1:
            raise InputProblem(f"{home}: was measured with another binary than the duets before it; start anew")
        if pairs.count != settings.pairs:
            raise InputProblem(f"{home}: holds {pairs.count} pairs, not {settings.pairs}; name another --folder")
        session = Session(number, *(join(home / s, getattr(pairs, s), set()) for s in duet.SIDES), pairs)
        for side in (session.a, session.b):
            if side.identity is None or side.tools != ["assay"]:
                raise InputProblem(f"{side.path}: holds results of another tool; remove them and go on")
            if side.inner:
                raise InputProblem(f"{side.path}: its launches differ: {side.inner[0][1]}; start anew")
            if side.identity != (out or [session])[0].a.identity:
                raise InputProblem(f"{side.path}: was measured on another machine than the duets before; start anew")
        out.append(session)
    return out
