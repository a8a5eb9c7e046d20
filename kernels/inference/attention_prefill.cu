/* Attention of a prefill within the decoder: attention_prefill.cuh. */
#include "attention_prefill.cuh"

#include "decoder.cuh"

template <typename T> static as_prefill<T> describe(const as_decoder *d, int layer) {
    const as_cache<T> c = as_cache_of<T>(d, layer);
    as_prefill<T> a = {};
    a.queries = (const T *)d->q;
    a.keys = c.keys, a.values = c.values, a.capacity = c.capacity;
    a.prompt = d->row_tokens;
    a.heads = c.heads, a.kv_heads = c.kv_heads, a.head_dim = c.head_dim;
    a.out = (T *)d->mixed;
    return a;
}

as_status as_decoder_issue_prefill_attention(as_decoder *d, int layer, const as_issue *how, as_error *e) {
    const int64_t batch = d->step.batch;
    if (d->step.type == AS_F32)
        return as_prefill_issue_simple(describe<float>(d, layer), batch, *how, e);
    const as_prefill<as_bf16> a = describe<as_bf16>(d, layer);
    if (d->m->head_dim == 128 && d->tensor_cores)
        return as_prefill_issue<128, AS_PREFILL_WARPS>(a, batch, *how, e);
    if (d->m->head_dim == 64 && d->tensor_cores)
        return as_prefill_issue<64, AS_PREFILL_WARPS>(a, batch, *how, e);
    return as_prefill_issue_simple(a, batch, *how, e);
}
