"""Verdicts of `assay compare`, what it refuses, its outputs, its rate of false alarms and its cost."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from reports import calibration
from reports.compare import compare
from reports.compare_output import text
from reports.errors import InputProblem
from reports.readers import machine_identity

import launches
from conftest import CPU, GPU, ODD, ROOT

FOREIGN = ROOT / "tests" / "fixtures" / "foreign"


@pytest.fixture
def calibrated(save):
    """A calibration of the machine that launches.head describes."""

    def make(launch_sd=0.01, freedom=100, effect=None, cases=None, **changes):
        record = {
            "schema": "assay.calibration/1",
            "machine": machine_identity(launches.head()["context"]),
            "launch_sd": launch_sd,
            "degrees_of_freedom": freedom,
            "detectable_effect": effect,
            "cases": cases or {},
        }
        return calibration.load_calibration(save(record | changes, "calibration.json"))

    return make


def one(found, name="a"):
    return next(row for row in found.rows if row.id == name)


def verdict_of(sides, base, new, **options):
    return one(compare(*sides([launches.case("a", base)], [launches.case("a", new)]), **options))


# ---- verdicts ----


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "same"), (1.2, "slower"), (1 / 1.2, "faster"), (1.01, "same"), (1.04, "slower")]
)
def test_verdict_follows_the_effect(sides, factor, verdict):
    row = verdict_of(sides, launches.fixed(1e6), launches.fixed(1e6 * factor))
    assert row.verdict == verdict
    assert row.ratio == pytest.approx(factor, rel=1e-4)
    assert row.low < row.ratio < row.high


def test_numbers_are_those_of_welch_by_scipy(sides):
    rng = np.random.default_rng(3)
    base, new = launches.drawn(rng, 1e6, 9), launches.drawn(rng, 1.1e6, 7, spread=0.05)
    row = verdict_of(sides, base, new)
    logs = [[math.log(np.median([np.median(r) for r in launch])) for launch in side] for side in (base, new)]
    test = scipy_stats.ttest_ind(logs[1], logs[0], equal_var=False)
    middle, parts = np.mean(logs[1]) - np.mean(logs[0]), [np.var(side, ddof=1) / len(side) for side in logs]
    freedom = sum(parts) ** 2 / sum(v**2 / (len(side) - 1) for v, side in zip(parts, logs, strict=True))
    half = scipy_stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts))
    low, high = middle - half, middle + half
    assert row.p == pytest.approx(test.pvalue, rel=1e-9)
    assert (row.low, row.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-9)
    assert row.q == pytest.approx(row.p)
    assert row.launches == (9, 7)


def test_p_of_exactly_0_is_kept(sides):
    row = verdict_of(sides, [[[100]]] * 6, [[[150]]] * 6)
    assert (row.p, row.q, row.verdict) == (0.0, 0.0, "slower")
    assert (row.low, row.high) == (pytest.approx(1.5), pytest.approx(1.5))


def test_without_any_spread_equal_is_same(sides):
    row = verdict_of(sides, [[[100]]] * 6, [[[100]]] * 6)
    assert (row.p, row.verdict) == (1.0, "same")


def test_noise_is_inconclusive_with_a_budget(sides):
    row = verdict_of(sides, launches.fixed(1e6, 6, 0.05), launches.fixed(1.01e6, 6, 0.05))
    assert row.verdict == "inconclusive"
    assert 20 < row.budget < 1000


def test_higher_is_better_turns_the_verdict(sides):
    base, new = (launches.case("a", launches.fixed(v), unit="tokens_per_s") for v in (1e6, 1.2e6))
    for record in (base, new):
        record["series"][0]["better"] = "higher"
    assert one(compare(*sides([base], [new]))).verdict == "faster"


def test_threshold_holds_for_all_or_by_pattern(sides):
    records = [[launches.case(n, launches.fixed(v)) for n in ("x/a", "y/a")] for v in (1e6, 1.1e6)]
    both = sides(*records)
    assert {r.verdict for r in compare(*both, thresholds=[(None, 0.2)]).rows} == {"same"}
    found = compare(*both, thresholds=[(None, 0.01), ("y/*", 0.2)])
    assert {r.id: r.verdict for r in found.rows} == {"x/a": "slower", "y/a": "same"}


def test_pattern_that_matches_nothing_is_refused(sides):
    both = sides([launches.case("a", launches.fixed(1e6))], [launches.case("a", launches.fixed(1e6))])
    with pytest.raises(InputProblem, match="no case that both sides have matches"):
        compare(*both, thresholds=[("nothing/*", 0.2)])


def test_units_of_time_are_made_equal(sides):
    base = launches.case("a", launches.fixed(5_000_000))
    new = launches.case("a", launches.fixed(5000), unit="us")
    assert one(compare(*sides([base], [new]))).verdict == "same"


def test_other_units_are_refused(sides):
    base, new = launches.case("a", launches.fixed(5000)), launches.case("a", launches.fixed(5000), unit="widgets")
    with pytest.raises(InputProblem, match="in ns in BASE and in widgets in NEW"):
        compare(*sides([base], [new]))


# ---- few launches ----


@pytest.mark.parametrize(("count", "said"), [(1, "one launch"), (5, "5 launches")])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_few_launches_decide_nothing(sides, count, said, factor):
    row = verdict_of(sides, launches.fixed(1e6), launches.fixed(1e6 * factor, count))
    assert (row.verdict, row.detail, row.budget) == ("inconclusive", said, 6)
    assert row.p is None
    assert row.ratio == pytest.approx(factor, rel=0.01)


def test_calibrated_variance_lets_one_launch_decide(sides, calibrated):
    base, new = launches.fixed(1e6), launches.fixed(1.3e6, 1)
    assert verdict_of(sides, base, new, calibration=calibrated(0.02)).verdict == "slower"
    row = verdict_of(sides, base, new, calibration=calibrated(0.3))
    assert row.verdict == "inconclusive"
    assert row.detail == ""


def test_variance_between_sessions_widens_the_interval_and_no_launches_reduce_it(sides, calibrated):
    base, new = launches.fixed(1e6), launches.fixed(1.1e6)
    assert verdict_of(sides, base, new, calibration=calibrated()).verdict == "slower"
    wide = calibrated(session_sd=0.1, session_degrees_of_freedom=30)
    row = verdict_of(sides, base, new, calibration=wide)
    assert (row.verdict, row.budget) == ("inconclusive", None)
    assert row.high / row.low == pytest.approx(
        math.exp(2 * scipy_stats.t.ppf(0.975, 30) * 0.1 * math.sqrt(2)), rel=0.01
    )
    found = compare(*sides([launches.case("a", base)], [launches.case("a", new)]), calibration=wide)
    assert "runs at other times differ by 10%" in text(found)


def test_detectable_effect_widens_same_and_is_shown(sides, calibrated):
    base, new = launches.fixed(1e6, spread=0.012), launches.fixed(1.015e6, spread=0.012)
    assert verdict_of(sides, base, new).verdict == "inconclusive"
    row = verdict_of(sides, base, new, calibration=calibrated(effect=0.08))
    assert (row.verdict, row.margin) == ("same", 0.08)
    narrow = {"a": {"launch_sd": None, "degrees_of_freedom": None, "detectable_effect": 0.02}}
    assert verdict_of(sides, base, new, calibration=calibrated(effect=0.08, cases=narrow)).verdict == "inconclusive"


def test_detectable_effect_hides_no_change_that_is_certain(sides, calibrated):
    base, new = launches.fixed(1e6), launches.fixed(1.05e6)
    row = verdict_of(sides, base, new, calibration=calibrated(effect=0.5))
    assert (row.verdict, row.margin) == ("slower", 0.5)


def test_calibration_of_another_machine_is_refused(sides, calibrated):
    both = sides([launches.case("a", launches.fixed(1e6))], [launches.case("a", launches.fixed(1e6))])
    other = calibrated(machine={"cpu_model": "x"})
    with pytest.raises(InputProblem, match="of another machine"):
        compare(*both, calibration=other)
    assert compare(*both, calibration=other, forced=True).mixed == ["calibration"]


def test_stored_calibration_is_found_by_the_machine_not_the_name(calibrated, tmp_path):
    calibrated()
    identity = machine_identity(launches.head()["context"])
    assert calibration.of_machine(identity, tmp_path).path == tmp_path / "calibration.json"
    assert calibration.of_machine(identity | {"cores": 99}, tmp_path) is None


@pytest.mark.parametrize(
    "change", [{"schema": "x/1"}, {"launch_sd": -1}, {"launch_sd": "1"}, {"cases": [1]}, {"machine": 1}]
)
def test_malformed_calibration_is_refused(calibrated, change):
    with pytest.raises(InputProblem, match="docs/compare.md"):
        calibrated(**change)


# ---- missing, new, failed ----


def test_cases_of_one_side_are_told(sides):
    times = launches.fixed(1e6)
    found = compare(*sides([launches.case(n, times) for n in "ab"], [launches.case(n, times) for n in "bc"]))
    assert {r.id: r.verdict for r in found.rows} == {"a": "missing", "b": "same", "c": "new"}
    assert found.exit_code() == 0
    assert found.exit_code(strict=True) == 4
    assert "1 case not measured in NEW" in text(found)


@pytest.mark.parametrize(
    ("base", "new", "verdict", "code"),
    [
        ("done", "failed", "failed", 1),
        ("done", "lost", "failed", 1),
        ("failed", "done", "failed", 0),
        ("failed", "failed", "failed", 0),
        ("done", "skipped", "missing", 0),
        ("done", "not_reached", "missing", 0),
        ("skipped", "done", "new", 0),
    ],
)
def test_what_was_not_measured_is_never_faster(sides, base, new, verdict, code):
    times = launches.fixed(1e6)
    records = [
        [launches.case("b", times), launches.case("a", times) if s == "done" else launches.failed("a", s)]
        for s in (base, new)
    ]
    found = compare(*sides(*records))
    row = one(found)
    assert (row.verdict, row.ratio, row.p) == (verdict, None, None)
    assert "wrong at (3, 5)" in row.detail
    assert found.exit_code() == code


@pytest.mark.parametrize("zero", ["BASE", "NEW", "both"])
def test_zero_time_has_no_ratio_but_a_message(sides, zero):
    times, none = launches.fixed(1e6), [[[0]]] * 6
    found = compare(
        *sides(
            [launches.case("a", none if zero in ("BASE", "both") else times), launches.case("b", times)],
            [launches.case("a", none if zero in ("NEW", "both") else times), launches.case("b", times)],
        )
    )
    row = one(found)
    assert (row.verdict, row.ratio) == ("failed", None)
    assert f"{zero}: a time of 0 is no measurement" in row.detail
    assert found.exit_code() == (1 if zero == "NEW" else 0)


def test_case_that_fails_only_in_new_is_not_hidden_among_new_cases(sides):
    times = launches.fixed(1e6)
    found = compare(*sides([launches.case("b", times)], [launches.case("b", times), launches.failed("a")]))
    assert one(found).verdict == "failed"
    assert found.exit_code(strict=True) == 4


def test_nothing_in_common_is_refused(sides):
    times = launches.fixed(1e6)
    with pytest.raises(InputProblem, match="no case in common"):
        compare(*sides([launches.case("a", times)], [launches.case("b", times)]))


def test_nothing_measured_on_both_sides_is_exit_4(sides):
    found = compare(*sides([launches.failed("a")], [launches.failed("a")]))
    assert found.exit_code() == 4


# ---- what may be compared ----


def _mutations():
    return {
        "machine": lambda d: d["context"]["machine"].update(cpu_model="Another"),
        "machine by host name": lambda d: d["context"].update(host_name="another"),
        "placement": lambda d: d["plan"]["placement"].update(cpus=[0, 1]),
        "placement by NUMA node": lambda d: d["plan"]["placement"].update(numa_node=1),
        "data by seed": lambda d: d["context"].update(seed="8"),
        "data by checksum": lambda d: d["cases"][0]["verification"].update(input_checksum="f" * 16),
        "data by work": lambda d: d["cases"][0]["work"].update(flops=3.0),
    }


@pytest.mark.parametrize("what", _mutations())
def test_unlike_sides_are_refused_unless_forced_and_then_every_line_says_so(command, save, tmp_path, what):
    record = launches.result(*(launches.case(n, launches.fixed(1e6)) for n in ("a", "b")))
    base = save(record, "base.json")
    _mutations()[what](record)
    new = save(record, "new.json")
    kind = what.split()[0]
    code, out, err = command("compare", base, new)
    assert (code, out) == (2, "")
    assert f"not comparable: {kind}: " in err
    assert "--force-mixed" in err
    outputs = {form: tmp_path / form for form in ("markdown", "json", "junit")}
    options = [word for form, path in outputs.items() for word in (f"--{form}", path)]
    code, out, err = command("compare", base, new, "--force-mixed", *options)
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if line.startswith("same")]
    assert len(lines) == 2
    assert all(f"MIXED {kind}" in line for line in lines)
    assert outputs["markdown"].read_text(encoding="utf-8").count(f"MIXED {kind}") == 2
    assert outputs["junit"].read_text(encoding="utf-8").count(f"MIXED {kind}") == 2
    cases = json.loads(outputs["json"].read_text(encoding="utf-8"))["cases"]
    assert [c["mixed"] for c in cases] == [[kind], [kind]]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("machine", lambda d: d["context"]["devices"][1].update(uuid="GPU-other")),
        ("driver", lambda d: d["context"]["devices"][1].update(driver="1.2.3")),
        ("toolkit", lambda d: d["context"]["devices"][1].update(runtime="99.0")),
        ("toolkit", lambda d: d["context"]["assay"].update(toolkit="CUDA 99")),
    ],
)
def test_accelerators_drivers_and_toolkits_are_checked(command, save, document, kind, change):
    change(document)
    code, _, err = command("compare", GPU, save(document))
    assert code == 2
    assert f"not comparable: {kind}: " in err


def test_driver_of_a_device_without_cases_does_not_matter(command, save, document):
    cpu_only = json.loads(json.dumps(document))
    for record in (document, cpu_only):
        record["cases"] = [c for c in record["cases"] if c["device"]["kind"] == "cpu"]
    cpu_only["context"]["devices"] = cpu_only["context"]["devices"][:1]
    cpu_only["context"]["assay"]["toolkit"] = None
    document["context"]["devices"][1]["driver"] = "1.2.3"
    code, _, _ = command("compare", save(document, "a.json"), save(cpu_only, "b.json"))
    assert code == 0


@pytest.mark.parametrize("name", ["host", "localhost", "0123456789ab", ""])
def test_host_name_of_a_container_is_no_identity(sides, name):
    records = [launches.case("a", launches.fixed(1e6))]
    assert compare(*sides(records, records, host_name=name)).mixed == []


def test_settings_that_differ_are_said_but_not_refused(sides):
    records = [launches.case("a", launches.fixed(1e6))]
    found = compare(*sides(records, records, kernel="Linux 99"))
    assert any("settings differ: kernel (Linux 6.1.0 x86_64 and Linux 99)" in note for note in found.notes)


def test_launches_of_one_side_that_differ_are_refused(command, tmp_path):
    folder = tmp_path / "side"
    folder.mkdir()
    for i in range(3):
        record = launches.result(launches.case("a", [[[5]]]), seed=str(i // 2))
        (folder / f"{i}.json").write_text(json.dumps(record), encoding="utf-8")
    code, _, err = command("compare", folder, folder)
    assert code == 2
    assert "within" in err
    assert "seed" in err


def test_suspect_cases_are_marked(sides):
    record = launches.case("a", launches.fixed(1e6), validity={"status": "suspect", "reasons": ["clocks moved"]})
    found = compare(*sides([launches.case("a", launches.fixed(1e6))], [record]))
    assert one(found).notes == ["suspect in NEW: clocks moved"]
    assert "1 case suspect on a side" in text(found)


# ---- other tools ----


@pytest.mark.parametrize("name", ["google_benchmark", "nvbench", "hyperfine", "hyperfine_2"])
def test_what_another_tool_lacks_is_said(command, name):
    path = FOREIGN / f"{name}.json"
    code, out, _ = command("compare", path, path)
    assert code == 0
    assert "not checked" in out
    assert "placement, verification" in out


def test_google_benchmark_repetitions_of_one_process_decide_nothing(command):
    path = FOREIGN / "google_benchmark.json"
    _, out, _ = command("compare", path, path)
    assert "inconclusive (one launch)  BM_Sum/1024" in out


def test_hyperfine_against_hyperfine(command, save):
    path = FOREIGN / "hyperfine.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["results"][0]["times"] = [1.3 * t for t in record["results"][0]["times"]]
    code, out, _ = command("compare", path, save(record))
    assert code == 1
    assert any(line.startswith("slower") and "+30.0%" in line for line in out.splitlines())


def test_our_result_against_google_benchmark(command, save):
    """Our `benchmarks` rows, saved as a file of Google Benchmark, have the ids of our cases."""
    record = json.loads(CPU.read_text(encoding="utf-8"))
    google = save({k: record[k] for k in ("context", "benchmarks")}, "google.json")
    code, out, _ = command("compare", CPU, google, "--force-mixed")
    assert code == 0
    assert "measured by different tools (BASE by assay, NEW by Google Benchmark)" in out


# ---- resources ----


def _with(**telemetry):
    return launches.case("a", launches.fixed(1e6), telemetry=telemetry)


def test_resources_of_both_sides_are_compared(sides):
    base = _with(peak_memory_bytes=1000, registers=32, spill_bytes=0, binary_bytes=5000, energy_joules=2.0, x=1)
    new = _with(peak_memory_bytes=1010, registers=33, spill_bytes=8, binary_bytes=5000, x=2)
    found = compare(*sides([base], [new]))
    grew = {name: grew for name, _, _, _, grew in one(found).resources}
    assert grew == {"memory": False, "registers": True, "spills": True, "binary size": False}
    assert found.exit_code() == 0
    assert found.exit_code(resources=True) == 1
    assert "2 resources grew" in text(found)
    assert "from 0" in text(found)
    assert "nan" not in text(found).lower()


# ---- the command ----


def test_exit_codes(command, save):
    paths = {
        name: save(launches.result(launches.case("a", times)), f"{name}.json")
        for name, times in {
            "base": launches.fixed(1e6),
            "slower": launches.fixed(1.5e6),
            "faster": launches.fixed(0.5e6),
            "single": [[[1_000_000]]],
        }.items()
    }
    assert command("compare", paths["base"], paths["base"])[0] == 0
    assert command("compare", paths["base"], paths["faster"], "--strict")[0] == 0
    assert command("compare", paths["base"], paths["slower"])[0] == 1
    assert command("compare", paths["base"], paths["slower"], "--threshold", "60%")[0] == 0
    assert command("compare", paths["base"], paths["slower"], "--threshold", "a=60")[0] == 0
    code, out, _ = command("compare", paths["base"], paths["single"])
    assert code == 0
    assert "warning: 1 case undecided" in out
    assert command("compare", paths["base"], paths["single"], "--strict")[0] == 4
    missing = paths["base"].parent / "nothing" / "out.json"
    assert command("compare", paths["base"], paths["base"], "--json", missing)[0] == 3


@pytest.mark.parametrize("word", ["5x", "", "-1", "0", "nan", "inf", "=5", "a=", "a=b"])
def test_malformed_threshold_is_refused(command, save, word):
    path = save(launches.result(launches.case("a", launches.fixed(1e6))))
    code, out, err = command("compare", path, path, f"--threshold={word}")
    assert (code, out) == (2, "")
    assert "--threshold" in err


def test_output_to_standard_output_is_that_alone(command, save):
    path = save(launches.result(launches.case("a", launches.fixed(1e6))))
    _, out, _ = command("compare", path, path, "--json", "-")
    assert json.loads(out)["cases"][0]["verdict"] == "same"
    assert command("compare", path, path, "--json", "-", "--junit", "-")[0] == 2


@pytest.mark.parametrize(("target", "wanted"), [("/dev/full", 3), ("closed pipe", 0)])
def test_output_that_cannot_be_written_is_no_regression(save, target, wanted):
    """A traceback would end in 1, which says slower."""
    path = str(save(launches.result(*(launches.case(f"case/{i}", [[[5]]]) for i in range(2000)))))
    words = [sys.executable, "-m", "reports", "compare", path, path]
    if target == "/dev/full":
        with Path(target).open("w", encoding="utf-8") as full:
            done = subprocess.run(words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        code, err = done.returncode, done.stderr
        assert "standard output cannot be written" in err
    else:
        child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdout.close()
        err, code = child.stderr.read(), child.wait()
        child.stderr.close()
    assert code == wanted
    assert "Traceback" not in err


def test_odd_fixture_through_the_command(command):
    code, out, _ = command("compare", ODD, ODD)
    assert code == 0
    assert "\x1b" not in out
