"""Files of a store: lines that are appended whole or not at all, and read one by one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path

from .errors import EnvironmentProblem


def parsed_lines(path: Path):
    """(number, parsed line or what is wrong with it)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot be read ({error.strerror}); name another --store DIR") from None

    def refuse(token):
        raise ValueError(f"{token} is no JSON number")

    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line.decode("utf-8"), parse_constant=refuse)
            except (ValueError, RecursionError) as error:
                yield number, f"is no JSON ({str(error)[:80]})"


def read_lines(path: Path) -> tuple:
    """(parsed objects, how many lines are no JSON)."""
    rows = [record for _, record in parsed_lines(path)] if path.exists() else []
    good = [r for r in rows if isinstance(r, dict)]
    return good, len(rows) - len(good)


@contextlib.contextmanager
def writing(path: Path):
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(
            f"{path}: cannot be written ({error.strerror}); make room, or name another --store DIR; nothing was lost: "
            "the result can be given again"
        ) from None


def write_whole(path: Path, content: bytes) -> None:
    """Whole and on disk, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        try:
            with part.open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def append_line(path: Path, record: dict) -> None:
    """One line, under a lock; taken back where it does not fit on the disk. A line that an earlier writer left
    unfinished is closed first."""
    line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as out:
            fcntl.flock(out, fcntl.LOCK_EX)
            size = out.seek(0, os.SEEK_END)
            if size:
                out.seek(size - 1)
                line = line if out.read(1) == b"\n" else b"\n" + line
            try:
                while line:
                    line = line[out.write(line) :]
                os.fsync(out.fileno())
            except OSError:
                os.ftruncate(out.fileno(), size)
                raise
