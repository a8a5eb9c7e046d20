/* Batches, rotation of cold copies, graphs, clocks: with a device whose clock the test sets. */
#include "measure.h"
#include "process.h"
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

static as_workshop shop;
static as_error error;
static as_round taken; /* large: not on the stack */

static void open_shop(const as_device_driver *driver) {
    as_placement place;
    fake_forget();
    fake_reset();
    assert_int_equal(as_place_resolve(&(as_place_request){0}, &place, &error), AS_OK);
    assert_int_equal(as_workshop_open(&shop, driver, 0, &place, 42, &error), AS_OK);
}

static int open_cpu(void **unused) {
    (void)unused;
    open_shop(&as_cpu_driver);
    return 0;
}

static int open_fake(void **unused) {
    (void)unused;
    open_shop(&fake_driver);
    return 0;
}

static int close_shop(void **unused) {
    (void)unused;
    as_workshop_close(&shop);
    return fake.blocks || fake.graphs; /* what a case made is gone */
}

static void prepare_variant(as_bench *b, const as_variant *variant, int copies) {
    *b = (as_bench){.suite = &fake_vector_suite, .variant = variant, .copies = copies};
    assert_int_equal(as_params_init(&b->params, fake_vector_suite.axes, fake_vector_suite.n_axes, &error), AS_OK);
    assert_int_equal(as_params_set(&b->params, "n", "64", &error), AS_OK);
    if (as_bench_prepare(b, &shop, &error) != AS_OK)
        fail_msg("%s", error.message);
}

static void prepare(as_bench *b, const char *name, int copies) {
    const as_variant *v = fake_vector_suite.variants;
    while (v->name && (strcmp(v->name, name) != 0 || strcmp(v->on, shop.device.driver->kind) != 0))
        v++;
    assert_non_null(v->name);
    prepare_variant(b, v, copies);
}

static as_warmup warm_up(as_bench *b, int64_t batch) {
    as_warmup w;
    if (as_measure_warmup(b, &shop, batch, 5e6, &w, &error) != AS_OK)
        fail_msg("%s", error.message);
    return w;
}

static const as_round *round_of(as_bench *b, int samples, int64_t batch) {
    memset(&taken, 0x55, sizeof taken);
    taken.samples = samples;
    taken.batch = batch;
    if (as_measure_round(b, &shop, &taken, &error) != AS_OK)
        fail_msg("%s", error.message);
    return &taken;
}

static double sum(const int64_t *x, int n) {
    double s = 0;
    for (int i = 0; i < n; i++)
        s += (double)x[i];
    return s;
}

/* ---- batches ---- */

/* On a clock that only the operations drive, the choice is exact: 100 us a sample at least. */
static void the_batch_makes_a_sample_long_enough(void **unused) {
    (void)unused;
    static const double op_ns[] = {500, 2000, 99000, 1e6};
    for (size_t i = 0; i < sizeof op_ns / sizeof *op_ns; i++) {
        as_bench b;
        fake.spin = false;
        fake.op_ns = op_ns[i];
        prepare(&b, "good", 1);
        const as_warmup w = warm_up(&b, 0);
        assert_true(w.op_ns == op_ns[i] && b.op_ns == op_ns[i]);
        assert_true((double)w.batch * op_ns[i] >= 100e3);
        assert_true(w.batch == 1 || (double)w.batch * op_ns[i] < 16 * 100e3); /* and not much longer */
        assert_true(w.warm && w.spent_ns > 0);                                /* a constant time has settled */
        as_bench_release(&b, &shop);
    }
}

static void a_given_batch_is_kept(void **unused) {
    (void)unused;
    as_bench b;
    prepare(&b, "good", 1);
    assert_int_equal(warm_up(&b, 7).batch, 7); /* another launch's choice: launches stay comparable */
    as_bench_release(&b, &shop);
}

static void the_host_clock_batches_too(void **unused) {
    (void)unused;
    as_bench b;
    prepare(&b, "good", 1);
    const as_warmup w = warm_up(&b, 0);
    assert_false(as_bench_device_clock(&b, &shop));
    assert_true(w.batch > 1 && w.op_ns > 0);
    const as_round *r = round_of(&b, 50, w.batch);
    assert_true(sum(r->time_ns, 50) / 50 > 5e3); /* chosen for 20 us; the machine may have sped up since */
    as_bench_release(&b, &shop);
}

