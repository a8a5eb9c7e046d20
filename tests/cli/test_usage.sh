#!/usr/bin/env bash
# Bad input: a message of one line that names the remedy, the right exit code, and no result file.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

out=$work/result.json
usage() { # usage REGEX ARGUMENT...
    local regex=$1
    shift
    expect 2 "$ASSAY" "$@"
    said "$regex"
    [ ! -e "$out" ] || fail "a result was written: $*"
}

usage 'nosuch' run --suite nosuch --out "$out"
usage 'matmul' run --suite nosuch --out "$out" # names what there is
usage 'nosuch' run --nosuch --out "$out"
usage 'nosuch' nosuch
usage 'gpu7' run --device gpu7 --out "$out"
usage 'nothing_here' run --filter nothing_here --out "$out"
usage 'filter' run --filter '(' --out "$out"
usage 'profile' run --profile fast --out "$out"
usage 'word' run word --out "$out"
usage 'out' run --out
for seed in x -1 '' ' 1' 1.5 0x10 1e3 18446744073709551616 99999999999999999999999; do
    usage 'seed' run --seed "$seed" --out "$out"
done
for budget in 5x -1 -5s 0 0s '' s 1.5s 99999999999999999999s 9223372036854775807h; do
    usage 'budget' run --budget "$budget" --out "$out"
done
for launches in 0 -1 x 1.5 99999999999999999999 2147483648 4294967297; do
    usage 'launches' run --launches "$launches" --out "$out"
done
for cpus in x 0- -1 3-1 0,,1 99999999999999999999; do
    usage 'CPU|cpus' run --cpus "$cpus" --out "$out"
done
usage 'gpu' run --gpu x --out "$out"
usage 'ceilings' run --ceilings maybe --out "$out"
usage 'resume' run --resume "$work/absent.json"

# Google Benchmark's flags: those with a row map, the others are refused.
usage 'benchmark_nosuch' run --benchmark_nosuch=1 --out "$out"
usage 'csv' run --benchmark_out_format=csv --out "$out"
expect 0 "$ASSAY" run --suite matmul --device cpu --benchmark_filter='naive/n:17/' --benchmark_list_tests=true
grep -q '^matmul/naive/n:17/' "$work/out" || fail "no id listed"
if grep -vq '^matmul/naive/n:17/' "$work/out"; then fail "more than the filtered ids listed"; fi

# A suite that must be named is in no other plan; its environment variable is checked before anything runs.
if "$ASSAY" run --device cpu --dry-run | grep -q ' synthetic/'; then fail "an ordinary plan holds synthetic cases"; fi
usage 'spin' run --filter '^synthetic/spin/us:50/dev' --out "$out"
expect 0 "$ASSAY" run --suite synthetic --device cpu --dry-run --out "$out"
grep -q ' synthetic/spin/us:50/inject:1/' "$work/out" || fail "--suite synthetic plans no injected case"
printf 'synthetic/spin/us:50/inject:1/dev:cpu\n' >"$work/one"
expect 0 "$ASSAY" run --cases "$work/one" --dry-run --out "$out"
for share in -0.05 x '' 11 1e-2 '0.05,' ',0.05' 0.05,x nan; do
    ASSAY_INJECT=$share usage 'ASSAY_INJECT' run --cases "$work/one" --out "$out"
done

# What is good is let through: the largest seed, and a plan that runs nothing.
expect 0 "$ASSAY" run "${small[@]}" --seed 18446744073709551615 --dry-run --out "$out"
[ ! -e "$out" ] || fail "--dry-run wrote a result"

expect 0 "$ASSAY" --help
for option in suite filter device profile budget launches seed cpus gpu out strict dry-run resume exec if-present; do
    grep -q -- "--$option" "$work/out" || fail "--help lacks --$option"
done
expect 0 "$ASSAY" --version
grep -qE '[0-9]+\.[0-9]+\.[0-9]+' "$work/out" || fail "no version"
expect 0 "$ASSAY" list
grep -q matmul "$work/out" || fail "list lacks matmul"
expect 0 "$ASSAY" list --suite memcpy,launch
grep -q '^launch: ' "$work/out" || fail "list --suite lacks one that was named"
if grep -q '^matmul: ' "$work/out"; then fail "list --suite has one that was not named"; fi
expect 2 "$ASSAY" list --suite memcopy
said 'unknown; there are matmul'
expect 2 "$ASSAY" list --filter x
said 'run --dry-run'
expect 0 "$ASSAY" list --json
holds "$work/out" '[.suites[].name] | index("matmul") != null and index("memcpy") != null and index("launch") != null'

# A case that is named is taken, whatever profile offers it.
printf 'launch/static_plan/chain:64/threads:all/dev:cpu\n' >"$work/named"
expect 0 "$ASSAY" run --cases "$work/named" --dry-run --out "$work/named.json"
grep -q '^1 of 1 cases fit' "$work/out" || fail "a named case of profile standard is not taken"

# Nothing is written under a name that promises another format.
usage 'plain JSON.*gzip' run "${small[@]}" --out "$work/packed.json.gz"
[ ! -e "$work/packed.json.gz" ] || fail "a refused name was written to"
