/* Philox4x32-10 (Salmon et al., SC 2011), counter-based: element i of stream `key` is a pure function
 * of (seed, key, i), so CPU and GPU make the same bits, in any order, across index 2^32.
 *
 * The integer core and the integer-to-float conversions live in this header as static inline
 * functions that compile as C17, C++17 and CUDA C++ (AS_HD expands to __host__ __device__ there):
 * one text, so that the bits cannot differ. No libm. Each step is an integer operation, or a
 * conversion and a multiplication by a power of two that are exact: there is nothing to round,
 * and a compiler that contracts a multiplication into a caller's addition changes no bit.
 *
 * Layout of a stream: block b is Philox of counter (b low, b high, key, 0) under the key (seed low,
 * seed high). Its four words make 2 elements of AS_NORMAL, 4 of AS_UNIFORM, or 16 bytes of AS_BITS. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define AS_HD __host__ __device__
#else
#define AS_HD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Element types of operands. AS_TF32 is stored as an f32 whose low 13 bits of the fraction are 0. */
typedef enum as_dtype { AS_F32, AS_F64, AS_BF16, AS_F16, AS_F8E4M3, AS_I8, AS_U8, AS_U32, AS_I32, AS_TF32 } as_dtype;

/* Distribution of a seeded input.
 * AS_NORMAL: near-normal, a sum of 15 independent uniforms: 12 of one bit (variance 1/4 each) and three of
 *   width 2 (variance 1/3 each), halved. Mean 0, variance 1 - 5e-9, excess kurtosis -0.119 (a sum of 12 equal
 *   uniforms has -0.1), |x| < 4.5, in steps of 2^-20.
 * AS_UNIFORM: [-1, 1) in steps of 2^-23.
 * AS_BITS: raw bits, for copies: as floats they may be NaN.
 * AS_ZEROS: counters and accumulators that are inputs of an effect check.
 * The narrow floats are the f32 value rounded to nearest even. Integers: AS_NORMAL has standard deviation 28
 * around 0 (i8) or 128 (u8), and 2^28 around 2^31 (u32) or 0 (i32); AS_UNIFORM covers the type's whole range evenly. */
typedef enum as_dist { AS_NORMAL, AS_UNIFORM, AS_BITS, AS_ZEROS } as_dist;

typedef struct as_philox {
    uint32_t v[4];
} as_philox;

