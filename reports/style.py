"""Look of the plots: palette, fonts, ticks, and SVG made ready to stand inline in a page."""

from __future__ import annotations

import contextlib
import functools
import math
import re
import warnings
from html import escape
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib import font_manager, ticker

from .errors import EnvironmentProblem, visible
from .units import PLAIN, binary, scale, significant

# Colour-blind safe (after Okabe and Ito), each at least 4.5:1 on white; beside it the tone for a dark page.
SERIES = (
    ("#0067a5", "#5ab4f0"),
    ("#b84a00", "#ff9a52"),
    ("#007a5a", "#3cc9a0"),
    ("#a03b7a", "#eb9bcb"),
    ("#7a5f00", "#e3bd3a"),
    ("#4a4a9c", "#a9a9f5"),
    ("#8c2d2d", "#f08a8a"),
    ("#3d5a66", "#9fc0cf"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, MUTED, GRID, SURFACE = (
    ("#1b1f24", "#e8eaed"),
    ("#57606a", "#a8b0b9"),
    ("#d5d9de", "#3a4149"),
    ("#ffffff", "#171a1f"),
)
CEILING = ("#5c5c5c", "#b5b5b5")
TOKENS = {
    **{f"series-{i}": pair for i, pair in enumerate(SERIES)},
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "surface": SURFACE,
    "ceiling": CEILING,
}

CJK_FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK TC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "AR PL UMing CN",
    "AR PL UKai CN",
)
CJK_FILES = re.compile(r"NotoSans(CJK|SC)|SourceHanSans|wqy|DroidSansFallback|uming|ukai", re.IGNORECASE)
WIDE, NARROW = "wide", "narrow"
SIZES = {WIDE: 9.0, NARROW: 4.3}  # inches; a phone shows the narrow drawing at about its true size


def cjk_family() -> str | None:
    """An installed family with Chinese glyphs. Fonts newer than matplotlib's cache are found too."""
    known = {entry.name for entry in font_manager.fontManager.ttflist}
    for name in CJK_FAMILIES:
        if name in known:
            return name
    for path in sorted(font_manager.findSystemFonts()):
        if CJK_FILES.search(Path(path).name) and "Bold" not in path:
            with contextlib.suppress(RuntimeError, OSError):
                font_manager.fontManager.addfont(path)
                return font_manager.get_font(path).family_name
    return None


def families(lang: str) -> list:
    """Font families in the order that matplotlib tries them. Chinese without a font is the environment's fault."""
    cjk = cjk_family()
    if lang == "zh" and cjk is None:
        raise EnvironmentProblem("no font with Chinese glyphs: run `apt-get install fonts-noto-cjk`, or use --lang en")
    if lang == "zh":
        return [cjk, "DejaVu Sans"]
    return ["DejaVu Sans"] + ([cjk] if cjk else [])


@contextlib.contextmanager
def plotting(lang: str):
    """Settings for all plots of one report. A missing glyph is an error: a box on a plot says nothing."""
    settings = {
        "font.family": families(lang),
        "font.size": 9.5,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": MUTED[0],
        "axes.labelcolor": INK[0],
        "axes.titlecolor": INK[0],
        "text.color": INK[0],
        "xtick.color": MUTED[0],
        "ytick.color": MUTED[0],
        "xtick.labelcolor": INK[0],
        "ytick.labelcolor": INK[0],
        "grid.color": GRID[0],
        "grid.linewidth": 0.6,
        "axes.grid": True,
        "axes.axisbelow": True,
        "lines.linewidth": 1.6,
        "lines.markersize": 5,
        "figure.facecolor": SURFACE[0],
        "axes.facecolor": SURFACE[0],
        "legend.frameon": False,
        "legend.fontsize": 9,
        "svg.fonttype": "path",
        "svg.hashsalt": "assay",
        "text.parse_math": False,
        "axes.unicode_minus": False,
        "xtick.minor.visible": False,
        "ytick.minor.visible": False,
    }
    with plt.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*missing from.*font.*")
        yield
        plt.close("all")


@functools.cache
def _characters(family: str) -> dict:
    """Code points that a family has glyphs for; read once, a CJK font has some 30,000."""
    return font_manager.get_font(font_manager.findfont(family)).get_charmap()


def drawable(text: str) -> str:
    """Text from the data with every character that no chosen font has replaced by `?`."""
    maps = [_characters(family) for family in plt.rcParams["font.family"]]
    return "".join(c if any(ord(c) in m for m in maps) else "?" for c in visible(text))


def _count(value: float) -> str:
    """Powers of two beyond 65536 in short: `256 Ki`."""
    for step, name in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if value >= max(step, 1 << 17) and value % step == 0:
            return f"{value / step:g} {name}"
    return f"{value:g}"


def doubling_ticks(axis, low: float, high: float, as_bytes: bool, narrow: bool) -> None:
    """Ticks at powers of two: 1, 2, 4 KiB; at every second, third or fourth where all would touch."""
    first, last = math.floor(math.log2(low) + 1e-9), math.ceil(math.log2(high) - 1e-9)
    most = (5 if as_bytes else 7) - narrow
    step = max(1, math.ceil((last - first + 1) / most))
    axis.set_major_locator(ticker.FixedLocator([2.0**e for e in range(first, last + 1, step)]))
    axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: binary(v) if as_bytes else _count(v)))
    axis.set_minor_locator(ticker.NullLocator())


