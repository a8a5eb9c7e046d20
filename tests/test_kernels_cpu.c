/* Every kernel of the host against its reference, at ragged sizes, on one thread and several, at every instruction
 * set that this machine has; and broken kernels, which must be refused. */
#include "kernels/ceiling/ceiling.h"
#include "kernels/isa.h"
#include "kernels/launch/launch.h"
#include "kernels/matmul/matmul.h"
#include "kernels/memcpy/memcpy.h"
#include "kernels/stream.h"
#include "place.h"
#include "suites/suites.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SEED = 42, TEAM = 3 };

static as_device cpu = {.driver = &as_cpu_driver, .name = "cpu", .last_level_cache_bytes = 32 << 20};
static as_team *team_of_one, *team_of_three;

/* Three members even where there are fewer CPUs: they then share one. */
static int make_teams(void **state) {
    (void)state;
    as_placement real, p;
    as_error e;
    if (as_place_resolve(NULL, &real, &e) != AS_OK)
        return -1;
    p = real;
    p.cpus = TEAM;
    for (int k = 0; k < TEAM; k++)
        p.cpu[k] = real.cpu[k % real.cpus];
    if (as_team_create(&team_of_one, 1, &p, &e) != AS_OK)
        return -1;
    return as_team_create(&team_of_three, TEAM, &p, &e) == AS_OK ? 0 : -1;
}

static int end_teams(void **state) {
    (void)state;
    as_team_destroy(team_of_one);
    as_team_destroy(team_of_three);
    return 0;
}

static const as_variant *variant_of(const as_suite *s, const char *name) {
    for (const as_variant *v = s->variants; v->name; v++)
        if (strcmp(v->on, "cpu") == 0 && strcmp(v->name, name) == 0)
            return v;
    fail_msg("no cpu variant %s in %s", name, s->name);
    return NULL;
}

static as_params params_of(const as_suite *s, const char *text) {
    as_params p;
    as_error e;
    char copy[256], *rest = copy;
    assert_int_equal(as_params_init(&p, s->axes, s->n_axes, &e), AS_OK);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *pair; (pair = strsep(&rest, ";"));) {
        char *value = strchr(pair, '=');
        if (!value)
            continue;
        *value++ = '\0';
        if (as_params_set(&p, pair, value, &e) != AS_OK)
            fail_msg("%s", e.message);
    }
    return p;
}

/* Share of the tolerance that the worst element uses; infinite for a NaN. */
static double worst_of(const as_suite *s, const as_params *p, const as_work *w, void *const *operand) {
    size_t count = (size_t)(w->rows * w->columns);
    double *expected = malloc(count * sizeof *expected), *scale = malloc(count * sizeof *scale), worst = 0;
    int64_t *rows = malloc((size_t)w->rows * sizeof *rows);
    assert_non_null(expected);
    assert_non_null(scale);
    assert_non_null(rows);
    for (int64_t i = 0; i < w->rows; i++)
        rows[i] = i;
    as_reference r = {p, w, (const void *const *)operand, rows, w->rows, expected, scale, NULL};
    as_error e;
    assert_int_equal(s->reference(&r, &e), AS_OK);
    const as_operand *o = &w->operand[w->operands - 1];
    const void *out = operand[w->operands - 1];
    for (size_t i = 0; i < count; i++) {
        double got = o->type == AS_F32   ? (double)((const float *)out)[i]
                     : o->type == AS_F64 ? ((const double *)out)[i]
                                         : (double)((const uint32_t *)out)[i];
        double share = fabs(got - expected[i]) / (w->tolerance * scale[i]);
        if (!(share <= worst))
            worst = isnan(share) ? INFINITY : share;
    }
    free(expected);
    free(scale);
    free(rows);
    return worst;
}

