"""Inference on N machines: tokens a second, TTFT and ITL, joules and cost of a million tokens, of each machine's
fastest rung. A cell that was not measured says why."""

from __future__ import annotations

from . import inference, labels
from . import prices as price_list
from .cases_view import state
from .load import Case, Metric, Result
from .units import NONE, interval, percent, quantity, significant

SURE = 0.95  # a percentile that its samples support less is marked


def table(results: list, entries: list | None, t) -> dict | None:
    """What the template prints; None where no result has an inference case and no prices were given."""
    work = {}
    for result in results:
        for case in result.cases:
            if case.suite == inference.SUITE:
                work.setdefault((inference.workload(case), case.kind), case)
    if not work and entries is None:
        return None
    prices = [price_list.of(r, entries) if entries is not None else None for r in results]
    groups = []
    for (what, kind), first in work.items():
        home = next(r for r in results if any(c is first for c in r.cases))
        groups.append(
            {
                "title": _title(first, home, t),
                "kind": kind,
                "rows": [_row(r, i, len(results), what, kind, prices[i], t) for i, r in enumerate(results)],
            }
        )
    return {
        "groups": groups,
        "priced": entries is not None,
        "machines": [
            _machine(r, i, len(results), entries is not None, p, t)
            for i, (r, p) in enumerate(zip(results, prices, strict=True))
        ],
    }


def _name(result: Result, index: int, count: int) -> str:
    """Several machines are named by letter; the list above the table says which is which."""
    return labels.machine_name(result) if count == 1 else labels.letter(index)


def _machine(result: Result, index: int, count: int, priced: bool, price, t) -> str:
    name = labels.machine_name(result) if count == 1 else f"{labels.letter(index)}: {labels.machine_name(result)}"
    if not priced:
        return name
    if price is None:
        return t("price_none", machine=name)
    money = f"{price.per_hour:g} {price.currency}"
    return t("price_entry", machine=name, price=money, source=price.source, date=price.date.isoformat())


def _title(case: Case, result: Result, t) -> str:
    fallback = labels.defaults(result, case.suite)
    return ", ".join(labels.parameter(k, case.parameters[k], t) for k in inference.shown(case.parameters, fallback))


def _row(result: Result, index: int, count: int, what: tuple, kind: str, price, t) -> dict:
    cases = [c for c in result.cases if c.suite == inference.SUITE and c.kind == kind and inference.workload(c) == what]
    done = [c for c in cases if c.done and c.validity != "invalid"]
    row = {"machine": _name(result, index, count), "missing": None, "others": ""}
    if not done:
        return row | {"missing": _missing(result, cases, kind, t)}
    best = inference.fastest(done)
    made, rate = inference.tokens(best), inference.rate(best)
    time = best.metrics["time"]
    phase = inference.phase(best)
    failed = [f"{c.variant}: {t('status.' + c.status)} ({c.reason})" for c in cases if not c.done]
    return row | {
        "rung": f"{best.device}, {best.variant}",
        "rate": quantity(rate.value, rate.unit) if rate else NONE,
        "rate_interval": interval(rate),
        "name": t({"decode": "what.itl", "prefill": "what.ttft"}.get(phase, "metric.time")),
        "time": quantity(time.value, "ns"),
        "time_interval": interval(time),
        "inside": _inside(best, t),
        "used": [f"{k.upper()} {percent(best.metrics[k].value)}" for k in ("mbu", "mfu") if k in best.metrics],
        "percentiles": _percentiles(best),
        "energy": _energy(best, made),
        "cost": _cost(rate, price),
        "state": state(best, t),
        "others": "; ".join(failed),
    }


def _missing(result: Result, cases: list, kind: str, t) -> dict:
    """The reason in the words of the run, one for each rung that was planned."""
    if cases:
        words = [f"{c.variant}: {c.reason or '; '.join(c.reasons)}" for c in cases]
        status = next((c.status for c in cases if not c.done), "done")
        word = t("status." + status) if status != "done" else t("validity.invalid")
        return {"word": word, "why": "; ".join(words)}
    absent = next((a["reason"] for a in result.context["absent"] if a["kind"] == kind), None)
    return {"word": t("cell_absent"), "why": absent or ""}


def _inside(case: Case, t) -> list:
    """TTFT and ITL within a generation, where the result has them."""
    named = (("ttft_ns", "what.ttft"), ("itl_ns", "what.itl"))
    return [f"{t(text)} {quantity(case.metrics[k].value, 'ns')}" for k, text in named if k in case.metrics]


def _percentiles(case: Case) -> list:
    """`P99 4.10 ms (14%)`: with the confidence that the samples support where it is below 95%."""
    out = []
    for row in (case.statistics or {}).get("percentiles") or []:
        if not isinstance(row, dict) or not all(isinstance(row.get(k), (int, float)) for k in ("p", "ns")):
            continue
        text = f"P{100 * row['p']:g} {quantity(float(row['ns']), 'ns', 3)}"
        sure = row.get("confidence")
        if isinstance(sure, (int, float)) and sure < SURE:
            text += f" ({percent(sure)})"
        out.append(text)
    return out


def _energy(case: Case, made: tuple | None) -> tuple:
    """(joules of a million tokens, interval)."""
    joules = case.metrics.get("energy_joules")
    if joules is None or made is None:
        return NONE, ""
    scaled = [None if x is None else x / made[0] * 1e6 for x in (joules.value, joules.low, joules.high)]
    metric = Metric("J", *scaled)
    return quantity(metric.value, "J"), interval(metric)


def _cost(rate: Metric | None, price) -> tuple:
    """(cost of a million tokens with its currency, interval)."""
    if price is None or rate is None:
        return NONE, ""
    cost = price_list.per_million(rate, price)
    return f"{significant(cost.value)} {cost.unit}", interval(cost)
