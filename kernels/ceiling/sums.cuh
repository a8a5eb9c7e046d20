/* One sum over a grid without a second launch in the timed region. */
#pragma once

#include <cuda_runtime.h>

/* Sums of all blocks and the blocks that have added theirs. The last one publishes and clears them: no second launch
 * in the timed region. One stream uses them at a time. */
static __device__ unsigned long long as_ceiling_total;
static __device__ unsigned as_ceiling_arrived;

/* Sum over a block; valid in thread 0. `shared` holds one value a warp. */
template <int THREADS> static __device__ unsigned long long block_sum(unsigned long long value) {
    __shared__ unsigned long long shared[THREADS / 32];
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(0xFFFFFFFFu, value, step);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int warp = 1; warp < THREADS / 32; warp++)
            value += shared[warp];
    return value;
}

/* Called by thread 0 of every block. True in the last one, with the total; the globals are then ready for reuse. */
static __device__ bool grid_sum(unsigned long long value, unsigned long long *total) {
    atomicAdd(&as_ceiling_total, value);
    __threadfence();
    if (atomicAdd(&as_ceiling_arrived, 1u) + 1 != gridDim.x)
        return false;
    *total = atomicExch(&as_ceiling_total, 0ull);
    atomicExch(&as_ceiling_arrived, 0u);
    return true;
}