/* One operation of a variant as the harness would verify it. True if the output is accepted. */
static bool accepted(const as_suite *s, const as_variant *v, const char *axes, as_team *team) {
    as_params p = params_of(s, axes);
    as_work w;
    as_error e = {0};
    if (s->describe(&p, v, &cpu, &w, &e) != AS_OK)
        fail_msg("%s/%s %s: %s", s->name, v->name, axes, e.message);
    void *operand[AS_MAX_OPERANDS] = {0};
    for (int i = 0; i < w.operands; i++) {
        const as_operand *o = &w.operand[i];
        size_t bytes = (size_t)o->count * as_dtype_bytes(o->type);
        operand[i] = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
        assert_non_null(operand[i]);
        memset(operand[i], 0xFF, bytes); /* a NaN in every float type */
        if (o->role == AS_IN)
            as_rng_fill(operand[i], o->type, o->dist, 0, (uint64_t)o->count, SEED, o->key);
    }
    uint64_t counter = 0;
    as_call call = {.params = &p, .operand = operand, .device = &cpu, .team = team};
    if (w.check == AS_CHECK_EFFECT)
        call.counter = &counter;
    if (v->prepare && v->prepare(&call, &call.state, &e) != AS_OK)
        fail_msg("%s", e.message);
    if (v->run(&call, &e) != AS_OK)
        fail_msg("%s", e.message);
    if (v->finish)
        v->finish(call.state);
    bool good = false;
    switch (w.check) {
    case AS_CHECK_REFERENCE: good = worst_of(s, &p, &w, operand) <= 1; break;
    case AS_CHECK_COPY:
        good = memcmp(operand[0], operand[w.operands - 1],
                      (size_t)w.operand[0].count * as_dtype_bytes(w.operand[0].type)) == 0;
        break;
    case AS_CHECK_EFFECT: good = (int64_t)counter == w.expected_count; break;
    case AS_CHECK_EXIT: break;
    }
    for (int i = 0; i < w.operands; i++)
        free(operand[i]);
    return good;
}

static void accept(const as_suite *s, const char *variant, const char *axes, as_team *team) {
    if (!accepted(s, variant_of(s, variant), axes, team))
        fail_msg("%s/%s refused at %s with %d threads", s->name, variant, axes, as_team_size(team));
}

/* ---- matmul ---- */

static const char *const shapes[] = {
    "n=1",
    "n=17",
    "n=33",
    "n=65;m=100;k=7",
    "n=1;m=100",
    "n=100;m=1",
    "n=64;k=1",
    "n=270;m=300;k=260",
    "n=600;m=31;k=700",
    "n=513;m=15;k=511",
};

static void matmul_matches_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char all[64];
        accept(&as_matmul_suite, "naive", shapes[i], team_of_one);
        accept(&as_matmul_suite, "swapped", shapes[i], team_of_one);
        accept(&as_matmul_suite, "openblas", shapes[i], team_of_one);
        snprintf(all, sizeof all, "%s;threads=all", shapes[i]);
        accept(&as_matmul_suite, "openblas", all, team_of_three);
        for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++) {
            as_isa_limit((as_isa)isa);
            static const char *const blocked[] = {"blocked", "tiled", "packed"};
            for (size_t v = 0; v < sizeof blocked / sizeof *blocked; v++) {
                accept(&as_matmul_suite, blocked[v], shapes[i], team_of_one);
                accept(&as_matmul_suite, blocked[v], all, team_of_three);
            }
        }
    }
}

/* The kind of fault that a wrong index makes. */
static int fault;
enum { FAULT_NONE, FAULT_TRANSPOSED, FAULT_LAST_TERM, FAULT_ONE_ELEMENT, FAULT_SWAPPED, FAULT_NAN, FAULT_UNWRITTEN };

static as_status broken_matmul(const as_call *call, as_error *e) {
    AS_TRY(as_matmul_naive_cpu(call, e));
    as_matmul_shape s = as_matmul_shape_of(call->params);
    const float *a = call->operand[0], *b = call->operand[1];
    float *c = call->operand[2], swap;
    int64_t last = s.m * s.n - 1, k = s.k - 1;
    switch (fault) {
    case FAULT_TRANSPOSED: /* B read with its indices exchanged, for the last element alone */
        c[last] = 0;
        for (int64_t i = 0; i < s.k; i++)
            c[last] += a[(s.m - 1) * s.k + i] * b[(s.n - 1) * s.n + i];
        break;
    case FAULT_LAST_TERM:
        for (int64_t i = 0; i < s.m; i++)
            for (int64_t j = 0; j < s.n; j++)
                c[i * s.n + j] -= a[i * s.k + k] * b[k * s.n + j];
        break;
    case FAULT_ONE_ELEMENT: c[last] = c[last - 1]; break;
    case FAULT_SWAPPED:
        swap = c[0];
        c[0] = c[last];
        c[last] = swap;
        break;
    case FAULT_NAN: c[last / 2] = NAN; break;
    case FAULT_UNWRITTEN: memset(&c[last], 0xFF, sizeof c[last]); break;
    default: break;
    }
    return AS_OK;
}