static void a_single_operation_is_never_batched(void **unused) {
    (void)unused;
    as_bench b;
    prepare(&b, "single", 1);
    assert_int_equal(warm_up(&b, 0).batch, 1);
    const int before = fake_calls;
    const as_round *r = round_of(&b, 20, 1);
    assert_int_equal(fake_calls - before, 20);
    for (int i = 0; i < 20; i++) /* the variant's own series: one value a sample, in order */
        assert_true(r->extra[0][i] == 1000.0 * (before + i + 1));
    as_bench_release(&b, &shop);
}

static as_status tells_its_time(const as_call *call, as_error *e) {
    (void)e;
    fake_calls++;
    const int64_t until = as_now_ns() + 50000; /* most of an operation does not count */
    while (as_now_ns() < until)
        ;
    if (call->own_ns)
        *call->own_ns = 1000.0 * (fake_calls % 7 + 1);
    return AS_OK;
}

static as_status tells_nothing(const as_call *call, as_error *e) {
    (void)call, (void)e;
    return AS_OK;
}

static void a_variant_with_a_clock_of_its_own_is_believed(void **unused) {
    (void)unused;
    const as_variant own = {
        .name = "own", .on = shop.device.driver->kind, .flags = AS_OWN_CLOCK, .run = tells_its_time};
    const as_variant silent = {.name = "silent", .on = own.on, .flags = AS_OWN_CLOCK, .run = tells_nothing};
    as_bench b;
    prepare_variant(&b, &own, 1);
    const as_warmup w = warm_up(&b, 0);
    assert_int_equal(w.batch, 1);
    assert_true(w.op_ns >= 50000); /* what a round takes, not what counts */
    const int before = fake_calls;
    const as_round *r = round_of(&b, 10, 1);
    assert_int_equal(fake_calls - before, 10);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(r->time_ns[i], 1000 * ((before + i + 1) % 7 + 1));
        assert_true(r->host_ns[i] >= 50000);
    }
    assert_string_equal(r->suspicion, "");
    assert_true(fabs(r->row.real_time_ns * (double)r->row.iterations - sum(r->time_ns, 10)) < 100);
    as_bench_release(&b, &shop);

    prepare_variant(&b, &silent, 1);
    taken.samples = taken.batch = 1;
    assert_int_equal(as_measure_round(&b, &shop, &taken, &error), AS_EFAIL);
    assert_non_null(strstr(error.message, "silent"));
    as_bench_release(&b, &shop);
}

static void the_clock_costs_something(void **unused) {
    (void)unused;
    assert_true(as_host_clock_cost_ns() > 0 && as_host_clock_cost_ns() < 1e5);
    assert_true(as_host_clock_cost_ns() == as_host_clock_cost_ns()); /* measured once */
}

/* ---- cold copies ---- */

static void assert_rotates(int from, int to, int copies) {
    for (int i = from; i < to; i++)
        for (int k = 1; k < copies && i + k < to; k++)
            assert_ptr_not_equal(fake_visited[i], fake_visited[i + k]);
    for (int i = from; i + copies < to; i++)
        assert_ptr_equal(fake_visited[i], fake_visited[i + copies]);
}

/* Whatever the batch, across samples and rounds: `copies` operations in a row touch every copy once. */
static void cold_cases_visit_all_copies_in_turn(void **unused) {
    (void)unused;
    static const int64_t batches[] = {1, 2, 3, 7};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        as_bench b;
        prepare(&b, "good", 3);
        fake_forget();
        round_of(&b, 10, batches[i]);
        round_of(&b, 5, batches[i]);
        assert_int_equal(fake_calls, 15 * batches[i]);
        assert_rotates(0, fake_calls, 3);
        as_bench_release(&b, &shop);
    }
}

static void the_check_after_timing_reaches_every_copy(void **unused) {
    (void)unused;
    as_bench b;
    prepare(&b, "good", 3);
    for (int odd = 0; odd < 4; odd++) {
        round_of(&b, 1, odd + 1); /* the rotation stands anywhere */
        fake_forget();
        assert_int_equal(as_measure_once(&b, &shop, &error), AS_OK);
        assert_int_equal(fake_calls, 3);
        assert_rotates(0, 3, 3);
    }
    as_bench_release(&b, &shop);
}

/* ---- graphs ---- */

