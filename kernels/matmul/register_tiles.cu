/* C[m x n] = A[m x k] B[k x n], float32: the rungs with register tiles, between one element a thread (matmul.cu) and
 * warptiled. What they change is how often a value that was read is used before it is read again.
 *
 * A thread with r x s elements of C reads r + s values of 4 bytes from shared memory for 2 r s flops: 2 (r + s) / (r s)
 * bytes a flop. A block with R x S elements reads global memory, L2 for the most part, at 2 (R + S) / (R S) bytes a
 * flop. An SM starts four multiply-adds of a warp in a cycle but one read of shared memory, and a read of 16 bytes a
 * lane takes it four cycles at most.
 *
 *                    shared B/flop   reads for 64 multiply-adds   global B/flop
 *   tiled32          4               80                           1/8
 *   tile1d           2.25            24 (8 words, 16 quads)       1/16
 *   tile2d           0.5             10 (8 words, 2 quads)        1/32
 *   vectorised       0.5             4 (quads)                    1/32
 *   double_buffered  0.5             4                            1/32
 *   warptiled        0.375           3 (16 x 8 elements)          3/128
 *
 *   tile1d           64 x 64 of C a block of 512 threads, 8 x 1 a thread, slabs of 8 steps of k. A value of B serves 8
 *                    multiply-adds; A comes by broadcast, in quads along k. Predicted 1.5 to 2.5 x tiled32: reads still
 *                    take more of an SM's cycles than multiply-adds.
 *   tile2d           128 x 128 of C a block of 256 threads, 8 x 8 a thread. Predicted 2 x tile1d: now instructions
 *                    other than multiply-adds (a third, most of them addresses and guards) and memory latency set the
 *                    limit, for the copy of a slab and its use take turns.
 *   vectorised       the same tiles; global memory in 16 bytes a thread, A transposed on its way into shared memory, so
 *                    that a thread's 8 rows and 8 columns are two quads each. Multiply-adds rise from 69 to 84% of the
 *                    instructions: predicted 1.2 x tile2d.
 *   double_buffered  the next slab is on its way to registers while this one is multiplied, and two slabs in shared
 *                    memory need one barrier instead of two. Same instructions, less waiting: predicted 1.1 to 1.2 x
 *                    vectorised.
 *
 * Measured on an H200 (n = 4096, 1980 MHz, CUDA 13.0), TFLOP/s: tiled32 8.3, tile1d 15.8 (1.9 x the rung before it),
 * tile2d 28.5 (1.8 x), vectorised 37.9 (1.33 x), double_buffered 45.2 (1.19 x), warptiled 50.8 (1.12 x), cuBLAS 51.1.
 * At n = 8192 warptiled reaches 52.7 and cuBLAS 51.1. tile2d fell short of its prediction, vectorised beat it: 16-byte
 * reads save more waiting than their share of the instructions.
 *
 * Edges: elements outside the matrices count as zero; rows whose length is no multiple of 4 are read by words. */
#include "matmul.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "tile.cuh"

/* 0 outside the rows x columns elements at p, whose rows lie `pitch` apart. */
static __device__ __forceinline__ float value_or_zero(const float *__restrict__ p, int64_t pitch, int64_t row,
                                                      int64_t column, int64_t rows, int64_t columns) {
    return row < rows && column < columns ? p[row * pitch + column] : 0.0f;
}

/* ---- tile1d ---- */

enum { EDGE_1D = 64, DEPTH_1D = 8, ROWS_1D = 8, THREADS_1D = EDGE_1D * EDGE_1D / ROWS_1D };

/* A warp takes 32 columns of 8 rows: its reads of A are broadcasts, of B consecutive words. */
static __global__ void __launch_bounds__(THREADS_1D, 2)
    as_matmul_tile1d_kernel(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int64_t m,
                            int64_t n, int64_t k) {
    __shared__ __align__(16) float tile_a[EDGE_1D][DEPTH_1D], tile_b[DEPTH_1D][EDGE_1D];
    const as_tile t = as_tile_of_block(n, EDGE_1D, EDGE_1D);
    const int tid = (int)threadIdx.x, x = tid % EDGE_1D, y = tid / EDGE_1D * ROWS_1D;
    float sum[ROWS_1D] = {};
    for (int64_t at = 0; at < k; at += DEPTH_1D) {
        /* One element of each a thread. */
        tile_a[tid / DEPTH_1D][tid % DEPTH_1D] = value_or_zero(a, k, t.row + tid / DEPTH_1D, at + tid % DEPTH_1D, m, k);
        tile_b[tid / EDGE_1D][x] = value_or_zero(b, n, at + tid / EDGE_1D, t.column + x, k, n);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH_1D; i++)
#pragma unroll
            for (int r = 0; r < ROWS_1D; r++)
                sum[r] += tile_a[y + r][i] * tile_b[i][x];
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ROWS_1D; r++)
        if (t.row + y + r < m && t.column + x < n)
            c[(t.row + y + r) * n + t.column + x] = sum[r];
}

/* ---- tile2d ---- */

