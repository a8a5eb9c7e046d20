/* Attention of one new token over all earlier ones: for each row of the batch and kv head, `group` query heads share
 * one read of the keys and values.
 *
 * Bytes that cannot be avoided: 2 (n + 1) head_dim elements for each row and kv head. Llama-8b, bf16: 4096 bytes a
 * token and layer; context 512 takes 0.5 us at 4.5 TB/s, 65536 60 us, batch 16 x 8192 119 us. So short contexts cost
 * the latency of a kernel, long ones bandwidth.
 *
 * The positions are split over blocks, in tiles of 16, so that the whole GPU reads even at batch 1; a block leaves for
 * each head its largest score, its sum and its weighted values, and the block that comes last of those of one kv head
 * joins them (or a kernel of its own does: rung eager). The number of blocks is fixed when the step is captured; the
 * position is read from the device, and blocks whose share is empty leave a sum of 0.
 *
 *   as_attention_tiles   bf16, head_dim 64 and 128, from compute capability 8.0: products by mma.sync. Keys go from
 *                        memory into registers as they lie, 16 bytes a load: within 32 elements thread t of four takes
 *                        elements 8 t to 8 t + 7 and calls them columns 2t, 2t + 1, 2t + 8, 2t + 9 of two steps; the
 *                        queries are permuted alike, and a sum knows no order. Scores [head][position] come out as the
 *                        operand that the product with the values wants. Values are [position][element] where the
 *                        tensor core wants pairs of positions: two loads and eight byte permutations make them.
 *   as_attention_simple  everything else: a warp takes a position at a time. */
#pragma once

#include "numbers.cuh"

enum {
    AS_ATTENTION_WARPS = 6,      /* of a block; persistent.cu has more */
    AS_ATTENTION_TILE = 16,      /* positions */
    AS_ATTENTION_GROUP = 8,      /* most query heads of a kv head */
    AS_ATTENTION_HEAD_DIM = 128, /* most elements of a head */
};

template <typename T> struct as_attention {
    const T *queries;       /* [batch][heads][head_dim], rotated */
    const T *keys, *values; /* [batch][kv_heads][capacity][head_dim] */
    int64_t capacity;
    const int *position; /* of the new token, whose entry is there: positions 0 to *position */
    int batch, heads, kv_heads, head_dim, splits;
    float *partial;    /* [batch][kv_heads][splits][group][head_dim], divided by nothing */
    float2 *state;     /* [batch][kv_heads][splits][group]: largest score times log2 e / sqrt(head_dim), sum */
    unsigned *arrived; /* [batch][kv_heads], 0 between steps; NULL: another kernel joins */
    T *out;            /* [batch][heads][head_dim] */
};

/* Scores are in powers of two: log2 e / sqrt(head_dim) times the product. */
static __device__ __forceinline__ float as_score_scale(int head_dim) { return 1.44269504f * rsqrtf((float)head_dim); }

/* Joins the splits of one row and kv head; all threads of a block. Shared memory: a float4 a thread, splits * group
 * floats. Each warp weighs the splits of a head; then each thread adds four neighbouring elements
 * over every parts-th split. */
