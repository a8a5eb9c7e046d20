"""Claims files: every fault has its line; the rows of articles.toml; the examples of the documents."""

from __future__ import annotations

import json
import re

import pytest

from reports.claims_file import RULES, SOURCES, WORDS, load_claims
from reports.errors import InputProblem
from reports.probes import PROBES

from claims_text import EACH, HEAD, NAIVE, TILED, claim
from conftest import GPU, ROOT

ARTICLES = ROOT / "results" / "claims" / "articles.toml"
LEVELS = ROOT / "docs" / "service-levels.toml"
DOC = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


# ---- faults of the file ----

FAULTS = {
    "unknown variant": (TILED.replace("tiled32", "tiled99"), 8, "no variant 'tiled99'"),
    "unknown axis": (TILED.replace("n = 1024", "n = 1024, tiles = 3"), 8, "no axis 'tiles'"),
    "text for a number": (TILED.replace("1024", '"1024"'), 8, "whole number, not '1024'"),
    "all for a size": (TILED.replace("1024", '"all"'), 8, "whole number, not 'all'"),
    "negative": (TILED.replace("1024", "-1"), 8, "whole number, not -1"),
    "number for text": (TILED.replace("n = 1024", "n = 1024, cache = 1"), 8, "takes text, not 1"),
    "unknown device": (TILED.replace("cuda", "gpu"), 8, "no kind of device 'gpu'"),
    "device name": (TILED.replace("cuda", "cuda0"), 8, "no kind of device 'cuda0'"),
}


