/* matmul/wmma: tensor cores by the compiler's own interface, nvcuda::wmma.
 *
 * What this rung adds to the float32 ladder: a warp multiplies 16 x 16 fragments by one instruction a step. The tiles are
 * those of a plain kernel: 128 x 128 elements of C a block, slabs of 64 bytes along k in shared memory (rows padded by 16
 * bytes against bank conflicts), loaded by all threads and awaited by all: load, barrier, multiply, barrier. Nothing
 * overlaps within a block; the other blocks on the SM fill the gaps. A warp holds 32 x 64 elements, 2 x 4 fragments.
 *
 * Predicted before the first run: 0.25 to 0.35 of cublaslt in bf16 on Hopper: no asynchronous copies, and 3 fragments
 * read for 2.7 products. That is still 3 to 4 x the float32 ceiling.
 *
 * Measured on an H200 at n = 4096: 143 TFLOP/s in bf16, 0.18 of cublaslt in the same run (795) and 2.3 x the float32
 * ceiling: less than predicted.
 *
 * The interface has no e4m3. Every size: what lies outside arrives as zeros; C leaves by fragments through shared
 * memory, since the layout of a fragment in registers is not specified. */
#include "matmul.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "../tensor/mma.cuh"
#include "tile.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

enum { TILE = 128, SLAB_BYTES = 64, PITCH = SLAB_BYTES + 16, THREADS = 256, WARPS_N = 2, WARP_M = 32, WARP_N = 64 };

/* Without linkage: other files have a table of this name, which the linker would take for the same. */
namespace {

/* Types of the interface, and elements along k of one fragment. */
template <int ELEMENT> struct interface;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
template <> struct interface<AS_MM_TF32> {
    typedef float stored;
    typedef nvcuda::wmma::precision::tf32 type;
    static constexpr int k = 8;
};
template <> struct interface<AS_MM_BF16> {
    typedef __nv_bfloat16 stored, type;
    static constexpr int k = 16;
};
#endif
template <> struct interface<AS_MM_F16> {
    typedef __half stored, type;
    static constexpr int k = 16;
};
template <> struct interface<AS_MM_S8> {
    typedef signed char stored, type;
    static constexpr int k = 16;
};

} // namespace

/* 128 rows of a slab into shared memory: two pieces of 16 bytes a thread. `row`: this thread's first row in the matrix;
 * `left`: rows of the matrix from it on. */
template <int BYTES, bool ALIGNED>
static __device__ __forceinline__ void load(unsigned char *to, const char *row, int left, int k, int at) {
    const int x = (int)threadIdx.x % (SLAB_BYTES / 16), y = (int)threadIdx.x / (SLAB_BYTES / 16);
    const int from = at + x * (16 / BYTES);
#pragma unroll
    for (int i = 0; i < TILE; i += THREADS / (SLAB_BYTES / 16)) {
        const char *start = row + (uint64_t)((unsigned)k * BYTES) * i;
        uint4 piece = make_uint4(0, 0, 0, 0);
        if constexpr (!ALIGNED)
            piece = as_gather16<BYTES>(start, from, k, i < left);
        else if (i < left && from < k)
            piece = *(const uint4 *)(start + from * BYTES);
        *(uint4 *)(to + (y + i) * PITCH + x * 16) = piece;
    }
}

