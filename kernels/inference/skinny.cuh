/* Y = X W^T for 2 to 16 tokens in bf16, from compute capability 8.0: the weights are read once for the whole batch.
 *
 * Bytes as for one token (gemv.cuh), plus the activations, which each block reads for itself: columns * batch elements
 * from L2, a third of the weights' bytes at batch 16 and 46 rows a block. The tensor cores do the sums: for the
 * ordinary cores 16 tokens would be 16 x 1.2 vectors of 8 a clock and multiprocessor, more than they have.
 *
 * Weights go from memory straight into the operands of mma.sync, 16 bytes a load: of 32 columns thread t of four takes
 * 8 t to 8 t + 7 and calls them columns 2t, 2t + 1, 2t + 8, 2t + 9 of two steps; the activations are permuted alike. A
 * tile is 8 pairs of rows: firsts are rows 0 to 7, seconds rows 8 to 15, so that one thread has both of a pair. Each
 * warp has every eighth chunk of 32 columns of all the block's rows, four chunks of activations at a time in registers,
 * and adds into sums of its own in shared memory; they meet at the end.
 *
 * Predicted for llama-8b on an H200: as one token's products at 0.9 of the limit, against cuBLASLt's 0.75 to 0.85. */
#pragma once

#include "epilogue.cuh"

enum { AS_SKINNY_THREADS = 256, AS_SKINNY_WARPS = 8, AS_SKINNY_CHUNKS = 4, AS_SKINNY_BATCH = 16 };

typedef struct as_skinny_plan {
    int blocks;
    int tiles; /* that a block sums at once */
    size_t shared_bytes;
} as_skinny_plan;

#if __CUDA_ARCH__ >= 800

