/* Which block size starts a kernel best: one element a thread, grid = ceil(n / block).
 *
 *   config_memory   y = x + 1: bound by memory; any block that fills the multiprocessors will do
 *   config_compute  y = 64 steps of y = 1664525 y + 1013904223 (mod 2^32): bound by integer arithmetic
 *
 * Axis block: 32 to 1024 threads; auto, what cudaOccupancyMaxPotentialBlockSize says for the kernel; rule1024, the rule
 * of the article, min(1024, n). Bytes 4 n read, 4 n written; whole numbers, checked exactly. */
#include "launch.cuh"

#include <stdlib.h>

static __global__ void as_launch_config_memory_kernel(const uint32_t *x, uint32_t *y, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + 1;
}

static __global__ void as_launch_config_compute_kernel(const uint32_t *x, uint32_t *y, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    uint32_t v = x[i];
#pragma unroll 1 /* unrolled, the compiler would fold the steps into one */
    for (int step = 0; step < AS_LAUNCH_CONFIG_STEPS; step++)
        v = as_launch_config_step(v);
    y[i] = v;
}

typedef void (*config_kernel)(const uint32_t *x, uint32_t *y, int64_t n);

/* The same for every call of a case; the occupancy call costs a microsecond, and a graph holds only its outcome. */
static as_status block_of(const as_call *call, config_kernel kernel, int64_t n, int *block, as_error *e) {
    const char *text = as_params_text(call->params, "block");
    int grid = 0;
    if (strcmp(text, "auto") == 0)
        AS_CUDA(e, cudaOccupancyMaxPotentialBlockSize(&grid, block, kernel, 0, 0));
    else
        *block = strcmp(text, "rule1024") == 0 ? (int)(n < 1024 ? n : 1024) : atoi(text);
    return AS_OK;
}

static as_status run(const as_call *call, config_kernel kernel, as_error *e) {
    const int64_t n = as_params_int(call->params, "n");
    int block = 0;
    AS_TRY(block_of(call, kernel, n, &block, e));
    kernel<<<(unsigned)((n + block - 1) / block), (unsigned)block, 0, as_cuda_stream(call->stream)>>>(
        (const uint32_t *)call->operand[0], (uint32_t *)call->operand[1], n);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_launch_config_memory_cuda(const as_call *call, as_error *e) {
    return run(call, as_launch_config_memory_kernel, e);
}

as_status as_launch_config_compute_cuda(const as_call *call, as_error *e) {
    return run(call, as_launch_config_compute_kernel, e);
}
