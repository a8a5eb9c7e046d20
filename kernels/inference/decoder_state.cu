/* Preparing a pass: workspace, tables, products of the library. */
#include "decoder.cuh"

#include <math.h>
#include <stdlib.h>
#include <string.h>

as_decoder_tuning as_decoder_tune = {2, 64 << 10, 128 << 10, 2, true};

as_status as_decoder_check_cuda(const char *variant, const as_step *s, as_error *e) {
    const as_model *m = s->model;
    if (m->family != AS_DECODER || m->sized_only || (s->type != AS_F32 && s->type != AS_BF16))
        return as_fail(e, AS_EUSAGE, "inference: %s of this type has no kernels on cuda", m->name);
    if (m->heads / m->kv_heads > AS_ATTENTION_GROUP || m->head_dim > AS_ATTENTION_HEAD_DIM || m->head_dim % 8 ||
        m->d_model % 32 || m->d_ff % 32 || m->d_model > AS_GEMV_NORMED)
        return as_fail(e, AS_EUSAGE,
                       "inference: on cuda at most %d heads share a kv head, a head has at most %d elements and a "
                       "multiple of 8, d_model is at most %d, d_model and d_ff are multiples of 32",
                       AS_ATTENTION_GROUP, AS_ATTENTION_HEAD_DIM, AS_GEMV_NORMED);
    if (strcmp(variant, "eager_naive") == 0 && s->batch * s->prompt > 65535)
        return as_fail(e, AS_EUSAGE,
                       "inference/eager_naive takes at most 65535 tokens at once: a smaller batch or prompt");
    if (strcmp(variant, "persistent") == 0 && (s->batch != 1 || s->phase == AS_PHASE_PREFILL))
        return as_fail(e, AS_EUSAGE, "inference/persistent decodes one row: take batch 1, or fused");
    return AS_OK;
}

/* The next part of the workspace; with memory NULL only counts. */
template <typename P> static void carve(char *memory, size_t *at, P **out, size_t bytes) {
    *out = memory ? (P *)(memory + *at) : NULL;
    *at += (bytes + 255) / 256 * 256;
}

static size_t lay_out(as_decoder *d, char *memory) {
    const as_model *m = d->m;
    const size_t type = as_dtype_bytes(d->step.type), n = (size_t)d->tokens, model = (size_t)m->d_model;
    const size_t heads = (size_t)m->heads * (size_t)m->head_dim;
    const size_t qkv = heads + 2 * (size_t)m->kv_heads * (size_t)m->head_dim;
    const size_t rows = qkv > 2 * (size_t)m->d_ff ? qkv : 2 * (size_t)m->d_ff;
    const size_t wide = d->rung == AS_RUNG_NAIVE ? sizeof(float) : type;
    const size_t items = (size_t)d->step.batch * (size_t)m->heads * (size_t)d->splits;
    size_t at = 0;
    carve(memory, &at, &d->x, n * model * sizeof(float));
    carve(memory, &at, &d->h, n * model * wide);
    carve(memory, &at, &d->product, n * (rows > model ? rows : model) * wide);
    carve(memory, &at, &d->q, n * heads * wide);
    carve(memory, &at, &d->mixed, n * heads * wide);
    carve(memory, &at, &d->act, n * (size_t)m->d_ff * wide);
    carve(memory, &at, &d->partial, items * (size_t)m->head_dim * sizeof(float));
    carve(memory, &at, &d->state, items * sizeof(float2));
    carve(memory, &at, &d->arrived, ((size_t)d->step.batch * (size_t)m->kv_heads + 2) * sizeof(unsigned));
    carve(memory, &at, &d->position, sizeof(int));
    carve(memory, &at, &d->turns, (size_t)m->head_dim / 2 * sizeof(double));
    return at;
}

static int splits_of(const as_decoder *d) {
    const bool persistent = d->rung == AS_RUNG_PERSISTENT; /* one block on a multiprocessor */
    if (d->row_tokens > 1)
        return 1;
    return as_attention_splits(d->step.batch * d->m->kv_heads, as_step_capacity(&d->step),
                               (persistent ? 1 : as_decoder_tune.attention_blocks) * d->multiprocessors,
                               persistent ? AS_GEMV_THREADS / 32 : AS_ATTENTION_WARPS);
}

static void describe(as_decoder *d, const as_step *s, as_rung rung, int row_tokens, int multiprocessors) {
    d->step = *s;
    d->m = s->model;
    d->rung = rung;
    d->fused = rung == AS_RUNG_FUSED || rung == AS_RUNG_PERSISTENT;
    d->row_tokens = row_tokens;
    d->tokens = (int)s->batch * row_tokens;
    d->multiprocessors = multiprocessors;
    d->splits = splits_of(d);
}

size_t as_decoder_memory_bytes(const as_step *s, as_rung rung, int row_tokens, int multiprocessors) {
    as_decoder d = {};
    describe(&d, s, rung, row_tokens, multiprocessors);
    return lay_out(&d, NULL);
}

