"""The expression language: precedence, units, names with their lines, intervals against closed forms."""

from __future__ import annotations

import math
import random
import re

import pytest
from scipy import stats as scipy_stats

from reports.claims_evaluate import Evaluation, joined
from reports.claims_language import CASE, ExpressionError, kind_of, parse
from reports.claims_quantity import PLAIN, TIME, Figure, Quantity, shown

from conftest import ROOT

CONFIDENCE = 0.95


class Fake:
    """Figures without a result: name to (value in s, standard error of its logarithm, degrees of freedom)."""

    def __init__(self, **times):
        self.times = {n: Quantity(v, TIME, {Figure((n,), e, df): v}) for n, (v, e, df) in times.items()}

    def time(self, name):
        return self.times[name]

    def bandwidth(self, name):
        return Quantity(1e9).times(Quantity(1.0, (0, 1, 0, 0, 0))).over(self.times[name])


def evaluate(text, fake=None, **variables):
    """A Quantity, or a verdict; names are checked first, as in a file."""
    node = parse(text)
    names = dict.fromkeys(fake.times, CASE) if fake else {}
    kind = kind_of(node, names | dict.fromkeys(variables, PLAIN))
    evaluation = Evaluation({n: n for n in names}, variables, fake, CONFIDENCE)
    return evaluation.quantity(node) if isinstance(kind, tuple) else evaluation.truth(node)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("2 - 3 - 4", -5),
        ("24 / 4 / 2", 3),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("2 * -3", -6),
        ("- - 3", 3),
        ("1e3 + .5 + 1_000", 2000.5),
        ("50% * 8", 4),
        ("max(1, 2, 3) - min(4, 5)", -1),
        ("abs(-3) + sqrt(16) + log2(8) + exp(0) + log(1)", 11),
        ("floor(2.7) + ceil(2.2)", 5),
        ("2 kB / 1 B", 2000),
        ("1 KiB / 1 B", 1024),
        ("8 bit / 1 B", 1),
        ("1 h / 1 min", 60),
        ("1 kWh / 1 J", 3.6e6),
        ("100 W * 10 s / 1 J", 1000),
        ("16 GB/s / (2 GB / 1 s)", 8),
        ("16 GB / 2 GB/s / 1 s", 8),
        ("10/s * 2 s", 20),
        ("10 / 2", 5),
    ],
)
def test_value(text, value):
    quantity = evaluate(text)
    assert quantity.value == pytest.approx(value, rel=1e-12)
    assert quantity.dimension == PLAIN
    assert quantity.exact


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1 < 2", "holds"),
        ("2 < 2", "fails"),
        ("2 <= 2", "holds"),
        ("1.1 * 3 <= 3.3", "holds"),
        ("-1 < 0", "holds"),
        ("0 >= 0", "holds"),
        ("0 > 0", "fails"),
        ("1 < 2 < 3", "holds"),
        ("1 < 3 < 2", "fails"),
        ("1 < 2 and 2 < 1", "fails"),
        ("1 < 2 or 2 < 1 and 2 < 1", "holds"),
        ("(1 < 2 or 2 < 1) and 2 < 1", "fails"),
        ("not 1 < 2", "fails"),
        ("not not 1 < 2 and 1 < 2", "holds"),
        ("within(95, 100, 5%)", "holds"),
        ("within(94.9, 100, 5%)", "fails"),
        ("within(105, 100, 5%)", "holds"),
        ("within(106 ms, 0.1 s, 5%)", "fails"),
    ],
)
def test_verdict(text, verdict):
    assert evaluate(text) == verdict


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("", "empty", 0),
        ("1 +", "'the end'", 3),
        ("(1", r"expected '\)'", 2),
        ("1 2", "second number", 2),
        ("5 parsecs", "no unit 'parsecs'", 2),
        ("1 ms + 1 B", "mixes s and B", 5),
        ("1 ms < 3", "compares s with plain number", 5),
        ("2 ** 1 ms", "exponent is a plain number", 5),
        ("(2 ms) ** 0.5", "1, 2 or 3", 10),
        ("1 == 1", "within", 2),
        ("1 / 0", "division by zero", 2),
        ("1 / (2 - 2)", "division by zero", 2),
        ("0 ** -1", "division by zero", 2),
        ("10 ** 400", "no result", 3),
        ("1e308 * 10", "too large", 6),
        ("log(0)", "positive", 0),
        ("sqrt(-1)", "positive", 0),
        ("(-8) ** 0.5", "no such power", 5),
        ("nothing > 1", "no name 'nothing'", 0),
        ("ms > 1", "no number before it", 0),
        ("1 < 2 and 3", "joins comparisons", 10),
        ("(1 < 2) + 1", "this is a comparison", 3),
        ("time(3)", "name of a case", 5),
        ("min(1)", "two numbers", 0),
        ("sqrt(1, 2)", "1 argument", 0),
        ("sqrt(1 ms)", "plain number", 5),
        ("percentile(a, 0.99)", "1 to below 100", 14),
        ("a + 1", "use a figure of it", 0),
        ("series(a, b)", "no name 'b'", 10),
        ("(" * 100 + "1" + ")" * 100, "nested deeper", None),
        ("-" * 5000 + "1", "longer than", 0),
        ("-" * 1000 + "1", "nested deeper", None),
        ("not " * 500 + "1 < 2", "nested deeper", None),
    ],
)
def test_fault_has_its_place(text, message, at):
    with pytest.raises(ExpressionError, match=message) as caught:
        evaluate(text, Fake(a=(1, 0.1, 5)))
    assert at is None or caught.value.at == at


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "().__class__",
        "a.value",
        "time.__globals__",
        "[1][0]",
        "{1: 2}",
        "lambda: 1",
        "1 if 1 < 2 else 3",
        "a := 3",
        "exec('1')",
        "1; 2",
        "`id`",
        "$(id)",
        "%s",
        "f'{1}'",
        "'a' * 1000000000",
        "time(a)(a)",
    ],
)
def test_injection_is_refused(text):
    with pytest.raises(ExpressionError):
        evaluate(text, Fake(a=(1, 0.1, 5)))


