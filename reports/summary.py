"""What a result says in sentences: the best case of each suite and limit, and what to distrust with its remedy."""

from __future__ import annotations

from dataclasses import dataclass

from . import labels
from . import series as pick
from .load import Case, Result
from .units import decimal, percent, quantity

# Words by which a warning that the run recorded is known to call for a remedy of ours.
RECORDED = {
    "governor": "governor",
    "busy": "load",
    "CPU time below": "quota",
    "PCIe": "link",
    "persistence": "persistence",
}


@dataclass(frozen=True)
class Best:
    """The best case of one suite on one device against one limit."""

    case: Case
    metric: str
    label: str
    limit: str
    ceiling: str
    sentence: str


def suites(result: Result) -> list:
    """Suites in the order of the cases; the plan's order is the harness's own."""
    return list(dict.fromkeys(c.suite for c in result.cases))


def best_cases(result: Result, t) -> list:
    out = []
    for suite in suites(result):
        for device in [d["name"] for d in result.context["devices"]]:
            cases = [
                c
                for c in result.cases
                if c.suite == suite
                and c.device == device
                and c.done
                and c.validity != "invalid"
                and pick.part_of(c) != "build"
            ]
            metric = pick.metric_of(suite, cases)
            cases = [c for c in cases if metric in c.metrics]
            if cases:
                out += [_best(result, case, metric, t) for case in _winners(suite, cases, metric)]
    return out


def _winners(suite: str, cases: list, metric: str) -> list:
    """memcpy has one limit for each path and memory level: the best of each at its largest size. Suites without an
    axis of their own metric have no best size either: the case nearest to its limit, if any limit is known."""
    if suite == "memcpy":
        groups = {}
        for case in cases:
            groups.setdefault(case.limit, []).append(case)
        limited = {k: v for k, v in groups.items() if k is not None} or groups
        axis = pick.x_axis(cases)
        tops = []
        for group in limited.values():
            largest = max((labels.whole(c.parameters.get(axis)) or 0) for c in group) if axis else 0
            full = [c for c in group if not axis or (labels.whole(c.parameters.get(axis)) or 0) == largest]
            tops.append(max(full, key=lambda c: pick.best_by(c, metric)))
        return tops
    if suite in pick.SUITE_METRIC:
        return [max(cases, key=lambda c: pick.best_by(c, metric))]
    limited = [c for c in cases if c.fraction is not None]
    return [max(limited, key=lambda c: c.fraction)] if limited else [min(cases, key=lambda c: c.metrics["time"].value)]


def _best(result: Result, case: Case, metric: str, t) -> Best:
    ceiling = next((c for c in result.ceilings if c.id == case.ceiling_id), None)
    axis = pick.x_axis([c for c in result.cases if c.suite == case.suite and c.device == case.device])
    text = labels.parameters_text(case, labels.defaults(result, case.suite), t, always=(axis,))
    label = f"{case.variant}, {text}" if text else case.variant
    value = quantity(case.metrics[metric].value, case.metrics[metric].unit)
    named = ", ".join(
        [labels.resource(case.limit, t)]
        if ceiling is None and case.limit
        else [labels.ceiling_label(ceiling, t)]
        if ceiling is not None and ceiling.resource
        else []
    )
    rate = quantity(ceiling.rate.value, ceiling.rate.unit) if ceiling is not None and ceiling.rate else ""
    words = {
        "suite": case.suite,
        "device": case.device,
        "label": label,
        "value": value,
        "metric": t.or_raw("metric_word", metric),
        "percent": percent(case.fraction),
        "limit": named,
        "rate": rate,
    }
    if case.fraction is None:
        key = "best_unlimited"
    else:
        key = "best_above" if case.fraction > 1.005 else "best_limited" if rate else "best_limited_unnamed"
    sentence = t(key, **words)
    if case.ceiling_suspect and case.fraction is not None:
        sentence += " " + t("best_ceiling_suspect")
    if case.validity != "valid":
        sentence += " " + t("best_suspect", state=t.or_raw("validity", case.validity), why="; ".join(case.reasons))
    return Best(case, metric, label, named, rate, sentence)


def counts(result: Result) -> dict:
    """How many cases ended how."""
    out = {"total": len(result.cases), "done": 0, "suspect": 0, "failed": 0, "lost": 0, "skipped": 0, "not_reached": 0}
    for case in result.cases:
        out[case.status] += 1
        out["suspect"] += case.status == "done" and case.validity != "valid"
    return out


def machine_sentence(result: Result, t) -> str:
    machine = result.context["machine"]
    words = {
        "cpu": machine["cpu_model"] or "CPU",
        "cores": machine["cores"],
        "threads": machine["hardware_threads"],
        "memory": decimal(machine["memory_bytes"]),
        "os": result.context["os"],
    }
    gpus = [d for d in result.context["devices"] if d["kind"] != "cpu"]
    if not gpus:
        return t("machine_cpu", **words)
    listed = ", ".join(f"{d['name']}: {d['model']}" for d in gpus)
    return t("machine_gpu", **words, gpus=listed)


def _below(pcie: dict, what: str) -> bool:
    """A link value that is known to be under its maximum."""
    return None not in (pcie[what], pcie[f"{what}_max"]) and pcie[what] < pcie[f"{what}_max"]


def warnings(result: Result, t) -> list:
    """(what, remedy or None): what the run recorded, then what its figures call for."""
    context, plan = result.context, result.plan
    out = []
    said = set()
    for line in context["warnings"]:
        key = next((k for word, k in RECORDED.items() if word in str(line)), None)
        said.add(key)
        out.append((str(line), t(f"remedy.{key}") if key else None))

    def add(key: str, **words):
        if key not in said:
            out.append((t(f"warn.{key}", **words), t(f"remedy.{key}")))

    governor = context["machine"].get("governor")
    if governor not in (None, "performance"):
        add("governor", governor=governor)
    if context["load_avg"] and context["load_avg"][0] > 0.5 * max(1, context["num_cpus"]):
        add("load", load=context["load_avg"][0], cpus=context["num_cpus"])
    for device in context["devices"]:
        pcie = device.get("pcie")
        if pcie and (_below(pcie, "width") or _below(pcie, "generation")):
            add("link", device=device["name"], **{k: "?" if v is None else v for k, v in pcie.items()})
        if device.get("persistence") is False:
            add("persistence", device=device["name"])
        if device.get("mig"):
            add("mig", device=device["name"])
    own = plan["placement"].get("devices")
    for placement in [plan["placement"], *(own.values() if isinstance(own, dict) else ())]:
        read_back = placement.get("read_back")
        if read_back is not None and sorted(read_back) != sorted(placement["cpus"]):
            add("placement", asked=placement["cpus"], got=read_back)
    if context["assay"]["dirty"]:
        add("dirty")
    if context["assay"]["sanitizers"]:
        add("sanitizers", name=context["assay"]["sanitizers"])
    if context["assay"]["build_type"] not in ("Release", "RelWithDebInfo"):
        add("build", name=context["assay"]["build_type"] or "?")
    number = counts(result)
    if number["suspect"]:
        add("suspect", n=number["suspect"])
    missing = number["failed"] + number["lost"]
    if missing:
        add("failed", n=missing)
    if number["not_reached"]:
        add("not_reached", n=number["not_reached"])
    return out
