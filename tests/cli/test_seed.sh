#!/usr/bin/env bash
# One seed: the same inputs and, for deterministic cases, the same outputs. Another seed: different ones.
# shellcheck disable=SC2016 # jq has its own $names
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

sums='[.cases[] | select(.status == "done") | select(.verification.deterministic)
       | {id, inputs: .verification.input_checksum, outputs: .verification.output_checksum}] | sort_by(.id)'
for run in "a 7" "b 7" "c 8"; do
    read -r name seed <<<"$run"
    expect 0 "$ASSAY" run "${small[@]}" --seed "$seed" --rounds 1 --out "$work/$name.json"
    strict "$work/$name.json"
    holds "$work/$name.json" '.context.seed == $seed' --arg seed "$seed"
    jq "$sums" "$work/$name.json" >"$work/$name.sums"
    holds "$work/$name.sums" 'length > 0 and all(.[]; (.inputs | length == 16) and (.outputs | length == 16))'
done
cmp -s "$work/a.sums" "$work/b.sums" || fail "one seed, different checksums: $(diff "$work/a.sums" "$work/b.sums")"
jq -e -n --slurpfile a "$work/a.sums" --slurpfile c "$work/c.sums" \
    '[$a[0], $c[0]] | transpose | all(.[]; .[0].id == .[1].id and .[0].inputs != .[1].inputs and .[0].outputs != .[1].outputs)' \
    >/dev/null || fail "another seed gave the same checksums"
