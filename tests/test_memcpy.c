/* The host's variants of memcpy at ragged sizes and by every instruction set; requests out of a pipe, huge pages,
 * another NUMA node; and the small rules that they rest on. */
#include "kernels/memcpy/memcpy.h"

#include "kernels/isa.h"
#include "place.h"
#include "suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEED = 42, GUARD = 64 };

static as_device cpu;
static as_error error;
static as_team *team[2]; /* of one and of three members, where there are fewer CPUs on the same ones */

static int open_cpu(void **unused) {
    (void)unused;
    as_placement real, place;
    if (as_cpu_driver.open(0, &cpu, &error) != AS_OK || as_place_resolve(NULL, &real, &error) != AS_OK)
        return -1;
    place = real;
    place.cpus = 3;
    for (int k = 0; k < 3; k++)
        place.cpu[k] = real.cpu[k % real.cpus];
    return as_team_create(&team[0], 1, &place, &error) == AS_OK && as_team_create(&team[1], 3, &place, &error) == AS_OK
               ? 0
               : -1;
}

static int close_cpu(void **unused) {
    (void)unused;
    as_team_destroy(team[0]);
    as_team_destroy(team[1]);
    as_cpu_driver.close(&cpu);
    return 0;
}

static const as_variant *variant_of(const char *name) {
    for (const as_variant *v = as_memcpy_suite.variants; v->name; v++)
        if (strcmp(v->on, "cpu") == 0 && strcmp(v->name, name) == 0)
            return v;
    fail_msg("no cpu variant %s", name);
    return NULL;
}

/* ---- every variant that the team shares ---- */

static void copy(const as_variant *v, int64_t bytes, as_team *team) {
    as_params p;
    char text[24];
    assert_int_equal(as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, &error), AS_OK);
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    assert_int_equal(as_params_set(&p, "bytes", text, &error), AS_OK);
    unsigned char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes + 2 * GUARD);
    assert_non_null(from);
    assert_non_null(to);
    as_rng_fill(from, AS_U8, AS_BITS, 0, (uint64_t)bytes, SEED, 1);
    memset(to, 0x5A, (size_t)bytes + 2 * GUARD);
    void *operand[] = {from, to + GUARD};
    as_call call = {.params = &p, .operand = operand, .device = &cpu, .team = team};
    if (v->prepare)
        assert_int_equal(v->prepare(&call, &call.state, &error), AS_OK);
    assert_int_equal(v->run(&call, &error), AS_OK);
    if (v->finish)
        v->finish(call.state);
    if (memcmp(to + GUARD, from, (size_t)bytes) != 0)
        fail_msg("%s: %lld bytes by %d threads differ", v->name, (long long)bytes, as_team_size(team));
    for (int i = 0; i < GUARD; i++)
        assert_true(to[i] == 0x5A && to[GUARD + bytes + i] == 0x5A);
    free(from);
    free(to);
}

static void memcpy_copies_every_byte(void **unused) {
    (void)unused;
    static const int sizes[] = {1, 63, 64, 65, 4095, 4097, 100000, 1000003};
    static const char *const variants[] = {"libc", "nt", "rep_movsb", "avx2", "avx512", "huge"};
    for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++)
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
            const as_variant *variant = variant_of(variants[v]);
            as_isa_limit((as_isa)isa);
            if (variant->available && variant->available(&cpu, &error) == AS_EABSENT)
                continue;
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (int t = 0; t < 2; t++)
                    copy(variant, sizes[i], team[t]);
        }
    as_isa_limit(AS_ISA_AVX512);
}

/* A machine without the instructions says so, and is never asked to run them. */
static void absent_instructions_are_told(void **unused) {
    (void)unused;
    as_isa_limit(AS_ISA_BASE);
    assert_int_equal(variant_of("avx2")->available(&cpu, &error), AS_EABSENT);
    as_isa_limit(AS_ISA_AVX2);
    assert_int_equal(variant_of("avx512")->available(&cpu, &error), AS_EABSENT);
    assert_non_null(strstr(error.message, "AVX-512"));
    as_isa_limit(AS_ISA_AVX512);
}

