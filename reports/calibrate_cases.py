"""Which cases a calibration runs: work with injected slow-downs, and unchanged work of every suite, all of it short."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputProblem

# The entries of ASSAY_INJECT: what the two kinds of comparison must find.
SIDE_BY_SIDE, STORED = 1, 2

# Work that is slowed down, by kind of device and entry: bound by the core and by memory, in and beyond the last-level
# cache; operations of microseconds to milliseconds.
_CPU = ("spin/us:50", "spin/us:200", "spin/us:1000", "stream/bytes:4194304", "stream/bytes:100663296")
SLOWED = {
    "cpu": {SIDE_BY_SIDE: _CPU, STORED: _CPU},
    # A launch on a GPU costs more than its cases: few of them.
    "cuda": {
        SIDE_BY_SIDE: ("spin/us:50", "spin/us:200", "spin/us:1000", "spin_all/us:200", "stream/bytes:201326592"),
        STORED: ("spin/us:200", "stream/bytes:201326592"),
    },
}
# Work that is the same on both sides.
UNCHANGED = {
    "cpu": (
        "synthetic/spin/us:200",
        "synthetic/stream/bytes:4194304",
        "synthetic/stream/bytes:100663296",
        "matmul/tiled/n:256",
        "matmul/openblas/n:256",
        "memcpy/libc/bytes:65536",
        "memcpy/libc/bytes:4194304",
        "memcpy/nt/bytes:524288",
        "launch/direct/chain:64",
        "launch/static_plan/chain:64/threads:all",
    ),
    "cuda": (
        "synthetic/spin_all/us:200",
        "synthetic/stream/bytes:201326592",
        "matmul/tiled32/n:256",
        "memcpy/async/bytes:16777216/dir:h2d",
        "memcpy/kernel/bytes:67108864/dir:d2d",
        "launch/graph/chain:64",
    ),
}


@dataclass(frozen=True)
class Cases:
    unchanged: tuple
    slowed: dict  # entry of ASSAY_INJECT to ids

    @property
    def all(self) -> list:
        return [*self.unchanged, *self.slowed[SIDE_BY_SIDE], *self.slowed[STORED]]


def kind_of(device: str) -> str:
    kind = device.rstrip("0123456789")
    if kind not in SLOWED or (kind == "cuda") == (kind == device):
        raise InputProblem(f"--device {device}: one device is calibrated at a time: cpu, cuda0, cuda1 ...")
    return kind


def cases_for(device: str, offered: list) -> tuple:
    """(the cases, what this binary's plan does not offer). `offered`: the ids of its plan."""
    kind, have = kind_of(device), set(offered)
    wanted = Cases(
        tuple(f"{name}/dev:{device}" for name in UNCHANGED[kind]),
        {k: tuple(f"synthetic/{n}/inject:{k}/dev:{device}" for n in names) for k, names in SLOWED[kind].items()},
    )
    missing = [name for name in wanted.all if name not in have]
    found = Cases(
        tuple(c for c in wanted.unchanged if c in have),
        {k: tuple(c for c in names if c in have) for k, names in wanted.slowed.items()},
    )
    if not found.unchanged or not all(found.slowed.values()):
        raise InputProblem(
            f"the plan offers too few cases of {device} ({', '.join(missing[:3])} ...): see assay list, and give a "
            "device that is there"
        )
    return found, missing
