"""A calibration as JSON (assay.calibration/1), terminal table and Markdown."""

from __future__ import annotations

import math
import re

from .calibrate_study import (
    AIM,
    LEAST_SESSIONS,
    Tally,
    binomial_interval,
    overall_of,
    pairs_for,
    spreads,
    typical_of,
    values_of,
)
from .calibration import FIELDS, OPTIONAL, SCHEMA, SESSION
from .errors import visible

NONE = "-"
KINDS = {"side_by_side": "side by side", "stored": "stored result"}


def machine_name(identity: dict) -> str:
    """A file name that says the machine and nobody's name: nvidia-h200, amd-epyc-2-cores."""
    models = identity["accelerators"]
    count = f"-x{len(models)}" if len(models) > 1 else ""
    said = f"{models[0]}{count}" if models else f"{identity['cpu_model']} {identity['cores']} cores"
    return re.sub(r"[^a-z0-9]+", "-", said.lower()).strip("-") or "machine"


# ---- the document ----


def _kind(tally: Tally | None, bounds: dict) -> dict | None:
    if tally is None:
        return None
    keys = ("duet", "other_duet", "case", "verdict", "ratio", "q")
    return {
        "injected": tally.injected,
        "threshold": tally.threshold,
        "comparisons": tally.comparisons,
        "false_alarms": len(tally.alarms),
        "false_alarm_interval": binomial_interval(len(tally.alarms), tally.comparisons),
        "inconclusive": tally.inconclusive,
        "trials": tally.tried,
        "found": tally.found,
        "detection_interval": binomial_interval(tally.found, tally.tried),
        "by_bound": _by_bound(tally, bounds),
        "by_case": {
            name: {"found": found, "trials": trials, "measured": math.expm1(logs / trials)}
            for name, (found, trials, logs) in tally.trials.items()
        },
        "alarms": [dict(zip(keys, row, strict=True)) for row in tally.alarms],
        "missed": [dict(zip(keys, row, strict=True)) for row in tally.missed],
    }


def _by_bound(tally: Tally, bounds: dict) -> dict:
    out = {}
    for name, (found, trials, _) in tally.trials.items():
        row = out.setdefault(bounds.get(name, "other"), {"found": 0, "trials": 0})
        row["found"] += found
        row["trials"] += trials
    for row in out.values():
        row["detection_interval"] = binomial_interval(row["found"], row["trials"])
    return out


def _values(spread, aim, known=None) -> dict:
    return (known or values_of(spread, aim)) | {
        "pair_sd": None if spread.pair is None else math.sqrt(spread.pair[0]),
        "pairs_for_1_percent": pairs_for(spread, AIM, aim.tests),
    }


def document(settings, sessions: list, cases, tallies: dict, notes: list, date: str) -> dict:
    """One study, as the file that compare reads. Keys beside those of calibration.py are the study's own."""
    by_case, aim = spreads(sessions, cases), settings.aim(cases)
    overall = _values(typical_of(by_case, cases), aim, overall_of(by_case, cases, aim))
    study = {
        "date": date,
        "command": settings.command,
        "duets": len(sessions),
        "pairs": settings.pairs,
        "rounds": settings.rounds,
        "seed": settings.seed,
        "notes": notes,
        "unchanged": list(cases.unchanged),
        "overall": overall,
        **{kind: _kind(tally, cases.bounds) for kind, tally in tallies.items()},
    }
    return {
        "schema": SCHEMA,
        "machine": sessions[0].a.identity,
        "date": date,
        "command": settings.command,
        **{key: overall[key] for key in FIELDS + OPTIONAL},
        "cases": {name: _values(spread, aim) for name, spread in by_case.items()},
        "studies": {settings.device: study},
    }


def merged(old: dict | None, new: dict) -> dict:
    """The studies of other devices of this machine stay. A case of no study gets the worst of their values."""
    if old is None:
        return new
    device = next(iter(new["studies"]))
    studies = {name: s for name, s in old.get("studies", {}).items() if name != device} | new["studies"]
    kept = {name: row for name, row in old["cases"].items() if not name.endswith(f"/dev:{device}")}
    overall = [s["overall"] for s in studies.values()]
    worst = {}
    for value, *freedom in (("launch_sd", "degrees_of_freedom"), SESSION):
        row = max(overall, key=lambda row, value=value: row[value] or 0.0)
        worst |= {key: row[key] for key in (value, *freedom)}
    for key in ("detectable_effect", "side_by_side_effect"):
        effects = [row[key] for row in overall]
        worst[key] = None if None in effects else max(effects)
    return new | worst | {"cases": kept | new["cases"], "studies": studies}


# ---- for people ----


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.2g}%" if value < 0.1 else f"{100 * value:.1f}%"


