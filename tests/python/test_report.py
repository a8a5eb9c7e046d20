"""The page: its contents, its escape, its languages, and what a browser makes of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports import i18n, style, summary, units
from reports.errors import visible
from reports.load import load

import browser
from conftest import CPU, GPU, ODD, ROOT

ALL = ("en", "zh", "odd", "empty", "cpu", "two")
VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


def _html(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


class Page(HTMLParser):
    """Text, tags and rows of the page; raises on tags that do not nest."""

    def __init__(self, html: str):
        super().__init__()
        self.stack, self.tags, self.rows, self.words, self.ids = [], [], [], [], []
        self.feed(html)
        self.close()
        assert self.stack == []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [v for k, v in attrs if k == "id"]
        if tag == "tr":
            self.rows.append("")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [v for k, v in attrs if k == "id"]

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if not {"style", "svg"} & set(self.stack):
            self.words.append(data)
            if "tr" in self.stack:
                self.rows[-1] += " " + data


@pytest.mark.parametrize("name", ALL)
def test_page_is_well_formed_and_self_contained(pages, name):
    html = _html(pages[name])
    page = Page(html)
    assert len(page.ids) == len(set(page.ids))
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "embed"}
    assert not re.search(r"url\(\s*[\"']?(?!#)|@import|(?:src|href)=[\"'](?!#|data:)", html)
    targets = [a["href"][1:] for tag, a in page.tags if tag == "a"]
    assert targets
    assert set(targets) <= set(page.ids)


@pytest.mark.parametrize("name", ALL)
def test_page_is_accessible(pages, name):
    page = Page(_html(pages[name]))
    assert next(a for tag, a in page.tags if tag == "html")["lang"] == ("zh-Hans" if name == "zh" else "en")
    tables = [a for tag, a in page.tags if tag == "table"]
    assert len([1 for tag, _ in page.tags if tag == "caption"]) == len(tables) > 0
    assert all(a.get("scope") in ("col", "row") for tag, a in page.tags if tag == "th")
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    for tag, a in page.tags:
        if tag == "svg":
            assert a["role"] == "img"
            assert set(a["aria-labelledby"].split()) <= set(page.ids)


def test_each_plot_tells_its_finding(pages):
    html = _html(pages["en"])
    found = re.findall(r"<desc[^>]*>(.*?)</desc>", html)
    assert len(found) == 12  # six plots, wide and narrow
    assert all(re.search(r"\d", text) for text in found)
    best = max(
        (c for c in load(GPU).cases if c.suite == "matmul" and c.done), key=lambda c: c.metrics["flop_rate"].value
    )
    rate = units.quantity(best.metrics["flop_rate"].value, "flops_per_s")
    assert any(best.variant in text and rate in text for text in found)


@pytest.mark.parametrize(("name", "files"), [("en", [GPU]), ("odd", [ODD]), ("two", [GPU, CPU])])
def test_every_case_stands_with_its_figures(pages, name, files):
    rows = Page(_html(pages[name])).rows
    for path in files:
        for case in load(path).cases:
            time = units.quantity(case.metrics["time"].value, "ns") if case.done else None
            want = [visible(case.variant)] + (
                [time, units.interval(case.metrics["time"])] if case.done else [case.reason]
            )
            assert any(all(w in row for w in want) for row in rows), case.id


def test_unmeasured_cases_have_reasons_and_no_figure(pages):
    rows = Page(_html(pages["en"])).rows
    for case in load(GPU).cases:
        if not case.done:
            row = next(r for r in rows if case.reason in r)
            assert not re.search(r"\d (ns|µs|ms|s)\b|FLOP/s|B/s", row.split(case.reason)[0])
            assert "0%" not in row


def test_empty_result_says_so(pages):
    text = Page(_html(pages["empty"])).text
    assert i18n.Texts("en")("nothing_done") in text
    assert i18n.Texts("en")("no_ceilings") in text
    assert "libcuda.so.1" in text
    assert list((pages["empty"] / "plots").iterdir()) == []


def test_unknown_suite_is_drawn_and_tabled(pages):
    assert (pages["odd"] / "plots" / "dot.png").stat().st_size > 1000
    assert "dot, cpu" in Page(_html(pages["odd"])).text


def test_hostile_names_are_text(pages):
    html = _html(pages["odd"])
    assert "&lt;b&gt;&amp;amp;&lt;/b&gt;" in html
    assert "<b>" not in html
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", html)
    assert "control\\x01\\x1b[31m" in html


def test_lone_surrogate_and_direction_override_do_no_harm(command, save, tmp_path):
    document = json.loads(ODD.read_text(encoding="utf-8"))
    document["cases"][-1]["variant"] = "a\ud800b\u202ec\U0001f600"
    path = save(json.dumps(document))
    assert command("report", path, "-o", tmp_path / "out")[0] == 0
    assert "a\\ud800b\\u202ec" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["en", "zh", "two"])
def test_plots_are_files_too(pages, name):
    folder = pages[name] / "plots"
    pngs, svgs = sorted(folder.glob("*.png")), sorted(folder.glob("*.svg"))
    assert [p.stem for p in pngs] == [p.stem for p in svgs]
    assert len(pngs) == (12 if name == "two" else 6)
    for png in pngs:
        assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    for svg in svgs:
        root = ElementTree.parse(svg).getroot()
        assert root.find("{http://www.w3.org/2000/svg}desc").text


def test_report_is_deterministic(tmp_path):
    """Two processes, other hash seeds: the same bytes."""
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "reports", "report", str(CPU), "-o", str(tmp_path / seed)],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
        )
    names = sorted(p.relative_to(tmp_path / "1") for p in (tmp_path / "1").rglob("*") if p.is_file())
    assert len(names) == 13
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_comparison_shows_the_ratio_of_the_same_case(pages):
    left, right = ({c.key: c for c in load(p).cases if c.done} for p in (GPU, CPU))
    key = next(k for k in right if k[0] == "matmul" and k[1] == "openblas")
    ratio = right[key].metrics["flop_rate"].value / left[key].metrics["flop_rate"].value
    first = units.quantity(left[key].metrics["flop_rate"].value, "flops_per_s")
    second = units.quantity(right[key].metrics["flop_rate"].value, "flops_per_s")
    rows = Page(_html(pages["two"])).rows
    assert any(first in r and second in r and f"{units.significant(ratio, 3)}×" in r for r in rows)


def test_link_below_its_maximum_is_told(pages):
    text = Page(_html(pages["en"])).text
    assert "below its maximum of generation 5 x16" in text


def test_unknown_link_is_no_warning(command, document, save, tmp_path):
    document["context"]["devices"][1]["pcie"] = dict.fromkeys(("generation", "generation_max", "width", "width_max"))
    document["cases"] = document["cases"][-4:]
    assert command("report", save(document), "-o", tmp_path / "out")[0] == 0
    text = Page(_html(tmp_path / "out")).text
    assert "below its maximum" not in text
    assert "generation ? x? now" in text


def test_headline_names_the_best_case_and_its_share():
    result = load(GPU)
    best = summary.best_cases(result, i18n.Texts("en"))
    gpu = next(b for b in best if b.case.suite == "matmul" and b.case.device == "cuda0")
    assert gpu.case.variant == "cublas"
    assert units.percent(gpu.case.fraction) in gpu.sentence
    assert {b.case.parameters["dir"] for b in best if b.case.suite == "memcpy" and b.case.device == "cuda0"} == {
        "h2d",
        "d2h",
        "d2d",
    }


# ---- languages ----


def test_locales_have_the_same_keys_and_fields():
    english, chinese = (i18n.catalogue(lang) for lang in ("en", "zh"))
    assert english.keys() == chinese.keys()
    for key in english:
        fields = [sorted(set(re.findall(r"\{(\w+)", text))) for text in (english[key], chinese[key])]
        assert fields[0] == fields[1], key


def test_every_text_is_used():
    """No text is left behind by a change. Families whose end comes from the data (a resource's name) are exempt."""
    sources = "".join(
        p.read_text(encoding="utf-8") for p in (ROOT / "reports").rglob("*") if p.suffix in (".py", ".j2")
    )
    quoted = set(re.findall(r"""["']([\w.]+)["']""", sources))
    from_data = (
        "resource.",
        "level.",
        "value.",
        "access.",
        "axis.",
        "metric.",
        "metric_word.",
        "plot.",
        "status.",
        "stores.",
        "validity.",
    )
    by_end = ("warn.", "remedy.", "section.", "part.", "what.", "rate.", "transfers.", "variance.", "waterfall.")
    for key in i18n.catalogue("en"):
        if not key.startswith(from_data):
            assert key in quoted or (key.startswith(by_end) and key.partition(".")[2] in quoted), key


def test_chinese_page_is_chinese(pages):
    text = Page(_html(pages["zh"])).text
    for key in ("section.machine", "section.cases", "col.percent", "status.not_reached", "footer"):
        assert i18n.Texts("zh")(key) in text
        assert i18n.Texts("en")(key) not in text


def test_no_chinese_font_is_exit_3(command, monkeypatch, tmp_path):
    monkeypatch.setattr(style, "cjk_family", lambda: None)
    code, _, err = command("report", CPU, "-o", tmp_path / "out", "--lang", "zh")
    assert code == 3
    assert "fonts-noto-cjk" in err
    assert not (tmp_path / "out" / "report.html").exists() or (tmp_path / "out" / "report.html").stat().st_size == 0


def test_missing_glyph_is_an_error():
    with style.plotting("en"), pytest.raises(UserWarning, match="missing from"):
        figure = style.plt.figure()
        figure.text(0.5, 0.5, "\U000f0000")
        figure.canvas.draw()
    with style.plotting("en"):
        assert style.drawable("a\U000f0000b") == "a?b"


# ---- exit codes ----


def test_unwritable_folder_is_exit_3(command, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = command("report", CPU, "-o", tmp_path / "file" / "out")
    assert code == 3
    assert err.count("\n") == 1
    assert "-o DIR" in err


def test_full_disk_is_exit_3(command, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    (tmp_path / "report.html").symlink_to("/dev/full")
    code, _, err = command("report", CPU, "-o", tmp_path)
    assert code == 3
    assert err.count("\n") == 1


def test_one_file_twice_is_exit_2(command, tmp_path):
    code, _, err = command("report", CPU, CPU, "-o", tmp_path / "out")
    assert code == 2
    assert "twice" in err


@pytest.mark.parametrize("args", [["report"], ["report", "x"], ["nothing"], ["report", "x", "-o", "y", "--lang", "fr"]])
def test_usage_is_exit_2(command, args):
    with pytest.raises(SystemExit) as caught:
        command(*args)
    assert caught.value.code == 2


def test_missing_modules_are_named(command, monkeypatch, tmp_path):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", refuse)
    code, _, err = command("report", CPU, "-o", tmp_path)
    assert code == 3
    assert all(name in err for name in ("numpy", "scipy", "matplotlib", "jinja2"))


# ---- colours ----


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_text_and_lines_have_contrast(pages, mode):
    """WCAG: 4.5:1 for text; the series' colours hold it too."""
    surface = style.SURFACE[mode]
    for name in [*(f"series-{i}" for i in range(len(style.SERIES))), "ink", "muted", "ceiling"]:
        assert _contrast(style.TOKENS[name][mode], surface) >= 4.5, name
    for name in ("good", "warn", "bad"):
        assert _contrast(re.findall(rf"--{name}: (#\w+)", _html(pages["en"]))[mode], surface) >= 4.5, name


# ---- browser ----


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("name", ["en", "zh", "odd", "empty", "two"])
def test_browser_shows_the_page_whole(pages, tmp_path, name, width):
    found = browser.probe(pages[name] / "report.html", width, tmp_path)
    assert found["inner"] == width
    assert found["console"] == []
    assert found["resources"] == []
    assert all(found["images"])
    assert found["scroll"] <= found["inner"], found["wide"]
    assert found["wide"] == []
    assert found["figures"] == {"en": 6, "zh": 6, "odd": 2, "empty": 0, "two": 12}[name]
    assert found["drawn"] == found["named"] == found["figures"]


def test_probe_sees_what_it_looks_for(tmp_path):
    """A page with a console error, a missing picture and a line too wide: the probe finds all three."""
    page = tmp_path / "bad.html"
    page.write_text(
        '<!DOCTYPE html><html><body><p style="width:900px" class="long">x</p><img src="nothing.png">'
        '<script>console.error("broken script")</script></body></html>',
        encoding="utf-8",
    )
    found = browser.probe(page, 390, tmp_path)
    assert found["scroll"] > found["inner"]
    assert "P.long" in found["wide"]
    assert found["images"] == [False]
    assert any("broken script" in line for line in found["console"])


def test_page_prints(pages, tmp_path):
    browser.chromium()
    pdf = browser.print_pdf(pages["en"] / "report.html", tmp_path).read_bytes()
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 3


def test_page_names_the_command_that_measures_its_result_again(pages):
    html = _html(pages["cpu"])
    assert f"assay reproduce {CPU.name}" in Page(html).text
    assert "/<wbr>" in html
