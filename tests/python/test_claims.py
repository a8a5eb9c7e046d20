"""Claims files, selection by fields, verdicts on results, output and exit codes of `assay claims`."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import subprocess
import sys

import pytest
from scipy import stats as scipy_stats

from reports.claims_file import load_claims
from reports.claims_measured import Figures, Source, Untestable
from reports.claims_quantity import Quantity
from reports.errors import InputProblem
from reports.probes import cgroup_gpu_files, clock_step, may_set_clock

from conftest import CPU, GPU, ROOT

ARTICLES = ROOT / "results" / "claims" / "articles.toml"
LEVELS = ROOT / "docs" / "service-levels.toml"
DOC = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")

HEAD = '[[claim]]\nid = "c"\nclaim = "It is so."\nclaimed = "1"\nsource = "own"\n'
TILED = 'select.new = { suite = "matmul", variant = "tiled32", device = "cuda", n = 1024 }\n'
NAIVE = 'select.old = { suite = "matmul", variant = "naive", device = "cuda", n = 1024 }\n'


def claim(test="speedup(new, old) > 1", rule="direction", select=TILED + NAIVE, more=""):
    return f"{HEAD}rule = {rule!r}\ntest = {test!r}\n{more}{select}"


def judged(command, save, text, *arguments, results=(GPU,)):
    """(exit code, parsed JSON) of a claims file on results."""
    code, out, err = command("claims", save(text, "claims.toml"), *results, "--format", "json", *arguments)
    assert not err, err
    return code, json.loads(out)


def verdict(command, save, text, results=(GPU,)):
    return judged(command, save, text, results=results)[1]["claims"][0]["verdict"]


# ---- verdicts ----


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("speedup(new, old) > 1", "holds"),
        ("speedup(old, new) > 1", "fails"),
        ("not speedup(old, new) > 1", "holds"),
        ("time(new) < time(old)", "holds"),
        ("within(speedup(new, old), 12, 50%)", "holds"),
        ("flop_rate(new) / flop_rate(old) > 1 and speedup(old, new) > 1", "fails"),
        ("0 < fraction(new) < 1 and fraction(old) > 0", "holds"),
        ("flops(new) / flops(old) >= 1", "holds"),
        ("pcie_generation(new) * pcie_width(old) >= 64", "holds"),
    ],
)
def test_verdicts_on_a_result(command, save, test, expected):
    assert verdict(command, save, claim(test, "ratio")) == expected


def test_inconclusive_near_the_measured_ratio(command, save):
    _, report = judged(command, save, claim("speedup(new, old) > 1"))
    measured = report["claims"][0]["judgements"][0]["instances"][0]["measured"]
    assert measured["low"] < measured["value"] < measured["high"]
    assert verdict(command, save, claim(f"speedup(new, old) > {measured['value']}")) == "inconclusive"
    assert verdict(command, save, claim(f"speedup(new, old) > {measured['high'] * 1.0001}")) == "fails"
    assert verdict(command, save, claim(f"speedup(new, old) > {measured['low'] * 0.9999}")) == "holds"


def test_ratio_interval_is_welchs_on_the_unit_medians(command, save):
    import statistics

    _, report = judged(command, save, claim())
    measured = report["claims"][0]["judgements"][0]["instances"][0]["measured"]
    document = json.loads(GPU.read_text(encoding="utf-8"))
    logs = []
    for wanted in ("matmul/naive/n:1024/dev:cuda0", "matmul/tiled32/n:1024/dev:cuda0"):
        series = next(c for c in document["cases"] if c["id"] == wanted)["series"][0]
        logs.append([math.log(statistics.median(row) / series["batch"]) for row in series["samples"]])
    welch = scipy_stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    assert (measured["low"], measured["high"]) == pytest.approx((math.exp(welch.low), math.exp(welch.high)), rel=1e-6)


def test_level_is_an_absolute_one_on_this_machine(command, save):
    assert verdict(command, save, claim("time(new) < 1 s and time(old) < 1 s", "level")) == "holds"
    assert verdict(command, save, claim("time(new) < 1 ns and time(old) < 1 s", "level")) == "fails"


def test_one_verdict_a_result_and_untestable_ones_fall_away(command, save):
    text = claim(select=(TILED + NAIVE).replace("cuda", "cpu").replace("tiled32", "tiled"))
    _, report = judged(command, save, text, results=(GPU, CPU))
    assert [j["result"] for j in report["claims"][0]["judgements"]] == [0, 1]
    _, report = judged(command, save, claim(), results=(GPU, CPU))
    assert [j["result"] for j in report["claims"][0]["judgements"]] == [0]


UNTESTABLE = {
    "suite absent": ('suite = "alloc", variant = "pool", device = "cuda"', "no suite alloc"),
    "not measured": ('suite = "matmul", variant = "naive", device = "cuda", n = 77', "was not measured"),
    "another value": ('suite = "memcpy", variant = "sync", device = "cuda", bytes = 4096, dir = "up"', "not measured"),
}


@pytest.mark.parametrize(("fields", "reason"), UNTESTABLE.values(), ids=UNTESTABLE.keys())
def test_legal_and_unmeasured_is_untestable(command, save, fields, reason):
    text = claim("time(x) / time(x) > 0", select=f"select.x = {{ {fields} }}\n")
    _, report = judged(command, save, text)
    judgement = report["claims"][0]["judgements"][0]
    assert judgement["verdict"] == "untestable"
    assert reason in judgement["reason"]


def test_a_command_without_that_device_makes_it_untestable(command, save, document):
    """A build without CUDA lists no CUDA variants: the claim is not wrong, that result has no answer."""
    for suite in document["plan"]["catalogue"]["suites"]:
        suite["variants"] = [v for v in suite["variants"] if v["device"] == "cpu"]
    document["cases"] = [c for c in document["cases"] if c["device"]["kind"] == "cpu"]
    _, report = judged(command, save, claim(), results=(save(document, "cpu-build.json"),))
    assert "on no cuda" in report["claims"][0]["judgements"][0]["reason"]


@pytest.mark.parametrize("status", ["failed", "skipped", "lost", "not_reached"])
def test_a_case_without_number_is_untestable_with_its_reason(command, save, document, status):
    case = next(c for c in document["cases"] if c["id"] == "matmul/naive/n:1024/dev:cuda0")
    case |= {"status": status, "reason": "because of a test", "metrics": [], "statistics": None}
    _, report = judged(command, save, claim(), results=(save(document, "r.json"),))
    assert report["claims"][0]["verdict"] == "untestable"
    assert f"{status}: because of a test" in report["claims"][0]["judgements"][0]["reason"]


def test_a_failing_part_decides_although_another_is_unmeasured(command, save):
    lost = 'select.x = { suite = "matmul", variant = "naive", device = "cuda", n = 77 }\n'
    for how, expected in (("and", "fails"), ("or", "untestable")):
        text = claim(f"speedup(old, new) > 1 {how} time(x) > 0 * time(x)", select=TILED + NAIVE + lost)
        assert verdict(command, save, text) == expected


def test_suspect_cases_are_noted_and_the_verdict_stands(command, save, document):
    case = next(c for c in document["cases"] if c["id"] == "matmul/naive/n:1024/dev:cuda0")
    case["validity"] = {"status": "suspect", "reasons": ["throttled: power", "not converged: 9%"]}
    _, report = judged(command, save, claim(), results=(save(document, "r.json"),))
    assert report["claims"][0]["verdict"] == "holds"
    assert report["claims"][0]["judgements"][0]["notes"] == [f"suspect: {case['id']}: throttled: power"]


# ---- each ----

EACH = (TILED + NAIVE).replace("n = 1024", 'n = "$n"')


def test_each_value_is_tried_and_all_must_hold(command, save):
    _, report = judged(command, save, claim(select=EACH, more="each.n = [256, 1024, 77]\n"))
    judgement = report["claims"][0]["judgements"][0]
    assert [i["variables"] for i in judgement["instances"]] == [{"n": 256}, {"n": 1024}, {"n": 77}]
    assert [i["verdict"] for i in judgement["instances"]] == ["holds", "holds", "untestable"]
    assert judgement["verdict"] == "holds"
    assert judgement["notes"] == ["2 of 3 cases measured"]
    text = claim("speedup(new, old) > 8 + 0.000001 * n", "ratio", EACH, "each.n = [256, 1024]\n")
    _, report = judged(command, save, text)
    judgement = report["claims"][0]["judgements"][0]
    assert judgement["verdict"] == "fails" and {i["verdict"] for i in judgement["instances"]} == {"holds", "fails"}


# ---- percentiles and further series ----


def case_of(document, wanted):
    return next(c for c in document["cases"] if c["id"] == wanted)


def figures(save, document):
    source = Source.read(save(document, "figures.json"))
    return Figures(source), {c.id: c for c in source.result.cases}


def with_samples(document, samples, wanted="matmul/naive/n:1024/dev:cuda0"):
    case = case_of(document, wanted)
    primary = case["series"][0]
    primary["batch"], primary["samples"] = 1, samples
    case["rounds"] = [case["rounds"][0] | {"round": i} for i in range(len(samples))]
    case["statistics"]["units"] = len(samples)
    return case["id"]


def test_percentile_and_its_interval(save, document):
    import random

    rng = random.Random(3)
    samples = [[round(1e6 * math.exp(rng.gauss(0, 0.1))) for _ in range(500)] for _ in range(10)]
    wanted = with_samples(document, samples)
    figure, cases = figures(save, document)
    quantity = figure.percentile(cases[wanted], Quantity(90.0))
    low, high = quantity.interval(0.95)
    truth = 1e-3 * math.exp(0.1 * scipy_stats.norm.ppf(0.9))
    assert low < truth < high
    assert 0.001 < high / quantity.value - 1 < 0.02


def test_percentile_is_wider_where_rounds_differ(save, document):
    """Samples of one round that move together are no independent evidence."""
    rows = [[1_000_000 + 100_000 * (i % 2) + j for j in range(500)] for i in range(10)]
    mixed = [[1_000_000 + 100_000 * (j % 2) + j for j in range(500)] for i in range(10)]
    widths = []
    for samples in (rows, mixed):
        figure, cases = figures(save, document | {"cases": document["cases"]})
        wanted = with_samples(document, samples)
        figure, cases = figures(save, document)
        quantity = figure.percentile(cases[wanted], Quantity(75.0))
        widths.append(quantity.half_width(0.95) / quantity.value)
    assert widths[0] > 5 * widths[1]


def test_percentiles_that_the_samples_cannot_give(save, document):
    wanted = with_samples(document, [[10, 20, 30]] * 6)
    figure, cases = figures(save, document)
    with pytest.raises(Untestable, match="too few"):
        figure.percentile(cases[wanted], Quantity(99.0))
    assert figure.percentile(cases[wanted], Quantity(90.0)).half_width(0.95) is None
    case_of(document, wanted)["series"][0]["batch"] = 4
    figure, cases = figures(save, document)
    with pytest.raises(Untestable, match="mean of 4 operations"):
        figure.percentile(cases[wanted], Quantity(50.0))


def test_further_series(save, document):
    wanted = with_samples(document, [[10, 20, 30]] * 6)
    case = case_of(document, wanted)
    extra = case["series"][0] | {"name": "first", "primary": False, "samples": [[90, 100, 110], [100, 110, 120]] * 3}
    case["series"].append(extra)
    figure, cases = figures(save, document)
    assert figure.series(cases[wanted], "first").value == pytest.approx(math.sqrt(100 * 110) * 1e-9)
    with pytest.raises(Untestable, match="no series 'second'"):
        figure.series(cases[wanted], "second")


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


# ---- output ----


def test_strict_exit_codes(command, save):
    holds, fails = claim("1 < 2", "arithmetic", ""), claim("2 < 1", "arithmetic", "").replace('"c"', '"d"')
    waits = HEAD.replace('"c"', '"e"') + 'rule = "none"\nuntestable = "no way"\n'
    unclear = HEAD.replace('"c"', '"f"') + 'rule = "behaviour"\nprobe = "clock-step"\n'
    for text, expected in (
        (holds, 0),
        (holds + waits, 0),
        (holds + fails + waits + unclear, 1),
        (holds + unclear, 4),
    ):
        path = save(text, "claims.toml")
        assert command("claims", path, "--strict")[0] == expected
        assert command("claims", path)[0] == 0


def test_table_is_aligned_and_shows_the_interval(command):
    code, out, _ = command("claims", ARTICLES, GPU)
    assert code == 0
    lines = out.splitlines()
    head = next(line for line in lines if line.startswith("claim "))
    columns = [head.index(word) for word in ("verdict", "measured, 95% interval", "claimed", "on")]
    rows = lines[lines.index(head) + 1 :]
    rows = rows[: rows.index("")]
    assert len(rows) > 30
    for row in rows:  # two blanks before each column, so that no cell runs into the next
        assert all(row[column - 2 : column].strip() == "" for column in columns), row
    claimed = columns[2]
    graph = next(r for r in rows if r.startswith("graph-vs-eager"))
    assert graph[columns[0] :].startswith("holds") and graph[claimed:].startswith("cheaper")
    sizes = next(r for r in rows if r.startswith("link-order-ddr"))
    assert sizes[columns[1] :].startswith("102.4 GB/s") and sizes[claimed:].startswith("slower than 63 GB/s")
    assert any(re.search(r"^  chain 8 .* \d+\.\d+ \[\d+\.\d+, \d+\.\d+\]", r) for r in rows)
    assert re.search(r"^\d+ holds, \d+ fails, \d+ inconclusive, \d+ untestable$", lines[-1])


def test_markdown_escapes_what_a_claim_says(command, save):
    text = claim("1 < 2", "arithmetic", "").replace("It is so.", "a | b <script> [x](y)")
    code, out, _ = command("claims", save(text, "claims.toml"), "--format", "markdown")
    row = next(line for line in out.splitlines() if line.startswith("| c |"))
    assert code == 0 and "<script>" not in out and "](y)" in row and "\\[x]" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 8


def test_control_characters_are_shown_as_escapes(command, save):
    text = claim("1 < 2", "arithmetic", "").replace('claimed = "1"', 'claimed = "\\u001b[31m"')
    _, out, _ = command("claims", save(text, "claims.toml"))
    assert "\x1b" not in out and "\\x1b[31m" in out


def test_explained_in_sentences(command):
    _, out, _ = command("claims", ARTICLES, GPU, "--id", "graph-vs-eager")
    assert "It holds on Synthetic CPU 1000 + Synthetic GPU 9000" in out
    assert "With chain 8: holds." in out
    assert "The whole interval lies on the claim's side." in out
    assert re.search(r"graph is launch/graph on cuda0, chain 8, .*: .* µs \+- \d", out)
    _, out, _ = command("claims", ARTICLES, "--id", "offload-gain-cost")
    assert "It fails." in out and "0.6461 should be above 1.000. It is not." in out
    _, out, _ = command("claims", ARTICLES, "--id", "pool-vs-malloc")
    assert "untestable: waits for suite alloc" in out


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


# ---- probes ----


def test_cgroup_probe(tmp_path):
    assert cgroup_gpu_files(tmp_path, tmp_path / "self").tried is False
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    own = tmp_path / "self"
    own.write_text("0::/job\n")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "memory.max").write_text("max\n")
    seen = cgroup_gpu_files(tmp_path, own)
    assert seen.seen is False and "cpu memory" in seen.evidence
    (tmp_path / "job" / "cuda.memory.max").write_text("max\n")
    seen = cgroup_gpu_files(tmp_path, own)
    assert seen.seen is True and "cuda.memory.max" in seen.evidence


def test_clock_probe_sees_each_outcome():
    def clock(values):
        it = iter(values)
        last = [0]

        def read():
            last[0] = next(it, last[0] + 1)
            return last[0]

        return read

    steady = clock([])
    assert clock_step(steady, lambda: 0, lambda: False).seen is None
    assert clock_step(clock([10, 11, 5]), lambda: 0, lambda: True).seen is True
    wall = clock([0, 10**9])
    stepped = clock_step(clock([]), wall, lambda: False)
    assert stepped.seen is False and "stepped by" in stepped.evidence
    real = clock_step()
    assert real.seen is not True and "0 of them backwards" in real.evidence


def test_right_to_set_the_clock(tmp_path):
    status = tmp_path / "status"
    for mask, expected in (("0000000002000000", True), ("00000000fdffffff", False)):
        status.write_text(f"Name:\tx\nCapEff:\t{mask}\n")
        assert may_set_clock(status) is expected
    assert may_set_clock(tmp_path / "none") is None


# ---- --run ----

STUB = """#!{python}
import json, shutil, sys
document = json.load(open({result!r}))
if sys.argv[1] == "list":
    print(json.dumps(document["plan"]["catalogue"]))
