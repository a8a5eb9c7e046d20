"""The command line of `assay calibrate`."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from .errors import InputProblem
from .files import print_text, require_writable, write_whole

NEEDS = ("numpy", "scipy")
EPILOG = (
    "exit codes: 0 the study is whole and stands in its file; 2 malformed options, folder or result; 3 the environment "
    "(no such device, a file that cannot be written); 4 time is up: the same command goes on"
)
DEFAULTS = {  # by kind of device: duets, launch pairs, rounds a launch, injected side by side and for stored results
    "cpu": (20, 16, 3, (0.05, 0.20)),
    "cuda": (10, 14, 1, (0.02, 0.05)),
}


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


def settings_of(args):
    from .calibrate_cases import kind_of
    from .calibrate_run import Settings

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


# ---- the command ----


def _offered(command: str, device: str) -> list:
    from .claims_run import output_of

    words = [command, "run", "--device", device, "--profile", "standard", "--suite", "synthetic,matmul,memcpy,launch"]
    return output_of([*words, "--benchmark_list_tests"]).split()


def _target(out: str | None, identity: dict) -> tuple:
    """(file, what stands in it). Only the calibration of this machine is written over."""
    from .calibrate_output import machine_name
    from .calibration import folder, load_calibration
    from .load import read_json

    path = Path(out) if out else folder() / f"{machine_name(identity)}.json"
    require_writable(str(path))
    if not path.exists():
        return path, None
    if load_calibration(path).machine != identity:
        raise InputProblem(f"{path}: is the calibration of another machine; name another file with --out")
    return path, read_json(path)


def _document(settings, cases, sessions: list, notes: list, old: dict | None) -> dict:
    from .calibrate_output import document, merged
    from .calibrate_study import side_by_side, stored

    left_out = [
        f"left out of duet {session.number}: {name} ({session.why_not(name)})"
        for session in sessions
        for name in cases.all
        if not session.measured(name)
    ]
    aim = settings.aim(cases)
    tallies = {
        "side_by_side": side_by_side(sessions, cases, settings.injected[0], aim),
        "stored": stored(sessions, cases, settings.injected[1], aim),
    }
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return merged(old, document(settings, sessions, cases, tallies, notes + left_out, date))


def run(args) -> int:
    from .calibrate_cases import cases_for
    from .calibrate_output import markdown, text
    from .calibrate_run import Clock, TimeUp, measure, open_study, pairs_done, read_sessions
    from .calibration import folder as stored_in
    from .claims_run import find_command

    settings, seconds = settings_of(args), duration(args.time)
    folder = Path(args.folder or f"assay-calibrate-{settings.device}")
    require_writable(args.out or str(stored_in() / "any.json"))
    if args.markdown:
        require_writable(args.markdown)
    command = find_command()
    cases, missing = cases_for(settings.device, _offered(command, settings.device))
    open_study(folder, settings, cases)
    clock = Clock(settings, seconds, sum(pairs_done(folder, settings)))
    try:
        measure(command, folder, settings, cases, clock)
    except TimeUp:
        said = f"{clock.done} of {clock.total} pairs are done; the same command goes on in {folder}"
        print(f"calibrate: the time is up: {said}", file=sys.stderr)
        return 4
    sessions = read_sessions(folder, settings)
    path, old = _target(args.out, sessions[0].a.identity)
    notes = [f"the plan of this binary lacks {name}" for name in missing]
    found = _document(settings, cases, sessions, notes, old)
    write_whole(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    if args.markdown and args.markdown != "-":
        write_whole(Path(args.markdown), markdown(found, settings.device))
    print_text((markdown if args.markdown == "-" else text)(found, settings.device))
    print(f"calibration: {path}", file=sys.stderr)
    return 0
