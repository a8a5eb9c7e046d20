"""Predictions and scores for people and tools: aligned tables, Markdown, JSON."""

from __future__ import annotations

import json

from .errors import visible
from .labels import machine_name
from .size_ceilings import Span
from .size_predict import Prediction, Time
from .tables import aligned, markdown_table, markdown_text
from .units import NONE, decimal, percent, quantity, significant

SCHEMA = "assay.size/1"
UNKNOWN = "unknown"
MEMORY_HEAD = ("device", "weights", "KV cache", "activations", "total", "usable", "fits", "sequences at most")
TIME_HEAD = ("device", "TTFT", "interval", "ITL", "interval", "tokens/s", "limited by")
FORWARD_HEAD = ("device", "forward", "interval", "sequences/s", "limited by")


def _time(time: Time) -> str:
    if time.span is None:
        return UNKNOWN
    return quantity(time.span.value, "ns") + ("*" if time.assumed else "") + ("?" if time.suspect else "")


def _interval(time: Time) -> str:
    """The interval around the value, as shares of it: `-0.3% +0.5%`."""
    span = time.span
    if span is None or span.low is None:
        return NONE
    return f"-{100 * (1 - span.low / span.value):.1f}% +{100 * (span.high / span.value - 1):.1f}%"


def _limit(time: Time) -> str:
    if time.span is None:
        return NONE
    name, share = time.limit
    return f"{name} {percent(share)}"


def _memory_row(label: str, p: Prediction) -> tuple:
    m = p.memory
    known = bool(p.machine.memory_bytes)
    sequences = NONE if m.concurrency is None else str(m.concurrency)
    return (
        label,
        decimal(m.weights),
        decimal(m.kv),
        decimal(m.activations),
        decimal(m.total),
        decimal(m.usable) if known else UNKNOWN,
        ("yes" if m.fits else "no") if known else UNKNOWN,
        sequences if known else UNKNOWN,
    )


def _time_row(label: str, p: Prediction) -> tuple:
    throughput = UNKNOWN if p.throughput is None else significant(p.throughput.value)
    first = (label, _time(p.first), _interval(p.first))
    if p.step is None:
        return (*first, throughput, _limit(p.first))
    return (*first, _time(p.step), _interval(p.step), throughput, _limit(p.step))


def _title(plan) -> str:
    m = plan.model
    parts = [f"{m.name}: {significant(m.parameters / 1e9)} billion parameters, weights {plan.kind}"]
    if m.decodes:
        parts += [f"KV cache {plan.kv_kind} in pages of {plan.page}", f"context {plan.context}"]
    parts += [f"prompt {plan.prompt}", f"batch {plan.batch}", f"{percent(plan.use)} of the memory"]
    if m.experts:
        read = significant(m.experts_read(plan.batch), 3)
        parts.append(f"{m.experts_per_token} of {m.experts} experts a token, {read} read by the batch")
    if plan.gpus > 1:
        parts.append(f"{plan.gpus} GPUs, figures of each")
    return ", ".join(parts)


def _labels(rows: list) -> list:
    """`[1] cuda0`, the number that of the machine in the list above."""
    order: dict = {}
    for result, _ in rows:
        order.setdefault(id(result), len(order) + 1)
    return [f"[{order[id(result)]}] {p.machine.name}" for result, p in rows]


def _machines(rows: list) -> list:
    results = {id(result): result for result, _ in rows}
    return [f"[{i}] {machine_name(r)}, {r.path}" for i, r in enumerate(results.values(), 1)]


def _notes(plan, rows: list, labels: list) -> list:
    """(device, what the figures rest on, or what is missing and how to measure it)."""
    out = []
    for label, (_, p) in zip(labels, rows, strict=True):
        out += [(label, text) for text in (*_rests_on(plan, p), *_lacks(p))]
    return out


def _rests_on(plan, p: Prediction) -> list:
    out = []
    for rate in p.rates:
        word = "assumed" if rate.assumed else "by"
        out.append(f"{word} {rate.id}: {quantity(rate.span.value, rate.unit)}{', suspect' if rate.suspect else ''}")
    stages = {s.name for _, time in p.times for s in time.stages}
    if "all-reduce" in stages:
        out.append(f"assumed --alpha: {quantity(plan.alpha_ns, 'ns')} for each of two all-reduces a layer")
    if "launches" in stages:
        out.append(f"assumed --kernels: {plan.kernels} a layer, all in one graph")
    return out


