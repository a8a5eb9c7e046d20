/* Suite offload: the same operations on the CPU and on a GPU, with and without transfers, by size. */
#include "../kernels/offload/offload.h"
#include "suites.h"

#include <math.h>
#include <string.h>

static const as_axis axes[] = {
    {"n", "0", true, false, "", "elements (copy, axpy, softmax), side (matmul), matrices (batched); must be given"},
    {"transfers", "no", false, false, "", "cuda only: yes: inputs are sent and the output is fetched each time"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_OFFLOAD_CPU_STATE(AS_ROW_CPU_STATE) //
#ifdef ASSAY_CUDA
    AS_OFFLOAD_CUDA_STATE(AS_ROW_CUDA_STATE) //
#endif
    {.name = NULL},
};

#define ELEMENTS "n=1024,16384,262144,4194304,67108864"
static const as_point points[] = {
    {AS_QUICK, "cpu", "matmul", "n=64,256;threads=all", 1},
    {AS_QUICK, "cpu", "axpy,softmax", "n=262144;threads=all", 1},
    {AS_QUICK, "cuda", "matmul", "n=256,1024;transfers=yes", 1},
    {AS_QUICK, "cuda", "axpy,softmax", "n=262144;transfers=yes", 1},
    {AS_STANDARD, "cpu", "copy", ELEMENTS ";threads=all", 2},
    {AS_STANDARD, "cpu", "axpy,softmax", "n=1024,16384,4194304,67108864;threads=all", 2},
    {AS_STANDARD, "cpu", "matmul", "n=16,32,128,512,1024,2048;threads=all", 2},
    {AS_STANDARD, "cpu", "batched", "n=1,8,32,64,512,4096,32768;threads=all", 2},
    {AS_STANDARD, "cuda", "copy", ELEMENTS ";transfers=no,yes", 2},
    {AS_STANDARD, "cuda", "axpy,softmax", ELEMENTS, 2},
    {AS_STANDARD, "cuda", "axpy,softmax", "n=1024,16384,4194304,67108864;transfers=yes", 2},
    {AS_STANDARD, "cuda", "matmul", "n=16,32,64,128,256,512,1024,2048", 2},
    {AS_STANDARD, "cuda", "matmul", "n=16,32,64,128,512,2048;transfers=yes", 2},
    {AS_STANDARD, "cuda", "batched", "n=1,8,32,64,512,4096,32768;transfers=no,yes", 2},
    {.variants = NULL},
};

static const char *const names[] = {"copy", "axpy", "softmax", "matmul", "batched"};

static as_offload_op op_of(const as_variant *v) {
    int op = 0;
    while (strcmp(names[op], v->name) != 0)
        op++;
    return (as_offload_op)op;
}

static as_status check(const as_params *p, const as_variant *v, const as_device *d, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    static const int64_t most[] = {1 << 28, 1 << 28, 1 << 28, 8192, 1 << 17};
    const as_offload_op op = op_of(v);
    const int64_t n = as_params_int(p, "n");
    const char *transfers = as_params_text(p, "transfers");
    if (n < 1 || n > most[op])
        return as_fail(e, AS_EUSAGE, "offload/%s: n must be given, 1 to %lld", v->name, (long long)most[op]);
    if (op == AS_OFFLOAD_SOFTMAX && n % AS_OFFLOAD_ROW)
        return as_fail(e, AS_EUSAGE, "offload/softmax: n is a multiple of %d, its rows", AS_OFFLOAD_ROW);
    if (strcmp(transfers, "no") != 0 && strcmp(transfers, "yes") != 0)
        return as_fail(e, AS_EUSAGE, "offload: transfers is yes or no, not '%s'", transfers);
    if (strcmp(v->on, "cpu") == 0 && strcmp(transfers, "yes") == 0)
        return as_fail(e, AS_EUSAGE, "offload: the cpu sends nothing: leave transfers out");
    return AS_OK;
}

/* Shape of the output, flops and tolerance. Errors: axpy two roundings; softmax a few of exp, sum and division, of
 * which the sum of 1024 terms has the most; products as in suites/matmul.c. */
static void describe_op(as_offload_op op, int64_t n, as_work *w) {
    w->rows = 1;
    w->columns = n;
    switch (op) {
    case AS_OFFLOAD_COPY: break;
    case AS_OFFLOAD_AXPY: w->flops = 2.0 * (double)n, w->tolerance = 0x1p-22; break;
    case AS_OFFLOAD_SOFTMAX:
        w->rows = n / AS_OFFLOAD_ROW, w->columns = AS_OFFLOAD_ROW;
        w->flops = 5.0 * (double)n, w->tolerance = 0x1p-18;
        break;
    case AS_OFFLOAD_MATMUL:
        w->rows = w->columns = n, w->tile = 256;
        w->flops = 2.0 * (double)n * (double)n * (double)n, w->tolerance = 4 * 0x1p-24 * sqrt((double)n);
        break;
    case AS_OFFLOAD_BATCHED:
        w->rows = n * AS_OFFLOAD_SIDE, w->columns = AS_OFFLOAD_SIDE;
        w->flops = 65536.0 * (double)n, w->tolerance = 4 * 0x1p-24 * sqrt(AS_OFFLOAD_SIDE);
        break;
    }
    if (op == AS_OFFLOAD_AXPY && n % 1024 == 0) /* rows, so that large outputs can be sampled */
        w->rows = n / 1024, w->columns = 1024;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(check(p, v, d, e));
    const as_offload_op op = op_of(v);
    const int64_t n = as_params_int(p, "n");
    const as_offload_size size = as_offload_size_of(op, n);
    const bool cpu = strcmp(v->on, "cpu") == 0, sends = strcmp(as_params_text(p, "transfers"), "yes") == 0;
    const as_memory where = sends ? AS_MEM_PINNED : AS_MEM_DEVICE;
    *w = (as_work){.check = op == AS_OFFLOAD_COPY ? AS_CHECK_COPY : AS_CHECK_REFERENCE};
    for (int i = 0; i < size.inputs; i++)
        w->operand[w->operands++] = (as_operand){
            i ? "b" : "a", AS_IN, where, AS_F32, AS_NORMAL, size.in, ((uint32_t)op << 4) + 1 + (uint32_t)i};
    w->operand[w->operands++] = (as_operand){"out", AS_OUT, where, AS_F32, AS_NORMAL, size.out, 0};
    describe_op(op, n, w);
    w->bytes_read = 4.0 * (double)(size.inputs * size.in);
    w->bytes_written = 4.0 * (double)size.out;
    w->convention = "each input read once, the output written once";
    w->working_set_bytes = (int64_t)(w->bytes_read + w->bytes_written);
    if (sends) {
        w->bound[w->bounds++] = (as_bound){"link.h2d", w->bytes_read};
        w->bound[w->bounds++] = (as_bound){"link.d2h", w->bytes_written};
    }
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read + w->bytes_written};
    if (op == AS_OFFLOAD_MATMUL || op == AS_OFFLOAD_BATCHED)
        w->bound[w->bounds++] = (as_bound){"flops.f32", w->flops};
    const double bytes = w->bytes_read + w->bytes_written;
    w->predicted_ns = cpu ? 2000 + bytes / 4 + w->flops / 25 : 10000 + bytes / (sends ? 20 : 1000) + w->flops / 15000;
    return AS_OK;
}

const as_suite as_offload_suite = {
    .name = "offload",
    .summary = "the same work on CPU and GPU, with and without transfers",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = as_offload_reference,
};
