/* Launches of attention_prefill.cuh. */
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

template <int HEAD_DIM> static as_status issue_tiles(const as_decoder *d, int layer, const as_issue *how, as_error *e) {
    const as_prefill<as_bf16> a = describe<as_bf16>(d, layer);
    const dim3 grid((unsigned)((a.prompt + AS_PREFILL_QUERIES - 1) / AS_PREFILL_QUERIES), (unsigned)a.heads,
                    (unsigned)d->step.batch);
    return as_issue_kernel<as_prefill_kernel<HEAD_DIM>>(*how, grid, AS_PREFILL_THREADS,
                                                        as_prefill_shared_bytes<HEAD_DIM>(), e, a);
}

template <typename T> static as_status issue_simple(const as_decoder *d, int layer, const as_issue *how, as_error *e) {
    enum { WARPS = AS_PREFILL_THREADS / 32 };
    const dim3 grid((unsigned)d->tokens, (unsigned)((d->m->heads + WARPS - 1) / WARPS));
    return as_issue_kernel<as_prefill_simple_kernel<T>>(*how, grid, AS_PREFILL_THREADS, 0, e, describe<T>(d, layer));
}

as_status as_decoder_issue_prefill_attention(as_decoder *d, int layer, const as_issue *how, as_error *e) {
    if (d->step.type == AS_F32)
        return issue_simple<float>(d, layer, how, e);
    if (d->m->head_dim == 128 && d->tensor_cores)
        return issue_tiles<128>(d, layer, how, e);
    if (d->m->head_dim == 64 && d->tensor_cores)
        return issue_tiles<64>(d, layer, how, e);
    return issue_simple<as_bf16>(d, layer, how, e);
}
