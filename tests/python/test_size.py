"""`assay size`: formulas against hand-made numbers, what is missing, bad input, the three outputs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import sys

import pytest

from reports.load import from_document
from reports.size_ceilings import Machine, Span
from reports.size_model import from_folder
from reports.size_predict import Plan, Stage, longer, memory

from conftest import CPU, EMPTY, ROOT
from sizing import MODELS, add_ceiling, named, record

pytestmark = pytest.mark.usefixtures("lists_models")

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}


@pytest.fixture
def size(command, gpu, save):
    """Runs `assay size --format json` on the imaginary GPU alone; returns its one row."""

    def run(*words, document=None):
        path = save(document or gpu, "result.json")
        code, out, err = command("size", "--device", "cuda0", "--format", "json", *words, path)
        assert (code, err) == (0, "")
        return json.loads(out)["rows"][0]

    return run


def plan(model="llama-8b", **changes) -> Plan:
    given = {
        "model": named(model),
        "context": 512,
        "batch": 1,
        "prompt": 512,
        "kind": "bf16",
        "kv_kind": "bf16",
        "use": 0.9,
        "page": 16,
        "gpus": 1,
        "kernels": 5,
        "link": None,
        "alpha_ns": None,
    }
    return Plan(**(given | changes))


# ---- shapes ----


def test_parameters_are_those_that_the_makers_publish():
    """Those of the encoders without their pooler, which no embedding passes through."""
    published = {
        "llama-15m": 15_191_712,
        "llama-1b": 1_235_814_400,
        "llama-8b": 8_030_261_248,
        "llama-70b": 70_553_706_496,
        "mixtral-8x7b": 46_702_792_704,
        "bert-base": 109_482_240 - 768 * 769,
        "minilm-l6": 22_713_216 - 384 * 385,
    }
    assert {name: named(name).parameters for name in published} == published


def test_bytes_of_the_anchors():
    """What one token reads, and the anchors' floors at 4.5 TB/s."""
    for name, gigabytes, floor_ms in (("llama-8b", 15.01, 3.34), ("llama-1b", 2.47, 0.55)):
        model = named(name)
        streamed = model.layer_bytes("bf16", 0) + model.head_bytes("bf16")
        assert round(streamed / 1e9, 2) == gigabytes
        assert round(streamed / 4.5e12 * 1e3, 2) == floor_ms
    assert named("llama-8b").kv_bytes("bf16") == 131_072


def test_one_byte_types_carry_their_scales():
    model = named("llama-8b")
    rows = 6144 + 4096 + 2 * 14336 + 4096
    matrices = 4096 * (6144 + 4096) + 3 * 4096 * 14336
    assert model.layer_bytes("s8", 0) == 32 * (matrices + 4 * rows + 2 * 2 * 4096)
    assert model.kv_bytes("e4m3") == 65_536
    assert model.kv_bytes("s8") == 2 * 32 * 8 * (128 + 4)
    assert model.head_bytes("s8") == model.head_bytes("bf16")
    bert = named("bert-base")
    vectors = 3 * 768 + 3072 + 6 * 768
    rows = 3 * 768 + 768 + 3072 + 768
    assert bert.layer_bytes("s8", 0) == 12 * (12 * 768 * 768 + 4 * rows + 2 * vectors)


def test_experts_read_is_the_mean_over_all_choices():
    eight = named("mixtral-8x7b")
    assert eight.experts_read(1) == 2
    small = dataclasses.replace(eight, experts=4)
    choices = list(itertools.combinations(range(4), 2))
    draws = list(itertools.product(choices, repeat=3))
    mean = sum(len(set().union(*draw)) for draw in draws) / len(draws)
    assert math.isclose(small.experts_read(3), mean)
    assert 7.9 < eight.experts_read(64) <= 8