@pytest.mark.parametrize(("selection", "line", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_illegal_selection_is_an_error_with_its_line(command, save, selection, line, message):
    path = save(claim(select=selection + NAIVE), "claims.toml")
    code, out, err = command("claims", path, GPU)
    assert (code, out) == (2, "")
    assert f"{path}:{line}: claim 'c': " in err and message in err
    assert err.count("\n") == 1


def test_illegal_selection_in_a_table_has_the_line_of_its_field(command, save):
    text = claim(select=NAIVE) + '[claim.select.new]\nsuite = "matmul"\ndevice = "cuda"\n\nvariant = "x"\nn = 1\n'
    path = save(text, "claims.toml")
    code, _, err = command("claims", path, GPU)
    assert code == 2 and f"{path}:13: " in err and "no variant 'x'" in err


BROKEN = {
    "no claim": ('title = "x"\n', None, r"no \[\[claim\]\]"),
    "not toml": ("[[claim]\n", None, "not TOML"),
    "unknown top key": ("x = 1\n" + claim(), None, "'x' at the top"),
    "unknown key": (claim(more="tset = 1\n"), 8, "no key 'tset'"),
    "missing id": (claim().replace('id = "c"\n', ""), 1, "id is missing"),
    "bad id": (claim().replace('"c"', '"C c"'), 2, "lower-case"),
    "bad source": (claim().replace('"own"', '"hearsay"'), 5, "source is 'hearsay'"),
    "bad rule": (claim(rule="vote"), 6, "rule is 'vote'"),
    "twice": (claim() + claim(), 11, "stands in line 2 too"),
    "a number as test": (claim("speedup(new, old)"), 7, "must compare"),
    "unknown name": (claim("speedup(new, odl) > 1"), 7, "no name 'odl'"),
    "unknown function": (claim("eval(new) > 1"), 7, "no function 'eval'"),
    "injection": (claim("__import__(new) > 1"), 7, "no function '__import__'"),
    "unused": (claim("time(new) / time(new) > 1"), 9, "old is selected and never used"),
    "absolute time": (claim("time(new) + time(old) < 4 ms"), 7, "not an absolute s"),
    "arithmetic with cases": (claim(rule="arithmetic"), 6, "looks at no case"),
    "ratio without cases": (claim("1 < 2", "ratio", ""), 6, "use rule 'arithmetic'"),
    "no test": (claim().replace("test", "note"), 6, "needs test"),
    "unknown probe": (HEAD + 'rule = "behaviour"\nprobe = "format-disk"\n', 7, "no probe"),
    "absolute time of behaviour": (claim("time(new) < 4 ms", "behaviour", TILED), 7, "not an absolute s"),
    "percentile of a series": (claim("series_percentile(new, 'x', 100) / time(old) > 1"), 7, "below 100"),
    "unit of another kind": (claim(more='unit = "ms"\n'), 8, "plain number, not ms"),
    "no such unit": (claim(more='unit = "furlong"\n'), 8, "no unit 'furlong'"),
    "no such each": (claim(select=EACH), 8, "no each.n"),
    "each unused": (claim(more="each.k = [1]\n"), 8, "never used"),
    "each twice": (claim(select=EACH, more="each.n = [1, 1]\n"), 8, "different numbers"),
    "each too many": (claim(select=EACH, more=f"each.n = {list(range(300))}\n"), 8, "at most 200"),
    "reserved name": (claim("time(ms) / time(ms) > 1", select=TILED.replace("new", "ms")), 8, "unit or function"),
    "no device": (claim(select=TILED.replace('device = "cuda", ', "") + NAIVE), 8, "needs device"),
    "float axis": (claim(select=TILED.replace("1024", "1.5") + NAIVE), 8, "whole number or text"),
    "division by zero": (claim("1 / 0 > 1", "arithmetic", ""), 7, "division by zero"),
    "line inside a long text": (
        claim().replace("test = 'speedup(new, old) > 1'", 'test = """\nspeedup(new, old) > 1\nand\nfoo > 1\n"""'),
        10,
        "no name 'foo'",
    ),
}


@pytest.mark.parametrize(("text", "line", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_fault_of_the_file_is_one_line_with_its_place(command, save, text, line, message):
    path = save(text, "claims.toml")
    code, out, err = command("claims", path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and re.search(message, err), err
    assert f"{path}:{line}: " in err if line else f"{path}: " in err


def test_a_header_inside_a_long_text_moves_no_line(command, save):
    note = 'note = """\n[[claim]]\nid = "x"\n"""\n'
    path = save(claim("speedup(new, odl) > 1").replace("rule", note + "rule"), "claims.toml")
    code, _, err = command("claims", path)
    assert code == 2 and f"{path}:11: " in err


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = " + b"[" * 5000, b""])
def test_malformed_file_is_refused(command, save, content):
    code, out, err = command("claims", save(content, "claims.toml"))
    assert (code, out) == (2, "") and err.count("\n") == 1


def test_wrong_use_of_the_command(command, save, tmp_path):
    path = save(claim(), "claims.toml")
    for arguments, message in (
        ((tmp_path / "none.toml",), "cannot be read"),
        ((path, tmp_path / "none.json"), "cannot be read"),
        ((path, "--id", "nobody"), "there is no claim 'nobody'; ids: c"),
        ((path, "--run"), "goes with --id"),
        ((path, GPU, "--id", "c", "--run"), "makes its own result"),
        ((path, "--out", "x"), "goes with --run"),
    ):
        code, out, err = command("claims", *arguments)
        assert (code, out) == (2, "") and message in err


# ---- the rows of articles.toml ----

ROWS = (ROOT / "tests" / "fixtures" / "claims" / "article-ids.txt").read_text(encoding="utf-8").split()
ARITHMETIC = {  # id: verdict and the figure, worked out by hand
    "zero-copy-ratio-arithmetic": ("fails", (1 / 4.3 / 0.91) / (1 / 12.8 / 0.42)),
    "pcie4-x8-cap-arithmetic": ("holds", 15.753846e9),
    "link-order-lanes": ("holds", 63.015385e9),
    "link-order-ddr": ("fails", 102.4e9),
    "link-order-network": ("fails", 25.0),
    "link-order-nvlink": ("fails", 450e9),
    "launch-config-1024-arithmetic": ("holds", 1024),
    "turboquant-6x-arithmetic": ("fails", 16 / 3),
    "turboquant-8x-arithmetic": ("holds", 8),
    "turboquant-8x-bf16-arithmetic": ("fails", 4),
    "cpu-gpu-resnet18-arithmetic": ("holds", 2813 / 396),
    "serving-sla-arithmetic": ("fails", 128 / 240),
    "matrix-shares": ("fails", 4375 / 3477),
    "offload-gain": ("holds", 3.3116),
    "offload-gain-cost": ("fails", 0.64613),
    "latency-formula": ("fails", 4.8573),
    "cpu-fallback-arithmetic": ("fails", 11304960),
    "build-faster": ("fails", 12.7),
}


@pytest.fixture(scope="module")
def articles():
    return {c.id: c for c in load_claims(ARTICLES)}


def test_every_claim_of_the_list_is_a_row(articles):
    assert len(set(ROWS)) == len(ROWS) > 50
    assert [row for row in ROWS if row not in articles] == []


def test_every_row_is_tried_or_says_why_not(articles):
    for row in articles.values():
        assert row.test or row.probe or row.untestable, row.id
        assert row.rule in ("arithmetic", "behaviour", "none") or row.suites, row.id
        assert row.rule != "level", f"{row.id}: figures of other hardware are no levels of this one"


def test_arithmetic_rows_come_out_as_by_hand(command, articles):
    assert {i for i, c in articles.items() if c.rule == "arithmetic"} == set(ARITHMETIC)
    _, out, _ = command("claims", ARTICLES, "--format", "json")
    rows = {c["id"]: c for c in json.loads(out)["claims"]}
    for name, (expected, figure) in ARITHMETIC.items():
        assert rows[name]["verdict"] == expected, name
        measured = rows[name]["judgements"][0]["instances"][0]["measured"]
        assert measured["value"] == pytest.approx(figure, rel=1e-4), name
        assert measured["low"] == measured["value"] == measured["high"]


def test_rows_for_the_three_suites_are_judged_on_a_gpu_result(command):
    """The synthetic result has most of their cases; its figures are made up, so verdicts are not the point."""
    _, out, _ = command("claims", ARTICLES, GPU, "--format", "json")
    report = json.loads(out)
    tried = {c["id"] for c in report["claims"] if c["verdict"] != "untestable"}
    assert {"matmul-tiled", "graph-vs-eager", "resident-reuse"} <= tried
    assert sum(report["counts"].values()) == len(report["claims"])


# ---- the documents ----


def test_toml_examples_of_the_reference_load(save):
    blocks = re.findall(r"^```toml\n(.*?)^```$", DOC, re.S | re.M)
    assert blocks
    for block in blocks:
        assert load_claims(save(block, "example.toml"))


def test_reference_names_every_key_rule_and_probe():
    words = set(re.findall(r"[A-Za-z-]+", DOC))
    assert set(WORDS) | set(RULES) | set(SOURCES) | set(PROBES) <= words


def test_service_levels_are_claims_too(command):
    code, out, err = command("claims", LEVELS, GPU)
    assert (code, err) == (0, "") and "host-copy-rate" in out


def test_load_claims_raises_input_problems_only(save):
    with pytest.raises(InputProblem):
        load_claims(save("claim = 3\n", "x.toml"))
