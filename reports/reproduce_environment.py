"""Where two results were made: what differs, and how much alike two devices are. Nothing that fluctuates counts."""

from __future__ import annotations

from .readers import machine_identity
from .shape import NAMELESS

# How alike the device of a case is in both results, the most alike first. docs/reproduce.md says what each allows.
SAME, KIND = "the same machine", "the same kind of machine"
ARCHITECTURE, OTHER = "another machine of the same architecture", "another machine"
# What each allows to compare.
ALLOWED = {
    SAME: "inputs, outputs and times",
    KIND: "inputs, outputs and times, where another time is no failure",
    ARCHITECTURE: "inputs, and outputs of the same kernel; no times",
    OTHER: "inputs alone",
}

MACHINE = ("cpu_model", "cpu_vendor", "packages", "cores", "hardware_threads", "numa_nodes", "l3_bytes", "memory_bytes")
STATE = ("hypervisor", "governor", "turbo", "smt")
BUILD = ("version", "commit", "dirty", "source_hash", "build_type", "compiler", "flags", "sanitizers", "toolkit")
DEVICE = {
    "GPU": ("model", "uuid", "pci_bus_id", "compute_capability", "multiprocessors", "memory_bytes"),
    "driver": ("driver", "driver_api", "runtime"),
    "GPU state": ("clock_max_hz", "memory_clock_max_hz", "power_limit_watts", "ecc", "mig", "persistence"),
}


def differences(old: dict, new: dict, devices: set) -> list:
    """(kind, what, then, now) of all that differs; `devices`: names of those that the cases use."""
    a, b = old["context"], new["context"]
    out = []

    def add(kind, label, then, now):
        if then != now:
            out.append((kind, label, _shown(then), _shown(now)))

    def add_keys(kind, left, right, keys, prefix=""):
        left, right = (side if isinstance(side, dict) else {} for side in (left, right))
        for key in keys if keys is not None else sorted({*left, *right}):
            add(kind, f"{prefix}{key}", left.get(key), right.get(key))

    add("machine", "host_name", _host(a), _host(b))
    add_keys("machine", a.get("machine"), b.get("machine"), MACHINE)
    gpus = [{d.get("name"): d for d in side.get("devices", ()) if d.get("kind") != "cpu"} for side in (a, b)]
    for name in sorted({*gpus[0], *gpus[1]} & devices):
        for kind, keys in DEVICE.items():
            add_keys(kind, gpus[0].get(name), gpus[1].get(name), keys, f"{name} ")
    add_keys("system", a, b, ("kernel", "os"))
    add_keys("system", a.get("machine"), b.get("machine"), STATE)
    add_keys("system", a.get("container"), b.get("container"), None, "container ")
    add_keys("system", a.get("mitigations"), b.get("mitigations"), None, "mitigation ")
    add_keys("system", a.get("environment_variables"), b.get("environment_variables"), None, "$")
    places = [side["plan"].get("placement") or {} for side in (old, new)]
    add_keys("placement", *places, ("cpus", "numa_node", "memory_policy"))
    add_keys("build", a.get("assay"), b.get("assay"), (*BUILD, "google_benchmark"))
    add_keys("plan", old["plan"], new["plan"], ("profile", "budget_ns", "launches"))
    add("plan", "seed", a.get("seed"), b.get("seed"))
    return out


def _host(context: dict):
    name = context.get("host_name")
    return None if not isinstance(name, str) or NAMELESS.fullmatch(name) else name


def _shown(value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value) if value != "" else "none"


def likeness(old: dict, new: dict, device: dict) -> str:
    """Of the device of a case. A GPU's times depend on its host too, so both must be alike."""
    a, b = old["context"], new["context"]
    left, right = (machine_identity(side) for side in (a, b))
    left.pop("accelerators"), right.pop("accelerators")
    # A name that is hidden or a container's is no difference.
    names = {_host(a), _host(b)} - {None}
    hosts = left == right
    if device["kind"] == "cpu":
        if hosts:
            return SAME if len(names) < 2 else KIND
        units = [
            (side["machine"].get("cpu_vendor"), sorted(map(str, side["machine"].get("isa") or ()))) for side in (a, b)
        ]
        return ARCHITECTURE if units[0] == units[1] and units[0][1] else OTHER
    one, two = (_device(side, device["name"]) for side in (a, b))
    if hosts and one.get("model") == two.get("model"):
        return SAME if one.get("uuid") == two.get("uuid") and len(names) < 2 else KIND
    capability = one.get("compute_capability")
    return ARCHITECTURE if capability is not None and capability == two.get("compute_capability") else OTHER


def _device(context: dict, name: str) -> dict:
    return next((d for d in context.get("devices", ()) if d.get("name") == name), {})


def threads_changed(old: dict, new: dict) -> bool:
    """As many CPUs in both? A case with threads:all uses them all."""
    counts = [len((side["plan"].get("placement") or {}).get("cpus") or ()) for side in (old, new)]
    return counts[0] != counts[1]
