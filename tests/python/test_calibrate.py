"""`assay calibrate` from end to end, with a command in the place of assay whose launches have a known spread."""

from __future__ import annotations

import copy
import json
import stat
import sys

import pytest

from reports.__main__ import main
from reports.calibrate_cases import SLOWED, UNCHANGED, slowed_id
from reports.calibrate_output import machine_name, merged
from reports.calibration import load_calibration
from reports.compare import compare_paths

import launches

DUETS, PAIRS = 6, 6
LAUNCH, SESSION = 0.004, 0.005

# Writes what `assay run` would: every case at its time, shifted by duet and by launch; slower as ASSAY_INJECT says.
FAKE = """#!{python}
import json, math, os, random, sys
words = sys.argv[1:]
if "--benchmark_list_tests" in words:
    print(open({ids!r}).read())
    sys.exit(0)
value = lambda name: words[len(words) - 1 - words[::-1].index(name) + 1]
out = value("--out")
duet, side, name = out.split("/")[-3:]
with open({log!r}, "a") as log:
    log.write(f"{{duet}}/{{side}}/{{name}} {{value('--seed')}} {{os.environ['ASSAY_ANONYMOUS']}}\\n")
result = json.load(open({template!r}))
shares = [0.0] + [float(s) for s in os.environ["ASSAY_INJECT"].split(",")]
wanted = open(value("--cases")).read().split()
result["cases"] = [case for case in result["cases"] if case["id"] in wanted]
for case in result["cases"]:
    key = case["id"].partition("/inject:")
    session = random.Random(duet + case["id"]).gauss(0, {session})
    launch = random.Random(duet + side + name + case["id"]).gauss(0, {launch})
    time = 1e6 * math.exp(session + launch) * (1 + shares[int(key[2][0]) if key[1] else 0])
    case["series"][0]["samples"] = [[round(time)] * 3]
result["context"]["seed"] = value("--seed")
json.dump(result, open(out, "w"))
"""


