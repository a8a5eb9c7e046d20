/* matmul/mma: tensor cores by mma.sync, the best that a warp can do with them.
 *
 * What this rung adds to wmma: slabs come by cp.async, `stages` - 1 of them in flight while one is multiplied, with one
 * barrier a slab; rows of 128 bytes in shared memory with their 16-byte pieces exchanged by the row's number (piece ^ row
 * mod 8), so that neither the copies nor ldmatrix meet a bank twice and nothing is padded; operands of the next step of k
 * are read while this one is multiplied; a warp takes 64 x 64 elements, so that a step of 32 bytes reads 2 x 64 x 32
 * bytes for 64 x 64 sums.
 *
 * Predicted before the first run: on Hopper mma.sync reaches about 62% of the rate of wgmma (Luo et al., Benchmarking and
 * Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking, 2024), so 0.6 to 0.65 of cublaslt in bf16, f16,
 * tf32 and s8; 1.5 to 2 x wmma. e4m3 has no mma.sync of its own on Hopper (the compiler widens to f16): below bf16.
 *
 * Measured on an H200 at n = 4096, TFLOP/s: bf16 380, 0.48 of cublaslt and 2.7 x wmma, in one run; s8 765 with 128 x 128
 * and four warps, two rounds. Less than predicted: cublaslt, which wgmma lets reach 795, was at 670 to 710 in what the
 * prediction was made from.
 *
 * Every size: pieces beyond m, n or k arrive as zeros; where rows of A and B are no whole 16 bytes they are gathered
 * element by element (ALIGNED = false), right and slow. */
#pragma once

#include "../tensor/mma.cuh"
#include "tile.cuh"

struct as_mma_args {
    const void *a, *b;
    void *c;
    int64_t m, n, k;
    int height; /* rows of tiles in a group, see as_tile_in_group */
};

template <int ELEMENT, int TILE_M, int TILE_N, int WARPS_M, int WARPS_N, int STAGES, int BLOCKS> struct as_mma_config {
    typedef typename as_tensor_sum<ELEMENT>::type sum_t;
    static constexpr int element = ELEMENT, tile_m = TILE_M, tile_n = TILE_N, warps_m = WARPS_M, warps_n = WARPS_N,
                         stages = STAGES, blocks = BLOCKS, threads = 32 * WARPS_M * WARPS_N;
    static constexpr int slab_bytes = 128, bytes = as_element_bytes(ELEMENT), slab = slab_bytes / bytes;
    static constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n, steps = slab_bytes / 32;
    static constexpr int stage_bytes = (tile_m + tile_n) * slab_bytes, shared_bytes = stages * stage_bytes;
    static constexpr int rows = threads / 8; /* of 128 bytes, in one pass of all threads */
    /* Sets of operands: the next step's are read ahead. Widened e4m3 leaves no registers for that, nor for several
     * steps at once. */
    static constexpr int sets = ELEMENT == AS_MM_E4M3 ? 1 : 2, unroll = ELEMENT == AS_MM_E4M3 ? 1 : steps;
    static_assert(warp_m % 16 == 0 && warp_n % 16 == 0 && tile_m % rows == 0 && tile_n % rows == 0, "whole fragments");
};

#if __CUDA_ARCH__ >= 800

/* Where this thread copies one operand's slabs from, and to: ROWS rows of 128 bytes, a piece of 16 bytes of every
 * C::rows-th row. */
template <class C, int ROWS, bool ALIGNED> struct as_mma_copier {
    const char *from; /* this thread's first piece of the next slab; not ALIGNED: of the row */
    int left;         /* rows of the matrix from this thread's first on */
    int to;           /* offset in the operand's part of a stage: rows keep their number mod 8 from pass to pass */
    static_assert(C::rows % 8 == 0, "the exchange of pieces is the same in every pass");

    __device__ __forceinline__ as_mma_copier(const void *matrix, int64_t first, int64_t total, int64_t k) {
        const int piece = (int)threadIdx.x % 8, y = (int)threadIdx.x / 8;
        from = (const char *)matrix + (first + y) * k * C::bytes + (ALIGNED ? piece * 16 : 0);
        left = (int)(total - first < ROWS ? total - first : ROWS) - y;
        to = y * C::slab_bytes + ((piece ^ (y & 7)) << 4);
    }
    /* The slab from element `at` on, into `stage`. */
    __device__ __forceinline__ void copy(unsigned char *stage, int at, int k) {
        const int element = at + (int)threadIdx.x % 8 * (16 / C::bytes);
        const unsigned pitch = (unsigned)k * C::bytes;
#pragma unroll
        for (int i = 0; i < ROWS; i += C::rows) {
            const char *row = from + (uint64_t)pitch * i;
            unsigned char *const there = stage + to + i * C::slab_bytes;
            if constexpr (ALIGNED)
                as_copy16((uint32_t)__cvta_generic_to_shared(there), row, i < left && element < k);
            else
                *(uint4 *)there = as_gather16<C::bytes>(row, element, k, i < left);
        }
        if constexpr (ALIGNED)
            from += C::slab_bytes;
    }
};

/* Operands of one step of 32 bytes: a[i] 16 rows, b[j] 16 columns (two fragments). */
template <class C>
static __device__ __forceinline__ void as_mma_read(uint32_t (&a)[C::warp_m / 16][4], uint32_t (&b)[C::warp_n / 16][4],
                                                   uint32_t stage, int warp_row, int warp_column, int step) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < C::warp_m / 16; i++) {
        const int y = warp_row + i * 16 + lane % 16;
        as_ldmatrix4(a[i], stage + y * C::slab_bytes + (((step * 2 + lane / 16) ^ (y & 7)) << 4));
    }