template <typename T, int WARPS> static __device__ void as_attention_join(const as_attention<T> &a, int64_t at) {
    const int group = a.heads / a.kv_heads, count = a.splits * group, lane = (int)threadIdx.x % 32;
    const int quads = group * a.head_dim / 4;
    float4 *const part = (float4 *)as_shared();
    float *const weight = (float *)(part + WARPS * 32);
    const float2 *const state = a.state + at * count;
    for (int g = (int)threadIdx.x / 32; g < group; g += WARPS) {
        float most = -INFINITY, sum = 0;
        for (int s = lane; s < a.splits; s += 32)
            most = fmaxf(most, __ldcg(&state[s * group + g]).x);
        most = as_warp_max(most);
        for (int s = lane; s < a.splits; s += 32) {
            const float2 one = __ldcg(&state[s * group + g]);
            weight[s * group + g] = one.y > 0 ? as_exp2(one.x - most) : 0;
            sum += one.y * weight[s * group + g];
        }
        const float factor = 1 / as_warp_sum(sum);
        for (int s = lane; s < a.splits; s += 32)
            weight[s * group + g] *= factor;
    }
    __syncthreads();
    const float4 *const partial = (const float4 *)(a.partial + at * count * a.head_dim);
    const int parts = quads < WARPS * 32 ? WARPS * 32 / quads : 1;
    for (int first = 0; first < quads; first += WARPS * 32) {
        const int i = parts > 1 ? (int)threadIdx.x % quads : first + (int)threadIdx.x, mine = (int)threadIdx.x / quads;
        float4 sum = make_float4(0, 0, 0, 0);
        if (i < quads && (parts == 1 || mine < parts)) {
            const int g = 4 * i / a.head_dim;
#pragma unroll 8
            for (int s = parts > 1 ? mine : 0; s < a.splits; s += parts) {
                const float4 v = __ldcg(partial + (int64_t)s * quads + i);
                const float w = weight[s * group + g];
                sum.x += w * v.x, sum.y += w * v.y, sum.z += w * v.z, sum.w += w * v.w;
            }
        }
        part[threadIdx.x] = sum;
        __syncthreads();
        if ((int)threadIdx.x < quads && i < quads) {
            for (int p = 1; p < parts; p++) {
                const float4 v = part[p * quads + i];
                sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
            }
            T *const to = a.out + (at * quads + i) * 4;
            as_number<T>::store(to, sum.x), as_number<T>::store(to + 1, sum.y);
            as_number<T>::store(to + 2, sum.z), as_number<T>::store(to + 3, sum.w);
        }
        __syncthreads();
    }
}

/* What a warp has of its positions, in shared memory: weighted values [group][head_dim], largest score and sum. */
template <int WARPS> struct as_attention_shared {
    float *values, *most, *sum;
    int head_dim;
    __device__ __forceinline__ as_attention_shared(int head_dim) : head_dim(head_dim) {
        most = (float *)as_shared();
        sum = most + WARPS * AS_ATTENTION_GROUP;
        values = sum + WARPS * AS_ATTENTION_GROUP;
    }
    __device__ __forceinline__ float *row(int warp, int g) const {
        return values + (warp * AS_ATTENTION_GROUP + g) * head_dim;
    }
};
static inline size_t as_attention_shared_bytes(int head_dim, int splits, int warps) {
    const size_t own = sizeof(float) * (size_t)warps * AS_ATTENTION_GROUP * (size_t)(2 + head_dim);
    const size_t join = sizeof(float) * ((size_t)splits * AS_ATTENTION_GROUP + 4 * 32 * (size_t)warps);
    return own > join ? own : join;
}

/* As many splits of `count` positions as fill `slots` blocks of `warps` warps, each with a tile for every warp at
 * least. */
static inline int as_attention_splits(int64_t items, int64_t count, int64_t slots, int warps) {
    const int64_t share = (int64_t)AS_ATTENTION_TILE * warps, most = (count + share - 1) / share;
    const int64_t splits = slots / items < most ? slots / items : most;
    return splits < 1 ? 1 : (int)splits;
}

/* Positions of one split: tiles of 16 from *first to *last. */
static __device__ __forceinline__ void as_attention_share(int count, int split, int splits, int &first, int &last) {
    const int tiles = (count + AS_ATTENTION_TILE - 1) / AS_ATTENTION_TILE;
    first = (int)((int64_t)tiles * split / splits);
    last = (int)((int64_t)tiles * (split + 1) / splits);
}

