"""Evaluates a parsed expression over one result (or over none, for plain arithmetic)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .claims_language import ExpressionError, Node
from .claims_measured import Untestable
from .claims_quantity import PLAIN, Quantity

HOLDS, FAILS, INCONCLUSIVE, UNTESTABLE = "holds", "fails", "inconclusive", "untestable"
ROUNDING = 1e-12  # relative: 1.1 * 3 <= 3.3 must hold


@dataclass(frozen=True)
class Trial:
    """One comparison as it came out. `ratio`: left over right with its interval, where both are positive; else the
    difference, tried against 0."""

    at: int
    operator: str
    left: Quantity | None
    right: Quantity | None
    verdict: str
    reason: str | None = None
    tolerance: float | None = None


@dataclass
class Evaluation:
    """`cases`: name to Case. `variables`: name to number. `figures` is None for arithmetic."""

    cases: dict
    variables: dict
    figures: object
    confidence: float
    trials: list = field(default_factory=list)

    # ---- truth: Kleene's logic with a fourth value ----

    def truth(self, node: Node) -> str:
        if node.form == "logic":
            left, right = self.truth(node.children[0]), self.truth(node.children[1])
            return joined([left, right], node.value)
        if node.form == "not":
            inner = self.truth(node.children[0])
            return {HOLDS: FAILS, FAILS: HOLDS}.get(inner, inner)
        trial = self._trial(node)
        self.trials.append(trial)
        return trial.verdict

    def _trial(self, node: Node) -> Trial:
        operator = "within" if node.form == "call" else node.value
        try:
            values = [self.quantity(child) for child in node.children]
        except Untestable as missing:
            return Trial(node.at, operator, None, None, UNTESTABLE, str(missing))
        left, right = values[:2]
        if operator == "within":
            return self._within(node, left, right, values[2].value)
        verdict = self.compare(left, operator, right)
        reason = None
        if verdict == INCONCLUSIVE:
            known = _gap(left, right)[0].half_width(self.confidence) is not None
            reason = "the interval contains the threshold" if known else "a figure has no interval"
        return Trial(node.at, operator, left, right, verdict, reason)

    def _within(self, node: Node, left: Quantity, right: Quantity, tolerance: float) -> Trial:
        if tolerance < 0 or left.value <= 0 or right.value <= 0:
            raise ExpressionError("within(a, b, tolerance) compares positive numbers within a share of b", node.at)
        above = self.compare(left, ">=", right.times(Quantity(1 - tolerance)))
        below = self.compare(left, "<=", right.times(Quantity(1 + tolerance)))
        verdict = joined([above, below], "and")
        reason = "the interval contains a bound" if verdict == INCONCLUSIVE else None
        return Trial(node.at, "within", left, right, verdict, reason, tolerance)

    def compare(self, left: Quantity, operator: str, right: Quantity) -> str:
        gap, neutral = _gap(left, right)
        low, high = gap.interval(self.confidence)
        if low is None:
            return INCONCLUSIVE
        slack = ROUNDING * (1 if neutral else max(abs(left.value), abs(right.value)))
        if operator in ("<", "<="):
            low, high, neutral = -high, -low, -neutral
        if operator in (">", "<"):
            return HOLDS if low > neutral + slack else FAILS if high <= neutral + slack else INCONCLUSIVE
        return HOLDS if low >= neutral - slack else FAILS if high < neutral - slack else INCONCLUSIVE

    # ---- numbers ----

    def quantity(self, node: Node) -> Quantity:
        value = self._quantity(node)
        if not math.isfinite(value.value):
            raise ExpressionError("the number is too large", node.at)
        return value

    def _quantity(self, node: Node) -> Quantity:
        if node.form == "number":
            return Quantity(*node.value)
        if node.form == "name":
            return Quantity(float(self.variables[node.value]))
        if node.form == "sign":
            inner = self.quantity(node.children[0])
            return inner if node.value == "+" else inner.times(Quantity(-1.0))
        try:
            return self._call(node) if node.form == "call" else self._arithmetic(node)
        except (OverflowError, ValueError):
            raise ExpressionError(f"{node.value} has no result for these numbers", node.at) from None

    def _arithmetic(self, node: Node) -> Quantity:
        left, right = (self.quantity(child) for child in node.children)
        if node.value in "+-":
            return left.plus(right, 1 if node.value == "+" else -1)
        if node.value == "*":
            return left.times(right)
        if node.value == "/":
            if right.value == 0:
                if right.exact:
                    raise ExpressionError("division by zero", node.at)
                raise Untestable("the figure to divide by is 0")
            return left.over(right)
        if not right.exact:
            raise ExpressionError("an exponent is a number or a figure without error", node.children[1].at)
        if left.value == 0 and right.value < 0:
            raise ExpressionError("division by zero", node.at)
        if left.value < 0 and right.value != int(right.value):
            raise ExpressionError("a negative number has no such power", node.at)
        return left.power(right.value)

    def _call(self, node: Node) -> Quantity:
        name = node.value
        if name in ("min", "max"):
            pick = min if name == "min" else max
            return pick((self.quantity(child) for child in node.children), key=lambda q: q.value)
        if name in PURE:
            inner = self.quantity(node.children[0])
            if name in ("floor", "ceil") and not inner.exact:
                raise ExpressionError(f"{name}() of a measured figure has no interval", node.at)
            if name in ("log", "log2") and inner.value <= 0 or name == "sqrt" and inner.value < 0:
                raise ExpressionError(f"{name}() wants a positive number", node.at)
            value, slope = PURE[name](inner.value)
            return inner.mapped(value, slope, inner.dimension if name == "abs" else PLAIN)
        arguments = []
        for child in node.children:
            if child.form == "name" and child.value in self.cases:
                case = self.cases[child.value]
                if isinstance(case, Untestable):
                    raise case
                arguments.append(case)
            else:
                arguments.append(child.value if child.form == "text" else self.quantity(child))
        return getattr(self.figures, name)(*arguments)


# value and derivative
PURE = {
    "abs": lambda x: (abs(x), math.copysign(1.0, x)),
    "floor": lambda x: (float(math.floor(x)), 0.0),
    "ceil": lambda x: (float(math.ceil(x)), 0.0),
    "sqrt": lambda x: (math.sqrt(x), 0.5 / math.sqrt(x) if x > 0 else 0.0),
    "exp": lambda x: (math.exp(x), math.exp(x)),
    "log": lambda x: (math.log(x), 1 / x),
    "log2": lambda x: (math.log2(x), 1 / (x * math.log(2))),
}


def _gap(left: Quantity, right: Quantity) -> tuple:
    """What is tried, and the value that parts holding from failing: the ratio and 1 for positive numbers, so that
    errors are those of logarithms; else the difference and 0."""
    if left.value > 0 and right.value > 0:
        return left.over(right), 1.0
    return left.plus(right, -1), 0.0


def joined(verdicts: list, how: str = "and") -> str:
    """`and`: one that fails decides; `or`: one that holds decides. Then what is missing, then what is unclear."""
    decisive, rest = (FAILS, HOLDS) if how == "and" else (HOLDS, FAILS)
    return next((v for v in (decisive, UNTESTABLE, INCONCLUSIVE) if v in verdicts), rest)
