/* Host side of the seeded inputs: the fast fill, sampling and the checksum.
 *
 * The fill computes BLOCKS Philox blocks at once, word by word in arrays, so that the compiler turns every
 * loop into vector code. The same text is compiled for the baseline, AVX2 and AVX-512; the choice is made at
 * run time, so that a packaged binary runs on any x86-64. All of it is integer or exact, so every copy gives
 * the bits of as_rng_element_bits. */
#include "rng.h"

#include <assert.h>
#include <stdbool.h>

size_t as_dtype_bytes(as_dtype t) { return as_rng_type_bytes(t); }

const char *as_dtype_name(as_dtype t) {
    switch (t) {
    case AS_F32: return "f32";
    case AS_F64: return "f64";
    case AS_BF16: return "bf16";
    case AS_F16: return "f16";
    case AS_F8E4M3: return "f8e4m3";
    case AS_I8: return "i8";
    case AS_U8: return "u8";
    case AS_U32: return "u32";
    case AS_I32: return "i32";
    case AS_TF32: return "tf32";
    }
    return "unknown";
}

enum { BLOCKS = 64, WORDS = 4 * BLOCKS };

/* Stores of bits that the caller reads as floats: exempt from the aliasing rule. */
typedef uint64_t __attribute__((may_alias)) word64;
typedef uint32_t __attribute__((may_alias)) word32;
typedef uint16_t __attribute__((may_alias)) word16;

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Words of blocks [first, first + BLOCKS) in stream order. */
ALWAYS_INLINE void philox_words(uint32_t *restrict out, uint64_t first, uint64_t seed, uint32_t key) {
    uint32_t a[BLOCKS], b[BLOCKS], c[BLOCKS], d[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        const uint64_t block = first + (uint64_t)i;
        a[i] = (uint32_t)block;
        b[i] = (uint32_t)(block >> 32);
        c[i] = key;
        d[i] = 0;
    }
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * a[i];
            const uint64_t p1 = (uint64_t)0xCD9E8D57u * c[i];
            a[i] = (uint32_t)(p1 >> 32) ^ b[i] ^ key0;
            b[i] = (uint32_t)p1;
            c[i] = (uint32_t)(p0 >> 32) ^ d[i] ^ key1;
            d[i] = (uint32_t)p0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < BLOCKS; i++) {
        out[4 * i] = a[i];
        out[4 * i + 1] = b[i];
        out[4 * i + 2] = c[i];
        out[4 * i + 3] = d[i];
    }
}

/* Elements of one chunk (BLOCKS blocks) from its words; with constant arguments one plain loop remains. */
ALWAYS_INLINE void convert(void *restrict out, const uint32_t *restrict words, as_dtype type, as_dist dist) {
    const bool normal = dist == AS_NORMAL;
    const bool direct = !normal && as_rng_is_integer(type);
    const int count = normal ? WORDS / 2 : WORDS;
    for (int i = 0; i < count; i++) {
        uint64_t bits;
        if (direct)
            bits = as_rng_word_bits(type, words[i]);
        else if (normal)
            bits = as_rng_value_bits(type, AS_NORMAL, as_rng_normal_q21(words[2 * i], words[2 * i + 1]));
        else
            bits = as_rng_value_bits(type, AS_UNIFORM, as_rng_uniform_q23(words[i]));
        switch (as_rng_type_bytes(type)) {
        case 8: ((word64 *)out)[i] = bits; break;
        case 4: ((word32 *)out)[i] = (uint32_t)bits; break;
        case 2: ((word16 *)out)[i] = (uint16_t)bits; break;
        default: ((uint8_t *)out)[i] = (uint8_t)bits; break;
        }
    }
}

/* Makes one chunk of the stream, from block `first` on. `out` is aligned to its element. */
ALWAYS_INLINE void make_chunk(void *out, as_dtype type, as_dist dist, uint64_t first, uint64_t seed, uint32_t key) {
    uint32_t words[WORDS];
    philox_words(words, first, seed, key);
    if (dist == AS_BITS) {
        memcpy(out, words, sizeof words);
        return;
    }
#define CASE(t)                                                                                                        \
    case t:                                                                                                            \
        if (dist == AS_NORMAL)                                                                                         \
            convert(out, words, t, AS_NORMAL);                                                                         \
        else                                                                                                           \
            convert(out, words, t, AS_UNIFORM);                                                                        \
        break
    switch (type) {
        CASE(AS_F32);
        CASE(AS_F64);
        CASE(AS_BF16);
        CASE(AS_F16);
        CASE(AS_F8E4M3);
        CASE(AS_I8);
        CASE(AS_U8);
        CASE(AS_U32);
        CASE(AS_I32);
        CASE(AS_TF32);
    }
#undef CASE
}