/* ALIGNED: rows of A and B are whole 16 bytes. */
template <int ELEMENT, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS, ALIGNED ? 2 : 1)
    as_matmul_wmma_kernel(const void *a, const void *b, void *c, int64_t m, int64_t n, int64_t k) {
#if __CUDA_ARCH__ >= 800
    constexpr bool here = true;
#else
    constexpr bool here = ELEMENT == AS_MM_F16 || ELEMENT == AS_MM_S8;
#endif
    if constexpr (here) {
        using namespace nvcuda;
        typedef interface<ELEMENT> I;
        typedef typename as_tensor_sum<ELEMENT>::type sum_t;
        constexpr int bytes = as_element_bytes(ELEMENT), slab = SLAB_BYTES / bytes, pitch = PITCH / bytes;
        __shared__ __align__(128) unsigned char shared[2 * TILE * PITCH];
        unsigned char *const tile_a = shared, *const tile_b = shared + TILE * PITCH;
        const as_tile t = as_tile_of_block(n, TILE, TILE);
        const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        const int warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
        wmma::fragment<wmma::accumulator, 16, 16, I::k, sum_t> d[WARP_M / 16][WARP_N / 16];
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
            for (int j = 0; j < WARP_N / 16; j++)
                wmma::fill_fragment(d[i][j], (sum_t)0);
        const int y = (int)threadIdx.x / (SLAB_BYTES / 16);
        const char *const row_a = (const char *)a + (t.row + y) * k * bytes;
        const char *const row_b = (const char *)b + (t.column + y) * k * bytes;
        const int left_a = (int)(m - t.row) - y, left_b = (int)(n - t.column) - y;
#pragma unroll 1
        for (int at = 0; at < (int)k; at += slab) {
            load<bytes, ALIGNED>(tile_a, row_a, left_a, (int)k, at);
            load<bytes, ALIGNED>(tile_b, row_b, left_b, (int)k, at);
            __syncthreads();
#pragma unroll
            for (int step = 0; step < slab; step += I::k) {
                wmma::fragment<wmma::matrix_a, 16, 16, I::k, typename I::type, wmma::row_major> fa[WARP_M / 16];
                wmma::fragment<wmma::matrix_b, 16, 16, I::k, typename I::type, wmma::col_major> fb;
#pragma unroll
                for (int i = 0; i < WARP_M / 16; i++)
                    wmma::load_matrix_sync(
                        fa[i], (const typename I::stored *)(tile_a + (warp_row + i * 16) * PITCH) + step, pitch);
#pragma unroll
                for (int j = 0; j < WARP_N / 16; j++) {
                    wmma::load_matrix_sync(
                        fb, (const typename I::stored *)(tile_b + (warp_column + j * 16) * PITCH) + step, pitch);
#pragma unroll
                    for (int i = 0; i < WARP_M / 16; i++)
                        wmma::mma_sync(d[i][j], fa[i], fb, d[i][j]);
                }
            }
            __syncthreads();
        }
        /* The tiles are done with: 16 x 16 sums a warp. */
        sum_t *const out = (sum_t *)shared + warp * 256;
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
            for (int j = 0; j < WARP_N / 16; j++) {
                wmma::store_matrix_sync(out, d[i][j], 16, wmma::mem_row_major);
                __syncwarp();
#pragma unroll 1
                for (int x = lane; x < 256; x += 32) { /* unrolled, its addresses would not fit the registers */
                    const int64_t row = t.row + warp_row + i * 16 + x / 16;
                    const int64_t column = t.column + warp_column + j * 16 + x % 16;
                    if (row < m && column < n)
                        as_store_sum<ELEMENT>(c, row * n + column, out[x]);
                }
                __syncwarp();
            }
    }
}

as_status as_matmul_wmma_prepare_cuda(const as_call *call, void **state, as_error *e) {
    const as_matmul_element element = as_matmul_type_of(call->params)->element;
    const cudaDeviceProp &d = as_cuda_of(call->device)->properties;
    *state = NULL;
    if ((element == AS_MM_BF16 || element == AS_MM_TF32) && d.major < 8)
        return as_fail(e, AS_EABSENT, "bf16 and tf32 need compute capability 8.0; %.80s has %d.%d", d.name, d.major,
                       d.minor);
    return AS_OK;
}

void as_matmul_wmma_finish_cuda(void *state) { (void)state; }

template <int ELEMENT> static as_status launch(const as_call *call, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    unsigned blocks = 0;
    AS_TRY(as_tile_grid(s.m, s.n, TILE, TILE, &blocks, e));
    const bool aligned = s.k * as_element_bytes(ELEMENT) % 16 == 0;
    (aligned ? as_matmul_wmma_kernel<ELEMENT, true>
             : as_matmul_wmma_kernel<ELEMENT, false>)<<<blocks, THREADS, 0, as_cuda_stream(call->stream)>>>(
        call->operand[0], call->operand[1], call->operand[2], s.m, s.n, s.k);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_matmul_wmma_cuda(const as_call *call, as_error *e) {
    switch (as_matmul_type_of(call->params)->element) {
    case AS_MM_TF32: return launch<AS_MM_TF32>(call, e);
    case AS_MM_BF16: return launch<AS_MM_BF16>(call, e);
    case AS_MM_F16: return launch<AS_MM_F16>(call, e);
    case AS_MM_S8: return launch<AS_MM_S8>(call, e);
    default: return as_fail(e, AS_EUSAGE, "matmul/wmma takes tf32, bf16, f16 and s8");
    }
}
