/* Decode attention by tensor cores; attention_decode.cuh says how. */
#pragma once

#include "attention_decode.cuh"

#if __CUDA_ARCH__ >= 800

template <int HEAD_DIM> struct as_attention_tile {
    static constexpr int chunks = HEAD_DIM / 32; /* of 32 elements: 4 threads x 16 bytes */
    static constexpr int halves = HEAD_DIM / 64,
                         blocks = HEAD_DIM / 16; /* of values: 64 elements; 16 rows of the sums */
    uint32_t q[chunks][4];                       /* head lane / 4: elements 32 c + 8 (lane % 4) and on */
    float sum[blocks][4];                        /* [2 h + i]: element as_element(block, h) of head lane % 4 * 2 + i */
    float most, total;                           /* of head lane / 4 */
    uint4 key[2][chunks], value[4][halves];
    int lane;

    static __device__ __forceinline__ int element(int lane, int block, int h) {
        return HEAD_DIM == 128 ? 64 * h + lane / 4 * 8 + block : lane / 4 * 8 + 4 * h + block;
    }

    __device__ __forceinline__ void begin(const as_bf16 *queries, int group) {
        lane = (int)threadIdx.x % 32;
        const int head = lane / 4;
#pragma unroll
        for (int c = 0; c < chunks; c++) {
            const uint4 v = head < group ? *(const uint4 *)(queries + head * HEAD_DIM + 32 * c + lane % 4 * 8)
                                         : make_uint4(0, 0, 0, 0);
            q[c][0] = v.x, q[c][1] = v.y, q[c][2] = v.z, q[c][3] = v.w;
        }
#pragma unroll
        for (int b = 0; b < blocks; b++)
            sum[b][0] = sum[b][1] = sum[b][2] = sum[b][3] = 0;
        most = -INFINITY;
        total = 0;
    }
    /* Keys and values of positions `first` to first + 15; those past the end repeat the last. */
    __device__ __forceinline__ void load(const as_bf16 *keys, const as_bf16 *values, int first, int count) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int p = min(first + 8 * j + lane / 4, count - 1);
#pragma unroll
            for (int c = 0; c < chunks; c++)
                key[j][c] = as_load_fresh(keys + (int64_t)p * HEAD_DIM + 32 * c + lane % 4 * 8);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int p = min(first + lane % 4 * 2 + j % 2 + j / 2 * 8, count - 1);
#pragma unroll
            for (int h = 0; h < halves; h++)
                value[j][h] = as_load_fresh(values + (int64_t)p * HEAD_DIM + 64 * h + lane / 4 * 8);
        }
    }
    static __device__ __forceinline__ uint32_t word(const uint4 &v, int i) {
        return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
    }
    /* Element i of both as one word: the first's in the low half. */
    static __device__ __forceinline__ uint32_t both(const uint4 &first, const uint4 &second, int i) {
        return __byte_perm(word(first, i / 2), word(second, i / 2), i % 2 ? 0x7632 : 0x5410);
    }
    __device__ __forceinline__ void multiply(int first, int count, float scale) {
        float score[2][4] = {};
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int c = 0; c < chunks; c++) {
                const uint32_t low[4] = {q[c][0], 0, q[c][1], 0}, high[4] = {q[c][2], 0, q[c][3], 0};
                as_mma<AS_MM_BF16>(score[j], low, key[j][c].x, key[j][c].y);
                as_mma<AS_MM_BF16>(score[j], high, key[j][c].z, key[j][c].w);
            }
        float now = most;
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const bool there = first + 8 * j + lane % 4 * 2 + i < count;
                score[j][i] = there ? score[j][i] * scale : -INFINITY;
                now = fmaxf(now, score[j][i]);
            }
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 2)); /* of head lane / 4; position `first` is there, so finite */
        const float old = as_exp2(most - now);
        most = now;
        uint32_t weight[2];
        float here = 0;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float u = as_exp2(score[j][0] - now), v = as_exp2(score[j][1] - now);
            weight[j] = as_pack_bf16(u, v);
            here += u + v;
        }
        total = total * old + here; /* of this thread's positions */
        const float even = __shfl_sync(~0u, old, lane % 4 * 8), odd = __shfl_sync(~0u, old, lane % 4 * 8 + 4);
