/* Suites checked by counted executions, the ones that kill their worker, the ceilings, and the registry of all. */
#include "fake_suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- effect ---- */

static volatile uint64_t sink;

static void execute(const as_call *call, int times) {
    for (int i = 0; i < times; i++)
        *(call->counter ? call->counter : (uint64_t *)&sink) += 1;
}

/* FAKE_SLOW_MS: much longer than the planner takes it for. */
static as_status effect_run(const as_call *call, as_error *e) {
    const char *slow = getenv("FAKE_SLOW_MS");
    (void)e;
    if (slow)
        nanosleep(&(struct timespec){.tv_nsec = 1000000L * atoi(slow)}, NULL);
    execute(call, FAKE_EXECUTIONS);
    return AS_OK;
}

static as_status few_run(const as_call *call, as_error *e) {
    (void)e;
    execute(call, FAKE_EXECUTIONS - 1);
    return AS_OK;
}

static const as_axis no_axes[1];

static const as_variant effect_variants[] = {
    {.name = "good", .on = "cpu", .run = effect_run},
    {.name = "few", .on = "cpu", .run = few_run},
    {0},
};

static const as_point effect_points[] = {
    {.from = AS_QUICK, .on = "cpu", .variants = "*", .axes = "", .priority = 1},
    {0},
};

static as_status effect_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    (void)p, (void)v, (void)d, (void)e;
    *w = (as_work){.convention = "none",
                   .items = FAKE_EXECUTIONS,
                   .item = "execution",
                   .no_ceiling = "a test",
                   .check = AS_CHECK_EFFECT,
                   .expected_count = FAKE_EXECUTIONS};
    return AS_OK;
}

const as_suite fake_effect_suite = {.name = "effect",
                                    .summary = "counted executions",
                                    .axes = no_axes,
                                    .n_axes = 0,
                                    .variants = effect_variants,
                                    .points = effect_points,
                                    .describe = effect_describe};

/* ---- fault ---- */

static as_status abort_run(const as_call *call, as_error *e) {
    (void)call, (void)e;
    abort();
}

static as_status segfault_run(const as_call *call, as_error *e) {
    (void)call, (void)e;
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit */
    raise(SIGSEGV);
    return AS_OK;
}

/* What the kernel's killer for want of memory does; FAKE_EATS_BYTES: brings it about, where a limit is below that. */
static as_status killed_run(const as_call *call, as_error *e) {
    const char *eats = getenv("FAKE_EATS_BYTES");
    (void)call, (void)e;
    if (!eats)
        raise(SIGKILL);
    const size_t bytes = eats ? strtoull(eats, NULL, 10) : 0;
    char *food = malloc(bytes);
    for (size_t at = 0; food && at < bytes; at += 4096)
        *(volatile char *)(food + at) = 1;
    free(food);
    return AS_OK;
}

static void effect_kernel(const as_call *call) { execute(call, FAKE_EXECUTIONS); }
static as_status device_run(const as_call *call, as_error *e) { return fake_launch(call, effect_kernel, e); }

/* Issues in good order; the next wait, and all after it in this process, fail. */
static as_status sticky_run(const as_call *call, as_error *e) {
    AS_TRY(device_run(call, e));
    fake.sticky = true;
    return AS_OK;
}

static as_status hang_run(const as_call *call, as_error *e) {
    (void)call, (void)e;
    while (pause() != 0) /* it never returns 0 */
        ;
    return AS_OK;
}

static as_status exit_run(const as_call *call, as_error *e) {
    (void)call, (void)e;
    _exit(3);
}

static as_status refuse_run(const as_call *call, as_error *e) {
    (void)call;
    return as_fail(e, AS_EFAIL, "the kernel reported an error");
}

static as_status no_memory(const as_call *call, void **state, as_error *e) {
    (void)call, (void)state;
    return as_fail(e, AS_ENOMEM, "1 TB for the workspace does not fit");
}

static as_status absent(as_device *device, as_error *e) {
    (void)device;
    return as_fail(e, AS_EABSENT, "this CPU has no such unit");
}

/* 25 ms an operation: verification, the choice of the batch and the warm-up take at most 13 calls, so that the 15th
 * stands in a round when there are 8 of them. */
static as_status late_abort_run(const as_call *call, as_error *e) {
    static int calls;
    (void)call, (void)e;
    nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
    if (++calls == 15)
        abort();
    execute(call, FAKE_EXECUTIONS);
    return AS_OK;
}

static const as_variant fault_variants[] = {
    {.name = "first", .on = "cpu", .run = effect_run},
    {.name = "aborts", .on = "cpu", .run = abort_run},
    {.name = "segfaults", .on = "cpu", .run = segfault_run},
    {.name = "hangs", .on = "cpu", .run = hang_run},
    {.name = "exits", .on = "cpu", .run = exit_run},
    {.name = "refuses", .on = "cpu", .run = refuse_run},
    {.name = "hungry", .on = "cpu", .run = effect_run, .prepare = no_memory},
    {.name = "absent", .on = "cpu", .run = effect_run, .available = absent},
    {.name = "killed", .on = "cpu", .run = killed_run},
    {.name = "late_abort", .on = "cpu", .run = late_abort_run, .flags = AS_SINGLE},
    {.name = "last", .on = "cpu", .run = effect_run},
    {.name = "first", .on = "fake", .run = device_run},
    {.name = "sticky", .on = "fake", .run = sticky_run},
    {.name = "last", .on = "fake", .run = device_run},
    {0},
};