def test_folder_gives_the_shape_of_the_preset(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    model = from_folder(tmp_path)
    assert model.__dict__ | {"name": "llama-8b"} == named("llama-8b").__dict__
    (tmp_path / "config.json").write_text(
        json.dumps(LLAMA_8B | {"model_type": "mistral", "sliding_window": 4096, "head_dim": 64})
    )
    assert (from_folder(tmp_path).max_positions, from_folder(tmp_path).head_dim) == (4096, 64)


# ---- memory ----


def test_concurrency_is_counted_in_pages(gpu):
    machine = Machine(from_document("x", gpu), gpu["context"]["devices"][1])
    one = plan(context=1000, prompt=1000)
    found = memory(one, machine)
    page = 16 * 131_072
    each = 63 * page  # 1000 tokens are 62.5 pages
    assert found.kv == each
    assert found.weights == 2 * 8_030_261_248
    free = 0.9 * 80e9 - found.weights
    row = 4096 * 6 + (2 * 4096 + 2 * 1024 + 3 * 14336) * 2
    prompt = 1000 * row + 128_256 * 4
    assert found.activations == prompt
    count = found.concurrency
    step = count * (row + 128_256 * 4)
    assert count * each + max(prompt, step) <= free < (count + 1) * each + max(prompt, step)
    assert found.fits and found.gpus_needed == 1
    assert memory(plan(context=1000, prompt=1000, page=1), machine).kv == 1000 * 131_072


def test_what_does_not_fit_says_how_many_gpus_hold_it(command, gpu, save):
    words = ("size", "--model", "llama-70b", "--context", 4096, "--device", "cuda0", save(gpu, "r.json"))
    code, out, _ = command(*words)
    assert code == 0 and "it does not fit; --gpus 2 would" in out
    assert command(*words, "--strict")[0] == 1
    code, out, _ = command(*words, "--gpus", 2, "--link", "450GB/s", "--alpha", "10us", "--strict")
    assert code == 0 and "unknown" not in out
    assert "assumed --link: 450.0 GB/s" in out and "assumed --alpha: 10.00 µs" in out
    assert len(re.findall(r"\d [mµ]?s\* ", out)) == 2  # TTFT and ITL
    code, out, _ = command(*words, "--gpus", 2)
    assert code == 0 and "give --link and --alpha" in out
    code, out, _ = command(*words, "--use", "0.01")
    assert code == 0 and "no number of these GPUs holds it" in out


# ---- time ----


def test_decode_step_by_hand(size):
    """3 TB/s of reading, 800 TFLOP/s, 1.2 M launches/s."""
    row = size("--model", "llama-8b", "--context", 512, "--batch", 16)
    streamed = 2 * (8_030_261_248 - 128_256 * 4096 - 4096)
    kv = 16 * 512 * 131_072
    floor = (streamed + kv) / 3e12 * 1e9
    assert math.isclose(row["itl"]["floor_ns"], floor, rel_tol=1e-12)
    assert math.isclose(row["itl"]["value"], floor + 32 * 5 / 1.2e6 * 1e9, rel_tol=1e-12)
    assert row["itl"]["limited_by"] == "memory hbm" and row["itl"]["limited_share"] > 0.9
    assert math.isclose(row["throughput"]["value"], 16e9 / row["itl"]["value"])
    ids = {c["id"] for c in row["ceilings"]}
    assert ids == {
        "ceiling/read/level:hbm/dev:cuda0",
        "ceiling/tensor/type:bf16/dev:cuda0",
        "ceiling/launch/dev:cuda0",
    }


def test_large_batches_are_limited_by_arithmetic(size):
    row = size("--model", "llama-1b", "--context", 16, "--batch", 4096)
    assert row["itl"]["limited_by"] == "arithmetic bf16"


def test_prefill_by_hand(size):
    row = size("--model", "llama-8b", "--context", 4096, "--prompt", 2048, "--kernels", 0)
    layers = 2 * (8_030_261_248 - 2 * 128_256 * 4096 - 4096) * 2048
    scores = 2 * 32 * 32 * 128 * 2048 * 2049
    head = 2 * 128_256 * 4096 / 3e12  # one row: its bytes take longer than its operations
    expected = ((layers + scores) / 8e14 + head) * 1e9
    assert math.isclose(row["ttft"]["value"], expected, rel_tol=1e-12)
    assert row["ttft"]["limited_by"] == "arithmetic bf16"


def test_a_prompt_of_one_token_is_a_step(size):
    row = size("--model", "llama-1b", "--context", 1, "--prompt", 1)
    assert row["ttft"]["value"] == row["itl"]["value"]


def test_mixture_reads_what_its_batch_chooses(size):
    words = ("--model", "mixtral-8x7b", "--context", 1, "--type", "e4m3", "--kernels", 0)
    one, eight = (size(*words, "--batch", n)["itl"]["floor_ns"] for n in (1, 8))
    model = named("mixtral-8x7b")
    ratio = [model.layer_bytes("e4m3", model.experts_read(n)) + model.head_bytes("e4m3") for n in (1, 8)]
    kv = model.kv_bytes("bf16")
    assert math.isclose(eight / one, (ratio[1] + 8 * kv) / (ratio[0] + kv))
    assert 3 < ratio[1] / ratio[0] < 4


def test_tensor_parallel_adds_two_all_reduces_a_layer(size):
    words = ("--model", "llama-8b", "--context", 512, "--batch", 4, "--kernels", 0)
    row = size(*words, "--gpus", 2, "--link", "400GB/s", "--alpha", "10us")
    alone = size(*words)
    reduces = 2 * 32 * (10_000 + 2 * 4 * 4096 * 2 / 400e9 * 1e9)
    assert math.isclose(row["itl"]["value"], alone["itl"]["value"] / 2 + reduces, rel_tol=1e-9)
    assert math.isclose(row["itl"]["floor_ns"], alone["itl"]["floor_ns"] / 2, rel_tol=1e-9)
    assert row["itl"]["assumed"] and not alone["itl"]["assumed"]
    assert row["memory"]["weights_bytes"] == alone["memory"]["weights_bytes"] / 2
    assert row["memory"]["kv_bytes"] == alone["memory"]["kv_bytes"] / 2


def test_more_gpus_than_key_value_heads_hold_one_each(size):
    row = size("--model", "llama-8b", "--context", 512, "--gpus", 16, "--link", "1TB/s", "--alpha", "1us")
    assert row["memory"]["kv_bytes"] == 512 * 131_072 / 8


def test_a_measured_link_goes_before_the_option(size, gpu):
    add_ceiling(gpu, "cuda0", "link.p2p", "peer", {"dir": "d2d"}, 200e9)
    words = ("--model", "llama-8b", "--context", 8, "--gpus", 2, "--alpha", "1us")
    row = size(*words, document=gpu)
    assert row["itl"]["value"] == size(*words, "--link", "1GB/s", document=gpu)["itl"]["value"]
    assert "ceiling/peer/dir:d2d/dev:cuda0" in {c["id"] for c in row["ceilings"]}


def test_encoder_has_a_forward_pass_and_no_cache(size):
    row = size("--model", "bert-base", "--context", 128, "--batch", 64, "--kernels", 0)
    model = named("bert-base")
    flops = 64 * 128 * model.layer_flops + 64 * 4 * 12 * 768 * 128 * 128
    assert math.isclose(row["forward"]["value"], flops / 8e14 * 1e9, rel_tol=1e-12)
    assert row["itl"] is None and row["memory"]["kv_bytes"] == 0 and row["memory"]["concurrency"] is None
    assert math.isclose(row["throughput"]["value"], 64e9 / row["forward"]["value"])


def test_intervals_follow_the_ceilings(size, gpu):
    add_ceiling(gpu, "cuda0", "memory", "read", {"level": "hbm"}, 3.2e12, 2.8e12, 3.1e12)
    row = size("--model", "llama-8b", "--context", 512, "--kernels", 0, document=gpu)
    time = row["itl"]
    assert math.isclose(time["low"], time["value"])  # the fastest round lies above the interval of the mean
    assert math.isclose(time["high"] / time["value"], 3.2 / 2.8)
    assert row["throughput"]["low"] < row["throughput"]["value"] <= row["throughput"]["high"]
    add_ceiling(gpu, "cuda0", "memory", "read", {"level": "hbm"}, 3.2e12, None, None)
    time = size("--model", "llama-8b", "--context", 512, document=gpu)["itl"]
    assert time["value"] > 0 and time["low"] is None and time["high"] is None


def test_longer_of_two_takes_the_later_ends():
    found = longer(Stage("s", Span(10.0, 9.0, 11.0), "a"), Stage("s", Span(9.5, 8.0, 13.0), "b"))
    assert (found.limit, found.span) == ("a", Span(10.0, 9.0, 13.0))


def test_level_is_that_which_holds_the_stream(gpu):
    result = from_document("x", gpu)
    cpu, cuda = (Machine(result, d) for d in gpu["context"]["devices"])
    mib = 1 << 20
    assert [cuda.level(n * mib) for n in (1, 50, 51)] == ["l2", "l2", "hbm"]
    assert [cpu.level(n) for n in (4 * 32768, 4 * mib, 16 * mib, 17 * mib)] == ["l1", "l2", "l3", "dram"]
    assert cpu.level(3 * mib, "1") == "l3"


# ---- what is missing ----


def _without(document, *resources):
    for case in document["ceilings"]:
        if case["rate"]["resource"] in resources and case["device"]["name"] == "cuda0":
            case.update(status="not_reached", reason="the budget", metrics=[], series=[], statistics=None)
            case["rate"] |= {"value": None, "low": None, "high": None}
    return document


def test_a_missing_ceiling_makes_unknown_and_says_what_to_run(command, gpu, save):
    path = save(_without(gpu, "memory"), "r.json")
    words = ("size", "--model", "llama-8b", "--context", 512, "--device", "cuda0", path)
    code, out, _ = command(*words)
    assert code == 0 and out.count("unknown") >= 3
    assert "TTFT, ITL unknown: without ceiling/read/level:hbm/dev:cuda0: not reached" in out
    assert "assay run --device cuda0 --suite ceiling --budget 10m --out FILE" in out
    assert command(*words, "--strict")[0] == 4
    row = json.loads(command(*words, "--format", "json")[1])["rows"][0]
    assert row["itl"]["value"] is None and row["itl"]["reason"] and row["throughput"]["value"] is None
    assert row["memory"]["fits"] is True


def test_memory_limits_without_the_matrix_rate_only_where_f32_would_do(size, gpu):
    without = _without(gpu, "flops.bf16")
    row = size("--model", "llama-8b", "--context", 512, document=without)
    assert row["itl"]["limited_by"] == "memory hbm"
    assert row["ttft"]["value"] is None and "tensor/type:bf16" in row["ttft"]["reason"]
    assert "--suite ceiling" in row["to_measure"]
    assert size("--model", "llama-8b", "--context", 512, "--batch", 64, document=without)["itl"]["value"] is None


def test_one_suite_measures_every_type(size):
    row = size("--model", "llama-1b", "--context", 64, "--type", "f16")
    assert row["to_measure"] == "assay run --device cuda0 --suite ceiling --budget 10m --out FILE"


def test_launches_need_their_ceiling_unless_there_are_none(size, gpu):
    without = _without(gpu, "launch")
    assert size("--model", "llama-1b", "--context", 64, document=without)["itl"]["value"] is None
    assert size("--model", "llama-1b", "--context", 64, "--kernels", 0, document=without)["itl"]["value"] > 0


def test_suspect_ceilings_mark_the_figure(command, gpu, save):
    for case in gpu["ceilings"]:
        case["validity"] = {"status": "suspect", "reasons": ["throttled"]}
    words = ("size", "--model", "llama-1b", "--context", 64, "--device", "cuda0", save(gpu, "r.json"))
    out = command(*words)[1]
    assert re.search(r"\d [µm]s\?", out) and ", suspect" in out
    assert json.loads(command(*words, "--format", "json")[1])["rows"][0]["itl"]["suspect"] is True


def test_unknown_memory_is_no_fit(command, gpu, save):
    gpu["context"]["devices"][1]["memory_bytes"] = 0
    words = ("size", "--model", "llama-1b", "--context", 64, "--device", "cuda0", save(gpu, "r.json"))
    code, out, _ = command(*words, "--strict")
    assert code == 4 and "does not tell the device's memory" in out


# ---- bad input ----

GOOD = {"--model": "llama-8b", "--context": "512"}
BAD = {
    "unknown model": ({"--model": "gpt-5"}, "presets: tiny, llama-15m"),
    "context beyond the model": ({"--context": "131073"}, "has 131072 positions"),
    "context 0": ({"--context": "0"}, "--context 0"),
    "context in words": ({"--context": "5x"}, "--context 5x"),
    "no context": ({"--context": None}, "give --model and --context"),
    "batch 0": ({"--batch": "0"}, "--batch 0"),
    "negative batch": ({"--batch": "-1"}, "--batch -1"),
    "huge batch": ({"--batch": "9" * 30}, "--batch 999"),
    "prompt beyond context": ({"--prompt": "513"}, "from 1 to 512"),
    "empty prompt": ({"--prompt": "0"}, "--prompt 0"),
    "use 0": ({"--use": "0"}, "--use 0"),
    "use above 1": ({"--use": "1.01"}, "--use 1.01"),
    "use nan": ({"--use": "nan"}, "--use nan"),
    "page 0": ({"--page": "0"}, "--page 0"),
    "gpus 0": ({"--gpus": "0"}, "--gpus 0"),
    "gpus that do not divide": ({"--gpus": "3"}, "give a divisor of 32"),
    "link without a unit": ({"--link": "450"}, "450GB/s"),
    "link 0": ({"--link": "0GB/s"}, "450GB/s"),
    "alpha without a unit": ({"--alpha": "10"}, "10us"),
    "kernels": ({"--kernels": "1001"}, "--kernels 1001"),
    "no such device": ({"--device": "cuda7"}, "one of cpu, cuda0"),
    "gpus of the host": ({"--device": "cpu", "--gpus": "2"}, "needs a GPU"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name, command, gpu, save):
    changes, said = BAD[name]
    words = [f"{k}={v}" for k, v in (GOOD | changes).items() if v is not None]
    code, out, err = command("size", *words, save(gpu, "r.json"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_result_without_ceilings(command):
    code, _, err = command("size", "--model", "llama-8b", "--context", 512, EMPTY)
    assert code == 2 and err.count("\n") == 1
    assert "holds no measured ceiling" in err and "assay run --device" in err


def test_no_table_of_models_anywhere(command, gpu, save, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_COMMAND", str(tmp_path / "absent"))
    words = ("size", "--model", "llama-8b", "--context", 512)
    code, _, err = command(*words, save(gpu, "r.json"))
    assert code == 3 and "no result here lists the models" in err
    old = tmp_path / "old"
    old.write_text(f"#!{sys.executable}\nprint('{{\"suites\": []}}')\n")
    old.chmod(0o755)
    monkeypatch.setenv("ASSAY_COMMAND", str(old))
    code, _, err = command(*words, save(gpu, "r.json"))
    assert code == 3 and "lists no models" in err
    gpu["plan"]["catalogue"]["models"] = MODELS
    assert command(*words, save(gpu, "r.json"))[0] == 0  # a result's own table needs no command


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 0},
        {"layers": True},
        {"d_model": "4096"},
        {"heads": 31},
        {"vocab": 1 << 60},
        {"family": "cnn"},
        {"experts_per_token": 2},
        {"parameters": 1},
        {"tied": 0},
    ],
    ids=str,
)
def test_a_damaged_table_of_models(change, command, gpu, save):
    gpu["plan"]["catalogue"]["models"] = [record("llama-8b") | change]
    code, _, err = command("size", "--model", "llama-8b", "--context", 512, save(gpu, "r.json"))
    assert code == 2 and err.count("\n") == 1 and "llama-8b" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ("[]", "not a JSON object"),
        (json.dumps({"model_type": "mamba"}), "llama, mistral, mixtral, bert are"),
        (json.dumps(LLAMA_8B | {"hidden_size": None}), "hidden_size is None"),
        (json.dumps(LLAMA_8B | {"num_attention_heads": 0}), "num_attention_heads is 0"),
        (json.dumps(LLAMA_8B | {"num_key_value_heads": 7}), "cannot share"),
        (json.dumps(LLAMA_8B | {"vocab_size": -1}), "vocab is -1"),
    ],
)
def test_bad_folder(text, said, command, gpu, save, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    if text is not None:
        (folder / "config.json").write_text(text)
    code, _, err = command("size", "--model", folder, "--context", 1, save(gpu, "r.json"))
    assert code == 2 and err.count("\n") == 1 and said in err


# ---- outputs ----


def test_one_row_a_device_and_machine(command, gpu, save):
    paths = (save(gpu, "r.json"), CPU)
    words = ("size", "--model", "llama-1b", "--context", 64)
    code, out, err = command(*words, *paths)
    assert (code, err) == (0, "")
    assert [line.split("  ")[0] for line in out.splitlines() if line.startswith("[")][:2] == [
        f"[1] Synthetic CPU 1000 + Synthetic GPU 9000, {paths[0]}",
        f"[2] Synthetic CPU 1000, {CPU}",
    ]
    rows = json.loads(command(*words, *paths, "--format", "json")[1])["rows"]
    assert [(r["path"], r["device"]) for r in rows] == [
        (str(paths[0]), "cpu"),
        (str(paths[0]), "cuda0"),
        (str(CPU), "cpu"),
    ]
    assert rows[0]["itl"]["limited_by"] == "memory dram"
    assert rows[0]["memory"]["device_bytes"] == 32e9
    table = command(*words, *paths, "--format", "markdown")[1]
    assert table.count("\n| ") == 2 * (2 + 3) and "TTFT" in table


def test_the_host_computes_in_f32(gpu):
    result = from_document("x", gpu)
    cpu, cuda = (
        memory(plan("llama-15m", context=64, prompt=64), Machine(result, d)) for d in gpu["context"]["devices"]
    )
    wide = 2 * 288 + 4 * 288 + 3 * 768
    assert cpu.activations == 64 * 4 * wide + 32_000 * 4
    assert cuda.activations == 64 * 2 * (288 + wide) + 32_000 * 4


def test_container_limit_counts(gpu):
    gpu["context"]["container"]["memory_limit_bytes"] = 8e9
    assert Machine(from_document("x", gpu), gpu["context"]["devices"][0]).memory_bytes == 8e9


def test_published_h200(command):
    """The committed result: read 4.59 TB/s. Its floors are the anchors' scaled by the bandwidth."""
    path = ROOT / "results" / "nvidia-h200" / "quick.json.gz"
    words = ("size", "--model", "llama-8b", "--context", 512, "--device", "cuda0", "--format", "json", path)
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    row = json.loads(out)["rows"][0]
    read = next(c for c in row["ceilings"] if "/read/level:hbm/" in c["id"])["rate"]
    assert math.isclose(row["itl"]["floor_ns"], (3.3356e6 * 4.5e12 + 512 * 131_072e9) / read, rel_tol=1e-3)
