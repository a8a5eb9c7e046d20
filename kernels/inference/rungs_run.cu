/* One operation of a variant, and the hooks of the table. */
#include "rungs.cuh"

#include "../../harness/parts.h"

#include <math.h>

/* ---- rungs that issue and do not wait ---- */

as_status as_rung_choose(as_rung_state *s, const as_decoder *d, cudaStream_t stream, as_error *e) {
    const bool first = d == s->prefill;
    const int prompt = (int)s->step.prompt, vocab = s->step.model->vocab;
    const size_t shared = 32 * (sizeof(float) + sizeof(int));
    const as_issue how = {stream, false, false};
    AS_TRY(as_issue_kernel<as_choose_kernel>(
        how, dim3((unsigned)s->step.batch), AS_CHOOSE_THREADS, shared, e, (const float *)s->logits, vocab,
        (const int *)(first ? NULL : s->decode->position), prompt, (int)s->step.tokens, s->next, s->io.chosen));
    if (first)
        return as_issue_kernel<as_generation_first_kernel>(how, dim3(1), 1, 0, e, s->clock, s->decode->position, prompt,
                                                           &s->extra[AS_EXTRA_TTFT]);
    return as_issue_kernel<as_generation_next_kernel>(how, dim3(1), 1, 0, e, (const as_generation_clock *)s->clock,
                                                      s->decode->position, prompt, &s->extra[AS_EXTRA_ITL]);
}

static as_status pass(as_rung_state *s, as_decoder *d, cudaGraphExec_t graph, cudaStream_t stream, as_error *e) {
    if (graph) {
        AS_CUDA(e, cudaGraphLaunch(graph, stream));
        return AS_OK;
    }
    AS_TRY(as_decoder_issue(d, stream, e));
    return s->step.phase == AS_PHASE_GENERATE ? as_rung_choose(s, d, stream, e) : AS_OK;
}

static as_status issue(as_rung_state *s, cudaStream_t stream, as_error *e) {
    if (s->step.phase != AS_PHASE_GENERATE) {
        s->extra[AS_EXTRA_TTFT] = s->extra[AS_EXTRA_ITL] = NAN;
        return s->decode ? pass(s, s->decode, s->decode_graph, stream, e)
                         : pass(s, s->prefill, s->prefill_graph, stream, e);
    }
    const as_issue how = {stream, false, false};
    AS_TRY(as_issue_kernel<as_generation_begin_kernel>(how, dim3(1), 1, 0, e, s->clock));
    AS_TRY(pass(s, s->prefill, s->prefill_graph, stream, e));
    for (int64_t i = 1; i < s->step.tokens; i++)
        AS_TRY(pass(s, s->decode, s->decode_graph, stream, e));
    return AS_OK;
}

/* ---- eager_naive ---- */

static uint32_t largest(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (uint32_t)best;
}

as_status as_rung_naive_tokens_in(as_rung_state *s, const as_decoder *d, const uint32_t *token, cudaStream_t stream,
                                  as_error *e) {
    AS_CUDA(e, cudaMemcpyAsync(s->next, token, (size_t)d->tokens * sizeof *token, cudaMemcpyHostToDevice, stream));
    return AS_OK;
}

as_status as_rung_naive_logits_out(as_rung_state *s, const as_decoder *d, cudaStream_t stream, as_error *e) {
    const size_t bytes = (size_t)s->step.batch * (size_t)s->step.model->vocab * sizeof(float);
    AS_CUDA(e, cudaMemcpyAsync(s->host_logits, d->logits, bytes, cudaMemcpyDeviceToHost, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    return AS_OK;
}

void as_rung_naive_choose(as_rung_state *s, int64_t at) {
    const int64_t width = s->step.tokens > 0 ? s->step.tokens : 1, vocab = s->step.model->vocab;
    for (int64_t b = 0; b < s->step.batch; b++)
        s->host_chosen[b * width + at] = largest(s->host_logits + b * vocab, (int)vocab);
}

static as_status naive_pass(as_rung_state *s, as_decoder *d, const uint32_t *token, int64_t at, cudaStream_t stream,
                            as_error *e) {
    AS_TRY(as_rung_naive_tokens_in(s, d, token, stream, e));
    AS_TRY(as_decoder_issue(d, stream, e));
    AS_TRY(as_rung_naive_logits_out(s, d, stream, e));
    as_rung_naive_choose(s, at);
    return AS_OK;
}

static as_status naive(as_rung_state *s, cudaStream_t stream, as_error *e) {
    if (s->step.phase != AS_PHASE_GENERATE) {
        s->extra[AS_EXTRA_TTFT] = s->extra[AS_EXTRA_ITL] = NAN;
        return naive_pass(s, s->decode ? s->decode : s->prefill, s->host_token, 0, stream, e);
    }
    const int64_t begin = as_parts_now_ns(), batch = s->step.batch, tokens = s->step.tokens;
    uint32_t *const next = s->host_chosen + batch * tokens; /* [batch], after the chosen ones */
    AS_TRY(naive_pass(s, s->prefill, s->host_token, 0, stream, e));
    const int64_t first = as_parts_now_ns();
    for (int64_t i = 1; i < tokens; i++) {
        const int position = (int)(s->step.prompt + i - 1);
        for (int64_t b = 0; b < batch; b++)
            next[b] = s->host_chosen[b * tokens + i - 1];
        AS_CUDA(e, cudaMemcpyAsync(s->decode->position, &position, sizeof position, cudaMemcpyHostToDevice, stream));
        AS_TRY(naive_pass(s, s->decode, next, i, stream, e));
    }
    s->extra[AS_EXTRA_TTFT] = (double)(first - begin);
    s->extra[AS_EXTRA_ITL] = tokens > 1 ? (double)(as_parts_now_ns() - first) / (double)(tokens - 1) : NAN;
    AS_CUDA(e, cudaMemcpyAsync(s->io.chosen, s->host_chosen, (size_t)(batch * tokens) * sizeof *next,
                               cudaMemcpyHostToDevice, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    return AS_OK;
}

as_status as_rung_run(as_rung_state *s, cudaStream_t stream, as_error *e) {
    return s->rung == AS_RUNG_NAIVE ? naive(s, stream, e) : issue(s, stream, e);
}

/* ---- the table's hooks ---- */

#define AS_RUNG_HOOKS(variant, which)                                                                                  \
    as_status as_inference_##variant##_prepare_cuda(const as_call *call, void **state, as_error *e) {                  \
        as_rung_state *s = NULL;                                                                                       \
        AS_TRY(as_rung_prepare(call, which, &s, e));                                                                   \
        *state = s;                                                                                                    \
        return AS_OK;                                                                                                  \
    }                                                                                                                  \
    void as_inference_##variant##_finish_cuda(void *state) { as_rung_finish((as_rung_state *)state); }                 \
    as_status as_inference_##variant##_cuda(const as_call *call, as_error *e) {                                        \
        return as_rung_run((as_rung_state *)call->state, as_cuda_stream(call->stream), e);                             \
    }                                                                                                                  \
    as_status as_inference_##variant##_breakdown_cuda(const as_call *call, as_parts *parts, as_error *e) {             \
        return as_rung_breakdown(call, parts, e);                                                                      \
    }

AS_RUNG_HOOKS(eager_naive, AS_RUNG_NAIVE)
AS_RUNG_HOOKS(eager, AS_RUNG_EAGER)
AS_RUNG_HOOKS(graph, AS_RUNG_GRAPH)
AS_RUNG_HOOKS(fused, AS_RUNG_FUSED)
AS_RUNG_HOOKS(persistent, AS_RUNG_PERSISTENT)
