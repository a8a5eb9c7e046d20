/* The decoder on the host: every rung against the float64 reference on ragged shapes, the cache against recomputation,
 * rows against one another, layers against layers, broken kernels, and the breakdown's sums. */
#include "host_case.h"
#include "kernels/inference/decoder_cpu.h"
#include "kernels/isa.h"
#include "parts.h"
#include "suites/inference/inference.h"
#include "suites/suites.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void trial_begin(host_case *t, const char *variant, const char *axes, as_team *team) {
    host_begin(t, &as_inference_suite, host_variant(&as_inference_suite, variant), axes, team);
}

static uint32_t *tokens_of(const host_case *t) {
    return t->operand[t->work.operands - 2]; /* the tokens stand before the output in every phase */
}

static void accept(const char *variant, const char *axes, as_team *team) {
    host_case t;
    trial_begin(&t, variant, axes, team);
    host_run(&t);
    const double worst = host_worst(&t);
    if (!(worst <= 1))
        fail_msg("inference/%s %s: %.3g of the tolerance, %d threads", variant, axes, worst, as_team_size(team));
    if (getenv("ASSAY_TEST_SHOW"))
        print_message("inference/%s %s: %.3g of the tolerance\n", variant, axes, worst);
    host_end(&t);
}

/* ---- against the reference ---- */

static const char *const shapes[] = {
    "model=tiny;context=0",
    "model=tiny;context=1;batch=2",
    "model=tiny;context=511",
    "model=tiny;context=65;batch=3",
    "model=tiny;context=200;batch=4",
    "model=tiny;phase=prefill;prompt=1",
    "model=tiny;phase=prefill;prompt=2;batch=2",
    "model=tiny;phase=prefill;prompt=33;batch=3",
    "model=tiny;phase=prefill;prompt=127",
    "model=tiny;phase=generate;prompt=1;tokens=5;batch=3",
    "model=tiny;phase=generate;prompt=17;tokens=9",
};

static void rungs_match_the_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int f32 = 0; f32 < 2; f32++) {
            char axes[128], all[160];
            snprintf(axes, sizeof axes, "%s%s", shapes[i], f32 ? ";type=f32" : "");
            snprintf(all, sizeof all, "%s;threads=all", axes);
            accept("naive", axes, team_of_one);
            for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512 + 1; isa++) {
                as_isa_limit(isa <= AS_ISA_AVX512 ? (as_isa)isa : AS_ISA_AVX512);
                as_isa_allow_bf16(isa > AS_ISA_AVX512);
                accept("simd", axes, team_of_one);
                accept("simd", all, team_of_three);
            }
            if (f32) {
                accept("openblas", axes, team_of_one);
                accept("openblas", all, team_of_three);
            }
        }
}

/* ---- faults ---- */

typedef enum fault { WHOLE, SWAPPED, NOT_A_NUMBER, UNWRITTEN, NEXT_TOKEN, HEADS, LAST_LEFT_OUT, FAULTS } fault;

