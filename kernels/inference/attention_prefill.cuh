/* Causal attention of many tokens over themselves, without the matrix of scores in memory (Dao et al., FlashAttention,
 * 2022, and FlashAttention-2, 2023: the idea; the code is ours).
 *
 * Work: 2 heads head_dim T (T + 1) operations for T tokens; bytes: queries, keys, values and output once, which only
 * short prompts notice: 512 tokens of llama-8b are 4.3 GFLOP a layer, 7 us at 600 TFLOP/s. mma.sync reaches 0.62 of
 * Hopper's matrix rate, and softmax takes its share of issue slots: predicted 300 to 350 TFLOP/s for 32 heads x 128 at
 * 16384, as FlashAttention-2 does there (336); what is beyond needs wgmma.
 *
 *   as_prefill_kernel   bf16, head_dim 64 and 128, from compute capability 8.0: 128 queries a block, 16 a warp, kept in
 *                       registers with their sums; keys and values pass through shared memory in tiles of 64, the next
 *                       one of each under way while one is used. Rows' 16-byte pieces are exchanged by the row's number
 *                       (piece ^ row mod 8), so that neither copies nor ldmatrix meet a bank twice. Blocks with most
 *                       tiles come first.
 *   as_prefill_simple_kernel  everything else: a warp a query, a position at a time. */
#pragma once

#include "issue.cuh"
#include "numbers.cuh"

enum {
    AS_PREFILL_KEYS = 64,
    AS_PREFILL_WARPS = 8, /* of as_prefill_kernel, 16 queries each; 4 are another way (suite attention, axis config) */
    AS_PREFILL_SIMPLE_THREADS = 256,
};

template <typename T> struct as_prefill {
    const T *queries;       /* [batch][prompt][heads][head_dim], rotated */
    const T *keys, *values; /* [batch][kv_heads][capacity][head_dim], positions 0 to prompt - 1 */
    int64_t capacity;
    int prompt, heads, kv_heads, head_dim;
    T *out; /* as queries */
};

template <int HEAD_DIM> static constexpr size_t as_prefill_shared_bytes() {
    return (size_t)4 * AS_PREFILL_KEYS * HEAD_DIM * sizeof(as_bf16); /* two tiles of keys, two of values */
}

#if __CUDA_ARCH__ >= 800