/* ---- requests ---- */

/* A request of `bytes`, twice, between guards: its own time, the time of read(), and not one byte beyond. */
static void request(const char *name, int64_t bytes, int copies) {
    const as_variant *v = variant_of(name);
    as_params p;
    char text[24];
    assert_int_equal(as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, &error), AS_OK);
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    assert_int_equal(as_params_set(&p, "bytes", text, &error), AS_OK);
    snprintf(text, sizeof text, "%d", copies);
    assert_int_equal(as_params_set(&p, "copies", text, &error), AS_OK);
    unsigned char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes + 2 * GUARD);
    assert_non_null(from);
    assert_non_null(to);
    as_rng_fill(from, AS_U8, AS_BITS, 0, (uint64_t)bytes, SEED, 1);
    void *operand[] = {from, to + GUARD};
    double own_ns, extra[AS_MAX_EXTRA];
    as_call call = {.params = &p, .operand = operand, .device = &cpu, .own_ns = &own_ns, .extra = extra};
    if (v->prepare(&call, &call.state, &error) != AS_OK)
        fail_msg("%s: %s", name, error.message);
    for (int again = 0; again < 2; again++) {
        memset(to, 0x5A, (size_t)bytes + 2 * GUARD);
        own_ns = extra[0] = -1;
        if (v->run(&call, &error) != AS_OK)
            fail_msg("%s: %s", name, error.message);
        assert_memory_equal(to + GUARD, from, (size_t)bytes);
        for (int i = 0; i < GUARD; i++)
            assert_true(to[i] == 0x5A && to[GUARD + bytes + i] == 0x5A);
        assert_true(extra[0] > 0 && own_ns >= extra[0]);
    }
    v->finish(call.state);
    free(from);
    free(to);
}

static void requests_bring_every_byte(void **unused) {
    (void)unused;
    static const int64_t sizes[] = {1, 63, 4096, 4097, 65537, 602112, AS_MEMCPY_REQUEST_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        request("request_copy", sizes[i], 3);
        request("request_copy", sizes[i], 2);
        request("request_straight", sizes[i], 3);
    }
}

static void a_short_body_is_an_error(void **unused) {
    (void)unused;
    as_request_pipe p;
    char body[100] = {0};
    assert_int_equal(as_request_open(&p, sizeof body, &error), AS_OK);
    assert_int_equal(as_request_send(&p, body, 60, &error), AS_OK);
    assert_int_equal(as_request_receive(&p, body, sizeof body, &error), AS_EFAIL);
    assert_non_null(strstr(error.message, "60 of 100"));
    as_request_close(&p);
    assert_int_equal(as_request_send(&p, body, 1, &error), AS_EFAIL);
}

static void a_pipe_that_is_too_large_is_refused(void **unused) {
    (void)unused;
    as_request_pipe p;
    const as_status s = as_request_open(&p, (size_t)1 << 30, &error);
    if (s == AS_OK) { /* root may */
        as_request_close(&p);
        return;
    }
    assert_int_equal(s, AS_EABSENT);
    assert_non_null(strstr(error.message, "pipe-max-size"));
    assert_int_equal(p.in, -1);
}

static void pieces_cover_the_bytes(void **unused) {
    (void)unused;
    static const int64_t cases[][2] = {{1, 1}, {4097, 2}, {7, 7}, {1000003, 1024}, {(int64_t)1 << 30, 65535}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int64_t bytes = cases[c][0], pieces = cases[c][1];
        assert_int_equal(as_memcpy_piece_at(bytes, pieces, 0), 0);
        assert_int_equal(as_memcpy_piece_at(bytes, pieces, pieces), bytes);
        for (int64_t i = 0; i < pieces; i++) {
            const int64_t length = as_memcpy_piece_at(bytes, pieces, i + 1) - as_memcpy_piece_at(bytes, pieces, i);
            assert_in_range(length, bytes / pieces, bytes / pieces + 1);
        }
    }
}

