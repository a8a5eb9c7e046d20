/* ceiling/tensor: products of the tensor cores with no traffic but shared memory's or registers', by element type.
 *
 *   on Hopper      two warpgroups an SM multiply 64 x 256 tiles by wgmma from two slabs of 128 bytes along k that stay in
 *                  shared memory, as matmul/wgmma does
 *   from 8.0 on    eight warps an SM multiply by mma.sync from fragments that stay in registers
 *
 * Operands are whole numbers of up to 8 bits, random (Philox, fixed seed): zeros or constants would let the chip run at
 * another clock and power (docs/method.md 13). The second slab holds the same values of A and the negated values of B,
 * in reversed order along k, except that one product is 1 x 1 in the first and 1 x 0 in the second. So every sum grows
 * by exactly 1 with a pair of slabs, never leaves a few thousand times the spread of a slab, and is exact in every type,
 * e4m3 with its 14 bits too. What is published is the number of multiply-adds behind the sums that came out right.
 *
 * AS_CEILING_TENSOR_UNITS units, dealt out over the blocks; one unit is 16 pairs of slabs for 128 x 256 sums. */
#include "ceiling.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "../tensor/hopper.cuh"
#include "../tensor/mma.cuh"
#include "../tensor/tensor_map.h"

#include <stdlib.h>

enum { PAIRS = AS_CEILING_TENSOR_PAIRS, SEGMENT = 64 };
/* Pairs of one warp in a unit: 8 warps x 8 products of 16 x 8 x 32 bytes a fragment. */
enum { MMA_PAIRS = PAIRS * 128 * 256 * 4 / (8 * 8 * 16 * 8) };

/* A random byte as a whole number that the type holds, times `sign`: 8 bits of fraction for the wide ones, 3 bits for
 * e4m3. Its bits. */
template <int ELEMENT> static __device__ __forceinline__ uint32_t number_bits(int value) {
    if constexpr (ELEMENT == AS_MM_S8)
        return (uint32_t)value & 0xFFu;
    else if constexpr (ELEMENT == AS_MM_TF32)
        return as_f32_bits((float)value);
    else if constexpr (ELEMENT == AS_MM_F16)
        return as_f16_round(as_f32_bits((float)value));
    else if constexpr (ELEMENT == AS_MM_BF16)
        return as_bf16_round(as_f32_bits((float)value));
    else
        return as_f8e4m3_round(as_f32_bits((float)value));
}
template <int ELEMENT> static __device__ __forceinline__ int number(uint32_t byte) {
    const int value = (int)(int8_t)(byte & 0xFFu);
    return ELEMENT == AS_MM_E4M3                           ? value / 16
           : ELEMENT == AS_MM_TF32 || ELEMENT == AS_MM_F16 ? 3 * value
           : value == -128                                 ? -127
                                                           : value;
}

#if __CUDA_ARCH__ >= 800
/* Thread 0 of a block publishes what its warps found. */
[[maybe_unused]] static __device__ void publish(unsigned long long right, double factor, double *out) {
    __shared__ unsigned long long total;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    atomicAdd(&total, right);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(out, (double)total * factor); /* whole numbers below 2^53: exact in any order */
}
#endif

#if AS_HAVE_WGMMA

/* 16 elements of row `row` from `k` on, both slabs, swizzled as the tensor cores expect. */
template <int ELEMENT>
static __device__ __forceinline__ void fill16(unsigned char *slab0, unsigned char *slab1, int row, int k, bool is_b) {
    constexpr int bytes = as_element_bytes(ELEMENT), slab = 128 / bytes;
    const as_philox random = as_rng_block((uint64_t)(row * (slab / 16) + k / 16), 42, is_b ? 2 : 1);
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int value = k + i == 0 ? 1 : number<ELEMENT>(random.v[i / 4] >> (i % 4 * 8));
        const int mirrored = k + i == 0 && is_b ? 0 : is_b ? -value : value;
        for (int s = 0; s < 2; s++) {
            const int at = (s ? slab - 1 - (k + i) : k + i) * bytes;
            unsigned char *to = (s ? slab1 : slab0) + row * 128 + ((at / 16 ^ row % 8) << 4) + at % 16;
            const uint32_t bits = number_bits<ELEMENT>(s ? mirrored : value);
            if constexpr (bytes == 4)
                *(uint32_t *)to = bits;
            else if constexpr (bytes == 2)
                *(uint16_t *)to = (uint16_t)bits;
            else
                *to = (unsigned char)bits;
        }
    }
}

