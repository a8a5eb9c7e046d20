"""`assay size --score`: what a result measured of the suite inference, against what its own ceilings predict."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputProblem
from .load import Case, Metric, Result
from .size_ceilings import Machine, Span
from .size_model import TYPES, Model, from_record
from .size_predict import Plan, Time, decode, prefill, stored_bytes

SUITE = "inference"
PHASES = ("decode", "prefill")
GOALS = {"memory": 0.05, "ITL": 0.10}  # relative error at most; TTFT has no goal
MEMORY = {"weights_bytes": "weights", "kv_bytes": "KV cache", "peak_bytes": "peak"}
MET, MISSED, UNKNOWN, SHOWN = "met", "missed", "unknown", "no goal"


@dataclass(frozen=True)
class Figure:
    """One predicted figure beside its measurement; `predicted` is None where a ceiling is missing."""

    name: str
    unit: str
    predicted: Span | None
    measured: Metric
    goal: float | None
    reason: str | None = None

    @property
    def error(self) -> float | None:
        return None if self.predicted is None else self.predicted.value / self.measured.value - 1

    @property
    def outcome(self) -> str:
        if self.predicted is None:
            return UNKNOWN
        if self.goal is None:
            return SHOWN
        return MET if abs(self.error) <= self.goal else MISSED


@dataclass(frozen=True)
class Score:
    """One point (model, phase, lengths, type) on one device, by its fastest variant."""

    result: Result
    case: Case
    figures: tuple


@dataclass(frozen=True)
class Scores:
    scores: list
    left_out: list  # (case id, why)


def scores(results: list, models: list, where: str, device: str | None, kernels: int) -> Scores:
    """All points of the results; InputProblem where there is none."""
    known = {r["name"]: r for r in models if isinstance(r, dict) and isinstance(r.get("name"), str)}
    found, left_out = [], []
    for result in results:
        fastest: dict = {}
        for case in result.cases:
            if case.suite != SUITE or not case.done or device not in (None, case.device, case.kind):
                continue
            fault = _fault(case, known)
            if fault:
                left_out.append((case.id, fault))
                continue
            point = (case.device, tuple(sorted((k, str(v)) for k, v in case.parameters.items())))
            best = fastest.get(point)
            if best is None or case.metrics["time"].value < best.metrics["time"].value:
                fastest[point] = case
        found += [
            _score(result, case, from_record(known[case.parameters["model"]], where), kernels)
            for case in fastest.values()
        ]
    if not found:
        why = f": {left_out[0][0]}: {left_out[0][1]}" if left_out else ""
        raise InputProblem(
            f"{results[0].path}: no measured case of the suite {SUITE} to score{why}; measure some: "
            f"assay run --suite {SUITE} --out FILE"
        )
    return Scores(found, left_out)


def _fault(case: Case, known: dict) -> str | None:
    p = case.parameters
    if p.get("phase") not in PHASES:
        return f"phase {p.get('phase')} is not predicted"
    if p.get("model") not in known:
        return f"model {p.get('model')} is not in the catalogue"
    if known[p["model"]].get("family") != "decoder":
        return "only decoders have a step to predict"
    if p.get("type") not in TYPES:
        return f"type {p.get('type')} is not predicted"
    if case.metrics["time"].value <= 0:
        return "its time is not above 0"
    for name, least in (("batch", 1), ("context", 0) if p["phase"] == "decode" else ("prompt", 1)):
        if not isinstance(p.get(name), int) or p[name] < least:
            return f"its {name} is {p.get(name)}"
    return None


def _score(result: Result, case: Case, model: Model, kernels: int) -> Score:
    device = next((d for d in result.context["devices"] if d["name"] == case.device), None)
    if device is None:
        raise InputProblem(f"{result.path}: {case.id}: its device is not among context.devices; make the result again")
    machine, p = Machine(result, device), case.parameters
    steps = p["phase"] == "decode"
    # The suite keeps one block of context + 1 positions (kernels/inference/decoder.h): pages of one token.
    plan = Plan(
        model=model,
        context=p["context"] + 1 if steps else p["prompt"],
        batch=p["batch"],
        prompt=1 if steps else p["prompt"],
        kind=p["type"],
        kv_kind=p["kv_type"] if p.get("kv_type") in TYPES else p["type"],
        use=1.0,
        page=1,
        gpus=1,
        kernels=kernels,
        link=None,
        alpha_ns=None,
        threads=str(p.get("threads", "1")),
        cold=p.get("cache") == "cold",
    )
    time = decode(plan, machine) if steps else prefill(plan, machine, plan.batch)
    return Score(result, case, (*_memory(plan, machine, case), _time("ITL" if steps else "TTFT", time, machine, case)))


def _memory(plan: Plan, machine: Machine, case: Case) -> list:
    model = plan.model
    weights = model.weight_bytes(plan.kind)
    kv = float(plan.batch * plan.context * model.kv_bytes(plan.kv_kind))
    held = model.activation_bytes(stored_bytes(plan, machine), plan.batch * plan.prompt, plan.batch)
    predicted = {"weights_bytes": weights, "kv_bytes": kv, "peak_bytes": weights + kv + held}
    out = []
    for name, label in MEMORY.items():
        if name in case.metrics and case.metrics[name].value > 0:
            value = predicted[name]
            out.append(Figure(label, "bytes", Span(value, None, None), case.metrics[name], GOALS["memory"]))
    return out


def _time(name: str, time: Time, machine: Machine, case: Case) -> Figure:
    reason = None
    if time.span is None:
        reason = "; ".join(m.text for m in time.missing)
        reason += f"; to measure: {machine.remedy((SUITE,))}"
    return Figure(name, "ns", time.span, case.metrics["time"], GOALS.get(name), reason)
