/* Attention alone on the device: the kernels of the decoder (../inference/attention_decode.cuh, attention_tiles.cuh,
 * attention_prefill.cuh, which say what bounds them) as cases of their own. Decode launches one kernel, whose last
 * block of each kv head joins the splits. */
#include "attention.h"

#include "../cuda/internal.h"
#include "../inference/attention_prefill.cuh"
#include "../inference/attention_tiles.cuh"
#include "../inference/issue.cuh"

#include <stdlib.h>
#include <string.h>

typedef struct as_attention_state {
    as_attention_shape shape;
    int splits;
    char *memory;
    float *partial;
    float2 *state;
    unsigned *arrived;
    int *position;
} as_attention_state;

as_status as_attention_check_cuda(const char *variant, const char *config, const as_attention_shape *s, as_error *e) {
    if (s->heads / s->kv_heads > AS_ATTENTION_GROUP || s->head_dim > AS_ATTENTION_HEAD_DIM || s->head_dim % 8)
        return as_fail(e, AS_EUSAGE,
                       "attention: on cuda at most %d heads share a kv head, and head_dim is a multiple of 8 up to %d",
                       AS_ATTENTION_GROUP, AS_ATTENTION_HEAD_DIM);
    if (strcmp(variant, "tensor") == 0 && (s->type != AS_BF16 || (s->head_dim != 64 && s->head_dim != 128)))
        return as_fail(e, AS_EUSAGE,
                       "attention/tensor takes type:bf16 and head_dim:64 or 128; attention/simple the rest");
    if (strcmp(variant, "tensor") != 0 && strcmp(config, "auto") != 0)
        return as_fail(e, AS_EUSAGE, "attention/simple knows one way: leave config at auto");
    if (s->batch * s->kv_heads > 65535)
        return as_fail(e, AS_EUSAGE, "attention: on cuda batch times kv_heads is at most 65535");
    return AS_OK;
}

template <typename P> static void carve(char *memory, size_t *at, P **out, size_t count) {
    *out = memory ? (P *)(memory + *at) : NULL;
    *at += (count * sizeof(P) + 255) / 256 * 256;
}
static size_t lay_out(as_attention_state *s, char *memory) {
    const size_t items = (size_t)(s->shape.batch * s->shape.heads) * (size_t)s->splits;
    size_t at = 0;
    carve(memory, &at, &s->partial, items * (size_t)s->shape.head_dim);
    carve(memory, &at, &s->state, items);
    carve(memory, &at, &s->arrived, (size_t)(s->shape.batch * s->shape.kv_heads));
    carve(memory, &at, &s->position, 1);
    return at;
}

static as_status set_up(as_attention_state *s, const as_call *call, as_error *e) {
    const int position = (int)s->shape.context - 1;
    const int multiprocessors = as_cuda_of(call->device)->properties.multiProcessorCount;
    s->splits = as_attention_splits(s->shape.batch * s->shape.kv_heads, s->shape.context, 2 * multiprocessors,
                                    AS_ATTENTION_WARPS);
    const size_t bytes = lay_out(s, NULL);
    AS_CUDA(e, cudaMalloc((void **)&s->memory, bytes));
    (void)lay_out(s, s->memory);
    AS_CUDA(e, cudaMemset(s->memory, 0, bytes));
    AS_CUDA(e, cudaMemcpy(s->position, &position, sizeof position, cudaMemcpyHostToDevice));
    return AS_OK;
}

static void finish(void *state) {
    as_attention_state *s = (as_attention_state *)state;
    if (s && s->memory)
        (void)cudaFree(s->memory);
    free(s);
}

static as_status prepare(const as_call *call, void **state, as_error *e) {
    as_attention_state *s = (as_attention_state *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s)
        return as_fail(e, AS_ENOMEM, "out of host memory for the state of attention");
    s->shape = as_attention_shape_of(call->params);
    const as_status status = s->shape.prefill ? AS_OK : set_up(s, call, e);
    if (status == AS_OK)
        *state = s;
    else
        finish(s);
    return status;
}

