/* The few entry points of CUPTI's activity interface that we use, found by dlsym. Types and numbers are declared here
 * from the public interface (docs.nvidia.com/cupti), so that no header is needed to build: of a kernel's record only
 * the part that has been the same since version 4 of that record. */
#include "cupti.h"

#include "library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, CONCURRENT_KERNEL = 10, FLUSH_ALL = 1, ALIGNMENT = 8 };
static const size_t BUFFER_BYTES = (size_t)4 << 20;

struct kernel_record {
    uint32_t kind;
    uint32_t unused[3];
    uint64_t start, end;
    uint8_t skipped[72];
    const char *name;
};
_Static_assert(offsetof(struct kernel_record, start) == 16 && offsetof(struct kernel_record, name) == 104,
               "as CUPTI lays it out");

typedef void (*request_fn)(uint8_t **buffer, size_t *size, size_t *most_records);
typedef void (*complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

static struct library {
    int (*enable)(int kind);
    int (*disable)(int kind);
    int (*flush)(uint32_t flag);
    int (*callbacks)(request_fn, complete_fn);
    int (*next)(uint8_t *buffer, size_t valid, void **record);
    int (*dropped)(void *context, uint32_t stream, size_t *count);
} cupti;

static struct trace {
    as_kernel_time *kernel;
    int64_t n, room;
    bool broken; /* out of memory */
} trace;

static void request(uint8_t **buffer, size_t *size, size_t *most_records) {
    *buffer = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

static void take(const struct kernel_record *r) {
    if (trace.n == trace.room) {
        const int64_t room = trace.room ? 2 * trace.room : 1024;
        as_kernel_time *grown = realloc(trace.kernel, sizeof *grown * (size_t)room);
        if (!grown) {
            trace.broken = true;
            return;
        }
        trace.kernel = grown;
        trace.room = room;
    }
    as_kernel_time *k = &trace.kernel[trace.n++];
    *k = (as_kernel_time){.begin_ns = r->start, .end_ns = r->end};
    if (r->name)
        strncpy(k->name, r->name, sizeof k->name - 1);
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)size;
    void *record = NULL;
    while (valid > 0 && cupti.next(buffer, valid, &record) == OK) {
        const struct kernel_record *r = record;
        if (r->kind == CONCURRENT_KERNEL)
            take(r);
    }
    size_t dropped = 0;
    if (cupti.dropped(context, stream, &dropped) != OK || dropped)
        trace.broken = true;
    free(buffer);
}

static bool resolve(void *file) {
    struct library l = {0};
    /* POSIX lets dlsym's object pointer be copied into a function's. */
    const struct {
        const char *name;
        void *to;
    } all[] = {{"cuptiActivityEnable", &l.enable},      {"cuptiActivityDisable", &l.disable},
               {"cuptiActivityFlushAll", &l.flush},     {"cuptiActivityRegisterCallbacks", &l.callbacks},
               {"cuptiActivityGetNextRecord", &l.next}, {"cuptiActivityGetNumDroppedRecords", &l.dropped}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *const p = dlsym(file, all[i].name);
        if (!p)
            return false;
        memcpy(all[i].to, &p, sizeof p);
    }
    if (l.callbacks(request, complete) != OK)
        return false;
    cupti = l;
    return true;
}

static as_status load(as_error *e) { return cupti.enable ? AS_OK : as_library_find("CUPTI", "libcupti", resolve, e); }

as_status as_cupti_start(as_error *e) {
    AS_TRY(load(e));
    free(trace.kernel);
    memset(&trace, 0, sizeof trace);
    const int code = cupti.enable(CONCURRENT_KERNEL);
    if (code != OK)
        return as_fail_code(e, AS_EABSENT, code, "CUPTI cannot trace kernels (%d); is another profiler attached?",
                            code);
    return AS_OK;
}

static int by_begin(const void *a, const void *b) {
    const as_kernel_time *x = a, *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

as_status as_cupti_stop(as_kernel_time **out, int64_t *n, as_error *e) {
    const int flushed = cupti.flush(FLUSH_ALL), disabled = cupti.disable(CONCURRENT_KERNEL);
    *out = trace.kernel;
    *n = trace.n;
    const bool broken = trace.broken;
    memset(&trace, 0, sizeof trace);
    if (flushed != OK || disabled != OK || broken) {
        free(*out);
        *out = NULL;
        return as_fail(e, AS_EFAIL, "CUPTI lost records of kernels (%d, %d); measure without another profiler", flushed,
                       disabled);
    }
    if (*n > 0)
        qsort(*out, (size_t)*n, sizeof **out, by_begin);
    return AS_OK;
}
