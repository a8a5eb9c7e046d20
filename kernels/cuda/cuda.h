/* The CUDA driver of the harness's device interface. suites/main.c lists it in the registry where the build has CUDA.
 *
 * A binary that contains it starts on a machine with no NVIDIA driver: the CUDA runtime is linked statically and
 * finds libcuda.so.1 by itself; NVML and cuBLAS are loaded on demand. */
#pragma once

#include "../../harness/device.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const as_device_driver as_cuda_driver;
extern const struct as_device_telemetry as_cuda_telemetry; /* telemetry.c: NVML alone, no context */

/* The driver's `counters` and `judge`; counters.c states the rules. */
struct json_t *as_cuda_counters(as_device *d);
void as_cuda_judge(const struct json_t *before, const struct json_t *after, struct json_t *flags);
/* The driver's `health`; health_judge.c states the rules. */
struct json_t *as_cuda_health(int index);
/* The driver's `range_push` and `range_pop`: NVTX. */
void as_cuda_range_push(const char *name);
void as_cuda_range_pop(void);

#ifdef __cplusplus
}
#endif
