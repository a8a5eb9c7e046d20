/* Shared by the files of kernels/cuda and by kernels that size their grid from the device. */
#pragma once

#include "../../harness/device.h"
#include "nvml.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* as_device.impl of an opened CUDA device. */
typedef struct as_cuda_impl {
    int ordinal;
    struct cudaDeviceProp properties;
    char pci_bus_id[32]; /* "0000:65:00.0" */
    as_nvml *nvml;       /* NULL where NVML is absent or does not know the device */
} as_cuda_impl;

static inline const as_cuda_impl *as_cuda_of(const as_device *d) { return (const as_cuda_impl *)d->impl; }

static inline cudaStream_t as_cuda_stream(as_stream s) { return (cudaStream_t)s; }

/* device.describe (describe.c) and device.fill (fill.cu). */
struct json_t *as_cuda_describe(as_device *d);
as_status as_cuda_fill(as_device *d, as_memory kind, void *dst, as_dtype type, as_dist dist, uint64_t count,
                       uint64_t seed, uint32_t key, as_error *e);
/* AS_EENV where this binary holds no code for the opened device's architecture. */
as_status as_cuda_check_image(const as_cuda_impl *c, as_error *e);

/* Instantiates a captured graph on toolkits 11.4 to 13. */
cudaError_t as_cuda_instantiate(cudaGraphExec_t *out, cudaGraph_t graph);

#ifdef __cplusplus
}
#endif
