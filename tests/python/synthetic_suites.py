"""Results of an imaginary machine with the suites memory, alloc, offload and inference. Nothing here was measured.

The times follow from made-up latencies, rates and costs below, so that a test knows what a plot must say.
"""

from __future__ import annotations

import synthetic as model
from make_fixture import Maker, _limit, _work, document

KIB, MIB = 1024, 1024 * 1024
SEED = 20260202
COMMON = {"threads": "1", "cache": "warm"}

VARIANTS = {
    "memory": [("chase", "cpu"), ("chase", "cuda"), ("shared", "cuda"), ("strided", "cuda"), ("read", "cuda")],
    "alloc": [("malloc", "cpu"), ("mmap", "cpu"), ("malloc", "cuda"), ("stream", "cuda"), ("slab", "cuda")],
    "offload": [(name, kind) for name in ("axpy", "matmul", "copy", "softmax") for kind in ("cpu", "cuda")],
    "inference": [
        *((name, "cpu") for name in ("naive", "simd", "threaded")),
        *((name, "cuda") for name in ("eager_naive", "eager", "graph", "fused", "persistent")),
    ],
}
DEFAULTS = {
    "memory": {"bytes": "0", "stride": "128", **COMMON},
    "alloc": {"bytes": "0", "touch": "no", **COMMON},
    "offload": {"n": "0", "transfers": "no", **COMMON},
    "inference": {
        "model": "none",
        "phase": "decode",
        "batch": "1",
        "context": "512",
        "prompt": "128",
        "tokens": "64",
        "type": "bf16",
        **COMMON,
    },
}

# ns a load by working set
CHASE = {
    "cpu": {16 * KIB: 1.5, 256 * KIB: 4.0, 4 * MIB: 12.0, 64 * MIB: 95.0},
    "cuda": {16 * KIB: 20.0, MIB: 140.0, 512 * MIB: 350.0},
}
CONFLICTS = {1: 1.0, 2: 2.0, 8: 8.0, 32: 32.0}  # ns an access of a warp by stride
COALESCED = {1: 3e12, 8: 5e11, 32: 2e11}  # useful bytes a second by stride
ALLOC = {
    "cpu": [("malloc", 64, 60.0), ("malloc", 64 * KIB, 300.0), ("mmap", 64 * KIB, 4e3)],
    "cuda": [("malloc", MIB, 9e4), ("stream", MIB, 1.2e4), ("slab", MIB, 200.0)],
}
# operation: (ns of the CPU = a + b n, of the GPU resident, of the GPU with transfers): both sides over SIZES
SIZES = (1024, 16384, 262144, 4194304)
OFFLOAD = {
    "axpy": ((100.0, 0.5), (5e3, 0.01), (2e4, 0.6)),  # resident pays from about 1e4 on, with transfers never
    "matmul": ((1e6, 5.0), (5e3, 0.1), (2e4, 0.3)),  # pays everywhere
}

# model: ns of the floor of a decode step at batch 1, context 0; ns a token of context; ns of prefill a token
MODELS = {"llama-small": (6e5, 20.0, 900.0), "llama-large": (3.3e6, 60.0, 15e3)}
RUNGS = {
    "cuda": {"eager_naive": 9.0, "eager": 3.0, "graph": 1.5, "fused": 1.15, "persistent": 1.3},
    "cpu": {"naive": 900.0, "simd": 160.0, "threaded": 40.0},
}
STAGES = (  # path, share of a step on the device, floor / time
    ("norm", 0.04, 0.30),
    ("qkv", 0.16, 0.88),
    ("rotary", 0.02, None),
    ("attention", 0.12, 0.70),
    ("attention/join", 0.02, None),  # beside it, not part of it
    ("output", 0.10, 0.86),
    ("mlp/gate_up", 0.22, 0.90),
    ("mlp/down", 0.12, 0.91),
    ("head", 0.09, 0.93),
)
GAPS = (("gap/qkv", 0.01), ("gap/rotary", 0.02))
HOST = (("sample", 0.03), ("launch", 0.02))
LAYERS = 2
OPERATIONS = 50


