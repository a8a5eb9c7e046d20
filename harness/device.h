/* The seam between harness and accelerator: one table of functions a driver fills in. `cpu` is such a driver
 * (cpu.c); others live under kernels/ and are registered in suites/main.c. Nothing here names a vendor's API. */
#pragma once

#include "rng.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t;
struct as_device_telemetry;
struct as_placement;

/* Where an operand lives. On the CPU device all of them but AS_MEM_HUGE are plain host memory. */
typedef enum as_memory {
    AS_MEM_DEVICE,         /* the device's own memory; on cpu: host memory, page-aligned, bound to the placement */
    AS_MEM_PINNED,         /* page-locked host memory */
    AS_MEM_PAGEABLE,       /* ordinary host memory */
    AS_MEM_MANAGED,        /* unified memory, small sizes only */
    AS_MEM_WRITE_COMBINED, /* page-locked, written by the host around its caches; the host reads it very slowly */
    AS_MEM_REGISTERED,     /* ordinary host memory, page-locked afterwards */
    AS_MEM_HUGE,           /* on cpu: huge pages, reserved ones where there are, else transparent ones */
} as_memory;

typedef struct as_device_driver as_device_driver;

/* An opened device. `impl` belongs to the driver. */
typedef struct as_device {
    const as_device_driver *driver;
    int index;                     /* among the visible devices of its kind */
    char name[24];                 /* "cpu", "cuda0" */
    size_t last_level_cache_bytes; /* L3 or the GPU's L2; 0 if unknown */
    void *impl;
    const struct as_placement *place; /* CPUs of the worker that opened it; NULL: none chosen (the probe) */
} as_device;

typedef void *as_stream; /* native handle; NULL on cpu */
typedef void *as_event;
typedef void *as_graph; /* an instantiated graph */

/* Every function may be called from the worker that opened the device, only. Times are in ns. */
struct as_device_driver {
    const char *kind; /* "cpu", "cuda": the word in ids and --device */

    /* Number of usable devices. None: *n = 0, AS_OK and `reason` says why (no driver library, no device,
     * hidden by an environment variable). A driver that is there and broken: AS_EENV with the message.
     * Called in a probe process: it may initialise the device API. */
    as_status (*count)(int *n, char reason[256], as_error *e);
    as_status (*open)(int index, as_device *out, as_error *e);
    void (*close)(as_device *d);

    /* New object for context.devices[]: name, kind, model and what identifies and limits the device. */
    struct json_t *(*describe)(as_device *d);
    as_status (*memory)(as_device *d, size_t *free_bytes, size_t *total_bytes, as_error *e);

    as_status (*alloc)(as_device *d, as_memory kind, size_t bytes, void **out,
                       as_error *e); /* AS_ENOMEM if it does not fit */
    void (*release)(as_device *d, as_memory kind, void *p);
    /* Synchronous; either side may be any kind of memory of this device or plain host memory. */
    as_status (*copy)(as_device *d, void *dst, const void *src, size_t bytes, as_error *e);
    as_status (*set)(as_device *d, void *dst, int byte, size_t bytes, as_error *e);
    /* Elements [0, count) of a seeded stream, bit-identical with as_rng_fill. */
    as_status (*fill)(as_device *d, as_memory kind, void *dst, as_dtype type, as_dist dist, uint64_t count,
                      uint64_t seed, uint32_t key, as_error *e);

    as_status (*stream_create)(as_device *d, as_stream *out, as_error *e);
    void (*stream_destroy)(as_device *d, as_stream s);
    as_status (*stream_sync)(as_device *d, as_stream s, as_error *e); /* relays asynchronous kernel errors */

    as_status (*event_create)(as_device *d, as_event *out, as_error *e);
    void (*event_destroy)(as_device *d, as_event ev);
    as_status (*event_record)(as_device *d, as_event ev, as_stream s, as_error *e);
    as_status (*event_elapsed)(as_device *d, as_event from, as_event to, double *ns, as_error *e); /* both completed */

    /* Graph capture of whatever is issued to `s`; NULL members where the device has no graphs (cpu). */
    as_status (*capture_begin)(as_device *d, as_stream s, as_error *e);
    as_status (*capture_end)(as_device *d, as_stream s, as_graph *out, as_error *e);
    as_status (*graph_launch)(as_device *d, as_graph g, as_stream s, as_error *e);
    void (*graph_destroy)(as_device *d, as_graph g);

    /* New object of plain numbers and strings read just before and just after a round, outside the timed
     * region: clocks_hz, power_watts, temperature_c, throttle reasons, other processes. {} if unknown. */
    struct json_t *(*counters)(as_device *d);
    /* Compares two such readings: adds reasons ("throttled: power cap", "clocks moved", "other processes on
     * the GPU") as strings to `flags` (a JSON array). */
    void (*judge)(const struct json_t *before, const struct json_t *after, struct json_t *flags);

    /* What about the device would spoil results: new array of findings (as_finding_json) for `assay doctor`. Called in
     * a process of its own after `count`, on a device that is not opened; it makes no context. NULL: nothing to tell. */
    struct json_t *(*health)(int index);
    /* Curves and the energy counter (telemetry.h); NULL: none. */
    const struct as_device_telemetry *telemetry;
    /* Named ranges for a profiler's time line, nested, of the calling thread. Both NULL: the device has none. Called
     * outside the timed region. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
};

/* The host as a device. */
extern const as_device_driver as_cpu_driver;

#ifdef __cplusplus
}
#endif
