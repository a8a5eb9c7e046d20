#!/usr/bin/env bash
# Every case that the rows of articles.toml select exists in this build: `newer` excuses an older result, not a misspelt
# name. Devices that the build leaves out say nothing.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)
python=${ASSAY_PYTHON:-$root/build/venv/bin/python}
if ! "$python" -c 'import numpy, scipy, matplotlib, jinja2' 2>/dev/null; then
    echo "skipped: $python lacks numpy, scipy, matplotlib or jinja2; set ASSAY_PYTHON"
    exit 77
fi
expect 0 "$ASSAY" list --json
cp "$work/out" "$work/catalogue.json"
check() { PYTHONPATH=$root "$python" - "$1" "$work/catalogue.json" <<'PYTHON'; }
import json, sys
from pathlib import Path
from reports.claims_file import load_claims
from reports.claims_measured import Illegal, Untestable, check_selection

catalogue, checked = json.loads(Path(sys.argv[2]).read_text()), 0
for claim in load_claims(Path(sys.argv[1])):
    for variables in claim.instances():
        for selection in claim.selections(variables).values():
            try:
                check_selection(selection, catalogue)
                checked += 1
            except Untestable:
                continue
            except Illegal as fault:
                sys.exit(f"{claim.id}: {fault}")
sys.exit(0 if checked > 4 else f"only {checked} selections could be checked")
PYTHON
check "$root/results/claims/articles.toml" || fail "a row of articles.toml selects what this build has not"
sed 's/variant = "request_straight", device = "cpu"/variant = "request_strait", device = "cpu"/' \
    "$root/results/claims/articles.toml" >"$work/misspelt.toml"
if check "$work/misspelt.toml" 2>"$work/err"; then
    fail "a misspelt variant passed"
fi
grep -q "request_strait" "$work/err" || fail "the message does not name the misspelt variant"
