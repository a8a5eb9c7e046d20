/* Between the products, one kernel an operation: what the rungs eager and graph launch, and every rung for many tokens.
 * `tokens` counts rows of activations: batch * prompt. Each reads and writes its activations once: at batch 1 a few
 * hundred kilobytes a layer at most, so that starting the kernel is all of its cost; for 512 tokens of llama-8b the
 * gate and up of a layer are 29 MB in bf16, 13 us at the limit. */
#pragma once

#include "epilogue.cuh"

enum { AS_ROW_THREADS = 256 };

/* x[t] = embedding[token[t] mod vocab]. One block a token. */
template <typename T>
static __global__ void __launch_bounds__(AS_ROW_THREADS)
    as_embed_kernel(const T *embedding, const uint32_t *token, uint32_t vocab, int d_model, float *x) {
    as_let_successor_start();
    as_wait_for_predecessor(); /* x is still read by the last step's kernels */
    const T *const row = embedding + (int64_t)(token[blockIdx.x] % vocab) * d_model;
    for (int i = (int)threadIdx.x; i < d_model; i += AS_ROW_THREADS)
        x[(int64_t)blockIdx.x * d_model + i] = as_number<T>::load(row + i);
}

/* x += scale * product (where there is one), then out[block] = norm(x) * weight, for row first + block * step of x. */
template <typename T> struct as_norm {
    float *x;
    const T *product, *weight;
    float scale, epsilon;
    int d_model, first, step;
    T *out;
};
template <typename T>
static __global__ void __launch_bounds__(AS_ROW_THREADS) as_norm_kernel(const __grid_constant__ as_norm<T> a) {
    as_let_successor_start();
    as_wait_for_predecessor();
    const int64_t row = a.first + (int64_t)blockIdx.x * a.step;
    float *const x = a.x + row * a.d_model;
    float squares = 0;
    for (int i = (int)threadIdx.x; i < a.d_model; i += AS_ROW_THREADS) {
        float v = x[i];
        if (a.product) {
            v += a.scale * as_number<T>::load(a.product + row * a.d_model + i);
            x[i] = v;
        }
        squares += v * v;
    }
    const float factor = rsqrtf(as_block_sum(squares, (float *)as_shared()) / (float)a.d_model + a.epsilon);
    for (int i = (int)threadIdx.x; i < a.d_model; i += AS_ROW_THREADS)
        as_number<T>::store(a.out + (int64_t)blockIdx.x * a.d_model + i,
                            x[i] * factor * as_number<T>::load(a.weight + i));
}

/* Q, K, V of a token as they came from the product: queries and keys rotated, queries to `out`, keys and values into
 * the cache. Row t is token t % prompt of batch row t / prompt. One block a token. */
template <typename T>
static __global__ void __launch_bounds__(AS_ROW_THREADS)
    as_rotary_kernel(const T *product, float scale, int prompt, T *out, const __grid_constant__ as_cache<T> c) {
    as_let_successor_start();
    as_wait_for_predecessor();
    const int row = (int)blockIdx.x, batch = row / prompt, position = *c.position + row % prompt;
    const int half = c.head_dim / 2, heads = c.heads + 2 * c.kv_heads;
    const T *const in = product + (int64_t)row * heads * c.head_dim;
    for (int p = (int)threadIdx.x; p < heads * half; p += AS_ROW_THREADS) {
        const int head = p / half, i = p - head * half;
        float u = scale * as_number<T>::load(in + head * c.head_dim + i);
        float v = scale * as_number<T>::load(in + head * c.head_dim + i + half);
        if (head < c.heads + c.kv_heads)
            as_rotate(u, v, c.turns[i], position);
        T *to;
        if (head < c.heads) {
            to = out + ((int64_t)row * c.heads + head) * c.head_dim;
        } else {
            const int kv = head - c.heads, at = kv < c.kv_heads ? kv : kv - c.kv_heads;
            to = (kv < c.kv_heads ? c.keys : c.values) +
                 (((int64_t)batch * c.kv_heads + at) * c.capacity + position) * c.head_dim;
        }
        as_number<T>::store(to + i, u);
        as_number<T>::store(to + i + half, v);
    }
}

/* out[t][i] = silu(gate) * up. One block a token and AS_SILU_ELEMENTS elements. */
enum { AS_SILU_ELEMENTS = 4 * AS_ROW_THREADS };
template <typename T>
static __global__ void __launch_bounds__(AS_ROW_THREADS)
    as_silu_kernel(const T *product, float scale, int d_ff, T *out) {
    as_let_successor_start();
    as_wait_for_predecessor();
    const T *const gate = product + (int64_t)blockIdx.x * 2 * d_ff, *const up = gate + d_ff;
#pragma unroll
    for (int k = 0; k < AS_SILU_ELEMENTS / AS_ROW_THREADS; k++) {
        const int i = (int)blockIdx.y * AS_SILU_ELEMENTS + k * AS_ROW_THREADS + (int)threadIdx.x;
        if (i < d_ff)
            as_number<T>::store(out + (int64_t)blockIdx.x * d_ff + i,
                                as_silu(scale * as_number<T>::load(gate + i)) * (scale * as_number<T>::load(up + i)));
    }
}

/* logits *= scale: a library's product knows no factor. */
static __global__ void __launch_bounds__(AS_ROW_THREADS) as_scale_kernel(float *x, float scale, int64_t count) {
    as_let_successor_start();
    as_wait_for_predecessor();
    const int64_t i = (int64_t)blockIdx.x * AS_ROW_THREADS + threadIdx.x;
    if (i < count)
        x[i] *= scale;
}
