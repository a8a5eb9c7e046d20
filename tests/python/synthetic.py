"""Model of an imaginary machine named "synthetic": catalogue, devices, ceilings and cases with made-up rates.

Nothing here was measured. make_fixture.py turns it into assay.result/1 files; the tests read those.
"""

from __future__ import annotations

KIB, MIB = 1024, 1024 * 1024

AXES = {
    "matmul": [
        ("n", "0", "elements", "columns"),
        ("m", "0", "elements", "rows; 0: n"),
        ("k", "0", "elements", "inner; 0: n"),
        ("threads", "1", "threads", "threads or all"),
        ("cache", "warm", "", "warm or cold"),
    ],
    "memcpy": [
        ("bytes", "0", "bytes", "bytes copied"),
        ("dir", "h2h", "", "from and to"),
        ("memory", "pinned", "", "pinned or pageable"),
        ("threads", "1", "threads", "threads or all"),
    ],
    "launch": [
        ("chain", "1", "", "kernels in a row"),
        ("kernel", "empty", "", "empty or 10us"),
        ("threads", "1", "threads", "threads or all"),
    ],
    "ceiling": [
        ("level", "none", "", "memory level"),
        ("type", "none", "", "f32 or f64"),
        ("dir", "none", "", "h2d or d2h"),
        ("threads", "1", "threads", "threads or all"),
    ],
    "dot": [("length", "4096", "elements", "vector length")],
}
SUMMARIES = {
    "matmul": "fp32 matrix product C = A B",
    "memcpy": "copies by size, path and direction",
    "launch": "cost of starting work, by chain length",
}
VARIANTS = {
    "matmul": [
        ("naive", "cpu", "triple loop"),
        ("tiled", "cpu", "cache-blocked"),
        ("openblas", "cpu", "OpenBLAS sgemm"),
        ("naive", "cuda", "one thread an element"),
        ("tiled16", "cuda", "16 x 16 shared-memory tiles"),
        ("tiled32", "cuda", "32 x 32 shared-memory tiles"),
        ("cublas", "cuda", "cuBLAS sgemm"),
    ],
    "memcpy": [
        ("libc", "cpu", "C library"),
        ("nt", "cpu", "streaming stores"),
        ("sync", "cuda", "cudaMemcpy"),
        ("async", "cuda", "cudaMemcpyAsync"),
        ("kernel", "cuda", "copy by a kernel"),
    ],
    "launch": [
        ("direct", "cpu", "function call"),
        ("pool", "cpu", "thread-pool dispatch"),
        ("eager", "cuda", "one launch a kernel"),
        ("eager_sync", "cuda", "launch and wait, each"),
        ("graph", "cuda", "one captured graph"),
        ("graph_first_launch", "cuda", "first launch of a graph"),
    ],
}

CPU = {
    "name": "cpu",
    "kind": "cpu",
    "model": "Synthetic CPU 1000",
    "cores": 4,
    "hardware_threads": 4,
    "memory_bytes": 32e9,
    "l1d_bytes": 32768,
    "l2_bytes": 1048576,
    "l3_bytes": 16777216,
}
CUDA = {
    "name": "cuda0",
    "kind": "cuda",
    "model": "Synthetic GPU 9000",
    "uuid": "GPU-00000000-0000-0000-0000-000000000000",
    "pci_bus_id": "0000:01:00.0",
    "compute_capability": "9.0",
    "multiprocessors": 100,
    "memory_bytes": 80e9,
    "l2_bytes": 50 * MIB,
    "driver": "500.00",
    "driver_api": "13.0",
    "runtime": "13.0",
    "clock_max_hz": 1.5e9,
    "memory_clock_max_hz": 2e9,
    "memory_bus_bits": 4096,
    "power_limit_watts": 500,
    "ecc": True,
    "mig": False,
    "persistence": True,
    "compute_mode": "default",
    "pcie": {"generation": 4, "generation_max": 5, "width": 16, "width_max": 16},
}

