#!/usr/bin/env bash
# assay doctor: usage, exit codes, strict JSON with the documented keys, and nothing about anybody's command lines.
# What this machine is like decides between 0 and 4, never more.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

fit() { # fit ARGUMENT...: runs doctor; 0 or 4
    local rc=0
    "$ASSAY" doctor --sample 100ms "$@" >"$work/out" 2>"$work/err" </dev/null || rc=$?
    [ "$rc" -eq 0 ] || [ "$rc" -eq 4 ] || fail "exit $rc: doctor $*"
    code=$rc
}

# ---- usage ----
for words in --nosuch word '--device gpu7' '--device cpu,gpu7' '--device cpu3' '--for fast' '--sample x' '--sample 0s' \
    '--sample 99ms' '--sample 61s' '--sample' '--cpus x' '--cpus 3-1' '--json=yes' '--suite matmul'; do
    # shellcheck disable=SC2086 # words of a command line
    expect 2 "$ASSAY" doctor $words
    said 'doctor|device|for|sample|cpus|json'
    [ ! -s "$work/out" ] || fail "a report beside the error: $words"
done
expect 0 "$ASSAY" doctor --help
for option in device cpus for sample out json; do
    grep -q -- "--$option" "$work/out" || fail "--help lacks --$option"
done

# ---- the report ----
fit --device cpu --json
cp "$work/out" "$work/doctor.json"
python3 - "$work/doctor.json" "$code" 2>"$work/err" <<'PYTHON' || fail "the report is not as documented"
import json, sys

def refuse(word):
    raise ValueError(word)

report = json.load(open(sys.argv[1], encoding="utf-8"), parse_constant=refuse)
keys = {"schema", "version", "date", "for", "device", "cpus", "sample_s", "findings", "counts", "verdict", "exit_code"}
assert set(report) == keys, set(report) ^ keys
assert report["schema"] == "assay.doctor/1" and report["exit_code"] == int(sys.argv[2])
assert report["verdict"] == {0: "fit", 4: "warnings"}[report["exit_code"]]
assert report["device"] == "cpu" and report["for"] == "quick" and abs(report["sample_s"] - 0.1) < 1e-9
statuses = ["ok", "note", "unknown", "warning", "unfit"]
assert set(report["counts"]) == set(statuses)
of_finding = {"subject", "check", "status", "found", "why", "remedy", "looks_at", "warns_from"}
for f in report["findings"]:
    assert set(f) == of_finding, f
    assert f["status"] in statuses and f["found"] and f["why"] and f["looks_at"], f
    assert f["warns_from"] in ("quick", "standard", "publish"), f
    assert (f["remedy"] is None) == (f["status"] == "ok"), f
    assert f["remedy"] is None or f["remedy"].strip(), f
for status in statuses:
    assert report["counts"][status] == sum(f["status"] == status for f in report["findings"])
names = [f["check"] for f in report["findings"]]
assert len(names) == len(set(names)) >= 38, names
PYTHON

fit --device cpu
grep -qE '^(ok|note|unknown|warning) +host +governor ' "$work/out" || fail "no line of the governor"
tail -n 1 "$work/out" | grep -qE '^quick on CPUs [0-9,-]+, watched for 0\.1 s: fit' || fail "no closing line"
grep -qE '^unfit 0, warning [0-9]+, unknown [0-9]+, note [0-9]+, ok [0-9]+$' "$work/out" || fail "no counts"

# ---- a program that keeps a CPU busy is named, its arguments are not ----
bash -c 'exec -a assay_secret_argument bash -c "while :; do :; done" topsecretword' &
busy=$!
rc=0
"$ASSAY" doctor --device cpu --sample 1s >"$work/out" 2>"$work/err" || rc=$?
kill "$busy"
wait "$busy" 2>/dev/null
[ "$rc" -eq 4 ] || fail "exit $rc beside a busy process"
grep -qE '^warning +host +(cpu_load|other_load|smt)' "$work/out" || fail "a busy CPU is not seen"
if grep -qE 'topsecretword|while :' "$work/out"; then fail "a command line is shown"; fi

# ---- unfit ----
expect 3 "$ASSAY" doctor --device cpu --sample 100ms --cpus 1023
grep -qE '^unfit +host +cpus' "$work/out" || fail "CPUs that are not there are not unfit"
expect 3 "$ASSAY" doctor --device cpu --sample 100ms --out "$work/absent/result.json"
grep -qE '^unfit +host +disk' "$work/out" || fail "a missing folder is not unfit"
export CUDA_VISIBLE_DEVICES=
expect 3 "$ASSAY" doctor --device cuda0 --sample 100ms
grep -qE '^unfit +cuda0 +present' "$work/out" || fail "a missing GPU is not unfit"
fit
grep -qE '^note +cuda +present' "$work/out" || fail "an absent GPU is no note"
left=$(find "$work" -mindepth 1 ! -name out ! -name err ! -name doctor.json)
[ -z "$left" ] || fail "doctor left a file: $left"

# ---- where the report cannot be written ----
if [ -e /dev/full ]; then
    rc=0
    "$ASSAY" doctor --device cpu --sample 100ms >/dev/full 2>"$work/err" || rc=$?
    [ "$rc" -ne 0 ] || fail "a full disk ends in 0"
    said 'standard output'
fi

# ---- a run whose cases are suspect names doctor ----
"$ASSAY" run "${small[@]}" --rounds 1 --out "$work/result.json" >"$work/out" 2>"$work/err" </dev/null
if grep -qE '(is|are) suspect' "$work/err"; then
    grep -q 'assay doctor' "$work/err" || fail "the warning does not name doctor"
fi
