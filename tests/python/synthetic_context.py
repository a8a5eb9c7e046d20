"""Context and catalogue of the imaginary machine: what a result says about where and how it was made."""

from __future__ import annotations

import synthetic as model


def catalogue():
    """What `assay list --json` would print."""
    return {
        "suites": [
            {
                "name": name,
                "summary": model.SUMMARIES[name],
                "axes": [
                    dict(zip(("name", "default", "unit", "help"), axis, strict=True)) for axis in model.AXES[name]
                ],
                "variants": [
                    dict(zip(("name", "device", "summary"), row, strict=True)) for row in model.VARIANTS[name]
                ],
            }
            for name in model.SUMMARIES
        ]
    }


def context(devices, cores, seed, absent):
    """The part of a result that says where it was made."""
    return {
        "date": "2026-01-01T00:00:00+00:00",
        "host_name": "synthetic",
        "executable": "assay",
        "num_cpus": cores,
        "mhz_per_cpu": 2000,
        "cpu_scaling_enabled": False,
        "caches": [
            {"type": "Data", "level": 1, "size": 32768, "num_sharing": 1},
            {"type": "Unified", "level": 2, "size": 1048576, "num_sharing": 1},
            {"type": "Unified", "level": 3, "size": 16777216, "num_sharing": cores},
        ],
        "load_avg": [0.1, 0.1, 0.1],
        "library_build_type": "release",
        "assay": {
            "version": "0.1.0",
            "commit": "",
            "dirty": None,
            "source_hash": "0" * 40,
            "build_type": "Release",
            "compiler": "GNU 12.2.0",
            "flags": "-O3",
            "sanitizers": "",
            "toolkit": "CUDA 13.0 (90)" if len(devices) > 1 else None,
            "google_benchmark": "1.7.1",
        },
        "argv": ["assay", "run", "--profile", "quick", "--seed", seed, "--out", "out/result.json"],
        "seed": seed,
        "machine": {
            "cpu_model": "Synthetic CPU 1000",
            "cpu_vendor": "synthetic",
            "packages": 1,
            "cores": cores,
            "hardware_threads": cores,
            "numa_nodes": 1,
            "isa": ["avx2"],
            "l1d_bytes": 32768,
            "l2_bytes": 1048576,
            "l3_bytes": 16777216,
            "memory_bytes": 32e9,
            "hypervisor": None,
            "governor": "powersave",
            "turbo": True,
            "smt": False,
        },
        "kernel": "Linux 6.1.0 x86_64",
        "os": "Debian GNU/Linux 12",
        "container": {"cpuset": f"0-{cores - 1}", "cpu_quota": 0, "memory_limit_bytes": None},
        "mitigations": {"spectre_v2": "Mitigation: synthetic"},
        "devices": devices,
        "absent": absent,
        "environment_variables": {"OMP_NUM_THREADS": str(cores)},
        "warnings": ['the CPU frequency governor is not "performance": CPU times may vary with the clock'],
    }
