/* y = W x for one token: the kernel that a decode step of batch 1 spends nine tenths of its time in.
 *
 * Bytes that cannot be avoided: rows * columns elements of W, once. At 4.5 TB/s (H200, read): llama-8b bf16 has QKV 50
 * MB 11.2 us, o 34 MB 7.5 us, gate and up 235 MB 52 us, down 117 MB 26 us, head 1.05 GB 233 us; llama-1b 12.6 MB 2.8
 * us, 8.4 MB 1.9 us, 67 MB 15 us, 34 MB 7.5 us, 525 MB 117 us. Arithmetic is a twentieth of what the multiprocessors
 * can do.
 *
 * To keep memory busy 4.5 TB/s * 0.7 us = 3.2 MB must be in flight, 24 KB on each of 132 multiprocessors. A thread has
 * 8 loads of 16 bytes in flight; 512 threads 64 KB.
 *
 * The columns are spread over a group of threads, each with the same few vectors of x for all rows, so x is read from
 * shared memory once for several rows. Rows, in pairs, are spread over blocks and groups so that none has more than one
 * pair more than another; the group's size is chosen so that this costs least (as_gemv_plan). The sums of a group's
 * warps meet in shared memory at the end: two barriers a kernel. In a stream of dependent launches the weights that a
 * block reads first are on their way to L2 before the kernel before has ended. */
#pragma once

#include "epilogue.cuh"

enum { AS_GEMV_THREADS = 512 };

typedef struct as_gemv_plan {
    int blocks;
    int group;    /* threads that share a row: a power of two from 32 to AS_GEMV_THREADS */
    int rounds;   /* vectors of a row a thread has, rounded up */
    int prefetch; /* bytes of weights a block asks for before it waits for the kernel before it */
    size_t shared_bytes;
} as_gemv_plan;

/* Pairs of block `block`: [first, last). */
static __host__ __device__ inline int as_gemv_first(int pairs, int block, int blocks) {
    return (int)((int64_t)pairs * block / blocks);
}

/* The block's first weights, about `bytes` of them, in pieces a row: from those threads whose row it is. */
template <typename T, int EPILOGUE>
static __device__ __forceinline__ void as_gemv_prefetch(const as_product<T> &a, int bytes, int block, int blocks) {
    const int row_bytes = a.columns * (int)sizeof(T), pairs = (a.rows + 1) / 2;
    const int first = as_gemv_first(pairs, block, blocks), last = as_gemv_first(pairs, block + 1, blocks);
    const int mine = first + (int)threadIdx.x / 2;
    if ((int)threadIdx.x * row_bytes >= bytes || mine >= last)
        return;
    int one, two;
    as_pair_rows<T, EPILOGUE>(a, mine, one, two);
    const int at = threadIdx.x % 2 ? two : one;
    if (at < a.rows)
        as_prefetch_l2(a.weights + (int64_t)at * a.columns, (unsigned)row_bytes);
}

/* This thread's weights of the norm before the product, which no other kernel writes: they may be read before the
 * kernel before this one has ended. Quads of four elements, AS_GEMV_THREADS apart. */
enum { AS_GEMV_QUADS = 4, AS_GEMV_NORMED = 4 * AS_GEMV_QUADS * AS_GEMV_THREADS }; /* columns that may be normalised */
template <typename T> struct as_gemv_norm {
    struct alignas(4 * sizeof(T)) quad {
        T element[4];
    };
    quad weight[AS_GEMV_QUADS];

    __device__ __forceinline__ as_gemv_norm(const as_product<T> &a) {
#pragma unroll
        for (int j = 0; j < AS_GEMV_QUADS; j++) {
            const int i = (int)threadIdx.x + j * AS_GEMV_THREADS;
            if (a.stream && 4 * i < a.columns)
                weight[j] = ((const quad *)a.norm)[i];
        }
    }
};

