"""The expression language of claims: parsed here, never handed to Python. docs/claims.md is its reference.

    test    = "time(naive) / time(tiled) > 1 and bandwidth(big) >= 50%*12.8 GB/s"

Grammar, loosest first:  or | and | not | < <= > >= (chains) | + - | * / | sign | ** | number, name, call, ( )
An expression is checked for its names and units when the file is read, before anything is measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .claims_quantity import BYTES, FLOPS, PLAIN, TIME, UNITS, dimension_text, parse_unit, product

LONGEST, DEEPEST = 4000, 60
RATE = product(BYTES, TIME, -1)
FLOP_RATE = product(FLOPS, TIME, -1)
TRUTH, TEXT, CASE, SAME = "truth", "text", "case", "same"

# name: (kinds of the arguments, kind of the result); a dimension, CASE, TEXT, TRUTH, or SAME: any one dimension.
FUNCTIONS = {
    "time": ((CASE,), TIME),
    "item_time": ((CASE,), TIME),
    "bandwidth": ((CASE,), RATE),
    "flop_rate": ((CASE,), FLOP_RATE),
    "percentile": ((CASE, PLAIN), TIME),
    "series": ((CASE, TEXT), TIME),
    "series_percentile": ((CASE, TEXT, PLAIN), TIME),
    "observed": ((CASE, TEXT), PLAIN),
    "fraction": ((CASE,), PLAIN),
    "bytes": ((CASE,), BYTES),
    "flops": ((CASE,), FLOPS),
    "items": ((CASE,), PLAIN),
    "pcie_generation": ((CASE,), PLAIN),
    "pcie_width": ((CASE,), PLAIN),
    "speedup": ((CASE, CASE), PLAIN),
    "abs": ((SAME,), SAME),
    "floor": ((PLAIN,), PLAIN),
    "ceil": ((PLAIN,), PLAIN),
    "sqrt": ((PLAIN,), PLAIN),
    "exp": ((PLAIN,), PLAIN),
    "log": ((PLAIN,), PLAIN),
    "log2": ((PLAIN,), PLAIN),
    "min": (None, SAME),  # two or more of one dimension
    "max": (None, SAME),
    "within": ((SAME, SAME, PLAIN), TRUTH),
}
PERCENTILES = ("percentile", "series_percentile")
WORDS = ("and", "or", "not")
RESERVED = frozenset(FUNCTIONS) | frozenset(WORDS) | frozenset(UNITS)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNIT = "|".join(sorted((re.escape(u) for u in UNITS), key=len, reverse=True))
_PER = "|".join(sorted((u for u in UNITS if u != "%"), key=len, reverse=True))
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    rf"|(?P<number>(?:\d[\d_]*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)"
    rf"(?:(?:\ ?(?P<unit>{_UNIT}))?(?:/(?P<per>{_PER})(?![A-Za-z0-9_(]))?(?![A-Za-z0-9_.]))?"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<op>\*\*|<=|>=|==|!=|[-+*/<>(),])"
)


class ExpressionError(Exception):
    """What is wrong, and where: an offset into the expression's text."""

    def __init__(self, message: str, at: int):
        super().__init__(message)
        self.at = at


@dataclass(frozen=True)
class Node:
    """`form` is number, name, text, call, sign, arithmetic, compare, not or logic."""

    form: str
    at: int
    value: object = None  # number: (value, dimension); name, text: itself; call: name; the others: operator
    children: tuple = ()


@dataclass(frozen=True)
class Token:
    form: str
    at: int
    value: object


def _tokens(text: str) -> list:
    if len(text) > LONGEST:
        raise ExpressionError(f"longer than {LONGEST} characters", 0)
    out, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise ExpressionError(f"{text[at]!r} has no meaning here", at)
        if match["number"]:
            out.append(Token("number", at, _number(match, at)))
        elif not match["space"]:
            form = match.lastgroup
            value = match[form][1:-1] if form == "text" else match[form]
            form = "op" if form == "name" and value in WORDS else form
            out.append(Token(form, at, value))
        at = match.end()
    return [*out, Token("end", len(text), "the end")]