#pragma unroll
    for (int j = 0; j < C::warp_n / 16; j++) {
        const int x = warp_column + j * 16 + lane / 16 * 8 + lane % 8;
        as_ldmatrix4(b[j], stage + (C::tile_m + x) * C::slab_bytes + (((step * 2 + lane / 8 % 2) ^ (x & 7)) << 4));
    }
}

template <class C>
static __device__ __forceinline__ void as_mma_store(const typename C::sum_t (&d)[C::warp_m / 16][C::warp_n / 8][4],
                                                    const as_mma_args &p, int64_t row, int64_t column) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < C::warp_m / 16; i++)
#pragma unroll
        for (int j = 0; j < C::warp_n / 8; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int64_t y = row + i * 16 + lane / 4 + 8 * h, x = column + j * 8 + lane % 4 * 2, at = y * p.n + x;
                const typename C::sum_t *pair = &d[i][j][2 * h];
                if (y >= p.m || x >= p.n)
                    continue;
                if (p.n % 2 == 0) { /* both lie in the matrix, aligned */
                    if constexpr (C::element == AS_MM_S8)
                        *(int2 *)((int *)p.c + at) = make_int2(pair[0], pair[1]);
                    else if constexpr (C::element == AS_MM_TF32)
                        *(float2 *)((float *)p.c + at) = make_float2(pair[0], pair[1]);
                    else
                        *(uint32_t *)((uint16_t *)p.c + at) =
                            C::element == AS_MM_F16
                                ? as_f16_round(as_f32_bits(pair[0])) | as_f16_round(as_f32_bits(pair[1])) << 16
                                : as_bf16_round(as_f32_bits(pair[0])) | as_bf16_round(as_f32_bits(pair[1])) << 16;
                } else {
                    as_store_sum<C::element>(p.c, at, pair[0]);
                    if (x + 1 < p.n)
                        as_store_sum<C::element>(p.c, at + 1, pair[1]);
                }
            }
}

#endif /* __CUDA_ARCH__ >= 800 */

template <class C, bool ALIGNED>
static __global__ void __launch_bounds__(C::threads, ALIGNED ? C::blocks : 1)
    as_matmul_mma_kernel(const as_mma_args p) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(128) unsigned char shared[];
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    const int warp = (int)threadIdx.x / 32;
    const int warp_row = warp / C::warps_n * C::warp_m, warp_column = warp % C::warps_n * C::warp_n;
    const as_tile t = as_tile_in_group(p.m, p.n, C::tile_m, C::tile_n, p.height);
    typename C::sum_t d[C::warp_m / 16][C::warp_n / 8][4] = {};
    uint32_t a[C::sets][C::warp_m / 16][4], b[C::sets][C::warp_n / 16][4];

    as_mma_copier<C, C::tile_m, ALIGNED> copier_a(p.a, t.row, p.m, p.k);
    as_mma_copier<C, C::tile_n, ALIGNED> copier_b(p.b, t.column, p.n, p.k);
    const int k = (int)p.k, slabs = (k + C::slab - 1) / C::slab;
    int reading = 0, writing = 0; /* stages */
    auto copy = [&](int slab) {
        if (slab < slabs) {
            unsigned char *const stage = shared + writing * C::stage_bytes;
            copier_a.copy(stage, slab * C::slab, k);
            copier_b.copy(stage + C::tile_m * C::slab_bytes, slab * C::slab, k);
        }
        writing = writing + 1 == C::stages ? 0 : writing + 1;
        asm volatile("cp.async.commit_group;" ::: "memory"); /* an empty group at the end keeps the count */
    };
#pragma unroll
    for (int s = 0; s < C::stages - 1; s++)
        copy(s);
#pragma unroll 1
    for (int slab = 0; slab < slabs; slab++) {
        /* The slab has arrived for all threads, and all have read the one before: its stage is free for the copy. */
        asm volatile("cp.async.wait_group %0;" ::"n"(C::stages - 2) : "memory");
        __syncthreads();
        const uint32_t stage = base + (uint32_t)(reading * C::stage_bytes);
        reading = reading + 1 == C::stages ? 0 : reading + 1;
        as_mma_read<C>(a[0], b[0], stage, warp_row, warp_column, 0);
        copy(slab + C::stages - 1);
#pragma unroll C::unroll
        for (int step = 0; step < C::steps; step++) {
            const int set = step % C::sets;
            if (C::sets > 1 && step + 1 < C::steps)
                as_mma_read<C>(a[C::sets - 1 - set], b[C::sets - 1 - set], stage, warp_row, warp_column, step + 1);
#pragma unroll
            for (int i = 0; i < C::warp_m / 16; i++)
#pragma unroll
                for (int j = 0; j < C::warp_n / 8; j++)
                    as_mma<C::element>(d[i][j], a[set][i], b[set][j / 2][j % 2 * 2], b[set][j / 2][j % 2 * 2 + 1]);
            if (C::sets == 1 && step + 1 < C::steps)
                as_mma_read<C>(a[0], b[0], stage, warp_row, warp_column, step + 1);
        }
    }
    as_mma_store<C>(d, p, t.row + warp_row, t.column + warp_column);
#endif
}
