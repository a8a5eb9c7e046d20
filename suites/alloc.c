/* Suite alloc: what memory costs before it is used, by way of allocation, size and number of callers. */
#include "../kernels/alloc/alloc.h"
#include "suites.h"

#include <string.h>

static const as_axis axes[] = {
    {"bytes", "0", true, false, "bytes", "size of a block; must be given"},
    {"touch", "no", false, false, "", "yes: a byte of every page is written, which makes the page"},
    {"callers", "1", true, false, "threads", "cuda only: host threads that allocate at the same time"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_ALLOC_CPU(AS_ROW_CPU_EXTRA) //
#ifdef ASSAY_CUDA
    AS_ALLOC_CUDA(AS_ROW_CUDA_EXTRA) //
#endif
    {.name = NULL},
};

/* 4 KiB, 64 KiB, 1 MiB, 64 MiB, 256 MiB. */
static const as_point points[] = {
    {AS_QUICK, "cpu", "malloc", "bytes=64,65536,67108864", 1},
    {AS_QUICK, "cpu", "mmap,huge", "bytes=2097152;touch=yes", 1},
    {AS_QUICK, "cuda", "malloc,stream,stream_retained,slab", "bytes=1048576", 0},
    {AS_QUICK, "cuda", "pinned,registered", "bytes=16777216", 1},
    {AS_QUICK, "cuda", "managed", "bytes=65536", 1},
    {AS_STANDARD, "cpu", "malloc", "bytes=64,4096,65536,1048576;threads=all", 2},
    {AS_STANDARD, "cpu", "malloc,mmap,huge,mlock", "bytes=1048576", 2},
    {AS_STANDARD, "cpu", "malloc,mmap,huge,mlock", "bytes=1048576;touch=yes", 2},
    {AS_STANDARD, "cpu", "mmap,huge", "bytes=2097152;touch=yes;threads=all", 2},
    {AS_STANDARD, "cpu", "slab", "bytes=4096;threads=1,all", 2},
    {AS_STANDARD, "cuda", "malloc,stream,stream_retained,slab", "bytes=4096,67108864", 2},
    {AS_STANDARD, "cuda", "malloc,stream_retained,slab", "bytes=1048576;callers=4", 2},
    {AS_STANDARD, "cuda", "pinned,registered", "bytes=65536,1048576", 2},
    {AS_STANDARD, "cuda", "managed", "bytes=1048576,16777216", 2},
    {AS_STANDARD, "cuda", "managed", "bytes=1048576,67108864;touch=yes", 2},
    {AS_PUBLISH, "cuda", "malloc,stream,stream_retained", "bytes=268435456", 4},
    {.variants = NULL},
};

static as_status check(const as_params *p, const as_variant *v, const as_device *d, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    const bool cpu = strcmp(v->on, "cpu") == 0;
    const char *touch = as_params_text(p, "touch");
    const int64_t bytes = as_params_int(p, "bytes"), callers = as_params_int(p, "callers");
    if (bytes < 1 || bytes > (int64_t)1 << 30)
        return as_fail(e, AS_EUSAGE, "alloc: bytes must be given, up to 1 GiB (bytes:65536)");
    if (strcmp(touch, "yes") != 0 && strcmp(touch, "no") != 0)
        return as_fail(e, AS_EUSAGE, "alloc: touch is yes or no, not '%s'", touch);
    if (!cpu && strcmp(touch, "yes") == 0 && strcmp(v->name, "managed") != 0)
        return as_fail(e, AS_EUSAGE, "alloc/%s: the host cannot touch it, or it is there already: leave touch out",
                       v->name);
    if (callers < 1 || callers > 64 || (cpu && callers != 1))
        return as_fail(e, AS_EUSAGE, "alloc: callers is 1 to 64, on a GPU only; on the cpu use threads");
    if (strcmp(as_params_text(p, "cache"), "warm") != 0)
        return as_fail(e, AS_EUSAGE, "alloc moves no data: leave cache at warm");
    return AS_OK;
}

/* Rough nanoseconds of a pair, and for each byte that is touched or mapped; for the planner only. */
typedef struct guess {
    const char *on, *variant;
    double pair_ns, byte_ns;
} guess;
static const guess guesses[] = {
    {"cpu", "malloc", 100, 0},       {"cpu", "mmap", 3000, 0},
    {"cpu", "huge", 5000, 0},        {"cpu", "mlock", 5000, 1.5},
    {"cpu", "slab", 100, 0},         {"cuda", "malloc", 1e5, 1e-3},
    {"cuda", "stream", 1.5e5, 1e-3}, {"cuda", "stream_retained", 5e3, 0},
    {"cuda", "pinned", 5e4, 0.1},    {"cuda", "registered", 5e4, 0.05},
    {"cuda", "managed", 3e4, 0},     {"cuda", "slab", 100, 0},
};

static double predict(const as_params *p, const as_variant *v) {
    const double bytes = (double)as_params_int(p, "bytes");
    const double touched = strcmp(as_params_text(p, "touch"), "yes") == 0 ? 1.5 * bytes : 0;
    for (int i = 0; i < AS_COUNT(guesses); i++)
        if (strcmp(guesses[i].on, v->on) == 0 && strcmp(guesses[i].variant, v->name) == 0)
            return AS_ALLOC_PAIRS * (guesses[i].pair_ns + guesses[i].byte_ns * bytes + touched);
    return 0;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(check(p, v, d, e));
    *w = (as_work){.convention = "no data moved", .items = AS_ALLOC_PAIRS, .item = "pair"};
    w->no_ceiling = "an allocation has no measured limit";
    w->check = AS_CHECK_EFFECT;
    w->expected_count =
        AS_ALLOC_PAIRS * (strcmp(v->on, "cpu") == 0 ? 1 : as_params_int(p, "callers")); /* cpu: all members or none */
    w->predicted_ns = predict(p, v);
    return AS_OK;
}

const as_suite as_alloc_suite = {
    .name = "alloc",
    .summary = "taking memory and giving it back",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
};