template <int ELEMENT, typename T>
static __device__ __forceinline__ void multiply(T (&d)[128], uint64_t a, uint64_t b, int more) {
    if constexpr (ELEMENT == AS_MM_TF32)
        as_wgmma_tf32(d, a, b, more);
    else if constexpr (ELEMENT == AS_MM_BF16)
        as_wgmma_bf16(d, a, b, more);
    else if constexpr (ELEMENT == AS_MM_F16)
        as_wgmma_f16(d, a, b, more);
    else if constexpr (ELEMENT == AS_MM_E4M3)
        as_wgmma_e4m3(d, a, b, more);
    else
        as_wgmma_s8(d, a, b, more);
}

#endif

enum { WG_THREADS = 256, A_BYTES = 128 * 128, B_BYTES = 256 * 128, WG_SHARED = 1024 + 2 * (A_BYTES + B_BYTES) };

template <int ELEMENT> static __global__ void __launch_bounds__(WG_THREADS, 1) as_ceiling_wgmma_kernel(double *out) {
#if AS_HAVE_WGMMA
    typedef typename as_tensor_sum<ELEMENT>::type sum_t;
    constexpr int slab = 128 / as_element_bytes(ELEMENT);
    extern __shared__ unsigned char raw[];
    unsigned char *const shared = raw + (1024 - (as_shared_address(raw) & 1023u)) % 1024;
    unsigned char *const a0 = shared, *const b0 = shared + 2 * A_BYTES;
    for (int i = (int)threadIdx.x; i < 128 * slab / 16; i += WG_THREADS)
        fill16<ELEMENT>(a0, a0 + A_BYTES, i / (slab / 16), i % (slab / 16) * 16, false);
    for (int i = (int)threadIdx.x; i < 256 * slab / 16; i += WG_THREADS)
        fill16<ELEMENT>(b0, b0 + B_BYTES, i / (slab / 16), i % (slab / 16) * 16, true);
    as_fence_async();
    __syncthreads();

    const uint64_t a = as_tile_descriptor(as_shared_address(a0) + threadIdx.x / 128 * (A_BYTES / 2));
    const uint64_t b = as_tile_descriptor(as_shared_address(b0));
    unsigned long long right = 0;
    sum_t d[128];
    for (int unit = (int)blockIdx.x; unit < AS_CEILING_TENSOR_UNITS;) {
        int pairs = 0;
#pragma unroll 1
        for (int i = 0; i < SEGMENT && unit < AS_CEILING_TENSOR_UNITS; i++, unit += (int)gridDim.x)
#pragma unroll 1
            for (int pair = 0; pair < PAIRS; pair++, pairs++) {
                as_wgmma_fence();
#pragma unroll
                for (int step = 0; step < 8; step++)
                    multiply<ELEMENT>(d, a + step / 4 * (A_BYTES / 16) + step % 4 * 2,
                                      b + step / 4 * (B_BYTES / 16) + step % 4 * 2, pairs > 0 || step > 0);
                as_wgmma_commit();
                as_wgmma_wait<1>();
            }
        as_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < 128; i++) {
            if constexpr (ELEMENT == AS_MM_S8)
                asm volatile("" : "+r"(d[i])::"memory");
            else
                asm volatile("" : "+f"(d[i])::"memory");
            right += d[i] == (sum_t)pairs ? (unsigned long long)pairs : 0ull;
        }
    }
    publish(right, 2.0 * slab, out);
#endif
}

enum { MMA_THREADS = 256 };