template <typename T, int HEAD_DIM> static as_status decode(const as_call *call, as_error *e) {
    const as_attention_state *s = (const as_attention_state *)call->state;
    const as_issue how = {as_cuda_stream(call->stream), false, false};
    as_attention<T> a = {};
    a.queries = (const T *)call->operand[0];
    a.keys = (const T *)call->operand[1];
    a.values = (const T *)call->operand[2];
    a.out = (T *)call->operand[3];
    a.capacity = s->shape.context;
    a.position = s->position;
    a.batch = (int)s->shape.batch, a.heads = (int)s->shape.heads, a.kv_heads = (int)s->shape.kv_heads;
    a.head_dim = (int)s->shape.head_dim;
    a.splits = s->splits;
    a.partial = s->partial, a.state = s->state, a.arrived = s->arrived;
    const dim3 grid((unsigned)a.splits, (unsigned)(a.batch * a.kv_heads));
    return as_issue_kernel<as_attention_kernel<T, HEAD_DIM>>(
        how, grid, 32 * AS_ATTENTION_WARPS, as_attention_shared_bytes(a.head_dim, a.splits, AS_ATTENTION_WARPS), e, a);
}

template <typename T> static as_prefill<T> prefill_of(const as_call *call, const as_attention_shape *s) {
    as_prefill<T> a = {};
    a.queries = (const T *)call->operand[0];
    a.keys = (const T *)call->operand[1];
    a.values = (const T *)call->operand[2];
    a.out = (T *)call->operand[3];
    a.capacity = s->context;
    a.prompt = (int)s->context, a.heads = (int)s->heads, a.kv_heads = (int)s->kv_heads, a.head_dim = (int)s->head_dim;
    return a;
}
template <typename T> static as_status prefill_simple(const as_call *call, as_error *e) {
    const as_attention_shape s = as_attention_shape_of(call->params);
    const as_issue how = {as_cuda_stream(call->stream), false, false};
    return as_prefill_issue_simple(prefill_of<T>(call, &s), s.batch, how, e);
}
template <int HEAD_DIM> static as_status prefill(const as_call *call, as_error *e) {
    const as_attention_shape s = as_attention_shape_of(call->params);
    const as_issue how = {as_cuda_stream(call->stream), false, false};
    const as_prefill<as_bf16> a = prefill_of<as_bf16>(call, &s);
    if (strcmp(as_params_text(call->params, "config"), "q64") == 0)
        return as_prefill_issue<HEAD_DIM, 4>(a, s.batch, how, e);
    return as_prefill_issue<HEAD_DIM, AS_PREFILL_WARPS>(a, s.batch, how, e);
}

as_status as_attention_simple_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return prepare(call, state, e);
}
void as_attention_simple_finish_cuda(void *state) { finish(state); }
as_status as_attention_simple_cuda(const as_call *call, as_error *e) {
    const as_attention_shape s = as_attention_shape_of(call->params);
    if (s.type == AS_F32)
        return s.prefill ? prefill_simple<float>(call, e) : decode<float, 0>(call, e);
    return s.prefill ? prefill_simple<as_bf16>(call, e) : decode<as_bf16, 0>(call, e);
}

as_status as_attention_tensor_prepare_cuda(const as_call *call, void **state, as_error *e) {
    if (as_cuda_of(call->device)->properties.major < 8)
        return as_fail(e, AS_EABSENT, "the tensor cores of this device take no bf16 (compute capability 8.0 does)");
    return prepare(call, state, e);
}
void as_attention_tensor_finish_cuda(void *state) { finish(state); }
as_status as_attention_tensor_cuda(const as_call *call, as_error *e) {
    const as_attention_shape s = as_attention_shape_of(call->params);
    if (s.head_dim == 64)
        return s.prefill ? prefill<64>(call, e) : decode<as_bf16, 64>(call, e);
    return s.prefill ? prefill<128>(call, e) : decode<as_bf16, 128>(call, e);
}
