"""Builds the page: one self-contained report.html and the same plots as PNG and SVG files beside it."""

from __future__ import annotations

from pathlib import Path

import jinja2

from . import cases_view, compare_view, inference_view, labels, machine_view, parts_view, plots, prices, style, summary
from .errors import EnvironmentProblem, InputProblem, visible
from .i18n import Texts
from .load import Result, load

TEMPLATES = Path(__file__).parent / "templates"


def write_report(paths: list, output: str, lang: str, price_file: str | None = None) -> Path:
    """Reads every file before the first byte is written, so that a broken one costs no half report."""
    results = [load(path) for path in paths]
    entries = None if price_file is None else prices.read(price_file)
    if len({r.path.resolve() for r in results}) != len(results):
        raise InputProblem("one file is named twice: name each result once")
    folder = Path(output)
    try:
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        page = folder / "report.html"
        page.touch()
    except OSError as error:
        raise EnvironmentProblem(f"{folder}: cannot be written ({error.strerror}); name another -o DIR") from None
    texts = Texts(lang)
    with style.plotting(lang):
        views = [_view(r, index, len(results), folder / "plots", texts) for index, r in enumerate(results)]
    html = (
        _environment(texts)
        .get_template("report.html.j2")
        .render(
            results=views,
            comparison=compare_view.rows(results, texts) if len(results) > 1 else None,
            left_out=compare_view.left_out(results) if len(results) > 1 else 0,
            inference=inference_view.table(results, entries, texts),
            tokens=style.TOKENS,
            css=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        )
    )
    try:
        page.write_text(html, encoding="utf-8")
    except OSError as error:
        raise EnvironmentProblem(f"{page}: cannot be written ({error.strerror}); name another -o DIR") from None
    return page


def _environment(texts: Texts) -> jinja2.Environment:
    """Everything that is printed is made visible, then escaped; only our own SVG and CSS are marked safe."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: (
            value if hasattr(value, "__html__") else visible(value) if isinstance(value, str) else value
        ),
    )
    environment.globals.update(t=texts, lang=texts.html_lang)
    return environment


def _view(result: Result, index: int, count: int, folder: Path, t) -> dict:
    """All that the template prints of one result."""
    prefix = f"r{index + 1}-" if count > 1 else ""
    best = summary.best_cases(result, t)
    return {
        "anchor": f"r{index + 1}",
        "letter": labels.letter(index) if count > 1 else "",
        "file": result.path.name,
        "machine": labels.machine_name(result),
        "sentence": summary.machine_sentence(result, t),
        "best": best,
        "counts": summary.counts(result),
        "warnings": summary.warnings(result, t),
        "card": machine_view.card(result, t),
        "devices": [machine_view.device_card(d, t) for d in result.context["devices"] if d["kind"] != "cpu"],
        "absent": result.context["absent"],
        "plots": plots.draw_all(result, folder, t, prefix),
        "ceilings": [cases_view.ceiling(c, t) for c in result.ceilings],
        "advice": cases_view.advice(result),
        "suites": cases_view.suites(result, t),
        "breakdowns": parts_view.breakdowns(result, t),
        "provenance": machine_view.provenance(result, t),
        "command": machine_view.command(result),
        "context": result.context,
        "plan": result.plan,
    }
