"""The plots of the suites: which appear, what they say, and that nothing in them lies over something else."""

from __future__ import annotations

import math

import matplotlib.text
import pytest

from reports import crossover, i18n, labels, ladder, parts, plots, series, style, summary
from reports.load import Metric, from_document, load

import synthetic_suites as model
from conftest import CPU, EMPTY, GPU

EN = i18n.Texts("en")


@pytest.fixture(scope="module")
def suites():
    return from_document("suites.json", model.suites_document())


def drawings(result, t=EN) -> dict:
    """Plot name to its drawing, without files."""
    out = {}
    for row in plots.TABLE:
        cases = row.select(result)
        if cases or not row.needs_cases:
            out[row.name] = row.draw(result, cases, t)
    return {k: v for k, v in out.items() if v is not None}


SUITES = {
    "roofline",
    "memory_latency",
    "memory_levels",
    "memory_sweep",
    "memory_patterns",
    "alloc",
    "offload",
    "inference_waterfall",
    "inference_rungs",
    "inference_lengths",
    "inference_batches",
    "inference_devices",
}


def test_a_plot_appears_where_its_cases_exist(suites):
    assert set(drawings(suites)) == SUITES
    classic = {"roofline", "ladder", "matmul", "memory_levels", "memcpy", "launch"}
    assert set(drawings(load(GPU))) == set(drawings(load(CPU))) == classic
    assert drawings(load(EMPTY)) == {}


def test_every_row_has_its_title():
    for lang in i18n.LANGUAGES:
        t = i18n.Texts(lang)
        for row in plots.TABLE:
            assert t.or_raw("plot", row.name) != row.name


# ---- what they say ----


def test_findings_tell_the_figures(suites):
    said = {k: v.finding for k, v in drawings(suites).items()}
    assert all(any(c.isdigit() for c in text) for text in said.values())
    assert "16 KiB" in said["memory_latency"] and "512 MiB" in said["memory_latency"]
    assert "Shared memory: access of a warp: 1.0" in said["memory_patterns"]
    assert "cheapest is slab, 1 MiB" in said["alloc"]
    assert "dearest malloc, 1 MiB" in said["alloc"]
    assert "matmul on cuda0, GPU with transfers: no crossover, the GPU pays at every size" in said["offload"]
    assert "axpy on cuda0, GPU with transfers: no crossover, the GPU pays at no size" in said["offload"]
    assert "axpy on cuda0, GPU, data resident: the GPU pays from n = " in said["offload"]
    assert "softmax on cuda0, GPU with transfers: one size stands on both sides, n = 1024" in said["offload"]
    assert "llama-small" in said["inference_rungs"] and "fused is fastest" in said["inference_rungs"]
    assert "TTFT" in said["inference_lengths"] and "ITL" in said["inference_lengths"]
    assert "cuda0 is " in said["inference_devices"]


def test_missing_ceiling_keeps_its_row(suites):
    from reports.plots import memory

    shown = [memory._level_bar(c, EN) for c in suites.ceilings if c.resource == "memory"]
    lost = [bar for bar in shown if bar.value is None]
    assert len(lost) == 2
    assert all(bar.text == "not reached" for bar in lost)


def test_kinds_of_stores_have_rows_of_their_own():
    document = model.suites_document()
    copy = next(c for c in document["ceilings"] if c["variant"] == "copy" and c["device"]["name"] == "cpu")
    names = set()
    for stores in ("usual", "nt", "temporal"):
        copy["parameters"]["stores"] = stores
        case = next(c for c in from_document("suites.json", document).ceilings if c.id == copy["id"])
        names.add(labels.ceiling_label(case, EN).partition(",")[0])
    level = next(n for n in names if "(" not in n)
    assert names == {level, f"{level} (non-temporal stores)", f"{level} (temporal stores)"}


def test_roofs_need_no_finished_ceiling():
    document = model.suites_document()
    for ceiling in document["ceilings"]:
        ceiling.update(status="not_reached", reason="no time", metrics=[], statistics=None)
        ceiling["rate"].update(value=None, low=None, high=None)
    assert "memory_levels" not in drawings(from_document("none.json", document))


