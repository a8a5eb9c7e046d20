"""Verdicts for people and tools: a table, Markdown, JSON, and one claim explained in plain sentences."""

from __future__ import annotations

import json
import unicodedata

from .claims import VERDICTS, Court, Instance, Judged, Judgement, counts, verdict_of
from .claims_evaluate import FAILS, HOLDS, INCONCLUSIVE, UNTESTABLE, Trial
from .claims_file import RULES
from .claims_quantity import shown
from .errors import visible
from .units import quantity as time_text

SCHEMA = "assay.claims/1"
WIDEST = {"claim": 34, "verdict": 12, "measured": 44, "claimed": 52}


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def _cut(text: str, most: int) -> str:
    if _width(text) <= most:
        return text
    while _width(text) > most - 3:
        text = text[:-1]
    return text.rstrip() + "..."


def _rows(judged: list) -> list:
    """(claim, verdict, measured, claimed, on): one row a judgement, and one below it for each of several instances."""
    out = []
    for item in judged:
        for j in item.judgements:
            if j.verdict == UNTESTABLE:
                continue
            measured = j.measured.text if j.measured else "" if j.evidence is None else "observed"
            out.append((item.claim.id, j.verdict, measured, item.claim.claimed, _on(j)))
            if len(j.instances) > 1:
                for i in j.instances:
                    text = i.measured.text if i.measured else "not measured"
                    out.append((f"  {i.label}", i.verdict if i.verdict != j.verdict else "", text, "", ""))
    return out


def _on(j: Judgement) -> str:
    return f"[{j.source + 1}]" if j.source is not None else "here" if j.evidence else "-"


def _machines(court: Court) -> list:
    return [f"[{i}] {source.name}, {source.label}" for i, source in enumerate(court.sources, 1)]


def _sum(judged: list) -> str:
    found = counts(judged)
    return ", ".join(f"{found[v]} {v}" for v in VERDICTS)


