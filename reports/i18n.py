"""Texts by key from locale/LANG.json. A missing key is our bug and raises; the tests hold the files equal."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
HTML_LANG = {"en": "en", "zh": "zh-Hans"}


@cache
def catalogue(lang: str) -> dict:
    path = Path(__file__).parent / "locale" / f"{lang}.json"
    return json.loads(path.read_text(encoding="utf-8"))


class Texts:
    """t("key", name=value): the text in one language."""

    def __init__(self, lang: str):
        self.lang = lang
        self.html_lang = HTML_LANG[lang]
        self._texts = catalogue(lang)

    def __call__(self, key: str, **values) -> str:
        return self._texts[key].format(**values)

    def or_raw(self, prefix: str, name: str) -> str:
        """The translation of a name that the data may hold, else the name as it stands (outside suites)."""
        return self._texts.get(f"{prefix}.{name}", name)