def test_a_case_without_the_suites_metric_spoils_no_plot(document):
    """Copies have a bandwidth; one that has none (the fraction of a copy hidden) stands in the table only."""
    case = next(c for c in document["cases"] if c["suite"] == "memcpy" and c["device"]["name"] == "cuda0")
    case["metrics"] = [m for m in case["metrics"] if m["name"] != "bandwidth"]
    result = from_document("mixed.json", document)
    panels = series.panels(result, "memcpy", EN)
    assert [p.part for p in panels] == ["", "h2d", "d2h", "device"]
    assert {p.metric for p in panels} == {"bandwidth"}
    assert {p.x_axis for p in panels} == {"bytes"}
    assert all(c.id != case["id"] for p in panels for line in p.lines for c in line.cases)
    assert len(summary.best_cases(result, EN)) == len(summary.best_cases(load(GPU), EN))


def test_lines_beyond_the_limit_are_told(monkeypatch):
    monkeypatch.setattr(series, "MOST_LINES", 3)
    drawn = drawings(load(CPU))["memcpy"]
    assert "cpu: 1 more lines stand in the table only." in drawn.finding


# ---- ladders ----


def _of_ladders(result, device):
    cases = [c for c in result.cases if c.suite == "matmul" and c.done and c.device == device]
    return ladder.ladders(result, cases, ("n", "m", "k"))


def test_ladder_is_in_the_order_of_the_catalogue():
    (found,) = _of_ladders(load(GPU), "cuda0")
    assert [r.case.variant for r in found.rungs] == ["naive", "tiled16", "tiled32", "cublas"]
    assert found.base.variant == "cublas" and found.by_reference
    assert found.fixed["n"] == 4096  # all sizes have all rungs: the largest
    assert found.best().case.variant == "tiled32"
    base, limit = found.base, found.base.fraction
    assert found.limit == pytest.approx(1 / limit)  # all have one floor, and cublas is the base
    times = {r.case.variant: r.case.metrics["time"].value for r in found.rungs}
    for rung in found.rungs:
        assert rung.ratio.value == pytest.approx(base.metrics["time"].value / times[rung.case.variant])


def test_interval_of_a_ratio_by_hand():
    """10 ns within 1% over 20 ns within 2%, on the logarithm: 0.5 within sqrt(1^2 + 2^2)%."""
    cases = [c for c in load(GPU).cases if c.done][:2]
    one, two = (
        type(c)(**{**c.__dict__, "metrics": {"time": Metric("ns", v, v * math.exp(-h), v * math.exp(h))}})
        for c, v, h in zip(cases, (10.0, 20.0), (0.01, 0.02), strict=True)
    )
    ratio = ladder.speed_ratio(two, one)
    assert ratio.value == 0.5
    assert ratio.low == pytest.approx(0.5 * math.exp(-math.sqrt(5) / 100))
    assert ratio.high == pytest.approx(0.5 * math.exp(math.sqrt(5) / 100))
    assert ladder.speed_ratio(one, one) == Metric("", 1.0, None, None)


def test_size_with_most_rungs_is_taken():
    result = load(CPU)
    cases = [c for c in result.cases if c.suite == "matmul" and c.done and c.parameters["threads"] == "1"]
    cases = [c for c in cases if c.parameters["n"] != 1024 or c.variant != "naive"]
    (found,) = ladder.ladders(result, cases, ("n", "m", "k"))
    assert found.fixed["n"] == 512 and len(found.rungs) == 3
    assert ladder.ladders(result, cases[:1], ("n", "m", "k")) == []


# ---- crossovers ----


def _curve(values: dict, half: float = 0.0) -> dict:
    return {n: Metric("ns", v, v * math.exp(-half), v * math.exp(half)) for n, v in values.items()}


def test_crossover_by_hand():
    """ln(t_cpu / t_gpu) goes from -ln 2 at 100 to ln 2 at 400: zero halfway on the logarithm, at 200. With 5% on each
    side the curves shift by 0.1, which is 0.1 / (2 ln 2) of the way."""
    found = crossover.crossover(_curve({100: 1, 400: 8}, 0.05), _curve({100: 2, 400: 4, 900: 1}, 0.05))
    assert found.kind == "crosses"
    assert found.value == pytest.approx(200)
    shift = math.log(4) * 0.1 / (2 * math.log(2))
    assert found.low == pytest.approx(200 * math.exp(-shift))
    assert found.high == pytest.approx(200 * math.exp(shift))
    assert (found.first, found.last) == (100, 400)


