"""Which cases a calibration runs: work with injected slow-downs, and unchanged work of every suite, all of it short."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputProblem

# By kind of device: (work that is slowed down, work that stays). Bound by the core and by memory, in and beyond the
# last-level cache; operations of microseconds to milliseconds.
SLOWED = {
    "cpu": ("spin/us:50", "spin/us:200", "spin/us:1000", "stream/bytes:4194304", "stream/bytes:100663296"),
    "cuda": ("spin/us:50", "spin/us:200", "spin/us:1000", "spin_all/us:200", "stream/bytes:268435456"),
}
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
        "synthetic/spin/us:200",
        "synthetic/spin_all/us:200",
        "synthetic/stream/bytes:268435456",
        "matmul/tiled32/n:256",
        "matmul/cublas/n:1024",
        "memcpy/async/bytes:16777216/dir:h2d",
        "memcpy/kernel/bytes:67108864/dir:d2d",
        "launch/graph/chain:64",
        "launch/eager/chain:64",
    ),
}
# The entries of ASSAY_INJECT: what the two kinds of comparison must find.
SIDE_BY_SIDE, STORED = 1, 2


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
        {k: tuple(f"synthetic/{name}/inject:{k}/dev:{device}" for name in SLOWED[kind]) for k in (1, 2)},
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