static as_status set_tables(as_decoder *d, int position, as_error *e) {
    enum { MOST = AS_ATTENTION_HEAD_DIM / 2 };
    const as_model *m = d->m;
    double turns[MOST];
    for (int i = 0; i < m->head_dim / 2; i++)
        turns[i] = m->rope_theta > 0 ? pow((double)m->rope_theta, -2.0 * i / m->head_dim) / (2 * M_PI) : 0;
    AS_CUDA(e, cudaMemcpy(d->turns, turns, (size_t)m->head_dim / 2 * sizeof *turns, cudaMemcpyHostToDevice));
    AS_CUDA(e, cudaMemcpy(d->position, &position, sizeof position, cudaMemcpyHostToDevice));
    AS_CUDA(e, cudaMemset(d->arrived, 0, ((size_t)d->step.batch * (size_t)m->kv_heads + 2) * sizeof(unsigned)));
    return AS_OK;
}

/* Products by the library: more than one token, unless skinny.cuh has a kernel. */
static bool uses_library(const as_decoder *d) {
    if (d->rung == AS_RUNG_NAIVE || d->tokens == 1)
        return false;
    return !(d->rung == AS_RUNG_FUSED && d->row_tokens == 1 && d->step.type == AS_BF16 && d->tensor_cores &&
             d->tokens <= AS_SKINNY_BATCH);
}

static const as_tensor_role roles[AS_PRODUCTS] = {AS_T_QKV, AS_T_O, AS_T_GATE_UP, AS_T_DOWN, AS_T_HEAD};

/* Candidates are tried on the workspace as it will be used; what they leave there is overwritten by the step. */
static as_status set_library(as_decoder *d, cudaStream_t stream, as_error *e) {
    const bool narrow = d->step.type == AS_BF16;
    const char *const in[AS_PRODUCTS] = {d->h, d->mixed, d->h, d->act, d->h};
    for (int i = 0; i < AS_PRODUCTS; i++) {
        const as_tensor *t = &d->matrix[roles[i]].tensor;
        as_cublaslt_problem p = {};
        p.m = t->rows, p.n = i == AS_P_HEAD ? d->step.batch : d->tokens, p.k = t->columns;
        p.transposed = true;
        p.in = narrow ? AS_LT_BF16 : AS_LT_F32;
        p.out = i == AS_P_HEAD ? AS_LT_F32 : p.in;
        p.compute = narrow ? AS_LT_COMPUTE_F32 : AS_LT_COMPUTE_F32_PEDANTIC;
        p.scale = AS_LT_F32;
        AS_TRY(as_cublaslt_create(&p, d->weights + t->offset * (int64_t)as_dtype_bytes(d->step.type), in[i],
                                  i == AS_P_HEAD ? (void *)d->logits : d->product, stream, &d->library[i], e));
    }
    return AS_OK;
}

static as_status set_up(as_decoder *d, const as_call *call, int position, as_error *e) {
    for (int role = AS_T_EMBED; role <= AS_T_HEAD; role++) {
        as_decoder_matrix *m = &d->matrix[role];
        m->tensor = as_model_tensor(d->m, (as_tensor_role)role, 0);
        if (role >= AS_T_ATTN_NORM && role <= AS_T_DOWN && d->m->layers > 1)
            m->stride = as_model_tensor(d->m, (as_tensor_role)role, 1).offset - m->tensor.offset;
    }
    const size_t bytes = lay_out(d, NULL);
    AS_CUDA(e, cudaMalloc((void **)&d->memory, bytes));
    (void)lay_out(d, d->memory);
    AS_CUDA(e, cudaMemset(d->memory, 0, bytes)); /* candidates of the library are not timed on NaN */
    AS_TRY(set_tables(d, position, e));
    if (uses_library(d))
        AS_TRY(set_library(d, as_cuda_stream(call->stream), e));
    return AS_OK;
}

as_status as_decoder_create(const as_call *call, as_rung rung, int row_tokens, int position, const as_step_io *io,
                            as_decoder **out, as_error *e) {
    const as_cuda_impl *device = as_cuda_of(call->device);
    const as_step step = as_step_of(call->params);
    *out = NULL;
    as_decoder *d = (as_decoder *)calloc(1, sizeof *d);
    if (!d)
        return as_fail(e, AS_ENOMEM, "out of host memory for a pass of %s", step.model->name);
    describe(d, &step, rung, row_tokens, device->properties.multiProcessorCount);
    d->tensor_cores = device->properties.major >= 8;
    d->most_shared = device->properties.sharedMemPerBlockOptin;
    d->weights = (const char *)io->weights;
    d->cache = (char *)io->kv;
    d->token = io->tokens;
    d->logits = io->logits;
    const as_status s = set_up(d, call, position, e);
    if (s == AS_OK)
        *out = d;
    else
        as_decoder_destroy(d);
    return s;
}

void as_decoder_destroy(as_decoder *d) {
    if (!d)
        return;
    for (int i = 0; i < AS_PRODUCTS; i++)
        as_cublaslt_destroy(d->library[i]);
    if (d->memory)
        (void)cudaFree(d->memory);
    free(d);
}
