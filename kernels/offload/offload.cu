/* The GPU's side of offload; offload.h states the operations. With transfers=yes an operation sends its inputs, runs
 * the kernel and fetches the output, all in one stream: predicted to be the link's time for all but matmul. */
#include "offload.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "../matmul/matmul.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, SIDE = AS_OFFLOAD_SIDE, ROW = AS_OFFLOAD_ROW };

typedef struct offload_state {
    as_offload_op op;
    as_offload_size size;
    int64_t n;
    bool transfers;
    void *device[3];  /* transfers: inputs and output on the device */
    as_params params; /* matmul */
    void *product;
} offload_state;

/* ---- kernels ---- */

static __global__ void __launch_bounds__(THREADS)
    as_offload_axpy_kernel(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, int64_t n) {
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
        z[i] = 3 * x[i] + y[i];
}

static __device__ float over_warp(float v, bool largest) {
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xFFFFFFFFu, v, step);
        v = largest ? fmaxf(v, other) : v + other;
    }
    return v;
}

/* One warp a row: 32 floats a lane, kept in registers between the three passes. */
static __global__ void __launch_bounds__(THREADS)
    as_offload_softmax_kernel(const float *__restrict__ x, float *__restrict__ y, int64_t rows) {
    const int64_t row = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float v[ROW / 32], most = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < ROW / 32; i++) {
        v[i] = x[row * ROW + i * 32 + lane];
        most = fmaxf(most, v[i]);
    }
    most = over_warp(most, true);
#pragma unroll
    for (int i = 0; i < ROW / 32; i++) {
        v[i] = expf(v[i] - most);
        sum += v[i];
    }
    const float scale = 1 / over_warp(sum, false);
#pragma unroll
    for (int i = 0; i < ROW / 32; i++)
        y[row * ROW + i * 32 + lane] = v[i] * scale;
}

/* One block a product; each thread four elements of a column. */
static __global__ void __launch_bounds__(THREADS)
    as_offload_batched_kernel(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c) {
    __shared__ float as[SIDE][SIDE], bs[SIDE][SIDE + 1];
    const int64_t at = (int64_t)blockIdx.x * SIDE * SIDE;
    const int column = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        as[first + 8 * i][column] = a[at + (first + 8 * i) * SIDE + column];
        bs[first + 8 * i][column] = b[at + (first + 8 * i) * SIDE + column];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] += as[first + 8 * i][k] * bs[k][column];
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[at + (first + 8 * i) * SIDE + column] = sum[i];
}

/* ---- one operation ---- */

static unsigned blocks_for(int64_t count, int64_t per_block) {
    const int64_t blocks = (count + per_block - 1) / per_block;
    return (unsigned)(blocks < (1 << 30) ? blocks : 1 << 30);
}

static as_status compute(const as_call *call, const offload_state *s, void *const *x, as_error *e) {
    cudaStream_t stream = as_cuda_stream(call->stream);
    as_call inner = *call;
    switch (s->op) {
    case AS_OFFLOAD_COPY:
        AS_CUDA(e, cudaMemcpyAsync(x[1], x[0], (size_t)s->n * sizeof(float), cudaMemcpyDeviceToDevice, stream));
        return AS_OK;
    case AS_OFFLOAD_AXPY:
        as_offload_axpy_kernel<<<blocks_for(s->n, THREADS), THREADS, 0, stream>>>(
            (const float *)x[0], (const float *)x[1], (float *)x[2], s->n);
        break;
    case AS_OFFLOAD_SOFTMAX:
        as_offload_softmax_kernel<<<blocks_for(s->n / ROW, THREADS / 32), THREADS, 0, stream>>>(
            (const float *)x[0], (float *)x[1], s->n / ROW);
        break;
    case AS_OFFLOAD_BATCHED:
        as_offload_batched_kernel<<<(unsigned)s->n, THREADS, 0, stream>>>((const float *)x[0], (const float *)x[1],
                                                                          (float *)x[2]);
        break;
    case AS_OFFLOAD_MATMUL:
        inner.params = &s->params;
        inner.operand = x;
        inner.state = s->product;
        return as_matmul_warptiled_cuda(&inner, e);
    }
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

static as_status run(const as_call *call, as_error *e) {
    const offload_state *s = (const offload_state *)call->state;
    cudaStream_t stream = as_cuda_stream(call->stream);
    if (!s->transfers)
        return compute(call, s, call->operand, e);
    for (int i = 0; i < s->size.inputs; i++)
        AS_CUDA(e, cudaMemcpyAsync(s->device[i], call->operand[i], (size_t)s->size.in * sizeof(float),
                                   cudaMemcpyHostToDevice, stream));
    AS_TRY(compute(call, s, s->device, e));
    AS_CUDA(e, cudaMemcpyAsync(call->operand[s->size.inputs], s->device[s->size.inputs],
                               (size_t)s->size.out * sizeof(float), cudaMemcpyDeviceToHost, stream));
    return AS_OK;
}

/* ---- state ---- */

static void finish(void *state) {
    offload_state *s = (offload_state *)state;
    if (!s)
        return;
    if (s->op == AS_OFFLOAD_MATMUL)
        as_matmul_warptiled_finish_cuda(s->product);
    for (int i = 0; i < 3; i++)
        (void)cudaFree(s->device[i]);
    free(s);
}

static as_status make(const as_call *call, offload_state *s, as_error *e) {
    for (int i = 0; s->transfers && i <= s->size.inputs; i++)
        AS_CUDA(e, cudaMalloc(&s->device[i], (size_t)(i < s->size.inputs ? s->size.in : s->size.out) * sizeof(float)));
    if (s->op != AS_OFFLOAD_MATMUL)
        return AS_OK;
    AS_TRY(as_offload_matmul_params(s->n, &s->params, e));
    as_call inner = *call;
    inner.params = &s->params;
    return as_matmul_warptiled_prepare_cuda(&inner, &s->product, e);
}

static as_status prepare(const as_call *call, as_offload_op op, void **state, as_error *e) {
    offload_state *s = (offload_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no host memory for the state of offload");
    s->op = op;
    s->n = as_params_int(call->params, "n");
    s->size = as_offload_size_of(op, s->n);
    s->transfers = strcmp(as_params_text(call->params, "transfers"), "yes") == 0;
    const as_status status = make(call, s, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

#define DEFINE_HOOKS(name, op)                                                                                         \
    as_status as_offload_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                       \
        return prepare(call, op, state, e);                                                                            \
    }                                                                                                                  \
    void as_offload_##name##_finish_cuda(void *state) { finish(state); }                                               \
    as_status as_offload_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(copy, AS_OFFLOAD_COPY)
DEFINE_HOOKS(axpy, AS_OFFLOAD_AXPY)
DEFINE_HOOKS(softmax, AS_OFFLOAD_SOFTMAX)
DEFINE_HOOKS(matmul, AS_OFFLOAD_MATMUL)
DEFINE_HOOKS(batched, AS_OFFLOAD_BATCHED)
