"""Two builds side by side: launches in turns, random order within each pair. Protocol and formulas: docs/duet.md.

`run_pairs` measures, `read_pairs` and `judge` (in duet_judge.py) read what it left:

    folder/duet.json                    sides, seed, orders, cases; what a resumed duet must agree with
    folder/cases                        the ids, one a line, as both builds get them
    folder/a/0000.json, b/0000.json     pair 0: one launch of each side, a result of `assay run` each
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from .errors import EnvironmentProblem, InputProblem
from .load import read_json

SCHEMA = "assay.duet/1"
LEAST_PAIRS = 6
BLOCK = 4  # pairs in which each side goes first equally often
SIDES = ("a", "b")
RECORDED = (0, 1, 4)  # exit codes of `assay run` that leave a whole result: done, failed cases, nothing fitted


class LaunchProblem(EnvironmentProblem):
    """A launch of `side`, "a" or "b", left no result."""

    def __init__(self, side: str, text: str):
        super().__init__(text)
        self.side = side


@dataclass(frozen=True)
class Side:
    label: str
    command: tuple  # the assay binary and nothing else
    env: dict = field(default_factory=dict)  # beside the environment of the caller


def orders(seed: int, pairs: int) -> list:
    """For each pair which side goes first. In blocks of 4 pairs each side is first twice, in random places, so that
    being second (a warmer machine, a fuller cache) cancels out. More pairs leave the earlier orders as they are."""
    rng = random.Random(seed)
    out = []
    while len(out) < pairs:
        block = list("ab" * (BLOCK // 2))
        rng.shuffle(block)
        out += block
    return out[:pairs]


def launch_path(folder: Path, side: str, pair: int) -> Path:
    return folder / side / f"{pair:04d}.json"


def pair_done(folder: Path, pair: int) -> bool:
    return all(launch_path(folder, side, pair).is_file() for side in SIDES)


def run_pairs(
    a: Side,
    b: Side,
    folder: Path,
    pairs: int,
    *,
    cases: list,
    seed: int,
    options: tuple = (),
    progress=None,
    unshared: tuple = ((), ()),
) -> None:
    """Measures the pairs that `folder` lacks; one launch is active at a time. `progress(done, pairs, seconds left or
    None)` is called before the first launch and after each pair; what it raises ends the duet between two pairs.
    `options` go to each launch, behind `--seed`. `unshared`: ids that only A, only B offers; kept for the verdict."""
    folder = Path(folder)
    if not cases:
        raise InputProblem("a duet needs at least one case that both builds offer")
    head = _head(a, b, seed, options, cases, unshared)
    _open(folder, head, pairs)
    missing = [k for k in range(pairs) if not pair_done(folder, k)]
    begin = time.monotonic()
    for count, k in enumerate(missing):
        if progress:
            spent = time.monotonic() - begin
            progress(pairs - len(missing) + count, pairs, spent / count * (len(missing) - count) if count else None)
        first = orders(seed, k + 1)[k]
        # A pair is two neighbours in time: half of one that was interrupted is measured again with its partner.
        for side in SIDES:
            launch_path(folder, side, k).unlink(missing_ok=True)
        for side in (first, "b" if first == "a" else "a"):
            _launch(side, a if side == "a" else b, launch_path(folder, side, k), folder / "cases", head)
    if progress:
        progress(pairs, pairs, 0.0)


# ---- the folder ----


def _fingerprint(command: tuple) -> str:
    """Of the binary: a rebuilt one must not go on with the pairs of the former."""
    path = shutil.which(command[0])
    if path is None:
        raise EnvironmentProblem(f"{command[0]}: no such command; name an assay binary")
    try:
        with Path(path).open("rb") as binary:
            return hashlib.file_digest(binary, "sha256").hexdigest()
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot be read ({error.strerror}); name an assay binary") from None


def _head(a: Side, b: Side, seed: int, options: tuple, cases: list, unshared: tuple) -> dict:
    sides = [
        {"label": s.label, "command": list(s.command), "env": dict(s.env), "sha256": _fingerprint(s.command)}
        for s in (a, b)
    ]
    head = {"schema": SCHEMA, "sides": sides, "seed": str(seed), "options": list(options), "cases": list(cases)}
    return head | {"unshared": [list(ids) for ids in unshared]}


def _open(folder: Path, head: dict, pairs: int) -> None:
    """Makes the folder, or checks that the duet in it is the one that was asked for. Pairs may be added."""
    path = folder / "duet.json"
    if path.is_file():
        have = read_head(folder)
        differ = [key for key in head if have.get(key) != head[key]]
        if differ:
            what = ", ".join("sides or their binaries" if key == "sides" else key for key in differ)
            raise InputProblem(f"{folder}: holds a duet that differs in {what}; name another folder, or remove it")
        pairs = max(pairs, int(have["pairs"]))
    elif folder.is_dir() and any(folder.iterdir()):
        raise InputProblem(f"{folder}: holds other files and no duet.json; name a new or an empty folder")
    written = head | {"pairs": pairs, "order": orders(int(head["seed"]), pairs)}
    written["launch"] = " ".join(["COMMAND", *_words(head, "FILE", "FILE")])
    try:
        for side in SIDES:
            (folder / side).mkdir(parents=True, exist_ok=True)
        (folder / "cases").write_text("".join(f"{i}\n" for i in head["cases"]), encoding="utf-8")
        part = path.with_name("duet.json.part")
        part.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise EnvironmentProblem(f"{folder}: cannot be written ({error.strerror}); name another folder") from None


def read_head(folder: Path) -> dict:
    """duet.json, with the keys that this version writes, or a message."""
    path = Path(folder) / "duet.json"
    head = read_json(path)
    wanted = {"sides": list, "seed": str, "options": list, "cases": list, "unshared": list, "pairs": int}
    if not isinstance(head, dict) or head.get("schema") != SCHEMA:
        raise InputProblem(f"{path}: is no duet of this version ({SCHEMA}); name another folder")
    bad = [key for key, kind in wanted.items() if type(head.get(key)) is not kind]
    sides = [s for s in head.get("sides") or () if isinstance(s, dict) and isinstance(s.get("label"), str)]
    if bad or len(sides) != 2 or len(head["unshared"]) != 2:
        raise InputProblem(f"{path}: {', '.join(bad) or 'sides'} missing or damaged; name another folder")
    return head


# ---- one launch ----


def _words(head: dict, cases: str, out: str) -> list:
    fixed = ["run", "--launches", "1", "--cases", cases, "--ceilings", "off", "--quiet", "--seed", head["seed"]]
    return [*fixed, "--out", out, *head["options"]]


def _launch(which: str, side: Side, target: Path, cases: Path, head: dict) -> None:
    part = target.with_name(f"{target.name}.part")
    journal = target.with_name(f"{part.name}.journal")
    part.unlink(missing_ok=True)
    journal.unlink(missing_ok=True)
    try:
        code, said = _call([*side.command, *_words(head, str(cases), str(part))], os.environ | side.env)
        if code in RECORDED and part.is_file():
            part.replace(target)
            return
    finally:
        part.unlink(missing_ok=True)
        journal.unlink(missing_ok=True)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    last = said.strip().splitlines()[-1:] or ["it said nothing"]
    raise LaunchProblem(which, f"a launch of {side.label} {how} and left no result: {last[0]}")


def _call(words: list, env: dict) -> tuple:
    """(exit code, standard error). An interrupt waits until the launch has ended: no orphan goes on measuring."""
    try:
        child = subprocess.Popen(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=_lock_descriptors(),
        )
    except OSError as error:
        raise EnvironmentProblem(f"{words[0]} does not start ({error.strerror}); name an assay binary") from None
    try:
        _, said = child.communicate()
    except BaseException:
        _end(child)
        raise
    return child.returncode, said


def _lock_descriptors() -> tuple:
    """Of the GPU locks that `assay lock` handed down, "<uuid>:<fd>,...": each launch proves them again."""
    entries = [entry for entry in os.environ.get("ASSAY_LOCKS", "").split(",") if entry]
    numbers = [entry.rpartition(":")[2] for entry in entries]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise InputProblem("ASSAY_LOCKS is damaged; start the duet under `assay lock`, or unset it")
    return tuple(map(int, numbers))


def _end(child: subprocess.Popen) -> None:
    """`assay run` ends its worker and writes its journal within this time."""
    with contextlib.suppress(OSError):
        child.send_signal(signal.SIGTERM)
    try:
        child.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


def judge(folder, thresholds=(), calibration=None, forced: bool = False):
    """The Comparison of the pairs in `folder`: see duet_judge.judge. Imported late: measuring needs no numpy."""
    from . import duet_judge

    return duet_judge.judge(folder, thresholds, calibration, forced)