/* x as floats in shared memory, normalised where the product asks for it. */
template <typename T>
static __device__ __forceinline__ void as_gemv_load(const as_product<T> &a, const as_gemv_norm<T> &norm, float *x,
                                                    float *scratch) {
    constexpr int V = as_number<T>::vector;
    if (a.stream) {
        float4 v[AS_GEMV_QUADS];
        float squares = 0;
#pragma unroll
        for (int j = 0; j < AS_GEMV_QUADS; j++) {
            const int i = (int)threadIdx.x + j * AS_GEMV_THREADS;
            v[j] = 4 * i < a.columns ? ((const float4 *)a.stream)[i] : make_float4(0, 0, 0, 0);
            squares += v[j].x * v[j].x + v[j].y * v[j].y + v[j].z * v[j].z + v[j].w * v[j].w;
        }
        const float factor = rsqrtf(as_block_sum(squares, scratch) / (float)a.columns + a.epsilon);
#pragma unroll
        for (int j = 0; j < AS_GEMV_QUADS; j++) {
            const int i = (int)threadIdx.x + j * AS_GEMV_THREADS;
            const T *const w = norm.weight[j].element;
            if (4 * i < a.columns)
                ((float4 *)x)[i] = make_float4(
                    v[j].x * factor * as_number<T>::load(w), v[j].y * factor * as_number<T>::load(w + 1),
                    v[j].z * factor * as_number<T>::load(w + 2), v[j].w * factor * as_number<T>::load(w + 3));
        }
    } else {
        for (int i = (int)threadIdx.x; i < a.columns / V; i += AS_GEMV_THREADS) {
            float v[V];
            as_number<T>::unpack(((const uint4 *)a.in)[i], v);
#pragma unroll
            for (int j = 0; j < V; j += 4)
                *(float4 *)(x + i * V + j) = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
        }
    }
    __syncthreads();
}

/* sum[r] of the warp's lanes for ROWS rows: after it, lane l holds the sum of row as_row_of_lane<ROWS>(l) in sum[0]. */
template <int ROWS> static __device__ __forceinline__ void as_reduce_rows(float (&sum)[ROWS], int lane) {
    int mask = 16;
#pragma unroll
    for (int n = ROWS / 2; n; n /= 2, mask /= 2) {
        const bool upper = lane & mask;
#pragma unroll
        for (int i = 0; i < n; i++) {
            const float send = upper ? sum[i] : sum[i + n], keep = upper ? sum[i + n] : sum[i];
            sum[i] = keep + __shfl_xor_sync(~0u, send, mask);
        }
    }
#pragma unroll
    for (; mask; mask /= 2)
        sum[0] += __shfl_xor_sync(~0u, sum[0], mask);
}
template <int ROWS> static __device__ __forceinline__ int as_row_of_lane(int lane) {
    int row = 0, mask = 16;
#pragma unroll
    for (int n = ROWS / 2; n; n /= 2, mask /= 2)
        row += lane & mask ? n : 0;
    return row;
}

/* Sums of this block's rows into sums[2 * (pair - first) + which][warp of the group]. ROWS rows at a time (pairs, one
 * after another), VECTORS vectors of each in flight. */
template <typename T, int EPILOGUE, int ROWS, int VECTORS>
static __device__ __forceinline__ void as_gemv_rows(const as_product<T> &a, const as_gemv_plan &plan, const float *x,
                                                    float *sums, int first, int last) {
    constexpr int V = as_number<T>::vector;
    const int vectors = a.columns / V, group = plan.group, groups = AS_GEMV_THREADS / group;
    const int at = (int)threadIdx.x % group, mine = (int)threadIdx.x / group, lane = (int)threadIdx.x % 32;
    const int warp = at / 32, warps = group / 32, step = groups * (ROWS / 2);
    for (int p = first + mine * (ROWS / 2); p < last; p += step) {
        const uint4 *row[ROWS];
        float sum[ROWS] = {};
#pragma unroll
        for (int r = 0; r < ROWS; r += 2) {
            int one, two;
            as_pair_rows<T, EPILOGUE>(a, p + r / 2 < last ? p + r / 2 : p, one, two);
            row[r] = (const uint4 *)(a.weights + (int64_t)one * a.columns);
            row[r + 1] = (const uint4 *)(a.weights + (int64_t)(two < a.rows ? two : one) * a.columns);
        }
        for (int j = 0; j < plan.rounds; j += VECTORS) {
            uint4 w[VECTORS][ROWS];
#pragma unroll
            for (int v = 0; v < VECTORS; v++)
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const int i = at + (j + v) * group;
                    w[v][r] = i < vectors && p + r / 2 < last ? as_load_once(row[r] + i) : make_uint4(0, 0, 0, 0);
                }
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                const int i = at + (j + v) * group;
                float y[V];
#pragma unroll
                for (int k = 0; k < V; k += 4) {
                    const float4 four = i < vectors ? *(const float4 *)(x + i * V + k) : make_float4(0, 0, 0, 0);
                    y[k] = four.x, y[k + 1] = four.y, y[k + 2] = four.z, y[k + 3] = four.w;
                }
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    float u[V];
                    as_number<T>::unpack(w[v][r], u);
#pragma unroll
                    for (int k = 0; k < V; k++)
                        sum[r] += u[k] * y[k];
                }
            }
        }
        as_reduce_rows<ROWS>(sum, lane);
        const int r = as_row_of_lane<ROWS>(lane);
        if (lane % (32 / ROWS) == 0 && p + r / 2 < last)
            sums[(2 * (p - first) + r) * warps + warp] = sum[0];
    }
}

