"""What the page says of where a result was made: cards of host and GPUs, provenance, the command to run it again."""

from __future__ import annotations

import shlex

from .load import Result
from .units import binary, decimal, percent, quantity


def _yes_no(value, t) -> str:
    return t("unknown") if value is None else t("yes") if value else t("no")


def card(result: Result, t) -> list:
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


def device_card(device: dict, t) -> dict:
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


def provenance(result: Result, t) -> list:
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


def command(result: Result) -> str:
    """The command that measures this result again."""
    own = ["--allow-exec"] if any(c.suite == "exec" for c in result.cases) else []
    return shlex.join(["assay", "reproduce", *own, result.path.name])
