#!/usr/bin/env bash
# A device that is absent: 3, and 77 with --if-present. CUDA_VISIBLE_DEVICES hides the GPU where there is one.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

export CUDA_VISIBLE_DEVICES=
expect 3 "$ASSAY" run --device cuda0 --budget 20s --out "$work/result.json"
said 'cuda'
expect 77 "$ASSAY" run --device cuda0 --budget 20s --if-present --out "$work/result.json"
[ ! -e "$work/result.json" ] || fail "a result of nothing was written"

# Without --device the CPU is measured and the result says why CUDA is not there.
expect 0 "$ASSAY" run --suite matmul --filter '^matmul/naive/n:17/dev:cpu$' --ceilings off --rounds 1 --out "$work/result.json"
strict "$work/result.json"
[ -z "$(jq -r .context.assay.toolkit "$work/result.json")" ] || # a build without CUDA has no such device to miss
    holds "$work/result.json" '.context.absent | length > 0 and all(.[]; .kind == "cuda" and (.reason | length > 0))'
holds "$work/result.json" '[.cases[].device.kind] | unique == ["cpu"]'

# --if-present forgives absent hardware alone, never a wrong command.
expect 2 "$ASSAY" run --suite nosuch --if-present
expect 2 "$ASSAY" run --device nosuch --if-present
