"""What a command writes: standard output and files, with the one line that says why it could not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .errors import EnvironmentProblem


def print_text(content: str) -> None:
    """A terminal of another encoding gets escapes, never a traceback."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        sys.stdout.write(content.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (head). The exit code still is the verdict, not that of a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise EnvironmentProblem(f"standard output cannot be written ({error.strerror})") from None


def require_writable(target: str) -> None:
    """Before the work, not after it."""
    if target == "-":
        return
    folder = Path(target).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or Path(target).is_dir():
        raise EnvironmentProblem(f"{target}: cannot be written; name a file in an existing folder that you may write")


def write_whole(path: Path, content: str) -> None:
    """Whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(content, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise EnvironmentProblem(f"{path}: cannot be written ({error.strerror})") from None