def with_unit(unit: str):
    """A tick's text: the value with its unit; a unit in words stands with the axis, not at each tick."""

    def show(value, _):
        divisor, text = (1.0, "") if unit in PLAIN else scale(value * 1.0000001, unit)
        return f"{float(significant(value / divisor, 3)):g} {text}".rstrip()

    return show


def decade_ticks(axis, unit: str, low: float, high: float, sparse: bool = False) -> None:
    """Ticks at decades, or at 1-2-5 where there are few decades, each with its unit; `sparse` where there is room for
    four texts in a row."""
    decades = math.log10(max(high / low, 1.0001))
    if decades < (1.2 if sparse else 3):
        axis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5), numticks=20))
    elif sparse:
        step = max(1, math.ceil(decades / 4))
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        axis.set_major_locator(ticker.FixedLocator([10.0**e for e in range(first, last + 1, step)]))
    else:
        axis.set_major_locator(ticker.LogLocator(base=10, numticks=20))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(with_unit(unit)))


_ID = re.compile(r'\bid="([^"]+)"')
_REF = re.compile(r'(xlink:href="#|url\(#)([^")]+)')


def inline_svg(svg: str, prefix: str, title: str, description: str) -> str:
    """One <svg> element for a page: no prologue, no metadata, ids that no other plot has, colours as variables with
    their light value as fall-back, a title and a description for screen readers."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _ID.sub(lambda m: f'id="{prefix}-{m[1]}"', svg)
    svg = _REF.sub(lambda m: f"{m[1]}{prefix}-{m[2]}", svg)
    for name, (light, _) in TOKENS.items():
        svg = svg.replace(f": {light}", f": var(--{name}, {light})")
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    head = f'role="img" aria-labelledby="{prefix}-title {prefix}-desc"'
    svg = svg.replace("<svg", f"<svg {head}", 1)
    return _with_title(svg, prefix, title, description)


def _with_title(svg: str, prefix: str, title: str, description: str) -> str:
    end = svg.index(">", svg.index("<svg")) + 1
    words = (
        f'<title id="{prefix}-title">{escape(visible(title))}</title>'
        f'<desc id="{prefix}-desc">{escape(visible(description))}</desc>'
    )
    return svg[:end] + words + svg[end:]


def standalone_svg(svg: str, title: str, description: str) -> str:
    """The same for a file of its own."""
    return _with_title(re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL), "plot", title, description)