template <int HEAD_DIM, int WARPS> struct as_prefill_block {
    static constexpr int steps = HEAD_DIM / 16, pieces = HEAD_DIM / 8, row_bytes = HEAD_DIM * 2;
    static constexpr int tile_bytes = AS_PREFILL_KEYS * row_bytes, columns = AS_PREFILL_KEYS / 8;
    const as_prefill<as_bf16> &a;
    const as_bf16 *keys, *values;
    uint32_t shared;
    int lane, query; /* this warp's first */
    uint32_t q[steps][4];
    float sum[HEAD_DIM / 8][4], most[2], total[2]; /* rows lane / 4 and lane / 4 + 8 */

    __device__ __forceinline__ as_prefill_block(const as_prefill<as_bf16> &a, int first, int head, int batch)
        : a(a), shared(as_shared_offset(as_shared())), lane((int)threadIdx.x % 32),
          query(first + (int)threadIdx.x / 32 * 16) {
        const int64_t at = (int64_t)batch * a.kv_heads + head / (a.heads / a.kv_heads);
        keys = a.keys + at * a.capacity * HEAD_DIM;
        values = a.values + at * a.capacity * HEAD_DIM;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = query + lane / 4 + 8 * h;
            const uint32_t *const from =
                (const uint32_t *)(a.queries + (((int64_t)batch * a.prompt + row) * a.heads + head) * HEAD_DIM);
#pragma unroll
            for (int k = 0; k < steps; k++) {
                q[k][h] = row < a.prompt ? from[k * 8 + lane % 4] : 0;
                q[k][h + 2] = row < a.prompt ? from[k * 8 + lane % 4 + 4] : 0;
            }
            most[h] = -INFINITY;
            total[h] = 0;
        }
#pragma unroll
        for (int n = 0; n < HEAD_DIM / 8; n++)
            sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
    }
    /* Tile `tile` of keys or values into slot 0 to 3; positions past the prompt arrive as zeros. One group of copies.
     * */
    __device__ __forceinline__ void copy(const as_bf16 *from, int tile, int tiles, int slot) const {
        if (tile < tiles)
#pragma unroll
            for (int i = 0; i < AS_PREFILL_KEYS * pieces; i += 32 * WARPS) {
                const int piece = (i + (int)threadIdx.x) % pieces, row = (i + (int)threadIdx.x) / pieces;
                const int position = tile * AS_PREFILL_KEYS + row;
                as_copy16(shared + slot * tile_bytes + row * row_bytes + ((piece ^ (row & 7)) << 4),
                          from + (int64_t)min(position, a.prompt - 1) * HEAD_DIM + piece * 8, position < a.prompt);
            }
        as_copies_commit();
    }
    __device__ __forceinline__ void multiply_keys(float (&score)[columns][4], int slot) const {
        const uint32_t tile = shared + slot * tile_bytes;
#pragma unroll
        for (int n = 0; n < columns; n++)
            score[n][0] = score[n][1] = score[n][2] = score[n][3] = 0;
#pragma unroll
        for (int k = 0; k < steps; k++)
#pragma unroll
            for (int n = 0; n < columns; n += 2) {
                uint32_t b[4];
                const int row = n * 8 + lane / 16 * 8 + lane % 8, piece = k * 2 + lane / 8 % 2;
                as_ldmatrix4(b, tile + row * row_bytes + ((piece ^ (row & 7)) << 4));
                as_mma<AS_MM_BF16>(score[n], q[k], b[0], b[1]);
                as_mma<AS_MM_BF16>(score[n + 1], q[k], b[2], b[3]);
            }
    }
    /* Scores to weights; sums so far shrink to the new largest score. */
    __device__ __forceinline__ void weigh(float (&score)[columns][4], int first, float scale) {
        if (first + AS_PREFILL_KEYS - 1 > query) /* some position is later than some query */
#pragma unroll
            for (int n = 0; n < columns; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (first + n * 8 + lane % 4 * 2 + i % 2 > query + lane / 4 + i / 2 * 8)
                        score[n][i] = -INFINITY;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float now = most[h];
#pragma unroll
            for (int n = 0; n < columns; n++)
                now = fmaxf(now, fmaxf(score[n][2 * h], score[n][2 * h + 1]));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            const float shift = now == -INFINITY ? 0 : now * scale; /* a tile wholly later than this query */
            const float old = as_exp2(most[h] * scale - shift);
            most[h] = now;
            float here = 0;
#pragma unroll
            for (int n = 0; n < columns; n++)
#pragma unroll
                for (int i = 2 * h; i < 2 * h + 2; i++) {
                    score[n][i] = as_exp2(score[n][i] * scale - shift);
                    here += score[n][i];
                }
            total[h] = total[h] * old + here; /* of this thread's positions */
#pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; n++)
                sum[n][2 * h] *= old, sum[n][2 * h + 1] *= old;
        }
    }
    __device__ __forceinline__ void multiply_values(const float (&weight)[columns][4], int slot) {
        const uint32_t tile = shared + slot * tile_bytes;
#pragma unroll
        for (int k = 0; k < columns / 2; k++) {
            const float(*const w)[4] = &weight[2 * k];
            const uint32_t p[4] = {as_pack_bf16(w[0][0], w[0][1]), as_pack_bf16(w[0][2], w[0][3]),
                                   as_pack_bf16(w[1][0], w[1][1]), as_pack_bf16(w[1][2], w[1][3])};
#pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; n += 2) {
                uint32_t b[4];
                const int row = k * 16 + lane / 8 % 2 * 8 + lane % 8, piece = n + lane / 16;
                as_ldmatrix4_transposed(b, tile + row * row_bytes + ((piece ^ (row & 7)) << 4));
                as_mma<AS_MM_BF16>(sum[n], p, b[0], b[1]);
                as_mma<AS_MM_BF16>(sum[n + 1], p, b[2], b[3]);
            }
        }
    }
    __device__ __forceinline__ void store(int head, int batch) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = query + lane / 4 + 8 * h;
            float all = total[h];
            all += __shfl_xor_sync(~0u, all, 1);
            all += __shfl_xor_sync(~0u, all, 2);
            uint32_t *const to = (uint32_t *)(a.out + (((int64_t)batch * a.prompt + row) * a.heads + head) * HEAD_DIM);
            if (row >= a.prompt)
                continue;
#pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; n++)
                to[n * 4 + lane % 4] = as_pack_bf16(sum[n][2 * h] / all, sum[n][2 * h + 1] / all);
        }
    }
};

#endif

