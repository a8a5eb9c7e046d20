#include "launch_traits.h"

#include "suites.h"

#include <stdio.h>
#include <stdlib.h>

enum { LONGEST_CHAIN = 100000, MOST_WORKERS = 64, WIDEST_BLOCK = 1024, MISUSE_NS = 600000000 };
static const int64_t most_elements = (int64_t)1 << 30;

/* Axes that a variant may take beside cache, which nothing here does. */
typedef enum takes {
    CHAIN = 1,
    KERNEL = 2,
    THREADS = 4, /* any number */
    PAIR = 8,    /* two threads at least: they meet */
    SHAPE = 16,
    SCHEDULE = 32,
    EVENT_SCHEDULE = 64, /* auto and blocking */
    WORKERS = 128,
    PRIORITY = 256,
    BLOCK = 512,
    IMAGE = 1024,
    MISUSE = 2048,
} takes;

/* How many executions one operation has, and what of 10 us kernels is spent one after the other. */
typedef enum counted { ONCE, EACH, TWICE_EACH, EACH_OF_WORKERS, EACH_ALONG_WORKERS, OUTPUT } counted;

typedef struct trait {
    const char *on, *variant, *item; /* item: what `chain` counts; NULL: nothing */
    unsigned takes;
    counted counted;
    const char *no_ceiling;   /* NULL: bounded by the launch ceiling, or by memory where there is an output */
    double each_ns, whole_ns; /* rough, of one item and of the operation; for the planner only */
} trait;

#define CALL "starting a task on the host has no measured limit"
#define WAKE "a wake-up has no measured limit"
#define BUILD "building a graph has no measured limit"
#define ASIDE "kernels side by side have no measured limit"
#define COLD "the start of a process has no measured limit"

static const trait traits[] = {
    {"cpu", "direct", "task", CHAIN | KERNEL, EACH, CALL, 2, 0},
    {"cpu", "pool", "task", CHAIN | KERNEL | THREADS, EACH, CALL, 2000, 0},
    {"cpu", "openmp", "task", CHAIN | KERNEL | THREADS, EACH, CALL, 2000, 0},
    {"cpu", "static_plan", "task", CHAIN | KERNEL | THREADS, EACH, CALL, 3, 2000},
    {"cpu", "call_static", "call", CHAIN, EACH, CALL, 2, 0},
    {"cpu", "call_pointer", "call", CHAIN, EACH, CALL, 2, 0},
    {"cpu", "call_plt", "call", CHAIN, EACH, CALL, 2, 0},
    {"cpu", "call_library", "call", CHAIN, EACH, CALL, 2, 0},
    {"cpu", "call_syscall", "call", CHAIN, EACH, CALL, 300, 0},
    {"cpu", "wake_spin", "wake", CHAIN | PAIR, TWICE_EACH, WAKE, 400, 2000},
    {"cpu", "wake_yield", "wake", CHAIN | PAIR, TWICE_EACH, WAKE, 1000, 2000},
    {"cpu", "wake_futex", "wake", CHAIN | PAIR, TWICE_EACH, WAKE, 20000, 2000},
    {"cpu", "wake_condition", "wake", CHAIN | PAIR, TWICE_EACH, WAKE, 25000, 2000},
    {"cpu", "wake_eventfd", "wake", CHAIN | PAIR, TWICE_EACH, WAKE, 25000, 2000},
    {"cpu", "wake_pipe", "wake", CHAIN | PAIR, TWICE_EACH, WAKE, 25000, 2000},
    {"cpu", "queue_fresh", "task", CHAIN | PAIR, EACH, WAKE, 500, 2000},
    {"cpu", "queue_idle", "task", CHAIN | PAIR, EACH, WAKE, AS_LAUNCH_IDLE_NS + 20000, 2000},
    {"cpu", "process_fork", "process", CHAIN, EACH, COLD, 3e6, 0},
    {"cpu", "process_spawn", "process", CHAIN, EACH, COLD, 2e6, 0},
    {"cuda", "eager", "kernel", CHAIN | KERNEL, EACH, NULL, 4000, 0},
    {"cuda", "eager_sync", "kernel", CHAIN | KERNEL, EACH, NULL, 9000, 0},
    {"cuda", "graph", "kernel", CHAIN | KERNEL | SHAPE, EACH, NULL, 800, 8000},
    {"cuda", "graph_instantiate", "kernel", CHAIN | KERNEL | SHAPE, EACH, BUILD, 800, 30000},
    {"cuda", "graph_first_launch", "kernel", CHAIN | KERNEL | SHAPE, TWICE_EACH, BUILD, 3000, 60000},
    {"cuda", "graph_upload", "kernel", CHAIN | KERNEL | SHAPE, EACH, BUILD, 3000, 60000},
    {"cuda", "graph_set_params", "kernel", CHAIN, EACH, BUILD, 500, 0},
    {"cuda", "graph_update", "kernel", CHAIN, EACH, BUILD, 500, 5000},
    {"cuda", "dependent", "kernel", CHAIN | KERNEL, EACH, ASIDE, 4000, 0},
    {"cuda", "grid_sync", "sync", CHAIN, EACH, "a synchronisation of a grid has no measured limit", 2000, 8000},
    {"cuda", "wait_stream", "kernel", CHAIN | KERNEL | SCHEDULE, EACH, NULL, 15000, 0},
    {"cuda", "wait_event", "kernel", CHAIN | KERNEL | EVENT_SCHEDULE, EACH, NULL, 15000, 0},
    {"cuda", "wait_poll_stream", "kernel", CHAIN | KERNEL, EACH, NULL, 10000, 0},
    {"cuda", "wait_poll_event", "kernel", CHAIN | KERNEL, EACH, NULL, 10000, 0},
    {"cuda", "wait_callback", "kernel", CHAIN | KERNEL, EACH, NULL, 30000, 0},
    {"cuda", "workers_stream", "kernel", CHAIN | KERNEL | WORKERS, EACH_OF_WORKERS, ASIDE, 5000, 20000},
    {"cuda", "workers_streams", "kernel", CHAIN | KERNEL | WORKERS, EACH_ALONG_WORKERS, ASIDE, 5000, 20000},
    {"cuda", "workers_graph", "kernel", CHAIN | KERNEL | WORKERS, EACH_ALONG_WORKERS, ASIDE, 2000, 20000},
    {"cuda", "priority_idle", NULL, PRIORITY, ONCE, "a latency has no measured limit", 0, 15000},
    {"cuda", "priority_loaded", NULL, PRIORITY, ONCE, "a latency has no measured limit", 0, 300000},
    {"cuda", "config_memory", NULL, BLOCK, OUTPUT, NULL, 0, 0},
    {"cuda", "config_compute", NULL, BLOCK, OUTPUT, NULL, 0, 0},
    {"cuda", "cold_context", NULL, 0, ONCE, COLD, 0, 6e8},
    {"cuda", "cold_module", NULL, IMAGE, ONCE, COLD, 0, 6e8},
    {"cuda", "cold_runtime", NULL, 0, ONCE, COLD, 0, 6e8},
    {"cuda", "contexts", NULL, WORKERS, ONCE, COLD, 0, 8e8},
    {"cuda", "misuse", NULL, MISUSE, ONCE, "a misuse is observed, its time says nothing", 0, 5e6},
};

