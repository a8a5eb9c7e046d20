"""The two ways to fail, by who must act, and text made safe to print."""

from __future__ import annotations


class InputProblem(Exception):
    """The user must change the command or the file (exit 2)."""


class EnvironmentProblem(Exception):
    """The machine cannot do what was asked (exit 3)."""


def visible(text: str) -> str:
    """Control characters, lone surrogates and bidirectional overrides as escapes, so that no name can move a
    terminal's cursor, break a line or reorder the text around it."""
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    out = []
    for char in text:
        code = ord(char)
        hidden = code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000
        hidden = hidden or code in (0x2028, 0x2029, 0xFFFE, 0xFFFF)
        hidden = hidden or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
        out.append((f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}") if hidden else char)
    return "".join(out)


def one_line(problem: object) -> str:
    return visible(str(problem))