#pragma unroll
        for (int b = 0; b < blocks; b++) {
            sum[b][0] *= even, sum[b][1] *= odd, sum[b][2] *= even, sum[b][3] *= odd;
            /* Rows of the sums: as_element(b, 0) for lane / 4, as_element(b, 1) for lane / 4 + 8. */
            const int h = HEAD_DIM == 128 ? 1 : 0, i = b, k = HEAD_DIM == 128 ? b : b + 4;
            const uint32_t v[4] = {both(value[0][0], value[1][0], i), both(value[0][h], value[1][h], k),
                                   both(value[2][0], value[3][0], i), both(value[2][h], value[3][h], k)};
            as_mma<AS_MM_BF16>(sum[b], v, weight[0], weight[1]);
        }
    }
    template <int WARPS>
    __device__ __forceinline__ void leave(const as_attention_shared<WARPS> &s, int warp, int group) {
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (lane % 4 == 0) {
            s.most[warp * AS_ATTENTION_GROUP + lane / 4] = most;
            s.sum[warp * AS_ATTENTION_GROUP + lane / 4] = total;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int head = lane % 4 * 2 + i;
            if (head >= group)
                continue;
#pragma unroll
            for (int b = 0; b < blocks; b++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    s.row(warp, head)[element(lane, b, h)] = sum[b][2 * h + i];
        }
    }
};

template <int HEAD_DIM, int WARPS>
static __device__ __forceinline__ void as_attention_tiles(const as_attention<as_bf16> &a, int64_t at, int split,
                                                          const as_attention_shared<WARPS> &s) {
    const int group = a.heads / a.kv_heads, count = *a.position + 1, warp = (int)threadIdx.x / 32;
    const float scale = as_score_scale(HEAD_DIM);
    as_attention_tile<HEAD_DIM> t;
    int first, last;
    t.begin(a.queries + at * group * HEAD_DIM, group);
    as_attention_share(count, split, a.splits, first, last);
    const as_bf16 *const keys = a.keys + at * a.capacity * HEAD_DIM, *const values =
                                                                         a.values + at * a.capacity * HEAD_DIM;
    for (int tile = first + warp; tile < last; tile += WARPS) {
        t.load(keys, values, tile * AS_ATTENTION_TILE, count);
        t.multiply(tile * AS_ATTENTION_TILE, count, scale);
    }
    t.leave(s, warp, group);
}

#endif

/* One row, kv head and split. HEAD_DIM 64 or 128: by tensor cores; 0: any. */
template <typename T, int HEAD_DIM, int WARPS>
static __device__ __forceinline__ void as_attention_item(const as_attention<T> &a, int64_t at, int split) {
    const as_attention_shared<WARPS> s(a.head_dim);
#if __CUDA_ARCH__ >= 800
    if constexpr (HEAD_DIM != 0)
        as_attention_tiles<HEAD_DIM, WARPS>(a, at, split, s);
    else
#endif
        as_attention_simple<T, WARPS>(a, at, split, s);
    as_attention_leave<T, WARPS>(a, at, split, s);
}

/* Grid: splits, batch * kv_heads. */
template <typename T, int HEAD_DIM>
static __global__ void __launch_bounds__(32 * AS_ATTENTION_WARPS, 2)
    as_attention_kernel(const __grid_constant__ as_attention<T> a) {
    as_let_successor_start();
    as_wait_for_predecessor();
    as_attention_item<T, HEAD_DIM, AS_ATTENTION_WARPS>(a, (int64_t)blockIdx.y, (int)blockIdx.x);
}

/* Grid: batch * kv_heads. */
template <typename T>
static __global__ void __launch_bounds__(32 * AS_ATTENTION_WARPS, 2)
    as_attention_join_kernel(const __grid_constant__ as_attention<T> a) {
    as_let_successor_start();
    as_wait_for_predecessor();
    as_attention_join<T, AS_ATTENTION_WARPS>(a, (int64_t)blockIdx.x);
}
