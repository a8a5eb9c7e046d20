#!/usr/bin/env bash
# Installs a build into a new prefix, builds the project of this folder against it, runs a quick plan of its suite and
# validates the result.
#   tests/outside/test.sh BUILD_DIR
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
[ $# -eq 1 ] || { printf 'usage: tests/outside/test.sh BUILD_DIR\n' >&2; exit 2; }
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
    -DASSAY_DEPS="${ASSAY_DEPS:-}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
# Nothing of the source tree is needed any more: only the prefix is on the include path.
! grep -rqF "$top/harness" "$work/build/CMakeFiles" "$work/prefix/lib/cmake" 2>/dev/null ||
    { printf 'the installed package names the source tree\n' >&2; exit 1; }

"$work/build/outside" list | grep -q '^ *sums' || { printf 'list lacks the suite\n' >&2; exit 1; }
"$work/build/outside" run --profile quick --budget 10s --out "$work/result.json"

python=$top/build/venv/bin/python
[ -x "$python" ] || python=python3
"$python" - "$work/result.json" "$top/results/schema" <<'PYTHON'
import json
import pathlib
import sys

result = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
cases = result["cases"]
assert len(cases) == 6, [case["id"] for case in cases]
assert {case["suite"] for case in cases} == {"sums"}
for case in cases:
    assert case["status"] == "done", (case["id"], case["reason"])
    assert case["verification"]["status"] == "passed", case["id"]
    assert case["statistics"]["median_ns"] > 0, case["id"]
try:
    import jsonschema
except ImportError:
    print("jsonschema is not there: the schema was not checked")
else:
    schema = next(pathlib.Path(sys.argv[2]).glob("*result*.json"))
    jsonschema.validate(result, json.loads(schema.read_text(encoding="utf-8")))
PYTHON

# The installed command works from its new place too, and finds its share folder.
"$work/prefix/bin/assay" list >/dev/null
[ -d "$work/prefix/share/assay/reports" ] || { printf 'share/assay/reports is not installed\n' >&2; exit 1; }
printf 'A project outside the tree: built, run, validated.\n'
