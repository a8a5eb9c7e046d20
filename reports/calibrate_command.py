"""The command line of `assay calibrate`, and its study on disk: folder/duet-000/a, b and folder/calibrate.json."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from .errors import EnvironmentProblem, InputProblem

NEEDS = ("numpy", "scipy")
EPILOG = (
    "exit codes: 0 the study is whole and stands in its file; 2 malformed options, folder or result; 3 the environment "
    "(no such device, a file that cannot be written); 4 time is up: the same command goes on"
)
DEFAULTS = {  # by kind of device: duets, launch pairs, rounds a launch, injected side by side and for stored results
    "cpu": (20, 16, 3, (0.05, 0.20)),
    "cuda": (10, 14, 1, (0.02, 0.05)),
}
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


def add_parser(commands):
    parser = commands.add_parser("calibrate", help="how small a change this machine lets compare see", epilog=EPILOG)
    parser.add_argument("--device", default="cpu", metavar="NAME", help="one device: cpu, cuda0 (default cpu)")
    parser.add_argument("--duets", metavar="N", help="sessions of launch pairs (default 20, on a GPU 10)")
    parser.add_argument("--pairs", metavar="N", help="launch pairs a duet (default 16, on a GPU 14)")
    parser.add_argument("--rounds", metavar="N", help="rounds of a case in a launch (default 3, on a GPU 1)")
    parser.add_argument(
        "--inject",
        metavar="P[,Q]",
        help="slow-down to find side by side, and against a stored result (default 5%%,20%%; on a GPU 2%%,5%%)",
    )
    parser.add_argument("--seed", default="42", metavar="N", help="seed of inputs and orders (default 42)")
    parser.add_argument("--folder", metavar="DIR", help="keeps the launches (default assay-calibrate-DEVICE)")
    parser.add_argument("--time", metavar="TIME", help="stop after that wall time, between two pairs: 9m, 500s")
    parser.add_argument("--out", metavar="FILE", help="default results/calibration/MACHINE.json, where compare looks")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown too; - for standard output")
    return parser


# ---- options ----


def _count(name: str, word: str | None, default: int, least: int, most: int) -> int:
    if word is None:
        return default
    if not (word.isascii() and word.isdigit() and least <= int(word[:9]) <= most and len(word) < 10):
        raise InputProblem(f"--{name} {word}: give a whole number from {least} to {most}")
    return int(word)


def shares(word: str) -> tuple:
    """`5%`, `5%,20%`, with or without the sign; one share serves both kinds."""
    out = []
    for part in word.split(","):
        number = part.strip().removesuffix("%")
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", number) or not 0.1 <= float(number) <= 1000:
            raise InputProblem(f"--inject {word}: give one or two percentages from 0.1% to 1000%: 5%,20%")
        out.append(float(number) / 100)
    if len(out) > 2:
        raise InputProblem(f"--inject {word}: give one or two percentages: 5%,20%")
    return (out[0], out[-1])


def duration(word: str | None) -> float | None:
    """Seconds, as the durations of `assay run`."""
    if word is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|)", word)
    if not match or int(match[1]) == 0:
        raise InputProblem(f"--time {word}: give a whole number above 0 with ms, s, m or h: 9m, 500s")
    return int(match[1]) * {"ms": 1e-3, "s": 1, "m": 60, "h": 3600, "": 1}[match[2]]


def settings_of(args) -> Settings:
    from .calibrate_cases import kind_of

    duets, pairs, rounds, injected = DEFAULTS[kind_of(args.device)]
    seed = args.seed
    if not (seed.isascii() and seed.isdigit() and len(seed) < 19):
        raise InputProblem(f"--seed {seed}: give a whole number of at most 18 digits")
    return Settings(
        args.device,
        _count("pairs", args.pairs, pairs, 6, 1000),
        _count("rounds", args.rounds, rounds, 1, 1000),
        int(seed),
        injected if args.inject is None else shares(args.inject),
        _count("duets", args.duets, duets, 1, 1000),
    )


# ---- the study on disk ----


def _open_folder(folder: Path, settings: Settings, cases) -> None:
    """Makes the folder, or checks that the study in it is the one that was asked for."""
    from .load import read_json

    head = folder / "calibrate.json"
    wanted = settings.fixed | {"cases": cases.all}
    if head.exists():
        have = read_json(head)
        if not isinstance(have, dict):
            raise InputProblem(f"{head}: is no study of assay calibrate; name another --folder")
        differ = [key for key in wanted if have.get(key) != wanted[key]]
        if differ:
            said = ", ".join(f"{k} is {have.get(k)!r} there" if k != "cases" else "cases" for k in differ)
            raise InputProblem(f"{folder}: holds a study with other settings ({said}); name another --folder")
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise InputProblem(f"{folder}: holds other files and no calibrate.json; name a new or empty --folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        head.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentProblem(f"{folder}: cannot be made ({error.strerror}); name another --folder") from None


def duet_folder(folder: Path, number: int) -> Path:
    return folder / f"duet-{number:03d}"


def pairs_done(folder: Path, settings: Settings) -> list:
    """Whole pairs by duet."""
    out = []
    for number in range(settings.duets):
        home = duet_folder(folder, number)
        files = ((home / side / f"{k:04d}.json" for side in "ab") for k in range(settings.pairs))
        out.append(sum(all(f.is_file() for f in pair) for pair in files))
    return out


class TimeUp(Exception):
    """Raised between two pairs."""


class Clock:
    """Progress on standard error, and the end of the time that was given. The longest pair so far must still fit."""

    def __init__(self, settings: Settings, seconds: float | None, done: int):
        self.total, self.done, self.seconds = settings.duets * settings.pairs, done, seconds
        self.begin = self.last = time.monotonic()
        self.measured, self.longest = 0, 0.0

    def tick(self, new: bool) -> None:
        now = time.monotonic()
        if new:
            self.done, self.measured = self.done + 1, self.measured + 1
            self.longest = max(self.longest, now - self.last)
        self.last, spent = now, now - self.begin
        rate = spent / self.measured if self.measured else None
        left = f", about {rate * (self.total - self.done) / 60:.0f} min left" if rate else ""
        print(f"calibrate: pair {self.done} of {self.total}{left}", file=sys.stderr, flush=True)
        if self.done < self.total and self.seconds is not None and spent + self.longest > self.seconds:
            raise TimeUp


def _run(command: str, folder: Path, settings: Settings, cases, clock: Clock) -> None:
    from . import duet

    common = {"ASSAY_ANONYMOUS": "1"}
    a = duet.Side("unchanged", (command,), common | {"ASSAY_INJECT": "0,0"})
    b = duet.Side("injected", (command,), common | {"ASSAY_INJECT": settings.inject_variable})
    # Orders differ from duet to duet; inputs must not, or no launch could be compared with one of another duet: the
    # seed that stands last holds.
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


def read_sessions(folder: Path, settings: Settings) -> list:
    from .calibrate_study import Session
    from .duet import read_head
    from .readers import read_side

    out, binaries = [], set()
    for number in range(settings.duets):
        home = duet_folder(folder, number)
        binaries |= {side.get("sha256") for side in read_head(home)["sides"]}
        if len(binaries) > 1:
            raise InputProblem(f"{home}: was measured with another binary than the duets before it; start anew")
        session = Session(number, read_side(home / "a"), read_side(home / "b"))
        for side in (session.a, session.b):
            if side.files != settings.pairs:
                raise InputProblem(
                    f"{side.path}: holds {side.files} results, not {settings.pairs}; remove what is not of this study"
                )
            if side.identity is None or side.tools != ["assay"]:
                raise InputProblem(f"{side.path}: holds results of another tool; remove them")
            if side.inner:
                raise InputProblem(f"{side.path}: its launches differ: {side.inner[0][1]}; measure them again alike")
            if out and side.identity != out[0].a.identity:
                raise InputProblem(f"{side.path}: was measured on another machine than {out[0].a.path}; start anew")
        out.append(session)
    return out


# ---- the command ----


def _offered(command: str, settings: Settings) -> list:
    from .claims_run import _output

    words = [command, "run", "--device", settings.device, "--suite", "synthetic,matmul,memcpy,launch"]
    return _output([*words, "--benchmark_list_tests"]).split()


def _target(args, sessions: list) -> tuple:
    """(file, what stands in it)."""
    from .calibrate_output import machine_name
    from .calibration import folder, load_calibration
    from .load import read_json

    identity = sessions[0].a.identity
    path = Path(args.out) if args.out else folder() / f"{machine_name(identity)}.json"
    if not path.exists():
        return path, None
    if load_calibration(path).machine != identity:
        raise InputProblem(f"{path}: is the calibration of another machine; name another file with --out")
    return path, read_json(path)


def analyse(settings: Settings, cases, notes: list, old: dict | None, sessions: list) -> dict:
    from .calibrate_cases import SIDE_BY_SIDE, STORED
    from .calibrate_output import document, merged
    from .calibrate_study import side_by_side, stored

    left_out = [
        f"left out of duet {session.number}: {name} ({session.why_not(name)})"
        for session in sessions
        for name in cases.all
        if not session.measured(name)
    ]
    tallies = {
        "side_by_side": side_by_side(sessions, cases, settings.injected[0], settings.threshold(SIDE_BY_SIDE)),
        "stored": stored(sessions, cases, settings.injected[1], settings.threshold(STORED), settings.pairs),
    }
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return merged(old, document(settings, sessions, cases, tallies, notes + left_out, date))


def run(args) -> int:
    from .calibrate_cases import cases_for
    from .calibrate_output import markdown, text
    from .claims_run import find_command
    from .compare_command import _print, _writable, _write

    settings, seconds = settings_of(args), duration(args.time)
    folder = Path(args.folder or f"assay-calibrate-{settings.device}")
    for target in (args.out, args.markdown):
        if target:
            _writable(target)
    command = find_command()
    cases, missing = cases_for(settings.device, _offered(command, settings))
    notes = [f"the plan of this binary lacks {name}" for name in missing]
    _open_folder(folder, settings, cases)
    clock = Clock(settings, seconds, sum(pairs_done(folder, settings)))
    try:
        _run(command, folder, settings, cases, clock)
    except TimeUp:
        said = f"{clock.done} of {clock.total} pairs are done; the same command goes on in {folder}"
        print(f"calibrate: the time is up: {said}", file=sys.stderr)
        return 4
    sessions = read_sessions(folder, settings)
    path, old = _target(args, sessions)
    found = analyse(settings, cases, notes, old, sessions)
    _write(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    if args.markdown and args.markdown != "-":
        _write(Path(args.markdown), markdown(found, settings.device))
    _print((markdown if args.markdown == "-" else text)(found, settings.device))
    print(f"calibration: {path}", file=sys.stderr)
    return 0
