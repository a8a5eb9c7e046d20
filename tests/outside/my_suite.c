/* A suite outside the tree: sum of n numbers, two ways. Every hook is shown in docs/skeleton_suite.c. */
#include "suite.h"

#include <math.h>

static const as_axis axes[] = {
    {.name = "n", .fallback = "4096", .integer = true, .unit = "elements", .help = "numbers to add"},
    {.name = "threads", .fallback = "1", .integer = true, .all = true, .unit = "", .help = "threads"},
};

static as_status forward_run(const as_call *call, as_error *e) {
    (void)e;
    const double *x = call->operand[0];
    double sum = 0;
    for (int64_t i = 0, n = as_params_int(call->params, "n"); i < n; i++)
        sum += x[i];
    *(double *)call->operand[1] = sum;
    return AS_OK;
}

/* Four sums side by side: the additions no longer wait for each other. */
static as_status four_run(const as_call *call, as_error *e) {
    (void)e;
    const double *x = call->operand[0];
    double sum[4] = {0};
    int64_t i = 0, n = as_params_int(call->params, "n");
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += x[i + k];
    for (; i < n; i++)
        sum[0] += x[i];
    *(double *)call->operand[1] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return AS_OK;
}

static const as_variant variants[] = {
    {.name = "forward", .on = "cpu", .summary = "one sum", .flags = AS_DETERMINISTIC, .run = forward_run},
    {.name = "four", .on = "cpu", .summary = "four sums side by side", .flags = AS_DETERMINISTIC, .run = four_run},
    {0},
};

static const as_point points[] = {
    {.from = AS_QUICK, .on = "cpu", .variants = "*", .axes = "n=1,4096,4099"},
    {0},
};

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *out, as_error *e) {
    (void)v, (void)d, (void)e;
    int64_t n = as_params_int(p, "n");
    *out = (as_work){
        .operand = {{"x", AS_IN, AS_MEM_DEVICE, AS_F64, AS_NORMAL, n, 1},
                    {"sum", AS_OUT, AS_MEM_DEVICE, AS_F64, AS_ZEROS, 1, 0}},
        .operands = 2,
        .flops = (double)n,
        .bytes_read = 8.0 * (double)n,
        .bytes_written = 8,
        .convention = "read + written",
        .working_set_bytes = 8 * n + 8,
        .no_ceiling = "this registry has no ceilings",
        .check = AS_CHECK_REFERENCE,
        .tolerance = 1e-12, /* n roundings of 2^-53 each, n at most 4099: 4.6e-13 of sum |x| */
        .rows = 1,
        .columns = 1,
        .predicted_ns = 20.0 + (double)n,
    };
    return AS_OK;
}

/* Kahan's sum: its error does not grow with n. */
static as_status reference(const as_reference *r, as_error *e) {
    (void)e;
    const double *x = r->input[0];
    double sum = 0, lost = 0, scale = 0;
    for (int64_t i = 0, n = as_params_int(r->params, "n"); i < n; i++) {
        double y = x[i] - lost;
        double next = sum + y;
        lost = (next - sum) - y;
        sum = next;
        scale += fabs(x[i]);
    }
    for (int64_t k = 0; k < r->n_rows; k++) {
        r->expected[k] = sum;
        r->scale[k] = scale;
    }
    return AS_OK;
}

static const as_suite sums = {
    .name = "sums",
    .summary = "sum of n numbers",
    .axes = axes,
    .n_axes = sizeof axes / sizeof axes[0],
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = reference,
};

int main(int argc, char **argv) {
    static const as_suite *const suites[] = {&sums, NULL};
    static const as_device_driver *const drivers[] = {NULL};
    static const as_registry registry = {.suites = suites, .drivers = drivers};
    return as_main(argc, argv, &registry);
}
