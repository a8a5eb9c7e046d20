/* Suites whose kernels are right or broken in one way each. */
#include "fake_suite.h"

#include <math.h>
#include <string.h>

int fake_calls;
const void *fake_visited[FAKE_MOST_VISITS];
static int late_calls, cached_calls, unsteady_calls;

void fake_forget(void) { fake_calls = late_calls = cached_calls = unsteady_calls = 0; }

/* ---- vector: z = 2 x + y ---- */

enum { X, Y, Z };

static const as_axis vector_axes[] = {
    {.name = "n", .fallback = "4096", .integer = true, .unit = "elements", .help = "length, in whole rows of 64"},
    {.name = "sampled", .fallback = "0", .integer = true, .help = "1: so many flops that rows are sampled"},
    {.name = "us", .fallback = "10", .integer = true, .unit = "us", .help = "predicted time"},
    {.name = "cache", .fallback = "warm", .help = "warm or cold"},
};

static int64_t visit(const as_call *call) {
    if (fake_calls < FAKE_MOST_VISITS)
        fake_visited[fake_calls] = call->operand[Z];
    fake_calls++;
    return as_params_int(call->params, "n");
}

static void add_rows(const as_call *call, int64_t from, int64_t to) {
    const float *x = call->operand[X], *y = call->operand[Y];
    float *z = call->operand[Z];
    for (int64_t i = from; i < to; i++)
        z[i] = 2.0f * x[i] + y[i];
}

static void good(const as_call *call) { add_rows(call, 0, visit(call)); }

static void wrong_index(const as_call *call) {
    const int64_t n = visit(call);
    const float *x = call->operand[X], *y = call->operand[Y];
    float *z = call->operand[Z];
    for (int64_t i = 0; i < n; i++)
        z[i] = 2.0f * x[i] + y[i ^ 1];
}

/* Off by one in the last row of one tile, nowhere else. */
static void tile_edge(const as_call *call) {
    const int64_t n = visit(call), tiles = n / FAKE_ROW / FAKE_TILE, row = (tiles / 2 + 1) * FAKE_TILE - 1;
    const float *x = call->operand[X], *y = call->operand[Y];
    float *z = call->operand[Z];
    add_rows(call, 0, n);
    for (int64_t i = row * FAKE_ROW; i < (row + 1) * FAKE_ROW; i++)
        z[i] = 2.0f * x[i - 1] + y[i];
}

static void last_row(const as_call *call) { add_rows(call, 0, visit(call) - FAKE_ROW); }

static void nan_output(const as_call *call) {
    const int64_t n = visit(call);
    add_rows(call, 0, n);
    ((float *)call->operand[Z])[n / 3] = NAN;
}

/* Right in the first run of the process, wrong in later ones. */
static void late(const as_call *call) {
    const int64_t n = visit(call);
    add_rows(call, 0, n);
    if (++late_calls > 1)
        ((float *)call->operand[Z])[n - 1] += 1.0f;
}

/* Computes in the first run only: the output is there as long as nobody poisons it. */
static void cached(const as_call *call) {
    const int64_t n = visit(call);
    if (++cached_calls == 1)
        add_rows(call, 0, n);
}

/* Within the tolerance, but not with the same bits as in the first run. */
static void unsteady(const as_call *call) {
    good(call);
    float *z = call->operand[Z];
    if (++unsteady_calls > 1)
        z[0] = nextafterf(z[0], INFINITY);
}

#define CPU_RUN(name)                                                                                                  \
    static as_status name##_run(const as_call *call, as_error *e) {                                                    \
        (void)e;                                                                                                       \
        name(call);                                                                                                    \
        return AS_OK;                                                                                                  \
    }
CPU_RUN(good)
CPU_RUN(wrong_index)
CPU_RUN(tile_edge)
CPU_RUN(last_row)
CPU_RUN(nan_output)
CPU_RUN(late)
CPU_RUN(cached)
CPU_RUN(unsteady)

static as_status fake_good_run(const as_call *call, as_error *e) { return fake_launch(call, good, e); }

static as_status timed_run(const as_call *call, as_error *e) {
    call->extra[0] = 1000.0 * ++fake_calls;
    (void)e;
    add_rows(call, 0, as_params_int(call->params, "n"));
    return AS_OK;
}

static const as_variant vector_variants[] = {
    {.name = "good", .on = "cpu", .summary = "right", .flags = AS_DETERMINISTIC, .run = good_run},
    {.name = "other", .on = "cpu", .summary = "right too", .flags = AS_DETERMINISTIC, .run = good_run},
    {.name = "single", .on = "cpu", .flags = AS_SINGLE, .run = timed_run, .extra = {{"ticks", "ns", false}}},
    {.name = "wrong_index", .on = "cpu", .run = wrong_index_run},
    {.name = "tile_edge", .on = "cpu", .run = tile_edge_run},
    {.name = "last_row", .on = "cpu", .run = last_row_run},
    {.name = "nan", .on = "cpu", .run = nan_output_run},
    {.name = "late", .on = "cpu", .run = late_run},
    {.name = "cached", .on = "cpu", .run = cached_run},
    {.name = "unsteady", .on = "cpu", .flags = AS_DETERMINISTIC, .run = unsteady_run},
    {.name = "good", .on = "fake", .flags = AS_DETERMINISTIC, .run = fake_good_run},
    {.name = "graph", .on = "fake", .flags = AS_DETERMINISTIC | AS_CAPTURE, .run = fake_good_run},
    {0},
};

