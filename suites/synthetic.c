/* Suite synthetic: work of settable size with injected slow-downs, for `assay calibrate`. No plan takes it by itself. */
#include "../kernels/synthetic/synthetic.h"
#include "suites.h"

#include <string.h>

static const as_axis axes[] = {
    {"us", "100", true, false, "us", "spin: work of about so many microseconds"},
    {"bytes", "0", true, false, "bytes", "stream: bytes that are summed; must be given"},
    {"passes", "1", true, false, "", "stream: times that they are read in one operation"},
    {"inject", "0", true, false, "", "k: more work by the k-th share in ASSAY_INJECT=0.05,0.20; 0: none"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_SYNTHETIC_CPU_STATE(AS_ROW_CPU_STATE) //
#ifdef ASSAY_CUDA
    AS_SYNTHETIC_CUDA_STATE(AS_ROW_CUDA_STATE) //
#endif
    {.name = NULL},
};

/* stream: 262144 and 524288 = 256 and 512 KiB inside a core's own cache, 4194304 = 4 MiB inside a usual last level,
 * 100663296 = 96 MiB beyond most; on a GPU 192 MiB and 1 GiB beyond its L2. */
static const as_point points[] = {
    {AS_QUICK, "cpu", "spin", "us=50,200,1000;inject=0,1,2", 0},
    {AS_QUICK, "cpu", "stream", "bytes=262144;passes=128;inject=0,1,2", 0},
    {AS_QUICK, "cpu", "stream", "bytes=524288;passes=64;inject=0,1,2", 0},
    {AS_QUICK, "cpu", "stream", "bytes=4194304;passes=8;inject=0,1,2", 0},
    {AS_QUICK, "cpu", "stream", "bytes=100663296;inject=0,1,2", 0},
    {AS_QUICK, "cpu", "stream", "bytes=100663296;threads=all;inject=0,1,2", 1},
    {AS_QUICK, "cuda", "spin", "us=50,200,1000;inject=0,1,2", 0},
    {AS_QUICK, "cuda", "spin_all", "us=200;inject=0,1,2", 0},
    {AS_QUICK, "cuda", "stream", "bytes=201326592,1073741824;inject=0,1,2", 0},
    {.variants = NULL},
};

/* What a variant of chains does: others stream. */
static const struct chains {
    const char *variant, *on;
    int64_t steps_of_us, chains;
} kinds[] = {
    {"spin", "cpu", AS_SYNTHETIC_CPU_STEPS, 1},
    {"spin", "cuda", AS_SYNTHETIC_CUDA_STEPS, 1},
    {"spin_all", "cuda", AS_SYNTHETIC_CUDA_ALL_STEPS, AS_SYNTHETIC_CHAINS},
};

static as_status describe_spin(const struct chains *k, const as_params *p, as_work *w, as_error *e) {
    int64_t nominal, steps;
    if (as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "synthetic/spin runs on one thread: leave threads at 1");
    AS_TRY(as_synthetic_steps(p, k->steps_of_us, &nominal, &steps, e));
    w->operand[w->operands++] = (as_operand){"start", AS_IN, AS_MEM_DEVICE, AS_U32, AS_BITS, 1, 1};
    /* The key, which no output uses, tells references of unlike lengths apart. */
    w->operand[w->operands++] =
        (as_operand){"end", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, k->chains, (uint32_t)(uint64_t)steps};
    w->convention = "no data moved";
    w->working_set_bytes = 4 + 4 * k->chains;
    w->items = (double)nominal * (double)k->chains;
    w->item = "step";
    w->no_ceiling = "a chain of dependent steps has no measured limit";
    w->rows = k->chains;
    w->predicted_ns = 1e3 * (double)steps / (double)k->steps_of_us;
    return AS_OK;
}

static as_status describe_stream(const as_params *p, const as_device *d, as_work *w, as_error *e) {
    as_synthetic_pieces pieces;
    const int64_t bytes = as_params_int(p, "bytes");
    AS_TRY(as_synthetic_pieces_of(p, &pieces, e));
    w->operand[w->operands++] = (as_operand){"words", AS_IN, AS_MEM_DEVICE, AS_U32, AS_BITS, bytes / 4, 1};
    w->operand[w->operands++] = (as_operand){"sums", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, pieces.reads, 0};
    w->bytes_read = (double)(pieces.nominal * AS_SYNTHETIC_PIECE_BYTES);
    w->convention = "read";
    w->working_set_bytes = bytes;
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read};
    w->items = (double)pieces.nominal;
    w->item = "piece";
    w->rows = pieces.reads;
    w->predicted_ns =
        4000 + (double)(pieces.reads * AS_SYNTHETIC_PIECE_BYTES) / (strcmp(d->driver->kind, "cpu") == 0 ? 8 : 2000);
    return AS_OK;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    if (strcmp(as_params_text(p, "cache"), "warm") != 0)
        return as_fail(e, AS_EUSAGE, "synthetic: leave cache at warm; stream of many bytes is cold by itself");
    *w = (as_work){0};
    w->check = AS_CHECK_REFERENCE;
    w->columns = 1;
    w->tolerance = 0.25; /* outputs are whole numbers: any difference is at least 1 */
    for (int i = 0; i < AS_COUNT(kinds); i++)
        if (strcmp(kinds[i].variant, v->name) == 0 && strcmp(kinds[i].on, v->on) == 0)
            return describe_spin(&kinds[i], p, w, e);
    return describe_stream(p, d, w, e);
}

const as_suite as_synthetic_suite = {
    .name = "synthetic",
    .summary = "work of settable size with injected slow-downs, for calibrate",
    .only_if_named = true,
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = as_synthetic_reference,
};
