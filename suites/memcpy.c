/* Suite memcpy: copies inside a memory and over the link between host and device. */
#include "../kernels/memcpy/memcpy.h"
#include "suites.h"

static const as_axis axes[] = {
    {"bytes", "0", true, false, "bytes", "length of the copy; must be given"},
    {"dir", "h2h", false, false, "", "h2h on the cpu; h2d, d2h, d2d (h host, d device) on a GPU"},
    {"memory", "pinned", false, false, "", "host side of h2d and d2h: pinned or pageable"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_MEMCPY_CPU(AS_ROW_CPU) //
#ifdef ASSAY_CUDA
    AS_MEMCPY_CUDA(AS_ROW_CUDA) //
#endif
    {.name = NULL},
};

/* Sizes in bytes: 4096 = 4 KiB, 65536, 1048576 = 1 MiB, 16777216, 67108864, 536870912 = 512 MiB on a GPU; on the cpu
 * one for each cache level that is common and two beyond. */
static const as_point points[] = {
    {AS_QUICK, "cpu", "*", "bytes=4096,65536,524288,4194304,33554432,268435456;threads=1,all", 0},
    {AS_QUICK, "cpu", "libc", "bytes=4194304;cache=cold", 2},
    {AS_QUICK, "cuda", "async", "bytes=4096,1048576,67108864,536870912;dir=h2d,d2h", 0},
    {AS_QUICK, "cuda", "sync", "bytes=4096,536870912;dir=h2d,d2h", 1},
    {AS_QUICK, "cuda", "sync", "bytes=4096,1048576,536870912;dir=h2d,d2h;memory=pageable", 0},
    {AS_QUICK, "cuda", "async", "bytes=536870912;dir=h2d,d2h;memory=pageable", 1},
    {AS_QUICK, "cuda", "async", "bytes=4096,1048576,67108864,536870912;dir=d2d", 0},
    {AS_QUICK, "cuda", "kernel", "bytes=1048576,67108864,536870912;dir=d2d", 1},
    {AS_STANDARD, "cpu", "*", "bytes=16384,262144,1048576,16777216,134217728;threads=1,all", 2},
    {AS_STANDARD, "cpu", "*", "bytes=65536,4194304;threads=all;cache=cold", 3},
    {AS_STANDARD, "cuda", "async", "bytes=65536,16777216;dir=h2d,d2h,d2d", 2},
    {AS_STANDARD, "cuda", "sync", "bytes=65536,1048576,16777216,67108864;dir=h2d,d2h", 2},
    {AS_STANDARD, "cuda", "sync", "bytes=65536,16777216,67108864;dir=h2d,d2h;memory=pageable", 2},
    {AS_STANDARD, "cuda", "async", "bytes=4096,65536,1048576,16777216,67108864;dir=h2d,d2h;memory=pageable", 2},
    {AS_STANDARD, "cuda", "kernel", "bytes=4096,65536,16777216;dir=d2d", 2},
    {AS_STANDARD, "cuda", "async,kernel", "bytes=16777216;dir=d2d;cache=cold", 3},
    {AS_PUBLISH, "cpu", "*", "bytes=1,63,4097,1000003;threads=1,all", 4},
    {AS_PUBLISH, "cpu", "*", "bytes=536870912;threads=1,all", 4},
    {AS_STANDARD, "cuda", "sync", "bytes=4096,536870912;dir=d2d", 2},
    {AS_PUBLISH, "cuda", "sync", "bytes=65536,1048576,16777216,67108864;dir=d2d", 4},
    {AS_PUBLISH, "cuda", "sync,async", "bytes=1,4097,1000003;dir=h2d,d2h,d2d", 4},
    {AS_PUBLISH, "cuda", "kernel", "bytes=1,4097,1000003;dir=d2d", 4},
    {.variants = NULL},
};

static as_status check(const as_params *p, const as_variant *v, const as_device *d, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    bool cpu = strcmp(v->on, "cpu") == 0;
    as_memcpy_dir dir = as_memcpy_dir_of(p);
    const char *memory = as_params_text(p, "memory");
    if (as_params_int(p, "bytes") == 0)
        return as_fail(e, AS_EUSAGE, "memcpy: bytes must be given (bytes:4096)");
    if (dir == AS_DIR_UNKNOWN)
        return as_fail(e, AS_EUSAGE, "memcpy: dir is h2h, h2d, d2h or d2d, not '%s'", as_params_text(p, "dir"));
    if (cpu != (dir == AS_H2H))
        return as_fail(e, AS_EUSAGE, "memcpy: dir is %s", cpu ? "h2h on the cpu" : "h2d, d2h or d2d on a GPU");
    if (strcmp(memory, "pinned") != 0 && strcmp(memory, "pageable") != 0)
        return as_fail(e, AS_EUSAGE, "memcpy: memory is pinned or pageable, not '%s'", memory);
    if ((dir == AS_H2H || dir == AS_D2D) && strcmp(memory, "pinned") != 0)
        return as_fail(e, AS_EUSAGE, "memcpy: memory is for h2d and d2h: leave it out");
    if (!cpu && strcmp(v->name, "kernel") == 0 && dir != AS_D2D)
        return as_fail(e, AS_EUSAGE, "memcpy/kernel copies d2d only");
    return AS_OK;
}

/* Rough bytes moved a nanosecond, and nanoseconds of the smallest copy; for the planner only. */
static double predict(const as_params *p, as_memcpy_dir dir, double bytes) {
    switch (dir) {
    case AS_H2H: return 50 + bytes / 4;
    case AS_D2D: return 4000 + bytes / 500;
    default: return 9000 + bytes / (strcmp(as_params_text(p, "memory"), "pinned") == 0 ? 20 : 7);
    }
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(check(p, v, d, e));
    as_memcpy_dir dir = as_memcpy_dir_of(p);
    int64_t bytes = as_params_int(p, "bytes");
    as_memory host = strcmp(as_params_text(p, "memory"), "pinned") == 0 ? AS_MEM_PINNED : AS_MEM_PAGEABLE;
    bool from_host = dir == AS_H2D, to_host = dir == AS_D2H, link = from_host || to_host;
    *w = (as_work){0};
    w->operand[w->operands++] =
        (as_operand){"source", AS_IN, from_host ? host : AS_MEM_DEVICE, AS_U8, AS_BITS, bytes, 1};
    w->operand[w->operands++] =
        (as_operand){"destination", AS_OUT, to_host ? host : AS_MEM_DEVICE, AS_U8, AS_BITS, bytes, 0};
    w->bytes_read = (double)bytes;
    w->bytes_written = link ? 0 : (double)bytes;
    w->convention = link ? "copied once" : "read + written";
    w->working_set_bytes = 2 * bytes;
    w->bound[w->bounds++] = from_host ? (as_bound){"link.h2d", (double)bytes}
                            : to_host ? (as_bound){"link.d2h", (double)bytes}
                                      : (as_bound){"memory", 2.0 * (double)bytes};
    w->check = AS_CHECK_COPY;
    w->rows = 1;
    w->columns = bytes;
    w->predicted_ns = predict(p, dir, (double)bytes);
    return AS_OK;
}

const as_suite as_memcpy_suite = {
    .name = "memcpy",
    .summary = "copies on the host, on the device and between them",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
};