def _lacks(p: Prediction) -> list:
    why: dict = {}
    for name, time in p.times:
        for text in [time.reason] if time.reason else [f"without {m.text}" for m in time.missing]:
            why.setdefault(text, []).append(name)
    out = [f"{', '.join(names)} unknown: {text}" for text, names in why.items()]
    return [*out, f"to measure: {p.remedy}"] if p.remedy else out


def _time_head(plan) -> tuple:
    return TIME_HEAD if plan.model.decodes else FORWARD_HEAD


def _right(head: tuple) -> set:
    return set(range(1, len(head) - 1))


def _tables(rows: list) -> tuple:
    labels = _labels(rows)
    memory = [_memory_row(label, p) for label, (_, p) in zip(labels, rows, strict=True)]
    times = [_time_row(label, p) for label, (_, p) in zip(labels, rows, strict=True)]
    return labels, memory, times


def table(plan, rows: list) -> str:
    labels, memory, times = _tables(rows)
    head = _time_head(plan)
    lines = [_title(plan), *_machines(rows), ""]
    lines += aligned(MEMORY_HEAD, memory, set(range(1, len(MEMORY_HEAD))))
    lines += ["", *aligned(head, times, _right(head)), ""]
    notes = _notes(plan, rows, labels)
    width = max((len(label) for label, _ in notes), default=0)
    lines += [f"{label:{width}}  {text}" for label, text in notes]
    return "\n".join([*map(visible, lines), ""])


def markdown(plan, rows: list) -> str:
    labels, memory, times = _tables(rows)
    head = _time_head(plan)
    lines = [markdown_text(_title(plan)), "", *(f"- {markdown_text(m)}" for m in _machines(rows)), ""]
    lines += markdown_table(MEMORY_HEAD, memory, set(range(1, len(MEMORY_HEAD))), 0)
    lines += ["", *markdown_table(head, times, _right(head), 0), ""]
    lines += [f"- {markdown_text(label)}: {markdown_text(text)}" for label, text in _notes(plan, rows, labels)]
    return "\n".join([*lines, ""])


# ---- JSON ----


def _span(span: Span | None, unit: str, **more) -> dict:
    if span is None:
        return {"unit": unit, "value": None, "low": None, "high": None, **more}
    return {"unit": unit, "value": span.value, "low": span.low, "high": span.high, **more}


def _time_json(time: Time | None) -> dict | None:
    if time is None:
        return None
    known = time.span is not None
    return _span(
        time.span,
        "ns",
        floor_ns=time.floor.value if known else None,
        limited_by=time.limit[0] if known else None,
        limited_share=time.limit[1] if known else None,
        suspect=time.suspect,
        assumed=time.assumed,
        stages=[{"name": s.name, "limit": s.limit, **_span(s.span, "ns")} for s in time.stages] if known else [],
        reason=time.reason or ("; ".join(m.text for m in time.missing) or None),
    )


def _prediction_json(p: Prediction, result) -> dict:
    m = p.memory
    known = bool(p.machine.memory_bytes)
    return {
        "path": str(result.path),
        "machine": machine_name(result),
        "date": result.context["date"],
        "confidence": result.plan["confidence"],
        "device": p.machine.name,
        "model": p.machine.model,
        "memory": {
            "weights_bytes": m.weights,
            "kv_bytes": m.kv,
            "activations_bytes": m.activations,
            "total_bytes": m.total,
            "device_bytes": m.device if known else None,
            "usable_bytes": m.usable if known else None,
            "fits": m.fits if known else None,
            "concurrency": m.concurrency if known else None,
            "gpus_needed": m.gpus_needed,
        },
        "ttft" if p.step is not None else "forward": _time_json(p.first),
        "itl": _time_json(p.step),
        "throughput": _span(p.throughput, "tokens_per_s" if p.step is not None else "sequences_per_s"),
        "ceilings": [
            {"id": r.id, "assumed": r.assumed, "suspect": r.suspect, "unit": r.unit, "rate": r.span.value}
            for r in p.rates
        ],
        "to_measure": p.remedy,
    }


def as_json(plan, rows: list) -> str:
    document = {
        "schema": SCHEMA,
        "model": plan.model.__dict__ | {"parameters": plan.model.parameters},
        "asked": {
            "context": plan.context,
            "batch": plan.batch,
            "prompt": plan.prompt,
            "type": plan.kind,
            "kv_type": plan.kv_kind,
            "use": plan.use,
            "page": plan.page,
            "gpus": plan.gpus,
            "kernels": plan.kernels,
            "link_bytes_per_s": plan.link.span.value if plan.link else None,
            "alpha_ns": plan.alpha_ns,
        },
        "experts_read": plan.model.experts_read(plan.batch) if plan.model.experts else None,
        "rows": [_prediction_json(p, result) for result, p in rows],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
