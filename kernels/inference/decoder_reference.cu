/* The float64 reference on the device: plain kernels, one an operation, that share nothing with the rungs but
 * shapes. decoder_reference.c says what the scale is and how a generation is judged; the harness checks one
 * against the other on cases that the host computes in reasonable time. */
#include "decoder_reference.cuh"

#include "decoder.cuh"

#include <stdlib.h>

struct as_truth {
    as_step step;
    as_step_io io;
    const uint32_t *chosen;
    int64_t row_tokens, tokens, judged; /* of each row in the pass; of all; of each row at the head */
    double *x, *h, *qkv, *mixed, *act, *frequency, *logit, *scale;
    uint32_t *token;
    char *memory;
};

template <typename P> static void carve(char *memory, size_t *at, P **out, size_t count) {
    *out = memory ? (P *)(memory + *at) : NULL;
    *at += (count * sizeof(P) + 255) / 256 * 256;
}
static size_t lay_out(as_truth *s, char *memory) {
    const as_model *m = s->step.model;
    const size_t n = (size_t)s->tokens, d = (size_t)m->d_model, q = (size_t)m->heads * (size_t)m->head_dim;
    const size_t columns = q + 2 * (size_t)m->kv_heads * (size_t)m->head_dim, ff = (size_t)m->d_ff;
    const bool generate = s->step.phase == AS_PHASE_GENERATE;
    const size_t logits = generate ? (size_t)(s->step.batch * s->judged) * (size_t)m->vocab : 0;
    size_t at = 0;
    carve(memory, &at, &s->x, n * d);
    carve(memory, &at, &s->h, n * d);
    carve(memory, &at, &s->qkv, n * (columns > 2 * ff ? columns : 2 * ff));
    carve(memory, &at, &s->mixed, n * q);
    carve(memory, &at, &s->act, n * ff);
    carve(memory, &at, &s->frequency, (size_t)m->head_dim / 2);
    carve(memory, &at, &s->token, n);
    if (generate) {
        carve(memory, &at, &s->logit, logits);
        carve(memory, &at, &s->scale, logits);
    }
    return at;
}

