/* Convolutions in f32 on CUDA cores: an implicit matrix product (cnn_window.h) by tiles of 128 pixels x 64 channels, 8 x 4
 * sums a thread. Slabs of 16 terms go through shared memory, turned so that a thread reads its pixels and channels as
 * vectors: 3 reads of 16 bytes for 32 multiply-adds; the next slab is fetched meanwhile. */
#pragma once

#include "cnn_args.cuh"

enum { AS_CNN_F32_PIXELS = 128, AS_CNN_F32_CHANNELS = 64, AS_CNN_F32_TERMS = 16, AS_CNN_F32_THREADS = 256 };

static __global__ void __launch_bounds__(AS_CNN_F32_THREADS, 2) as_cnn_f32_kernel(const as_cnn_convolution<float> p) {
    enum { P = AS_CNN_F32_PIXELS, C = AS_CNN_F32_CHANNELS, K = AS_CNN_F32_TERMS };
    __shared__ __align__(16) float pixels[K][P + 4], channels[K][C + 4];
    const int t = (int)threadIdx.x, across = (p.channels + C - 1) / C;
    const uint32_t first = (uint32_t)((int)blockIdx.x / across * P);
    const int column = (int)blockIdx.x % across * C;
    /* To fetch: vectors of 4 terms, (row t / 4, vector t % 4) of channels, and of pixels that row and the one 64 on. */
    const int row = t / 4, vector = t % 4 * 4;
    const as_cnn_window &w = p.window;
    const bool inside[2] = {first + row < w.pixels, first + row + 64 < w.pixels}, channel = column + row < p.channels;
    const float *const from[2] = {p.in + (inside[0] ? as_cnn_window_at(&w, first + row).in : 0),
                                  p.in + (inside[1] ? as_cnn_window_at(&w, first + row + 64).in : 0)};
    const float *const weights = p.weights + (int64_t)(channel ? column + row : 0) * w.terms;
    as_cnn_term term = {0, 0, 0};
    float4 next[3];
    const float4 zero = make_float4(0, 0, 0, 0);
    auto fetch = [&]() {
        const bool more = term.k < w.terms;
        next[0] = more && inside[0] ? *(const float4 *)(from[0] + term.row + term.column) : zero;
        next[1] = more && inside[1] ? *(const float4 *)(from[1] + term.row + term.column) : zero;
        next[2] = more && channel ? *(const float4 *)(weights + term.k) : zero;
        as_cnn_term_move(&w, &term, K);
    };
    /* To compute: 8 pixels from y, 4 channels from x. */
    const int y = t / 16 * 8, x = t % 16 * 4;
    float sum[8][4] = {};
    as_cnn_term_move(&w, &term, (uint32_t)vector);
    fetch();
#pragma unroll 1
    for (uint32_t k = 0; k < w.terms; k += K) {
        const float *const in = (const float *)next;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            pixels[vector + i][row] = in[i];
            pixels[vector + i][row + 64] = in[4 + i];
            channels[vector + i][row] = in[8 + i];
        }
        __syncthreads();
        if (k + K < w.terms)
            fetch();
#pragma unroll
        for (int i = 0; i < K; i++) {
            const float4 a0 = *(const float4 *)&pixels[i][y], a1 = *(const float4 *)&pixels[i][y + 4],
                         b0 = *(const float4 *)&channels[i][x];
            const float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w}, b[4] = {b0.x, b0.y, b0.z, b0.w};
#pragma unroll
            for (int m = 0; m < 8; m++)
#pragma unroll
                for (int n = 0; n < 4; n++)
                    sum[m][n] += a[m] * b[n];
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < 8; m++) {
        const uint32_t pixel = first + (uint32_t)(y + m);
        if (pixel >= w.pixels)
            continue;
        const uint32_t at = as_cnn_window_at(&w, pixel).out;
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (column + x + n < p.channels)
                as_cnn_store(p, at, column + x + n, sum[m][n]);
    }
}
