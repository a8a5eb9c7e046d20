/* Suite memory: latency, bandwidth, access patterns and contention of every level of memory. */
#include "../kernels/memory/memory.h"
#include "../kernels/ceiling/levels.h"
#include "suites.h"

#include <string.h>

static const as_axis axes[] = {
    {"bytes", "0", true, false, "bytes",
     "working set (chase, l2_distance), or useful bytes (read, write, triad, strided)"},
    {"stride", "128", true, false, "",
     "bytes from line to line (chase) or counter to counter (counters); elements (strided); words or vectors from lane "
     "to lane (shared)"},
    {"width", "4", true, false, "bytes", "shared: bytes a lane loads at once: 4, 8 or 16"},
    {"offset", "0", true, false, "elements", "strided: the first element"},
    {"distinct", "1", true, false, "addresses", "constant: different addresses in a warp, 1 to 32"},
    {"targets", "1", true, false, "counters", "atomic on a GPU: how many counters"},
    {"peer", "near", false, false, "", "handoff: near (the next core of the placement) or far (the last)"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_MEMORY_CPU(AS_ROW_CPU)             //
    AS_MEMORY_CPU_STATE(AS_ROW_CPU_STATE) //
#ifdef ASSAY_CUDA
    AS_MEMORY_CUDA(AS_ROW_CUDA)               //
    AS_MEMORY_CUDA_SERIES(AS_ROW_CUDA_SERIES) //
    AS_MEMORY_CUDA_EXTRA(AS_ROW_CUDA_EXTRA)   //
#endif
    {.name = NULL},
};

/* Sizes: 16 KiB, 128 KiB, 1 MiB, 8 MiB, 64 MiB, 256 MiB, 1 GiB; a triad has three arrays: multiples of 3. A stride of
 * 4224 is a page and a line, 2097280 two MiB and a line: one line a page, not all in one set of a cache. */
static const as_point points[] = {
    {AS_QUICK, "cpu", "clock", "", 0},
    {AS_QUICK, "cpu", "chase", "bytes=16384,131072,1048576,8388608,67108864", 0},
    {AS_QUICK, "cpu", "counters", "stride=4,128;threads=all", 1},
    {AS_QUICK, "cpu", "atomic", "threads=1,all", 1},
    {AS_QUICK, "cpu", "handoff", "threads=all", 1},
    {AS_QUICK, "cpu", "triad", "bytes=12288,786432,201326592;threads=all", 1},
    {AS_QUICK, "cuda", "chase", "bytes=16384,1048576,8388608,536870912", 0},
    {AS_QUICK, "cuda", "l2_distance", "bytes=4194304", 1},
    {AS_QUICK, "cuda", "shared", "stride=1,32", 1},
    {AS_QUICK, "cuda", "constant", "distinct=1,32", 1},
    {AS_QUICK, "cuda", "registers,spilled", "", 1},
    {AS_QUICK, "cuda", "strided", "bytes=67108864;stride=1,32", 1},
    {AS_QUICK, "cuda", "atomic", "targets=1,1048576", 1},
    {AS_STANDARD, "cpu", "chase", "bytes=32768,262144,524288,2097152,4194304,16777216,33554432,268435456", 2},
    {AS_STANDARD, "cpu", "chase", "bytes=67584,270336,2162688,8650752;stride=4224", 2},
    {AS_STANDARD, "cpu", "counters", "stride=8,16,32,64,256;threads=all", 2},
    {AS_STANDARD, "cpu", "handoff", "peer=far;threads=all", 2},
    {AS_STANDARD, "cpu", "read,write", "bytes=16384,131072,1048576,8388608,67108864,268435456;threads=1,all", 2},
    {AS_STANDARD, "cpu", "triad", "bytes=12288,98304,786432,6291456,50331648,201326592", 2},
    {AS_STANDARD, "cpu", "triad", "bytes=98304,6291456,50331648;threads=all", 2},
    {AS_STANDARD, "cuda", "chase",
     "bytes=32768,65536,131072,262144,524288,2097152,4194304,16777216,33554432,67108864,134217728", 2},
    {AS_STANDARD, "cuda", "chase", "bytes=33556480,268451840,2147614720,8590458880;stride=2097280", 3},
    {AS_STANDARD, "cuda", "shared", "stride=1,2,4,8,16,32,33;width=8,16", 2},
    {AS_STANDARD, "cuda", "shared", "stride=2,4,8,16,33", 2},
    {AS_STANDARD, "cuda", "constant", "distinct=2,4,8,16", 2},
    {AS_STANDARD, "cuda", "strided", "bytes=67108864;stride=2,4,8,16", 2},
    {AS_STANDARD, "cuda", "strided", "bytes=67108864;stride=1;offset=1,8,17", 2},
    {AS_STANDARD, "cuda", "atomic", "targets=32,1024,32768", 2},
    {AS_STANDARD, "cuda", "read,write", "bytes=1048576,4194304,16777216,67108864,268435456,1073741824", 2},
    {AS_STANDARD, "cuda", "triad", "bytes=3145728,12582912,50331648,201326592,805306368", 2},
    {.variants = NULL},
};

/* ---- what each operation is ---- */

typedef struct question {
    const as_params *p;
    const as_device *d;
    bool cpu;
    int64_t bytes, stride;
} question;

/* An input of `count` words and an output of `rows` x `columns` words. */
static void words(as_work *w, uint32_t key, int64_t count, int64_t rows, int64_t columns) {
    w->operand[w->operands++] = (as_operand){"words", AS_IN, AS_MEM_DEVICE, AS_U32, AS_BITS, count, key};
    w->operand[w->operands++] = (as_operand){"out", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, rows * columns, 0};
    w->rows = rows;
    w->columns = columns;
}

static void items(as_work *w, double count, const char *item, const char *why) {
    w->items = count;
    w->item = item;
    w->no_ceiling = why;
    w->convention = "no bytes counted";
}

static as_status describe_chase(const question *q, as_work *w, as_error *e) {
    if (q->stride < 8 || q->stride % 8 || q->bytes < 2 * q->stride)
        return as_fail(e, AS_EUSAGE, "memory/chase: stride is a multiple of 8, bytes at least two strides");
    const as_memory_walk walk = as_memory_walk_of(q->p, q->cpu);
    words(w, AS_MEMORY_WALK + ((uint32_t)walk.walkers << 8), walk.lines, 1, 2); /* walkers: for the reference */
    items(w, (double)walk.steps, "load", "a latency has no measured limit");
    w->working_set_bytes = q->bytes;
    w->predicted_ns = (double)walk.steps * (q->cpu ? 60 : 400);
    return AS_OK;
}

static as_status describe_l2_distance(const question *q, as_work *w, as_error *e) {
    if (q->bytes < 4096 || q->bytes % 128)
        return as_fail(e, AS_EUSAGE, "memory/l2_distance: bytes is a multiple of 128, at least 4096");
    words(w, AS_MEMORY_LINES, q->bytes / 4, 1, 1);
    items(w, 2.0 * (double)q->bytes / AS_MEMORY_LINE_BYTES, "load", "a latency has no measured limit");
    w->working_set_bytes = q->bytes;
    w->predicted_ns = w->items * 300;
    return AS_OK;
}

static as_status describe_read(const question *q, as_work *w, as_error *e) {
    if (q->bytes == 0 || q->bytes % 4096)
        return as_fail(e, AS_EUSAGE, "memory/read: bytes is a multiple of 4096");
    words(w, AS_MEMORY_SUM, q->bytes / 4, 1, 1);
    w->bytes_read = (double)q->bytes;
    return AS_OK;
}

static as_status describe_write(const question *q, as_work *w, as_error *e) {
    if (q->bytes == 0 || q->bytes % 4096)
        return as_fail(e, AS_EUSAGE, "memory/write: bytes is a multiple of 4096");
    words(w, AS_MEMORY_STORE, 1, q->bytes / 4096, 1024);
    w->bytes_written = (double)q->bytes;
    return AS_OK;
}

static as_status describe_triad(const question *q, as_work *w, as_error *e) {
    if (q->bytes == 0 || q->bytes % 12288)
        return as_fail(e, AS_EUSAGE, "memory/triad: bytes is a multiple of 12288, of all three arrays");
    const int64_t count = q->bytes / 12;
    for (uint32_t i = 0; i < 2; i++)
        w->operand[w->operands++] =
            (as_operand){i ? "c" : "b", AS_IN, AS_MEM_DEVICE, AS_F32, AS_NORMAL, count, AS_MEMORY_TRIAD + i};
    w->operand[w->operands++] = (as_operand){"a", AS_OUT, AS_MEM_DEVICE, AS_F32, AS_NORMAL, count, 0};
    w->rows = count / 1024;
    w->columns = 1024;
    w->tolerance = 0x1p-22; /* two roundings to 24 bits, of numbers below twice the scale */
    w->flops = 2.0 * (double)count;
    w->bytes_read = 8.0 * (double)count;
    w->bytes_written = 4.0 * (double)count;
    return AS_OK;
}

static as_status describe_strided(const question *q, as_work *w, as_error *e) {
    const int64_t offset = as_params_int(q->p, "offset");
    if (q->bytes == 0 || q->bytes % 4096 || q->stride < 1 || q->stride > 64 || offset > 64)
        return as_fail(e, AS_EUSAGE, "memory/strided: bytes is a multiple of 4096, stride 1 to 64, offset up to 64");
    words(w, AS_MEMORY_STRIDED, q->bytes / 4 * q->stride + offset, 1, 1);
    w->bytes_read = (double)q->bytes;
    return AS_OK;
}

static as_status describe_bandwidth(const question *q, const char *name, as_work *w, as_error *e) {
    AS_TRY(strcmp(name, "read") == 0    ? describe_read(q, w, e)
           : strcmp(name, "write") == 0 ? describe_write(q, w, e)
           : strcmp(name, "triad") == 0 ? describe_triad(q, w, e)
                                        : describe_strided(q, w, e));
    const double bytes = w->bytes_read + w->bytes_written;
    w->convention = strcmp(name, "strided") == 0 ? "useful bytes" : "read + written";
    w->working_set_bytes = strcmp(name, "strided") == 0 ? q->bytes * q->stride : (int64_t)bytes;
    w->bound[w->bounds++] = (as_bound){"memory", bytes};
    w->predicted_ns = q->cpu ? 100 + bytes / 8 : 5000 + bytes / (strcmp(name, "strided") == 0 ? 200 : 1000);
    return AS_OK;
}

static int64_t threads_of(const as_params *p) {
    as_levels l;
    as_error ignored;
    const int64_t threads = as_params_int(p, "threads");
    return threads >= 1 ? threads : as_levels_read(&l, &ignored) == AS_OK ? l.cores : 1;
}

static as_status describe_sharing(const question *q, const char *name, as_work *w, as_error *e) {
    const char *why = "the cost of sharing has no measured limit";
    if (strcmp(name, "atomic") == 0 && !q->cpu) {
        const int64_t targets = as_params_int(q->p, "targets");
        if (targets < 1 || targets > AS_MEMORY_ATOMIC_OPS || AS_MEMORY_ATOMIC_OPS % targets)
            return as_fail(e, AS_EUSAGE, "memory/atomic: targets is a power of two up to %d", AS_MEMORY_ATOMIC_OPS);
        words(w, AS_MEMORY_TARGETS, 1, 1, targets);
        items(w, AS_MEMORY_ATOMIC_OPS, "addition", why);
        w->predicted_ns = AS_MEMORY_ATOMIC_OPS / 2.0;
        return AS_OK;
    }
    const bool atomic = strcmp(name, "atomic") == 0;
    if (!atomic && as_params_int(q->p, "threads") == 1)
        return as_fail(e, AS_EUSAGE, "memory/%s needs threads: threads:all", name);
    if (strcmp(name, "counters") == 0 && (q->stride < 4 || q->stride > 4096 || q->stride % 4))
        return as_fail(e, AS_EUSAGE, "memory/counters: stride is a multiple of 4 up to 4096");
    const char *peer = as_params_text(q->p, "peer");
    if (strcmp(peer, "near") != 0 && strcmp(peer, "far") != 0)
        return as_fail(e, AS_EUSAGE, "memory/handoff: peer is near or far, not '%s'", peer);
    words(w, AS_MEMORY_COUNT, 1, 1, 1);
    items(w, AS_MEMORY_COUNT_STEPS, strcmp(name, "handoff") == 0 ? "handoff" : "increment", atomic ? NULL : why);
    if (atomic) /* each thread does all the steps; beside threads that share nothing it shows what sharing costs */
        w->bound[w->bounds++] = (as_bound){"atomics", (double)AS_MEMORY_COUNT_STEPS * (double)threads_of(q->p)};
    w->predicted_ns = AS_MEMORY_COUNT_STEPS * (strcmp(name, "counters") == 0 ? 5.0 : 100.0);
    return AS_OK;
}

static as_status describe_access(const question *q, const char *name, as_work *w, as_error *e) {
    const char *why = "one multiprocessor is looked at";
    w->predicted_ns = 50000;
    if (strcmp(name, "shared") == 0) {
        const int64_t width = as_params_int(q->p, "width");
        if (q->stride < 1 || q->stride > 64 || (width != 4 && width != 8 && width != 16))
            return as_fail(e, AS_EUSAGE, "memory/shared: stride is 1 to 64, width 4, 8 or 16");
        words(w, AS_MEMORY_SHARED, AS_MEMORY_SHARED_WORDS, 1, 1);
        items(w, AS_MEMORY_SHARED_WARPS * AS_MEMORY_SHARED_STEPS, "access of a warp", why);
    } else if (strcmp(name, "constant") == 0) {
        const int64_t distinct = as_params_int(q->p, "distinct");
        if (distinct < 1 || distinct > 32)
            return as_fail(e, AS_EUSAGE, "memory/constant: distinct is 1 to 32");
        words(w, AS_MEMORY_CONSTANT, AS_MEMORY_CONSTANT_WORDS, 1, 1);
        items(w, AS_MEMORY_SHARED_WARPS * AS_MEMORY_SHARED_STEPS, "access of a warp", why);
    } else {
        words(w, AS_MEMORY_SPILL, AS_MEMORY_SPILL_VALUES, 1, 1);
        items(w, AS_MEMORY_SPILL_STEPS * AS_MEMORY_SPILL_VALUES, "multiply-add of a thread", why);
    }
    return AS_OK;
}

static void describe_clock(as_work *w) {
    words(w, AS_MEMORY_CLOCK, 1, 1, 1);
    items(w, AS_MEMORY_CLOCK_STEPS, "addition", "the clock itself");
    w->predicted_ns = AS_MEMORY_CLOCK_STEPS * 0.4;
}

static bool is_one_of(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    static const char *const bandwidth[] = {"read", "write", "triad", "strided", NULL};
    static const char *const sharing[] = {"counters", "atomic", "handoff", NULL};
    const question q = {p, d, strcmp(v->on, "cpu") == 0, as_params_int(p, "bytes"), as_params_int(p, "stride")};
    AS_TRY(as_suite_check_common(p, d, e));
    if (q.bytes > (int64_t)16 << 30)
        return as_fail(e, AS_EUSAGE, "memory: bytes goes up to 16 GiB");
    *w = (as_work){.check = AS_CHECK_REFERENCE};
    w->tolerance = 0.25; /* outputs are whole numbers: any difference is at least 1 */
    if (is_one_of(v->name, bandwidth))
        return describe_bandwidth(&q, v->name, w, e);
    if (is_one_of(v->name, sharing))
        return describe_sharing(&q, v->name, w, e);
    if (strcmp(v->name, "chase") == 0)
        return describe_chase(&q, w, e);
    if (strcmp(v->name, "l2_distance") == 0)
        return describe_l2_distance(&q, w, e);
    if (strcmp(v->name, "clock") != 0)
        return describe_access(&q, v->name, w, e);
    describe_clock(w);
    return AS_OK;
}

const as_suite as_memory_suite = {
    .name = "memory",
    .summary = "latency, bandwidth, access patterns and contention of memory",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = as_memory_reference,
};
