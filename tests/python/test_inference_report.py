"""Inference on the page: the table over machines, prices, the tables of parts; and what stands beside every case."""

from __future__ import annotations

import json
import re

import pytest

from reports import cases_view, i18n, inference, inference_view, parts_view, prices, units
from reports.__main__ import main
from reports.errors import InputProblem
from reports.load import Metric, from_document, load

import browser
import synthetic_suites as model
from conftest import CPU, GPU, ROOT

EN = i18n.Texts("en")
PRICES = """
[[machine]]
match = "*no such machine*"
per_hour = 1
currency = "XYZ"
source = "a test"
date = 2026-01-01

[[machine]]
match = "synthetic cpu 1000 + *"
per_hour = 7.2
currency = "XYZ"
source = "made up by a test"
date = 2026-01-02
"""


@pytest.fixture(scope="module")
def both():
    return from_document("both.json", model.suites_document())


@pytest.fixture(scope="module")
def alone():
    """A machine without a GPU, on which one rung failed."""
    document = model.suites_document(devices=[model.model.CPU], speed=2.0)
    for case in document["cases"]:
        if case["variant"] == "threaded" and case["parameters"].get("context") == 512:
            case.update(status="failed", reason="wrong at (3, 5)", statistics=None, metrics=[], parts=[])
            case.pop("breakdown", None)
    document["context"]["absent"] = [{"kind": "cuda", "reason": "no NVIDIA driver library (libcuda.so.1)"}]
    return from_document("alone.json", document)


