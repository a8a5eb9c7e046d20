/* The variants: prepare, run, finish. */
#include "rungs.cuh"

#include "../../harness/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static size_t part(char *memory, size_t *at, void *out, size_t bytes) {
    char *const here = memory ? memory + *at : NULL;
    memcpy(out, &here, sizeof here);
    *at += (bytes + 255) / 256 * 256;
    return *at;
}

static size_t lay_out(as_rung_state *s, char *memory) {
    const as_step *step = &s->step;
    const size_t batch = (size_t)step->batch, prompt = (size_t)step->prompt;
    size_t at = 0;
    if (step->phase != AS_PHASE_DECODE)
        part(memory, &at, &s->cache, (size_t)as_step_kv_elements(step) * as_dtype_bytes(step->type));
    if (step->phase == AS_PHASE_GENERATE)
        part(memory, &at, &s->logits, batch * (size_t)step->model->vocab * sizeof(float));
    part(memory, &at, &s->next, batch * prompt * sizeof(uint32_t));
    return part(memory, &at, &s->clock, sizeof *s->clock);
}

static as_rung rung_of(const char *variant) {
    static const struct {
        const char *name;
        as_rung rung;
    } all[] = {{"eager_naive", AS_RUNG_NAIVE},
               {"eager", AS_RUNG_EAGER},
               {"graph", AS_RUNG_GRAPH},
               {"fused", AS_RUNG_FUSED},
               {"persistent", AS_RUNG_PERSISTENT}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(variant, all[i].name) == 0)
            return all[i].rung;
    return AS_RUNG_EAGER;
}

int64_t as_decoder_state_bytes_cuda(const char *variant, const as_step *step) {
    enum { MULTIPROCESSORS = 160, LIBRARY_BYTES = 5 * (64 << 20) }; /* more than any device has; cublaslt.cu */
    as_rung_state s = {};
    s.step = *step;
    size_t bytes = lay_out(&s, NULL);
    const as_rung rung = rung_of(variant);
    const int passes = step->phase == AS_PHASE_GENERATE ? 2 : 1;
    if (step->phase != AS_PHASE_DECODE)
        bytes += as_decoder_memory_bytes(step, rung, (int)step->prompt, MULTIPROCESSORS);
    if (step->phase != AS_PHASE_PREFILL)
        bytes += as_decoder_memory_bytes(step, rung, 1, MULTIPROCESSORS);
    if (rung != AS_RUNG_NAIVE && step->batch * step->prompt > 1)
        bytes += (size_t)passes * LIBRARY_BYTES;
    return (int64_t)bytes;
}

/* ---- prepare ---- */

static as_status prepare_host(as_rung_state *s, as_error *e) {
    const size_t batch = (size_t)s->step.batch, tokens = batch * (size_t)s->step.prompt;
    s->host_token = (uint32_t *)malloc(tokens * sizeof *s->host_token);
    s->host_chosen = (uint32_t *)malloc(batch * (size_t)(s->step.tokens + 1) * sizeof *s->host_chosen);
    s->host_logits = (float *)malloc(batch * (size_t)s->step.model->vocab * sizeof *s->host_logits);
    if (!s->host_token || !s->host_chosen || !s->host_logits)
        return as_fail(e, AS_ENOMEM, "out of host memory for the tokens and logits of %s", s->step.model->name);
    AS_CUDA(e, cudaMemcpy(s->host_token, s->io.tokens, tokens * sizeof *s->host_token, cudaMemcpyDeviceToHost));
    return AS_OK;
}