@pytest.mark.parametrize(
    ("cpu", "gpu", "kind"),
    [
        ({1: 2, 2: 2}, {1: 1, 2: 1}, "always"),
        ({1: 1, 2: 1}, {1: 2, 2: 2}, "never"),
        ({1: 2, 2: 1}, {1: 1, 2: 2}, "falls"),
        ({1: 1, 2: 3, 4: 1, 8: 3}, {1: 2, 2: 2, 4: 2, 8: 2}, "crosses"),
        ({1: 1}, {1: 2}, "none"),
        ({1: 1, 2: 1}, {4: 1, 8: 1}, "none"),
        ({}, {1: 1}, "none"),
    ],
)
def test_kinds_of_crossover(cpu, gpu, kind):
    found = crossover.crossover(_curve(cpu), _curve(gpu))
    assert found.kind == kind
    if kind == "crosses":
        assert 4 < found.value < 8  # the last rise, after which it stays above


def test_interval_that_leaves_the_sizes_is_open():
    found = crossover.crossover(_curve({100: 1, 400: 1.01}, 0.2), _curve({100: 1.01, 400: 1}, 0.2))
    assert found.kind == "crosses"
    assert found.low is None and found.high is None


# ---- the breakdown ----

ALONE = {"schedule", "head", "gap/qkv", "gap/rotary", "sample", "launch"}  # paths without layers


def _waterfall_case(result, device="cuda0", model_name="llama-large"):
    return next(
        c
        for c in result.cases
        if c.parts and c.device == device and c.parameters["model"] == model_name and c.variant == "fused"
    )


def test_layers_are_not_counted_twice(suites):
    case = _waterfall_case(suites)
    found = parts.stages(case.parts, case.breakdown.operations)
    assert sum(s.ns for s in found) == pytest.approx(case.breakdown.attributed_ns)
    down = next(s for s in found if s.path == "mlp/down")
    assert down.floor_share == pytest.approx(0.91)
    assert down.count == model.LAYERS * model.OPERATIONS
    only_layers = [p for p in case.parts if p.layer is not None or p.path in ALONE]
    again = parts.stages(only_layers, case.breakdown.operations)
    assert sum(s.ns for s in again) == pytest.approx(case.breakdown.attributed_ns)
    assert next(s for s in again if s.path == "mlp/down").p50_ns is None  # of several layers: unknown


def test_part_of_a_part_is_a_stage_of_its_own(suites):
    """attention/join stands beside attention, not within it: both hold time."""
    case = _waterfall_case(suites)
    found = {s.path: s.ns for s in parts.stages(case.parts, case.breakdown.operations)}
    assert found["attention"] == pytest.approx(0.12 * case.breakdown.instrumented_ns)
    assert found["attention/join"] == pytest.approx(0.02 * case.breakdown.instrumented_ns)


def test_waterfall_closes(suites):
    from reports.plots import waterfall

    picked = waterfall.chosen([c for c in suites.cases if c.suite == "inference" and c.done])
    assert {(c.device, c.variant, c.parameters["model"]) for c in picked} == {
        ("cpu", "threaded", "llama-small"),
        ("cuda0", "fused", "llama-large"),
    }
    for case in picked:
        rows = waterfall.rows(case, EN)
        assert sum(r.ns for r in rows) == pytest.approx(case.breakdown.instrumented_ns)
        assert [r.kind for r in rows].count("rest") == 1 and rows[-1].kind == "rest"
        assert [r.label for r in rows if r.kind == "gap"] == ["gaps between kernels (2)"]
        assert [r.label for r in rows][:2] == ["schedule", "norm"]
    assert "add up to" not in drawings(suites)["inference_waterfall"].finding


def test_parts_that_do_not_add_up_are_told():
    document = model.suites_document()
    for case in document["cases"]:
        if case["parts"]:
            case["breakdown"]["attributed_ns"] *= 0.9
    said = drawings(from_document("open.json", document))["inference_waterfall"].finding
    assert "The stages add up to" in said


def test_many_stages_become_one_row():
    from reports.plots import waterfall

    document = model.suites_document()
    case = next(c for c in document["cases"] if c["parts"])
    case["parts"] = [{**case["parts"][1], "path": f"stage{i}", "total_ns": 1e6 * (i + 1)} for i in range(30)]
    loaded = next(c for c in from_document("many.json", document).cases if c.id == case["id"])
    rows = waterfall.rows(loaded, EN)
    assert len(rows) == waterfall.MOST_STAGES + 2
    assert rows[-2].label == "14 smaller stages"
    assert sum(r.ns for r in rows[:-1]) == pytest.approx(sum(1e6 * (i + 1) for i in range(30)) / model.OPERATIONS)


