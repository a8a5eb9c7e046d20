/* Rung persistent: a whole decode step of one row as one cooperative kernel, a block a slot of the GPU.
 *
 * The blocks do what the kernels of rung fused do, one operation after another; between operations all blocks meet at a
 * counter in L2. What a launch would hide is hidden here by hand: before a block waits, it asks for the first weights
 * of the operation after the barrier. 5 barriers a layer: llama-8b 161, llama-1b 81 a token; predicted 1.0 to 1.5 us
 * each (an atomic to L2 and back, 0.7 us, and the last block's lateness). Bytes and their time are those of fused. */
#include "decoder.cuh"

/* The whole model, by base and stride of its tensors. */
template <typename T> struct as_persistent {
    as_product<T> product[AS_PRODUCTS]; /* of layer 0 */
    int64_t stride[AS_PRODUCTS], norm_stride[AS_PRODUCTS], cache_stride;
    as_gemv_plan plan[AS_PRODUCTS];
    as_attention<T> attention; /* of layer 0 */
    const T *embedding;
    const uint32_t *token;
    uint32_t vocab;
    int layers, d_model, blocks;
    float *x;
    unsigned *barrier; /* [2]: arrivals, blocks that have finished; 0 between steps */
    uint64_t *stamp;   /* instrumented: begin, each barrier passed, end: 3 + 5 layers; NULL: none */
};

template <typename T>
static __device__ __forceinline__ as_product<T> as_persistent_product(const as_persistent<T> &a, as_product_name name,
                                                                      int layer) {
    as_product<T> p = a.product[name];
    p.weights += layer * a.stride[name];
    p.norm += layer * a.norm_stride[name];
    if (name == AS_P_QKV) {
        p.cache.keys += layer * a.cache_stride;
        p.cache.values += layer * a.cache_stride;
    }
    return p;
}

/* Functions of their own: the compiler would keep the addresses of all products at once in registers that it has not.
 * */
template <typename T, int EPILOGUE, int NAME>
static __device__ __noinline__ void as_persistent_multiply(const as_persistent<T> &a, int layer) {
    const as_product<T> p = as_persistent_product(a, (as_product_name)NAME, layer);
    as_gemv_block<T, EPILOGUE>(p, as_gemv_norm<T>(p), a.plan[NAME], (int)blockIdx.x, a.blocks);
}

template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void as_persistent_attend(const as_persistent<T> &a, int layer) {
    as_attention<T> at = a.attention;
    at.keys += layer * a.cache_stride;
    at.values += layer * a.cache_stride;
    for (int item = (int)blockIdx.x; item < at.kv_heads * at.splits; item += a.blocks) {
        as_attention_item<T, HEAD_DIM, AS_GEMV_THREADS / 32>(at, item / at.splits, item % at.splits);
        __syncthreads();
    }
}

template <typename T> struct as_persistent_block {
    const as_persistent<T> &a;
    int met; /* barriers so far */

    __device__ as_persistent_block(const as_persistent<T> &a) : a(a), met(0) {}

    template <int EPILOGUE> __device__ __forceinline__ void prefetch(as_product_name name, int layer) const {
        as_gemv_prefetch<T, EPILOGUE>(as_persistent_product(a, name, layer), a.plan[name].prefetch, (int)blockIdx.x,
                                      a.blocks);
    }
    __device__ __forceinline__ void stamp(int at) const {
        if (a.stamp && blockIdx.x == 0 && threadIdx.x == 0)
            a.stamp[at] = as_global_ns();
    }
    __device__ __forceinline__ void meet() {
        met++;
        __syncthreads();
        if (threadIdx.x == 0) {
            (void)as_counter_add(&a.barrier[0], 1);
            as_counter_wait(&a.barrier[0], (unsigned)(met * a.blocks));
        }
        __syncthreads();
        stamp(met);
    }
    /* The last block to finish leaves the counters as the next step needs them. */
    __device__ __forceinline__ void finish() const {
        __syncthreads();
        if (threadIdx.x == 0 && as_counter_add(&a.barrier[1], 1) == (unsigned)a.blocks - 1) {
            a.barrier[0] = a.barrier[1] = 0;
            if (a.stamp)
                a.stamp[met + 1] = as_global_ns();
        }
    }
    template <int HEAD_DIM> __device__ __forceinline__ void layer(int at) {
        as_persistent_multiply<T, AS_TO_QKV, AS_P_QKV>(a, at);
        prefetch<AS_TO_SUM>(AS_P_O, at);
        meet();
        as_persistent_attend<T, HEAD_DIM>(a, at);
        meet();
        as_persistent_multiply<T, AS_TO_SUM, AS_P_O>(a, at);
        prefetch<AS_TO_SILU>(AS_P_GATE_UP, at);
        meet();
        as_persistent_multiply<T, AS_TO_SILU, AS_P_GATE_UP>(a, at);
        prefetch<AS_TO_SUM>(AS_P_DOWN, at);
        meet();
        as_persistent_multiply<T, AS_TO_SUM, AS_P_DOWN>(a, at);
        if (at + 1 < a.layers)
            prefetch<AS_TO_QKV>(AS_P_QKV, at + 1);
        else
            prefetch<AS_TO_FLOAT>(AS_P_HEAD, 0);
        meet();
    }
    template <int HEAD_DIM> __device__ void run() {
        stamp(0);
        const int64_t row = (int64_t)(*a.token % a.vocab) * a.d_model;
        for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < a.d_model; i += (int)(gridDim.x * blockDim.x))
            a.x[i] = as_number<T>::load(a.embedding + row + i);
        prefetch<AS_TO_QKV>(AS_P_QKV, 0);
        meet();
#pragma unroll 1
        for (int i = 0; i < a.layers; i++)
            layer<HEAD_DIM>(i);
        as_persistent_multiply<T, AS_TO_FLOAT, AS_P_HEAD>(a, 0);
        finish();
    }
};