typedef void chunk_function(void *out, as_dtype type, as_dist dist, uint64_t first, uint64_t seed, uint32_t key);

static void chunk_base(void *out, as_dtype type, as_dist dist, uint64_t first, uint64_t seed, uint32_t key) {
    make_chunk(out, type, dist, first, seed, key);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void chunk_avx2(void *out, as_dtype type, as_dist dist, uint64_t first,
                                                       uint64_t seed, uint32_t key) {
    make_chunk(out, type, dist, first, seed, key);
}
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))) static void
chunk_avx512(void *out, as_dtype type, as_dist dist, uint64_t first, uint64_t seed, uint32_t key) {
    make_chunk(out, type, dist, first, seed, key);
}
#endif

static chunk_function *choose_chunk(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return chunk_avx512;
    if (__builtin_cpu_supports("avx2"))
        return chunk_avx2;
#endif
    return chunk_base;
}

void as_rng_fill(void *out, as_dtype type, as_dist dist, uint64_t first, uint64_t count, uint64_t seed, uint32_t key) {
    const size_t bytes = as_dtype_bytes(type);
    if (count == 0)
        return;
    if (dist == AS_ZEROS) {
        memset(out, 0, count * bytes);
        return;
    }
    const uint64_t per_block = dist == AS_NORMAL ? 2 : dist == AS_UNIFORM ? 4 : 16 / bytes;
    const uint64_t per_chunk = per_block * BLOCKS;
    chunk_function *const chunk = choose_chunk();
    unsigned char *at = out;
    uint64_t block = first / per_block;
    uint64_t skip = first % per_block; /* elements of the first block that come before `first` */
    while (count) {
        if (skip == 0 && count >= per_chunk && (uintptr_t)at % bytes == 0) {
            chunk(at, type, dist, block, seed, key);
            at += per_chunk * bytes;
            count -= per_chunk;
        } else {
            uint64_t whole[WORDS]; /* room for the widest case, 256 elements of 8 bytes */
            chunk(whole, type, dist, block, seed, key);
            const uint64_t n = per_chunk - skip < count ? per_chunk - skip : count;
            memcpy(at, (const unsigned char *)whole + skip * bytes, n * bytes);
            at += n * bytes;
            count -= n;
            skip = 0;
        }
        block += BLOCKS;
    }
}

uint64_t as_rng_below(as_rng *r, uint64_t bound) {
    assert(bound >= 1);
    const uint64_t biased = -bound % bound; /* 2^64 mod bound: that many draws would favour small results */
    for (;;) {
        /* Word 3 of the counter is 1 here and 0 in a fill: draws never repeat an input's blocks. */
        const as_philox counter = {{(uint32_t)r->counter, (uint32_t)(r->counter >> 32), r->key, 1}};
        const as_philox b = as_philox4x32_10(counter, (uint32_t)r->seed, (uint32_t)(r->seed >> 32));
        r->counter++;
        const uint64_t draw = b.v[0] | (uint64_t)b.v[1] << 32;
        if (draw >= biased)
            return draw % bound;
    }
}

void as_rng_shuffle(as_rng *r, int *items, size_t n) {
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)as_rng_below(r, i);
        const int swap = items[i - 1];
        items[i - 1] = items[j];
        items[j] = swap;
    }
}

/* XXH64, from its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md); words are little endian. */
static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }
static uint64_t read64(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
static uint32_t read32(const unsigned char *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
static uint64_t lane(uint64_t accumulator, uint64_t word) { return rotate(accumulator + word * P2, 31) * P1; }
static uint64_t merge(uint64_t hash, uint64_t accumulator) { return (hash ^ lane(0, accumulator)) * P1 + P4; }

uint64_t as_checksum(const void *data, size_t bytes, uint64_t start) {
    const unsigned char *p = data;
    size_t left = bytes;
    uint64_t h = start + P5;
    if (left >= 32) {
        uint64_t v1 = start + P1 + P2, v2 = start + P2, v3 = start, v4 = start - P1;
        for (; left >= 32; left -= 32, p += 32) {
            v1 = lane(v1, read64(p));
            v2 = lane(v2, read64(p + 8));
            v3 = lane(v3, read64(p + 16));
            v4 = lane(v4, read64(p + 24));
        }
        h = rotate(v1, 1) + rotate(v2, 7) + rotate(v3, 12) + rotate(v4, 18);
        h = merge(merge(merge(merge(h, v1), v2), v3), v4);
    }
    h += bytes;
    for (; left >= 8; left -= 8, p += 8)
        h = rotate(h ^ lane(0, read64(p)), 27) * P1 + P4;
    if (left >= 4) {
        h = rotate(h ^ read32(p) * P1, 23) * P2 + P3;
        left -= 4;
        p += 4;
    }
    for (; left > 0; left--, p++)
        h = rotate(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}