def _number(match, at: int) -> tuple:
    unit = f"{match['unit'] or ''}{'/' + match['per'] if match['per'] else ''}"
    value = float(match["number"].replace("_", ""))
    if not unit:
        return value, PLAIN
    if match["unit"]:
        scale = parse_unit(unit)
    else:  # 240/s
        scale = parse_unit(match["per"])
        scale = scale and (1 / scale[0], product(PLAIN, scale[1], -1))
    if scale is None:  # %/s
        raise ExpressionError(f"there is no unit {unit!r}", at)
    return value * scale[0], scale[1]


class _Parser:
    def __init__(self, text: str):
        self.tokens, self.index, self.depth = _tokens(text), 0, 0

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    def take(self, *operators) -> Token | None:
        token = self.next
        if token.form == "op" and token.value in operators:
            self.index += 1
            return token
        return None

    def need(self, operator: str) -> None:
        if not self.take(operator):
            raise ExpressionError(f"expected {operator!r} before {self.next.value!r}", self.next.at)

    def whole(self) -> Node:
        if self.next.form == "end":
            raise ExpressionError("the expression is empty", 0)
        node = self.logic()
        token = self.next
        if token.form == "name" and self.tokens[self.index - 1].form == "number":
            raise ExpressionError(f"there is no unit {token.value!r}: {', '.join(UNITS)}", token.at)
        if token.form != "end":
            what = "a second number" if token.form == "number" else repr(token.value)
            raise ExpressionError(f"{what} is not expected here", token.at)
        return node

    def logic(self, operators=("or", "and")) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(f"nested deeper than {DEEPEST} levels", self.next.at)
        below = (lambda: self.logic(operators[1:])) if len(operators) > 1 else self.negation
        node = below()
        while token := self.take(operators[0]):
            node = Node("logic", token.at, token.value, (node, below()))
        self.depth -= 1
        return node

    def negation(self) -> Node:
        token = self.take("not")
        if not token:
            return self.comparison()
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(f"nested deeper than {DEEPEST} levels", token.at)
        node = Node("not", token.at, "not", (self.negation(),))
        self.depth -= 1
        return node

    def comparison(self) -> Node:
        left, parts = self.sum(), []
        while token := self.take("<", "<=", ">", ">=", "==", "!="):
            if token.value in ("==", "!="):
                message = f"{token.value} is no test of measured figures: write within(a, b, 5%), or not within(...)"
                raise ExpressionError(message, token.at)
            right = self.sum()
            parts.append(Node("compare", token.at, token.value, (left, right)))
            left = right
        node = parts[0] if parts else left
        for part in parts[1:]:
            node = Node("logic", part.at, "and", (node, part))
        return node

    def sum(self) -> Node:
        node = self.term()
        while token := self.take("+", "-"):
            node = Node("arithmetic", token.at, token.value, (node, self.term()))
        return node

    def term(self) -> Node:
        node = self.sign()
        while token := self.take("*", "/"):
            node = Node("arithmetic", token.at, token.value, (node, self.sign()))
        return node

    def sign(self) -> Node:
        token = self.take("-", "+")
        if not token:
            return self.power()
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(f"nested deeper than {DEEPEST} levels", token.at)
        node = Node("sign", token.at, token.value, (self.sign(),))
        self.depth -= 1
        return node

    def power(self) -> Node:
        node = self.atom()
        token = self.take("**")
        return Node("arithmetic", token.at, "**", (node, self.sign())) if token else node

    def atom(self) -> Node:
        token = self.next
        self.index += 1
        if token.form in ("number", "text"):
            return Node(token.form, token.at, token.value)
        if token.form == "op" and token.value == "(":
            node = self.logic()
            self.need(")")
            return node
        if token.form != "name":
            raise ExpressionError(f"{token.value!r} is not expected here", token.at)
        if not self.take("("):
            return Node("name", token.at, token.value)
        if token.value not in FUNCTIONS:
            raise ExpressionError(f"there is no function {token.value!r}: {', '.join(FUNCTIONS)}", token.at)
        arguments = []
        while not self.take(")"):
            if arguments:
                self.need(",")
            arguments.append(self.logic())
        return Node("call", token.at, token.value, tuple(arguments))


def parse(text: str) -> Node:
    return _Parser(text).whole()


# ---- names and dimensions, checked before anything is measured ----


