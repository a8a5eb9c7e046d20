/* Copies by a kernel, for every variant that has one. */
#pragma once

#include "../../harness/status.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

/* `bytes` from src to dst, any alignment, either of them device, peer or mapped host memory. Does not wait. */
as_status as_memcpy_launch_copy(void *dst, const void *src, uint64_t bytes, cudaStream_t stream, as_error *e);

/* The same from src to dst and from back_src to back_dst by one kernel, whose warps take turns. All 16-byte aligned,
 * `bytes` a multiple of 16. */
as_status as_memcpy_launch_both(void *dst, const void *src, void *back_dst, const void *back_src, uint64_t bytes,
                                cudaStream_t stream, as_error *e);
