/* Convolutions on tensor cores: an implicit matrix product of [pixels][terms] and [channels][terms] (cnn_window.h), by the
 * pieces of matmul/mma (../matmul/mma.cuh): slabs of 128 bytes along the terms by cp.async, `stages` - 1 of them in flight,
 * pieces exchanged by row, operands of the next step read ahead. What differs is where a slab of pixels comes from: each
 * thread keeps the beginnings of its windows, and one position along the terms that all of them share. */
#pragma once

#include "../matmul/mma.cuh"
#include "cnn_args.cuh"

template <int ELEMENT> struct as_cnn_element;
template <> struct as_cnn_element<AS_MM_F16> { typedef as_f16 type; };
template <> struct as_cnn_element<AS_MM_BF16> { typedef as_bf16 type; };
template <> struct as_cnn_element<AS_MM_TF32> { typedef as_tf32 type; };

#if __CUDA_ARCH__ >= 800

/* This thread's pieces of the pixels' slabs: one of 16 bytes in every C::rows-th row. */
template <class C> struct as_cnn_copier {
    static constexpr int count = C::tile_m / C::rows, elements = 16 / C::bytes;
    const char *in;
    uint32_t window[count];
    unsigned inside; /* bit i: the pixel of row i exists */
    as_cnn_term term;
    int to;

    __device__ __forceinline__ as_cnn_copier(const void *images, const as_cnn_window &w, uint32_t first) {
        const int piece = (int)threadIdx.x % 8, y = (int)threadIdx.x / 8;
        in = (const char *)images;
        inside = 0;
#pragma unroll
        for (int i = 0; i < count; i++) {
            const uint32_t pixel = first + (uint32_t)(y + i * C::rows);
            window[i] = pixel < w.pixels ? as_cnn_window_at(&w, pixel).in : 0;
            inside |= (unsigned)(pixel < w.pixels) << i;
        }
        term = {0, 0, 0};
        as_cnn_term_move(&w, &term, (uint32_t)(piece * elements));
        to = y * C::slab_bytes + ((piece ^ (y & 7)) << 4);
    }
    __device__ __forceinline__ void copy(uint32_t stage, const as_cnn_window &w) {
#pragma unroll
        for (int i = 0; i < count; i++)
            as_copy16(stage + (uint32_t)(to + i * C::rows * C::slab_bytes),
                      in + (uint64_t)(window[i] + term.row + term.column) * C::bytes,
                      (inside >> i & 1) && term.k < w.terms);
        as_cnn_term_move(&w, &term, C::slab);
    }
};

/* Two channels side by side at once; their number is even. */
template <typename T>
static __device__ __forceinline__ void as_cnn_store_pair(const as_cnn_convolution<T> &p, uint32_t at, int channel,
                                                         float u, float v) {
    u = as_cnn_finish(p, at, channel, u), v = as_cnn_finish(p, at, channel + 1, v);
    if (!p.out) {
        *(float2 *)(p.logits + at + channel) = make_float2(u, v);
        return;
    }
    T pair[2];
    as_number<T>::store(&pair[0], u);
    as_number<T>::store(&pair[1], v);
    if constexpr (sizeof(T) == 4)
        *(float2 *)(p.out + at + channel) = make_float2(pair[0].value, pair[1].value);
    else
        *(uint32_t *)(p.out + at + channel) = pair[0].bits | (uint32_t)pair[1].bits << 16;
}

template <class C, typename T>
static __device__ __forceinline__ void as_cnn_store_tile(const float (&d)[C::warp_m / 16][C::warp_n / 8][4],
                                                         const as_cnn_convolution<T> &p, uint32_t row, int column) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < C::warp_m / 16; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t pixel = row + (uint32_t)(i * 16 + lane / 4 + 8 * h);
            if (pixel >= p.window.pixels)
                continue;
            const uint32_t at = as_cnn_window_at(&p.window, pixel).out;
#pragma unroll
            for (int j = 0; j < C::warp_n / 8; j++) {
                const int channel = column + j * 8 + lane % 4 * 2;
                if (channel < p.channels)
                    as_cnn_store_pair(p, at, channel, d[i][j][2 * h], d[i][j][2 * h + 1]);
            }
        }
}

#endif /* __CUDA_ARCH__ >= 800 */

/* Blocks: tiles of channels first, so that those that read the same pixels run together. */
template <class C>
static __global__ void __launch_bounds__(C::threads, C::blocks)
    as_cnn_mma_kernel(const as_cnn_convolution<typename as_cnn_element<C::element>::type> p) {
#if __CUDA_ARCH__ >= 800
    const uint32_t base = as_shared_offset(as_shared());
    const int warp = (int)threadIdx.x / 32;
    const int warp_row = warp / C::warps_n * C::warp_m, warp_column = warp % C::warps_n * C::warp_n;
    const int across = (p.channels + C::tile_n - 1) / C::tile_n;
    const uint32_t row = (uint32_t)((int)blockIdx.x / across * C::tile_m);
    const int column = (int)blockIdx.x % across * C::tile_n;
    float d[C::warp_m / 16][C::warp_n / 8][4] = {};
    uint32_t a[C::sets][C::warp_m / 16][4], b[C::sets][C::warp_n / 16][4];

    as_cnn_copier<C> pixels(p.in, p.window, row);
    as_mma_copier<C, C::tile_n, true> channels(p.weights, column, p.channels, p.window.terms);
    const int terms = (int)p.window.terms, slabs = (terms + C::slab - 1) / C::slab;
    int reading = 0, writing = 0; /* stages */
    auto copy = [&](int slab) {
        if (slab < slabs) {
            pixels.copy(base + (uint32_t)(writing * C::stage_bytes), p.window);
            channels.copy(as_shared() + writing * C::stage_bytes + C::tile_m * C::slab_bytes, slab * C::slab, terms);
        }
        writing = writing + 1 == C::stages ? 0 : writing + 1;
        as_copies_commit(); /* an empty group at the end keeps the count */
    };
#pragma unroll
    for (int s = 0; s < C::stages - 1; s++)
        copy(s);
#pragma unroll 1
    for (int slab = 0; slab < slabs; slab++) {
        /* The slab has arrived for all threads, and all have read the one before: its stage is free for the copy. */
        as_copies_wait<C::stages - 2>();
        __syncthreads();
        const uint32_t stage = base + (uint32_t)(reading * C::stage_bytes);
        reading = reading + 1 == C::stages ? 0 : reading + 1;
        as_mma_read<C>(a[0], b[0], stage, warp_row, warp_column, 0);
        copy(slab + C::stages - 1);
#pragma unroll
        for (int step = 0; step < C::steps; step++) {
            const int set = step % C::sets;
            if (step + 1 < C::steps)
                as_mma_read<C>(a[C::sets - 1 - set], b[C::sets - 1 - set], stage, warp_row, warp_column, step + 1);
#pragma unroll
            for (int i = 0; i < C::warp_m / 16; i++)
#pragma unroll
                for (int j = 0; j < C::warp_n / 8; j++)
                    as_mma<C::element>(d[i][j], a[set][i], b[set][j / 2][j % 2 * 2], b[set][j / 2][j % 2 * 2 + 1]);
        }
    }
    as_cnn_store_tile<C>(d, p, row + (uint32_t)warp_row, column + warp_column);
#endif
}
