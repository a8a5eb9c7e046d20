/* A whole suite in one file, with every hook that the harness knows. docs/adding.md walks through it, the tests
 * compile and run it, and it is a good start for a suite of your own: copy it, rename, replace the operation.
 *
 * The operation is z[i] = 2 x[i] + y[i] in fp32.
 *   work: 2 n floating-point operations
 *   bytes: reads x and y, writes z: 4 (2 n + n); convention "read + written"
 *
 * variants, each with the one thing that it changes
 *   plain     one loop
 *   chunked   a table of chunks, made once a launch, shared among the threads of the team */
#include "suite.h"

#include <math.h>
#include <stdlib.h>

enum { X, Y, Z }; /* operands, in the order in which describe() lists them */

/* ---- axes: what a case may vary; a default never changes once released, for it is left out of ids ---- */

static const as_axis axes[] = {
    {.name = "n", .fallback = "65536", .integer = true, .unit = "elements", .help = "length of the vectors"},
    {.name = "threads", .fallback = "1", .integer = true, .all = true, .unit = "", .help = "threads, one a core"},
    {.name = "cache", .fallback = "warm", .unit = "", .help = "warm or cold"},
};

/* ---- variants ---- */

/* Timed: no allocation, no I/O, no lock. `operand` holds the pointers of this iteration's copy. */
static as_status plain_run(const as_call *call, as_error *e) {
    (void)e; /* a launch that can fail returns as_fail(e, AS_EFAIL, ...) */
    int64_t n = as_params_int(call->params, "n");
    const float *x = call->operand[X], *y = call->operand[Y];
    float *z = call->operand[Z];
    for (int64_t i = 0; i < n; i++)
        z[i] = 2.0f * x[i] + y[i];
    return AS_OK;
}

/* State of `chunked`: made by prepare, seen by run as call->state, freed by finish. */
typedef struct chunk_table {
    int64_t *begin; /* team size + 1 borders */
} chunk_table;

static int team_size(const as_call *call) { return call->team ? as_team_size(call->team) : 1; }

/* Optional. Once a launch, outside the timed region; its cost stands in the result as cost.prepare_ns. */
static as_status chunked_prepare(const as_call *call, void **state, as_error *e) {
    int size = team_size(call);
    int64_t n = as_params_int(call->params, "n");
    chunk_table *table = malloc(sizeof *table);
    int64_t *begin = malloc(((size_t)size + 1) * sizeof *begin);
    if (!table || !begin) {
        free(begin);
        free(table);
        return as_fail(e, AS_ENOMEM, "no memory for a table of %d chunks", size);
    }
    for (int member = 0; member <= size; member++)
        begin[member] = n * member / size;
    table->begin = begin;
    *state = table;
    return AS_OK;
}

/* Optional, with prepare: destroys what it made. */
static void chunked_finish(void *state) {
    chunk_table *table = state;
    free(table->begin);
    free(table);
}

/* Runs on every member of the team. */
static void chunk(int member, int size, void *context) {
    (void)size;
    const as_call *call = context;
    const chunk_table *table = call->state;
    const float *x = call->operand[X], *y = call->operand[Y];
    float *z = call->operand[Z];
    for (int64_t i = table->begin[member]; i < table->begin[member + 1]; i++)
        z[i] = 2.0f * x[i] + y[i];
}

static as_status chunked_run(const as_call *call, as_error *e) {
    (void)e;
    if (call->team)
        as_team_run(call->team, chunk, (void *)call);
    else
        chunk(0, 1, (void *)call);
    return AS_OK;
}

/* Optional: AS_EABSENT with the reason where this machine cannot run a variant; the case then reads skipped. */
static as_status chunked_available(as_device *device, as_error *e) {
    if (device->driver != &as_cpu_driver)
        return as_fail(e, AS_EABSENT, "chunked is written for the CPU");
    return AS_OK;
}