/* ---- what a variant takes ---- */

static bool one_of(const char *text, const char *list) {
    const size_t length = strlen(text);
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (strcspn(at, ",") == length && strncmp(at, text, length) == 0)
            return true;
    return false;
}

static const struct choice {
    const char *axis, *values;
    unsigned by; /* any of these lets the axis leave its default */
} choices[] = {
    {"kernel", "empty,10us", KERNEL},
    {"shape", "chain,fan_out,copies", SHAPE},
    {"schedule", "auto,spin,yield,blocking", SCHEDULE | EVENT_SCHEDULE},
    {"priority", "low,high", PRIORITY},
    {"block", "auto,rule1024,32,64,128,256,512,1024", BLOCK},
    {"image", "cubin,ptx,ptx_cached", IMAGE},
    {"misuse", "none," AS_LAUNCH_MISUSE_LIST, MISUSE},
    {"chain", NULL, CHAIN},
    {"threads", NULL, THREADS | PAIR},
    {"cache", NULL, 0},
    {"workers", NULL, WORKERS},
    {"n", NULL, BLOCK},
};

static as_status check_axes(const as_params *p, const trait *t, const as_axis *axes, as_error *e) {
    for (int i = 0; i < p->count; i++) {
        const char *name = axes[i].name, *text = as_params_text(p, name);
        for (int c = 0; c < AS_COUNT(choices); c++) {
            if (strcmp(choices[c].axis, name) != 0)
                continue;
            if (choices[c].values && !one_of(text, choices[c].values))
                return as_fail(e, AS_EUSAGE, "launch: %s is one of %s, not '%s'", name, choices[c].values, text);
            if (!(t->takes & choices[c].by) && strcmp(text, axes[i].fallback) != 0)
                return as_fail(e, AS_EUSAGE, "launch/%s takes no %s: leave it at %s", t->variant, name,
                               axes[i].fallback);
        }
    }
    return AS_OK;
}

static as_status check(const as_params *p, const trait *t, const as_axis *axes, as_error *e) {
    const int64_t chain = as_params_int(p, "chain"), workers = as_params_int(p, "workers"), n = as_params_int(p, "n");
    AS_TRY(check_axes(p, t, axes, e));
    if (chain < 1 || chain > LONGEST_CHAIN)
        return as_fail(e, AS_EUSAGE, "launch: chain is 1 to %d", LONGEST_CHAIN);
    if (workers < 1 || workers > MOST_WORKERS)
        return as_fail(e, AS_EUSAGE, "launch: workers is 1 to %d", MOST_WORKERS);
    if (n < 1 || n > most_elements)
        return as_fail(e, AS_EUSAGE, "launch: n is 1 to %lld", (long long)most_elements);
    if ((t->takes & PAIR) && as_params_int(p, "threads") == 1)
        return as_fail(e, AS_EUSAGE, "launch/%s needs two threads: threads:all, or 2", t->variant);
    if ((t->takes & EVENT_SCHEDULE) && !one_of(as_params_text(p, "schedule"), "auto,blocking"))
        return as_fail(e, AS_EUSAGE, "launch/%s: schedule is auto or blocking", t->variant);
    if ((t->takes & MISUSE) && strcmp(as_params_text(p, "misuse"), "none") == 0)
        return as_fail(e, AS_EUSAGE, "launch/misuse: name one: misuse:capture_global");
    return AS_OK;
}

