/* A case of a suite on the GPU against the host's float64 reference, its source buffer or a count; for the tests that
 * include it. Written against the suites' tables alone: a variant added there is tested. */
#pragma once

#include "gpu_device.h"
#include "host_case.h"

#include "kernels/cuda/internal.h"
#include "suites/suites.h"

#include <math.h>
#include <string.h>

enum { POISON = 0xFF };

/* A prepared case: operands on the device, inputs also on the host. */
typedef struct bench {
    const as_suite *suite;
    const as_variant *variant;
    as_params params;
    as_work work;
    void *operand[AS_MAX_OPERANDS], *host[AS_MAX_OPERANDS];
    void *counter, *state;
    double *extra; /* page-locked: kernels write it */
    as_call call;
} bench;

static size_t bytes_of(const as_operand *o) { return (size_t)o->count * as_dtype_bytes(o->type); }

static void tear_down(bench *b) {
    if (b->variant->finish)
        b->variant->finish(b->state);
    for (int i = 0; i < b->work.operands; i++) {
        DRIVER.release(&device, b->work.operand[i].memory, b->operand[i]);
        free(b->host[i]);
    }
    DRIVER.release(&device, AS_MEM_PINNED, b->extra);
    if (b->counter)
        DRIVER.release(&device, AS_MEM_DEVICE, b->counter);
}

/* axes: "n=17;m=5". False where this machine lacks what the variant needs. */
static bool set_up(bench *b, const as_suite *suite, const as_variant *v, const char *axes, bool counted) {
    *b = (bench){.suite = suite, .variant = v};
    as_error e = {0};
    if (v->available && v->available(&device, &e) == AS_EABSENT) {
        print_message("%s: %s\n", v->name, e.message);
        return false;
    }
    b->params = case_params(suite, axes);
    const as_status described = suite->describe(&b->params, v, &device, &b->work, &e);
    if (described == AS_EUSAGE) /* of another type, or a shape that it does not take: the suites' tests say which */
        return false;
    if (described != AS_OK)
        fail_msg("%s %s: %s", v->name, axes, e.message);
    for (int i = 0; i < b->work.operands; i++) {
        const as_operand *o = &b->work.operand[i];
        b->host[i] = malloc(bytes_of(o) + 1);
        assert_non_null(b->host[i]);
        assert_ok(DRIVER.alloc(&device, o->memory, bytes_of(o), &b->operand[i], e));
        if (o->role == AS_OUT) {
            assert_ok(DRIVER.set(&device, b->operand[i], POISON, bytes_of(o), e));
            continue;
        }
        as_rng_fill(b->host[i], o->type, o->dist, 0, (uint64_t)o->count, 11, o->key);
        assert_ok(DRIVER.copy(&device, b->operand[i], b->host[i], bytes_of(o), e));
    }
    void *extra = NULL;
    assert_ok(DRIVER.alloc(&device, AS_MEM_PINNED, AS_MAX_EXTRA * sizeof(double), &extra, e));
    b->extra = extra;
    if (counted) {
        assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, sizeof(uint64_t), &b->counter, e));
        assert_ok(DRIVER.set(&device, b->counter, 0, sizeof(uint64_t), e));
    }
    b->call = (as_call){.params = &b->params,
                        .operand = b->operand,
                        .device = &device,
                        .stream = stream,
                        .counter = b->counter,
                        .extra = b->extra};
    const as_status prepared = v->prepare ? v->prepare(&b->call, &b->state, &e) : AS_OK;
    if (prepared == AS_EABSENT) {
        print_message("%s %s: %s\n", v->name, axes, e.message);
        tear_down(b);
        return false;
    }
    if (prepared != AS_OK)
        fail_msg("%s %s: %s", v->name, axes, e.message);
    b->call.state = b->state;
    return true;
}

static void run(bench *b) {
    assert_ok(b->variant->run(&b->call, e));
    assert_ok(DRIVER.stream_sync(&device, stream, e));
    for (int i = 0; i < b->work.operands; i++)
        if (b->work.operand[i].role == AS_OUT)
            assert_ok(DRIVER.copy(&device, b->host[i], b->operand[i], bytes_of(&b->work.operand[i]), e));
}

/* The output against the suite's host reference: all rows, or of many every fifth, which meets every row of a tile. */
static void check_reference(const bench *b, const char *axes) {
    const as_work *w = &b->work;
    const int64_t step = w->rows > 600 ? 5 : 1, n_rows = (w->rows + step - 1) / step, n = n_rows * w->columns;
    const as_operand *out = &w->operand[w->operands - 1];
    assert_int_equal(out->count, w->rows * w->columns);
    double *expected = malloc((size_t)n * sizeof *expected), *scale = malloc((size_t)n * sizeof *scale);
    int64_t *rows = malloc((size_t)n_rows * sizeof *rows);
    const void *input[AS_MAX_OPERANDS] = {0};
    assert_true(expected && scale && rows);
    for (int64_t i = 0; i < n_rows; i++)
        rows[i] = i == n_rows - 1 ? w->rows - 1 : i * step;
    for (int i = 0; i < w->operands; i++)
        input[i] = w->operand[i].role == AS_IN ? b->host[i] : NULL;
    const void *output = w->follows_output ? b->host[w->operands - 1] : NULL;
    const as_reference r = {&b->params, w, input, rows, n_rows, expected, scale, output};
    assert_ok(b->suite->reference(&r, e));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = rows[i / w->columns] * w->columns + i % w->columns;
        const double got = case_element(out->type, b->host[w->operands - 1], at);
        if (!(fabs(got - expected[i]) <= w->tolerance * scale[i])) /* NaN fails */
            fail_msg("%s/%s %s: element %lld is %.9g, expected %.9g", b->suite->name, b->variant->name, axes,
                     (long long)at, got, expected[i]);
    }
    free(expected);
    free(scale);
    free(rows);
}

/* Two runs: the second finds what state the first left behind. False where the case does not exist here. */
static bool check(const as_suite *suite, const as_variant *v, const char *axes) {
    bench b;
    const bool counted = strcmp(suite->name, "launch") == 0 || strcmp(v->name, "launch") == 0;
    if (!set_up(&b, suite, v, axes, counted))
        return false;
    for (int again = 0; again < 2; again++) {
        run(&b);
        if (b.work.check == AS_CHECK_REFERENCE) {
            check_reference(&b, axes);
        } else if (b.work.check == AS_CHECK_COPY) {
            if (memcmp(b.host[0], b.host[1], bytes_of(&b.work.operand[0])) != 0)
                fail_msg("%s/%s %s: the copy differs from its source", suite->name, v->name, axes);
        } else {
            uint64_t count = 0;
            assert_ok(DRIVER.copy(&device, &count, b.counter, sizeof count, e));
            if (count != (uint64_t)(b.work.expected_count * (again + 1)))
                fail_msg("%s/%s %s: %llu executions, expected %lld", suite->name, v->name, axes,
                         (unsigned long long)count, (long long)b.work.expected_count * (again + 1));
        }
    }
    tear_down(&b);
    return true;
}

/* Returns how many cases were checked: at least one. */
static int check_all(const as_suite *suite, const char *only, const char *const *axes) {
    int cases = 0;
    for (const as_variant *v = suite->variants; v->name; v++) {
        if (strcmp(v->on, "cuda") != 0 || (only && strcmp(v->name, only) != 0))
            continue;
        for (const char *const *a = axes; *a; a++)
            cases += check(suite, v, *a);
    }
    assert_true(cases > 0);
    return cases;
}