# ---- intervals ----


def half_t(error, freedom):
    return scipy_stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * error


def test_one_figure_keeps_its_own_interval():
    low, high = evaluate("time(a)", Fake(a=(2.0, 0.03, 7))).interval(CONFIDENCE)
    half = half_t(0.03, 7)
    assert (low, high) == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)), rel=1e-12)


def test_scaling_and_reciprocal_keep_the_relative_width():
    fake = Fake(a=(2.0, 0.03, 7))
    half = half_t(0.03, 7)
    for text, value in (("3 * time(a)", 6), ("1 / time(a)", 0.5), ("time(a) / 4", 0.5)):
        low, high = evaluate(text, fake).interval(CONFIDENCE)
        assert (low, high) == pytest.approx((value * math.exp(-half), value * math.exp(half)), rel=1e-12)


def test_ratio_is_welchs_interval_of_the_logarithms():
    rng = random.Random(5)
    logs = [[rng.gauss(0.3, 0.05) for _ in range(9)], [rng.gauss(0, 0.01) for _ in range(6)]]
    means = [sum(row) / len(row) for row in logs]
    variances = [sum((x - m) ** 2 for x in row) / (len(row) - 1) for row, m in zip(logs, means, strict=True)]
    fake = Fake(
        **{
            name: (math.exp(m), math.sqrt(v / len(row)), len(row) - 1)
            for name, row, m, v in zip("ab", logs, means, variances, strict=True)
        }
    )
    welch = scipy_stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
    assert evaluate("time(a) / time(b)", fake).interval(CONFIDENCE) == pytest.approx(
        (math.exp(welch.low), math.exp(welch.high)), rel=1e-9
    )


def test_sum_and_difference_add_variances():
    fake = Fake(a=(3.0, 0.01, 10), b=(2.0, 0.02, 10))
    error = math.hypot(3 * 0.01, 2 * 0.02)
    freedom = error**4 / ((3 * 0.01) ** 4 / 10 + (2 * 0.02) ** 4 / 10)
    half = half_t(error, freedom)
    assert evaluate("time(a) + time(b)", fake).half_width(CONFIDENCE) == pytest.approx(half, rel=1e-12)
    assert evaluate("time(a) - time(b)", fake).half_width(CONFIDENCE) == pytest.approx(half, rel=1e-12)
    low, high = evaluate("time(b) - time(a)", fake).interval(CONFIDENCE)  # negative: on the value itself
    assert (low, high) == pytest.approx((-1 - half, -1 + half), rel=1e-12)


def test_one_figure_twice_is_the_same_figure():
    fake = Fake(a=(3.0, 0.2, 5), b=(2.0, 0.1, 5))
    same = evaluate("time(a) / time(a)", fake)
    assert same.interval(CONFIDENCE) == (1.0, 1.0)
    assert evaluate("time(a) * bandwidth(a) / 1 GB", fake).half_width(CONFIDENCE) == pytest.approx(0, abs=1e-15)
    assert evaluate("time(a) <= time(a)", fake) == "holds"
    square = evaluate("time(a) ** 2", fake)
    assert square.half_width(CONFIDENCE) / square.value == pytest.approx(2 * half_t(0.2, 5), rel=1e-12)