static void a_graph_holds_whole_turns_of_the_copies(void **unused) {
    (void)unused;
    static const int copies[] = {1, 3, 100, 512};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        as_bench b;
        fake_reset();
        fake.spin = false;
        prepare(&b, "graph", copies[i]);
        const as_warmup w = warm_up(&b, 0);
        assert_non_null(b.graph);
        assert_int_equal(b.graph_batch, w.batch);
        assert_int_equal(fake.captured, w.batch);
        assert_int_equal(w.batch % copies[i], 0);
        assert_true(w.batch >= copies[i] && w.batch <= 512);
        assert_int_equal(fake.graphs, 1); /* those of shorter batches are gone */
        const int launches = fake.graph_launches, operations = fake.operations, captures = fake.captures;
        fake_forget();
        round_of(&b, 6, w.batch);
        assert_int_equal(fake.graph_launches - launches, 6);
        assert_int_equal(fake.operations - operations, 6 * w.batch);
        assert_int_equal(fake.captures, captures); /* rounds capture nothing */
        assert_rotates(0, fake_calls < FAKE_MOST_VISITS ? fake_calls : FAKE_MOST_VISITS, copies[i]);
        fake_forget();
        assert_int_equal(as_measure_once(&b, &shop, &error), AS_OK);
        assert_int_equal(fake_calls, w.batch); /* the graph itself is what is checked */
        as_bench_release(&b, &shop);
    }
}

static void too_many_copies_make_no_graph(void **unused) {
    (void)unused;
    as_bench b;
    fake.spin = false;
    prepare(&b, "graph", 513);
    warm_up(&b, 0);
    assert_null(b.graph);
    assert_int_equal(fake.captures, 0);
    as_bench_release(&b, &shop);
    prepare(&b, "good", 1); /* not declared capturable */
    warm_up(&b, 0);
    assert_null(b.graph);
    as_bench_release(&b, &shop);
}

/* ---- clocks ---- */

static void a_device_cannot_work_longer_than_the_host_waits(void **unused) {
    (void)unused;
    as_bench b;
    fake.op_ns = 50e3;
    prepare(&b, "good", 1);
    assert_true(as_bench_device_clock(&b, &shop));
    assert_string_equal(round_of(&b, 5, 20)->suspicion, "");
    fake.clock_rate = 4; /* only a preemption of most of the round could hide it: try again then */
    bool flagged = false;
    for (int i = 0; i < 10 && !flagged; i++)
        flagged = strstr(round_of(&b, 5, 20)->suspicion, "exceeds host time") != NULL;
    assert_true(flagged);
    as_bench_release(&b, &shop);
}

static void samples_and_google_benchmark_agree(void **unused) {
    (void)unused;
    as_bench b;
    fake.op_ns = 10e3;
    prepare(&b, "good", 1);
    const as_round *r = round_of(&b, 40, 5);
    assert_int_equal(r->row.iterations, 40 * 5);
    assert_false(r->row.failed);
    assert_true(r->end_ns > r->begin_ns);
    for (int i = 0; i < 40; i++)
        assert_true(r->time_ns[i] == 50000 && r->host_ns[i] >= 50000);
    assert_true(fabs(r->row.real_time_ns * 200 - sum(r->time_ns, 40)) < 1e-6 * sum(r->time_ns, 40));
    as_bench_release(&b, &shop);
}

static void host_samples_lie_within_google_benchmarks_total(void **unused) {
    (void)unused;
    as_bench b;
    prepare(&b, "good", 1);
    const as_round *r = round_of(&b, 100, 500);
    assert_int_equal(r->row.iterations, 100 * 500);
    assert_true(r->row.real_time_ns * 50000 >= sum(r->time_ns, 100));
    assert_true(sum(r->time_ns, 100) <= (double)(r->end_ns - r->begin_ns));
    for (int i = 0; i < 100; i++)
        assert_true(r->time_ns[i] > 0 && r->time_ns[i] == r->host_ns[i]);
    as_bench_release(&b, &shop);
}

static as_status host_run(const as_call *call, as_error *e) {
    (void)call, (void)e;
    fake_calls++;
    return AS_OK;
}

static void a_variant_may_ask_for_the_host_clock(void **unused) {
    (void)unused;
    const as_variant v = {.name = "host", .on = "fake", .flags = AS_HOST_CLOCK, .run = host_run};
    as_bench b;
    prepare_variant(&b, &v, 1);
    assert_false(as_bench_device_clock(&b, &shop));
    const as_round *r = round_of(&b, 10, 100);
    assert_int_equal(fake_calls, 1000);
    assert_true(sum(r->time_ns, 10) == sum(r->host_ns, 10) && sum(r->time_ns, 10) > 0);
    as_bench_release(&b, &shop);
}

/* ---- failures ---- */

static as_status failing_run(const as_call *call, as_error *e) {
    (void)call;
    return ++fake_calls == 12 ? as_fail(e, AS_EFAIL, "launch number 12 failed") : AS_OK;
}

