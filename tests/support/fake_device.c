#include "fake_device.h"

#include "finding.h"
#include "process.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 4096, HEADER = 64 };

typedef struct node {
    const as_call *call;
    fake_kernel kernel;
} node;

typedef struct graph {
    int count;
    node nodes[MOST_NODES];
} graph;

/* A counter that moves every 10 ms. */
#define FAKE_ENERGY .idle_watts = 50, .op_joules = 1e-4, .energy_step_ns = 10000000

fake_control fake = {.op_ns = 2000, .clock_rate = 1, .spin = true, .cache_bytes = 1 << 20, FAKE_ENERGY};

static double clock_ns;  /* device time */
static graph *capturing; /* between capture_begin and capture_end */
static size_t bytes_in_use;

void fake_reset(void) {
    const int graphs = fake.graphs, blocks = fake.blocks; /* what is alive stays alive */
    fake = (fake_control){.op_ns = 2000, .clock_rate = 1, .spin = true, .cache_bytes = 1 << 20, FAKE_ENERGY};
    fake.graphs = graphs;
    fake.blocks = blocks;
}

static void execute(const node *n) {
    const int64_t until = as_now_ns() + (int64_t)fake.op_ns;
    n->kernel(n->call);
    clock_ns += fake.op_ns;
    fake.operations++;
    while (fake.spin && as_now_ns() < until)
        ;
}

as_status fake_launch(const as_call *call, fake_kernel kernel, as_error *e) {
    const node n = {call, kernel};
    if (!capturing) {
        execute(&n);
        return AS_OK;
    }
    if (capturing->count == MOST_NODES)
        return as_fail(e, AS_EFAIL, "the fake graph is full");
    capturing->nodes[capturing->count++] = n;
    return AS_OK;
}

/* ---- discovery ---- */

static const char *setting(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value ? value : fallback;
}

static as_status fake_count(int *n, char reason[256], as_error *e) {
    const char *count = setting("FAKE_COUNT", "1");
    if (strcmp(count, "broken") == 0)
        return as_fail(e, AS_EENV, "the fake driver is broken; mend it");
    if (strcmp(count, "crash") == 0)
        abort();
    *n = atoi(count);
    snprintf(reason, 256, "%s", *n ? "" : "no fake device in this machine");
    return AS_OK;
}

static as_status fake_open(int index, as_device *out, as_error *e) {
    (void)e;
    *out = (as_device){.driver = &fake_driver, .index = index, .last_level_cache_bytes = fake.cache_bytes};
    snprintf(out->name, sizeof out->name, "fake%d", index);
    return AS_OK;
}

static void fake_close(as_device *d) { memset(d, 0, sizeof *d); }

static json_t *fake_describe(as_device *d) {
    const char *uuid = getenv("FAKE_UUID"); /* one for all: two of them share a lock */
    return json_pack("{s:s, s:s, s:s, s:s*}", "name", d->name, "kind", "fake", "model", "a device of the tests", "uuid",
                     uuid);
}

static size_t capacity(void) { return (size_t)strtoull(setting("FAKE_FREE_BYTES", "1073741824"), NULL, 10); }

static as_status fake_memory(as_device *d, size_t *free_bytes, size_t *total_bytes, as_error *e) {
    (void)d, (void)e;
    *total_bytes = capacity();
    *free_bytes = capacity() - bytes_in_use;
    return AS_OK;
}

/* ---- memory: the size stands before the block ---- */

static as_status fake_alloc(as_device *d, as_memory kind, size_t bytes, void **out, as_error *e) {
    (void)d, (void)kind;
    *out = NULL;
    if (fake.sticky)
        return as_fail(e, AS_EFAIL, "an illegal memory access was encountered, earlier");
    char *p = bytes_in_use + bytes <= capacity() ? malloc(bytes + HEADER) : NULL;
    if (!p)
        return as_fail(e, AS_ENOMEM, "%zu bytes do not fit on the fake device", bytes);
    memcpy(p, &bytes, sizeof bytes);
    bytes_in_use += bytes;
    fake.blocks++;
    *out = p + HEADER;
    return AS_OK;
}

static void fake_release(as_device *d, as_memory kind, void *p) {
    (void)d, (void)kind;
    size_t bytes;
    memcpy(&bytes, (char *)p - HEADER, sizeof bytes);
    bytes_in_use -= bytes;
    fake.blocks--;
    free((char *)p - HEADER);
}

static as_status fake_copy(as_device *d, void *dst, const void *src, size_t bytes, as_error *e) {
    (void)d, (void)e;
    memcpy(dst, src, bytes);
    return AS_OK;
}

static as_status fake_set(as_device *d, void *dst, int byte, size_t bytes, as_error *e) {
    (void)d, (void)e;
    memset(dst, byte, bytes);
    return AS_OK;
}

static as_status fake_fill(as_device *d, as_memory kind, void *dst, as_dtype type, as_dist dist, uint64_t count,
                           uint64_t seed, uint32_t key, as_error *e) {
    (void)d, (void)kind, (void)e;
    as_rng_fill(dst, type, dist, 0, count, seed, key);
    return AS_OK;
}

