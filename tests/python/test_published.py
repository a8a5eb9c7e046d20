"""Every published result: whole, clean, anonymous, of a commit that exists, with figures that its samples bear out."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from reports.load import load, read_json

from conftest import ROOT

MIB = 1024 * 1024
FOLDER = ROOT / "results"
# local: runs of this checkout, not committed
NOT_RESULTS = {"schema", "baselines", "calibration", "claims", "fixtures", "local"}
HOME = re.compile(r"(^|[=:,])(/home/|/root\b|/Users/|~)")


def published() -> list:
    """results/MACHINE/*.json[.gz]; a .json that is another document than a result is no exception."""
    found = [p for p in FOLDER.rglob("*") if p.name.endswith((".json", ".json.gz"))]
    return sorted(p for p in found if not NOT_RESULTS & set(p.relative_to(FOLDER).parts[:-1]))


each = pytest.mark.parametrize("path", published(), ids=lambda p: str(p.relative_to(FOLDER)))


def test_results_folder_stands(record_property):
    """How many results are published shows in the report: an empty list makes the other tests here run on nothing."""
    count = len(published())
    record_property("published_results", count)
    print(f"published results: {count}")
    assert FOLDER.is_dir()
    assert (FOLDER / "schema" / "assay.result.1.json").is_file()
    assert count >= 0


def test_home_directories_are_seen():
    for text in ("/home/me/out.json", "--out=/root/x", "~/x", "/Users/me", "/root"):
        assert HOME.search(text)
    for text in ("assay", "out/result.json", "--filter=a/home/b", "/tmp/x", "/rooted"):
        assert not HOME.search(text)


@each
def test_validates_and_figures_follow_from_samples(path):
    pytest.importorskip("jsonschema")
    from reports import validate

    assert validate.document_faults(read_json(path)) == []


@each
def test_built_from_a_clean_tree_without_sanitizers(path):
    build = load(path).context["assay"]
    assert build["dirty"] is False
    assert build["sanitizers"] == ""


@each
def test_commit_exists(path):
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no git repository here to look the commit up in")
    commit = load(path).context["assay"]["commit"]
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    done = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, check=False, capture_output=True)
    assert done.returncode == 0, f"{commit} is no commit of this repository"


@each
def test_is_small_enough(path):
    assert path.stat().st_size <= 12 * MIB


@each
def test_tells_nothing_of_its_user(path):
    context = load(path).context
    assert context["host_name"] == "host"
    texts = [*context["argv"], context.get("executable", ""), *context["environment_variables"].values()]
    assert [text for text in texts if HOME.search(str(text))] == []


@each
def test_has_measured_cases(path):
    assert any(case.done for case in load(path).cases)
