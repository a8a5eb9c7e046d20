"""Paths, fixtures and one way to run the command."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.readers import read_side

import launches

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
def command(capsys):
    """Runs `python -m reports ARGS`; returns exit code, standard output, standard error."""

    def run(*args):
        code = main([str(a) for a in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def offering(tmp_path, monkeypatch):
    """A command that offers what the one behind the synthetic GPU result did."""
    path, offered = tmp_path / "assay-offering", tmp_path / "offered.json"
    catalogue = json.loads(GPU.read_text(encoding="utf-8"))["plan"]["catalogue"]
    offered.write_text(json.dumps(catalogue), encoding="utf-8")
    path.write_text(f"#!/bin/sh\ncat '{offered}'\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("ASSAY_COMMAND", str(path))


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
