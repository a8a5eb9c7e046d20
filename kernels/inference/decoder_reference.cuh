/* Kernels of the float64 reference on the device (decoder_reference.cu): one an operation, as its formula reads. */
#pragma once

#include "epilogue.cuh"

#include <math.h>

enum { AS_TRUTH_TILE = 64, AS_TRUTH_THREADS = 256 };

static __global__ void as_truth_token_kernel(const uint32_t *prompt, int64_t given, const uint32_t *chosen,
                                             int64_t steps, int64_t row_tokens, uint32_t vocab, uint32_t *out,
                                             int64_t tokens) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = i / row_tokens, t = i % row_tokens;
    if (i < tokens)
        out[i] = (t < given ? prompt[row * given + t] : chosen[row * steps + t - given]) % vocab;
}

template <typename T>
static __global__ void as_truth_embed_kernel(const T *table, const uint32_t *token, int d_model, double *x) {
    for (int i = (int)threadIdx.x; i < d_model; i += (int)blockDim.x)
        x[(int64_t)blockIdx.x * d_model + i] = as_number<T>::load(table + (int64_t)token[blockIdx.x] * d_model + i);
}

/* A thread sums each token's squares: slow, and in a fixed order. */
template <typename T>
static __global__ void as_truth_norm_kernel(const double *x, const T *weight, double epsilon, int d_model,
                                            double *out) {
    const double *const row = x + (int64_t)blockIdx.x * d_model;
    double sum = 0;
    for (int i = 0; i < d_model; i++)
        sum += row[i] * row[i];
    const double factor = 1 / sqrt(sum / d_model + epsilon);
    for (int i = (int)threadIdx.x; i < d_model; i += (int)blockDim.x)
        out[(int64_t)blockIdx.x * d_model + i] = row[i] * factor * as_number<T>::load(weight + i);
}