# resource, variant, parameters, rate per second, amount of one operation
CEILINGS = {
    "cpu": [
        ("memory", "read", {"level": "l1"}, 180e9, 1e5),
        ("memory", "read", {"level": "l1", "threads": "all"}, 700e9, 4e5),
        ("memory", "read", {"level": "l2", "threads": "all"}, 320e9, 1e6),
        ("memory", "copy", {"level": "dram"}, 16e9, 1e8),
        ("memory", "read", {"level": "dram", "threads": "all"}, 39e9, 2e8),
        ("memory", "copy", {"level": "dram", "threads": "all"}, 40e9, 2e8),
        ("flops.f32", "fma", {"type": "f32"}, 90e9, 1e7),
        ("flops.f32", "fma", {"type": "f32", "threads": "all"}, 350e9, 4e7),
    ],
    "cuda": [
        ("memory", "read", {"level": "l2"}, 6e12, 1e8),
        ("memory", "copy", {"level": "hbm"}, 3e12, 4e9),
        ("flops.f32", "fma", {"type": "f32"}, 50e12, 1e11),
        ("link.h2d", "link", {"dir": "h2d"}, 25e9, 5e8),
        ("link.d2h", "link", {"dir": "d2h"}, 24e9, 5e8),
        ("launch", "launch", {}, 1.2e6, 500.0),
    ],
}


def case_id(suite: str, variant: str, parameters: dict, device: str) -> str:
    """Suite, variant and the axes that are not at their default, as the harness writes ids."""
    defaults = {name: fallback for name, fallback, _, _ in AXES.get(suite, [])}
    axes = [f"{k}:{v}" for k, v in parameters.items() if str(v) != defaults.get(k)]
    return "/".join([suite, variant, *axes, f"dev:{device}"])


def with_defaults(suite: str, given: dict) -> dict:
    """All axes of the suite; whole numbers as integers, the threads axis as text."""
    out = {}
    for name, fallback, _, _ in AXES.get(suite, []):
        value = given.get(name, fallback)
        out[name] = int(value) if str(value).isdigit() and name != "threads" else str(value)
    return out


def matmul_cases(kind: str):
    """(variant, axes, flops, bytes, time_ns) with time from an imaginary efficiency that grows with n."""
    if kind == "cpu":
        rungs = [
            ("naive", "1", 1.6e9, 0),
            ("tiled", "1", 25e9, 96),
            ("tiled", "all", 90e9, 160),
            ("openblas", "1", 82e9, 48),
            ("openblas", "all", 310e9, 128),
        ]
        sizes = [64, 128, 256, 512, 1024]
    else:
        rungs = [
            ("naive", "1", 0.6e12, 128),
            ("tiled16", "1", 6e12, 512),
            ("tiled32", "1", 7.5e12, 600),
            ("cublas", "1", 46e12, 900),
        ]
        sizes = [256, 512, 1024, 2048, 4096]
    for variant, threads, top, half in rungs:
        for n in sizes:
            flops = 2.0 * n**3
            rate = top * n / (n + half)
            yield variant, {"n": n, "threads": threads}, flops, (8.0 * n * n, 4.0 * n * n), flops / rate * 1e9


def memcpy_cases(kind: str):
    """(variant, axes, bytes, rate, latency_ns): bytes are read once and written once."""
    if kind == "cpu":
        levels = [(4 * KIB, 120e9), (32 * KIB, 100e9), (256 * KIB, 70e9), (4 * MIB, 28e9), (64 * MIB, 8e9)]
        for variant, threads, gain in [("libc", "1", 1.0), ("libc", "all", 2.2), ("nt", "1", 0.9), ("nt", "all", 2.4)]:
            for size, rate in levels:
                scale = gain if variant == "libc" or size > MIB else 0.2 * gain
                yield variant, {"bytes": size, "threads": threads}, size, rate * scale, 20.0
    else:
        for variant, way, memory, rate, latency in [
            ("async", "h2d", "pinned", 24.5e9, 8e3),
            ("async", "d2h", "pinned", 23.8e9, 8e3),
            ("sync", "h2d", "pageable", 7e9, 6e3),
            ("sync", "d2h", "pageable", 9e9, 6e3),
            ("async", "d2d", "pinned", 1.4e12, 3e3),
            ("kernel", "d2d", "pinned", 1.3e12, 2e3),
        ]:
            for size in [4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB]:
                yield variant, {"bytes": size, "dir": way, "memory": memory}, size, rate, latency


def launch_cases(kind: str):
    """(variant, axes, chain, time_ns) for a chain of kernels."""
    rungs = (
        [("direct", "1", 0.0, 1.5), ("pool", "all", 900.0, 60.0)]
        if kind == "cpu"
        else [
            ("eager", "1", 5e3, 2.6e3),
            ("eager_sync", "1", 0.0, 9e3),
            ("graph", "1", 6e3, 850.0),
            ("graph_first_launch", "1", 60e3, 3e3),
        ]
    )
    for variant, threads, fixed, each in rungs:
        for chain in [1, 8, 64, 512]:
            yield variant, {"chain": chain, "threads": threads}, chain, fixed + each * chain
    if kind == "cuda":
        yield "graph", {"chain": 8, "kernel": "10us"}, 8, 6e3 + 10.7e3 * 8