static void broken_matmul_is_refused(void **state) {
    (void)state;
    const as_variant broken = {.name = "naive", .on = "cpu", .run = broken_matmul};
    const char *const sizes[] = {"n=17", "n=128", "n=24;m=24;k=1000"};
    for (size_t i = 0; i < 3; i++) {
        fault = FAULT_NONE;
        assert_true(accepted(&as_matmul_suite, &broken, sizes[i], team_of_one));
        for (fault = FAULT_TRANSPOSED; fault <= FAULT_UNWRITTEN; fault++) {
            if (fault == FAULT_TRANSPOSED && i == 2)
                continue; /* needs a square B */
            if (accepted(&as_matmul_suite, &broken, sizes[i], team_of_one))
                fail_msg("fault %d passed at %s", fault, sizes[i]);
        }
    }
}

static void reference_matches_long_double(void **state) {
    (void)state;
    enum { M = 13, N = 9, K = 57 };
    float a[M * K], b[K * N];
    double expected[2 * N], scale[2 * N];
    as_rng_fill(a, AS_F32, AS_NORMAL, 0, M * K, SEED, 1);
    as_rng_fill(b, AS_F32, AS_NORMAL, 0, K * N, SEED, 2);
    as_params p = params_of(&as_matmul_suite, "n=9;m=13;k=57");
    const void *input[] = {a, b, NULL};
    const int64_t rows[] = {12, 3};
    as_reference r = {.params = &p, .input = input, .rows = rows, .n_rows = 2, .expected = expected, .scale = scale};
    as_error e;
    assert_int_equal(as_matmul_reference(&r, &e), AS_OK);
    for (int x = 0; x < 2; x++)
        for (int j = 0; j < N; j++) {
            long double sum = 0, size = 0;
            for (int k = 0; k < K; k++) {
                long double term = (long double)a[rows[x] * K + k] * b[k * N + j];
                sum += term;
                size += term < 0 ? -term : term;
            }
            assert_true(fabsl(sum - expected[x * N + j]) <= 1e-14L * size);
            assert_true(fabsl(size - scale[x * N + j]) <= 1e-14L * size);
        }
    const int64_t outside[] = {13};
    r.rows = outside;
    r.n_rows = 1;
    assert_int_equal(as_matmul_reference(&r, &e), AS_EFAIL);
}

static void tiled_refuses_a_larger_team(void **state) {
    (void)state;
    float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1}, c[4];
    void *operand[] = {a, b, c};
    as_params p = params_of(&as_matmul_suite, "n=2");
    as_error e;
    as_call call = {.params = &p, .operand = operand, .device = &cpu, .team = team_of_one};
    assert_int_equal(as_matmul_tiled_prepare_cpu(&call, &call.state, &e), AS_OK);
    call.team = team_of_three;
    assert_int_equal(as_matmul_tiled_cpu(&call, &e), AS_EFAIL);
    as_matmul_tiled_finish_cpu(call.state);
    call.team = team_of_one;
    assert_int_equal(as_matmul_packed_prepare_cpu(&call, &call.state, &e), AS_OK);
    call.team = team_of_three;
    assert_int_equal(as_matmul_packed_cpu(&call, &e), AS_EFAIL);
    as_matmul_packed_finish_cpu(call.state);
}

/* ---- memcpy and the loops below it ---- */

static as_status short_memcpy(const as_call *call, as_error *e) {
    (void)e;
    memcpy(call->operand[1], call->operand[0], (size_t)as_params_int(call->params, "bytes") - 1);
    return AS_OK;
}

static void short_memcpy_is_refused(void **state) {
    (void)state;
    const as_variant broken = {.name = "libc", .on = "cpu", .run = short_memcpy};
    assert_false(accepted(&as_memcpy_suite, &broken, "bytes=4096", team_of_one));
}