/* Runs the plain rung with something wrong in it; true where the output is accepted all the same. */
static bool passes_with(fault what) {
    host_case t;
    trial_begin(&t, "naive", "model=tiny;context=40;batch=2;type=f32", team_of_one);
    const as_step s = as_step_of(&t.params);
    const int64_t half = as_step_kv_elements(&s) / 2 / s.model->layers;
    float *kv = t.operand[1], *logits = host_output(&t), *keep = malloc((size_t)as_step_kv_elements(&s) * sizeof *kv);
    assert_non_null(keep);
    memcpy(keep, kv, (size_t)as_step_kv_elements(&s) * sizeof *kv);
    const uint32_t token = tokens_of(&t)[1];
    if (what == NEXT_TOKEN)
        tokens_of(&t)[1]++;
    if (what == HEADS) /* keys of the first layer's second head read as its first's */
        memcpy(kv + as_step_kv_offset(&s, 0, 0, 0, 1), kv + as_step_kv_offset(&s, 0, 0, 0, 0),
               (size_t)(s.context * s.model->head_dim) * sizeof *kv);
    if (what == LAST_LEFT_OUT) /* the value of the last earlier token, in the last layer */
        memset(kv + as_step_kv_offset(&s, s.model->layers - 1, 1, 0, 0) + (s.context - 1) * s.model->head_dim, 0,
               (size_t)s.model->head_dim * sizeof *kv);
    assert_true(half > 0);
    host_run(&t);
    memcpy(kv, keep, (size_t)as_step_kv_elements(&s) * sizeof *kv);
    tokens_of(&t)[1] = token;
    const int64_t last = t.work.rows * t.work.columns - 1;
    const float first = logits[0];
    if (what == SWAPPED)
        logits[0] = logits[last], logits[last] = first;
    if (what == NOT_A_NUMBER)
        logits[last / 2] = NAN;
    if (what == UNWRITTEN)
        memset(&logits[last], 0xFF, sizeof *logits);
    const bool passed = host_worst(&t) <= 1;
    free(keep);
    host_end(&t);
    return passed;
}

static void faults_are_refused(void **state) {
    (void)state;
    assert_true(passes_with(WHOLE));
    for (int f = SWAPPED; f < FAULTS; f++)
        if (passes_with((fault)f))
            fail_msg("fault %d passed", f);
}

/* A token that is not among the largest, where only its own step can tell. */
static void a_wrong_choice_is_refused(void **state) {
    (void)state;
    host_case t;
    trial_begin(&t, "naive", "model=tiny;phase=generate;prompt=9;tokens=6;type=f32", team_of_one);
    host_run(&t);
    assert_true(host_worst(&t) <= 1);
    uint32_t *chosen = host_output(&t);
    chosen[5] ^= 1;
    assert_true(host_worst(&t) > 1);
    chosen[5] = UINT32_MAX;
    assert_true(host_worst(&t) > 1);
    host_end(&t);
}

/* ---- the cache, rows, tokens ---- */

typedef struct heads_seen {
    float *logits; /* of the last head stage */
    int count, columns;
} heads_seen;

static void see_head(void *context, const char *path, int layer, const float *values, int64_t rows, int64_t columns) {
    heads_seen *h = context;
    (void)layer;
    if (strcmp(path, "head") != 0)
        return;
    h->count++;
    memcpy(h->logits, values, (size_t)(rows * columns) * sizeof *values);
}

static double distance(const float *a, const float *b, int64_t n) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        difference = fmax(difference, fabs((double)a[i] - (double)b[i]));
        size += (double)a[i] * (double)a[i];
    }
    return difference / sqrt(size / (double)n);
}

/* A decode step after a prefill gives what the prefill of one more token gives. */
static void check_cache(const char *variant, const char *type, as_team *team) {
    float logits[256];
    host_case step, whole;
    char axes[96];
    snprintf(axes, sizeof axes, "model=tiny;phase=generate;prompt=40;tokens=2;type=%s", type);
    trial_begin(&step, variant, axes, team);
    as_decoder_cpu *d = as_route_state(step.call.state);
    heads_seen seen = {.logits = logits};
    d->tap = see_head;
    d->tap_context = &seen;
    host_run(&step);
    assert_int_equal(seen.count, 2);
    snprintf(axes, sizeof axes, "model=tiny;phase=prefill;prompt=41;type=%s", type);
    trial_begin(&whole, variant, axes, team);
    memcpy(tokens_of(&whole), tokens_of(&step), 40 * sizeof(uint32_t));
    tokens_of(&whole)[40] = *(uint32_t *)host_output(&step);
    host_run(&whole);
    const double off = distance(host_output(&whole), logits, 256);
    if (!(off <= whole.work.tolerance))
        fail_msg("%s in %s: the cache is off by %.3g", variant, type, off);
    host_end(&step);
    host_end(&whole);
}

