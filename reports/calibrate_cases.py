"""Which cases a calibration runs: work with injected slow-downs, and unchanged work of every suite, all of it short."""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import InputProblem

# The entries of ASSAY_INJECT: what the two kinds of comparison must find.
SIDE_BY_SIDE, STORED = 1, 2

# Work that is slowed down, by kind of device, entry and what bounds it; operations of microseconds to milliseconds.
_REGISTERS = ("spin/us:50", "spin/us:200", "spin/us:1000")
_CPU = {
    "registers": _REGISTERS,
    "own cache": ("stream/bytes:262144/passes:128", "stream/bytes:524288/passes:64"),
    "shared memory": ("stream/bytes:100663296",),
}
SLOWED = {
    "cpu": {SIDE_BY_SIDE: _CPU, STORED: _CPU},
    # A launch on a GPU costs more than its cases: few of them.
    "cuda": {
        SIDE_BY_SIDE: {"registers": (*_REGISTERS, "spin_all/us:200"), "device memory": ("stream/bytes:201326592",)},
        STORED: {"registers": ("spin/us:200",), "device memory": ("stream/bytes:201326592",)},
    },
}
# Work that is the same on both sides.
UNCHANGED = {
    "cpu": (
        "synthetic/spin/us:200",
        "synthetic/stream/bytes:524288/passes:64",
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
    bounds: dict = field(default_factory=dict)  # slowed id to what bounds it

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
    unchanged = [f"{name}/dev:{device}" for name in UNCHANGED[kind]]
    bounds = {
        entry: {slowed_id(name, entry, device): bound for bound, names in groups.items() for name in names}
        for entry, groups in SLOWED[kind].items()
    }
    wanted = [*unchanged, *(name for ids in bounds.values() for name in ids)]
    missing = [name for name in wanted if name not in have]
    found = Cases(
        tuple(c for c in unchanged if c in have),
        {entry: tuple(c for c in ids if c in have) for entry, ids in bounds.items()},
        {name: bound for ids in bounds.values() for name, bound in ids.items()},
    )
    if not found.unchanged or not all(found.slowed.values()):
        raise InputProblem(
            f"the plan offers too few cases of {device} ({', '.join(missing[:3])} ...): see assay list, and give a "
            "device that is there"
        )
    return found, missing


def slowed_id(name: str, entry: int, device: str) -> str:
    """Axes stand in the suite's order: us, bytes, passes, inject."""
    return f"synthetic/{name}/inject:{entry}/dev:{device}"
