"""Builds the page: one self-contained report.html and the same plots as PNG and SVG files beside it."""

from __future__ import annotations

import shlex
from pathlib import Path

import jinja2

from . import compare_view, labels, plots, plots_telemetry, style, summary
from . import series as pick
from .errors import EnvironmentProblem, InputProblem, visible
from .i18n import Texts
from .load import Case, Result, load
from .units import NONE, binary, decimal, interval, percent, quantity

TEMPLATES = Path(__file__).parent / "templates"


def write_report(paths: list, output: str, lang: str) -> Path:
    """Reads every file before the first byte is written, so that a broken one costs no half report."""
    results = [load(path) for path in paths]
    if len({r.path.resolve() for r in results}) != len(results):
        raise InputProblem("one file is named twice: name each result once")
    folder = Path(output)
    try:
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        page = folder / "report.html"
        page.touch()
    except OSError as error:
        raise EnvironmentProblem(f"{folder}: cannot be written ({error.strerror}); name another -o DIR") from None
    texts = Texts(lang)
    with style.plotting(lang):
        views = [_view(r, index, len(results), folder / "plots", texts) for index, r in enumerate(results)]
    html = (
        _environment(texts)
        .get_template("report.html.j2")
        .render(
            results=views,
            comparison=compare_view.rows(results, texts) if len(results) > 1 else None,
            left_out=compare_view.left_out(results) if len(results) > 1 else 0,
            tokens=style.TOKENS,
            css=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        )
    )
    try:
        page.write_text(html, encoding="utf-8")
    except OSError as error:
        raise EnvironmentProblem(f"{page}: cannot be written ({error.strerror}); name another -o DIR") from None
    return page


def _environment(texts: Texts) -> jinja2.Environment:
    """Everything that is printed is made visible, then escaped; only our own SVG and CSS are marked safe."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: (
            value if hasattr(value, "__html__") else visible(value) if isinstance(value, str) else value
        ),
    )
    environment.globals.update(t=texts, lang=texts.html_lang)
    return environment


def _view(result: Result, index: int, count: int, folder: Path, t) -> dict:
    """All that the template prints of one result."""
    prefix = f"r{index + 1}-" if count > 1 else ""
    best = summary.best_cases(result, t)
    drawn = [plots.roofline_plot(result, folder, t, prefix)]
    drawn += [plots.suite_plot(result, suite, folder, t, prefix) for suite in summary.suites(result)]
    drawn.append(plots_telemetry.telemetry_plot(result, folder, t, prefix))
    letter = chr(ord("A") + index) if index < 26 else str(index + 1)
    return {
        "anchor": f"r{index + 1}",
        "letter": letter if count > 1 else "",
        "file": result.path.name,
        "machine": labels.machine_name(result),
        "sentence": summary.machine_sentence(result, t),
        "best": best,
        "counts": summary.counts(result),
        "warnings": summary.warnings(result, t),
        "card": _card(result, t),
        "devices": [_device(d, t) for d in result.context["devices"] if d["kind"] != "cpu"],
        "absent": result.context["absent"],
        "plots": [p for p in drawn if p is not None],
        "ceilings": [_ceiling(c, t) for c in result.ceilings],
        "suites": _suites(result, t),
        "provenance": _provenance(result, t),
        "command": _command(result),
        "context": result.context,
        "plan": result.plan,
    }


def _yes_no(value, t) -> str:
    return t("unknown") if value is None else t("yes") if value else t("no")


def _card(result: Result, t) -> list:
    context, machine = result.context, result.context["machine"]
    container = context["container"]
    limit = container.get("memory_limit_bytes")
    quota = container.get("cpu_quota")
    return [
        (t("card.cpu"), machine["cpu_model"] or t("unknown")),
        (
            t("card.cores"),
            t(
                "card.cores_value",
                packages=machine["packages"],
                cores=machine["cores"],
                threads=machine["hardware_threads"],
                nodes=machine["numa_nodes"],
            ),
        ),
        (
            t("card.caches"),
            f"L1d {binary(machine['l1d_bytes'])} · L2 {binary(machine['l2_bytes'])} · L3 {binary(machine['l3_bytes'])}",
        ),
        (t("card.memory"), decimal(machine["memory_bytes"])),
        (t("card.isa"), ", ".join(str(x) for x in machine.get("isa", [])) or t("unknown")),
        (
            t("card.clock"),
            t(
                "card.clock_value",
                mhz=f"{context.get('mhz_per_cpu') or 0:g}",
                governor=machine.get("governor") or t("unknown"),
                turbo=_yes_no(machine.get("turbo"), t),
                smt=_yes_no(machine.get("smt"), t),
            ),
        ),
        (
            t("card.container"),
            t(
                "card.container_value",
                cpuset=container.get("cpuset") or t("none"),
                quota=f"{quota:g}" if quota else t("none"),
                memory=decimal(limit) if limit else t("none"),
            ),
        ),
        (t("card.system"), " · ".join(x for x in (context["os"], context["kernel"], machine.get("hypervisor")) if x)),
    ]


def _device(device: dict, t) -> dict:
    """Rows of a GPU's card; a field that the driver does not tell is left out."""

    def hertz(value):
        return f"{value / 1e6:.0f} MHz" if value else None

    rows = [
        (t("card.multiprocessors"), device.get("multiprocessors")),
        (t("card.capability"), device.get("compute_capability")),
        (t("card.memory"), decimal(device["memory_bytes"]) if device.get("memory_bytes") else None),
        (t("card.l2"), binary(device["l2_bytes"]) if device.get("l2_bytes") else None),
        (t("card.driver"), device.get("driver")),
        (t("card.runtime"), " / ".join(x for x in (device.get("driver_api"), device.get("runtime")) if x) or None),
        (t("card.clock_max"), hertz(device.get("clock_max_hz"))),
        (t("card.memory_clock"), hertz(device.get("memory_clock_max_hz"))),
        (t("card.power"), f"{device['power_limit_watts']:g} W" if device.get("power_limit_watts") else None),
        ("ECC", None if device.get("ecc") is None else _yes_no(device["ecc"], t)),
        ("MIG", None if device.get("mig") is None else _yes_no(device["mig"], t)),
        (
            t("card.pcie"),
            t("card.pcie_value", **{k: "?" if v is None else v for k, v in device["pcie"].items()})
            if device.get("pcie")
            else None,
        ),
        (t("card.bus"), device.get("pci_bus_id")),
        ("UUID", device.get("uuid")),
    ]
    return {
        "name": device["name"],
        "model": device["model"],
        "rows": [(k, v) for k, v in rows if v is not None and v != ""],
    }