template <typename T> struct truth {
    as_truth *s;
    as_issue how;
    as_error *e;
    const as_model *m;

    const T *weights(as_tensor_role role, int layer) const {
        return (const T *)s->io.weights + as_model_tensor(m, role, layer).offset;
    }
    as_status product(as_tensor_role role, int layer, const double *in, double *out, bool add) {
        const as_tensor t = as_model_tensor(m, role, layer);
        const dim3 grid((unsigned)((t.rows + AS_TRUTH_TILE - 1) / AS_TRUTH_TILE),
                        (unsigned)((s->tokens + AS_TRUTH_TILE - 1) / AS_TRUTH_TILE));
        const size_t shared = 2 * 16 * (AS_TRUTH_TILE + 1) * sizeof(double);
        return as_issue_kernel<as_truth_product_kernel<T>>(how, grid, AS_TRUTH_THREADS, shared, e, weights(role, layer),
                                                           (double)t.scale, (int)t.rows, (int)t.columns, in, s->tokens,
                                                           out, add);
    }
    as_status norm(as_tensor_role role, int layer) {
        return as_issue_kernel<as_truth_norm_kernel<T>>(how, dim3((unsigned)s->tokens), AS_TRUTH_THREADS, 0, e,
                                                        (const double *)s->x, weights(role, layer),
                                                        (double)m->norm_epsilon, m->d_model, s->h);
    }
    as_status attend(int layer) {
        const int columns = (m->heads + 2 * m->kv_heads) * m->head_dim;
        as_cache<T> c = {};
        c.heads = m->heads, c.kv_heads = m->kv_heads, c.head_dim = m->head_dim;
        c.capacity = as_step_capacity(&s->step);
        if (s->io.kv) {
            c.keys = (T *)s->io.kv + as_step_kv_offset(&s->step, layer, 0, 0, 0);
            c.values = (T *)s->io.kv + as_step_kv_offset(&s->step, layer, 1, 0, 0);
        }
        AS_TRY(as_issue_kernel<as_truth_rotate_kernel>(how, dim3((unsigned)s->tokens), AS_TRUTH_THREADS, 0, e, s->qkv,
                                                       m->heads + m->kv_heads, columns, m->head_dim, s->row_tokens,
                                                       s->step.context, (const double *)s->frequency));
        return as_issue_kernel<as_truth_attention_kernel<T>>(how, dim3((unsigned)s->tokens, (unsigned)m->heads), 32, 0,
                                                             e, (const double *)s->qkv, c, s->row_tokens,
                                                             s->step.context, s->mixed);
    }
    as_status layer(int layer) {
        AS_TRY(norm(AS_T_ATTN_NORM, layer));
        AS_TRY(product(AS_T_QKV, layer, s->h, s->qkv, false));
        AS_TRY(attend(layer));
        AS_TRY(product(AS_T_O, layer, s->mixed, s->x, true));
        AS_TRY(norm(AS_T_MLP_NORM, layer));
        AS_TRY(product(AS_T_GATE_UP, layer, s->h, s->qkv, false));
        AS_TRY(as_issue_kernel<as_truth_silu_kernel>(how, dim3((unsigned)s->tokens), AS_TRUTH_THREADS, 0, e,
                                                     (const double *)s->qkv, m->d_ff, s->act));
        return product(AS_T_DOWN, layer, s->act, s->x, true);
    }
    as_status run(double *expected, double *scale) {
        const int64_t prompt = s->step.prompt, rows = s->step.batch * s->judged;
        const as_tensor head = as_model_tensor(m, AS_T_HEAD, 0);
        const bool generate = s->step.phase == AS_PHASE_GENERATE;
        AS_TRY(as_issue_kernel<as_truth_token_kernel>(
            how, dim3((unsigned)((s->tokens + AS_TRUTH_THREADS - 1) / AS_TRUTH_THREADS)), AS_TRUTH_THREADS, 0, e,
            s->io.tokens, prompt, s->chosen, s->step.tokens, s->row_tokens, (uint32_t)m->vocab, s->token, s->tokens));
        AS_TRY(as_issue_kernel<as_truth_embed_kernel<T>>(how, dim3((unsigned)s->tokens), AS_TRUTH_THREADS, 0, e,
                                                         weights(AS_T_EMBED, 0), (const uint32_t *)s->token, m->d_model,
                                                         s->x));
        for (int i = 0; i < m->layers; i++)
            AS_TRY(layer(i));
        AS_TRY(norm(AS_T_FINAL_NORM, 0));
        double *const logit = generate ? s->logit : expected, *const size = generate ? s->scale : scale;
        AS_TRY(as_issue_kernel<as_truth_head_kernel<T>>(
            how, dim3((unsigned)m->vocab, (unsigned)rows), 32, 0, e, weights(AS_T_HEAD, 0), (double)head.scale,
            m->d_model, (const double *)s->h, s->row_tokens, prompt - 1, s->judged, logit, size));
        if (!generate)
            return AS_OK;
        return as_issue_kernel<as_truth_judge_kernel>(how, dim3((unsigned)rows), 32, 0, e, (const double *)logit,
                                                      (const double *)size, m->vocab, s->chosen,
                                                      as_step_tolerance(&s->step), expected, scale);
    }
};

static as_status run(as_truth *s, cudaStream_t stream, double *expected, double *scale, as_error *e) {
    const as_model *m = s->step.model;
    enum { MOST = AS_ATTENTION_HEAD_DIM / 2 };
    double frequency[MOST];
    as_status status = AS_OK;
    AS_CUDA(e, cudaMalloc((void **)&s->memory, lay_out(s, NULL)));
    (void)lay_out(s, s->memory);
    for (int i = 0; i < m->head_dim / 2; i++)
        frequency[i] = m->rope_theta > 0 ? pow((double)m->rope_theta, -2.0 * i / m->head_dim) : 0;
    AS_CUDA_GOTO(
        e, status,
        cudaMemcpy(s->frequency, frequency, (size_t)m->head_dim / 2 * sizeof *frequency, cudaMemcpyHostToDevice));
    {
        const as_issue how = {stream, false, false};
        status = s->step.type == AS_BF16 ? truth<as_bf16>{s, how, e, m}.run(expected, scale)
                                         : truth<float>{s, how, e, m}.run(expected, scale);
    }
    if (status == AS_OK)
        AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
out:
    (void)cudaFree(s->memory);
    return status;
}

as_status as_decoder_reference_cuda(const as_call *call, as_error *e) {
    as_truth s = {};
    s.step = as_step_of(call->params);
    s.io = as_step_operands(&s.step, call->operand);
    const bool generate = s.step.phase == AS_PHASE_GENERATE, decode = s.step.phase == AS_PHASE_DECODE;
    const int inputs = decode ? 3 : 2;
    if (generate)
        s.chosen = (const uint32_t *)call->operand[inputs];
    s.row_tokens = generate ? as_step_capacity(&s.step) : s.step.prompt;
    s.tokens = s.step.batch * s.row_tokens;
    s.judged = generate ? s.step.tokens : 1;
    const int at = inputs + (generate ? 1 : 0);
    return run(&s, as_cuda_stream(call->stream), (double *)call->operand[at], (double *)call->operand[at + 1], e);
}
