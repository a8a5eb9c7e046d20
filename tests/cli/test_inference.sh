#!/usr/bin/env bash
# Suite inference on the smallest model: a single case prints where its time goes, and the result closes.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

printf '%s\n' 'inference/simd/model:tiny/context:128/dev:cpu' >"$work/one"
expect 0 "$ASSAY" run --profile standard --suite inference --device cpu --cases "$work/one" --budget 60s --rounds 6 \
    --energy off --quiet --out "$work/one.json"
strict "$work/one.json"
holds "$work/one.json" '.cases[0].status == "done" and .cases[0].verification.status == "passed"'
grep -q '^parts of inference/simd/model:tiny' "$work/out" || fail "no breakdown of a single case"
for part in embed qkv rotary kv_write attention output mlp/gate_up mlp/activation mlp/down final_norm head; do
    grep -qE "decode +$part +host" "$work/out" || fail "the breakdown lacks $part"
done
grep -qE 'unattributed .* the instruments cost' "$work/out" || fail "what is left over is not printed"

# The parts fill the instrumented time, layers add up, and the figures by formula stand among the metrics.
holds "$work/one.json" '.cases[0].breakdown | .unattributed_ns >= 0 and .unattributed_ns <= 0.05 * .instrumented_ns'
holds "$work/one.json" '[.cases[0].parts[] | select(.path == "attention" and .layer != null)] | length == 2'
holds "$work/one.json" '[.cases[0].metrics[].name] | contains(["tokens_per_s", "mbu", "mfu", "weights_bytes",
    "kv_bytes", "activation_bytes", "peak_bytes"])'
holds "$work/one.json" '[.cases[0].series[].name] == ["time"]' # a decode step has no time to first token

# A generation has both series; two cases print no breakdown, and both have one.
printf '%s\n' 'inference/naive/model:tiny/phase:generate/type:f32/dev:cpu' \
    'inference/simd/model:tiny/phase:generate/type:f32/dev:cpu' >"$work/two"
expect 0 "$ASSAY" run --profile standard --suite inference --device cpu --cases "$work/two" --budget 60s --rounds 2 \
    --quiet --ceilings off --telemetry off --energy off --out "$work/two.json"
if grep -q '^parts of' "$work/out"; then fail "a breakdown of one case among two"; fi
holds "$work/two.json" 'all(.cases[]; [.series[].name] == ["time", "ttft_ns", "itl_ns"])'
holds "$work/two.json" 'all(.cases[]; [.metrics[].name] | contains(["ttft_ns", "itl_ns"]))'
holds "$work/two.json" 'all(.cases[]; [.parts[].phase] | unique == ["decode", "prefill"])'
# Greedy tokens in f32 are the same on both rungs.
holds "$work/two.json" '[.cases[].verification.output_checksum] | unique | length == 1'

# Images: the parts of a network, operation by operation, and their rate.
printf '%s\n' 'inference/simd/model:tiny-cnn/phase:forward/batch:3/type:f32/dev:cpu' >"$work/images"
expect 0 "$ASSAY" run --profile standard --suite inference --device cpu --cases "$work/images" --budget 60s --rounds 2 \
    --quiet --ceilings off --telemetry off --energy off --out "$work/images.json"
strict "$work/images.json"
holds "$work/images.json" '.cases[0].status == "done" and .cases[0].verification.status == "passed"'
holds "$work/images.json" '[.cases[0].series[].name] == ["time"]'
holds "$work/images.json" '[.cases[0].metrics[].name] | contains(["images_per_s", "weights_bytes", "images_bytes"])'
holds "$work/images.json" '[.cases[0].parts[] | select(.layer == null) | .path] | contains(["images", "stem", "max_pool",
    "stage1/convolution", "stage4/projection", "average_pool", "head"])'
holds "$work/images.json" '[.cases[0].parts[] | select(.path == "stage2/convolution" and .layer != null)] | length == 4'
