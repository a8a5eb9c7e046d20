"""Reads a claims file (TOML) and checks all that can be checked without a result. Every fault names file and line."""

from __future__ import annotations

import itertools
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .claims_language import (
    CASE,
    NAME,
    PLAIN,
    RESERVED,
    TRUTH,
    ExpressionError,
    Node,
    cases_in,
    comparisons,
    kind_of,
    parse,
    walk,
)
from .claims_measured import FIELDS
from .claims_quantity import dimension_text, parse_unit
from .errors import InputProblem
from .probes import PROBES

SOURCES = ("article", "talk", "paper", "datasheet", "documentation", "product", "own")
RULES = {
    "direction": "which side is better, by measured figures on both sides",
    "ratio": "a ratio of measured figures, on this machine",
    "level": "an absolute level, agreed for this machine",
    "arithmetic": "plain arithmetic with the claimed numbers",
    "behaviour": "what is seen when it is done: by a probe, or by a case that keeps what it saw",
    "none": "cannot be tried here",
}
WORDS = {  # key: type, and whether every claim has it
    "id": (str, True),
    "claim": (str, True),
    "claimed": (str, True),
    "source": (str, True),
    "rule": (str, True),
    "setting": (str, False),
    "suite": ((str, list), False),
    "test": (str, False),
    "shown": (str, False),
    "unit": (str, False),
    "note": (str, False),
    "probe": (str, False),
    "untestable": (str, False),
    "newer": (bool, False),
    "select": (dict, False),
    "each": (dict, False),
}
MOST_INSTANCES = 200
ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_HEADER = re.compile(r"^\s*\[(\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"^\s*([A-Za-z0-9_\-\"']+(?:\s*\.\s*[A-Za-z0-9_\-\"']+)*)\s*=\s*(.*)$")


@dataclass(frozen=True)
class Expression:
    text: str
    node: Node
    line: int  # of its first character

    def line_at(self, at: int) -> int:
        return self.line + self.text.count("\n", 0, at)


@dataclass(frozen=True)
class Claim:
    id: str
    claim: str
    claimed: str
    source: str
    rule: str
    setting: str = ""
    suites: tuple = ()
    test: Expression | None = None
    shown: Expression | None = None
    unit: str | None = None
    note: str = ""
    probe: str | None = None
    untestable: str | None = None
    newer: bool = False  # a result may come from a command that has not all of it yet
    select: dict = field(default_factory=dict)  # name to selection; its values may be "$variable"
    each: dict = field(default_factory=dict)  # variable to its values
    lines: dict = field(default_factory=dict)  # dotted key to line

    def line(self, *keys) -> int:
        """Line of a key, or of the nearest thing around it that has one."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return self.lines[()]

    def instances(self) -> list:
        """Every combination of the `each` values: [{}] where there are none."""
        return [dict(zip(self.each, row, strict=True)) for row in itertools.product(*self.each.values())]

    def selections(self, variables: dict) -> dict:
        return {
            name: {k: variables[v[1:]] if _is_variable(v) else v for k, v in selection.items()}
            for name, selection in self.select.items()
        }


def _is_variable(value) -> bool:
    return isinstance(value, str) and value.startswith("$")


# ---- lines: tomllib does not tell them ----


def line_map(text: str) -> list:
    """For each [[claim]] a map from key path to line; () is its header. Text inside long strings is passed over."""
    claims, prefix, inside = [], None, None
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            if inside in line:
                inside = None
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header and not key:
            path = _path(header[2])
            if header[1] and path == ("claim",):
                claims.append({(): number})
                prefix = ()
            else:
                prefix = path[1:] if path[0] == "claim" and claims else None
                if prefix is not None:
                    claims[-1].setdefault(prefix, number)
        elif key:
            if prefix is not None:
                _add_key(claims[-1], prefix + _path(key[1]), number, key[2])
            for quotes in ('"""', "'''"):
                if key[2].startswith(quotes) and quotes not in key[2][3:]:
                    inside = quotes
    return claims


def _path(text: str) -> tuple:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


def _add_key(lines: dict, path: tuple, number: int, value: str) -> None:
    lines[path] = number
    if value.strip() in ('"""', "'''"):
        lines[path, "text"] = number + 1  # a line break right after the quotes is no part of the text
    if value.startswith("{"):
        for name in re.findall(r"([A-Za-z0-9_-]+)\s*=", value):
            lines.setdefault((*path, name), number)


# ---- reading ----


def load_claims(path) -> list:
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise InputProblem(f"{path}: cannot be read ({error.strerror}); name an existing claims file") from None
    except UnicodeDecodeError:
        raise InputProblem(f"{path}: not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise InputProblem(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise InputProblem(f"{path}: not a claims file: nested too deeply") from None
    for key in document:
        if key not in ("title", "claim"):
            raise InputProblem(f"{path}: there is no key {key!r} at the top: title, [[claim]]")
    records = document.get("claim")
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) for r in records):
        raise InputProblem(f"{path}: holds no [[claim]]; docs/claims.md shows one")
    lines = line_map(text)
    if len(lines) != len(records):  # claims written as one array of inline tables
        lines = [{(): 1} for _ in records]
    out, seen = [], {}
    for record, where in zip(records, lines, strict=True):
        claim = _Reader(path, record, where).claim()
        if claim.id in seen:
            raise InputProblem(f"{path}:{claim.line('id')}: the id {claim.id!r} stands in line {seen[claim.id]} too")
        seen[claim.id] = claim.line("id")
        out.append(claim)
    return out


class _Reader:
    def __init__(self, path: Path, record: dict, lines: dict):
        self.path, self.record, self.lines = path, record, lines

    def fail(self, message: str, *keys, line: int | None = None):
        where = Claim("", "", "", "", "", lines=self.lines).line(*keys) if line is None else line
        name = self.record.get("id")
        raise InputProblem(f"{self.path}:{where}: {f'claim {name!r}: ' if isinstance(name, str) else ''}{message}")

    def claim(self) -> Claim:
        r = self.record
        for key, value in r.items():
            if key not in WORDS:
                self.fail(f"there is no key {key!r}: {', '.join(WORDS)}", key)
            if not isinstance(value, WORDS[key][0]):
                self.fail(f"{key} has the wrong type ({type(value).__name__})", key)
        for key, (_, needed) in WORDS.items():
            if needed and (key not in r or not r[key].strip()):
                self.fail(f"{key} is missing", key)
        if not ID.fullmatch(r["id"]):
            self.fail("an id is lower-case letters, digits, - . and _", "id")
        if r["source"] not in SOURCES:
            self.fail(f"source is {r['source']!r}, not one of {', '.join(SOURCES)}", "source")
        if r["rule"] not in RULES:
            self.fail(f"rule is {r['rule']!r}, not one of {', '.join(RULES)}", "rule")
        suites = r.get("suite", ())
        suites = (suites,) if isinstance(suites, str) else tuple(suites)
        if not all(isinstance(s, str) and s for s in suites):
            self.fail("suite is a name or a list of names", "suite")
        if "unit" in r and parse_unit(r["unit"]) is None:
            self.fail(f"there is no unit {r['unit']!r}", "unit")
        each, select = self._each(), self._select()
        names = dict.fromkeys(select, CASE) | {name: PLAIN for name, row in each.items() if _numbers(row)}
        test, shown = self._expression("test", names), self._expression("shown", names)
        self._check_rule(test, names)
        self._check_shown(test, shown, names)
        used = {n.value for e in (test, shown) if e for n in walk(e.node) if n.form == "name"}
        for name in select:
            if name not in used:
                self.fail(f"{name} is selected and never used", "select", name)
        texts = {k: " ".join(r.get(k, "").split()) for k in ("claim", "claimed", "setting", "note")}
        return Claim(
            id=r["id"],
            source=r["source"],
            rule=r["rule"],
            suites=suites or tuple(dict.fromkeys(s["suite"] for s in select.values())),
            test=test,
            shown=shown,
            unit=r.get("unit"),
            probe=r.get("probe"),
            untestable=" ".join(r["untestable"].split()) if "untestable" in r else None,
            newer=r.get("newer", False),
            select=select,
            each=each,
            lines=self.lines,
            **texts,
        )

    def _check_name(self, name: str, *keys) -> None:
        if not NAME.fullmatch(name) or name in RESERVED:
            what = "a unit or function of the language" if name in RESERVED else "no name (letters, digits, _)"
            self.fail(f"{name!r} is {what}: choose another name", *keys)

    def _each(self) -> dict:
        each, count = self.record.get("each", {}), 1
        for name, values in each.items():
            self._check_name(name, "each", name)
            good = isinstance(values, list) and values and len(set(map(str, values))) == len(values)
            if not good or not (_numbers(values) or all(isinstance(v, str) for v in values)):
                self.fail(f"each.{name} is a list of different numbers, or of different texts", "each", name)
            count *= len(values)
        if count > MOST_INSTANCES:
            self.fail(f"{count} combinations; at most {MOST_INSTANCES}", "each", next(iter(each)))
        return each

    def _select(self) -> dict:
        select, each = self.record.get("select", {}), self.record.get("each", {})
        for name, selection in select.items():
            self._check_name(name, "select", name)
            if name in each:
                self.fail(f"{name!r} stands in select and in each", "select", name)
            if not isinstance(selection, dict):
                self.fail(f"select.{name} is no table of fields", "select", name)
            for key in FIELDS:
                if not isinstance(selection.get(key), str):
                    self.fail(f"select.{name} needs {key}, as text", "select", name, key)
            for key, value in selection.items():
                if isinstance(value, bool) or not isinstance(value, (int, str)):
                    self.fail(f"select.{name}.{key} is a whole number or text", "select", name, key)
                if _is_variable(value) and value[1:] not in each:
                    self.fail(f"select.{name}.{key}: there is no each.{value[1:]}", "select", name, key)
        used = {v[1:] for s in select.values() for v in s.values() if _is_variable(v)}
        words = " ".join(self.record.get(k, "") for k in ("test", "shown"))
        for name in each:
            if name not in used and not re.search(rf"\b{name}\b", words):
                self.fail(f"each.{name} is never used", "each", name)
        return select

    def _expression(self, key: str, names: dict) -> Expression | None:
        text = self.record.get(key)
        if text is None:
            return None
        start = self.lines.get(((key,), "text"), self.lines.get((key,), self.lines[()]))
        try:
            node = parse(text)
            kind = kind_of(node, names)
        except ExpressionError as error:
            self.fail(f"{key}: {error}", line=start + text.count("\n", 0, error.at))
        expression = Expression(text, node, start)
        if key == "test" and kind != TRUTH:
            self.fail("test: is a number; it must compare: ... > 1", line=start)
        if key == "shown" and not isinstance(kind, tuple):
            self.fail("shown: is no number", line=start)
        return expression

    def _check_rule(self, test: Expression | None, names: dict) -> None:
        rule, r = self.record["rule"], self.record
        wanted = {"none": "untestable"}.get(rule, "probe" if rule == "behaviour" and "test" not in r else "test")
        if wanted == "test" and "test" not in r and "untestable" in r:
            return  # it will be tried by this rule once its suite is there
        given = [key for key in ("test", "probe", "untestable") if key in r]
        if rule == "behaviour" and given == ["untestable"]:
            return
        if given != [wanted]:
            self.fail(f"rule {rule!r} needs {wanted} alone, not {' and '.join(given) or 'nothing'}", "rule")
        if "probe" in given and r["probe"] not in PROBES:
            self.fail(f"there is no probe {r['probe']!r}: {', '.join(PROBES)}", "probe")
        if test is None:
            return
        measured = cases_in(test.node, names)
        if rule == "arithmetic" and measured:
            self.fail("rule 'arithmetic' looks at no case", "rule")
        if rule != "arithmetic" and not measured:
            self.fail(f"rule {rule!r} looks at no case: use rule 'arithmetic'", "rule")
        if rule in ("direction", "ratio", "behaviour"):
            self._no_absolute(test, names)

    def _no_absolute(self, test: Expression, names: dict) -> None:
        """A figure of other hardware is no yardstick: each comparison is of plain numbers, or has a measured side
        on both sides."""
        for node in comparisons(test.node):
            sides = node.children[:2]
            kind = kind_of(sides[0], names)
            if any(kind) and not all(cases_in(side, names) for side in sides):
                message = (
                    f"test: rule {self.record['rule']!r} compares ratios, not an absolute {dimension_text(kind)}; "
                    "a level agreed for this machine has rule 'level'"
                )
                self.fail(message, line=test.line_at(node.at))

    def _check_shown(self, test: Expression | None, shown: Expression | None, names: dict) -> None:
        if test is None and (shown or "unit" in self.record):
            self.fail("shown and unit go with test", "shown" if shown else "unit")
        if "unit" not in self.record:
            return
        node = shown.node if shown else comparisons(test.node)[0].children[0]
        kind = kind_of(node, names)
        if parse_unit(self.record["unit"])[1] != kind:
            self.fail(f"unit: the figure is a {dimension_text(kind)}, not {self.record['unit']}", "unit")


def _numbers(values) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