def parameters(suite: str, **given) -> dict:
    """All axes of the suite with defaults; whole numbers as integers."""
    merged = {**DEFAULTS[suite], **{k: str(v) for k, v in given.items()}}
    return {k: int(v) if v.isdigit() and k != "threads" else v for k, v in merged.items()}


def _memory(make, device):
    kind = device["kind"]
    for size, ns in CHASE[kind].items():
        given = parameters("memory", bytes=size)
        yield make.measured("memory", "chase", device, given, _work(items=1e5, item="load"), ns * 1e5)
    if kind == "cuda":
        for stride, ns in CONFLICTS.items():
            given = parameters("memory", stride=stride)
            yield make.measured("memory", "shared", device, given, _work(items=1e5, item="access"), ns * 1e5)
        for stride, rate in COALESCED.items():
            given = parameters("memory", bytes=64 * MIB, stride=stride)
            yield make.measured("memory", "strided", device, given, _work(read=64 * MIB), 64 * MIB / rate * 1e9)
        for size in (MIB, 64 * MIB):
            given = parameters("memory", bytes=size)
            yield make.measured("memory", "read", device, given, _work(read=size), 2e3 + size / 3e3)


def _alloc(make, device):
    for variant, size, ns in ALLOC[device["kind"]]:
        given = parameters("alloc", bytes=size)
        yield make.measured("alloc", variant, device, given, _work(items=16, item="pair"), 16 * ns)


def _offload(make, device):
    for operation, (host, resident, moved) in OFFLOAD.items():
        ways = [("no", host)] if device["kind"] == "cpu" else [("no", resident), ("yes", moved)]
        for transfers, (fixed, each) in ways:
            for n in SIZES:
                given = parameters("offload", n=n, transfers=transfers)
                work = _work(flops=2.0 * n, read=8.0 * n, written=4.0 * n)
                yield make.measured("offload", operation, device, given, work, fixed + each * n)
    if device["kind"] == "cpu":
        yield make.measured("offload", "softmax", device, parameters("offload", n=1024), _work(flops=5.0), 1e3)
    else:
        given = parameters("offload", n=1024, transfers="yes")
        yield make.measured("offload", "softmax", device, given, _work(flops=5.0), 2e4)


def step_ns(name: str, rung: float, batch: int, context: int) -> float:
    fixed, each, _ = MODELS[name]
    return rung * (fixed + batch * context * each + 2e4 * batch)


def breakdown(series_ns: float, phase: str) -> tuple:
    """(parts, what they close against): stages on device and host, one row a layer and their sum, two gaps."""
    rows = []
    instrumented = 1.04 * series_ns

    def add(path, layer, where, source, count, share, floor):
        total = instrumented * share * OPERATIONS
        mean = total / (count * OPERATIONS)
        rows.append(
            {
                "phase": phase,
                "path": path,
                "layer": layer,
                "where": where,
                "source": source,
                "count": count * OPERATIONS,
                "total_ns": total,
                "mean_ns": mean,
                "p50_ns": mean * 0.99,
                "p99_ns": mean * 1.2,
                "share": share,
                "bytes": 1e6 * share if floor else 0.0,
                "flops": 1e6 * share if floor else 0.0,
                "floor_ns": mean * floor if floor else None,
                "percent_of_floor": 100 * floor if floor else None,
            }
        )

    add("schedule", None, "host", "clock", 1, 0.01, None)
    for path, share, floor in STAGES:
        layers = LAYERS if path.startswith("") else 1
        add(path, None, "device", "cupti", layers, share, floor)
        for layer in range(layers if layers > 1 else 0):
            add(path, layer, "device", "cupti", 1, share / layers, floor)
    for path, share in GAPS:
        add(path, None, "device", "cupti", LAYERS, share, None)
    for path, share in HOST:
        add(path, None, "host", "clock", 1, share, None)
    attributed = 0.01 + sum(s for _, s, _ in STAGES) + sum(s for _, s in (*GAPS, *HOST))
    closes = {
        "series_ns": series_ns,
        "instrumented_ns": instrumented,
        "attributed_ns": instrumented * attributed,
        "unattributed_ns": instrumented * (1 - attributed),
        "instrumentation_ns": instrumented - series_ns,
        "operations": OPERATIONS,
    }
    return rows, closes


