"""Paths, fixtures and one way to run the command."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.readers import read_side

import launches
import sizing

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "fixtures" / "results"
GPU, CPU, EMPTY, ODD = (RESULTS / f"synthetic-{name}.json" for name in ("gpu", "cpu", "empty", "odd"))


@pytest.fixture(scope="session")
def _gpu_document():
    return json.loads(GPU.read_text(encoding="utf-8"))


@pytest.fixture
def document(_gpu_document):
    """A fresh copy of a whole valid result, for tests that break it."""
    return copy.deepcopy(_gpu_document)


@pytest.fixture
def gpu(document):
    """A whole result with the ceilings of device cuda0 that `assay size` divides by, in round numbers."""
    for resource, variant, axes, rate in (
        ("memory", "read", {"level": "hbm"}, 3e12),
        ("flops.bf16", "tensor", {"type": "bf16"}, 8e14),
        ("flops.e4m3", "tensor", {"type": "e4m3"}, 16e14),
        ("launch", "launch", {}, 1.2e6),
    ):
        sizing.add_ceiling(document, "cuda0", resource, variant, axes, rate)
    return document


@pytest.fixture
def lists_models(monkeypatch, tmp_path):
    """A command that knows the models: what `assay size` asks where a result is older than its table of them."""
    path = tmp_path / "assay-models"
    path.write_text(f"#!{sys.executable}\nprint(open({str(sizing.FIXTURE)!r}).read())\n")
    path.chmod(0o755)
    monkeypatch.setenv("ASSAY_COMMAND", str(path))


@pytest.fixture
def command(capsys):
    """Runs `python -m reports ARGS`; returns exit code, standard output, standard error."""

    def run(*args):
        code = main([str(a) for a in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def save(tmp_path):
    """Writes a document, or raw text or bytes, to a file."""

    def write(content, name="broken.json"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def sides(save):
    """Two sides of a comparison from lists of case records; `changes` go into NEW's context."""

    def make(base, new, **changes):
        paths = [save(launches.result(*side), name) for side, name in ((base, "base.json"), (new, "new.json"))]
        if changes:
            record = json.loads(paths[1].read_text(encoding="utf-8"))
            record["context"] |= changes
            save(record, "new.json")
        return tuple(read_side(p) for p in paths)

    return make


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Reports that several tests look at, made once: name to folder."""
    made = {}
    for name, files, lang in [
        ("en", [GPU], "en"),
        ("zh", [GPU], "zh"),
        ("odd", [ODD], "en"),
        ("empty", [EMPTY], "en"),
        ("cpu", [CPU], "en"),
        ("two", [GPU, CPU], "en"),
    ]:
        folder = tmp_path_factory.mktemp(name)
        assert main(["report", *map(str, files), "-o", str(folder), "--lang", lang]) == 0
        made[name] = folder
    return made
