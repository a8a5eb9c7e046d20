"""Names for people: series, parameters, ceilings and machines."""

from __future__ import annotations

from .load import Case, Result
from .units import binary, percent

FALLBACK_DEFAULTS = {"threads": "1"}
# Axes whose default says nothing worth a word in a legend: warm caches, empty kernels.
QUIET_DEFAULTS = ("cache", "kernel")
# Axes whose numbers are sizes in bytes.
BYTES = ("bytes", "size", "working_set")


def whole(value) -> int | None:
    """The value of a whole-number axis; None for text."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parameter(name: str, value, t) -> str:
    """`1 MiB`, `all threads`, `n = 1024`, `direction h2d`."""
    if name == "threads":
        return t("threads_all") if value == "all" else t("threads_n", n=value) if str(value) != "1" else t("threads_1")
    if value in ("yes", "no"):
        return f"{name}: {t(value)}"
    number = whole(value)
    if name in BYTES and number is not None:
        return binary(number)
    return f"{name} = {number}" if number is not None else t.or_raw("value", str(value))


def defaults(result: Result, suite: str) -> dict:
    """Axis name to default text, from the catalogue that the result carries."""
    for entry in result.plan["catalogue"]["suites"]:
        if entry["name"] == suite:
            return {axis["name"]: str(axis.get("default", "")) for axis in entry["axes"]}
    return FALLBACK_DEFAULTS


def parameters_text(case: Case, fallback: dict, t, always=()) -> str:
    """Parameters that differ from their default, and those in `always`, in the order of the axes."""
    shown = [parameter(k, v, t) for k, v in case.parameters.items() if k in always or str(v) != fallback.get(k)]
    return ", ".join(shown)


def series_label(case: Case, varying: set, fallback: dict, t, skip=()) -> str:
    """Variant and the parameters that tell this line of a plot from the others."""
    shown = [
        parameter(k, v, t)
        for k, v in case.parameters.items()
        if k in varying and k not in skip and not (k in QUIET_DEFAULTS and str(v) == fallback.get(k))
    ]
    return ", ".join([case.variant, *shown])


def resource(name: str, t) -> str:
    """`fp32 arithmetic` for flops.f32; a resource nobody knows stands as it is."""
    return t.or_raw("resource", name)


def level(case: Case, t) -> str:
    """Memory level of a ceiling: `DRAM`; the resource's name where the ceiling tells no level."""
    named = str(case.parameters.get("level", "none"))
    return t.or_raw("level", named) if named != "none" else resource(case.resource, t)


def access(case: Case, t) -> str:
    """`DRAM copy`, `L3 copy (non-temporal)`: memory level and kind of access of a ceiling."""
    stores = str(case.parameters.get("stores", "usual"))
    kind = f" ({t('stores.' + stores)})" if stores in ("nt", "temporal") else ""
    return f"{level(case, t)} {t.or_raw('access', case.variant)}{kind}"


def ceiling_label(case: Case, t) -> str:
    """`DRAM copy, all threads`: resource, memory level, kind of access and threads of one ceiling."""
    if case.resource is None:
        return case.id
    is_memory = case.resource.partition(".")[0] == "memory"
    name = access(case, t) if is_memory else resource(case.resource, t)
    threads = case.parameters.get("threads")
    return f"{name}, {parameter('threads', threads, t)}" if case.kind == "cpu" and threads is not None else name


def device_model(result: Result, name: str) -> str:
    for device in result.context["devices"]:
        if device["name"] == name:
            return device["model"] or name
    return name


def machine_name(result: Result) -> str:
    """CPU and GPU models, each once."""
    models = [result.context["machine"]["cpu_model"].strip() or "CPU"]
    gpus = [d["model"] for d in result.context["devices"] if d["kind"] != "cpu"]
    for model in dict.fromkeys(gpus):
        count = gpus.count(model)
        models.append(model if count == 1 else f"{count} x {model}")
    return " + ".join(models)


def letter(index: int) -> str:
    """Name of one result among several: A, B, ..."""
    return chr(ord("A") + index) if index < 26 else str(index + 1)


def share(case: Case) -> str:
    """Percent of the limit; `?` behind it where the ceiling is itself suspect, as the command's table has it."""
    return percent(case.fraction) + ("?" if case.fraction is not None and case.ceiling_suspect else "")