def table(court: Court, judged: list) -> str:
    """Tried claims in columns, then the untestable ones with their reasons, then the sum."""
    head = ("claim", "verdict", "measured, 95% interval", "claimed", "on")
    confidence = {source.confidence for source in court.sources}
    if len(confidence) == 1:
        head = (*head[:2], f"measured, {100 * confidence.pop():g}% interval", *head[3:])
    rows = [tuple(map(visible, row)) for row in _rows(judged)]
    limits = list(WIDEST.values())
    rows = [tuple(_cut(c, limits[i]) if i < len(limits) else c for i, c in enumerate(row)) for row in rows]
    widths = [max(_width(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [visible(line) for line in _machines(court)]
    lines += [""] if lines else []
    for row in [head, *rows] if rows else []:
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    notes = [(item.claim.id, note) for item in judged for j in item.judgements for note in j.notes]
    unclear = [(i.claim.id, j.reason) for i in judged for j in i.judgements if j.verdict == INCONCLUSIVE and j.reason]
    for title, pairs in (("inconclusive", unclear), ("notes", notes), ("untestable", _untestable(judged))):
        if pairs:
            width = max(len(name) for name, _ in pairs)  # ids are plain letters
            lines += ["", title, *(f"  {name:{width}}  {visible(text)}" for name, text in pairs)]
    return "\n".join([*lines, "", _sum(judged), ""])


def _untestable(judged: list) -> list:
    return [(i.claim.id, j.reason or "no reason") for i in judged for j in i.judgements if j.verdict == UNTESTABLE]


def _cell(text: str) -> str:
    out = visible(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
    return out.replace("*", "\\*").replace("[", "\\[").replace("`", "\\`")


def markdown(court: Court, judged: list) -> str:
    lines = [f"- {_cell(line)}" for line in _machines(court)]
    lines += ["", "| id | claim | claimed | measured | verdict | on | remarks |", "|---|---|---|---|---|---|---|"]
    for item in judged:
        for j in item.judgements:
            measured = j.measured.text if j.measured else j.evidence or ""
            if len(j.instances) > 1:
                measured = "; ".join(f"{i.label}: {i.measured.text if i.measured else '-'}" for i in j.instances)
            reason = [j.reason] if j.reason and j.reason != j.evidence else []
            remarks = " ".join([*reason, *j.notes, *([item.claim.note] if item.claim.note else [])])
            cells = (item.claim.id, item.claim.claim, item.claim.claimed, measured, j.verdict, _on(j), remarks)
            lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join([*lines, "", _sum(judged), ""])


def as_json(court: Court, judged: list) -> str:
    document = {
        "schema": SCHEMA,
        "file": str(court.path),
        "results": [
            {
                "path": s.label,
                "machine": s.name,
                "date": s.result.context["date"],
                "confidence": s.confidence,
            }
            for s in court.sources
        ],
        "counts": counts(judged),
        "claims": [_claim_record(item) for item in judged],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _claim_record(item: Judged) -> dict:
    claim = item.claim
    record = {k: getattr(claim, k) for k in ("id", "claim", "claimed", "setting", "note", "source", "rule")}
    record |= {"suites": list(claim.suites), "test": claim.test.text if claim.test else None, "probe": claim.probe}
    record |= {"verdict": verdict_of(item), "judgements": [_judgement_record(j) for j in item.judgements]}
    return record


def _judgement_record(j: Judgement) -> dict:
    return {
        "verdict": j.verdict,
        "reason": j.reason,
        "result": j.source,
        "evidence": j.evidence,
        "notes": list(j.notes),
        "instances": [
            {
                "variables": i.variables,
                "verdict": i.verdict,
                "reason": i.reason,
                "measured": i.measured.record() if i.measured else None,
                "cases": {name: case.id for name, case in i.cases.items()},
            }
            for i in j.instances
        ],
    }


# ---- one claim in sentences ----

MEANS = {
    HOLDS: "The whole interval lies on the claim's side.",
    FAILS: "The whole interval lies on the other side of it.",
    INCONCLUSIVE: "The interval lies on both sides, so these measurements do not decide it.",
}


def explain(court: Court, item: Judged) -> str:
    claim = item.claim
    lines = [f"{claim.id}: {claim.claim}", f"Claimed: {claim.claimed}{f' ({claim.setting})' if claim.setting else ''}."]
    lines.append(f"How it is tried ({claim.rule}): {RULES[claim.rule]}.")
    if claim.test:
        lines.append(f"Test: {' '.join(claim.test.text.split())}")
    if claim.note:
        lines.append(f"Note: {claim.note}")
    for j in item.judgements:
        lines += ["", *_explained(court, j)]
    return "\n".join(visible(line) for line in lines) + "\n"


def _explained(court: Court, j: Judgement) -> list:
    where = ""
    if j.source is not None:
        source = court.sources[j.source]
        where = f" on {source.name} ({source.label})"
    elif j.evidence is not None:
        where = " on this machine"
    verb = {HOLDS: "It holds", FAILS: "It fails", INCONCLUSIVE: "It is inconclusive", UNTESTABLE: "It is untestable"}
    lines = [f"{verb[j.verdict]}{where}{f': {j.reason}' if j.verdict == UNTESTABLE and j.reason else ''}."]
    if j.evidence is not None:
        return [*lines, f"Seen: {j.evidence}."]
    for i in j.instances:
        if j.verdict != UNTESTABLE or i.cases:
            lines += _instance_lines(i, len(j.instances) > 1)
    if j.verdict == INCONCLUSIVE:
        lines.append("A longer run narrows the interval: use --id with --run and a larger --budget.")
    return lines + [f"Note: {note}." for note in j.notes]


def _instance_lines(i: Instance, several: bool) -> list:
    lines = []
    if several:
        lines.append(f"With {i.label}: {i.verdict}{f' ({i.reason})' if i.reason else ''}.")
    if i.measured:
        lines.append(f"Measured: {i.measured.text}.")
    lines += [sentence for trial in i.trials if (sentence := _trial_line(trial))]
    for name, case in i.cases.items():
        rest = "".join(f", {k} {v}" for k, v in case.parameters.items())
        metric, units = case.metrics["time"], (case.statistics or {}).get("units")
        width = "no interval" if metric.high is None else f"+- {100 * (metric.high / metric.value - 1):.1f}%"
        lines.append(
            f"{name} is {case.suite}/{case.variant} on {case.device}{rest}: "
            f"{time_text(metric.value, 'ns')} {width}, {units} units, {case.validity}."
        )
    return lines


def _trial_line(trial: Trial) -> str | None:
    if trial.left is None:
        return f"One comparison could not be tried: {trial.reason}."
    left, right = (shown(q.value, q.dimension) for q in (trial.left, trial.right))
    asked = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}.get(trial.operator)
    asked = f"within {100 * trial.tolerance:g}% of" if trial.operator == "within" else asked
    exact = trial.left.exact and trial.right.exact
    means = {HOLDS: "It is.", FAILS: "It is not."}[trial.verdict] if exact else MEANS[trial.verdict]
    return f"{left} should be {asked} {right}. {means}"
