"""The schema takes what is right and refuses what is not; the semantic checks recompute from the samples."""

from __future__ import annotations

import builtins
import json
import math

import pytest

from reports import stats

import make_fixture
import sizing
from conftest import CPU, EMPTY, GPU, ODD, RESULTS

jsonschema = pytest.importorskip("jsonschema")

from reports import validate  # noqa: E402 (needs jsonschema)


@pytest.fixture(scope="module")
def check():
    return validate.validator()


@pytest.mark.parametrize("path", [GPU, CPU, EMPTY, ODD], ids=lambda p: p.stem)
def test_fixtures_are_valid(check, path):
    assert validate.document_faults(json.loads(path.read_text(encoding="utf-8")), check) == []


def test_models_of_the_catalogue(check, document):
    """Results have them since `assay size`; older ones, as the fixtures, do not."""
    models = document["plan"]["catalogue"]["models"] = [dict(m) for m in sizing.MODELS]
    assert validate.document_faults(document, check) == []
    models[0]["sparsity"] = 2
    assert len(validate.document_faults(document, check)) == 1


def _same(left, right) -> bool:
    """Equal but for the last digits of numbers: quantiles of Student's t differ between versions of scipy."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return left == right


@pytest.mark.parametrize("path", [GPU, CPU, EMPTY, ODD], ids=lambda p: p.stem)
def test_fixtures_are_what_the_script_writes(path):
    """A changed script without new files, or files changed by hand, fail here."""
    made = json.loads(make_fixture.text(make_fixture.all_documents()[path.name]))
    assert _same(made, json.loads(path.read_text(encoding="utf-8")))
    assert sorted(p.name for p in RESULTS.glob("*.json")) == sorted(make_fixture.all_documents())


def _every_required(node, path=()):
    """Paths to each object of the first of every list, with its keys."""
    if isinstance(node, dict):
        yield path, list(node)
        for key, value in node.items():
            yield from _every_required(value, (*path, key))
    elif isinstance(node, list) and node:
        yield from _every_required(node[0], (*path, 0))


OPEN = ("environment_variables", "mitigations", "parameters", "counters", "telemetry")


def test_every_key_is_required_and_no_other_is_allowed(check, document):
    """Each key of the format removed, and one added to each object: both refused."""
    for key in ("cases", "ceilings", "benchmarks"):
        del document[key][1:]  # the walk visits the first of each list alone
    removed = 0
    for path, keys in list(_every_required(document)):
        if path and path[-1] in OPEN:
            continue
        node = document
        for step in path:
            node = node[step]
        for key in keys:
            value = node.pop(key)
            assert not check.is_valid(document), f"{path} without {key}"
            node[key] = value
            removed += 1
        node["unknown_key"] = {}
        assert not check.is_valid(document), f"{path} with an unknown key"
        del node["unknown_key"]
    assert check.is_valid(document)
    assert removed > 150


def _done(d):
    return next(c for c in d["cases"] if c["status"] == "done")


def _failed(d):
    return next(c for c in d["cases"] if c["status"] == "failed")


SHAPE = {
    "version": lambda d: d.update(schema="assay.result/2"),
    "seed is a number": lambda d: d["context"].update(seed=42),
    "seed with sign": lambda d: d["context"].update(seed="-1"),
    "commit too short": lambda d: d["context"]["assay"].update(commit="abc"),
    "date without offset": lambda d: d["context"].update(date="2026-01-01T00:00:00"),
    "value is text": lambda d: _done(d)["metrics"][0].update(value="1"),
    "value is true": lambda d: _done(d)["metrics"][0].update(value=True),
    "samples are fractions": lambda d: _done(d)["series"][0]["samples"][0].append(1.5),
    "samples are null": lambda d: _done(d)["series"][0].update(samples=None),
    "no primary series": lambda d: _done(d)["series"][0].update(primary=False),
    "two primary series": lambda d: _done(d)["series"].append(_done(d)["series"][0]),
    "done without metrics": lambda d: _done(d).update(metrics=[]),
    "done without statistics": lambda d: _done(d).update(statistics=None),
    "failed with metrics": lambda d: _failed(d).update(metrics=_done(d)["metrics"]),
    "failed without reason": lambda d: _failed(d).update(reason=None),
    "status unknown": lambda d: _done(d).update(status="ok"),
    "negative time": lambda d: _done(d)["statistics"].update(min_ns=-1.0),
    "checksum not hex": lambda d: _done(d)["verification"].update(input_checksum="xyz"),
    "ceiling without rate": lambda d: d["ceilings"][0].pop("rate"),
    "case with rate": lambda d: _done(d).update(rate=d["ceilings"][0]["rate"]),
    "ceiling of another suite": lambda d: d["ceilings"][0].update(suite="matmul"),
    "gpu with a cpu's keys": lambda d: d["context"]["devices"][1].update(kind="cpu"),
    "text counter in benchmarks": lambda d: d["benchmarks"][0].update(extra="1"),
}


@pytest.mark.parametrize("mutate", SHAPE.values(), ids=SHAPE.keys())
def test_schema_refuses(check, document, mutate):
    mutate(document)
    assert not check.is_valid(document)


def _scale(target, key, factor=1.001):
    target[key] = target[key] * factor


def _twice_the_share(d):
    case = next(c for c in d["cases"] if c["ceiling"]["fraction"] is not None)
    _scale(case["ceiling"], "fraction", 2)


def _sample(d):
    row = _done(d)["series"][0]["samples"][0]
    row[:] = [x * 3 for x in row]


MEANING = {
    "time": (lambda d: _scale(_done(d)["metrics"][0], "value"), "time.value"),
    "interval": (lambda d: _scale(_done(d)["metrics"][0], "high"), "time.high"),
    "rate of work": (lambda d: _scale(_done(d)["metrics"][1], "value"), "flop_rate.value"),
    "a sample": (_sample, "time.value"),
    "median": (lambda d: _scale(_done(d)["statistics"], "median_ns"), "statistics.median_ns"),
    "units": (lambda d: _done(d)["statistics"].update(units=5), "statistics.units"),
    "scope": (lambda d: _done(d)["statistics"].update(scope="launches"), "statistics.scope"),
    "converged": (lambda d: _done(d)["statistics"].update(converged=False), "statistics.converged"),
    "share of the limit": (_twice_the_share, "ceiling.fraction"),
    "ceiling's rate": (lambda d: _scale(d["ceilings"][0]["rate"], "value"), "rate.value"),
    "ceiling unknown": (lambda d: _done(d)["ceiling"].update(ceiling_id="none"), "no measured ceiling"),
    "id twice": (lambda d: d["cases"].append(_done(d)), "stands 2 times"),
    "round missing": (lambda d: _done(d)["rounds"].pop(), "rows for"),
    "sample missing": (lambda d: _done(d)["series"][0]["samples"][0].pop(), "number of samples"),
    "zero time": (lambda d: _done(d)["series"][0]["samples"][0].__setitem__(0, 0), "not positive"),
    "round twice": (lambda d: _done(d)["rounds"][1].update(round=0), "same launch and round"),
    "row of a failed case": (lambda d: d["benchmarks"][0].update(name=_failed(d)["id"]), "is no done case"),
    "rows missing": (lambda d: d["benchmarks"].pop(), "rows for"),
    "done though verification failed": (
        lambda d: _done(d)["verification"].update(status="failed"),
        "verification failed",
    ),
    "nan": (lambda d: _done(d)["work"].update(flops=math.nan), "nan"),
}


@pytest.mark.parametrize(("mutate", "word"), MEANING.values(), ids=MEANING.keys())
def test_recomputation_refuses(check, document, mutate, word):
    mutate(document)
    faults = validate.document_faults(document, check)
    assert any(word in fault for fault in faults), faults


def _served_by(document, resource, limit):
    """Faults of the limit where a ceiling of `resource` stands for a bound on `limit`."""
    case = next(c for c in document["cases"] if c["ceiling"]["limit"] == "flops.f32")
    ceiling = next(c for c in document["ceilings"] if c["id"] == case["ceiling"]["ceiling_id"])
    ceiling["rate"]["resource"] = resource
    for owner, name in ((case, limit), (ceiling, resource)):
        for bound in owner["work"].get("bounds", ()):
            bound["resource"] = name if bound["resource"] == "flops.f32" else bound["resource"]
    case["ceiling"]["limit"] = limit
    return case["id"]


@pytest.mark.parametrize(("limit", "right"), [("flops.bf16", True), ("flops.f64", False)])
def test_f32_may_stand_for_bf16(check, document, limit, right):
    name = _served_by(document, "flops.f32", limit)
    faults = [f for f in validate.document_faults(document, check) if f.startswith(name) and "ceiling.limit" in f]
    assert (not faults) == right, faults


def _with_levels(case):
    """What the harness writes of the levels of variance; older results have none."""
    series = next(s for s in case["series"] if s["primary"])
    found = stats.variance_components(case["rounds"], series["samples"], series["batch"])
    levels = {
        level: row
        and {
            "relative_sd": math.sqrt(math.expm1(max(row[0], 0))),
            "degrees_of_freedom": row[1],
            "clipped": row[0] < 0,
        }
        for level, row in found.items()
    }
    case["statistics"]["variance"] = {**levels, "advice": None}
    return case["statistics"]["variance"]


def test_levels_of_variance_are_recomputed(check, document):
    levels = _with_levels(_done(document))
    assert levels["launch"] is None and levels["round"] and levels["sample"]
    assert validate.document_faults(document, check) == []
    levels["round"]["relative_sd"] += 0.01
    assert any("statistics.variance.round.relative_sd" in f for f in validate.document_faults(document, check))
    levels["round"] = None
    assert any("statistics.variance.round is None" in f for f in validate.document_faults(document, check))


def test_variance_by_hand():
    """The balanced example of tests/test_variance.c."""
    rounds = [{"launch": i} for i in (0, 0, 3, 3)]
    samples = [[math.exp(x) for x in row] for row in ([0, 2], [2, 4], [6, 8], [8, 10])]
    found = stats.variance_components(rounds, samples, 1)
    assert {k: v[1] for k, v in found.items()} == {"launch": 1, "round": 2, "sample": 4}
    assert [found[k][0] for k in ("launch", "round", "sample")] == pytest.approx([17, 1, 2])


def test_command_says_which_file_and_exits_1(command, save, document):
    _scale(_done(document)["metrics"][0], "value")
    path = save(document)
    code, out, _ = command("validate", GPU, path)
    assert code == 1
    assert f"{GPU}: valid" in out
    assert f"{path}: {_done(document)['id']}: time.value" in out


def test_command_exits_0_on_valid_and_2_on_unreadable(command, save):
    assert command("validate", CPU)[0] == 0
    assert command("validate", save("{"))[0] == 2


def test_command_says_that_jsonschema_is_missing(command, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("jsonschema"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr("importlib.import_module", lambda name: refuse(name))
    code, _, err = command("validate", CPU)
    assert code == 3
    assert "jsonschema" in err


def test_interval_by_hand():
    """Medians 100, 110, 121: logs step by ln 1.1, so s = ln 1.1 and t(0.975, 2) = 4.302653."""
    interval = stats.t_interval([100, 110, 121], 10, 0.95)
    half = 4.302652729911275 * math.log(1.1) / math.sqrt(3)
    assert interval.value == pytest.approx(11.0)
    assert interval.low == pytest.approx(11.0 * math.exp(-half))
    assert interval.high == pytest.approx(11.0 * math.exp(half))
    assert interval.relative_half_width == pytest.approx(math.exp(half) - 1)


def test_interval_is_widened_above_six_units():
    """Twelve units, half at 100 and half at 110: s = ln(1.1) / 2 sqrt(12/11), t(0.975, 11) = 2.200985, factor 1.125."""
    interval = stats.t_interval([100, 110] * 6, 1, 0.95)
    spread = math.log(1.1) / 2 * math.sqrt(12 / 11)
    assert math.log(interval.high / interval.value) == pytest.approx(2.2009851600916 * spread / math.sqrt(12) * 1.125)
    assert stats.sequential_factor(6) == stats.sequential_factor(2) == 1.0


def test_interval_of_one_unit_has_no_ends():
    interval = stats.t_interval([7], 1, 0.95)
    assert (interval.value, interval.low, interval.high) == (pytest.approx(7.0), None, None)


def test_launches_are_the_units_where_the_scope_says_so():
    rounds = [{"launch": launch} for launch in (0, 0, 0, 1, 1)]
    samples = [[1], [2, 2], [9], [4], [6]]
    assert stats.unit_medians(rounds, samples, "launches") == [2, 5]
    assert stats.unit_medians(rounds, samples, "within-launch") == [1, 2, 9, 4, 6]