/* What took effect is read back: never more than both buffers, and reserved pages are huge ones. */
static void huge_pages_are_counted(void **unused) {
    (void)unused;
    enum { BYTES = 5 << 20 };
    const as_variant *v = variant_of("huge");
    as_params p;
    void *operand[2];
    double extra[AS_MAX_EXTRA] = {-1, -1, -1};
    assert_int_equal(as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, &error), AS_OK);
    assert_int_equal(as_params_set(&p, "bytes", "5242880", &error), AS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(as_cpu_driver.alloc(&cpu, AS_MEM_HUGE, BYTES, &operand[i], &error), AS_OK);
        assert_int_equal((uintptr_t)operand[i] % (2 << 20), 0);
        memset(operand[i], i, BYTES);
    }
    as_call call = {.params = &p, .operand = operand, .device = &cpu, .extra = extra};
    assert_int_equal(v->prepare(&call, &call.state, &error), AS_OK);
    print_message("huge pages: %.0f of %d bytes, %.0f reserved\n", extra[0], 2 * BYTES, extra[1]);
    assert_true(extra[0] >= extra[1] && extra[0] <= 2 * BYTES && extra[1] >= 0);
    v->finish(call.state);
    for (int i = 0; i < 2; i++)
        as_cpu_driver.release(&cpu, AS_MEM_HUGE, operand[i]);
}

/* Either the pages are on another node, or the machine has none and says so. */
static void far_memory_is_there_or_absent(void **unused) {
    (void)unused;
    void *p;
    assert_int_equal(as_cpu_driver.alloc(&cpu, AS_MEM_DEVICE, 1 << 20, &p, &error), AS_OK);
    const as_status s = as_memcpy_move_far(p, 1 << 20, NULL, &error);
    if (s != AS_OK) {
        print_message("%s\n", error.message);
        assert_int_equal(s, AS_EABSENT);
        assert_non_null(strstr(error.message, "node"));
    }
    as_cpu_driver.release(&cpu, AS_MEM_DEVICE, p);
}

static void reference_of_latency_walks_the_chain(void **unused) {
    (void)unused;
    static const char *const sizes[] = {"256", "2097152", "1280"};
    for (int k = 0; k < 3; k++) {
        as_params p;
        double expected, scale;
        const int64_t row = 0;
        assert_int_equal(as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, &error), AS_OK);
        assert_int_equal(as_params_set(&p, "bytes", sizes[k], &error), AS_OK);
        const int64_t nodes = atoll(sizes[k]) / AS_MEMCPY_NODE_BYTES;
        int64_t at = 0;
        for (int i = 0; i < AS_MEMCPY_CHASE_STEPS; i++)
            at = (at + AS_MEMCPY_LINE_BYTES / AS_MEMCPY_NODE_BYTES) % nodes;
        as_reference r = {.params = &p, .rows = &row, .n_rows = 1, .expected = &expected, .scale = &scale};
        assert_int_equal(as_memcpy_reference(&r, &error), AS_OK);
        assert_true(expected == (double)(at * AS_MEMCPY_NODE_BYTES / AS_MEMCPY_LINE_BYTES) && scale == 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memcpy_copies_every_byte),
        cmocka_unit_test(absent_instructions_are_told),
        cmocka_unit_test(requests_bring_every_byte),
        cmocka_unit_test(a_short_body_is_an_error),
        cmocka_unit_test(a_pipe_that_is_too_large_is_refused),
        cmocka_unit_test(pieces_cover_the_bytes),
        cmocka_unit_test(huge_pages_are_counted),
        cmocka_unit_test(far_memory_is_there_or_absent),
        cmocka_unit_test(reference_of_latency_walks_the_chain),
    };
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