static as_status prepare_passes(as_rung_state *s, const as_call *call, as_error *e) {
    const bool naive = s->rung == AS_RUNG_NAIVE, generate = s->step.phase == AS_PHASE_GENERATE;
    as_step_io io = s->io;
    if (s->step.phase != AS_PHASE_DECODE)
        io.kv = s->cache;
    if (generate)
        io.logits = s->logits;
    if (naive)
        io.tokens = s->next;
    if (s->step.phase != AS_PHASE_DECODE)
        AS_TRY(as_decoder_create(call, s->rung, (int)s->step.prompt, 0, &io, &s->prefill, e));
    if (generate)
        io.tokens = s->next;
    if (s->step.phase != AS_PHASE_PREFILL)
        AS_TRY(as_decoder_create(call, s->rung, 1, (int)(generate ? s->step.prompt : s->step.context), &io, &s->decode,
                                 e));
    return AS_OK;
}

static as_status issue_pass(as_rung_state *s, as_decoder *d, cudaStream_t stream, as_error *e) {
    AS_TRY(as_decoder_issue(d, stream, e));
    return s->step.phase == AS_PHASE_GENERATE ? as_rung_choose(s, d, stream, e) : AS_OK;
}

as_status as_rung_end_capture(cudaStream_t stream, as_status so_far, cudaGraphExec_t *out, as_error *e) {
    cudaGraph_t graph = NULL;
    as_status status = so_far;
    const cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (status == AS_OK && code != cudaSuccess)
        status = as_cuda_fail_at(e, __FILE__, __LINE__, code, "cudaStreamEndCapture");
    if (status == AS_OK) {
        AS_CUDA_GOTO(e, status, as_cuda_instantiate(out, graph));
        AS_CUDA_GOTO(e, status, cudaGraphUpload(*out, stream));
        AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
    }
out:
    if (graph)
        (void)cudaGraphDestroy(graph);
    return status;
}

static as_status capture(as_rung_state *s, as_decoder *d, cudaStream_t stream, cudaGraphExec_t *out, as_error *e) {
    AS_CUDA(e, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    return as_rung_end_capture(stream, issue_pass(s, d, stream, e), out, e);
}

static as_status set_up(as_rung_state *s, const as_call *call, as_error *e) {
    const cudaStream_t stream = as_cuda_stream(call->stream);
    AS_CUDA(e, cudaMalloc((void **)&s->memory, lay_out(s, NULL)));
    (void)lay_out(s, s->memory);
    if (s->rung == AS_RUNG_NAIVE)
        AS_TRY(prepare_host(s, e));
    AS_TRY(prepare_passes(s, call, e));
    if (s->rung != AS_RUNG_GRAPH && s->rung != AS_RUNG_FUSED)
        return AS_OK;
    /* Not captured on the first use of a kernel: its module would be loaded in the capture. */
    if (s->prefill) {
        AS_TRY(issue_pass(s, s->prefill, stream, e));
        AS_CUDA(e, cudaStreamSynchronize(stream));
        AS_TRY(capture(s, s->prefill, stream, &s->prefill_graph, e));
    }
    if (s->decode) {
        AS_TRY(issue_pass(s, s->decode, stream, e));
        AS_CUDA(e, cudaStreamSynchronize(stream));
        AS_TRY(capture(s, s->decode, stream, &s->decode_graph, e));
    }
    return AS_OK;
}

as_status as_rung_prepare(const as_call *call, as_rung rung, as_rung_state **out, as_error *e) {
    *out = NULL;
    as_rung_state *s = (as_rung_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "out of host memory for a variant's state");
    s->rung = rung;
    s->step = as_step_of(call->params);
    s->io = as_step_operands(&s->step, call->operand);
    s->extra = call->extra;
    const as_status status = set_up(s, call, e);
    if (status == AS_OK)
        *out = s;
    else
        as_rung_finish(s);
    return status;
}

void as_rung_finish(as_rung_state *s) {
    if (!s)
        return;
    if (s->prefill_graph)
        (void)cudaGraphExecDestroy(s->prefill_graph);
    if (s->decode_graph)
        (void)cudaGraphExecDestroy(s->decode_graph);
    as_decoder_destroy(s->prefill);
    as_decoder_destroy(s->decode);
    if (s->memory)
        (void)cudaFree(s->memory);
    free(s->host_token);
    free(s->host_chosen);
    free(s->host_logits);
    free(s);
}