/* Any start, any length, and not one byte beyond. */
static void copies_keep_to_their_range(void **state) {
    (void)state;
    enum { ROOM = 2048, EDGE = 70 };
    unsigned char from[ROOM], to[ROOM];
    as_rng_fill(from, AS_U8, AS_BITS, 0, ROOM, SEED, 3);
    for (int isa = AS_ISA_BASE; isa <= (int)as_isa_best(); isa++)
        for (int kind = 0; kind < 2; kind++) {
            as_stream_copy_fn copy = kind ? as_stream_copy_nt((as_isa)isa) : as_stream_copy_temporal((as_isa)isa);
            for (size_t start = 0; start < EDGE; start++)
                for (size_t bytes = 0; bytes < 600; bytes += bytes < 80 ? 1 : 37) {
                    memset(to, 0, sizeof to);
                    copy(to + EDGE + start, from + (start * 7) % EDGE, bytes);
                    assert_memory_equal(to + EDGE + start, from + (start * 7) % EDGE, bytes);
                    for (size_t i = 0; i < ROOM; i++)
                        if (i < EDGE + start || i >= EDGE + start + bytes)
                            assert_int_equal(to[i], 0);
                }
        }
}

static void sums_count_every_word_of_every_pass(void **state) {
    (void)state;
    enum { WORDS = 1000 };
    uint32_t words[WORDS];
    as_rng_fill(words, AS_U32, AS_BITS, 0, WORDS, SEED, 4);
    for (int isa = AS_ISA_BASE; isa <= (int)as_isa_best(); isa++)
        for (size_t count = 0; count <= WORDS - 1; count += 7)
            for (int64_t passes = 0; passes < 4; passes++) {
                uint32_t expected = 0;
                for (size_t i = 0; i < count; i++)
                    expected += words[1 + i];
                assert_int_equal(as_stream_sum_quarters((as_isa)isa)(words + 1, 4 * count, passes),
                                 as_stream_sum((as_isa)isa)(words + 1, 4 * count, passes));
                assert_int_equal(as_stream_sum((as_isa)isa)(words + 1, 4 * count, passes),
                                 (uint32_t)(expected * (uint32_t)passes));
            }
}

/* ---- launch ---- */

static void launch_runs_every_task(void **state) {
    (void)state;
    const char *const chains[] = {"chain=1", "chain=8", "chain=100", "chain=3;kernel=10us"};
    const char *const crews[] = {"pool", "openmp", "static_plan"};
    for (int i = 0; i < 4; i++) {
        char all[64];
        accept(&as_launch_suite, "direct", chains[i], team_of_one);
        snprintf(all, sizeof all, "%s;threads=all", chains[i]);
        for (int v = 0; v < 3; v++) {
            accept(&as_launch_suite, crews[v], chains[i], team_of_one);
            accept(&as_launch_suite, crews[v], all, team_of_three);
        }
    }
}

static as_status forgetful_launch(const as_call *call, as_error *e) {
    (void)e;
    *call->counter += (uint64_t)as_launch_chain_of(call->params) - 1;
    return AS_OK;
}

static void missing_task_is_refused(void **state) {
    (void)state;
    const as_variant broken = {.name = "direct", .on = "cpu", .run = forgetful_launch};
    assert_false(accepted(&as_launch_suite, &broken, "chain=8", team_of_one));
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void spin_is_never_short(void **state) {
    (void)state;
    as_params p = params_of(&as_launch_suite, "chain=20;kernel=10us");
    as_error e;
    as_call call = {.params = &p, .device = &cpu, .team = team_of_one};
    int64_t begin = now_ns();
    assert_int_equal(as_launch_direct_cpu(&call, &e), AS_OK);
    assert_true(now_ns() - begin >= 20 * AS_LAUNCH_SPIN_NS);
}

/* ---- ceilings ---- */

static void ceilings_match_their_reference(void **state) {
    (void)state;
    const char *const levels[] = {"level=l1", "level=l2"};
    const char *const types[] = {"type=f32", "type=f64"};
    for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++) {
        as_isa_limit((as_isa)isa);
        for (int i = 0; i < 2; i++) {
            char all[64];
            accept(&as_ceiling_suite, "read", levels[i], team_of_one);
            accept(&as_ceiling_suite, "copy", levels[i], team_of_one);
            accept(&as_ceiling_suite, "fma", types[i], team_of_one);
            snprintf(all, sizeof all, "%s;threads=all", levels[i]);
            accept(&as_ceiling_suite, "read", all, team_of_three);
            accept(&as_ceiling_suite, "copy", all, team_of_three);
        }
    }
}

/* Chains that the compiler found to be equal were once computed as one, which counted work that was never done. No
 * machine starts more than two 32-byte multiply-adds in a cycle, nor runs at 6.5 GHz. */
