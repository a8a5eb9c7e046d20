"""Tables for a terminal and for Markdown, whatever the names in them hold."""

from __future__ import annotations

import unicodedata

from .errors import visible


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text if not unicodedata.combining(c))


def aligned(head: tuple, rows: list, right: set) -> list:
    """Aligned lines; the columns of numbers to the right."""
    lines = [head, *rows]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(head))]
    out = []
    for line in lines:
        cells = []
        for i, text in enumerate(line):
            pad = " " * (widths[i] - _width(text))
            cells.append(pad + text if i in right else text + pad)
        out.append("  ".join(cells).rstrip())
    return out


# As entities these can open no table cell, link, code, emphasis, HTML or mention.
_MARKUP = {c: f"&#{ord(c)};" for c in "&<>\"'`*_[](){}\\|~!#@$^+"}


def markdown_text(value: str, code: bool = False) -> str:
    safe = "".join(_MARKUP.get(c, c) for c in visible(value))
    return f"<code>{safe}</code>" if code and safe else safe


def markdown_table(head: tuple, rows: list, right: set, code: int) -> list:
    out = ["| " + " | ".join(h or " " for h in head) + " |"]
    out.append("|" + "|".join(" ---: " if i in right else " --- " for i in range(len(head))) + "|")
    out += ["| " + " | ".join(markdown_text(c, i == code) for i, c in enumerate(row)) + " |" for row in rows]
    return out
