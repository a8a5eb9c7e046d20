/* Plain kernels of convolutional networks: rung naive's convolution, and what every rung shares: images into their border,
 * pools, the stem's weights into rows of whole pieces. A thread an output, channels innermost. */
#pragma once

#include "cnn_args.cuh"

enum { AS_CNN_THREADS = 256 };

template <typename T>
static __global__ void __launch_bounds__(AS_CNN_THREADS) as_cnn_naive_kernel(const as_cnn_convolution<T> p) {
    const int64_t i = (int64_t)blockIdx.x * AS_CNN_THREADS + threadIdx.x;
    const uint32_t pixel = (uint32_t)(i / p.channels);
    const int channel = (int)(i % p.channels);
    if (pixel >= p.window.pixels)
        return;
    const as_cnn_where at = as_cnn_window_at(&p.window, pixel);
    const T *weights = p.weights + (int64_t)channel * p.window.terms;
    float sum = 0;
    for (uint32_t row = 0, k = 0; k < p.window.terms; row += p.window.gap)
        for (uint32_t column = 0; column < p.window.run; column++, k++)
            sum += as_number<T>::load(p.in + at.in + row + column) * as_number<T>::load(weights + k);
    as_cnn_store(p, at.out, channel, sum);
}

/* The largest, or the mean, of windows of kernel x kernel pixels of `pitch` channels. Beyond the border is 0, and no
 * input is below it. */
template <typename T>
static __global__ void __launch_bounds__(AS_CNN_THREADS)
    as_cnn_pool_kernel(const as_cnn_window w, int kernel, int pitch, bool mean, const T *in, T *out) {
    const int64_t i = (int64_t)blockIdx.x * AS_CNN_THREADS + threadIdx.x;
    const uint32_t pixel = (uint32_t)(i / pitch), channel = (uint32_t)(i % pitch);
    if (pixel >= w.pixels)
        return;
    const as_cnn_where at = as_cnn_window_at(&w, pixel);
    float most = 0, sum = 0;
    for (int y = 0; y < kernel; y++)
        for (int x = 0; x < kernel; x++) {
            const float value = as_number<T>::load(in + at.in + y * w.gap + x * pitch + channel);
            most = value > most || value != value ? value : most; /* a NaN stays */
            sum += value;
        }
    as_number<T>::store(out + at.out + channel, mean ? sum / (float)(kernel * kernel) : most);
}

/* [batch][side][side][channels] into the layout of the stem's input; beyond `channels` of a pixel stays 0. */
template <typename T>
static __global__ void __launch_bounds__(AS_CNN_THREADS)
    as_cnn_images_kernel(const as_cnn_layout l, int channels, uint32_t pixels, const T *from, T *to) {
    const uint32_t pixel = blockIdx.x * AS_CNN_THREADS + threadIdx.x, side = (uint32_t)l.side;
    if (pixel >= pixels)
        return;
    const uint32_t row = pixel / side, image = row / side;
    T *const out = to + image * as_cnn_layout_image(&l) +
                   as_cnn_layout_at(&l, (int)(row - image * side), (int)(pixel - row * side));
    for (int c = 0; c < channels; c++)
        out[c] = from[(int64_t)pixel * channels + c];
}

/* [out][kernel][kernel][channels] into [out][kernel][run]: pixels of `pitch` elements. `to` is 0. */
template <typename T>
static __global__ void __launch_bounds__(AS_CNN_THREADS)
    as_cnn_stem_kernel(const T *from, int outputs, int kernel, int channels, int pitch, int run, T *to) {
    const int i = (int)(blockIdx.x * AS_CNN_THREADS + threadIdx.x), row = i / (kernel * channels),
              within = i % (kernel * channels);
    if (row < outputs * kernel)
        to[row * run + within / channels * pitch + within % channels] = from[i];
}
