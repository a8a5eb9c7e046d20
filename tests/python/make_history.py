"""Writes a synthetic history of nights: nothing in it was measured.

python tests/python/make_history.py DIR [NIGHTS [SEED]]

DIR/store holds all nights but the last and an accepted baseline, DIR/tonight.json is the last night, DIR/repeat.json
the same measured once more. Try: ci/nightly --result DIR/tonight.json --repeat DIR/repeat.json --store DIR/store
"""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reports import baseline, history

import launches

FIRST = datetime(2026, 1, 1, 2, 0, tzinfo=UTC)
NIGHTS, SEED = 60, 11
NIGHT_SD, LAUNCH_SD, LAUNCHES = 0.015, 0.004, 6
STEP_AT, STEP = 40, 1.10
FASTER_AT, FASTER = 35, 0.88
DRIFT_AT, DRIFT = 25, 1.004  # by night
OUTLIER_AT, OUTLIER = 30, 1.6
ACCEPTED_AT = 15
SLOW = 1.35  # of the last night alone
STEADY = 20
DISTURBED = "memcpy/disturbed_tonight/bytes:4096/dev:cpu"


def _always(*_) -> float:
    return 1.0


def _tonight(night: int, last: int) -> float:
    return SLOW if night == last else 1.0


# Case to (time in ns, factor by night and last night, nights in which it is there).
CASES = {
    "matmul/step/n:512/dev:cpu": (2e6, lambda n, _: STEP if n >= STEP_AT else 1.0, None),
    "matmul/faster/n:512/dev:cpu": (3e6, lambda n, _: FASTER if n >= FASTER_AT else 1.0, None),
    "matmul/drift/n:512/dev:cpu": (4e6, lambda n, _: DRIFT ** max(0, n - DRIFT_AT), None),
    "memcpy/outlier/bytes:4096/dev:cpu": (5e5, lambda n, _: OUTLIER if n == OUTLIER_AT else 1.0, None),
    "memcpy/slower_tonight/bytes:4096/dev:cpu": (6e5, _tonight, None),
    DISTURBED: (7e5, _tonight, None),
    "memcpy/appears/bytes:4096/dev:cpu": (8e5, _always, range(20, 10_000)),
    "memcpy/vanishes/bytes:4096/dev:cpu": (9e5, _always, range(50)),
} | {f"launch/steady/chain:{i}/dev:cpu": (1e5 * (i + 1), _always, None) for i in range(STEADY)}


def _drawn(rng, time_ns: float) -> list:
    """Launches of two rounds of three samples, in ns."""
    middles = time_ns * np.exp(rng.normal(0, LAUNCH_SD, LAUNCHES))
    return [[[round(m), round(m * 1.001), round(m * 1.002)]] * 2 for m in middles]


def night(index: int, last: int, shifts: dict, rng, names=CASES, **changes) -> dict:
    """The result of one night. `shifts`: what each case's night differs by from the other nights."""
    cases = []
    for name in names:
        time_ns, factor, there = CASES[name]
        if there is None or index in there:
            cases.append(launches.case(name, _drawn(rng, time_ns * factor(index, last) * shifts[name])))
    return result(index, cases, **changes)


def shifts_of_a_night(rng, night_sd: float = NIGHT_SD) -> dict:
    return dict(zip(CASES, np.exp(rng.normal(0, night_sd, len(CASES))).tolist(), strict=True))


def result(index: int, cases: list, **changes) -> dict:
    commit = hashlib.sha1(str(index).encode()).hexdigest()
    head = {"date": (FIRST + timedelta(days=index)).isoformat()}
    head["assay"] = launches.head()["context"]["assay"] | {"commit": commit, "dirty": False}
    made = launches.result(*cases, **(head | changes))
    made["plan"] |= {"launches": LAUNCHES, "profile": "quick", "budget_ns": 20 * 60 * 10**9}
    return made


def write(folder, nights: int = NIGHTS, seed: int = SEED) -> Path:
    """Fills `folder`; returns the store."""
    folder, rng = Path(folder), np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    store, path = folder / "store", folder / "tonight.json"
    for index in range(nights):
        shifts = shifts_of_a_night(rng)
        path.write_text(json.dumps(night(index, nights - 1, shifts, rng)), encoding="utf-8")
        if index < nights - 1:
            tonight = history.read_result(path)
            history.Folder(store, tonight.machine.key).add(tonight)
        if index == min(ACCEPTED_AT, nights - 2):
            baseline.accept(path, "first baseline of the synthetic machine", store)
    # Minutes later, the same shifts: but what disturbed one case is gone.
    shifts[DISTURBED] /= SLOW
    (folder / "repeat.json").write_text(json.dumps(night(nights - 1, nights - 1, shifts, rng)), encoding="utf-8")
    return store


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    print(f"a synthetic history is in {write(sys.argv[1], *map(int, sys.argv[2:]))}")
