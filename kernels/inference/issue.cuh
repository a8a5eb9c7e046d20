/* One way to launch: with more than 48 KiB of shared memory where the kernel needs it, overlapping with the kernel
 * before it (programmatic dependent launch) or with all blocks resident (cooperative). */
#pragma once

#include "../cuda/check.h"

#include <cuda_runtime.h>

typedef struct as_issue {
    cudaStream_t stream;
    bool overlap; /* the kernel waits by as_wait_for_predecessor before it touches what others write */
    bool cooperative;
} as_issue;

template <auto KERNEL> as_status as_allow_shared(size_t bytes, as_error *e) {
    static size_t allowed = 48 << 10; /* a worker opens one device */
    if (bytes > allowed) {
        AS_CUDA(e, cudaFuncSetAttribute((const void *)KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        allowed = bytes;
    }
    return AS_OK;
}

template <auto KERNEL, typename... A>
as_status as_issue_kernel(const as_issue &how, dim3 grid, int threads, size_t shared_bytes, as_error *e, A... args) {
    cudaLaunchAttribute attribute[2];
    cudaLaunchConfig_t config = {};
    AS_TRY(as_allow_shared<KERNEL>(shared_bytes, e));
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = how.stream;
    config.attrs = attribute;
    if (how.overlap) {
        attribute[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (how.cooperative) {
        attribute[config.numAttrs].id = cudaLaunchAttributeCooperative;
        attribute[config.numAttrs++].val.cooperative = 1;
    }
    AS_CUDA(e, cudaLaunchKernelEx(&config, KERNEL, args...));
    return AS_OK;
}
