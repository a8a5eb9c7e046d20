"""The tables of ceilings and of all cases: every figure with its interval, its share of the limit, its state."""

from __future__ import annotations

from . import labels, summary
from . import series as pick
from .load import Case, Result
from .units import NONE, interval, percent, quantity

LEVELS = ("launch", "round", "sample")  # of variance, outermost first


def ceiling(case: Case, t) -> dict:
    return {
        "device": case.device,
        "label": labels.ceiling_label(case, t),
        "id": case.id,
        "value": quantity(case.rate.value, case.rate.unit) if case.rate and case.done else NONE,
        "interval": interval(case.rate) if case.done else NONE,
        "state": state(case, t),
    }


def state(case: Case, t) -> dict:
    """Mark, word and reason: never by colour alone."""
    if case.status != "done":
        return {"mark": "✕", "kind": "bad", "word": t(f"status.{case.status}"), "why": case.reason or ""}
    mark, kind = {"valid": ("✓", "good"), "suspect": ("!", "warn")}.get(case.validity, ("✕", "bad"))
    return {"mark": mark, "kind": kind, "word": t.or_raw("validity", case.validity), "why": "; ".join(case.reasons)}


def suites(result: Result, t) -> list:
    out = []
    known = {s["name"]: str(s.get("summary", "")) for s in result.plan["catalogue"]["suites"]}
    for suite in summary.suites(result):
        devices = list(dict.fromkeys(c.device for c in result.cases if c.suite == suite))
        for device in devices:
            cases = [c for c in result.cases if c.suite == suite and c.device == device]
            metric = pick.metric_of(suite, [c for c in cases if c.done]) or "time"
            out.append(
                {
                    "suite": suite,
                    "summary": known.get(suite, ""),
                    "device": device,
                    "metric": t.or_raw("metric", metric),
                    "has_rate": metric != "time",
                    "rows": [_row(c, metric, result, pick.x_axis(cases), t) for c in cases],
                }
            )
    return out


def _limit(case: Case, result: Result, t) -> str:
    """The ceiling that limits a case; where there is none, why."""
    ceiling = next((c for c in result.ceilings if c.id == case.ceiling_id), None)
    if ceiling is not None:
        return labels.ceiling_label(ceiling, t)
    return labels.resource(case.limit, t) if case.limit else case.ceiling_reason or ""


def _variance(case: Case, t) -> list:
    """(level, relative standard deviation that it adds, whether it is the largest), outermost first; None as the text
    of a level of which there is one group only."""
    levels = (case.statistics or {}).get("variance") if case.done else None
    if not isinstance(levels, dict):
        return []
    found = []
    for name in LEVELS:
        level = levels.get(name)
        value = level.get("relative_sd") if isinstance(level, dict) else None
        found.append((name, value if isinstance(value, (int, float)) else None))
    most = max((v for _, v in found if v is not None), default=0)
    return [
        (t("variance." + name), t("unknown") if v is None else percent(v), v is not None and v == most and v > 0)
        for name, v in found
    ]


def advice(result: Result) -> list:
    """What the levels of variance call for, each sentence once with the number of cases it stands for."""
    said = {}
    for case in result.cases:
        levels = (case.statistics or {}).get("variance")
        text = levels.get("advice") if isinstance(levels, dict) else None
        if case.done and text:
            said[str(text)] = said.get(str(text), 0) + 1
    return list(said.items())


def _row(case: Case, metric: str, result: Result, axis, t) -> dict:
    time, rate = case.metrics.get("time"), case.metrics.get(metric)
    return {
        "id": case.id,
        "variant": case.variant,
        "parameters": labels.parameters_text(case, labels.defaults(result, case.suite), t, always=(axis,)),
        "done": case.done,
        "time": quantity(time.value, "ns") if case.done else NONE,
        "interval": interval(time) if case.done else NONE,
        "rate": quantity(rate.value, rate.unit) if case.done and rate else NONE,
        "percent": labels.share(case) if case.done else NONE,
        "bar": min(100.0, 100 * case.fraction) if case.done and case.fraction is not None else None,
        "limit": _limit(case, result, t),
        "limit_suspect": case.ceiling_suspect,
        "variance": _variance(case, t),
        "extras": [f"{name} {quantity(value, unit)}" for name, (unit, value) in case.extras.items()],
        "state": state(case, t),
    }