def ids() -> list:
    groups = [(entry, names) for entry, groups in SLOWED["cpu"].items() for names in groups.values()]
    slowed = [slowed_id(name, entry, "cpu") for entry, names in groups for name in names]
    return [*(f"{name}/dev:cpu" for name in UNCHANGED["cpu"]), *slowed]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Calls `assay calibrate` in an empty folder of its own; .log lists the launches."""

    class Study:
        path, log, fake = tmp_path, tmp_path / "log", tmp_path / "assay"
        out = tmp_path / "calibration.json"

        def __call__(self, *words, duets=DUETS, pairs=PAIRS) -> int:
            fixed = ["--folder", str(self.path / "study"), "--out", str(self.out)]
            return main(["calibrate", "--duets", str(duets), "--pairs", str(pairs), *fixed, *words])

        @property
        def launches(self) -> list:
            return [line.split() for line in self.log.read_text().splitlines()]

        def file(self, name: str):
            return self.path / "study" / name

    names = {"ids": tmp_path / "ids", "log": Study.log, "template": tmp_path / "template.json"}
    names["ids"].write_text("\n".join(ids()))
    names["template"].write_text(json.dumps(launches.result(*(launches.case(i, [[[1]]]) for i in ids()))))
    text = FAKE.format(python=sys.executable, session=SESSION, launch=LAUNCH, **{k: str(v) for k, v in names.items()})
    Study.fake.write_text(text)
    Study.fake.chmod(Study.fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ASSAY_COMMAND", str(Study.fake))
    return Study()


def refused(capsys, study, says: str, *words, **settings) -> None:
    capsys.readouterr()
    assert study(*words, **settings) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("assay calibrate:")]
    assert len(lines) == 1 and says in lines[0], lines


def test_whole_study(study, capsys):
    markdown = study.path / "study.md"
    assert study("--markdown", str(markdown), "--seed", "7") == 0
    shown = capsys.readouterr().out
    assert "side by side" in shown and "36 of 36 (100.0%)" in shown and "any other case" in shown

    found = load_calibration(study.out)
    assert set(found.cases) == set(ids())
    sd, freedom = found.between("matmul/tiled/n:256/dev:cpu")
    assert freedom == DUETS * 2 * (PAIRS - 1) and 0.6 * LAUNCH < sd < 1.5 * LAUNCH
    assert 0.3 * SESSION < found.session("nothing/known/dev:cpu")[0] < 2 * SESSION
    assert found.side_by_side("synthetic/spin/us:200/dev:cpu") < 0.04

    raw = json.loads(study.out.read_text())
    assert raw["command"] == ("assay calibrate --device cpu --duets 6 --pairs 6 --rounds 3 --inject 5%,20% --seed 7")
    kinds = {kind: raw["studies"]["cpu"][kind] for kind in ("side_by_side", "stored")}
    assert [k["comparisons"] for k in kinds.values()] == [DUETS * len(UNCHANGED["cpu"])] * 2
    assert [(k["found"], k["trials"]) for k in kinds.values()] == [(36, 36)] * 2
    assert kinds["side_by_side"]["detection_interval"] == pytest.approx([0.025 ** (1 / 36), 1.0])
    assert {bound: row["trials"] for bound, row in kinds["stored"]["by_bound"].items()} == {
        "registers": 18,
        "own cache": 12,
        "shared memory": 6,
    }
    assert "bound by own cache" in shown
    assert all(abs(row["measured"] - 0.05) < 0.01 for row in kinds["side_by_side"]["by_case"].values())
    assert all(abs(row["measured"] - 0.20) < 0.04 for row in kinds["stored"]["by_case"].values())
    assert str(study.path) not in study.out.read_text() + markdown.read_text()
    assert markdown.read_text().count("\n|") > 20

    # Inputs are the same in every launch, and no launch tells its host.
    assert len(study.launches) == DUETS * PAIRS * 2
    assert {tuple(row[1:]) for row in study.launches} == {("7", "1")}
    orders = [tuple(row[0].split("/")[1] for row in study.launches[k : k + 12]) for k in range(0, 72, 12)]
    assert len(set(orders)) > 1


def test_compare_uses_the_file(study):
    assert study() == 0
    calibration = load_calibration(study.out)
    found = compare_paths(study.file("duet-000/a"), study.file("duet-002/b"), calibration=calibration)
    row = next(row for row in found.rows if row.id == "matmul/tiled/n:256/dev:cpu")
    assert row.margin == pytest.approx(max(0.02, calibration.detectable(row.id)))
    assert any("calibration calibration.json: detectable effect" in note for note in found.notes)


def test_time_ends_it_between_pairs_and_the_same_command_goes_on(study, capsys):
    assert study("--time", "1ms") == 4
    assert "1 of 36 pairs are done; the same command goes on" in capsys.readouterr().err
    assert not study.out.exists()
    assert study("--time", "1ms") == 4
    assert len(study.launches) == 4
    assert study() == 0
    done = [row[0] for row in study.launches]
    assert len(done) == len(set(done)) == 72
    assert study() == 0 and len(study.launches) == 72  # nothing is measured again


def test_study_may_be_extended(study):
    assert study(duets=2) == 0
    raw = json.loads(study.out.read_text())
    assert raw["studies"]["cpu"]["stored"] is None and raw["detectable_effect"] is not None
    assert study() == 0
    assert json.loads(study.out.read_text())["studies"]["cpu"]["stored"]["comparisons"] > 0
    assert len(study.launches) == 72


def test_failed_case_is_left_out_and_named(study, capsys):
    assert study() == 0
    path = study.file("duet-001/b/0003.json")
    raw = json.loads(path.read_text())
    raw["cases"][0] = launches.failed(ids()[0])
    path.write_text(json.dumps(raw))
    assert study() == 0
    said = capsys.readouterr().out
    assert f"left out of duet 1: {ids()[0]} (B: in 0003.json: wrong at (3, 5))" in said
    kinds = json.loads(study.out.read_text())["studies"]["cpu"]
    assert kinds["side_by_side"]["comparisons"] == DUETS * len(UNCHANGED["cpu"]) - 1


def test_case_that_the_plan_lacks_is_noted(study, capsys):
    gone = ids()[3]
    (study.path / "ids").write_text("\n".join(i for i in ids() if i != gone))
    assert study(duets=1) == 0
    assert f"the plan of this binary lacks {gone}" in capsys.readouterr().out


def test_malformed_folders(study, capsys):
    assert study("--time", "1ms") == 4
    refused(capsys, study, "other settings (pairs is 6 there)", pairs=7)
    refused(capsys, study, "injected is [0.05, 0.2] there", "--inject", "4%")
    assert study() == 0

    head = study.file("calibrate.json")
    kept = head.read_text()
    for text, says in (("[]", "no study"), ("{", "calibrate.json"), ("{}", "other settings")):
        head.write_text(text)
        refused(capsys, study, says)
    head.unlink()
    refused(capsys, study, "no calibrate.json")
    head.write_text(kept)

    launch = study.file("duet-002/a/0001.json")
    whole = launch.read_text()
    launch.write_text(whole[: len(whole) // 2])
    refused(capsys, study, "0001.json")
    other = json.loads(whole)
    other["context"]["machine"]["cpu_model"] = "another"
    launch.write_text(json.dumps(other))
    refused(capsys, study, "duet-002/a: its launches differ")
    launch.write_text(whole)
    for name in ("duet-003/duet.json",):
        study.file(name).write_text("{}")
        refused(capsys, study, "duet-003")


def test_duets_of_another_machine_or_binary_are_refused(study, capsys):
    assert study() == 0
    head = study.file("duet-003/duet.json")
    whole = head.read_text()
    raw = json.loads(whole)
    for side in raw["sides"]:
        side["sha256"] = "0" * 64
    head.write_text(json.dumps(raw))
    refused(capsys, study, "another binary")
    head.write_text(whole)
    for path in (p for side in "ab" for p in study.file(f"duet-003/{side}").iterdir()):
        raw = json.loads(path.read_text())
        raw["context"]["machine"]["cpu_model"] = "another"
        path.write_text(json.dumps(raw))
    refused(capsys, study, "measured on another machine")


def test_calibration_of_another_machine_is_not_written_over(study, capsys):
    assert study(duets=1) == 0
    raw = json.loads(study.out.read_text())
    raw["machine"]["cores"] = 3
    study.out.write_text(json.dumps(raw))
    refused(capsys, study, "another machine", duets=1)
    study.out.write_text("{}")
    refused(capsys, study, "calibration.json", duets=1)


def test_what_cannot_be_written_or_started_is_exit_3(study, monkeypatch, capsys):
    study.out = study.path / "absent" / "x.json"
    assert study() == 3 and not study.log.exists()
    study.out = study.path / "x.json"
    monkeypatch.setenv("ASSAY_COMMAND", str(study.path / "nowhere"))
    assert study() == 3
    assert capsys.readouterr().err.count("assay calibrate:") == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--duets", "0"),
        ("--duets", "x"),
        ("--duets", "-1"),
        ("--pairs", "5"),
        ("--pairs", "1001"),
        ("--rounds", "0"),
        ("--rounds", "1.5"),
        ("--rounds", "²"),
        ("--seed", "-1"),
        ("--seed", "9" * 19),
        ("--inject", ""),
        ("--inject", "0"),
        ("--inject=-5%",),
        ("--inject", "5%,"),
        ("--inject", "1,2,3"),
        ("--inject", "1001"),
        ("--inject", "nan"),
        ("--time", "0"),
        ("--time", "9 m"),
        ("--time", "1.5m"),
        ("--time", ""),
        ("--device", "cuda"),
        ("--device", "cpu,cuda0"),
    ],
)
def test_malformed_options(study, capsys, words):
    assert main(["calibrate", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not study.log.exists()


def test_small_injection_has_a_threshold_below_it(study):
    assert study("--inject", "2%,3%", duets=1) == 0
    assert json.loads(study.out.read_text())["studies"]["cpu"]["side_by_side"]["threshold"] == pytest.approx(0.01)


def test_second_device_is_put_into_the_same_file(study):
    assert study() == 0
    old = json.loads(study.out.read_text())
    new = copy.deepcopy(old)
    new["studies"] = {"cuda0": new["studies"]["cpu"]}
    new["studies"]["cuda0"]["overall"] |= {"launch_sd": 0.5, "degrees_of_freedom": 9, "session_sd": 1e-6}
    new["studies"]["cuda0"]["overall"]["detectable_effect"] = None
    new["cases"] = {"launch/graph/chain:64/dev:cuda0": new["cases"][ids()[0]]}
    both = merged(old, new)
    assert set(both["studies"]) == {"cpu", "cuda0"}
    assert set(both["cases"]) == {*ids(), "launch/graph/chain:64/dev:cuda0"}
    assert (both["launch_sd"], both["degrees_of_freedom"]) == (0.5, 9)
    assert both["session_sd"] == old["session_sd"]
    assert both["detectable_effect"] is None  # of one device none is stated
    study.out.write_text(json.dumps(both))
    assert load_calibration(study.out).between("launch/graph/chain:64/dev:cuda0") is not None
    again = merged(both, old)
    assert set(again["studies"]) == {"cpu", "cuda0"} and set(again["cases"]) == set(both["cases"])


def test_file_is_named_after_the_hardware():
    machine = {"cpu_model": "AMD EPYC", "cores": 2, "accelerators": []}
    assert machine_name(machine) == "amd-epyc-2-cores"
    assert machine_name(machine | {"accelerators": ["NVIDIA H200"]}) == "nvidia-h200"
    assert machine_name(machine | {"accelerators": ["NVIDIA H200"] * 8}) == "nvidia-h200-x8"
    assert machine_name(machine | {"cpu_model": "../ü"}) == "2-cores"