static void the_cache_equals_recomputation(void **state) {
    (void)state;
    const char *const types[] = {"f32", "bf16"};
    for (int i = 0; i < 2; i++) {
        check_cache("naive", types[i], team_of_one);
        check_cache("simd", types[i], team_of_one);
        check_cache("simd", types[i], team_of_three);
    }
}

/* Each row of a batch alone gives what it gives among the others. */
static void check_rows(const char *variant, as_team *team) {
    host_case all, one;
    trial_begin(&all, variant, "model=tiny;context=37;batch=3;type=f32", team);
    host_run(&all);
    const as_step s = as_step_of(&all.params);
    for (int64_t row = 0; row < 3; row++) {
        trial_begin(&one, variant, "model=tiny;context=37;type=f32", team);
        const as_step alone = as_step_of(&one.params);
        const size_t bytes = (size_t)(as_step_capacity(&s) * s.model->head_dim) * sizeof(float);
        for (int layer = 0; layer < s.model->layers; layer++)
            for (int which = 0; which < 2; which++)
                for (int head = 0; head < s.model->kv_heads; head++)
                    memcpy((float *)one.operand[1] + as_step_kv_offset(&alone, layer, which, 0, head),
                           (float *)all.operand[1] + as_step_kv_offset(&s, layer, which, row, head), bytes);
        tokens_of(&one)[0] = tokens_of(&all)[row];
        host_run(&one);
        const double off = distance(host_output(&one), (float *)host_output(&all) + row * 256, 256);
        if (!(off <= all.work.tolerance))
            fail_msg("%s: row %lld is off by %.3g", variant, (long long)row, off);
        host_end(&one);
    }
    host_end(&all);
}

static void rows_do_not_influence_one_another(void **state) {
    (void)state;
    check_rows("naive", team_of_one);
    check_rows("simd", team_of_one);
    check_rows("simd", team_of_three);
}

static void greedy_tokens_are_the_same(void **state) {
    (void)state;
    const char *const axes = "model=tiny;phase=generate;prompt=8;tokens=64;batch=2;type=f32";
    host_case plain, fast;
    trial_begin(&plain, "naive", axes, team_of_one);
    host_run(&plain);
    for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++)
        for (int threads = 0; threads < 2; threads++) {
            as_isa_limit((as_isa)isa);
            trial_begin(&fast, "simd", axes, threads ? team_of_three : team_of_one);
            host_run(&fast);
            assert_memory_equal(host_output(&plain), host_output(&fast), 2 * 64 * sizeof(uint32_t));
            assert_true(fast.extra[AS_EXTRA_TTFT] > 0 && fast.extra[AS_EXTRA_ITL] > 0);
            host_end(&fast);
        }
    host_end(&plain);
}

/* ---- layer by layer ---- */

typedef struct dump {
    float *values; /* of all stages, one after another */
    char name[256][24];
    int64_t begin[257];
    int stages;
} dump;

static void take_stage(void *context, const char *path, int layer, const float *values, int64_t rows, int64_t columns) {
    dump *d = context;
    assert_true(d->stages < 256);
    snprintf(d->name[d->stages], sizeof d->name[0], "%s %d", path, layer);
    const int64_t n = rows * columns, at = d->begin[d->stages];
    d->values = realloc(d->values, (size_t)(at + n) * sizeof *d->values);
    assert_non_null(d->values);
    memcpy(d->values + at, values, (size_t)n * sizeof *values);
    d->begin[++d->stages] = at + n;
}

static void dump_stages(const char *variant, const char *axes, as_team *team, dump *out) {
    host_case t;
    trial_begin(&t, variant, axes, team);
    memset(out, 0, sizeof *out);
    as_decoder_cpu *d = as_route_state(t.call.state);
    d->tap = take_stage;
    d->tap_context = out;
    host_run(&t);
    host_end(&t);
}

