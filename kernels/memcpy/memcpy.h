/* Copies of n bytes. Operands in order: source (input, random bits), destination (output), both `bytes` long.
 *
 * Bytes: a copy inside one memory (host to host, device to device) reads n and writes n, counted as 2 n
 * ("read + written"). A copy over the link between host and device crosses it once, counted as n ("copied once").
 * Axis dir: h2h (cpu), h2d, d2h, d2d (cuda). Axis memory: kind of the host side, pinned or pageable. */
#pragma once

#include "../table.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AS_MEMCPY_CPU(X)                                                                                               \
    X(memcpy, libc, AS_DETERMINISTIC, "memcpy of the C library, the range split over threads")                         \
    X(memcpy, nt, AS_DETERMINISTIC, "vector loads and non-temporal stores (around the caches), split over threads")

/* sync returns when the copy is complete, device to device too, where cudaMemcpy alone does not wait. */
#define AS_MEMCPY_CUDA(X)                                                                                              \
    X(memcpy, sync, AS_DETERMINISTIC | AS_HOST_CLOCK, "cudaMemcpy, host waits for completion; timed by the host")      \
    X(memcpy, async, AS_DETERMINISTIC, "cudaMemcpyAsync on a stream; timed on the device")                             \
    X(memcpy, kernel, AS_DETERMINISTIC | AS_CAPTURE, "16-byte loads and stores by a kernel (d2d only)")

AS_MEMCPY_CPU(AS_PROTOTYPE_CPU)
AS_MEMCPY_CUDA(AS_PROTOTYPE_CUDA)

typedef enum as_memcpy_dir { AS_H2H, AS_H2D, AS_D2H, AS_D2D, AS_DIR_UNKNOWN } as_memcpy_dir;

static inline as_memcpy_dir as_memcpy_dir_of(const as_params *p) {
    const char *dir = as_params_text(p, "dir");
    if (strcmp(dir, "h2h") == 0)
        return AS_H2H;
    if (strcmp(dir, "h2d") == 0)
        return AS_H2D;
    if (strcmp(dir, "d2h") == 0)
        return AS_D2H;
    if (strcmp(dir, "d2d") == 0)
        return AS_D2D;
    return AS_DIR_UNKNOWN;
}

#ifdef __cplusplus
}
#endif
