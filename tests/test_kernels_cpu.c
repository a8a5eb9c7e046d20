/* Every kernel of the host against its reference, at ragged sizes, on one thread and several, at every instruction
 * set that this machine has; and broken kernels, which must be refused. */
#include "host_case.h"
#include "kernels/ceiling/ceiling.h"
#include "kernels/isa.h"
#include "kernels/launch/launch.h"
#include "kernels/matmul/matmul.h"
#include "kernels/memcpy/memcpy.h"
#include "kernels/stream.h"
#include "suites/suites.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

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
        host_accept(&as_matmul_suite, "naive", shapes[i], team_of_one);
        host_accept(&as_matmul_suite, "swapped", shapes[i], team_of_one);
        host_accept(&as_matmul_suite, "openblas", shapes[i], team_of_one);
        snprintf(all, sizeof all, "%s;threads=all", shapes[i]);
        host_accept(&as_matmul_suite, "openblas", all, team_of_three);
        for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++) {
            as_isa_limit((as_isa)isa);
            static const char *const blocked[] = {"blocked", "tiled", "packed"};
            for (size_t v = 0; v < sizeof blocked / sizeof *blocked; v++) {
                host_accept(&as_matmul_suite, blocked[v], shapes[i], team_of_one);
                host_accept(&as_matmul_suite, blocked[v], all, team_of_three);
            }
        }
    }
}

/* Every unit that this machine has, at every level of instructions for the plain way; the others say that they are not
 * here. Depths that are no whole words, steps or blocks; one, two and many register tiles with ragged edges. */
static void bf16_matmul_matches_reference(void **state) {
    (void)state;
    static const char *const bf16[] = {"n=1",           "n=17",           "n=33;m=31;k=32",  "n=32;m=14;k=1",
                                       "n=64;m=65;k=7", "n=40;m=29;k=33", "n=37;m=70;k=1300"};
    static const char *const configs[] = {"amx", "dot", "widen", "auto"};
    for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++) {
        as_isa_limit((as_isa)isa);
        const bool here[] = {as_isa_tiles(), as_isa_bf16(), true, true};
        for (int c = 0; c < 4; c++)
            for (size_t i = 0; i < sizeof bf16 / sizeof *bf16; i++) {
                char axes[96], all[112];
                snprintf(axes, sizeof axes, "%s;type=bf16;config=%s", bf16[i], configs[c]);
                snprintf(all, sizeof all, "%s;threads=all", axes);
                if (here[c]) {
                    host_accept(&as_matmul_suite, "packed", axes, team_of_one);
                    host_accept(&as_matmul_suite, "packed", all, team_of_three);
                    continue;
                }
                as_params p = case_params(&as_matmul_suite, axes);
                as_call call = {.params = &p, .device = &cpu, .team = team_of_one};
                as_error e;
                assert_int_equal(as_matmul_packed_prepare_cpu(&call, &call.state, &e), AS_EABSENT);
            }
    }
    as_isa_limit(AS_ISA_AVX512);
    as_isa_allow_tiles(false); /* what a machine with AVX512-BF16 alone takes */
    host_accept(&as_matmul_suite, "packed", "n=33;m=31;k=35;type=bf16", team_of_one);
}

static int allow_tiles(void **state) {
    (void)state;
    as_isa_limit(AS_ISA_AVX512);
    as_isa_allow_tiles(true);
    return 0;
}

/* A word of the wrong column is seen in bf16, too. */
static as_status bf16_of_another_column(const as_call *call, as_error *e) {
    AS_TRY(as_matmul_packed_cpu(call, e));
    uint16_t *c = call->operand[2];
    c[5] = c[6];
    return AS_OK;
}

static void wrong_bf16_is_refused(void **state) {
    (void)state;
    as_variant broken = *host_variant(&as_matmul_suite, "packed");
    broken.run = bf16_of_another_column;
    assert_false(host_accepts(&as_matmul_suite, &broken, "n=33;type=bf16", team_of_one));
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
        assert_true(host_accepts(&as_matmul_suite, &broken, sizes[i], team_of_one));
        for (fault = FAULT_TRANSPOSED; fault <= FAULT_UNWRITTEN; fault++) {
            if (fault == FAULT_TRANSPOSED && i == 2)
                continue; /* needs a square B */
            if (host_accepts(&as_matmul_suite, &broken, sizes[i], team_of_one))
                fail_msg("fault %d passed at %s", fault, sizes[i]);
        }
    }
}