elif "--benchmark_list_tests" in sys.argv:
    big = sys.argv[sys.argv.index("--profile") + 1] == "standard"
    print("\\n".join(c["id"] for c in document["cases"] if big or "n:1024" not in c["id"]))
else:
    words = sys.argv[1:]
    cases = open(words[words.index("--cases") + 1]).read()
    json.dump({{"argv": words, "cases": cases.split()}}, open({log!r}, "w"))
    shutil.copy({result!r}, words[words.index("--out") + 1])
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """A command that notes what it is asked to measure and hands out the synthetic result."""
    path, log = tmp_path / "assay-stub", tmp_path / "log.json"
    path.write_text(STUB.format(python=sys.executable, result=str(GPU), log=str(log)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ASSAY_COMMAND", str(path))
    return lambda: json.loads(log.read_text())


def test_run_measures_just_what_the_claim_selects(command, save, stub, tmp_path):
    kept = tmp_path / "kept.json"
    path = save(claim(), "claims.toml")
    code, out, err = command("claims", path, "--id", "c", "--run", "--budget", "7s", "--out", kept)
    assert (code, err) == (0, "")
    asked = stub()
    assert asked["cases"] == ["matmul/tiled32/n:1024/dev:cuda0", "matmul/naive/n:1024/dev:cuda0"]
    argv = asked["argv"]
    assert argv[argv.index("--profile") + 1] == "standard"  # quick does not plan them
    assert argv[argv.index("--budget") + 1] == "7s" and argv[argv.index("--ceilings") + 1] == "off"
    assert "It holds" in out and kept.is_file()
    assert command("claims", path, "--id", "c", "--run", "--out", kept)[0] == 2  # nothing is overwritten


def test_run_measures_ceilings_where_the_claim_looks_at_them(command, save, stub):
    text = claim("fraction(new) / fraction(old) > 1")
    assert command("claims", save(text, "claims.toml"), "--id", "c", "--run")[0] == 0
    assert stub()["argv"][stub()["argv"].index("--ceilings") + 1] == "on"


@pytest.mark.usefixtures("stub")
def test_run_of_what_no_plan_has(command, save):
    text = claim(select=(TILED + NAIVE).replace("1024", "77"))
    code, out, _ = command("claims", save(text, "claims.toml"), "--id", "c", "--run")
    assert code == 0 and "untestable: the plan has no suite matmul" in out
    path = save(claim(select=TILED.replace("tiled32", "x") + NAIVE), "claims.toml")
    code, _, err = command("claims", path, "--id", "c", "--run")
    assert code == 2 and f"{path}:8: " in err


def test_run_without_a_command(command, save, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_COMMAND", str(tmp_path / "none"))
    code, out, err = command("claims", save(claim(), "claims.toml"), "--id", "c", "--run")
    assert (code, out) == (3, "") and "ASSAY_COMMAND" in err


@pytest.mark.skipif("ASSAY" not in os.environ, reason="ASSAY names the built command")
def test_the_built_command_runs_a_claim(save):
    """From `assay claims` through a real measurement to a verdict."""
    select = 'select.new = { suite = "matmul", variant = "tiled", device = "cpu", n = 256 }\n'
    select += 'select.old = { suite = "matmul", variant = "naive", device = "cpu", n = 256 }\n'
    path = save(claim(select=select), "claims.toml")
    words = [os.environ["ASSAY"], "claims", str(path), "--id", "c", "--run", "--budget", "10s"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "It holds" in done.stdout and "measured just now" in done.stdout


# ---- the documents ----


def test_toml_examples_of_the_reference_load(save):
    blocks = re.findall(r"^```toml\n(.*?)^```$", DOC, re.S | re.M)
    assert blocks
    for block in blocks:
        assert load_claims(save(block, "example.toml"))


def test_reference_names_every_key_rule_and_probe():
    from reports.claims_file import RULES, SOURCES, WORDS
    from reports.probes import PROBES

    words = set(re.findall(r"[A-Za-z-]+", DOC))
    assert set(WORDS) | set(RULES) | set(SOURCES) | set(PROBES) <= words


def test_service_levels_are_claims_too(command):
    code, out, err = command("claims", LEVELS, GPU)
    assert (code, err) == (0, "") and "host-copy-rate" in out


def test_load_claims_raises_input_problems_only(save):
    with pytest.raises(InputProblem):
        load_claims(save("claim = 3\n", "x.toml"))