/* out[t][row] = (add: +) scale * weights[row] . in[t], in tiles of 64 x 64, 4 x 4 sums a thread. */
template <typename T>
static __global__ void __launch_bounds__(AS_TRUTH_THREADS)
    as_truth_product_kernel(const T *weights, double scale, int rows, int columns, const double *in, int64_t tokens,
                            double *out, bool add) {
    enum { TILE = AS_TRUTH_TILE, STEP = 16, EACH = TILE / 16, PITCH = TILE + 1 };
    double *const w = (double *)as_shared(), *const x = w + STEP * PITCH;
    const int across = (int)threadIdx.x % 16, down = (int)threadIdx.x / 16;
    const int64_t row = (int64_t)blockIdx.x * TILE, token = (int64_t)blockIdx.y * TILE;
    double sum[EACH][EACH] = {};
    for (int k = 0; k < columns; k += STEP) {
        for (int i = 0; i < EACH; i++) {
            const int r = down + 16 * i;
            const bool inside = k + across < columns;
            w[across * PITCH + r] =
                row + r < rows && inside ? (double)as_number<T>::load(weights + (row + r) * columns + k + across) : 0;
            x[across * PITCH + r] = token + r < tokens && inside ? in[(token + r) * columns + k + across] : 0;
        }
        __syncthreads();
        for (int s = 0; s < STEP; s++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] += w[s * PITCH + across + 16 * i] * x[s * PITCH + down + 16 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int64_t r = row + across + 16 * i, t = token + down + 16 * j;
            if (r < rows && t < tokens)
                out[t * rows + r] = (add ? out[t * rows + r] : 0) + scale * sum[i][j];
        }
}

/* Queries and keys of one token, in place. */
static __global__ void as_truth_rotate_kernel(double *qkv, int rotated, int columns, int head_dim, int64_t row_tokens,
                                              int64_t first, const double *frequency) {
    const int half = head_dim / 2;
    const double position = (double)(first + blockIdx.x % row_tokens);
    for (int p = (int)threadIdx.x; p < rotated * half; p += (int)blockDim.x) {
        double *const at = qkv + (int64_t)blockIdx.x * columns + p / half * head_dim + p % half;
        const double angle = position * frequency[p % half], a = at[0], b = at[half];
        at[0] = a * cos(angle) - b * sin(angle);
        at[half] = b * cos(angle) + a * sin(angle);
    }
}

static __device__ double as_warp_sum_double(double x) {
    for (int mask = 16; mask; mask /= 2)
        x += __shfl_xor_sync(~0u, x, mask);
    return x;
}

/* A warp for each token and head. Entries before `first` come from the cache, the others from this pass, unrounded. */
template <typename T>
static __global__ void as_truth_attention_kernel(const double *qkv, const as_cache<T> c, int64_t row_tokens,
                                                 int64_t first, double *out) {
    enum { MOST = 4 }; /* head_dim up to 128 */
    const int head = (int)blockIdx.y, lane = (int)threadIdx.x, kv = head / (c.heads / c.kv_heads);
    const int64_t t = blockIdx.x, row = t / row_tokens, columns = (int64_t)(c.heads + 2 * c.kv_heads) * c.head_dim;
    const double *const q = qkv + t * columns + (int64_t)head * c.head_dim;
    double sum[MOST] = {}, most = -INFINITY, total = 0;
    for (int64_t p = 0; p <= first + t % row_tokens; p++) {
        const int64_t entry = ((row * c.kv_heads + kv) * c.capacity + p) * c.head_dim;
        const double *const own = qkv + (row * row_tokens + p - first) * columns + (int64_t)(c.heads + kv) * c.head_dim;
        double score = 0;
        for (int i = lane; i < c.head_dim; i += 32)
            score += q[i] * (p < first ? (double)as_number<T>::load(c.keys + entry + i) : own[i]);
        score = as_warp_sum_double(score) / sqrt((double)c.head_dim);
        const double now = fmax(most, score), old = exp(most - now), weight = exp(score - now);
        most = now;
        total = total * old + weight;
        for (int k = 0, i = lane; i < c.head_dim; i += 32, k++)
            sum[k] = sum[k] * old + weight * (p < first ? (double)as_number<T>::load(c.values + entry + i)
                                                        : own[(int64_t)c.kv_heads * c.head_dim + i]);
    }
    for (int k = 0, i = lane; i < c.head_dim; i += 32, k++)
        out[(t * c.heads + head) * c.head_dim + i] = sum[k] / total;
}

static __global__ void as_truth_silu_kernel(const double *gate_up, int d_ff, double *out) {
    const int64_t t = blockIdx.x;
    for (int i = (int)threadIdx.x; i < d_ff; i += (int)blockDim.x) {
        const double gate = gate_up[t * 2 * d_ff + i];
        out[t * d_ff + i] = gate / (1 + exp(-gate)) * gate_up[(t * 2 + 1) * d_ff + i];
    }
}

/* A warp for each vocabulary entry and judged token: logit and scale. Judged token j of row r is first + j. */
template <typename T>
static __global__ void as_truth_head_kernel(const T *weights, double factor, int d_model, const double *h,
                                            int64_t row_tokens, int64_t first, int64_t judged, double *logit,
                                            double *scale) {
    const int64_t entry = blockIdx.x, vocab = gridDim.x, at = blockIdx.y;
    const double *const x = h + (at / judged * row_tokens + first + at % judged) * d_model;
    double sum = 0, row = 0, length = 0;
    for (int i = (int)threadIdx.x; i < d_model; i += 32) {
        const double w = as_number<T>::load(weights + entry * d_model + i);
        sum += w * x[i];
        row += w * w;
        length += x[i] * x[i];
    }
    sum = as_warp_sum_double(sum), row = as_warp_sum_double(row), length = as_warp_sum_double(length);
    if (threadIdx.x == 0) {
        logit[at * vocab + entry] = sum * factor;
        scale[at * vocab + entry] = sqrt(row) * sqrt(length / d_model) * factor;
    }
}

/* The choice itself where it is a largest logit within the tolerance, else the right one. A warp a token. */
static __global__ void as_truth_judge_kernel(const double *logit, const double *scale, int vocab,
                                             const uint32_t *chosen, double tolerance, double *expected, double *one) {
    const double *const row = logit + (int64_t)blockIdx.x * vocab, *const size = scale + (int64_t)blockIdx.x * vocab;
    int best = (int)threadIdx.x < vocab ? (int)threadIdx.x : 0;
    for (int v = (int)threadIdx.x; v < vocab; v += 32)
        if (row[v] > row[best])
            best = v;
    for (int mask = 16; mask; mask /= 2) {
        const int other = __shfl_xor_sync(~0u, best, mask);
        if (row[other] > row[best] || (row[other] == row[best] && other < best))
            best = other;
    }
    const uint32_t mine = chosen[blockIdx.x];
    const bool good = mine < (uint32_t)vocab && row[best] - row[mine] <= tolerance * (size[best] + size[mine]);
    if (threadIdx.x == 0) {
        expected[blockIdx.x] = good ? mine : best;
        one[blockIdx.x] = 1;
    }
}