/* Ten rounds on a 128-bit counter with a 64-bit key; equal to the published known-answer vectors. */
static inline AS_HD as_philox as_philox4x32_10(as_philox counter, uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * counter.v[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * counter.v[2];
        as_philox next;
        next.v[0] = (uint32_t)(p1 >> 32) ^ counter.v[1] ^ key0;
        next.v[1] = (uint32_t)p1;
        next.v[2] = (uint32_t)(p0 >> 32) ^ counter.v[3] ^ key1;
        next.v[3] = (uint32_t)p0;
        counter = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* Block `block` of stream (seed, key). */
static inline AS_HD as_philox as_rng_block(uint64_t block, uint64_t seed, uint32_t key) {
    as_philox counter;
    counter.v[0] = (uint32_t)block;
    counter.v[1] = (uint32_t)(block >> 32);
    counter.v[2] = key;
    counter.v[3] = 0;
    return as_philox4x32_10(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* Bits of a float, and back, on every compiler that sees this header. */
static inline AS_HD uint32_t as_f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline AS_HD float as_f32_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline AS_HD uint64_t as_f64_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Rounds the magnitude of a finite f32 (sign cleared) to nearest, ties to even, in a float format of `mantissa`
 * bits and exponent bias `bias` (bias <= 15, mantissa <= 10); subnormals too. The exponent may run over. */
static inline AS_HD uint32_t as_f32_round_narrow(uint32_t magnitude, uint32_t mantissa, uint32_t bias) {
    const uint32_t exponent = magnitude >> 23;
    const uint32_t lowest = 128u - bias; /* f32's biased exponent of the format's smallest normal */
    const uint32_t whole = (magnitude & 0x7FFFFFu) | (exponent ? 0x800000u : 0u);
    const uint32_t below = exponent < lowest ? lowest - exponent : 0u;
    uint32_t drop = 23u - mantissa + below;
    drop = drop < 25u ? drop : 25u; /* whole < 2^24: 25 dropped bits leave 0, and less than half a step */
    const uint32_t kept = whole >> drop;
    const uint32_t rounded = (whole + (1u << (drop - 1)) - 1u + (kept & 1u)) >> drop;
    /* `rounded` holds the hidden bit, so it carries the last 1 of the exponent; none for a subnormal. */
    return ((exponent > lowest ? exponent - lowest : 0u) << mantissa) + rounded;
}

/* f32 bits to the bits of a narrower float, to nearest even. bf16 and f16 overflow to infinity as IEEE 754 says;
 * f8e4m3, which has no infinity, saturates at 448. A NaN stays a NaN; nothing else becomes one. */
static inline AS_HD uint32_t as_bf16_round(uint32_t f32) {
    if ((f32 & 0x7FFFFFFFu) > 0x7F800000u)
        return (f32 >> 16) | 0x40u;
    return (f32 + 0x7FFFu + ((f32 >> 16) & 1u)) >> 16;
}
/* To 10 bits of fraction, as f32 bits; overflows to infinity. */
static inline AS_HD uint32_t as_tf32_round(uint32_t f32) {
    if ((f32 & 0x7FFFFFFFu) > 0x7F800000u)
        return (f32 | 0x400000u) & ~0x1FFFu;
    return (f32 + 0xFFFu + ((f32 >> 13) & 1u)) & ~0x1FFFu;
}
static inline AS_HD uint32_t as_f16_round(uint32_t f32) {
    const uint32_t magnitude = f32 & 0x7FFFFFFFu;
    uint32_t bits = as_f32_round_narrow(magnitude, 10, 15);
    bits = magnitude >= 0x477FF000u ? 0x7C00u : bits; /* 65520 is half a step above the largest */
    bits = magnitude > 0x7F800000u ? 0x7E00u : bits;
    return bits | ((f32 >> 16) & 0x8000u);
}
static inline AS_HD uint32_t as_f8e4m3_round(uint32_t f32) {
    const uint32_t magnitude = f32 & 0x7FFFFFFFu;
    uint32_t bits = as_f32_round_narrow(magnitude, 3, 7);
    bits = magnitude >= 0x43E00000u ? 0x7Eu : bits; /* 448 and above */
    bits = magnitude > 0x7F800000u ? 0x7Fu : bits;
    return bits | ((f32 >> 24) & 0x80u);
}

/* Exact widening to f32. */
static inline AS_HD float as_bf16_to_f32(uint32_t bits) { return as_f32_from_bits(bits << 16); }
static inline AS_HD float as_f16_to_f32(uint32_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 0x3FFu;
    if (exponent == 0) {
        const float value = (float)fraction * (1.0f / 16777216.0f); /* 2^-24, exact */
        return sign ? -value : value;
    }
    return as_f32_from_bits(sign | (exponent == 31 ? 0x7F800000u : (exponent + 112u) << 23) | fraction << 13);
}
static inline AS_HD float as_f8e4m3_to_f32(uint32_t bits) {
    const uint32_t sign = (bits & 0x80u) << 24, exponent = (bits >> 3) & 15u, fraction = bits & 7u;
    if (exponent == 0) {
        const float value = (float)fraction * (1.0f / 512.0f); /* 2^-9, exact */
        return sign ? -value : value;
    }
    if ((bits & 0x7Fu) == 0x7Fu)
        return as_f32_from_bits(sign | 0x7FC00000u);
    return as_f32_from_bits(sign | (exponent + 120u) << 23 | fraction << 20);
}

/* AS_NORMAL as an integer in units of 2^-21, from two words: |n| <= 9436926 < 2^24, so that f32 holds it exactly.
 * 12 bits of width 1 = 2^19, two fields of 20 bits and one of 12 bits (times 2^8) of width 2 = 2^20; the sum is
 * doubled less its mean. Variance 2^42 - 21846 in the units' square. */
static inline AS_HD int32_t as_rng_normal_q21(uint32_t w0, uint32_t w1) {
    uint32_t ones = w0 & 0xFFFu; /* population count of 12 bits: no instruction that SSE2 lacks */
    ones = ones - ((ones >> 1) & 0x555u);
    ones = (ones & 0x333u) + ((ones >> 2) & 0x333u);
    ones = (ones + (ones >> 4) + (ones >> 8)) & 0xFu;
    const uint32_t sum = (ones << 19) + (w0 >> 12) + (w1 >> 12) + ((w1 & 0xFFFu) << 8);
    return (int32_t)(2u * sum) - (12 * 524288 + 2 * 1048575 + 4095 * 256);
}
/* AS_UNIFORM as an integer in units of 2^-23, from one word: -2^23 <= n < 2^23. */
static inline AS_HD int32_t as_rng_uniform_q23(uint32_t word) { return (int32_t)(word >> 8) - 8388608; }

/* round to nearest even of n / 2^shift; n + 2^31 must not overflow. */
static inline AS_HD int32_t as_rng_shift_even(int32_t n, uint32_t shift) {
    const uint32_t u = (uint32_t)n + 0x80000000u; /* unsigned, so that the shift is defined for negative n */
    return (int32_t)((u + (1u << (shift - 1)) - 1u + ((u >> shift) & 1u)) >> shift) - (int32_t)(0x80000000u >> shift);
}

/* The bits of an element from its integer value: units of 2^-21 (AS_NORMAL) or 2^-23 (AS_UNIFORM). AS_UNIFORM of
 * the integer types comes from the word itself (as_rng_element_bits), so u32 has all its 32 bits. */
static inline AS_HD uint64_t as_rng_value_bits(as_dtype type, as_dist dist, int32_t n) {
    const float unit = dist == AS_NORMAL ? 1.0f / 2097152.0f : 1.0f / 8388608.0f;
    const float value = (float)n * unit; /* exact: |n| <= 2^24 and the unit is a power of two */
    switch (type) {
    case AS_F32: return as_f32_bits(value);
    case AS_F64: return as_f64_bits((double)value);
    case AS_BF16: return as_bf16_round(as_f32_bits(value));
    case AS_F16: return as_f16_round(as_f32_bits(value));
    case AS_F8E4M3: return as_f8e4m3_round(as_f32_bits(value));
    case AS_I8: return (uint8_t)as_rng_shift_even(n * 28, 21); /* |n| * 28 < 2^28; |result| <= 126 */
    case AS_U8: return (uint8_t)(as_rng_shift_even(n * 28, 21) + 128);
    case AS_U32: return (uint32_t)n * 128u + 0x80000000u;
    case AS_I32: return (uint32_t)n * 128u;
    case AS_TF32: return as_tf32_round(as_f32_bits(value));
    }
    return 0;
}
/* The bits of an AS_UNIFORM element of an integer type from its word. */
static inline AS_HD uint32_t as_rng_word_bits(as_dtype type, uint32_t word) {
    return type == AS_U32   ? word
           : type == AS_I32 ? word ^ 0x80000000u
           : type == AS_U8  ? word >> 24
                            : (word >> 24) ^ 0x80u;
}
/* Types whose AS_UNIFORM elements come from the word itself. */
static inline AS_HD int as_rng_is_integer(as_dtype type) {
    return type == AS_I8 || type == AS_U8 || type == AS_U32 || type == AS_I32;
}

/* Bytes of one element: 1, 2, 4 or 8. */
static inline AS_HD uint32_t as_rng_type_bytes(as_dtype type) {
    return type == AS_F64                                                            ? 8u
           : (type == AS_F32 || type == AS_U32 || type == AS_I32 || type == AS_TF32) ? 4u
           : (type == AS_BF16 || type == AS_F16)                                     ? 2u
                                                                                     : 1u;
}

/* Element `index` of stream (seed, key): its bits in the low bytes, the rest 0. One Philox block a call: the
 * plain definition of a stream. as_rng_fill gives the same bits several times faster. */
static inline AS_HD uint64_t as_rng_element_bits(as_dtype type, as_dist dist, uint64_t index, uint64_t seed,
                                                 uint32_t key) {
    if (dist == AS_ZEROS)
        return 0;
    if (dist == AS_NORMAL) {
        const as_philox b = as_rng_block(index >> 1, seed, key);
        const int odd = (int)(index & 1);
        return as_rng_value_bits(type, dist, as_rng_normal_q21(b.v[2 * odd], b.v[2 * odd + 1]));
    }
    if (dist == AS_UNIFORM) {
        const uint32_t word = as_rng_block(index >> 2, seed, key).v[index & 3];
        if (as_rng_is_integer(type))
            return as_rng_word_bits(type, word);
        return as_rng_value_bits(type, dist, as_rng_uniform_q23(word));
    }
    const uint32_t bytes = as_rng_type_bytes(type), per_block = 16u / bytes;
    const as_philox b = as_rng_block(index / per_block, seed, key);
    const uint32_t at = (uint32_t)(index % per_block) * bytes; /* first byte, little endian */
    if (bytes == 8)
        return b.v[at / 4] | (uint64_t)b.v[at / 4 + 1] << 32;
    const uint32_t word = b.v[at / 4] >> (at % 4 * 8);
    return bytes == 4 ? word : word & ((1u << (8 * bytes)) - 1u);
}

size_t as_dtype_bytes(as_dtype t);
const char *as_dtype_name(as_dtype t); /* "f32", "f64", "bf16", "f16", "f8e4m3", "i8", "u8", "u32", "i32", "tf32" */

/* Writes elements [first, first + count) of stream `key` to `out` (out[0] is element `first`). Allocates nothing. */
void as_rng_fill(void *out, as_dtype type, as_dist dist, uint64_t first, uint64_t count, uint64_t seed, uint32_t key);
/* Uniform integer in [0, bound) from a counter that advances: shuffles and sampled indices. bound >= 1.
 * Unbiased: a draw from the incomplete last interval is thrown away. */
typedef struct as_rng {
    uint64_t seed;
    uint32_t key;
    uint64_t counter;
} as_rng;
uint64_t as_rng_below(as_rng *r, uint64_t bound);
/* Fisher-Yates; n = 0 and n = 1 draw nothing. */
void as_rng_shuffle(as_rng *r, int *items, size_t n);

/* 64-bit checksum of bytes: XXH64 with the seed `start`. Used for inputs and for deterministic outputs.
 * `data` may be NULL where bytes is 0, and needs no alignment. */
uint64_t as_checksum(const void *data, size_t bytes, uint64_t start);

#ifdef __cplusplus
}
#endif