/* All that block `block` of `blocks` does. Shared memory: 36 floats, x, the sums. */
template <typename T, int EPILOGUE>
static __device__ __forceinline__ void as_gemv_block(const as_product<T> &a, const as_gemv_norm<T> &norm,
                                                     const as_gemv_plan &plan, int block, int blocks) {
    float *const scratch = (float *)as_shared(), *const x = scratch + 36, *const sums = x + a.columns;
    const int pairs = (a.rows + 1) / 2;
    const int first = as_gemv_first(pairs, block, blocks), last = as_gemv_first(pairs, block + 1, blocks);
    as_gemv_load(a, norm, x, scratch);
    if (plan.rounds == 1)
        as_gemv_rows<T, EPILOGUE, 8, 1>(a, plan, x, sums, first, last);
    else if (plan.rounds == 2)
        as_gemv_rows<T, EPILOGUE, 4, 2>(a, plan, x, sums, first, last);
    else
        as_gemv_rows<T, EPILOGUE, 2, 4>(a, plan, x, sums, first, last);
    __syncthreads();
    const int warps = plan.group / 32;
    for (int p = (int)threadIdx.x; p < last - first; p += AS_GEMV_THREADS) {
        float u = 0, v = 0;
        for (int w = 0; w < warps; w++) {
            u += sums[2 * p * warps + w];
            v += sums[(2 * p + 1) * warps + w];
        }
        as_finish_pair<T, EPILOGUE>(a, 0, first + p, u, v);
    }
}

template <typename T, int EPILOGUE>
static __global__ void __launch_bounds__(AS_GEMV_THREADS, 2)
    as_gemv_kernel(const __grid_constant__ as_product<T> a, const __grid_constant__ as_gemv_plan plan) {
    as_let_successor_start();
    as_gemv_prefetch<T, EPILOGUE>(a, plan.prefetch, (int)blockIdx.x, (int)gridDim.x);
    const as_gemv_norm<T> norm(a);
    as_wait_for_predecessor();
    as_gemv_block<T, EPILOGUE>(a, norm, plan, (int)blockIdx.x, (int)gridDim.x);
}

/* The group whose shares are most even; of equal ones the smallest, which meets in fewest sums. `blocks` is what the
 * device holds at once. Groups of more than a row's vectors have idle threads. */
template <typename T> static as_gemv_plan as_gemv_plan_of(int rows, int columns, int blocks, int prefetch) {
    const int pairs = (rows + 1) / 2, vectors = columns / as_number<T>::vector;
    as_gemv_plan best = {};
    double most = 0;
    best.blocks = blocks < pairs ? blocks : pairs;
    const int share = (pairs + best.blocks - 1) / best.blocks;
    for (int group = 32; group <= AS_GEMV_THREADS; group *= 2) {
        const int rounds = (vectors + group - 1) / group, groups = AS_GEMV_THREADS / group;
        const int together = rounds == 1 ? 4 : rounds == 2 ? 2 : 1; /* pairs that a group takes at once */
        const int turns = (share + groups * together - 1) / (groups * together);
        const int steps = rounds <= 2 ? rounds : (rounds + 3) / 4 * 4;
        /* Of the loads that the block's threads have time for, the share that is needed. */
        const double used = (double)pairs / best.blocks * vectors / ((double)turns * together * groups * steps * group);
        if (used > 1.02 * most) {
            most = used;
            best.group = group;
            best.rounds = rounds;
        }
    }
    best.prefetch = prefetch;
    best.shared_bytes = sizeof(float) * (36 + (size_t)columns + 2 * (size_t)share * (size_t)(best.group / 32));
    return best;
}
