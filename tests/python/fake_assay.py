"""Stand-ins for an assay binary: scripts that list cases and write results with times that the test chooses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import launches

# Standard library alone: it starts some hundred times in a test.
SCRIPT = """#!{python}
import json, math, os, random, re, sys, time
config = json.loads({config!r})
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1] if name in words else None
names = list(config["times"])
if value("--cases"):
    names = open(value("--cases")).read().split()
    unknown = [n for n in names if n not in config["times"]]
    if unknown:
        print("assay: --cases: there is no case " + unknown[0], file=sys.stderr)
        sys.exit(2)
if value("--filter"):
    names = [n for n in names if re.search(value("--filter"), n)]
if "--benchmark_list_tests" in words:
    print("\\n".join(names))
    sys.exit(0 if names else 2)
out = value("--out")
pair = int(os.path.basename(out).split(".")[0])
time.sleep(config["sleep"])
if pair in config["crash"]:
    print("assay: crashed", file=sys.stderr)
    sys.exit(3)
rng = random.Random(os.path.abspath(out).split(os.sep)[-2] + str(pair))
result, code = config["head"], 0
result["context"]["seed"] = value("--seed")
result["context"]["environment_variables"] = {{k: v for k, v in os.environ.items() if k.startswith("FAKE_")}}
for name in names:
    case = json.loads(json.dumps(config["case"]))
    case["id"] = name
    middle = config["times"][name] * math.exp(rng.gauss(0, config["spread"])) * float(os.environ.get("FAKE_FACTOR", 1))
    case["series"][0]["samples"] = [[round(middle * s) for s in (1, 1.001, 1.002)]] * 6
    case["verification"]["input_checksum"] = config["checksum"]
    if pair in config["fail"].get(name, []):
        case.update(status="failed", reason="wrong at (3, 5)", series=[], rounds=[])
        code = 1
    result["cases"].append(case)
json.dump(result, open(out, "w"))
sys.exit(code)
"""


def write(
    path: Path,
    times: dict,
    *,
    spread: float = 0.002,
    fail: dict | None = None,
    crash: tuple = (),
    checksum: str = "0123456789abcdef",
    sleep: float = 0.0,
    **context,
) -> str:
    """`times`: ids to nanoseconds. `fail`: ids to the pairs in which they fail; `crash`: pairs without a result."""
    config = {
        "times": times,
        "spread": spread,
        "fail": fail or {},
        "crash": list(crash),
        "checksum": checksum,
        "sleep": sleep,
        "head": launches.head(**context),
        "case": launches.case("", [[[1]]] * 1) | {"rounds": [{"launch": 0, "round": r} for r in range(6)]},
    }
    path.write_text(SCRIPT.format(python=sys.executable, config=json.dumps(config)), encoding="utf-8")
    path.chmod(0o755)
    return str(path)