/* ---- the work ---- */

/* 10 us kernels that must follow one another: a strict floor, since kernels of 10 us hide the start of the next. */
static int64_t in_a_row(const as_params *p, const trait *t, int64_t chain) {
    if ((t->takes & SHAPE) && strcmp(as_params_text(p, "shape"), "fan_out") == 0)
        return chain < 3 ? chain : 3;
    return t->counted == EACH_OF_WORKERS ? chain * as_params_int(p, "workers") : chain;
}

static void limit(const as_params *p, const trait *t, int64_t chain, as_work *w) {
    const bool aside = (t->takes & SHAPE) && strcmp(as_params_text(p, "shape"), "fan_out") == 0;
    const bool builds = t->no_ceiling && strcmp(t->no_ceiling, BUILD) == 0;
    if (as_launch_spins(p) && !builds)
        w->fixed_ns = (double)in_a_row(p, t, chain) * AS_LAUNCH_SPIN_NS;
    else if (t->no_ceiling || aside)
        w->no_ceiling = t->no_ceiling ? t->no_ceiling : ASIDE;
    else
        w->bound[w->bounds++] = (as_bound){"launch", (double)chain};
}

/* Whole rows of 1024 where n allows: then a sample of rows covers more. */
static void elementwise(const as_params *p, const trait *t, as_work *w) {
    const int64_t n = as_params_int(p, "n");
    const bool compute = strcmp(t->variant, "config_compute") == 0;
    w->operand[0] = (as_operand){
        "x", AS_IN, AS_MEM_DEVICE, AS_U32, AS_BITS, n, compute ? AS_LAUNCH_KEY_COMPUTE : AS_LAUNCH_KEY_MEMORY};
    w->operand[1] = (as_operand){"y", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, n, 0};
    w->operands = 2;
    w->bytes_read = w->bytes_written = 4 * (double)n;
    w->convention = "read + written";
    w->working_set_bytes = 8 * n;
    w->bound[w->bounds++] = (as_bound){"memory", 8 * (double)n};
    w->check = AS_CHECK_REFERENCE;
    w->tolerance = 0.25;
    w->columns = n % 1024 == 0 ? 1024 : 1;
    w->rows = n / w->columns;
    w->tile = w->rows < 4096 ? 1 : w->rows / 4096; /* edges of about 4096 pieces */
    w->predicted_ns = 3000 + (double)n * (compute ? 0.01 : 0.003);
}

as_status as_launch_describe(const as_params *p, const as_variant *v, const as_axis *axes, as_work *w, as_error *e) {
    const trait *t = NULL;
    for (int i = 0; i < AS_COUNT(traits) && !t; i++)
        if (strcmp(traits[i].on, v->on) == 0 && strcmp(traits[i].variant, v->name) == 0)
            t = &traits[i];
    *w = (as_work){.convention = "no data moved"};
    if (!t)
        return as_fail(e, AS_EUSAGE, "launch has no variant %s on %s", v->name, v->on);
    AS_TRY(check(p, t, axes, e));
    if (t->counted == OUTPUT) {
        elementwise(p, t, w);
        return AS_OK;
    }
    const int64_t chain = as_launch_chain_of(p), workers = as_params_int(p, "workers");
    const int64_t expected[] = {[ONCE] = 1,
                                [EACH] = chain,
                                [TWICE_EACH] = 2 * chain,
                                [EACH_OF_WORKERS] = workers * chain,
                                [EACH_ALONG_WORKERS] = workers * chain};
    w->check = AS_CHECK_EFFECT;
    w->expected_count = expected[t->counted];
    if (t->item) {
        w->items = (double)(strcmp(t->variant, "graph_first_launch") == 0 ? chain : w->expected_count);
        w->item = t->item;
    }
    limit(p, t, chain, w);
    const double kernels = (double)chain * (t->takes & WORKERS && t->item ? (double)workers : 1);
    w->predicted_ns = t->whole_ns + kernels * (t->each_ns + (as_launch_spins(p) ? AS_LAUNCH_SPIN_NS : 0));
    if (strcmp(t->variant, "contexts") == 0)
        w->predicted_ns = t->whole_ns * (1 + 0.4 * (double)workers);
#define FRESH(name, fresh)                                                                                             \
    if (fresh && strcmp(as_params_text(p, "misuse"), #name) == 0)                                                      \
        w->predicted_ns = MISUSE_NS;
    AS_LAUNCH_MISUSES(FRESH)
#undef FRESH
    return AS_OK;
}