@pytest.mark.parametrize(
    "mutate",
    [
        lambda c: c["parts"][0].pop("path"),
        lambda c: c["parts"][0].update(total_ns="1"),
        lambda c: c["parts"].__setitem__(0, 7),
        lambda c: c.update(parts={}),
        lambda c: c["breakdown"].pop("operations"),
        lambda c: c["breakdown"].update(operations=0),
        lambda c: c.update(breakdown=[]),
    ],
)
def test_broken_parts_are_exit_2(command, save, tmp_path, mutate):
    document = model.suites_document(devices=[model.model.CPU])
    mutate(next(c for c in document["cases"] if c["parts"]))
    code, _, err = command("report", save(document), "-o", tmp_path / "page")
    assert code == 2
    assert err.count("\n") == 1 and ("parts" in err or "breakdown" in err)


# ---- what they look like ----


def _texts(figure) -> list:
    """(text, box in pixels) of all that is written; labels of ticks beyond the axis are made but not drawn."""
    renderer = figure.canvas.get_renderer()
    beyond = set()
    for axis in (a for ax in figure.axes for a in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        beyond |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    found = [a for a in figure.findobj(matplotlib.text.Text) if a.get_visible() and a.get_text().strip()]
    return [(a.get_text(), a.get_window_extent(renderer)) for a in found if a not in beyond]


@pytest.mark.parametrize(
    ("lang", "width"), [("en", style.WIDE), ("en", style.NARROW), ("zh", style.NARROW)], ids=["wide", "narrow", "zh"]
)
def test_texts_lie_apart_and_within_the_figure(suites, lang, width):
    t = i18n.Texts(lang)
    with style.plotting(lang):
        for source, names in ((suites, SUITES - {"roofline"}), (load(GPU), {"ladder", "memory_levels"})):
            for name, drawing in drawings(source, t).items():
                if name not in names:
                    continue
                figure = drawing.make(width)
                figure.canvas.draw()
                assert faults(figure) == [], (name, width)
                style.plt.close(figure)


def faults(figure) -> list:
    """Texts that are cut by the figure's edge or lie over one another."""
    whole = figure.bbox
    found, boxes = [], _texts(figure)
    for text, box in boxes:
        if box.x0 < whole.x0 - 1 or box.x1 > whole.x1 + 1 or box.y0 < whole.y0 - 1 or box.y1 > whole.y1 + 1:
            found.append(("cut", text))
    for i, (text, a) in enumerate(boxes):
        for other, b in boxes[i + 1 :]:
            wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
            if wide > 2 and high > 2:
                found.append(("over", text, other))
    return found


def test_faults_are_seen():
    with style.plotting("en"):
        figure = style.plt.figure(figsize=(2, 2))
        figure.text(0.1, 0.5, "first words")
        figure.text(0.2, 0.5, "second words")
        figure.text(0.9, 0.9, "far too long")
        figure.canvas.draw()
        assert {f[0] for f in faults(figure)} == {"cut", "over"}


def test_negative_rest_is_drawn():
    """Overlap may attribute more than the time measured: the bar then points back."""
    document = model.suites_document()
    for case in document["cases"]:
        if case["parts"]:
            closes = case["breakdown"]
            closes["unattributed_ns"] = -0.02 * closes["instrumented_ns"]
    with style.plotting("en"):
        figure = drawings(from_document("back.json", document))["inference_waterfall"].make(style.WIDE)
        figure.canvas.draw()
        assert any("-2%" in text for text, _ in _texts(figure))


def test_labels_of_a_waterfall_keep_off_bars_floors_and_names():
    """Also where a pass with instruments was much quicker than the series, and floors are longer than their stages."""
    document = model.suites_document()
    for case in document["cases"]:
        for part in case["parts"] or []:
            if part.get("floor_ns"):
                part["floor_ns"] *= 1.4
        if case["parts"]:
            case["breakdown"]["series_ns"] *= 3
    with style.plotting("en"):
        figure = drawings(from_document("quick_pass.json", document))["inference_waterfall"].make(style.WIDE)
        figure.canvas.draw()
        for ax in figure.axes:
            window, bars = ax.get_window_extent(), [b.get_window_extent() for b in ax.patches]
            for text in ax.texts:
                box = text.get_window_extent()
                assert box.x0 >= window.x0 - 1 and box.x1 <= window.x1 + 1, text.get_text()
                assert not any(b.width > 2 and b.overlaps(box) for b in bars), text.get_text()
