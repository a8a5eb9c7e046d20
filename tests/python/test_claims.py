"""Verdicts of `assay claims` on results, percentiles and series, output and exit codes."""

from __future__ import annotations

import json
import math
import random
import re
import statistics

import pytest
from scipy import stats as scipy_stats

from reports.claims_measured import Figures, Source, Untestable
from reports.claims_quantity import Quantity

from claims_text import EACH, HEAD, NAIVE, TILED, claim, judged, verdict
from conftest import CPU, GPU, ROOT

ARTICLES = ROOT / "results" / "claims" / "articles.toml"


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


@pytest.mark.parametrize("fields", ['variant = "tiled99"', 'variant = "tiled32", tiles = 3'])
def test_a_newer_claim_is_untestable_on_an_older_result(command, save, fields):
    select = f'select.x = {{ suite = "matmul", {fields}, device = "cuda" }}\n'
    text = claim("time(x) / time(x) > 0", select=select)
    _, report = judged(command, save, claim("time(x) / time(x) > 0", select=select, more="newer = true\n"))
    judgement = report["claims"][0]["judgements"][0]
    assert judgement["verdict"] == "untestable" and "made by a command without it" in judgement["reason"]
    code, _, err = command("claims", save(text, "strict.toml"), GPU)
    assert code == 2 and "matmul has no " in err


def test_a_newer_claim_may_not_be_wrong_otherwise(command, save):
    fields = 'suite = "matmul", variant = "tiled32", device = "gpu", n = 1024'
    text = claim("time(x) / time(x) > 0", select=f"select.x = {{ {fields} }}\n", more="newer = true\n")
    code, _, err = command("claims", save(text, "c.toml"), GPU)
    assert code == 2 and "no kind of device 'gpu'" in err


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


def with_series(document, unit, samples, wanted="matmul/naive/n:1024/dev:cuda0"):
    case = case_of(document, wanted)
    extra = {"name": "first", "unit": unit, "primary": False, "batch": 1, "samples": samples}
    case["series"].append(case["series"][0] | extra)
    case["rounds"] = [case["rounds"][0] | {"round": i} for i in range(len(samples))]
    case["series"][0]["samples"] = [[10] * len(samples[0])] * len(samples)
    case["statistics"]["units"] = len(samples)
    return case["id"]


def test_percentile_of_a_further_series(save, document):
    wanted = with_series(document, "ns", [list(range(1, 201))] * 6)
    figure, cases = figures(save, document)
    assert figure.series_percentile(cases[wanted], "first", Quantity(90.0)).value == pytest.approx(180e-9)
    assert figure.percentile(cases[wanted], Quantity(90.0)).value == pytest.approx(10e-9)
    wanted = with_series(document, "code", [[1, 2]] * 6, "matmul/tiled32/n:1024/dev:cuda0")
    figure, cases = figures(save, document)
    with pytest.raises(Untestable, match="in code, not a time"):
        figure.series_percentile(cases[wanted], "first", Quantity(50.0))


@pytest.mark.parametrize(
    ("samples", "verdict_of_zero", "verdict_of_one"),
    [
        ([[0, 0], [0, 0]], "holds", "fails"),
        ([[908, 908], [908, 908]], "fails", "fails"),
        ([[1, 1], [1, 1]], "fails", "holds"),
        ([[-11, -11], [-11, -11]], "fails", "fails"),
        ([[0, 0], [0, 1]], "untestable", "untestable"),
    ],
)
def test_codes_that_a_case_saw(command, save, document, samples, verdict_of_zero, verdict_of_one):
    """A code is exact: no interval, no inconclusive verdict; two different ones are no answer."""
    with_series(document, "code", samples)
    result = save(document, "codes.json")
    for test, expected in (
        ("abs(observed(old, 'first')) < 0.5", verdict_of_zero),
        ("abs(observed(old, 'first') - 1) < 0.5", verdict_of_one),
    ):
        assert verdict(command, save, claim(test, "behaviour", NAIVE), (result,)) == expected


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
    _, out, _ = command("claims", ARTICLES, "--id", "paged-kv")
    assert "untestable: waits for suite inference" in out


def test_share_of_the_limit_carries_the_ceilings_error_too(save, document):
    figure, cases = figures(save, document)
    case = next(c for c in cases.values() if c.fraction and c.ceiling_id)
    alone, share = figure.time(case), figure.fraction(case)
    assert share.value == case.fraction
    ceiling = figure.ceilings[case.ceiling_id]
    errors = [f.error for f in share.slopes]
    assert len(errors) == 2
    t = scipy_stats.t.ppf(0.975, ceiling.statistics["units"] - 1)
    half = max(math.log(ceiling.rate.high / ceiling.rate.value), math.log(ceiling.rate.value / ceiling.rate.low))
    assert errors == pytest.approx([next(iter(alone.slopes)).error, half / t])
    total = math.hypot(*errors) * share.value
    freedom = 1 / sum((e * share.value / total) ** 4 / 5 for e in errors)  # both have 6 units
    assert share.half_width(0.95) == pytest.approx(scipy_stats.t.ppf(0.975, freedom) * total)


# ---- broken results ----


def _no_variants(d):
    del d["plan"]["catalogue"]["suites"][0]["variants"][0]["device"]


def _no_default(d):
    del d["plan"]["catalogue"]["suites"][0]["axes"][0]["default"]


def _confidence(d):
    d["plan"]["confidence"] = 2


def _zero_time(d):
    case_of(d, WANTED)["metrics"][0]["low"] = 0


def _short_samples(d):
    case_of(d, WANTED)["series"][0]["samples"].pop()


def _text_sample(d):
    case_of(d, WANTED)["series"][0]["samples"][0][0] = "7"


def _no_scope(d):
    del case_of(d, WANTED)["statistics"]["scope"]


def _no_launch(d):
    del case_of(d, WANTED)["rounds"][0]["launch"]


WANTED = "matmul/naive/n:1024/dev:cuda0"


@pytest.mark.parametrize(
    "damage",
    [_no_variants, _no_default, _confidence, _zero_time, _short_samples, _text_sample, _no_scope, _no_launch],
)
def test_a_damaged_result_is_one_line_and_exit_2(command, save, document, damage):
    damage(document)
    code, out, err = command("claims", save(claim(), "claims.toml"), save(document, "damaged.json"))
    assert (code, out) == (2, "") and err.count("\n") == 1 and "damaged.json" in err