def kind_of(node: Node, names: dict):
    """TRUTH, TEXT, CASE or the dimension of a node. `names` gives CASE or PLAIN for each name that may be used."""
    check = {"name": _name_kind, "call": _call_kind, "arithmetic": _arithmetic_kind, "compare": _compare_kind}
    if node.form in check:
        return check[node.form](node, names)
    if node.form == "number":
        return node.value[1]
    if node.form == "text":
        return TEXT
    if node.form == "sign":
        return _number_kind(node.children[0], names)
    for child in node.children:  # not, logic
        if kind_of(child, names) != TRUTH:
            raise ExpressionError(f"{node.value!r} joins comparisons, not numbers", child.at)
    return TRUTH


def _name_kind(node: Node, names: dict):
    if node.value in names:
        return names[node.value]
    if node.value in UNITS:
        raise ExpressionError(f"the unit {node.value!r} has no number before it", node.at)
    known = ", ".join(names) or "none: give the claim a [claim.select] table"
    raise ExpressionError(f"there is no name {node.value!r}; names here: {known}", node.at)


def _number_kind(node: Node, names: dict) -> tuple:
    kind = kind_of(node, names)
    if isinstance(kind, tuple):
        return kind
    what = {CASE: "a case, use a figure of it: time(...)", TEXT: "text", TRUTH: "a comparison"}[kind]
    raise ExpressionError(f"a number is wanted here, this is {what}", node.at)


def _call_kind(node: Node, names: dict):
    wanted, result = FUNCTIONS[node.value]
    if wanted is None:
        if len(node.children) < 2:
            raise ExpressionError(f"{node.value}() takes two numbers or more", node.at)
        wanted = (SAME,) * len(node.children)
    if len(node.children) != len(wanted):
        raise ExpressionError(f"{node.value}() takes {len(wanted)} argument(s), not {len(node.children)}", node.at)
    same = None
    for child, want in zip(node.children, wanted, strict=True):
        if want in (CASE, TEXT):
            if kind_of(child, names) != want:
                what = "the name of a case" if want == CASE else 'a name in quotes, such as "first_launch"'
                raise ExpressionError(f"{node.value}() wants {what} here", child.at)
            continue
        kind = _number_kind(child, names)
        if want == SAME:
            if same is not None and kind != same:
                message = f"{node.value}() mixes {dimension_text(same)} and {dimension_text(kind)}"
                raise ExpressionError(message, child.at)
            same = kind
        elif kind != want:
            raise ExpressionError(f"{node.value}() wants a plain number, not {dimension_text(kind)}", child.at)
    percent = node.children[-1]
    if node.value in PERCENTILES and not (percent.form == "number" and 1 <= percent.value[0] < 100):
        raise ExpressionError(f"{node.value}() wants a number from 1 to below 100, such as 99", percent.at)
    return same if result == SAME else result


def _arithmetic_kind(node: Node, names: dict) -> tuple:
    left, right = (_number_kind(child, names) for child in node.children)
    if node.value in "+-":
        if left != right:
            message = f"{node.value} mixes {dimension_text(left)} and {dimension_text(right)}"
            raise ExpressionError(message, node.at)
        return left
    if node.value != "**":
        return product(left, right, 1 if node.value == "*" else -1)
    if any(right):
        raise ExpressionError(f"an exponent is a plain number, not {dimension_text(right)}", node.children[1].at)
    if not any(left):
        return PLAIN
    exponent = node.children[1]
    if exponent.form != "number" or exponent.value[0] not in (1.0, 2.0, 3.0):
        raise ExpressionError("a quantity with a unit can be raised to 1, 2 or 3 only", exponent.at)
    return tuple(d * int(exponent.value[0]) for d in left)


def _compare_kind(node: Node, names: dict):
    left, right = (_number_kind(child, names) for child in node.children)
    if left != right:
        message = f"{node.value} compares {dimension_text(left)} with {dimension_text(right)}"
        raise ExpressionError(message, node.at)
    return TRUTH


def walk(node: Node):
    yield node
    for child in node.children:
        yield from walk(child)


def cases_in(node: Node, names: dict) -> set:
    """Names of the cases that a node looks at."""
    return {n.value for n in walk(node) if n.form == "name" and names.get(n.value) == CASE}


def comparisons(node: Node) -> list:
    """The comparisons and within() calls, in the order in which they stand."""
    return [n for n in walk(node) if n.form == "compare" or n.form == "call" and n.value == "within"]
