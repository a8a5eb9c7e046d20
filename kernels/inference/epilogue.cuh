/* What a product of the weights with the activations turns into. Rows of a matrix come in pairs that belong together:
 * neighbours, gate and up of one element, or the two rows that rotary embedding turns into one another. */
#pragma once

#include "numbers.cuh"

enum as_epilogue {
    AS_TO_FLOAT, /* out_f32[batch row][row] = sum */
    AS_TO_TYPE,  /* the same, rounded to the type of the weights */
    AS_TO_SUM,   /* residual[batch row][row] += sum */
    AS_TO_SILU,  /* out[batch row][pair] = silu(gate) * up */
    AS_TO_QKV,   /* rotated; queries to out, keys and values into the cache */
};

/* Where one layer's entries go: [batch][kv_heads][capacity][head_dim]; the step's tokens stand at *position and on. */
template <typename T> struct as_cache {
    T *keys, *values;
    int64_t capacity;
    const int *position;
    const double *turns; /* [head_dim / 2]: theta^(-2 i / head_dim) / 2 pi */
    int heads, kv_heads, head_dim;
};

template <typename T> struct as_product {
    const T *weights; /* [rows][columns] */
    int rows, columns, batch;
    float scale;
    const T *in;         /* [batch][columns] */
    const float *stream; /* instead of `in`: [batch][columns], normalised here with `norm` */
    const T *norm;
    float epsilon;
    void *out; /* see as_epilogue; AS_TO_SUM: float */
    as_cache<T> cache;
};

/* The rows of pair `p`. */
template <typename T, int EPILOGUE>
static __device__ __forceinline__ void as_pair_rows(const as_product<T> &a, int p, int &first, int &second) {
    if constexpr (EPILOGUE == AS_TO_SILU) {
        first = p, second = p + a.rows / 2;
    } else if constexpr (EPILOGUE == AS_TO_QKV) {
        const int half = a.cache.head_dim / 2, head = p / half;
        first = head * a.cache.head_dim + p - head * half, second = first + half;
    } else {
        first = 2 * p, second = first + 1;
    }
}

/* The sums of pair `p` for row `b` of the batch go where they belong. An odd last row has no second. */
template <typename T, int EPILOGUE>
static __device__ __forceinline__ void as_finish_pair(const as_product<T> &a, int b, int p, float u, float v) {
    int first, second;
    as_pair_rows<T, EPILOGUE>(a, p, first, second);
    u *= a.scale, v *= a.scale;
    if constexpr (EPILOGUE == AS_TO_FLOAT || EPILOGUE == AS_TO_TYPE || EPILOGUE == AS_TO_SUM) {
        const int64_t at = (int64_t)b * a.rows + first;
        const bool both = second < a.rows;
        if constexpr (EPILOGUE == AS_TO_TYPE) {
            as_number<T>::store((T *)a.out + at, u);
            if (both)
                as_number<T>::store((T *)a.out + at + 1, v);
        } else {
            float *const out = (float *)a.out + at;
            constexpr bool add = EPILOGUE == AS_TO_SUM;
            out[0] = add ? out[0] + u : u;
            if (both)
                out[1] = add ? out[1] + v : v;
        }
    } else if constexpr (EPILOGUE == AS_TO_SILU) {
        as_number<T>::store((T *)a.out + (int64_t)b * (a.rows / 2) + p, as_silu(u) * v);
    } else {
        const as_cache<T> &c = a.cache;
        const int half = c.head_dim / 2, head = p / half, i = p - head * half, position = *c.position;
        if (head < c.heads + c.kv_heads)
            as_rotate(u, v, c.turns[i], position);
        T *to;
        if (head < c.heads) {
            to = (T *)a.out + ((int64_t)b * c.heads + head) * c.head_dim;
        } else {
            const int kv = head - c.heads;
            T *const base = kv < c.kv_heads ? c.keys : c.values;
            const int at = kv < c.kv_heads ? kv : kv - c.kv_heads;
            to = base + (((int64_t)b * c.kv_heads + at) * c.capacity + position) * c.head_dim;
        }
        as_number<T>::store(to + i, u);
        as_number<T>::store(to + i + half, v);
    }
}