def test_functions_carry_their_slope():
    fake = Fake(a=(3.0, 0.02, 5), b=(2.0, 0.1, 5))
    half = half_t(0.02, 5)
    for text, value, slope in (
        ("sqrt(time(a) / 1 s)", math.sqrt(3), math.sqrt(3) / 2),
        ("log(time(a) / 1 s)", math.log(3), 1),
        ("log2(time(a) / 1 s)", math.log2(3), 1 / math.log(2)),
        ("exp(time(a) / 1 s)", math.exp(3), 3 * math.exp(3)),
        ("abs(0 s - time(a))", 3, 3),
        ("max(time(a), time(b))", 3, 3),
    ):
        quantity = evaluate(text, fake)
        assert quantity.value == pytest.approx(value, rel=1e-12)
        assert quantity.half_width(CONFIDENCE) == pytest.approx(slope * half, rel=1e-12)


def test_rounding_up_a_measured_figure_is_refused():
    with pytest.raises(ExpressionError, match="no interval"):
        evaluate("ceil(time(a) / 1 s)", Fake(a=(3.0, 0.02, 5)))


def test_coverage_of_a_ratio():
    """95% intervals of a ratio with unequal spreads hold the truth about 95 times in 100."""
    rng, hits, trials = random.Random(11), 0, 2000
    for _ in range(trials):
        figures = {}
        for name, centre, spread, n in (("a", 1.0, 0.1, 8), ("b", 0.0, 0.03, 6)):
            logs = [rng.gauss(centre, spread) for _ in range(n)]
            mean = sum(logs) / n
            deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1))
            figures[name] = (math.exp(mean), deviation / math.sqrt(n), n - 1)
        low, high = evaluate("time(a) / time(b)", Fake(**figures)).interval(CONFIDENCE)
        hits += low <= math.e <= high
    assert 0.935 <= hits / trials <= 0.965


@pytest.mark.parametrize(
    ("threshold", "less", "more"),
    [(1.0, "fails", "holds"), (1.98, "inconclusive", "inconclusive"), (3.0, "holds", "fails")],
)
def test_verdict_follows_the_interval(threshold, less, more):
    fake = Fake(a=(2.0, 0.02, 9), b=(1.0, 0.0, 9))
    for strict in ("", "="):
        assert evaluate(f"time(a) / time(b) <{strict} {threshold}", fake) == less
        assert evaluate(f"time(a) / time(b) >{strict} {threshold}", fake) == more
        assert evaluate(f"{threshold} <{strict} time(a) / time(b)", fake) == more


def test_figure_without_interval_decides_nothing():
    fake = Fake(a=(2.0, None, 0))
    assert evaluate("time(a) > 1 ns", fake) == "inconclusive"
    assert evaluate("time(a)", fake).interval(CONFIDENCE) == (None, None)


def test_logic_of_four_values():
    order = ("fails", "untestable", "inconclusive", "holds")
    for i, left in enumerate(order):
        for j, right in enumerate(order):
            assert joined([left, right], "and") == order[min(i, j)]
    swapped = {"fails": "holds", "holds": "fails"}
    for left in order:
        for right in order:
            mirrored = joined([swapped.get(left, left), swapped.get(right, right)], "and")
            assert joined([left, right], "or") == swapped.get(mirrored, mirrored)


def test_variables_are_numbers():
    assert evaluate("2 * uses + 1", uses=10).value == 21
    assert evaluate("uses > 3", uses=10) == "holds"


# ---- the reference ----

DOC = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", DOC.partition("the tests evaluate them")[2], re.M)


def test_reference_has_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize(("text", "value"), EXAMPLES)
def test_example_of_the_reference(text, value):
    quantity = evaluate(text)
    assert shown(quantity.value, quantity.dimension) == value


def test_reference_names_every_function_and_unit():
    from reports.claims_language import FUNCTIONS
    from reports.claims_quantity import UNITS

    words = set(re.findall(r"[A-Za-z_0-9]+", DOC))
    assert set(FUNCTIONS) <= words
    bare = {u for u in UNITS if u not in ("%",)}
    built = {p + u for p in "kMGT" for u in ("B", "bit", "FLOP", "Hz")} | {"kW", "kWh"}
    assert bare - built <= words