template <typename T, int HEAD_DIM>
static __global__ void __launch_bounds__(AS_GEMV_THREADS, 1)
    as_persistent_kernel(const __grid_constant__ as_persistent<T> a) {
    as_persistent_block<T>(a).template run<HEAD_DIM>();
}

template <typename T> static as_persistent<T> describe(const as_decoder *d) {
    static const as_tensor_role role[AS_PRODUCTS] = {AS_T_QKV, AS_T_O, AS_T_GATE_UP, AS_T_DOWN, AS_T_HEAD};
    as_persistent<T> a = {};
    a.blocks = d->multiprocessors;
    for (int i = 0; i < AS_PRODUCTS; i++) {
        as_product<T> *p = &a.product[i];
        const as_decoder_matrix *norm = &d->matrix[i == AS_P_QKV       ? AS_T_ATTN_NORM
                                                   : i == AS_P_GATE_UP ? AS_T_MLP_NORM
                                                                       : AS_T_FINAL_NORM];
        *p = as_product_of<T>(d, role[i], 0);
        a.stride[i] = d->matrix[role[i]].stride;
        a.plan[i] = as_gemv_plan_of<T>(p->rows, p->columns, a.blocks, as_decoder_tune.barrier_bytes);
        if (i == AS_P_O || i == AS_P_DOWN) {
            p->in = (const T *)(i == AS_P_O ? d->mixed : d->act);
            p->out = d->x;
        } else {
            p->stream = d->x;
            p->norm = (const T *)d->weights + norm->tensor.offset;
            a.norm_stride[i] = norm->stride;
            p->out = i == AS_P_QKV ? (void *)d->q : i == AS_P_GATE_UP ? (void *)d->act : (void *)d->logits;
        }
    }
    a.attention = as_attention_of<T>(d, 0);
    a.product[AS_P_QKV].cache = as_cache_of<T>(d, 0);
    a.cache_stride = as_step_kv_offset(&d->step, 1, 0, 0, 0);
    a.embedding = as_weights<T>(d, AS_T_EMBED, 0);
    a.token = d->token;
    a.vocab = (uint32_t)d->m->vocab;
    a.layers = d->m->layers;
    a.d_model = d->m->d_model;
    a.x = d->x;
    a.barrier = d->arrived + d->step.batch * d->m->kv_heads;
    a.stamp = d->stamp;
    return a;
}

template <typename T, int HEAD_DIM> static as_status issue(as_decoder *d, cudaStream_t stream, as_error *e) {
    const as_persistent<T> a = describe<T>(d);
    const as_issue how = {stream, false, true};
    size_t shared = as_attention_shared_bytes(d->m->head_dim, d->splits, AS_GEMV_THREADS / 32);
    for (int i = 0; i < AS_PRODUCTS; i++)
        shared = a.plan[i].shared_bytes > shared ? a.plan[i].shared_bytes : shared;
    return as_issue_kernel<as_persistent_kernel<T, HEAD_DIM>>(how, dim3((unsigned)a.blocks), AS_GEMV_THREADS, shared, e,
                                                              a);
}

as_status as_decoder_issue_persistent(as_decoder *d, cudaStream_t stream, as_error *e) {
    AS_TRY(as_decoder_stage_begins(d, AS_S_EMBED, -1, e));
    if (d->step.type == AS_F32)
        return issue<float, 0>(d, stream, e);
    if (d->m->head_dim == 128)
        return issue<as_bf16, 128>(d, stream, e);
    if (d->m->head_dim == 64)
        return issue<as_bf16, 64>(d, stream, e);
    return issue<as_bf16, 0>(d, stream, e);
}