static void check_layers(const char *axes) {
    static dump plain, fast;
    const as_params p = case_params(&as_inference_suite, axes);
    const as_step s = as_step_of(&p);
    dump_stages("naive", axes, team_of_one, &plain);
    dump_stages("simd", axes, team_of_three, &fast);
    assert_int_equal(plain.stages, fast.stages);
    assert_int_equal(plain.stages, 3 + 10 * s.model->layers);
    for (int i = 0; i < plain.stages; i++) {
        assert_string_equal(plain.name[i], fast.name[i]);
        const int64_t n = plain.begin[i + 1] - plain.begin[i];
        assert_int_equal(n, fast.begin[i + 1] - fast.begin[i]);
        const double off = distance(plain.values + plain.begin[i], fast.values + plain.begin[i], n);
        if (!(off <= as_step_tolerance(&s)))
            fail_msg("%s of %s is off by %.3g", plain.name[i], axes, off);
    }
    free(plain.values);
    free(fast.values);
}

static void every_layer_agrees(void **state) {
    (void)state;
    check_layers("model=tiny;context=100;batch=2;type=f32");
    check_layers("model=tiny;context=100;batch=2");
    check_layers("model=tiny;phase=prefill;prompt=50;type=f32");
    check_layers("model=tiny;phase=prefill;prompt=50");
}

/* ---- the breakdown ---- */

static double total_of(const json_t *rows, const char *path, bool layers, int *count) {
    size_t i;
    json_t *row;
    double sum = 0;
    *count = 0;
    json_array_foreach(rows, i, row) {
        const bool has = json_is_integer(json_object_get(row, "layer"));
        if (strcmp(json_string_value(json_object_get(row, "path")), path) != 0 || has != layers)
            continue;
        sum += json_number_value(json_object_get(row, "total_ns"));
        ++*count;
    }
    return sum;
}

static void parts_add_up(void **state) {
    (void)state;
    enum { OPERATIONS = 5 };
    host_case t;
    as_parts *parts;
    as_error e;
    trial_begin(&t, "simd", "model=tiny;phase=generate;prompt=20;tokens=4", team_of_three);
    assert_int_equal(as_parts_create(&parts, &e), AS_OK);
    for (int i = 0; i < OPERATIONS; i++)
        assert_int_equal(t.variant->breakdown(&t.call, parts, &e), AS_OK);
    json_t *all = as_parts_json(parts), *row;
    const json_int_t operations = json_integer_value(json_object_get(all, "operations"));
    assert_in_range(operations, OPERATIONS - 2, OPERATIONS); /* those between the quartiles */
    const json_t *rows = json_object_get(all, "rows");
    size_t i;
    double attributed = 0;
    json_array_foreach(rows, i, row) {
        const char *path = json_string_value(json_object_get(row, "path"));
        const bool decode = strcmp(json_string_value(json_object_get(row, "phase")), "decode") == 0;
        assert_int_equal(json_integer_value(json_object_get(row, "count")), decode ? 3 * operations : operations);
        if (!json_is_null(json_object_get(row, "layer")))
            continue;
        attributed += json_number_value(json_object_get(row, "total_ns"));
        int layered, whole;
        const double layers = total_of(rows, path, true, &layered), sum = total_of(rows, path, false, &whole);
        assert_int_equal(whole, 2); /* prefill and decode */
        assert_true(layered == 0 || (layered == 4 && fabs(layers - sum) <= 1e-9 * sum));
    }
    const double instrumented = json_number_value(json_object_get(all, "instrumented_ns")) * (double)operations;
    assert_true(attributed > 0.95 * instrumented && attributed <= instrumented * (1 + 1e-9));
    json_decref(all);
    as_parts_free(parts);
    assert_true(host_worst(&t) <= 1); /* instruments change no value */
    host_end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rungs_match_the_reference),
        cmocka_unit_test(faults_are_refused),
        cmocka_unit_test(a_wrong_choice_is_refused),
        cmocka_unit_test(the_cache_equals_recomputation),
        cmocka_unit_test(rows_do_not_influence_one_another),
        cmocka_unit_test(greedy_tokens_are_the_same),
        cmocka_unit_test(every_layer_agrees),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests_name("inference", tests, host_open, host_close);
}
