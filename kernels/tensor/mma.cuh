/* Tensor cores of one warp (mma.sync, ldmatrix) and what feeds them, the same for every type: rows of 32 bytes along k
 * are one step, whatever elements they hold. From compute capability 8.0, e4m3 from 8.9. */
#pragma once

#include "../matmul/types.h"

#include <stdint.h>

/* What C's sums are: float, or int for s8. */
template <int ELEMENT> struct as_tensor_sum { typedef float type; };
template <> struct as_tensor_sum<AS_MM_S8> { typedef int type; };

static constexpr AS_HD int as_element_bytes(int element) {
    return element == AS_MM_F32 || element == AS_MM_TF32 ? 4 : element == AS_MM_BF16 || element == AS_MM_F16 ? 2 : 1;
}

/* 16 bytes of a row from element `from` on, zeros where !valid or from `count` elements on: element by element, for rows
 * that are not aligned. */
template <int BYTES>
static __device__ __forceinline__ uint4 as_gather16(const void *row, int64_t from, int64_t count, bool valid) {
    uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 16 / BYTES; i++) {
        if (!valid || from + i >= count)
            continue;
        uint32_t bits;
        if constexpr (BYTES == 4)
            bits = ((const uint32_t *)row)[from + i];
        else if constexpr (BYTES == 2)
            bits = ((const uint16_t *)row)[from + i];
        else
            bits = ((const uint8_t *)row)[from + i];
        word[i * BYTES / 4] |= bits << (i * BYTES % 4 * 8);
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* A sum as an element of C. */
template <int ELEMENT>
static __device__ __forceinline__ void as_store_sum(void *c, int64_t at, typename as_tensor_sum<ELEMENT>::type sum) {
    if constexpr (ELEMENT == AS_MM_S8)
        ((int *)c)[at] = sum;
    else if constexpr (ELEMENT == AS_MM_TF32)
        ((float *)c)[at] = sum;
    else if constexpr (ELEMENT == AS_MM_F16)
        ((uint16_t *)c)[at] = (uint16_t)as_f16_round(as_f32_bits(sum));
    else
        ((uint16_t *)c)[at] = (uint16_t)as_bf16_round(as_f32_bits(sum));
}

#if __CUDA_ARCH__ >= 800

/* Four 8 x 16-byte matrices; lane l gives the address of row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void as_ldmatrix4(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* d += a b for 16 x 8 sums and 32 bytes along k. d[2 h + i]: row lane / 4 + 8 h, column lane % 4 * 2 + i. */
#define AS_MMA(SHAPE_TYPES, CONSTRAINT)                                                                                \
    asm volatile("mma.sync.aligned." SHAPE_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"    \
                 : CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3])                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <int ELEMENT>
static __device__ __forceinline__ void as_mma(typename as_tensor_sum<ELEMENT>::type (&d)[4], const uint32_t (&a)[4],
                                              uint32_t b0, uint32_t b1) {
    if constexpr (ELEMENT == AS_MM_TF32)
        AS_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
    else if constexpr (ELEMENT == AS_MM_BF16)
        AS_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
    else if constexpr (ELEMENT == AS_MM_F16)
        AS_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
    else if constexpr (ELEMENT == AS_MM_S8)
        AS_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
#if __CUDA_ARCH__ >= 890
    else
        AS_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "+f");
#endif
}

/* 16 bytes from global to shared memory; zeros where !valid (then nothing is read). */
static __device__ __forceinline__ void as_copy16(uint32_t to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}

#endif