/* One row a variant. AS_DETERMINISTIC: same inputs, same bits; the checksum is recorded and must repeat.
 * The other flags and the `extra` series are in suite.h. */
static const as_variant variants[] = {
    {.name = "plain", .on = "cpu", .summary = "one loop", .flags = AS_DETERMINISTIC, .run = plain_run},
    {.name = "chunked",
     .on = "cpu",
     .summary = "chunks for a team of threads",
     .flags = AS_DETERMINISTIC,
     .run = chunked_run,
     .prepare = chunked_prepare,
     .finish = chunked_finish,
     .available = chunked_available},
    {0},
};

/* ---- points: which cases a profile runs; priority 0 is kept longest when the budget is short ---- */

static const as_point points[] = {
    {.from = AS_QUICK, .on = "cpu", .variants = "*", .axes = "n=1,1000,65536", .priority = 0},
    {.from = AS_QUICK, .on = "cpu", .variants = "chunked", .axes = "n=65536;threads=all", .priority = 1},
    {.from = AS_STANDARD, .on = "cpu", .variants = "plain", .axes = "n=1048576;cache=warm,cold", .priority = 2},
    {0},
};

/* ---- formulas of one operation ---- */

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *out, as_error *e) {
    (void)d;
    int64_t n = as_params_int(p, "n");
    if (v->run == plain_run && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "plain runs on one thread; use chunked for threads:%s",
                       as_params_text(p, "threads"));
    *out = (as_work){
        .operand = {[X] = {"x", AS_IN, AS_MEM_DEVICE, AS_F32, AS_NORMAL, n, 1},
                    [Y] = {"y", AS_IN, AS_MEM_DEVICE, AS_F32, AS_NORMAL, n, 2}, /* another stream than x */
                    [Z] = {"z", AS_OUT, AS_MEM_DEVICE, AS_F32, AS_ZEROS, n, 0}},
        .operands = 3,
        .flops = 2.0 * (double)n,
        .bytes_read = 8.0 * (double)n,
        .bytes_written = 4.0 * (double)n,
        .convention = "read + written",
        .working_set_bytes = 12 * n,
        .bound = {{"memory", 12.0 * (double)n}}, /* what limits it; the floor is amount / measured rate */
        .bounds = 1,
        .check = AS_CHECK_REFERENCE,
        .tolerance = 0x1p-23, /* one rounding of the sum, for 2 x is exact: half an ulp, 2^-24, doubled */
        .rows = 1,
        .columns = n,
        .predicted_ns = 50.0 + 0.5 * (double)n,
    };
    return AS_OK;
}

/* Independent of every variant, in float64. `scale` is what the tolerance multiplies: the magnitude that
 * rounding errors grow with, never the result itself, which may cancel. */
static as_status reference(const as_reference *r, as_error *e) {
    (void)e;
    const float *x = r->input[X], *y = r->input[Y];
    int64_t columns = r->work->columns;
    for (int64_t k = 0; k < r->n_rows; k++)
        for (int64_t j = 0; j < columns; j++) {
            int64_t i = r->rows[k] * columns + j;
            r->expected[k * columns + j] = 2.0 * (double)x[i] + (double)y[i];
            r->scale[k * columns + j] = fabs(2.0 * (double)x[i]) + fabs((double)y[i]);
        }
    return AS_OK;
}

static const as_suite skeleton = {
    .name = "skeleton",
    .summary = "z = 2 x + y, the example of docs/adding.md",
    .axes = axes,
    .n_axes = sizeof axes / sizeof axes[0],
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = reference,
    /* .device_reference: a whole-output float64 reference on a GPU, for outputs too large for the host */
};

/* ---- the registry: inside the tree this is one line in suites/main.c ---- */

int main(int argc, char **argv) {
    static const as_suite *const suites[] = {&skeleton, NULL};
    static const as_device_driver *const drivers[] = {NULL};
    static const as_registry registry = {.suites = suites, .drivers = drivers};
    return as_main(argc, argv, &registry);
}
