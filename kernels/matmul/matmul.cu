/* C[m x n] = A[m x k] B[k x n], float32, row-major: the CUDA ladder.
 *
 *   strided  one thread an element, the lanes of a warp down a column of C: each read of A and each write of C touches
 *            32 rows, so 32 sectors of 32 bytes for 128 bytes of use. The common mistake, kept to be measured.
 *   naive    one thread an element, 16 x 16 a block: a warp reads two elements of A and 16 neighbours of B. Every
 *            multiply-add takes 2 loads through L1. An SM starts one load for a warp in a cycle but four multiply-adds:
 *            at most 1/8 of the peak. Predicted 8 x strided or more.
 *   coalesced  the same code; a warp takes 32 neighbours in a row of C, so its read of B is a whole line of 128 bytes
 *            and its read of A one word. As many loads as naive, half the lines: predicted 1.0 to 1.2 x naive.
 *   tiled16  a block stages 16 x 16 tiles of A and B in shared memory. Four values of A come in one read (LDS.128), so
 *            that 4 multiply-adds take 5 reads: at most 1/5 of the peak, predicted up to 1.6 x coalesced. Each element
 *            is read from memory n / 16 times instead of n.
 *   tiled32  the same with 32 x 32 tiles: half the traffic and half the barriers for each multiply-add, the same
 *            shared-memory reads. Predicted 1.1 to 1.2 x tiled16: only register tiles lift the limit of 1/5.
 *   tile1d, tile2d, vectorised, double_buffered  register tiles: register_tiles.cu
 *   warptiled  the top: warptiled.cuh; its configurations warptiled.h, their choice warptiled.cu
 *   wmma, mma, wgmma  tensor cores: wmma.cu, mma.cuh, wgmma.cuh
 *   cublas, cublaslt  the vendor's: cublas.cu
 *   ref64    not timed: float64 sum and sum |a||b|, the device reference and the scale of its tolerance
 *
 * Measured on an H200, TFLOP/s: n = 4096: naive 3.0, coalesced 2.9, tiled16 8.2, tiled32 8.2; n = 1024: strided 0.5,
 * naive 5.0, coalesced 5.9. At 4096 coalescing gained nothing and 32 x 32 tiles no more than 16 x 16: not explained yet.
 *
 * Flops: one multiply and one add for each of m n k products: 2 m n k. Bytes at least: each input read once and the
 * output written once: 4 (m k + k n + m n).
 *
 * All kernels map a 1-D grid to output tiles and index in 64 bits, so that m, n and k are bounded by memory alone;
 * every edge is guarded. The order of the sum over k is fixed: the same inputs give the same bits. */
#include "matmul.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "tile.cuh"

/* One element a thread; blocks of HEIGHT x WIDTH threads, x fastest in a warp. ACROSS: x counts columns of C, else
 * rows. */