@pytest.fixture
def price_file(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(PRICES, encoding="utf-8")
    return path


def _group(view: dict, *words) -> dict:
    (found,) = [g for g in view["groups"] if all(w in f"{g['title']} ({g['kind']})" for w in words)]
    return found


# ---- figures ----


def test_tokens_and_rates_by_hand(both):
    def case(phase, **given):
        return next(
            c
            for c in both.cases
            if c.suite == "inference"
            and c.parameters["phase"] == phase
            and all(c.parameters[k] == v for k, v in given.items())
        )

    decode, prefill = case("decode", batch=16), case("prefill", prompt=2048)
    assert inference.tokens(decode) == (16, "tokens_per_s")
    assert inference.tokens(prefill) == (2048, "tokens_per_s")
    assert inference.tokens(case("forward", batch=8)) == (8, "items_per_s")
    time, rate = decode.metrics["time"], inference.rate(decode)
    assert rate.value == pytest.approx(16 / (time.value * 1e-9))
    assert rate.low == pytest.approx(16 / (time.high * 1e-9))
    assert rate.high == pytest.approx(16 / (time.low * 1e-9))


def test_cost_by_hand(price_file):
    """7.2 an hour is 0.002 a second: at 100 tokens/s a million takes 10,000 s, which is 20."""
    price = prices.read(price_file)[1]
    cost = prices.per_million(Metric("tokens_per_s", 100.0, 80.0, 125.0), price)
    assert (cost.value, cost.low, cost.high) == pytest.approx((20.0, 16.0, 25.0))
    assert cost.unit == "XYZ"
    assert prices.per_million(Metric("tokens_per_s", 100.0, None, None), price).low is None


def test_first_entry_that_fits_counts(both, alone, price_file):
    entries = prices.read(price_file)
    assert prices.of(both, entries) is entries[1]
    assert prices.of(alone, entries) is None  # its name has no GPU behind the "+"


def test_energy_of_a_million_tokens():
    document = model.suites_document(devices=[model.model.CPU])
    for case in document["cases"]:
        if case["parameters"].get("batch") == 16 and case["parameters"].get("context") == 512:
            row = {"name": "energy_joules", "unit": "J", "better": "lower", "value": 8.0, "low": 7.2, "high": 8.8}
            case["metrics"].append({**row, "formula": "f"})
    view = inference_view.table([from_document("joules.json", document)], None, EN)
    (row,) = _group(view, "decode", "batch = 16")["rows"]
    assert row["energy"] == ("500.0 kJ", "[450.0, 550.0] kJ")
    assert _group(view, "decode", "batch = 4")["rows"][0]["energy"][0] == "–"


# ---- the table over machines ----


def test_table_shows_the_fastest_rung_of_each_machine(both, alone, price_file):
    view = inference_view.table([both, alone], prices.read(price_file), EN)
    group = _group(view, "llama-small", "decode", "context = 2048", "(cpu)")
    first, second = group["rows"]
    case = next(
        c for c in both.cases if c.device == "cpu" and c.parameters.get("context") == 2048 and c.suite == "inference"
    )
    rate = inference.rate(case)
    assert first["rung"] == "cpu, threaded" and first["machine"] == "A"
    assert first["rate"] == f"{units.significant(rate.value)} tokens/s"
    assert first["cost"][0].endswith("XYZ") and first["cost"][1].startswith("[")
    assert second["cost"] == ("–", "")  # no price for it
    assert any(p.startswith("P50 ") and p.endswith(" ms (14.0%)") for p in first["percentiles"])
    assert (
        view["machines"][0]
        == "A: Synthetic CPU 1000 + Synthetic GPU 9000: 7.2 XYZ an hour (made up by a test, 2026-01-02)."
    )
    assert "no price" in view["machines"][1]


def test_utilisation_and_the_inside_of_a_generation():
    document = model.suites_document(devices=[model.model.CPU])
    case = next(c for c in document["cases"] if c["parameters"].get("context") == 2048)
    case["parameters"] |= {"phase": "generate", "tokens": 32}
    case["work"] |= {"items": 31.0, "item": "token"}
    for name, unit, value in (
        ("ttft_ns", "ns", 5e6),
        ("itl_ns", "ns", 4e5),
        ("mbu", "ratio", 0.85),
        ("mfu", "ratio", 0.03),
    ):
        row = {"name": name, "unit": unit, "better": "lower", "value": value, "low": None, "high": None, "formula": "f"}
        case["metrics"].append(row)
    loaded = from_document("generate.json", document)
    assert inference.tokens(next(c for c in loaded.cases if c.id == case["id"])) == (31.0, "tokens_per_s")
    (row,) = _group(inference_view.table([loaded], None, EN), "generate", "prompt = 128, tokens = 32")["rows"]
    assert row["inside"] == ["TTFT 5.000 ms", "ITL 400.0 µs"]
    assert row["used"] == ["MBU 85.0%", "MFU 3.0%"]


def test_missing_and_failed_cells_tell_the_reason(both, alone):
    view = inference_view.table([both, alone], None, EN)
    there = _group(view, "llama-large", "decode", "batch = 16", "(cuda)")["rows"][1]
    assert there["missing"] == {"word": "not in this result", "why": "no NVIDIA driver library (libcuda.so.1)"}
    failed = _group(view, "llama-small", "decode", "batch = 16", "(cpu)")["rows"][1]
    assert failed["missing"] == {"word": "failed", "why": "threaded: wrong at (3, 5)"}
    beside = _group(view, "llama-small", "decode", "batch = 1,", "context = 512", "(cpu)")["rows"][1]
    assert beside["missing"] is None and beside["rung"] == "cpu, simd"
    assert beside["others"] == "threaded: failed (wrong at (3, 5))"


def test_no_inference_is_no_table(price_file):
    assert inference_view.table([load(GPU), load(CPU)], None, EN) is None
    view = inference_view.table([load(GPU)], prices.read(price_file), EN)
    assert view["groups"] == [] and "7.2 XYZ" in view["machines"][0]


# ---- the file of prices ----

ENTRY = {"match": '"x"', "per_hour": "1", "currency": '"EUR"', "source": '"list"', "date": "2026-01-01"}


def _entry(**changes) -> str:
    rows = {**ENTRY, **changes}
    return "[[machine]]\n" + "\n".join(f"{k} = {v}" for k, v in rows.items() if v is not None)


FAULTS = {
    "empty": ("", "no [[machine]]"),
    "not toml": ("[[machine", "not TOML"),
    "other table": ("[[gpu]]\na = 1", "unknown key 'gpu'"),
    "not a list": ("machine = 3", "no [[machine]]"),
    "not a table": ("machine = [3]", "no table"),
    "unknown key": (_entry(price="2"), "unknown key 'price'"),
    "free": (_entry(per_hour="0"), "no number above 0"),
    "negative": (_entry(per_hour="-1"), "no number above 0"),
    "infinite": (_entry(per_hour="inf"), "no number above 0"),
    "not a number": (_entry(per_hour="nan"), "no number above 0"),
    "text for a price": (_entry(per_hour='"1"'), "per_hour has the wrong type"),
    "truth for a price": (_entry(per_hour="true"), "per_hour has the wrong type"),
    "text for a date": (_entry(date='"2026-01-01"'), "date has the wrong type"),
    "no source": (_entry(source=None), "has no source"),
    "empty source": (_entry(source='" "'), "source has the wrong type or is empty"),
    "no date": (_entry(date=None), "has no date"),
}


@pytest.mark.parametrize(("text", "word"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_of_prices_are_exit_2(command, tmp_path, text, word):
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    code, _, err = command("report", CPU, "-o", tmp_path / "page", "--prices", path)
    assert code == 2
    assert word in err and "docs/prices.toml" in err and err.count("\n") == 1
    assert not (tmp_path / "page").exists()


def test_no_file_of_prices_is_exit_2(command, tmp_path):
    code, _, err = command("report", CPU, "-o", tmp_path / "page", "--prices", tmp_path / "none.toml")
    assert code == 2 and "existing file of prices" in err


def test_a_whole_entry_is_read(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(_entry(date="2026-01-01T10:00:00Z"), encoding="utf-8")
    assert prices.read(path)[0].date.isoformat() == "2026-01-01"


def test_example_explains_every_key_and_states_no_price():
    path = ROOT / "docs" / "prices.toml"
    text = path.read_text(encoding="utf-8")
    assert all(re.search(rf"^# {key} =", text, re.MULTILINE) for key in prices.KEYS)
    assert re.search(r"^# per_hour = +#", text, re.MULTILINE)
    with pytest.raises(InputProblem, match="no \\[\\[machine\\]\\]"):
        prices.read(path)


# ---- parts ----


def test_table_of_parts(both):
    found = parts_view.breakdowns(both, EN)
    assert len(found) == 13  # 5 rungs x 2 models on the GPU, 3 rungs on the CPU, at batch 1 and context 512
    one = next(b for b in found if b["title"].startswith("cuda0: fused") and "llama-large" in b["title"])
    down = next(r for r in one["rows"] if r["path"] == "mlp/down")
    assert (down["share"], down["floor"], down["count"]) == ("12.0%", "91.0%", model.LAYERS * model.OPERATIONS)
    rotary = next(r for r in one["rows"] if r["path"] == "rotary")
    assert rotary["floor"] == rotary["bytes"] == "–"
    assert any(r["path"].startswith("gap/") for r in one["rows"])
    assert "unattributed: 2.0%" in one["closes"]


# ---- variance and suspect ceilings ----


def _with_levels(case: dict, launch, rounds, sample, advice=None) -> None:
    def level(sd):
        return None if sd is None else {"relative_sd": sd, "degrees_of_freedom": 5.0, "clipped": False}

    case["statistics"]["variance"] = {
        "launch": level(launch),
        "round": level(rounds),
        "sample": level(sample),
        "advice": advice,
    }


def test_levels_of_variance_stand_beside_the_case(document):
    first, second = document["cases"][:2]
    _with_levels(first, None, 0.044, 0.018, "one launch: give --launches 6")
    _with_levels(second, 0.01, 0.0, 0.02, "one launch: give --launches 6")
    result = from_document("levels.json", document)
    rows = {r["id"]: r for s in cases_view.suites(result, EN) for r in s["rows"]}
    assert rows[first["id"]]["variance"] == [
        ("launches", "unknown", False),
        ("rounds", "4.4%", True),
        ("samples", "1.8%", False),
    ]
    assert [row[2] for row in rows[second["id"]]["variance"]] == [False, False, True]
    assert rows[document["cases"][2]["id"]]["variance"] == []
    assert cases_view.advice(result) == [("one launch: give --launches 6", 2)]


def test_suspect_ceiling_is_marked(command, document, save, tmp_path):
    case = next(c for c in document["cases"] if c["ceiling"]["fraction"])
    document["cases"], document["ceilings"] = [case], document["ceilings"][:1]
    case["ceiling"]["suspect"] = True
    _with_levels(case, 0.03, 0.02, 0.01)
    assert command("report", save(document), "-o", tmp_path / "page")[0] == 0
    html = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"\d%\?<", html)
    assert html.count("suspect ceiling") == 1
    assert "<b>launches 3.0%</b>" in html


# ---- the page ----


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The suites with prices, drawn once."""
    folder = tmp_path_factory.mktemp("suites")
    document = model.suites_document(devices=[model.model.CPU])
    (folder / "cpu.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "prices.toml").write_text(PRICES, encoding="utf-8")
    arguments = ["report", folder / "cpu.json", "-o", folder / "page", "--prices", folder / "prices.toml"]
    assert main([str(a) for a in arguments]) == 0
    return folder / "page" / "report.html"


@pytest.mark.parametrize("width", [320, 1280])
def test_browser_shows_it_whole(page, tmp_path, width):
    found = browser.probe(page, width, tmp_path)
    assert found["console"] == []
    assert found["scroll"] <= found["inner"], found["wide"]
    assert found["wide"] == []
    assert found["figures"] == found["drawn"] == found["named"] == 8


def test_document_with_parts_is_in_the_schema():
    pytest.importorskip("jsonschema")
    from reports import validate

    document = model.suites_document(devices=[model.model.CPU])
    assert [e.message for e in validate.validator().iter_errors(document)] == []