static const as_point fault_points[] = {
    {.from = AS_QUICK,
     .on = "cpu",
     .variants = "first,aborts,segfaults,hangs,exits,refuses,hungry,absent,killed,late_abort,last",
     .axes = ""},
    {.from = AS_QUICK, .on = "fake", .variants = "first,sticky,last", .axes = ""},
    {0},
};

const as_suite fake_fault_suite = {.name = "fault",
                                   .summary = "worker killers",
                                   .axes = no_axes,
                                   .n_axes = 0,
                                   .variants = fault_variants,
                                   .points = fault_points,
                                   .describe = effect_describe};

/* ---- ceilings ---- */

static const as_axis ceiling_axes[] = {{.name = "level", .fallback = "memory", .help = "where the data lie"}};

static void stream(const as_call *call) { memcpy(call->operand[1], call->operand[0], 16384); }
static void fma_kernel(const as_call *call) { execute(call, FAKE_EXECUTIONS); }

static as_status stream_run(const as_call *call, as_error *e) {
    (void)e;
    stream(call);
    return AS_OK;
}

static as_status fake_stream_run(const as_call *call, as_error *e) { return fake_launch(call, stream, e); }
static as_status fake_fma_run(const as_call *call, as_error *e) { return fake_launch(call, fma_kernel, e); }

static const as_variant ceiling_variants[] = {
    {.name = "stream", .on = "cpu", .run = stream_run},
    {.name = "fma", .on = "cpu", .run = effect_run},
    {.name = "gone", .on = "cpu", .run = effect_run},
    {.name = "stream", .on = "fake", .run = fake_stream_run},
    {.name = "fma", .on = "fake", .run = fake_fma_run},
    {.name = "gone", .on = "fake", .run = fake_fma_run},
    {0},
};

static as_status ceiling_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w,
                                  as_error *e) {
    (void)d;
    if (strcmp(v->name, "gone") == 0)
        return as_fail(e, AS_EABSENT, "no such unit");
    if (strcmp(v->name, "fma") == 0) {
        AS_TRY(effect_describe(p, v, d, w, e));
        w->bound[0] = (as_bound){"flops.f32", 2.0 * FAKE_EXECUTIONS};
    } else {
        *w = (as_work){
            .operand = {{"from", AS_IN, AS_MEM_DEVICE, AS_U8, AS_BITS, 16384, 9},
                        {"to", AS_OUT, AS_MEM_DEVICE, AS_U8, AS_ZEROS, 16384, 0}},
            .operands = 2,
            .bytes_read = 16384,
            .bytes_written = 16384,
            .convention = "read + written",
            .working_set_bytes = 32768,
            .bound = {{"memory", 32768}},
            .check = AS_CHECK_COPY,
        };
    }
    w->bounds = 1;
    return AS_OK;
}

static const as_point ceiling_points[] = {{AS_QUICK, "cpu", "stream", "level=memory,cache", 0}, {.variants = NULL}};

const as_suite fake_ceilings = {.name = "ceiling",
                                .summary = "limits",
                                .axes = ceiling_axes,
                                .n_axes = 1,
                                .variants = ceiling_variants,
                                .points = ceiling_points,
                                .describe = ceiling_describe};

/* "memory": a unit that this machine lacks, then the stream of the level; "flops.f32": fma. */
static int ceilings_for(const as_bound *b, const as_work *w, const as_params *p, const as_device *d, bool cold,
                        as_ceiling_ref out[AS_MAX_CEILING_REFS]) {
    (void)p, (void)d;
    if (strcmp(b->ceiling, "flops.f32") == 0) {
        out[0] = (as_ceiling_ref){"fma", ""};
        return 1;
    }
    out[0] = (as_ceiling_ref){"gone", ""};
    out[1] = (as_ceiling_ref){"stream", ""};
    snprintf(out[1].axes, sizeof out[1].axes, "level=%s", cold || w->working_set_bytes > 65536 ? "memory" : "cache");
    return 2;
}

static const as_suite *const suites[] = {&fake_vector_suite, &fake_copy_suite, &fake_effect_suite, &fake_fault_suite,
                                         NULL};
static const as_device_driver *const drivers[] = {&fake_driver, NULL};
static const as_absent_kind absent_kinds[] = {{"lamp", "this binary was built without lamps"}, {NULL, NULL}};

const as_registry fake_registry = {.suites = suites,
                                   .drivers = drivers,
                                   .absent = absent_kinds,
                                   .ceilings = &fake_ceilings,
                                   .ceilings_for = ceilings_for};
