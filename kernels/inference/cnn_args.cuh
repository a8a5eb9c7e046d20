/* What the kernels of convolutional networks share: their arguments, elements of each type, the epilogue. */
#pragma once

#include "cnn_window.h"
#include "numbers.cuh"

struct as_f16 {
    uint16_t bits;
};
/* f32 whose low 13 bits are 0. */
struct as_tf32 {
    float value;
};

template <> struct as_number<as_f16> {
    static constexpr int vector = 8;
    static __device__ __forceinline__ float load(const as_f16 *p) { return as_widen_f16(p->bits); }
    static __device__ __forceinline__ void store(as_f16 *p, float x) { p->bits = as_narrow_f16(x); }
};
template <> struct as_number<as_tf32> {
    static constexpr int vector = 4;
    static __device__ __forceinline__ float load(const as_tf32 *p) { return p->value; }
    static __device__ __forceinline__ void store(as_tf32 *p, float x) {
        p->value = __uint_as_float(as_tf32_round(__float_as_uint(x)));
    }
};

/* A convolution: out[pixel][channel] = scale * sum + bias, and so on (cnn.h). Images lie as cnn_window.h says. */
template <typename T> struct as_cnn_convolution {
    as_cnn_window window;
    const T *in, *weights, *bias; /* weights [channels][window.terms] */
    const T *add;                 /* where out is, or NULL */
    T *out;                       /* NULL: logits */
    float *logits;
    int channels;
    float scale;
    bool relu;
};

/* `sum` of one channel at out-element `at` (of its pixel). */
template <typename T>
static __device__ __forceinline__ float as_cnn_finish(const as_cnn_convolution<T> &p, uint32_t at, int channel,
                                                      float sum) {
    sum = sum * p.scale + AS_CNN_BIAS * as_number<T>::load(p.bias + channel);
    if (p.add)
        sum += as_number<T>::load(p.add + at + channel);
    return p.relu && sum < 0 ? 0 : sum;
}

template <typename T>
static __device__ __forceinline__ void as_cnn_store(const as_cnn_convolution<T> &p, uint32_t at, int channel,
                                                    float sum) {
    const float x = as_cnn_finish(p, at, channel, sum);
    if (p.out)
        as_number<T>::store(p.out + at + channel, x);
    else
        p.logits[at + channel] = x;
}
