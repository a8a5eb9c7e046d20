/* The walk of the suite memory: one cycle through all lines, walkers that follow one another, and a reference that a
 * broken walk does not pass. */
#include "../kernels/memory/memory.h"
#include "../suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void the_walk_is_one_cycle(void **unused) {
    (void)unused;
    static const int64_t sizes[] = {2, 3, 64, 1000, 65536};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t lines = sizes[s];
        uint32_t *keys = malloc((size_t)lines * sizeof *keys), *next = malloc((size_t)lines * sizeof *next);
        assert_non_null(keys);
        assert_non_null(next);
        as_rng_fill(keys, AS_U32, AS_BITS, 0, (uint64_t)lines, 42, AS_MEMORY_WALK);
        as_memory_cycle(keys, lines, next);
        int64_t length = 0, line = 0;
        do {
            assert_in_range(next[line], 0, lines - 1);
            line = next[line];
            length++;
        } while (line != 0 && length <= lines);
        assert_int_equal(length, lines);
        free(keys);
        free(next);
    }
}

static void walkers_share_the_cycle(void **unused) {
    (void)unused;
    enum { LINES = 103, WALKERS = 4 };
    uint32_t keys[LINES], next[LINES], start[WALKERS];
    bool seen[LINES] = {false};
    as_rng_fill(keys, AS_U32, AS_BITS, 0, LINES, 1, AS_MEMORY_WALK);
    as_memory_cycle(keys, LINES, next);
    const as_memory_walk w = as_memory_walk_by(LINES, WALKERS);
    assert_int_equal(w.share, 25);
    assert_int_equal(w.steps, 25);
    assert_int_equal(as_memory_walk_by(128, 1).steps, 32768); /* a short cycle, 256 times */
    assert_int_equal(as_memory_walk_by(40000, 1).steps, 40000);
    as_memory_starts(next, w, start);
    for (int k = 0; k < WALKERS; k++) {
        uint32_t line = start[k];
        for (int64_t i = 0; i < w.steps; i++, line = next[line]) {
            assert_false(seen[line]); /* no line is walked twice */
            seen[line] = true;
        }
        if (k + 1 < WALKERS)
            assert_int_equal(line, start[k + 1]);
    }
}

static as_params params_of(const char *bytes, const char *stride) {
    as_params p;
    assert_int_equal(as_params_init(&p, as_memory_suite.axes, as_memory_suite.n_axes, NULL), AS_OK);
    assert_int_equal(as_params_set(&p, "bytes", bytes, NULL), AS_OK);
    assert_int_equal(as_params_set(&p, "stride", stride, NULL), AS_OK);
    return p;
}

/* The kernel and the reference agree; with two lines exchanged in its cycle it would not. */
static void a_wrong_order_is_refused(void **unused) {
    (void)unused;
    enum { LINES = 256 };
    const as_params p = params_of("16384", "64");
    uint32_t keys[LINES], out[2];
    as_rng_fill(keys, AS_U32, AS_BITS, 0, LINES, 7, AS_MEMORY_WALK);
    void *operand[] = {keys, out};
    as_call call = {.params = &p, .operand = operand};
    as_error e;
    assert_int_equal(as_memory_chase_prepare_cpu(&call, &call.state, &e), AS_OK);
    assert_int_equal(as_memory_chase_cpu(&call, &e), AS_OK);
    as_memory_chase_finish_cpu(call.state);
    as_work w = {.operand = {{.count = LINES, .key = AS_MEMORY_WALK + (1 << 8)}}, .columns = 2};
    const void *input[] = {keys};
    double expected[2], scale[2];
    const int64_t row = 0;
    as_reference r = {&p, &w, input, &row, 1, expected, scale, NULL};
    assert_int_equal(as_memory_reference(&r, &e), AS_OK);
    assert_true(expected[0] == out[0] && expected[1] == out[1]);
    keys[200] ^= 1;
    assert_int_equal(as_memory_reference(&r, &e), AS_OK);
    assert_true(expected[0] != out[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_walk_is_one_cycle),
        cmocka_unit_test(walkers_share_the_cycle),
        cmocka_unit_test(a_wrong_order_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