template <int WIDTH, int HEIGHT, bool ACROSS>
static __global__ void __launch_bounds__(WIDTH *HEIGHT)
    as_matmul_naive_kernel(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int64_t m,
                           int64_t n, int64_t k) {
    const as_tile t = as_tile_of_block(n, ACROSS ? HEIGHT : WIDTH, ACROSS ? WIDTH : HEIGHT);
    const int64_t row = t.row + (ACROSS ? threadIdx.y : threadIdx.x);
    const int64_t column = t.column + (ACROSS ? threadIdx.x : threadIdx.y);
    if (row >= m || column >= n)
        return;
    float sum = 0.0f;
    for (int64_t i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

/* One element a thread. Shared memory: 2 EDGE^2 floats. A row of A's tile is read by a whole warp at one address
 * (broadcast), a row of B's at consecutive ones: no bank conflicts. */
template <int EDGE>
static __global__ void __launch_bounds__(EDGE *EDGE)
    as_matmul_tiled_kernel(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int64_t m,
                           int64_t n, int64_t k) {
    __shared__ float tile_a[EDGE][EDGE], tile_b[EDGE][EDGE];
    const as_tile t = as_tile_of_block(n, EDGE, EDGE);
    const int x = (int)threadIdx.x, y = (int)threadIdx.y;
    const int64_t row = t.row + y, column = t.column + x;
    float sum = 0.0f;
    for (int64_t at = 0; at < k; at += EDGE) {
        /* Zeros outside the matrices: they add nothing, and every thread reaches the barriers. */
        tile_a[y][x] = row < m && at + x < k ? a[row * k + at + x] : 0.0f;
        tile_b[y][x] = at + y < k && column < n ? b[(at + y) * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EDGE; i++)
            sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}

/* One element, exactly, by its type. */
template <int ELEMENT> static __device__ __forceinline__ double as_element64(const void *p, int64_t i) {
    if constexpr (ELEMENT == AS_MM_BF16)
        return (double)as_bf16_to_f32(((const uint16_t *)p)[i]);
    else if constexpr (ELEMENT == AS_MM_F16)
        return (double)as_f16_to_f32(((const uint16_t *)p)[i]);
    else if constexpr (ELEMENT == AS_MM_E4M3)
        return (double)as_f8e4m3_to_f32(((const uint8_t *)p)[i]);
    else if constexpr (ELEMENT == AS_MM_S8)
        return (double)((const int8_t *)p)[i];
    else
        return (double)((const float *)p)[i];
}

/* b[step k + n across]: step and across say how B lies. */
template <int ELEMENT>
static __global__ void as_matmul_ref64_kernel(const void *__restrict__ a, const void *__restrict__ b,
                                              double *__restrict__ expected, double *__restrict__ scale, int64_t m,
                                              int64_t n, int64_t k, int64_t step, int64_t across, double rounding) {
    const as_tile t = as_tile_of_block(n, 16, 16);
    const int64_t row = t.row + threadIdx.y, column = t.column + threadIdx.x;
    if (row >= m || column >= n)
        return;
    double sum = 0.0, magnitude = 0.0;
    for (int64_t i = 0; i < k; i++) {
        const double x = as_element64<ELEMENT>(a, row * k + i),
                     y = as_element64<ELEMENT>(b, i * step + column * across);
        sum += x * y; /* the product of two floats of 24 bits is exact in float64 */
        magnitude += fabs(x) * fabs(y);
    }
    expected[row * n + column] = sum;
    scale[row * n + column] = as_matmul_scale(magnitude, fabs(sum), rounding, ELEMENT == AS_MM_S8);
}

template <int WIDTH, int HEIGHT, bool ACROSS> static as_status naive(const as_call *call, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    unsigned blocks = 0;
    AS_TRY(as_tile_grid(s.m, s.n, ACROSS ? HEIGHT : WIDTH, ACROSS ? WIDTH : HEIGHT, &blocks, e));
    as_matmul_naive_kernel<WIDTH, HEIGHT, ACROSS><<<blocks, dim3(WIDTH, HEIGHT), 0, as_cuda_stream(call->stream)>>>(
        (const float *)call->operand[0], (const float *)call->operand[1], (float *)call->operand[2], s.m, s.n, s.k);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_matmul_strided_cuda(const as_call *call, as_error *e) { return naive<32, 8, false>(call, e); }

as_status as_matmul_naive_cuda(const as_call *call, as_error *e) { return naive<16, 16, true>(call, e); }

as_status as_matmul_coalesced_cuda(const as_call *call, as_error *e) { return naive<32, 8, true>(call, e); }

template <int EDGE> static as_status tiled(const as_call *call, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    unsigned blocks = 0;
    AS_TRY(as_tile_grid(s.m, s.n, EDGE, EDGE, &blocks, e));
    as_matmul_tiled_kernel<EDGE><<<blocks, dim3(EDGE, EDGE), 0, as_cuda_stream(call->stream)>>>(
        (const float *)call->operand[0], (const float *)call->operand[1], (float *)call->operand[2], s.m, s.n, s.k);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_matmul_tiled16_cuda(const as_call *call, as_error *e) { return tiled<16>(call, e); }

as_status as_matmul_tiled32_cuda(const as_call *call, as_error *e) { return tiled<32>(call, e); }

template <int ELEMENT> static as_status ref64(const as_call *call, const as_matmul_type *t, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    unsigned blocks = 0;
    AS_TRY(as_tile_grid(s.m, s.n, 16, 16, &blocks, e));
    as_matmul_ref64_kernel<ELEMENT><<<blocks, dim3(16, 16), 0, as_cuda_stream(call->stream)>>>(
        call->operand[0], call->operand[1], (double *)call->operand[2], (double *)call->operand[3], s.m, s.n, s.k,
        t->b_transposed ? 1 : s.n, t->b_transposed ? s.k : 1, t->out_rounding / as_matmul_tolerance(t, s.k));
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_matmul_ref64_cuda(const as_call *call, as_error *e) {
    const as_matmul_type *t = as_matmul_type_of(call->params);
    switch (t->element) {
    case AS_MM_F32: return ref64<AS_MM_F32>(call, t, e);
    case AS_MM_TF32: return ref64<AS_MM_TF32>(call, t, e);
    case AS_MM_BF16: return ref64<AS_MM_BF16>(call, t, e);
    case AS_MM_F16: return ref64<AS_MM_F16>(call, t, e);
    case AS_MM_E4M3: return ref64<AS_MM_E4M3>(call, t, e);
    case AS_MM_S8: return ref64<AS_MM_S8>(call, t, e);
    }
    return AS_OK;
}
