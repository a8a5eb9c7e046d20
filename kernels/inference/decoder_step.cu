/* A pass as a sequence of kernels: rungs eager (and graph, which captures it) and fused. */
#include "decoder.cuh"
#include "elementwise.cuh"

enum { AS_NORM_SHARED = 34 * sizeof(float) };

template <typename T> struct issuer {
    as_decoder *d;
    as_issue how;
    as_error *e;
    const as_model *m;

    issuer(as_decoder *d, cudaStream_t stream, as_error *e)
        : d(d), how{stream, d->fused && as_decoder_tune.overlap && !d->listener.between, false}, e(e), m(d->m) {}

    as_status begin(as_decoder_stage s, int layer) { return as_decoder_stage_begins(d, s, layer, e); }

    /* The first kernel: nothing of this pass to overlap with. */
    as_status embed() {
        const as_issue first = {how.stream, false, false};
        AS_TRY(begin(AS_S_EMBED, -1));
        return as_issue_kernel<as_embed_kernel<T>>(first, dim3((unsigned)d->tokens), AS_ROW_THREADS, 0, e,
                                                   as_weights<T>(d, AS_T_EMBED, 0), d->token, (uint32_t)m->vocab,
                                                   m->d_model, d->x);
    }
    /* h = norm of x, after the product of `added` (if any) went to it. `last`: of each row's last token alone. */
    as_status norm(as_decoder_stage stage, as_tensor_role role, int layer, const as_tensor_role *added, bool last) {
        as_norm<T> a = {};
        AS_TRY(begin(stage, layer));
        a.x = d->x;
        a.product = added ? (const T *)d->product : NULL;
        a.scale = added ? d->matrix[*added].tensor.scale : 0;
        a.weight = as_weights<T>(d, role, layer < 0 ? 0 : layer);
        a.epsilon = m->norm_epsilon;
        a.d_model = m->d_model;
        a.first = last ? d->row_tokens - 1 : 0;
        a.step = last ? d->row_tokens : 1;
        a.out = (T *)d->h;
        const int64_t rows = last ? d->step.batch : d->tokens;
        return as_issue_kernel<as_norm_kernel<T>>(how, dim3((unsigned)rows), AS_ROW_THREADS, AS_NORM_SHARED, e, a);
    }
    template <int EPILOGUE> as_status gemv(const as_product<T> &p) {
        const as_gemv_plan plan =
            as_gemv_plan_of<T>(p.rows, p.columns, as_decoder_tune.gemv_blocks * d->multiprocessors,
                               how.overlap ? as_decoder_tune.prefetch_bytes : 0);
        return as_issue_kernel<as_gemv_kernel<T, EPILOGUE>>(how, dim3((unsigned)plan.blocks), AS_GEMV_THREADS,
                                                            plan.shared_bytes, e, p, plan);
    }
    template <int EPILOGUE> as_status skinny(const as_product<T> &p) {
        if constexpr (sizeof(T) == 2) {
            const as_skinny_plan plan = as_skinny_plan_of(p.rows, p.batch, d->multiprocessors, d->most_shared);
            const dim3 grid((unsigned)plan.blocks);
            if (p.batch <= 8)
                return as_issue_kernel<as_skinny_kernel<EPILOGUE, 1>>(how, grid, AS_SKINNY_THREADS, plan.shared_bytes,
                                                                      e, p, plan);
            return as_issue_kernel<as_skinny_kernel<EPILOGUE, 2>>(how, grid, AS_SKINNY_THREADS, plan.shared_bytes, e, p,
                                                                  plan);
        } else {
            return as_fail(e, AS_EFAIL, "skinny.cuh has no kernel for this type");
        }
    }
    template <int EPILOGUE> as_status few(const as_product<T> &p) {
        return d->tokens == 1 ? gemv<EPILOGUE>(p) : skinny<EPILOGUE>(p);
    }
    /* out = product, nothing else done with it. */
    as_status plain(as_decoder_stage stage, as_product_name name, as_tensor_role role, int layer, const void *in) {
        AS_TRY(begin(stage, layer));
        as_product<T> p = as_product_of<T>(d, role, layer);
        p.in = (const T *)in;
        p.out = d->product;
        if (!d->library[name]) {
            p.scale = 1; /* as the library's: who reads it multiplies */
            return gemv<AS_TO_TYPE>(p);
        }
        return as_cublaslt_run(d->library[name], p.weights, p.in, p.out, how.stream, e);
    }
    as_status head() {
        as_product<T> p = as_product_of<T>(d, AS_T_HEAD, 0);
        const int64_t count = d->step.batch * p.rows;
        AS_TRY(begin(AS_S_HEAD, -1));
        p.in = (const T *)d->h;
        p.out = d->logits;
        p.batch = (int)d->step.batch;
        if (!d->library[AS_P_HEAD])
            return gemv<AS_TO_FLOAT>(p);
        AS_TRY(as_cublaslt_run(d->library[AS_P_HEAD], p.weights, p.in, p.out, how.stream, e));
        AS_TRY(begin(AS_S_SCALE, -1));
        return as_issue_kernel<as_scale_kernel>(how, dim3((unsigned)((count + AS_ROW_THREADS - 1) / AS_ROW_THREADS)),
                                                AS_ROW_THREADS, 0, e, d->logits, p.scale, count);
    }
    template <int HEAD_DIM> as_status attend_with(int layer) {
        const as_attention<T> a = as_attention_of<T>(d, layer);
        const size_t shared = as_attention_shared_bytes(m->head_dim, d->splits, AS_ATTENTION_WARPS);
        const unsigned items = (unsigned)(d->step.batch * m->kv_heads);
        AS_TRY((as_issue_kernel<as_attention_kernel<T, HEAD_DIM>>(how, dim3((unsigned)d->splits, items),
                                                                  32 * AS_ATTENTION_WARPS, shared, e, a)));
        if (a.arrived)
            return AS_OK;
        AS_TRY(begin(AS_S_JOIN, layer));
        return as_issue_kernel<as_attention_join_kernel<T>>(how, dim3(items), 32 * AS_ATTENTION_WARPS, shared, e, a);
    }
    as_status attend(int layer) {
        AS_TRY(begin(AS_S_ATTENTION, layer));
        if (d->row_tokens > 1)
            return as_decoder_issue_prefill_attention(d, layer, &how, e);
        if constexpr (sizeof(T) == 2) {
            if (m->head_dim == 128)
                return attend_with<128>(layer);
            if (m->head_dim == 64)
                return attend_with<64>(layer);
        }
        return attend_with<0>(layer);
    }

    as_status layer_apart(int layer) {
        static const as_tensor_role o = AS_T_O, down = AS_T_DOWN;
        const as_tensor *qkv = &d->matrix[AS_T_QKV].tensor, *gate_up = &d->matrix[AS_T_GATE_UP].tensor;
        AS_TRY(norm(AS_S_ATTN_NORM, AS_T_ATTN_NORM, layer, layer ? &down : NULL, false));
        AS_TRY(plain(AS_S_QKV, AS_P_QKV, AS_T_QKV, layer, d->h));
        AS_TRY(begin(AS_S_ROTARY, layer));
        AS_TRY(as_issue_kernel<as_rotary_kernel<T>>(how, dim3((unsigned)d->tokens), AS_ROW_THREADS, 0, e,
                                                    (const T *)d->product, qkv->scale, d->row_tokens, (T *)d->q,
                                                    as_cache_of<T>(d, layer)));
        AS_TRY(attend(layer));
        AS_TRY(plain(AS_S_O, AS_P_O, AS_T_O, layer, d->mixed));
        AS_TRY(norm(AS_S_MLP_NORM, AS_T_MLP_NORM, layer, &o, false));
        AS_TRY(plain(AS_S_GATE_UP, AS_P_GATE_UP, AS_T_GATE_UP, layer, d->h));
        AS_TRY(begin(AS_S_SILU, layer));
        const dim3 grid((unsigned)d->tokens, (unsigned)((m->d_ff + AS_SILU_ELEMENTS - 1) / AS_SILU_ELEMENTS));
        AS_TRY(as_issue_kernel<as_silu_kernel<T>>(how, grid, AS_ROW_THREADS, 0, e, (const T *)d->product,
                                                  gate_up->scale, m->d_ff, (T *)d->act));
        return plain(AS_S_DOWN, AS_P_DOWN, AS_T_DOWN, layer, d->act);
    }
    as_status all_apart() {
        static const as_tensor_role down = AS_T_DOWN;
        AS_TRY(embed());
        for (int layer = 0; layer < m->layers; layer++)
            AS_TRY(layer_apart(layer));
        AS_TRY(norm(AS_S_FINAL_NORM, AS_T_FINAL_NORM, -1, &down, true));
        return head();
    }

    /* The normalised x as a product's input: by the product itself for one token, else by a kernel before it. */
    as_status normed(as_decoder_stage stage, as_tensor_role role, int layer, as_product<T> &p) {
        if (d->tokens == 1) {
            p.stream = d->x;
            p.norm = as_weights<T>(d, role, layer < 0 ? 0 : layer);
            return AS_OK;
        }
        p.in = (const T *)d->h;
        return norm(stage, role, layer, NULL, false);
    }
    as_status layer_fused(int layer) {
        as_product<T> qkv = as_product_of<T>(d, AS_T_QKV, layer), o = as_product_of<T>(d, AS_T_O, layer);
        as_product<T> gate_up = as_product_of<T>(d, AS_T_GATE_UP, layer), down = as_product_of<T>(d, AS_T_DOWN, layer);
        qkv.out = d->q;
        qkv.cache = as_cache_of<T>(d, layer);
        o.in = (const T *)d->mixed;
        o.out = down.out = d->x;
        gate_up.out = d->act;
        down.in = (const T *)d->act;
        AS_TRY(normed(AS_S_ATTN_NORM, AS_T_ATTN_NORM, layer, qkv));
        AS_TRY(begin(AS_S_QKV, layer));
        AS_TRY(few<AS_TO_QKV>(qkv));
        AS_TRY(attend(layer));
        AS_TRY(begin(AS_S_O, layer));
        AS_TRY(few<AS_TO_SUM>(o));
        AS_TRY(normed(AS_S_MLP_NORM, AS_T_MLP_NORM, layer, gate_up));
        AS_TRY(begin(AS_S_GATE_UP, layer));
        AS_TRY(few<AS_TO_SILU>(gate_up));
        AS_TRY(begin(AS_S_DOWN, layer));
        return few<AS_TO_SUM>(down);
    }
    as_status all_fused() {
        as_product<T> p = as_product_of<T>(d, AS_T_HEAD, 0);
        AS_TRY(embed());
        for (int layer = 0; layer < m->layers; layer++)
            AS_TRY(layer_fused(layer));
        p.out = d->logits;
        AS_TRY(normed(AS_S_FINAL_NORM, AS_T_FINAL_NORM, -1, p));
        AS_TRY(begin(AS_S_HEAD, -1));
        return few<AS_TO_FLOAT>(p);
    }
    as_status all() { return d->fused && !d->library[AS_P_QKV] ? all_fused() : all_apart(); }
};

as_status as_decoder_issue(as_decoder *d, cudaStream_t stream, as_error *e) {
    if (d->rung == AS_RUNG_NAIVE)
        return as_decoder_issue_naive(d, stream, e);
    if (d->rung == AS_RUNG_PERSISTENT && d->row_tokens == 1)
        return as_decoder_issue_persistent(d, stream, e);
    if (d->step.type == AS_BF16)
        return issuer<as_bf16>(d, stream, e).all();
    return issuer<float>(d, stream, e).all();
}