static const as_point vector_points[] = {
    {.from = AS_QUICK, .on = "cpu", .variants = "good,other", .axes = "n=64,4096;cache=warm,cold", .priority = 0},
    {.from = AS_QUICK, .on = "cpu", .variants = "good", .axes = "n=8192", .priority = 5},
    {.from = AS_QUICK, .on = "cpu", .variants = "good", .axes = "us=900000", .priority = 0}, /* too long for quick */
    {.from = AS_QUICK,
     .on = "cpu",
     .variants = "single,wrong_index,tile_edge,last_row,nan,late,cached,unsteady",
     .axes = "",
     .priority = 1},
    {.from = AS_STANDARD, .on = "cpu", .variants = "good", .axes = "n=16384", .priority = 2},
    {.from = AS_PUBLISH, .on = "cpu", .variants = "good", .axes = "n=32768", .priority = 3},
    {.from = AS_QUICK, .on = "fake", .variants = "*", .axes = "n=4096,65536", .priority = 0},
    {0},
};

static as_status vector_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    (void)v, (void)d;
    const int64_t n = as_params_int(p, "n");
    if (n % FAKE_ROW != 0 || n == 0)
        return as_fail(e, AS_EUSAGE, "n:%lld is not a multiple of %d", (long long)n, FAKE_ROW);
    *w = (as_work){
        .operand = {{"x", AS_IN, AS_MEM_DEVICE, AS_F32, AS_NORMAL, n, 1},
                    {"y", AS_IN, AS_MEM_DEVICE, AS_F32, AS_NORMAL, n, 2},
                    {"z", AS_OUT, AS_MEM_DEVICE, AS_F32, AS_ZEROS, n, 0}},
        .operands = 3,
        .flops = as_params_int(p, "sampled") ? 1e9 : 2.0 * (double)n,
        .bytes_read = 8.0 * (double)n,
        .bytes_written = 4.0 * (double)n,
        .convention = "read + written",
        .working_set_bytes = 12 * n,
        .bound = {{"memory", 12.0 * (double)n}, {"flops.f32", 2.0 * (double)n}},
        .bounds = 2,
        .check = AS_CHECK_REFERENCE,
        .tolerance = 0x1p-22,
        .rows = n / FAKE_ROW,
        .columns = FAKE_ROW,
        .tile = FAKE_TILE,
        .predicted_ns = 1000.0 * (double)as_params_int(p, "us"),
    };
    return AS_OK;
}

static as_status vector_reference(const as_reference *r, as_error *e) {
    (void)e;
    const float *x = r->input[X], *y = r->input[Y];
    for (int64_t k = 0; k < r->n_rows * FAKE_ROW; k++) {
        const int64_t i = r->rows[k / FAKE_ROW] * FAKE_ROW + k % FAKE_ROW;
        r->expected[k] = 2.0 * x[i] + y[i];
        r->scale[k] = 2.0 * fabs(x[i]) + fabs(y[i]);
    }
    return AS_OK;
}

const as_suite fake_vector_suite = {
    .name = "vector",
    .summary = "z = 2 x + y, right and wrong",
    .axes = vector_axes,
    .n_axes = sizeof vector_axes / sizeof *vector_axes,
    .variants = vector_variants,
    .points = vector_points,
    .describe = vector_describe,
    .reference = vector_reference,
};

/* ---- copy ---- */

static const as_axis copy_axes[] = {{.name = "bytes", .fallback = "4097", .integer = true, .unit = "bytes"}};

static as_status copy_run(const as_call *call, as_error *e) {
    (void)e;
    memcpy(call->operand[1], call->operand[0], (size_t)as_params_int(call->params, "bytes"));
    return AS_OK;
}

static as_status short_copy_run(const as_call *call, as_error *e) {
    (void)e;
    memcpy(call->operand[1], call->operand[0], (size_t)as_params_int(call->params, "bytes") - 1);
    return AS_OK;
}

/* Makes both sides equal in the wrong direction. */
static as_status backward_copy_run(const as_call *call, as_error *e) {
    (void)e;
    memcpy(call->operand[0], call->operand[1], (size_t)as_params_int(call->params, "bytes"));
    return AS_OK;
}

static const as_variant copy_variants[] = {
    {.name = "good", .on = "cpu", .flags = AS_DETERMINISTIC, .run = copy_run},
    {.name = "short", .on = "cpu", .run = short_copy_run},
    {.name = "backward", .on = "cpu", .run = backward_copy_run},
    {0},
};

static const as_point copy_points[] = {
    {.from = AS_QUICK, .on = "cpu", .variants = "good,short", .axes = "", .priority = 1},
    {0},
};

static as_status copy_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    (void)v, (void)d, (void)e;
    const int64_t n = as_params_int(p, "bytes");
    *w = (as_work){
        .operand = {{"from", AS_IN, AS_MEM_DEVICE, AS_U8, AS_BITS, n, 7},
                    {"to", AS_OUT, AS_MEM_DEVICE, AS_U8, AS_ZEROS, n, 0}},
        .operands = 2,
        .bytes_read = (double)n,
        .bytes_written = (double)n,
        .convention = "copied once",
        .working_set_bytes = 2 * n,
        .no_ceiling = "a test",
        .check = AS_CHECK_COPY,
    };
    return AS_OK;
}

const as_suite fake_copy_suite = {.name = "copy",
                                  .summary = "bytes",
                                  .axes = copy_axes,
                                  .n_axes = 1,
                                  .variants = copy_variants,
                                  .points = copy_points,
                                  .describe = copy_describe};
