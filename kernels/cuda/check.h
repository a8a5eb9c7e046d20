/* Every CUDA runtime call goes through AS_CUDA: a failure is relayed with the call's text, CUDA's name and code for
 * the error and a remedy. */
#pragma once

#include "../../harness/status.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills `e` and returns the status that `code` stands for. Clears the runtime's last error where it can be cleared.
 * AS_ENOMEM: out of memory, the device is still usable. AS_EENV: driver or set-up. AS_ELOST: the context is corrupt
 * and this process can use the device no more (illegal address, launch failure, ECC error). AS_EFAIL: the rest. */
as_status as_cuda_fail_at(as_error *e, const char *file, int line, cudaError_t code, const char *call);

#ifdef __cplusplus
}
#endif

#define AS_CUDA(e, call)                                                                                               \
    do {                                                                                                               \
        cudaError_t as_code_ = (call);                                                                                 \
        if (as_code_ != cudaSuccess)                                                                                   \
            return as_cuda_fail_at((e), __FILE__, __LINE__, as_code_, #call);                                          \
    } while (0)

/* As AS_CUDA, but stores the status in `status` and goes to `out` where something must be destroyed first. */
#define AS_CUDA_GOTO(e, status, call)                                                                                  \
    do {                                                                                                               \
        cudaError_t as_code_ = (call);                                                                                 \
        if (as_code_ != cudaSuccess) {                                                                                 \
            (status) = as_cuda_fail_at((e), __FILE__, __LINE__, as_code_, #call);                                      \
            goto out;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* After a <<< >>> launch: relays a bad configuration or a missing kernel image. Faults while it runs appear at the
 * next synchronisation. */
#define AS_CUDA_LAUNCHED(e) AS_CUDA((e), cudaGetLastError())
