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

/* Eight channels at once: 16 or 32 bytes, aligned. */
template <typename T> static __device__ __forceinline__ void as_cnn_load8(const T *p, float (&x)[8]) {
    uint4 word[sizeof(T) / 2];
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 2); i++)
        word[i] = ((const uint4 *)p)[i];
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = as_number<T>::load((const T *)word + i);
}
template <typename T> static __device__ __forceinline__ void as_cnn_store8(T *p, const float (&x)[8]) {
    uint4 word[sizeof(T) / 2];
#pragma unroll
    for (int i = 0; i < 8; i++)
        as_number<T>::store((T *)word + i, x[i]);
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 2); i++)
        ((uint4 *)p)[i] = word[i];
}

/* The epilogue of as_cnn_finish for eight channels of a pixel; a layer's channels are whole eights, logits may end in
 * between. */
template <typename T>
static __device__ __forceinline__ void as_cnn_store_eight(const as_cnn_convolution<T> &p, uint32_t at, int channel,
                                                          float (&sum)[8]) {
    float bias[8], add[8] = {};
    as_cnn_load8(p.bias + channel, bias);
    if (p.add)
        as_cnn_load8(p.add + at + channel, add);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float x = sum[i] * p.scale + AS_CNN_BIAS * bias[i] + add[i];
        sum[i] = p.relu && x < 0 ? 0 : x;
    }
    if (p.out) {
        as_cnn_store8(p.out + at + channel, sum);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (channel + i < p.channels)
            p.logits[at + channel + i] = sum[i];
}

/* Of four lanes each has one value for each of four: lane q gets those for q, x[p] from lane p. */
static __device__ __forceinline__ void as_cnn_transpose(float (&x)[4]) {
    const int q = (int)threadIdx.x % 4;
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & step)
                continue;
            const bool upper = q & step;
            const float got = __shfl_xor_sync(~0u, upper ? x[i] : x[i + step], step);
            if (upper)
                x[i] = got;
            else
                x[i + step] = got;
        }
}

/* A lane has two channels of each of many fragments (as_mma): four lanes exchange them, so that each has eight channels of
 * one fragment side by side, and the four write 64 bytes or more of a pixel at once. */
template <class C, typename T>
static __device__ __forceinline__ void as_cnn_store_tile(const float (&d)[C::warp_m / 16][C::warp_n / 8][4],
                                                         const as_cnn_convolution<T> &p, uint32_t row, int column) {
    static_assert(C::warp_n % 32 == 0, "fragments by fours");
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < C::warp_m / 16; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t pixel = row + (uint32_t)(i * 16 + lane / 4 + 8 * h);
            const uint32_t at = as_cnn_window_at(&p.window, pixel).out;
#pragma unroll
            for (int j = 0; j < C::warp_n / 8; j += 4) {
                float even[4], odd[4], sum[8];
#pragma unroll
                for (int k = 0; k < 4; k++)
                    even[k] = d[i][j + k][2 * h], odd[k] = d[i][j + k][2 * h + 1];
                as_cnn_transpose(even);
                as_cnn_transpose(odd);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    sum[2 * k] = even[k], sum[2 * k + 1] = odd[k];
                const int channel = column + (j + lane % 4) * 8;
                if (pixel < p.window.pixels && channel < p.channels)
                    as_cnn_store_eight(p, at, channel, sum);
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
