/* Rung eager_naive: a kernel for each operation, as its formula reads. Activations are float.
 *
 * The product gives a thread a whole row: neighbouring threads read weights `columns` elements apart, so of each
 * 32-byte sector that comes from L2 one element is used at a time. Predicted: a tenth of the bandwidth at best, 40 to
 * 80 ms a token for llama-8b. */
#include "decoder.cuh"

enum { THREADS = 128 };

template <typename T>
static __global__ void as_naive_embed_kernel(const T *embedding, const uint32_t *token, uint32_t vocab, int d_model,
                                             float *x) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), t = (int)blockIdx.y;
    if (i < d_model)
        x[(int64_t)t * d_model + i] = as_number<T>::load(embedding + (int64_t)(token[t] % vocab) * d_model + i);
}

/* Row first + t * step of x; a thread a token. */
template <typename T>
static __global__ void as_naive_norm_kernel(const float *x, const T *weight, float epsilon, int d_model, int tokens,
                                            int first, int step, float *out) {
    const int t = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (t >= tokens)
        return;
    const float *const row = x + ((int64_t)first + (int64_t)t * step) * d_model;
    float squares = 0;
    for (int i = 0; i < d_model; i++)
        squares += row[i] * row[i];
    const float factor = rsqrtf(squares / (float)d_model + epsilon);
    for (int i = 0; i < d_model; i++)
        out[(int64_t)t * d_model + i] = row[i] * factor * as_number<T>::load(weight + i);
}

/* out[t][row] = (add: +) scale * sum of weights[row][k] in[t][k] */
template <typename T>
static __global__ void as_naive_product_kernel(const T *weights, float scale, int rows, int columns, const float *in,
                                               float *out, bool add) {
    const int row = (int)(blockIdx.x * blockDim.x + threadIdx.x), t = (int)blockIdx.y;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = 0; k < columns; k++)
        sum += as_number<T>::load(weights + (int64_t)row * columns + k) * in[(int64_t)t * columns + k];
    float *const to = out + (int64_t)t * rows + row;
    *to = (add ? *to : 0) + scale * sum;
}

/* Rotates one pair of each query and key in place. */
static __global__ void as_naive_rotate_kernel(float *qkv, int rotated, int all, int head_dim, int row_tokens,
                                              const int *position, const double *turns) {
    const int p = (int)(blockIdx.x * blockDim.x + threadIdx.x), t = (int)blockIdx.y, half = head_dim / 2;
    if (p >= rotated * half)
        return;
    float *const first = qkv + ((int64_t)t * all + p / half) * head_dim + p % half;
    as_rotate(first[0], first[half], turns[p % half], *position + t % row_tokens);
}

template <typename T>
static __global__ void as_naive_cache_kernel(const float *qkv, int row_tokens, const __grid_constant__ as_cache<T> c) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), t = (int)blockIdx.y, head = i / c.head_dim;
    if (head >= 2 * c.kv_heads)
        return;
    const int64_t row = (int64_t)(t / row_tokens) * c.kv_heads + head % c.kv_heads;
    T *const to = (head < c.kv_heads ? c.keys : c.values) +
                  (row * c.capacity + *c.position + t % row_tokens) * c.head_dim + i % c.head_dim;
    as_number<T>::store(to, qkv[((int64_t)t * (c.heads + 2 * c.kv_heads) + c.heads) * c.head_dim + i]);
}

/* A warp for each token and head, a position at a time. */
template <typename T>
static __global__ void as_naive_attention_kernel(const float *qkv, int row_tokens,
                                                 const __grid_constant__ as_cache<T> c, float *out) {
    enum { MOST = AS_ATTENTION_HEAD_DIM / 32 };
    const int t = (int)blockIdx.y, head = (int)(blockIdx.x * blockDim.x + threadIdx.x) / 32,
              lane = (int)threadIdx.x % 32;
    if (head >= c.heads)
        return;
    const float *const q = qkv + ((int64_t)t * (c.heads + 2 * c.kv_heads) + head) * c.head_dim;
    const int64_t at = (int64_t)(t / row_tokens) * c.kv_heads + head / (c.heads / c.kv_heads);
    const int count = *c.position + t % row_tokens + 1;
    float sum[MOST] = {}, most = -INFINITY, total = 0;
    for (int p = 0; p < count; p++) {
        const int64_t entry = (at * c.capacity + p) * c.head_dim;
        float score = 0;
        for (int i = lane; i < c.head_dim; i += 32)
            score += q[i] * as_number<T>::load(c.keys + entry + i);
        score = as_warp_sum(score) * rsqrtf((float)c.head_dim);
        const float now = fmaxf(most, score), old = expf(most - now), weight = expf(score - now);
        most = now;
        total = total * old + weight;
        for (int k = 0, i = lane; i < c.head_dim; i += 32, k++)
            sum[k] = sum[k] * old + weight * as_number<T>::load(c.values + entry + i);
    }
    for (int k = 0, i = lane; i < c.head_dim; i += 32, k++)
        out[((int64_t)t * c.heads + head) * c.head_dim + i] = sum[k] / total;
}