/* Registers hold the 4 fragments of A and the 2 of B, with B's negated twins. */
template <int ELEMENT> static __global__ void __launch_bounds__(MMA_THREADS, 1) as_ceiling_mma_kernel(double *out) {
#if __CUDA_ARCH__ >= 800
    typedef typename as_tensor_sum<ELEMENT>::type sum_t;
    constexpr int bytes = as_element_bytes(ELEMENT), in_word = 4 / bytes;
    const int lane = (int)threadIdx.x % 32;
    uint32_t a[4][4], b[2][2][2]; /* b[sign][fragment][half] */
    for (int f = 0; f < 4; f++)
        for (int r = 0; r < 4; r++) {
            const as_philox random = as_rng_block((uint64_t)((f * 4 + r) * 32 + lane), 42, 1);
            a[f][r] = 0;
            for (int i = 0; i < in_word; i++) {
                const bool first = lane % 4 == 0 && r < 2 && i == 0; /* k = 0 of a row */
                a[f][r] |= number_bits<ELEMENT>(first ? 1 : number<ELEMENT>(random.v[i])) << (i * bytes * 8 % 32);
            }
        }
    for (int f = 0; f < 2; f++)
        for (int r = 0; r < 2; r++) {
            const as_philox random = as_rng_block((uint64_t)((f * 2 + r) * 32 + lane), 42, 2);
            b[0][f][r] = b[1][f][r] = 0;
            for (int i = 0; i < in_word; i++) {
                const bool first = lane % 4 == 0 && r == 0 && i == 0;
                const int value = first ? 1 : number<ELEMENT>(random.v[i]);
                b[0][f][r] |= number_bits<ELEMENT>(value) << (i * bytes * 8 % 32);
                b[1][f][r] |= number_bits<ELEMENT>(first ? 0 : -value) << (i * bytes * 8 % 32);
            }
        }
    unsigned long long right = 0;
    for (int unit = (int)blockIdx.x; unit < AS_CEILING_TENSOR_UNITS; unit += (int)gridDim.x) {
        sum_t d[4][2][4] = {};
#pragma unroll 1
        for (int pair = 0; pair < MMA_PAIRS; pair++)
#pragma unroll
            for (int sign = 0; sign < 2; sign++)
#pragma unroll
                for (int f = 0; f < 4; f++)
#pragma unroll
                    for (int j = 0; j < 2; j++)
                        as_mma<ELEMENT>(d[f][j], a[f], b[sign][j][0], b[sign][j][1]);
#pragma unroll
        for (int i = 0; i < 32; i++)
            right += d[i / 8][i / 4 % 2][i % 4] == (sum_t)MMA_PAIRS ? MMA_PAIRS : 0;
    }
    publish(right, 2.0 * 32 / bytes, out);
#endif
}

typedef void (*kernel_fn)(double *);

struct choice {
    kernel_fn wgmma, mma;
};

static bool find(const char *type, choice *out) {
    const as_matmul_type *t = as_matmul_type_named(type);
    switch (t ? t->element : AS_MM_F32) {
#define CASE(ELEMENT)                                                                                                  \
    case ELEMENT: *out = {as_ceiling_wgmma_kernel<ELEMENT>, as_ceiling_mma_kernel<ELEMENT>}; return true
        CASE(AS_MM_TF32);
        CASE(AS_MM_BF16);
        CASE(AS_MM_F16);
        CASE(AS_MM_E4M3);
        CASE(AS_MM_S8);
#undef CASE
    default: return false;
    }
}

/* What a launch needs. */
struct plan {
    kernel_fn kernel;
    int blocks, threads, shared_bytes;
};

as_status as_ceiling_tensor_available_cuda(as_device *device, as_error *e) {
    const cudaDeviceProp &d = as_cuda_of(device)->properties;
    if (d.major < 8)
        return as_fail(e, AS_EABSENT, "ceiling/tensor is for compute capability 8.0 and later; %.80s has %d.%d", d.name,
                       d.major, d.minor);
    return AS_OK;
}

as_status as_ceiling_tensor_prepare_cuda(const as_call *call, void **state, as_error *e) {
    const char *type = as_params_text(call->params, "type");
    const cudaDeviceProp &d = as_cuda_of(call->device)->properties;
    choice c = {};
    as_error why = {};
    if (!find(type, &c))
        return as_fail(e, AS_EUSAGE, "ceiling/tensor has no type %s", type);
    if (strcmp(type, "e4m3") == 0 && 10 * d.major + d.minor < 89)
        return as_fail(e, AS_EABSENT, "e4m3 needs compute capability 8.9; %.80s has %d.%d", d.name, d.major, d.minor);
    plan *p = (plan *)calloc(1, sizeof *p);
    if (!p)
        return as_fail(e, AS_ENOMEM, "no memory for the plan of ceiling/tensor");
    if (as_wgmma_available(call->device, &why) == AS_OK)
        *p = {c.wgmma, d.multiProcessorCount, WG_THREADS, WG_SHARED};
    else
        *p = {c.mma, d.multiProcessorCount, MMA_THREADS, 0};
    as_status s = AS_OK;
    AS_CUDA_GOTO(
        e, s,
        cudaFuncSetAttribute((const void *)p->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, p->shared_bytes));
    *state = p;
    return AS_OK;
out:
    free(p);
    return s;
}

void as_ceiling_tensor_finish_cuda(void *state) { free(state); }

as_status as_ceiling_tensor_cuda(const as_call *call, as_error *e) {
    const plan *p = (const plan *)call->state;
    double *out = (double *)call->operand[0];
    AS_CUDA(e, cudaMemsetAsync(out, 0, sizeof *out, as_cuda_stream(call->stream)));
    p->kernel<<<p->blocks, p->threads, p->shared_bytes, as_cuda_stream(call->stream)>>>(out);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}