enum { EDGE_2D = 128, DEPTH_2D = 8, SIDE_2D = 8, ACROSS_2D = EDGE_2D / SIDE_2D, THREADS_2D = ACROSS_2D * ACROSS_2D };

/* A thread's rows and columns lie 16 apart, so that the lanes of a warp read 16 consecutive words of B and
 * two of A, 8 words apart: no bank conflicts. */
static __global__ void __launch_bounds__(THREADS_2D, 2)
    as_matmul_tile2d_kernel(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int64_t m,
                            int64_t n, int64_t k) {
    __shared__ float tile_a[EDGE_2D][DEPTH_2D], tile_b[DEPTH_2D][EDGE_2D];
    const as_tile t = as_tile_of_block(n, EDGE_2D, EDGE_2D);
    const int tid = (int)threadIdx.x, x = tid % ACROSS_2D, y = tid / ACROSS_2D;
    float sum[SIDE_2D][SIDE_2D] = {};
    for (int64_t at = 0; at < k; at += DEPTH_2D) {
#pragma unroll
        for (int i = 0; i < EDGE_2D; i += THREADS_2D / DEPTH_2D)
            tile_a[tid / DEPTH_2D + i][tid % DEPTH_2D] =
                value_or_zero(a, k, t.row + tid / DEPTH_2D + i, at + tid % DEPTH_2D, m, k);
#pragma unroll
        for (int i = 0; i < DEPTH_2D; i += THREADS_2D / EDGE_2D)
            tile_b[tid / EDGE_2D + i][tid % EDGE_2D] =
                value_or_zero(b, n, at + tid / EDGE_2D + i, t.column + tid % EDGE_2D, k, n);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH_2D; i++) {
            float left[SIDE_2D], right[SIDE_2D];
#pragma unroll
            for (int r = 0; r < SIDE_2D; r++) {
                left[r] = tile_a[y + r * ACROSS_2D][i];
                right[r] = tile_b[i][x + r * ACROSS_2D];
            }
#pragma unroll
            for (int r = 0; r < SIDE_2D; r++)
#pragma unroll
                for (int s = 0; s < SIDE_2D; s++)
                    sum[r][s] += left[r] * right[s];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < SIDE_2D; r++)
#pragma unroll
        for (int s = 0; s < SIDE_2D; s++) {
            const int64_t row = t.row + y + r * ACROSS_2D, column = t.column + x + s * ACROSS_2D;
            if (row < m && column < n)
                c[row * n + column] = sum[r][s];
        }
}

/* ---- vectorised, double_buffered ---- */

/* A transposed: rows of k. 4 words more a row keep quads aligned and spread the stores of a column over the banks. */
struct slab {
    float a[DEPTH_2D][EDGE_2D + 4], b[DEPTH_2D][EDGE_2D];
};

/* This thread's quad of each matrix in a slab: A's along k, B's along n. */
struct quads {
    float4 a, b;
};

struct vector_args {
    const float *a, *b;
    float *c;
    int64_t m, n, k;
    bool quads_a, quads_b; /* rows of A, of B and C, begin at multiples of 16 bytes */
};

/* The first `count` of four neighbours at p, then zeros. One read of 16 bytes where `aligned`. */
static __device__ __forceinline__ float4 quad_or_zero(const float *p, int count, bool aligned) {
    if (aligned && count >= 4)
        return *(const float4 *)p;
    return make_float4(count > 0 ? p[0] : 0.0f, count > 1 ? p[1] : 0.0f, count > 2 ? p[2] : 0.0f,
                       count > 3 ? p[3] : 0.0f);
}

static __device__ __forceinline__ int at_most(int64_t value, int limit) { return value < limit ? (int)value : limit; }

/* Where this thread reads the next slab. */
struct quad_reader {
    const float *a, *b;
    int64_t left; /* of k */
    bool row;     /* A has this thread's row */
    int columns;  /* of this thread's quad that B has */

    __device__ __forceinline__ quad_reader(const vector_args &p, as_tile t) {
        const int tid = (int)threadIdx.x;
        a = p.a + (t.row + tid / 2) * p.k + tid % 2 * 4;
        b = p.b + tid / 32 * p.n + t.column + tid % 32 * 4;
        left = p.k;
        row = t.row + tid / 2 < p.m;
        columns = at_most(p.n - t.column - tid % 32 * 4, 4);
    }

    __device__ __forceinline__ quads next(const vector_args &p) {
        const int tid = (int)threadIdx.x, depth = at_most(left, DEPTH_2D);
        quads q;
        q.a = quad_or_zero(a, row ? depth - tid % 2 * 4 : 0, p.quads_a);
        q.b = quad_or_zero(b, tid / 32 < depth ? columns : 0, p.quads_b);
        a += DEPTH_2D;
        b += DEPTH_2D * p.n;
        left -= DEPTH_2D;
        return q;
    }
};

