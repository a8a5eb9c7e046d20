"""results/calibration/<machine>.json: what an A/A study has found about one machine.

    {"schema": "assay.calibration/1",
     "machine": {... as readers.machine_identity gives it ...},
     "date": "2026-01-01T00:00:00Z", "command": "what made it",
     "launch_sd": 0.031, "degrees_of_freedom": 190, "detectable_effect": 0.06,
     "session_sd": 0.04, "session_degrees_of_freedom": 19, "side_by_side_effect": 0.03,
     "cases": {"matmul/tiled/n:256/dev:cpu": {"launch_sd": 0.02, "degrees_of_freedom": 19, "detectable_effect": 0.04}}}

launch_sd: standard deviation of the logarithms of launch medians of one build, within one run. detectable_effect:
smallest relative change that compare finds in 95% of trials at the study's budget. session_sd (it may be left out):
what the means of two runs at other times differ by beyond what their launches explain, as a standard deviation of one
run. side_by_side_effect (it may be left out): the smallest change that duet finds in 95% of trials. Values at the top
serve every case that has none of its own; null where the study gives none. Further keys are the study's own and are not
read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .load import read_json
from .shape import Shape

SCHEMA = "assay.calibration/1"
FIELDS = ("launch_sd", "degrees_of_freedom", "detectable_effect")
SESSION = ("session_sd", "session_degrees_of_freedom")
OPTIONAL = (*SESSION, "side_by_side_effect")


@dataclass(frozen=True)
class Calibration:
    path: Path
    machine: dict
    fallback: dict  # by FIELDS and OPTIONAL, None where unknown
    cases: dict = field(default_factory=dict)

    def between(self, case: str) -> tuple | None:
        """(standard deviation of a launch, its degrees of freedom), or None where neither case nor machine has one."""
        return self._pair(case, "launch_sd", "degrees_of_freedom")

    def session(self, case: str) -> tuple | None:
        """The same between sessions."""
        return self._pair(case, *SESSION)

    def detectable(self, case: str) -> float | None:
        effect = self.cases.get(case, self.fallback)["detectable_effect"]
        return self.fallback["detectable_effect"] if effect is None else effect

    def side_by_side(self, case: str) -> float | None:
        """As `detectable`, of launches in turns."""
        effect = self.cases.get(case, self.fallback)["side_by_side_effect"]
        return self.fallback["side_by_side_effect"] if effect is None else effect

    def _pair(self, case: str, *names) -> tuple | None:
        for row in (self.cases.get(case, self.fallback), self.fallback):
            if None not in (pair := tuple(row[name] for name in names)):
                return pair
        return None


# In the place of a calibration: judge without one, even if this machine has one.
NONE = Calibration(Path("none"), {}, dict.fromkeys(FIELDS + OPTIONAL))


def chosen(word: str | None) -> Calibration | None:
    """What --calibration asks for: a file, `none`, or (None) that of the machine."""
    if word is None:
        return None
    return NONE if word == "none" else load_calibration(word)


def folder() -> Path:
    return Path(__file__).resolve().parent.parent / "results" / "calibration"


def load_calibration(path) -> Calibration:
    path = Path(path)
    raw = read_json(path)
    shape = Shape(path, "docs/compare.md describes the file")
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, dict) else None
        shape.fail(f"schema is {found!r}, not {SCHEMA}")
    rows = shape.take(raw, "cases", dict, "calibration")
    return Calibration(
        path,
        shape.take(raw, "machine", dict, "calibration"),
        _numbers(shape, raw, "calibration"),
        {case: _numbers(shape, row, f"cases[{case!r}]") for case, row in rows.items()},
    )


def _numbers(shape: Shape, record, where: str) -> dict:
    out = {}
    for name in FIELDS + OPTIONAL:
        if name in OPTIONAL and isinstance(record, dict) and name not in record:
            out[name] = None
            continue
        value = out[name] = shape.take(record, name, (int, float, type(None)), where)
        if value is not None and not (value > 0 or value == 0 and name.endswith("_sd")):
            shape.fail(f"{where}.{name} is {value}, not above 0")
    return out


def of_machine(identity: dict | None, where: Path | None = None) -> Calibration | None:
    """The stored calibration of this machine, if there is one. The identity decides, not the file's name."""
    where = where or folder()
    if identity is None or not where.is_dir():
        return None
    found = [load_calibration(p) for p in sorted(where.glob("*.json"))]
    return next((c for c in found if c.machine == identity), None)