/* Grid: blocks of 16 WARPS queries, heads, batch. */
template <int HEAD_DIM, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS, 8 / WARPS)
    as_prefill_kernel(const __grid_constant__ as_prefill<as_bf16> a) {
#if __CUDA_ARCH__ >= 800
    as_let_successor_start();
    as_wait_for_predecessor();
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * 16 * WARPS;
    const int end = min(first + 16 * WARPS, a.prompt), tiles = (end + AS_PREFILL_KEYS - 1) / AS_PREFILL_KEYS;
    const float scale = 1.44269504f * rsqrtf((float)HEAD_DIM);
    as_prefill_block<HEAD_DIM, WARPS> b(a, first, (int)blockIdx.y, (int)blockIdx.z);
    b.copy(b.keys, 0, tiles, 0);
    b.copy(b.values, 0, tiles, 2);
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        float score[AS_PREFILL_KEYS / 8][4];
        as_copies_wait<1>();
        __syncthreads(); /* these keys are here for all, and the last ones are done with */
        b.copy(b.keys, tile + 1, tiles, (tile + 1) % 2);
        b.multiply_keys(score, tile % 2);
        b.weigh(score, tile * AS_PREFILL_KEYS, scale);
        as_copies_wait<1>();
        __syncthreads();
        b.copy(b.values, tile + 1, tiles, 2 + (tile + 1) % 2);
        b.multiply_values(score, 2 + tile % 2);
    }
    b.store((int)blockIdx.y, (int)blockIdx.z);
#endif
}

template <int HEAD_DIM, int WARPS>
static as_status as_prefill_issue(const as_prefill<as_bf16> &a, int64_t batch, const as_issue &how, as_error *e) {
    const dim3 grid((unsigned)((a.prompt + 16 * WARPS - 1) / (16 * WARPS)), (unsigned)a.heads, (unsigned)batch);
    return as_issue_kernel<as_prefill_kernel<HEAD_DIM, WARPS>>(how, grid, 32 * WARPS,
                                                               as_prefill_shared_bytes<HEAD_DIM>(), e, a);
}

/* Grid: tokens of all rows, heads in groups of the block's warps. */
template <typename T>
static __global__ void __launch_bounds__(AS_PREFILL_SIMPLE_THREADS)
    as_prefill_simple_kernel(const __grid_constant__ as_prefill<T> a) {
    enum { MOST = 4 }; /* elements of a head a thread has: head_dim up to 128 */
    as_let_successor_start();
    as_wait_for_predecessor();
    const int head = (int)blockIdx.y * (AS_PREFILL_SIMPLE_THREADS / 32) + (int)threadIdx.x / 32,
              lane = (int)threadIdx.x % 32;
    const int t = (int)blockIdx.x % a.prompt;
    if (head >= a.heads)
        return;
    const int64_t row = (int64_t)blockIdx.x * a.heads + head;
    const int64_t at = (int64_t)(blockIdx.x / a.prompt) * a.kv_heads + head / (a.heads / a.kv_heads);
    const float scale = 1.44269504f * rsqrtf((float)a.head_dim);
    float q[MOST], sum[MOST] = {}, most = -INFINITY, total = 0;
#pragma unroll
    for (int k = 0; k < MOST; k++)
        q[k] =
            lane + 32 * k < a.head_dim ? scale * as_number<T>::load(a.queries + row * a.head_dim + lane + 32 * k) : 0;
    for (int p = 0; p <= t; p++) {
        const int64_t entry = (at * a.capacity + p) * a.head_dim + lane;
        float score = 0;
#pragma unroll
        for (int k = 0; k < MOST; k++)
            score += lane + 32 * k < a.head_dim ? q[k] * as_number<T>::load(a.keys + entry + 32 * k) : 0;
        score = as_warp_sum(score);
        const float now = fmaxf(most, score), old = as_exp2(most - now), weight = as_exp2(score - now);
        most = now;
        total = total * old + weight;
#pragma unroll
        for (int k = 0; k < MOST; k++)
            if (lane + 32 * k < a.head_dim)
                sum[k] = sum[k] * old + weight * as_number<T>::load(a.values + entry + 32 * k);
    }
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (lane + 32 * k < a.head_dim)
            as_number<T>::store(a.out + row * a.head_dim + lane + 32 * k, sum[k] / total);
}

template <typename T>
static as_status as_prefill_issue_simple(const as_prefill<T> &a, int64_t batch, const as_issue &how, as_error *e) {
    enum { WARPS = AS_PREFILL_SIMPLE_THREADS / 32 };
    const dim3 grid((unsigned)(batch * a.prompt), (unsigned)((a.heads + WARPS - 1) / WARPS));
    return as_issue_kernel<as_prefill_simple_kernel<T>>(how, grid, AS_PREFILL_SIMPLE_THREADS, 0, e, a);
}