def _ceiling(case: Case, t) -> dict:
    return {
        "device": case.device,
        "label": labels.ceiling_label(case, t),
        "id": case.id,
        "value": quantity(case.rate.value, case.rate.unit) if case.rate and case.done else NONE,
        "interval": interval(case.rate) if case.done else NONE,
        "state": _state(case, t),
    }


def _state(case: Case, t) -> dict:
    """Mark, word and reason: never by colour alone."""
    if case.status != "done":
        return {"mark": "✕", "kind": "bad", "word": t(f"status.{case.status}"), "why": case.reason or ""}
    mark, kind = {"valid": ("✓", "good"), "suspect": ("!", "warn")}.get(case.validity, ("✕", "bad"))
    return {"mark": mark, "kind": kind, "word": t.or_raw("validity", case.validity), "why": "; ".join(case.reasons)}


def _suites(result: Result, t) -> list:
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
        "percent": percent(case.fraction) if case.done else NONE,
        "bar": min(100.0, 100 * case.fraction) if case.done and case.fraction is not None else None,
        "limit": _limit(case, result, t),
        "extras": [f"{name} {quantity(value, unit)}" for name, (unit, value) in case.extras.items()],
        "state": _state(case, t),
    }


def _provenance(result: Result, t) -> list:
    context, plan, build = result.context, result.plan, result.context["assay"]
    dirty = {None: t("dirty.none"), True: t("dirty.true"), False: t("dirty.false")}[build["dirty"]]
    return [
        (t("prov.file"), result.path.name),
        (t("prov.date"), context["date"]),
        (t("prov.argv"), shlex.join(str(a) for a in context["argv"])),
        (t("prov.seed"), context["seed"]),
        (t("prov.commit"), f"{build['commit'] or t('unknown')} ({dirty})"),
        (t("prov.source"), build["source_hash"]),
        (
            t("prov.build"),
            " · ".join(
                str(x)
                for x in (f"assay {build['version']}", build["build_type"], build["compiler"], build.get("toolkit"))
                if x
            ),
        ),
        (
            t("prov.plan"),
            t(
                "prov.plan_value",
                profile=plan["profile"],
                launches=plan["launches"],
                budget=quantity(float(plan["budget_ns"]), "ns", 3),
                target=percent(plan["target_relative_half_width"]),
                confidence=percent(plan["confidence"]),
            ),
        ),
        (t("prov.hash"), plan["hash"]),
        (t("prov.cpus"), ", ".join(str(c) for c in plan["placement"]["cpus"])),
        (t("prov.environment"), " ".join(f"{k}={v}" for k, v in context["environment_variables"].items()) or t("none")),
    ]


def _command(result: Result) -> str:
    """The command that makes this run again on this machine."""
    plan = result.plan
    words = ["assay", "run", "--seed", result.context["seed"], "--profile", plan["profile"]]
    if plan["launches"] != 1:
        words += ["--launches", str(plan["launches"])]
    for suite in plan["suites"]:
        words += ["--suite", str(suite)]
    if plan["filter"]:
        words += ["--filter", plan["filter"]]
    return shlex.join(words)