def _share(count: int, total: int) -> str:
    return f"{count} of {total}" + (f" ({100 * count / total:.1f}%)" if total else "")


def _interval(ends) -> str:
    return NONE if None in ends else f"[{100 * ends[0]:.1f}%, {100 * ends[1]:.1f}%]"


KIND_HEAD = ("kind", "injected", "found", "95% interval", "false alarms", "95% interval", "inconclusive", "threshold")
CASE_HEAD = ("case", "launches", "sessions", "pairs", "side by side", "stored", "pairs for 1%", "found", "measured")


def kind_rows(study: dict) -> list:
    out = []
    for key, name in KINDS.items():
        if (kind := study[key]) is None:
            out.append((name, *[NONE] * 7))
            continue
        out.append(
            (
                name,
                _percent(kind["injected"]),
                _share(kind["found"], kind["trials"]),
                _interval(kind["detection_interval"]),
                _share(kind["false_alarms"], kind["comparisons"]),
                _interval(kind["false_alarm_interval"]),
                _share(kind["inconclusive"], kind["comparisons"]),
                _percent(kind["threshold"]),
            )
        )
        for bound, row in kind["by_bound"].items():
            found = (_share(row["found"], row["trials"]), _interval(row["detection_interval"]))
            out.append((f"  bound by {bound}", "", *found, *[""] * 4))
    return out


def case_rows(found: dict, study: dict) -> list:
    """Spreads as percentages; least effects; and of slowed cases the share that was found."""
    injected = {}
    for key in KINDS:
        injected |= (study[key] or {"by_case": {}})["by_case"]
    out = []
    names = [n for n in found["cases"] if n in study["unchanged"] or n in injected]
    for name, row in [*((n, found["cases"][n]) for n in names), ("any other case", study["overall"])]:
        trials = injected.get(name)
        pairs = row["pairs_for_1_percent"]
        out.append(
            (
                name,
                _percent(row["launch_sd"]),
                _percent(row["session_sd"]),
                _percent(row["pair_sd"]),
                _percent(row["side_by_side_effect"]),
                _percent(row["detectable_effect"]),
                NONE if pairs is None else str(pairs),
                f"{trials['found']} of {trials['trials']}" if trials else "",
                f"{100 * trials['measured']:+.2f}%" if trials else "",
            )
        )
    return out


def _sentences(study: dict) -> list:
    out = [
        f"{study['duets']} duets of {study['pairs']} launch pairs, {study['rounds']} rounds a launch. Spreads are "
        "standard deviations: of launches in one session, of sessions beyond their launches, of the ratio in a pair.",
        "side by side, stored: the least slow-down that is found in 95% of trials with these launches, as the only "
        "change among the cases.",
    ]
    if study["stored"] is None:
        out.append(f"The stored kind is not judged: it needs at least {LEAST_SESSIONS} duets.")
    for key, name in KINDS.items():
        for word, rows in (("alarm", "alarms"), ("missed", "missed")):
            for row in (study[key] or {rows: []})[rows]:
                where = f"duet {row['duet']}" + ("" if row["other_duet"] is None else f" and {row['other_duet']}")
                q = NONE if row["q"] is None else f"{row['q']:.2g}"
                change = 100 * (row["ratio"] - 1)
                out.append(f"{word}, {name}: {row['case']}, {where}: {row['verdict']}, {change:+.1f}%, q {q}")
    return [*out, *study["notes"]]


def _aligned(head: tuple, rows: list) -> list:
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    rows = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines]
    return ["  ".join(row).rstrip() for row in rows]


def text(found: dict, device: str) -> str:
    study = found["studies"][device]
    head = f"{found['machine']['cpu_model']}, {device}: {study['command']}"
    lines = [head, "", *_aligned(KIND_HEAD, kind_rows(study)), "", *_aligned(CASE_HEAD, case_rows(found, study)), ""]
    return "\n".join(map(visible, [*lines, *_sentences(study)])) + "\n"


def _md_table(head: tuple, rows: list) -> list:
    cells = [[visible(cell).replace("|", "\\|") or " " for cell in row] for row in rows]
    rule = "|" + "|".join([" --- ", *[" ---: "] * (len(head) - 1)]) + "|"
    return ["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(row) + " |" for row in cells)]


def markdown(found: dict, device: str) -> str:
    study = found["studies"][device]
    lines = [f"## Calibration: {visible(found['machine']['cpu_model'])}, {device}", "", f"    {study['command']}", ""]
    lines += [*_md_table(KIND_HEAD, kind_rows(study)), "", *_md_table(CASE_HEAD, case_rows(found, study)), ""]
    return "\n".join([*lines, *(f"- {visible(line)}" for line in _sentences(study))]) + "\n"