/* Query heads h0 to h0 + 3 of the group; where it is larger, its keys and values are read again. */
template <typename T, int WARPS>
static __device__ __forceinline__ void as_attention_four(const as_attention<T> &a, int64_t at, int split, int h0,
                                                         const as_attention_shared<WARPS> &s) {
    enum { MOST = AS_ATTENTION_HEAD_DIM / 32, HEADS = 4 };
    const int group = a.heads / a.kv_heads, count = *a.position + 1, warp = (int)threadIdx.x / 32,
              lane = (int)threadIdx.x % 32;
    const float scale = as_score_scale(a.head_dim);
    float q[HEADS][MOST], sum[HEADS][MOST] = {}, most[HEADS], total[HEADS] = {};
#pragma unroll
    for (int g = 0; g < HEADS; g++) {
        most[g] = -INFINITY;
#pragma unroll
        for (int k = 0; k < MOST; k++) {
            const int d = lane + 32 * k;
            q[g][k] = h0 + g < group && d < a.head_dim
                          ? scale * as_number<T>::load(a.queries + (at * group + h0 + g) * a.head_dim + d)
                          : 0;
        }
    }
    int first, last;
    as_attention_share(count, split, a.splits, first, last);
    first *= AS_ATTENTION_TILE;
    last = last * AS_ATTENTION_TILE < count ? last * AS_ATTENTION_TILE : count;
    for (int p = first + warp; p < last; p += WARPS) {
        const int64_t row = (at * a.capacity + p) * a.head_dim;
        float key[MOST], value[MOST];
#pragma unroll
        for (int k = 0; k < MOST; k++) {
            const int d = lane + 32 * k;
            key[k] = d < a.head_dim ? as_number<T>::load(a.keys + row + d) : 0;
            value[k] = d < a.head_dim ? as_number<T>::load(a.values + row + d) : 0;
        }
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
            float score = 0;
#pragma unroll
            for (int k = 0; k < MOST; k++)
                score += q[g][k] * key[k];
            score = as_warp_sum(score);
            const float now = fmaxf(most[g], score), old = as_exp2(most[g] - now), weight = as_exp2(score - now);
            most[g] = now;
            total[g] = total[g] * old + weight;
#pragma unroll
            for (int k = 0; k < MOST; k++)
                sum[g][k] = sum[g][k] * old + weight * value[k];
        }
    }
#pragma unroll
    for (int g = 0; g < HEADS; g++) {
        if (h0 + g >= group)
            break;
#pragma unroll
        for (int k = 0; k < MOST; k++)
            if (lane + 32 * k < a.head_dim)
                s.row(warp, h0 + g)[lane + 32 * k] = sum[g][k];
        if (lane == 0) {
            s.most[warp * AS_ATTENTION_GROUP + h0 + g] = most[g];
            s.sum[warp * AS_ATTENTION_GROUP + h0 + g] = total[g];
        }
    }
}

template <typename T, int WARPS>
static __device__ __forceinline__ void as_attention_simple(const as_attention<T> &a, int64_t at, int split,
                                                           const as_attention_shared<WARPS> &s) {
#pragma unroll 1
    for (int h = 0; h < a.heads / a.kv_heads; h += 4)
        as_attention_four<T, WARPS>(a, at, split, h, s);
}

/* The warps' parts together, to the workspace; then, where asked for, the last block joins the splits. */
template <typename T, int WARPS>
static __device__ __forceinline__ void as_attention_leave(const as_attention<T> &a, int64_t at, int split,
                                                          const as_attention_shared<WARPS> &s) {
    const int group = a.heads / a.kv_heads;
    __syncthreads();
    const int64_t item = (at * a.splits + split) * group;
    for (int i = (int)threadIdx.x; i < group * a.head_dim; i += WARPS * 32) {
        const int g = i / a.head_dim;
        float most = -INFINITY, sum = 0, total = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            most = fmaxf(most, s.most[w * AS_ATTENTION_GROUP + g]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float here = s.most[w * AS_ATTENTION_GROUP + g];
            const float weight = here == -INFINITY ? 0 : as_exp2(here - most);
            sum += weight * s.row(w, g)[i - g * a.head_dim];
            total += weight * s.sum[w * AS_ATTENTION_GROUP + g];
        }
        a.partial[item * a.head_dim + i] = sum;
        if (i == g * a.head_dim)
            a.state[item + g] = make_float2(most, total);
    }
    __syncthreads(); /* all of the block's parts are written; its shared memory is free again */
    if (!a.arrived)
        return;
    unsigned *const turn = (unsigned *)as_shared();
    if (threadIdx.x == 0)
        *turn = as_counter_add(&a.arrived[at], 1);
    __syncthreads();
    const bool last = *turn == (unsigned)a.splits - 1;
    __syncthreads();
    if (!last)
        return;
    as_attention_join<T, WARPS>(a, at);
    if (threadIdx.x == 0)
        a.arrived[at] = 0;
}