def _inference(make, device, with_parts: bool):
    kind, rungs = device["kind"], RUNGS[device["kind"]]
    threads = {"naive": "1", "simd": "1"}
    top = "threaded" if kind == "cpu" else "fused"
    for name in MODELS if kind == "cuda" else ("llama-small",):
        for variant, rung in rungs.items():
            points = [(1, 512)]
            if variant == top:
                points += [(1, 128), (1, 2048), (4, 512), (16, 512)]
            for batch, context in points:
                given = parameters(
                    "inference",
                    model=name,
                    batch=batch,
                    context=context,
                    type="bf16",
                    threads=threads.get(variant, "all"),
                )
                time = step_ns(name, rung, batch, context)
                case = make.measured("inference", variant, device, given, _work(flops=1e9, items=batch), time)
                floor = step_ns(name, 1.0, batch, context)
                case["ceiling"].update(
                    fraction=floor / time, limit="memory", floor_ns=floor, reason=None, suspect=variant == "eager"
                )
                if with_parts and batch == 1 and context == 512:
                    case["parts"], case["breakdown"] = breakdown(time, "decode")
                yield case
        for prompt in (1, 128, 512, 2048):
            given = parameters("inference", model=name, phase="prefill", prompt=prompt, type="bf16", threads="all")
            time = rungs[top] * (2e5 + prompt * MODELS[name][2])
            yield make.measured("inference", top, device, given, _work(flops=1e9), time)
    for batch in (1, 8, 32):
        given = parameters("inference", model="resnet18", phase="forward", batch=batch, threads="all")
        time = (2e7 if kind == "cpu" else 2e5) * (0.5 + 0.1 * batch)
        yield make.measured("inference", top, device, given, _work(flops=1e9), time)


def suites_document(devices=(model.CPU, model.CUDA), speed: float = 1.0, with_parts: bool = True) -> dict:
    """One result of these suites with the ceilings of the imaginary machine, one of them not reached."""
    result = document(SEED, list(devices), measure=False, speed=speed)
    make = Maker(SEED, speed)
    cases, ceilings = [], []
    for device in devices:
        own = [make.ceiling(device, *row) for row in model.CEILINGS[device["kind"]]]
        missing = make.blank("ceiling", "copy", device, {"level": "l2"}, _work(read=1.0), "not_reached", "no time left")
        missing["rate"] = {"resource": "memory", "unit": "bytes_per_s", "value": None, "low": None, "high": None}
        ceilings += [*own, missing]
        cases += [*_memory(make, device), *_alloc(make, device), *_offload(make, device)]
        cases += _inference(make, device, with_parts)
    for case in cases:
        if case["suite"] == "memory" and case["variant"] == "read":
            _limit(
                case, [c for c in ceilings if c["status"] == "done"], [("memory", case["work"]["bytes_read"])], "hbm"
            )
    for name, variants in VARIANTS.items():
        result["plan"]["catalogue"]["suites"].append(
            {
                "name": name,
                "summary": name,
                "axes": [{"name": k, "default": v, "unit": "", "help": ""} for k, v in DEFAULTS[name].items()],
                "variants": [{"name": v, "device": kind, "summary": v} for v, kind in variants],
            }
        )
    result["ceilings"], result["cases"] = ceilings, cases
    return result