/* Sums of `tiles` tiles from tile `first` on, into this warp's part of shared memory. */
template <int EPILOGUE, int COLUMNS> /* COLUMNS: of 8 tokens */
static __device__ __forceinline__ void as_skinny_sum(const as_product<as_bf16> &a, float4 *sums, int first, int tiles) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, pairs = a.rows / 2, at = lane % 4 * 8;
    const int chunks = a.columns / 32;
    for (int c0 = warp * AS_SKINNY_CHUNKS; c0 < chunks; c0 += AS_SKINNY_WARPS * AS_SKINNY_CHUNKS) {
        uint4 x[AS_SKINNY_CHUNKS][COLUMNS];
#pragma unroll
        for (int c = 0; c < AS_SKINNY_CHUNKS; c++)
#pragma unroll
            for (int n = 0; n < COLUMNS; n++) {
                const int token = 8 * n + lane / 4;
                x[c][n] = c0 + c < chunks && token < a.batch
                              ? *(const uint4 *)(a.in + (int64_t)token * a.columns + (c0 + c) * 32 + at)
                              : make_uint4(0, 0, 0, 0);
            }
        auto load = [&](uint4(&w)[AS_SKINNY_CHUNKS][2], int tile) {
            int row[2];
            const int p = tile * 8 + lane / 4;
            as_pair_rows<as_bf16, EPILOGUE>(a, p < pairs ? p : pairs - 1, row[0], row[1]);
#pragma unroll
            for (int c = 0; c < AS_SKINNY_CHUNKS; c++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    w[c][h] = c0 + c < chunks
                                  ? as_load_once(a.weights + (int64_t)row[h] * a.columns + (c0 + c) * 32 + at)
                                  : make_uint4(0, 0, 0, 0);
        };
        uint4 w[AS_SKINNY_CHUNKS][2];
        load(w, first);
        for (int tile = 0; tile < tiles; tile++) {
            uint4 next[AS_SKINNY_CHUNKS][2];
            if (tile + 1 < tiles)
                load(next, first + tile + 1);
#pragma unroll
            for (int n = 0; n < COLUMNS; n++) {
                float4 *const sum = sums + (((int64_t)warp * tiles + tile) * COLUMNS + n) * 32 + lane;
                float d[4] = {};
#pragma unroll
                for (int c = 0; c < AS_SKINNY_CHUNKS; c++) {
                    const uint32_t low[4] = {w[c][0].x, w[c][1].x, w[c][0].y, w[c][1].y};
                    const uint32_t high[4] = {w[c][0].z, w[c][1].z, w[c][0].w, w[c][1].w};
                    as_mma<AS_MM_BF16>(d, low, x[c][n].x, x[c][n].y);
                    as_mma<AS_MM_BF16>(d, high, x[c][n].z, x[c][n].w);
                }
                if (c0 != warp * AS_SKINNY_CHUNKS) {
                    const float4 before = *sum;
                    d[0] += before.x, d[1] += before.y, d[2] += before.z, d[3] += before.w;
                }
                *sum = make_float4(d[0], d[1], d[2], d[3]);
            }
#pragma unroll
            for (int c = 0; c < AS_SKINNY_CHUNKS; c++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    w[c][h] = next[c][h];
        }
    }
}

#endif

template <int EPILOGUE, int COLUMNS>
static __global__ void __launch_bounds__(AS_SKINNY_THREADS, 1)
    as_skinny_kernel(const __grid_constant__ as_product<as_bf16> a, const __grid_constant__ as_skinny_plan plan) {
#if __CUDA_ARCH__ >= 800
    float4 *const sums = (float4 *)as_shared();
    const int pairs = a.rows / 2, all = (pairs + 7) / 8,
              chunks = (a.columns / 32 + AS_SKINNY_CHUNKS - 1) / AS_SKINNY_CHUNKS,
              warps = chunks < AS_SKINNY_WARPS ? chunks : AS_SKINNY_WARPS; /* that have any */
    const int begin = (int)((int64_t)all * blockIdx.x / gridDim.x),
              end = (int)((int64_t)all * (blockIdx.x + 1) / gridDim.x);
    as_let_successor_start();
    as_wait_for_predecessor();
    for (int first = begin; first < end; first += plan.tiles) {
        const int tiles = min(plan.tiles, end - first);
        as_skinny_sum<EPILOGUE, COLUMNS>(a, sums, first, tiles);
        __syncthreads();
        /* A thread's four sums: pair lane / 4, tokens lane % 4 * 2 and the next; firsts, then seconds. */
        for (int i = (int)threadIdx.x; i < tiles * COLUMNS * 32; i += AS_SKINNY_THREADS) {
            float4 sum = sums[i];
            for (int w = 1; w < warps; w++) {
                const float4 v = sums[w * tiles * COLUMNS * 32 + i];
                sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
            }
            const int lane = i % 32, column = i / 32 % COLUMNS, p = (first + i / (32 * COLUMNS)) * 8 + lane / 4;
            const int token = column * 8 + lane % 4 * 2;
            if (p >= pairs)
                continue;
            if (token < a.batch)
                as_finish_pair<as_bf16, EPILOGUE>(a, token, p, sum.x, sum.z);
            if (token + 1 < a.batch)
                as_finish_pair<as_bf16, EPILOGUE>(a, token + 1, p, sum.y, sum.w);
        }
        __syncthreads();
    }
#endif
}

static inline as_skinny_plan as_skinny_plan_of(int rows, int batch, int multiprocessors, size_t most_shared) {
    const int tiles = (rows / 2 + 7) / 8, columns = (batch + 7) / 8;
    const size_t one = sizeof(float4) * 32 * (size_t)columns * AS_SKINNY_WARPS;
    as_skinny_plan p = {};
    p.blocks = tiles < multiprocessors ? tiles : multiprocessors;
    const int share = (tiles + p.blocks - 1) / p.blocks, most = (int)(most_shared / one);
    const int groups = (share + most - 1) / most;
    p.tiles = (share + groups - 1) / groups; /* equal groups */
    p.shared_bytes = one * (size_t)p.tiles;
    return p;
}