static void multiply_adds_stay_below_what_is_possible(void **state) {
    (void)state;
    as_isa_limit(AS_ISA_AVX2);
    if (as_isa_best() != AS_ISA_AVX2)
        skip();
    as_params p = params_of(&as_ceiling_suite, "type=f32");
    double steps;
    void *operand[] = {&steps};
    as_error e;
    as_call call = {.params = &p, .operand = operand, .device = &cpu, .team = team_of_one};
    assert_int_equal(as_ceiling_fma_prepare_cpu(&call, &call.state, &e), AS_OK);
    int64_t begin = now_ns();
    assert_int_equal(as_ceiling_fma_cpu(&call, &e), AS_OK);
    double ns = (double)(now_ns() - begin);
    as_ceiling_fma_finish_cpu(call.state);
    assert_true(steps / ns < 2 * 8 * 6.5);
}

/* l3 and dram share one range out; their parts must cover it in every operation, also when they have moved on. */
static void shared_range_is_covered_every_time(void **state) {
    (void)state;
    as_params p = params_of(&as_ceiling_suite, "level=l3;threads=all");
    as_ceiling_cpu_size size;
    as_error e;
    if (as_ceiling_size_cpu(&p, &size, &e) == AS_EABSENT)
        skip();
    uint32_t *words = malloc((size_t)size.bytes), *copy = malloc((size_t)size.bytes), expected = 0, got;
    assert_non_null(words);
    assert_non_null(copy);
    for (int64_t i = 0; i < size.bytes / 4; i++)
        expected += words[i] = (uint32_t)i * 2654435761u;
    void *operand[] = {words, &got}, *pair[] = {words, copy};
    as_call read = {.params = &p, .operand = operand, .device = &cpu, .team = team_of_three};
    as_call move = {.params = &p, .operand = pair, .device = &cpu, .team = team_of_three};
    assert_int_equal(as_ceiling_read_prepare_cpu(&read, &read.state, &e), AS_OK);
    assert_int_equal(as_ceiling_copy_prepare_cpu(&move, &move.state, &e), AS_OK);
    for (int operation = 0; operation < TEAM + 1; operation++) {
        got = 0;
        assert_int_equal(as_ceiling_read_cpu(&read, &e), AS_OK);
        assert_int_equal(got, expected);
        memset(copy, 0, (size_t)size.bytes);
        assert_int_equal(as_ceiling_copy_cpu(&move, &e), AS_OK);
        assert_memory_equal(copy, words, (size_t)as_ceiling_copy_bytes(size));
    }
    as_ceiling_read_finish_cpu(read.state);
    as_ceiling_copy_finish_cpu(move.state);
    free(words);
    free(copy);
}

static as_status careless_read(const as_call *call, as_error *e) {
    AS_TRY(as_ceiling_read_cpu(call, e));
    *(uint32_t *)call->operand[1] -= ((const uint32_t *)call->operand[0])[7];
    return AS_OK;
}

static void skipped_word_is_refused(void **state) {
    (void)state;
    as_variant broken = *variant_of(&as_ceiling_suite, "read");
    broken.run = careless_read;
    assert_false(accepted(&as_ceiling_suite, &broken, "level=l1", team_of_one));
}

static int lift_limit(void **state) {
    (void)state;
    as_isa_limit(AS_ISA_AVX512);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(matmul_matches_reference, lift_limit),
        cmocka_unit_test(broken_matmul_is_refused),
        cmocka_unit_test(reference_matches_long_double),
        cmocka_unit_test(tiled_refuses_a_larger_team),
        cmocka_unit_test(short_memcpy_is_refused),
        cmocka_unit_test(copies_keep_to_their_range),
        cmocka_unit_test(sums_count_every_word_of_every_pass),
        cmocka_unit_test(launch_runs_every_task),
        cmocka_unit_test(missing_task_is_refused),
        cmocka_unit_test(spin_is_never_short),
        cmocka_unit_test_teardown(ceilings_match_their_reference, lift_limit),
        cmocka_unit_test_teardown(multiply_adds_stay_below_what_is_possible, lift_limit),
        cmocka_unit_test(shared_range_is_covered_every_time),
        cmocka_unit_test(skipped_word_is_refused),
    };
    return cmocka_run_group_tests(tests, make_teams, end_teams);
}