/* ---- streams and events ---- */

static as_status fake_stream_create(as_device *d, as_stream *out, as_error *e) {
    (void)d, (void)e;
    *out = &clock_ns; /* any address that is not NULL */
    return AS_OK;
}

static void fake_stream_destroy(as_device *d, as_stream s) { (void)d, (void)s; }

static as_status fake_stream_sync(as_device *d, as_stream s, as_error *e) {
    (void)d, (void)s;
    return fake.sticky ? as_fail(e, AS_EFAIL, "an illegal memory access was encountered") : AS_OK;
}

static as_status fake_event_create(as_device *d, as_event *out, as_error *e) {
    (void)d;
    *out = calloc(1, sizeof(double));
    return *out ? AS_OK : as_fail(e, AS_ENOMEM, "no memory for an event");
}

static void fake_event_destroy(as_device *d, as_event ev) {
    (void)d;
    free(ev);
}

static as_status fake_event_record(as_device *d, as_event ev, as_stream s, as_error *e) {
    (void)d, (void)s, (void)e;
    *(double *)ev = clock_ns;
    return AS_OK;
}

static as_status fake_event_elapsed(as_device *d, as_event from, as_event to, double *ns, as_error *e) {
    (void)d, (void)e;
    *ns = (*(double *)to - *(double *)from) * fake.clock_rate;
    return AS_OK;
}

/* ---- graphs ---- */

static as_status fake_capture_begin(as_device *d, as_stream s, as_error *e) {
    (void)d, (void)s;
    capturing = calloc(1, sizeof *capturing);
    return capturing ? AS_OK : as_fail(e, AS_ENOMEM, "no memory for a graph");
}

static as_status fake_capture_end(as_device *d, as_stream s, as_graph *out, as_error *e) {
    (void)d, (void)s, (void)e;
    *out = capturing;
    fake.captured = capturing->count;
    fake.captures++;
    fake.graphs++;
    capturing = NULL;
    return AS_OK;
}

static as_status fake_graph_launch(as_device *d, as_graph g, as_stream s, as_error *e) {
    (void)d, (void)s, (void)e;
    const graph *all = g;
    fake.graph_launches++;
    for (int i = 0; i < all->count; i++)
        execute(&all->nodes[i]);
    return AS_OK;
}

static void fake_graph_destroy(as_device *d, as_graph g) {
    (void)d;
    fake.graphs--;
    free(g);
}

static json_t *fake_counters(as_device *d) {
    (void)d;
    return json_object();
}

static void fake_judge(const json_t *before, const json_t *after, json_t *flags) {
    (void)before, (void)after, (void)flags; /* this device is never disturbed */
}

/* FAKE_HEALTH=ok|note|unknown|warning|unfit|crash; a warning counts from publish on. */
static json_t *fake_health(int index) {
    static const as_check_rule rule = {"fake_check", "a variable of the test", "so that it can be tested", AS_PUBLISH};
    static const as_fitness kinds[] = {AS_FIT_OK, AS_FIT_NOTE, AS_FIT_UNKNOWN, AS_FIT_WARNING, AS_FIT_UNFIT};
    const char *wanted = setting("FAKE_HEALTH", "ok");
    char subject[24];
    as_finding f = {.rule = &rule};
    if (strcmp(wanted, "crash") == 0)
        abort();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(wanted, as_fitness_name(kinds[i])) == 0)
            as_found(&f, kinds[i], "FAKE_HEALTH is %s", wanted);
    if (f.status != AS_FIT_OK)
        as_remedy(&f, "set FAKE_HEALTH to ok");
    snprintf(subject, sizeof subject, "fake%d", index);
    json_t *list = json_array();
    json_array_append_new(list, as_finding_json(&f, subject));
    return list;
}

/* A line each to the file of FAKE_RANGES, with the operations that the device has run by then. */
static void tell_range(const char *mark, const char *name) {
    const char *path = getenv("FAKE_RANGES");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s%s %d\n", mark, name, fake.operations);
    fclose(f);
}

static void fake_range_push(const char *name) { tell_range("+", name); }
static void fake_range_pop(void) { tell_range("-", ""); }

const as_device_driver fake_driver = {
    .kind = "fake",
    .count = fake_count,
    .open = fake_open,
    .close = fake_close,
    .describe = fake_describe,
    .memory = fake_memory,
    .alloc = fake_alloc,
    .release = fake_release,
    .copy = fake_copy,
    .set = fake_set,
    .fill = fake_fill,
    .stream_create = fake_stream_create,
    .stream_destroy = fake_stream_destroy,
    .stream_sync = fake_stream_sync,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_elapsed = fake_event_elapsed,
    .capture_begin = fake_capture_begin,
    .capture_end = fake_capture_end,
    .graph_launch = fake_graph_launch,
    .graph_destroy = fake_graph_destroy,
    .counters = fake_counters,
    .judge = fake_judge,
    .health = fake_health,
    .telemetry = &fake_telemetry,
    .range_push = fake_range_push,
    .range_pop = fake_range_pop,
};