static __device__ __forceinline__ void store_quads(slab &s, const quads &q) {
    const int tid = (int)threadIdx.x, row = tid / 2, k = tid % 2 * 4;
    s.a[k][row] = q.a.x;
    s.a[k + 1][row] = q.a.y;
    s.a[k + 2][row] = q.a.z;
    s.a[k + 3][row] = q.a.w;
    *(float4 *)&s.b[tid / 32][tid % 32 * 4] = q.b;
}

/* Rows y, y + 64 and columns x, x + 64 begin this thread's four quads of 4 x 4. */
static __device__ __forceinline__ void multiply(float (&sum)[SIDE_2D][SIDE_2D], const slab &s, int y, int x) {
#pragma unroll
    for (int i = 0; i < DEPTH_2D; i++) {
        float left[SIDE_2D], right[SIDE_2D];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            *(float4 *)&left[h * 4] = *(const float4 *)&s.a[i][y + h * 64];
            *(float4 *)&right[h * 4] = *(const float4 *)&s.b[i][x + h * 64];
        }
#pragma unroll
        for (int q = 0; q < SIDE_2D; q++) /* in this order the compiler finds fewer clashes of register banks */
#pragma unroll
            for (int r = 0; r < SIDE_2D; r++)
                sum[r][q] += left[r] * right[q];
    }
}

static __device__ __forceinline__ void store_tile(const float (&sum)[SIDE_2D][SIDE_2D], const vector_args &p, int64_t y,
                                                  int64_t x) {
#pragma unroll
    for (int r = 0; r < SIDE_2D; r++)
#pragma unroll
        for (int h = 0; h < SIDE_2D; h += 4) {
            const int64_t row = y + r / 4 * 64 + r % 4, column = x + h / 4 * 64;
            if (row >= p.m)
                continue;
            if (p.quads_b && column + 4 <= p.n) {
                *(float4 *)(p.c + row * p.n + column) =
                    make_float4(sum[r][h], sum[r][h + 1], sum[r][h + 2], sum[r][h + 3]);
                continue;
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (column + j < p.n)
                    p.c[row * p.n + column + j] = sum[r][h + j];
        }
}

template <int STAGES>
static __global__ void __launch_bounds__(THREADS_2D, 2) as_matmul_vectorised_kernel(const vector_args p) {
    static_assert(STAGES == 1 || STAGES == 2, "one slab, or two that take turns");
    __shared__ __align__(16) slab slabs[STAGES];
    const as_tile t = as_tile_of_block(p.n, EDGE_2D, EDGE_2D);
    const int x = (int)threadIdx.x % ACROSS_2D * 4, y = (int)threadIdx.x / ACROSS_2D * 4;
    float sum[SIDE_2D][SIDE_2D] = {};
    quad_reader reader(p, t);
    quads next = reader.next(p);
    int now = 0;
    for (;;) {
        store_quads(slabs[now], next);
        __syncthreads();
        const bool last = reader.left <= 0;
        if (STAGES == 2 && !last)
            next = reader.next(p); /* arrives while this slab is multiplied */
        multiply(sum, slabs[now], y, x);
        if (last)
            break;
        if (STAGES == 2) {
            now ^= 1; /* all threads have read the other slab: they are past the barrier above */
        } else {
            __syncthreads();
            next = reader.next(p);
        }
    }
    store_tile(sum, p, t.row + y, t.column + x);
}

/* ---- launchers ---- */

as_status as_matmul_tile1d_cuda(const as_call *call, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    unsigned blocks = 0;
    AS_TRY(as_tile_grid(s.m, s.n, EDGE_1D, EDGE_1D, &blocks, e));
    as_matmul_tile1d_kernel<<<blocks, THREADS_1D, 0, as_cuda_stream(call->stream)>>>(
        (const float *)call->operand[0], (const float *)call->operand[1], (float *)call->operand[2], s.m, s.n, s.k);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_matmul_tile2d_cuda(const as_call *call, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    unsigned blocks = 0;
    AS_TRY(as_tile_grid(s.m, s.n, EDGE_2D, EDGE_2D, &blocks, e));
    as_matmul_tile2d_kernel<<<blocks, THREADS_2D, 0, as_cuda_stream(call->stream)>>>(
        (const float *)call->operand[0], (const float *)call->operand[1], (float *)call->operand[2], s.m, s.n, s.k);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

template <int STAGES> static as_status vectorised(const as_call *call, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    unsigned blocks = 0;
    AS_TRY(as_tile_grid(s.m, s.n, EDGE_2D, EDGE_2D, &blocks, e));
    const vector_args p = {(const float *)call->operand[0],
                           (const float *)call->operand[1],
                           (float *)call->operand[2],
                           s.m,
                           s.n,
                           s.k,
                           s.k % 4 == 0,
                           s.n % 4 == 0};
    as_matmul_vectorised_kernel<STAGES><<<blocks, THREADS_2D, 0, as_cuda_stream(call->stream)>>>(p);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_matmul_vectorised_cuda(const as_call *call, as_error *e) { return vectorised<1>(call, e); }

as_status as_matmul_double_buffered_cuda(const as_call *call, as_error *e) { return vectorised<2>(call, e); }