static void a_failing_operation_ends_its_round(void **unused) {
    (void)unused;
    const as_variant v = {.name = "failing", .on = "cpu", .run = failing_run};
    as_bench b;
    prepare_variant(&b, &v, 1);
    taken.samples = 10;
    taken.batch = 5;
    assert_int_equal(as_measure_round(&b, &shop, &taken, &error), AS_EFAIL);
    assert_string_equal(error.message, "launch number 12 failed");
    assert_int_equal(fake_calls, 12);                          /* and nothing more was run */
    assert_int_equal(round_of(&b, 10, 5)->row.iterations, 50); /* the next round is whole */
    as_warmup w;
    fake_calls = 0;
    assert_int_equal(as_measure_warmup(&b, &shop, 0, 5e6, &w, &error), AS_EFAIL);
    as_bench_release(&b, &shop);
}

static void memory_that_does_not_suffice(void **unused) {
    (void)unused;
    as_bench b = {.suite = &fake_vector_suite, .variant = &fake_vector_suite.variants[10], .copies = 3};
    assert_string_equal(b.variant->on, "fake");
    setenv("FAKE_FREE_BYTES", "120000", 1); /* two copies of 49,152 bytes, not three */
    assert_int_equal(as_params_init(&b.params, fake_vector_suite.axes, fake_vector_suite.n_axes, &error), AS_OK);
    const int blocks = fake.blocks;
    assert_int_equal(as_bench_prepare(&b, &shop, &error), AS_ENOMEM);
    assert_int_equal(fake.blocks, blocks); /* nothing is left allocated */
    unsetenv("FAKE_FREE_BYTES");
}

/* ---- the instrumented pass ---- */

static int operations_ended = 1; /* by each call of the hook */

static as_status fake_breakdown(const as_call *call, as_parts *parts, as_error *e) {
    (void)call, (void)e;
    fake_calls++;
    for (int i = 0; i < operations_ended; i++) {
        as_parts_add(parts, &(as_part){"decode", "head", -1, "host", "clock", 10, 0, 0, NULL});
        as_parts_total(parts, 12);
    }
    return AS_OK;
}

static void the_pass_runs_enough_operations(void **unused) {
    (void)unused;
    const as_variant v = {.name = "parts", .on = "cpu", .run = host_run, .breakdown = fake_breakdown};
    as_bench b;
    as_parts *parts;
    prepare_variant(&b, &v, 3);
    assert_int_equal(as_parts_create(&parts, &error), AS_OK);
    fake_calls = 0;
    assert_int_equal(as_measure_parts(&b, parts, &error), AS_OK);
    assert_int_equal(fake_calls, AS_PARTS_MOST_OPERATIONS); /* short ones: as many as are kept */
    assert_int_equal(as_parts_operations(parts), AS_PARTS_MOST_OPERATIONS);
    as_parts_free(parts);
    for (operations_ended = 0; operations_ended <= 2; operations_ended += 2) { /* none, or two for one */
        assert_int_equal(as_parts_create(&parts, &error), AS_OK);
        assert_int_equal(as_measure_parts(&b, parts, &error), AS_EFAIL);
        as_parts_free(parts);
    }
    operations_ended = 1;
    as_bench_release(&b, &shop);
    assert_true(as_measure_parts_cost_ns(1000) == AS_PARTS_LEAST_NS);
    assert_true(as_measure_parts_cost_ns(5e7) == 1e9);
    assert_true(as_measure_parts_cost_ns(3e8) == AS_PARTS_MOST_NS);
    assert_true(as_measure_parts_cost_ns(4e9) == 4e9); /* one is always run */
}

#define ON(device, test) cmocka_unit_test_setup_teardown(test, open_##device, close_shop)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON(fake, the_batch_makes_a_sample_long_enough),
        ON(fake, a_given_batch_is_kept),
        ON(cpu, the_host_clock_batches_too),
        ON(cpu, a_single_operation_is_never_batched),
        ON(cpu, a_variant_with_a_clock_of_its_own_is_believed),
        ON(fake, a_variant_with_a_clock_of_its_own_is_believed),
        ON(cpu, the_clock_costs_something),
        ON(cpu, cold_cases_visit_all_copies_in_turn),
        ON(cpu, the_check_after_timing_reaches_every_copy),
        ON(fake, a_graph_holds_whole_turns_of_the_copies),
        ON(fake, too_many_copies_make_no_graph),
        ON(fake, a_device_cannot_work_longer_than_the_host_waits),
        ON(fake, samples_and_google_benchmark_agree),
        ON(cpu, host_samples_lie_within_google_benchmarks_total),
        ON(fake, a_variant_may_ask_for_the_host_clock),
        ON(cpu, a_failing_operation_ends_its_round),
        ON(fake, memory_that_does_not_suffice),
        ON(cpu, the_pass_runs_enough_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