static __global__ void as_naive_silu_kernel(const float *gate_up, int d_ff, float *out) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), t = (int)blockIdx.y;
    if (i >= d_ff)
        return;
    const float gate = gate_up[(int64_t)t * 2 * d_ff + i];
    out[(int64_t)t * d_ff + i] = gate / (1 + expf(-gate)) * gate_up[((int64_t)t * 2 + 1) * d_ff + i];
}

template <typename T> struct issuer {
    as_decoder *d;
    as_issue how;
    as_error *e;
    const as_model *m;
    float *qkv, *h, *mixed, *act;

    issuer(as_decoder *d, cudaStream_t stream, as_error *e)
        : d(d), how{stream, false, false}, e(e), m(d->m), qkv((float *)d->product), h((float *)d->h),
          mixed((float *)d->mixed), act((float *)d->act) {}

    dim3 grid(int64_t across) const { return dim3((unsigned)((across + THREADS - 1) / THREADS), (unsigned)d->tokens); }
    as_status begin(as_decoder_stage s, int layer) { return as_decoder_stage_begins(d, s, layer, e); }

    as_status product(as_decoder_stage stage, as_tensor_role role, int layer, const float *in, float *out, bool add) {
        const as_tensor *t = &d->matrix[role].tensor;
        dim3 g = grid(t->rows);
        AS_TRY(begin(stage, layer));
        if (role == AS_T_HEAD)
            g.y = (unsigned)d->step.batch;
        return as_issue_kernel<as_naive_product_kernel<T>>(how, g, THREADS, 0, e,
                                                           as_weights<T>(d, role, layer < 0 ? 0 : layer), t->scale,
                                                           (int)t->rows, (int)t->columns, in, out, add);
    }
    as_status norm(as_decoder_stage stage, as_tensor_role role, int layer, bool last) {
        const int rows = last ? (int)d->step.batch : d->tokens;
        AS_TRY(begin(stage, layer));
        return as_issue_kernel<as_naive_norm_kernel<T>>(
            how, dim3((unsigned)((rows + THREADS - 1) / THREADS)), THREADS, 0, e, (const float *)d->x,
            as_weights<T>(d, role, layer < 0 ? 0 : layer), m->norm_epsilon, m->d_model, rows,
            last ? d->row_tokens - 1 : 0, last ? d->row_tokens : 1, h);
    }
    as_status layer(int layer) {
        const int all = m->heads + 2 * m->kv_heads, rotated = m->heads + m->kv_heads;
        const as_cache<T> cache = as_cache_of<T>(d, layer);
        AS_TRY(norm(AS_S_ATTN_NORM, AS_T_ATTN_NORM, layer, false));
        AS_TRY(product(AS_S_QKV, AS_T_QKV, layer, h, qkv, false));
        AS_TRY(begin(AS_S_ROTARY, layer));
        AS_TRY(as_issue_kernel<as_naive_rotate_kernel>(how, grid(rotated * m->head_dim / 2), THREADS, 0, e, qkv,
                                                       rotated, all, m->head_dim, d->row_tokens,
                                                       (const int *)d->position, (const double *)d->turns));
        AS_TRY(as_issue_kernel<as_naive_cache_kernel<T>>(how, grid(2 * m->kv_heads * m->head_dim), THREADS, 0, e,
                                                         (const float *)qkv, d->row_tokens, cache));
        AS_TRY(begin(AS_S_ATTENTION, layer));
        AS_TRY(as_issue_kernel<as_naive_attention_kernel<T>>(how, grid(m->heads * 32), THREADS, 0, e,
                                                             (const float *)qkv, d->row_tokens, cache, mixed));
        AS_TRY(product(AS_S_O, AS_T_O, layer, mixed, d->x, true));
        AS_TRY(norm(AS_S_MLP_NORM, AS_T_MLP_NORM, layer, false));
        AS_TRY(product(AS_S_GATE_UP, AS_T_GATE_UP, layer, h, qkv, false));
        AS_TRY(begin(AS_S_SILU, layer));
        AS_TRY(
            as_issue_kernel<as_naive_silu_kernel>(how, grid(m->d_ff), THREADS, 0, e, (const float *)qkv, m->d_ff, act));
        AS_TRY(product(AS_S_DOWN, AS_T_DOWN, layer, act, d->x, true));
        AS_CUDA(e, cudaStreamSynchronize(how.stream));
        return AS_OK;
    }
    as_status all() {
        AS_TRY(begin(AS_S_EMBED, -1));
        AS_TRY(as_issue_kernel<as_naive_embed_kernel<T>>(how, grid(m->d_model), THREADS, 0, e,
                                                         as_weights<T>(d, AS_T_EMBED, 0), d->token, (uint32_t)m->vocab,
                                                         m->d_model, d->x));
        for (int i = 0; i < m->layers; i++)
            AS_TRY(layer(i));
        AS_TRY(norm(AS_S_FINAL_NORM, AS_T_FINAL_NORM, -1, true));
        return product(AS_S_HEAD, AS_T_HEAD, -1, h, d->logits, false);
    }
};

as_status as_decoder_issue_naive(as_decoder *d, cudaStream_t stream, as_error *e) {
    if (d->step.type == AS_BF16)
        return issuer<as_bf16>(d, stream, e).all();
    return issuer<float>(d, stream, e).all();
}
