"""Probes: small, quick, harmless trials of what this machine does. They read, or read the clock; they change nothing.

A claim of rule `behaviour` names one. Each returns what was seen as an Observation; the verdict is about the sentence
beside it in PROBES.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

CLOCK_READS = 200_000
SYS_TIME = 25  # the capability CAP_SYS_TIME of <linux/capability.h>


@dataclass(frozen=True)
class Observation:
    """`seen`: True or False as the sentence came out, None where it could not be tried or settled."""

    seen: bool | None
    evidence: str
    tried: bool = True  # False: untestable here


def cgroup_gpu_files(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Observation:
    """cgroup v2 has files cuda.*: looks in the root of the hierarchy and in this process's own group."""
    controllers = root / "cgroup.controllers"
    if not controllers.is_file():
        return Observation(None, f"no cgroup v2 is mounted at {root}", tried=False)
    folders = [root]
    try:
        for line in own.read_text(encoding="utf-8").splitlines():
            if line.startswith("0::/"):
                folder = root / line[len("0::/") :]
                if folder.is_dir() and folder not in folders:
                    folders.append(folder)
        offered = controllers.read_text(encoding="utf-8").split()
        names = sorted(p.name for folder in folders for p in folder.iterdir())
    except OSError as error:
        return Observation(None, f"cgroup v2 cannot be read ({error.strerror})", tried=False)
    found = [name for name in names if name.startswith("cuda.")]
    if found or "cuda" in offered:
        return Observation(True, f"found {', '.join(found) or 'a controller named cuda'}")
    where = " and ".join(str(folder) for folder in folders)
    return Observation(
        False, f"{len(names)} files in {where}, none is cuda.*; controllers: {' '.join(offered) or 'none'}"
    )


def may_set_clock(status: Path = Path("/proc/self/status")) -> bool | None:
    """Whether this process has CAP_SYS_TIME; None where the kernel does not tell."""
    try:
        lines = status.read_text(encoding="utf-8").splitlines()
        mask = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
    return bool(mask >> SYS_TIME & 1)


def clock_step(read_monotonic=time.monotonic_ns, read_wall=time.time_ns, may_set=may_set_clock) -> Observation:
    """A step of the wall clock makes CLOCK_MONOTONIC run backwards. Nobody's clock is set here: the loop watches both
    clocks, and the process's right to set one is looked up, not used."""
    last, backwards, shift = read_monotonic(), 0, read_wall() - read_monotonic()
    for _ in range(CLOCK_READS):
        now = read_monotonic()
        backwards += now < last
        last = now
    stepped = read_wall() - read_monotonic() - shift
    seen = f"{CLOCK_READS} reads of CLOCK_MONOTONIC, {backwards} of them backwards"
    if backwards:
        return Observation(True, seen)
    if abs(stepped) > 100_000_000:
        return Observation(False, f"{seen}, while the wall clock was stepped by {stepped / 1e9:.3f} s")
    right = {
        True: "this process could set it, and the probe does not",
        False: "this process may not set it (no CAP_SYS_TIME)",
        None: "whether this process may set it is not known",
    }[may_set()]
    return Observation(None, f"{seen}; the wall clock was not stepped meanwhile: {right}")


PROBES = {
    "cgroup-gpu-files": (cgroup_gpu_files, "cgroup v2 has files named cuda.*"),
    "clock-step": (clock_step, "CLOCK_MONOTONIC runs backwards after a step of the wall clock"),
}
