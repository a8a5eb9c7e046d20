/* The host's variants of memcpy at ragged sizes and by every instruction set; requests out of a pipe, huge pages,
 * another NUMA node; and the small rules that they rest on. */
#include "host_case.h"
#include "kernels/memcpy/memcpy.h"

#include "kernels/isa.h"
#include "suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { GUARD = 64 };

static as_error error;

/* ---- every variant that the team shares ---- */

static void copy(const as_variant *v, int64_t bytes, as_team *team) {
    char axes[48];
    snprintf(axes, sizeof axes, "bytes=%lld", (long long)bytes);
    const as_params p = case_params(&as_memcpy_suite, axes);
    unsigned char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes + 2 * GUARD);
    assert_non_null(from);
    assert_non_null(to);
    as_rng_fill(from, AS_U8, AS_BITS, 0, (uint64_t)bytes, HOST_SEED, 1);
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
            const as_variant *variant = host_variant(&as_memcpy_suite, variants[v]);
            as_isa_limit((as_isa)isa);
            if (variant->available && variant->available(&cpu, &error) == AS_EABSENT)
                continue;
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                copy(variant, sizes[i], team_of_one), copy(variant, sizes[i], team_of_three);
        }
    as_isa_limit(AS_ISA_AVX512);
}

/* A machine without the instructions says so, and is never asked to run them. */
static void absent_instructions_are_told(void **unused) {
    (void)unused;
    as_isa_limit(AS_ISA_BASE);
    assert_int_equal(host_variant(&as_memcpy_suite, "avx2")->available(&cpu, &error), AS_EABSENT);
    as_isa_limit(AS_ISA_AVX2);
    assert_int_equal(host_variant(&as_memcpy_suite, "avx512")->available(&cpu, &error), AS_EABSENT);
    assert_non_null(strstr(error.message, "AVX-512"));
    as_isa_limit(AS_ISA_AVX512);
}

/* ---- requests ---- */

/* A request of `bytes`, twice, between guards: its own time, the time of read(), and not one byte beyond. */
static void request(const char *name, int64_t bytes, int copies) {
    const as_variant *v = host_variant(&as_memcpy_suite, name);
    char axes[48];
    snprintf(axes, sizeof axes, "bytes=%lld;copies=%d", (long long)bytes, copies);
    const as_params p = case_params(&as_memcpy_suite, axes);
    unsigned char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes + 2 * GUARD);
    assert_non_null(from);
    assert_non_null(to);
    as_rng_fill(from, AS_U8, AS_BITS, 0, (uint64_t)bytes, HOST_SEED, 1);
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
    const as_variant *v = host_variant(&as_memcpy_suite, "huge");
    const as_params p = case_params(&as_memcpy_suite, "bytes=5242880");
    void *operand[2];
    double extra[AS_MAX_EXTRA] = {-1, -1, -1};
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
    static const char *const sizes[] = {"bytes=256", "bytes=2097152", "bytes=1280"};
    for (int k = 0; k < 3; k++) {
        const as_params p = case_params(&as_memcpy_suite, sizes[k]);
        double expected, scale;
        const int64_t row = 0;
        const int64_t nodes = as_params_int(&p, "bytes") / AS_MEMCPY_NODE_BYTES;
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
    return cmocka_run_group_tests(tests, host_open, host_close);
}