static void reference_matches_long_double(void **state) {
    (void)state;
    enum { M = 13, N = 9, K = 57 };
    float a[M * K], b[K * N];
    double expected[2 * N], scale[2 * N];
    as_rng_fill(a, AS_F32, AS_NORMAL, 0, M * K, HOST_SEED, 1);
    as_rng_fill(b, AS_F32, AS_NORMAL, 0, K * N, HOST_SEED, 2);
    as_params p = case_params(&as_matmul_suite, "n=9;m=13;k=57");
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
    as_params p = case_params(&as_matmul_suite, "n=2");
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
    assert_false(host_accepts(&as_memcpy_suite, &broken, "bytes=4096", team_of_one));
}

/* Any start, any length, and not one byte beyond. */
static void copies_keep_to_their_range(void **state) {
    (void)state;
    enum { ROOM = 2048, EDGE = 70 };
    unsigned char from[ROOM], to[ROOM];
    as_rng_fill(from, AS_U8, AS_BITS, 0, ROOM, HOST_SEED, 3);
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
    as_rng_fill(words, AS_U32, AS_BITS, 0, WORDS, HOST_SEED, 4);
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
        host_accept(&as_launch_suite, "direct", chains[i], team_of_one);
        snprintf(all, sizeof all, "%s;threads=all", chains[i]);
        for (int v = 0; v < 3; v++) {
            host_accept(&as_launch_suite, crews[v], chains[i], team_of_one);
            host_accept(&as_launch_suite, crews[v], all, team_of_three);
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
    assert_false(host_accepts(&as_launch_suite, &broken, "chain=8", team_of_one));
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void spin_is_never_short(void **state) {
    (void)state;
    as_params p = case_params(&as_launch_suite, "chain=20;kernel=10us");
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
    const char *const types[] = {"type=f32", "type=f64"}, *const stores[] = {"write", "copy", "triad"};
    for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++) {
        as_isa_limit((as_isa)isa);
        for (int i = 0; i < 2; i++) {
            char all[64];
            host_accept(&as_ceiling_suite, "fma", types[i], team_of_one);
            host_accept(&as_ceiling_suite, "read", levels[i], team_of_one);
            snprintf(all, sizeof all, "%s;threads=all", levels[i]);
            host_accept(&as_ceiling_suite, "read", all, team_of_three);
            for (int v = 0; v < 3; v++) {
                char around[64];
                snprintf(around, sizeof around, "%s;stores=nt", levels[i]);
                host_accept(&as_ceiling_suite, stores[v], levels[i], team_of_one);
                host_accept(&as_ceiling_suite, stores[v], around, team_of_one);
                host_accept(&as_ceiling_suite, stores[v], all, team_of_three);
            }
        }
    }
    host_accept(&as_ceiling_suite, "atomic", "", team_of_one);
    host_accept(&as_ceiling_suite, "atomic", "threads=all", team_of_three);
}

/* Starts and lengths of every remainder, in memory around which nothing may be touched. */
static void stores_around_the_caches_are_whole(void **state) {
    (void)state;
    enum { MOST = 200, ROOM = MOST + 64 };
    uint32_t out[ROOM];
    float a[ROOM], b[ROOM], c[ROOM];
    for (int i = 0; i < ROOM; i++)
        b[i] = (float)i, c[i] = (float)(2 * i);
    for (int isa = AS_ISA_BASE; isa <= (int)as_isa_best(); isa++)
        for (size_t start = 0; start < 20; start++)
            for (size_t n = 0; n < MOST; n += 1 + n / 7) {
                memset(out, 0x5A, sizeof out);
                memset(a, 0x5A, sizeof a);
                as_stream_fill_nt((as_isa)isa)(out + start, 7, n);
                as_stream_triad_nt((as_isa)isa)(a + start, b, c, n);
                for (size_t i = 0; i < ROOM; i++) {
                    const bool inside = i >= start && i < start + n;
                    float poison;
                    memset(&poison, 0x5A, sizeof poison);
                    assert_int_equal(out[i], inside ? 7 : 0x5A5A5A5A);
                    assert_true(a[i] == (inside ? (float)(7 * (i - start)) : poison));
                }
            }
}

/* By whichever vectors and tiles this machine has; the others say that they are not here. */
static void narrow_vectors_and_bf16_count_their_steps(void **state) {
    (void)state;
    const char *const axes[] = {"type=f32;width=128", "type=f64;width=256", "type=f32;width=512", "type=bf16"};
    const bool here[] = {true, as_isa_best() >= AS_ISA_AVX2, as_isa_best() == AS_ISA_AVX512, as_isa_bf16()};
    for (int i = 0; i < 4; i++) {
        as_params p = case_params(&as_ceiling_suite, axes[i]);
        as_error e;
        as_call call = {.params = &p, .device = &cpu, .team = team_of_one};
        if (here[i])
            host_accept(&as_ceiling_suite, "fma", axes[i], team_of_one);
        else
            assert_int_equal(as_ceiling_fma_prepare_cpu(&call, &call.state, &e), AS_EABSENT);
    }
    as_error e;
    if (as_isa_tiles()) {
        host_accept(&as_ceiling_suite, "tensor", "type=bf16", team_of_one);
        host_accept(&as_ceiling_suite, "tensor", "type=s8;threads=all", team_of_three);
    }
    as_isa_allow_tiles(false);
    assert_int_equal(as_ceiling_tensor_available_cpu(&cpu, &e), AS_EABSENT);
    as_isa_allow_tiles(true);
}

/* Chains that the compiler found to be equal were once computed as one, which counted work that was never done. No
 * machine starts more than two 32-byte multiply-adds in a cycle, nor runs at 6.5 GHz. */
static void multiply_adds_stay_below_what_is_possible(void **state) {
    (void)state;
    as_isa_limit(AS_ISA_AVX2);
    if (as_isa_best() != AS_ISA_AVX2)
        skip();
    as_params p = case_params(&as_ceiling_suite, "type=f32");
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
    as_params p = case_params(&as_ceiling_suite, "level=l3;threads=all");
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
    for (int operation = 0; operation < HOST_TEAM + 1; operation++) {
        got = 0;
        assert_int_equal(as_ceiling_read_cpu(&read, &e), AS_OK);
        assert_int_equal(got, expected);
        memset(copy, 0, (size_t)size.bytes);
        assert_int_equal(as_ceiling_copy_cpu(&move, &e), AS_OK);
        assert_memory_equal(copy, words, (size_t)as_ceiling_operand_bytes(size, 2));
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

static as_status careless_write(const as_call *call, as_error *e) {
    AS_TRY(as_ceiling_write_cpu(call, e));
    ((uint32_t *)call->operand[1])[7]++;
    return AS_OK;
}

static as_status careless_triad(const as_call *call, as_error *e) {
    AS_TRY(as_ceiling_triad_cpu(call, e));
    ((float *)call->operand[2])[7] = ((const float *)call->operand[0])[7];
    return AS_OK;
}

/* One multiply-add or addition too few. */
static as_status careless_tensor(const as_call *call, as_error *e) {
    AS_TRY(as_ceiling_tensor_cpu(call, e));
    *(double *)call->operand[0] -= 1;
    return AS_OK;
}
static as_status careless_atomic(const as_call *call, as_error *e) {
    AS_TRY(as_ceiling_atomic_cpu(call, e));
    *(double *)call->operand[0] -= 1;
    return AS_OK;
}

static void skipped_word_is_refused(void **state) {
    (void)state;
    const struct {
        const char *variant, *axes;
        as_run_fn run;
    } careless[] = {{"read", "level=l1", careless_read},
                    {"write", "level=l1", careless_write},
                    {"triad", "level=l1", careless_triad},
                    {"atomic", "", careless_atomic},
                    {"tensor", "type=bf16", careless_tensor}};
    for (int i = 0; i < (as_isa_tiles() ? 5 : 4); i++) {
        as_variant broken = *host_variant(&as_ceiling_suite, careless[i].variant);
        broken.run = careless[i].run;
        assert_false(host_accepts(&as_ceiling_suite, &broken, careless[i].axes, team_of_one));
    }
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
        cmocka_unit_test_teardown(bf16_matmul_matches_reference, allow_tiles),
        cmocka_unit_test(wrong_bf16_is_refused),
        cmocka_unit_test_teardown(ceilings_match_their_reference, lift_limit),
        cmocka_unit_test(stores_around_the_caches_are_whole),
        cmocka_unit_test(narrow_vectors_and_bf16_count_their_steps),
        cmocka_unit_test_teardown(multiply_adds_stay_below_what_is_possible, lift_limit),
        cmocka_unit_test(shared_range_is_covered_every_time),
        cmocka_unit_test(skipped_word_is_refused),
    };
    return cmocka_run_group_tests(tests, host_open, host_close);
}
