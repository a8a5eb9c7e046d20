/* Seeded inputs: published vectors, bit equality of the fast and the plain path, rounding, moments, checksum. */
#include "rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

enum { TYPES = AS_TF32 + 1, DISTS = AS_ZEROS + 1 };

/* Known answers of Random123 (tests/kat_vectors, philox4x32 10). */
static void philox_known_answers(void **unused) {
    (void)unused;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } v[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        as_philox c;
        memcpy(c.v, v[i].counter, sizeof c.v);
        const as_philox got = as_philox4x32_10(c, v[i].key[0], v[i].key[1]);
        assert_memory_equal(got.v, v[i].answer, sizeof got.v);
    }
}

/* A second writing of a stream, from its description alone: powers by ldexp, rounding in double. */
static double slow_value(as_dist dist, uint64_t index, uint64_t seed, uint32_t key, uint32_t *word) {
    const uint64_t per_block = dist == AS_NORMAL ? 2 : 4, block = index / per_block;
    as_philox c = {{(uint32_t)(block & 0xffffffffu), (uint32_t)(block >> 32), key, 0}};
    c = as_philox4x32_10(c, (uint32_t)(seed & 0xffffffffu), (uint32_t)(seed >> 32));
    if (dist == AS_UNIFORM) {
        *word = c.v[index % 4];
        return ldexp(floor(*word / 256.0) - 8388608.0, -23);
    }
    const uint32_t w0 = c.v[index % 2 * 2], w1 = c.v[index % 2 * 2 + 1];
    double sum = 0.0; /* in units where a bit has width 1 and the three fields width 2 */
    for (int bit = 0; bit < 12; bit++)
        sum += (w0 >> bit) % 2 - 0.5;
    sum += ldexp((w0 >> 12) - (1048576 - 1) / 2.0, -19);
    sum += ldexp((w1 >> 12) - (1048576 - 1) / 2.0, -19);
    sum += ldexp((w1 % 4096) - (4096 - 1) / 2.0, -11);
    return sum / 2; /* standard deviation 2 to 1 */
}

/* Nearest value of a float format (ties to even) by search among all its values: slow, and shares no code. */
static uint32_t nearest(double x, float (*widen)(uint32_t), uint32_t codes, uint32_t sign, double limit,
                        uint32_t over) {
    const double magnitude = fabs(x);
    uint32_t low = 0, high = codes - 1; /* finite non-negative codes are in order */
    if (magnitude >= limit)
        return over | (signbit(x) ? sign : 0);
    while (low < high) { /* the largest code whose value is <= magnitude */
        const uint32_t middle = (low + high + 1) / 2;
        if ((double)widen(middle) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    if (low + 1 < codes) {
        const double below = magnitude - widen(low), above = widen(low + 1) - magnitude;
        if (above < below || (above == below && low % 2))
            low++;
    }
    return low | (signbit(x) ? sign : 0);
}
static float widen_bf16(uint32_t b) { return as_bf16_to_f32(b); }
static float widen_f16(uint32_t b) { return as_f16_to_f32(b); }
static float widen_f8(uint32_t b) { return as_f8e4m3_to_f32(b); }
static uint32_t nearest_bf16(double x) { return nearest(x, widen_bf16, 0x7f80, 0x8000, 0x1.ffp127, 0x7f80); }
static uint32_t nearest_f16(double x) { return nearest(x, widen_f16, 0x7c00, 0x8000, 65520.0, 0x7c00); }
static float widen_tf32(uint32_t b) { return as_f32_from_bits(b << 13); }
static uint32_t nearest_tf32(double x) { return nearest(x, widen_tf32, 0x3fc00, 0x40000, 0x1.ffep127, 0x3fc00) << 13; }
static uint32_t nearest_f8(double x) { return nearest(x, widen_f8, 0x7f, 0x80, 448.0, 0x7e); }

static uint64_t slow_bits(as_dtype type, as_dist dist, uint64_t index, uint64_t seed, uint32_t key) {
    uint32_t word = 0;
    const double x = slow_value(dist, index, seed, key, &word);
    const bool uniform = dist == AS_UNIFORM;
    switch (type) {
    case AS_F32: return as_f32_bits((float)x);
    case AS_F64: return as_f64_bits(x);
    case AS_BF16: return nearest_bf16(x);
    case AS_F16: return nearest_f16(x);
    case AS_F8E4M3: return nearest_f8(x);
    case AS_I8: return (uint8_t)(int8_t)(uniform ? (int)floor(x * 128) : (int)nearbyint(x * 28));
    case AS_U8: return (uint8_t)(uniform ? (int)floor(x * 128) + 128 : (int)nearbyint(x * 28) + 128);
    case AS_U32: return uniform ? word : (uint32_t)(x * 268435456.0 + 2147483648.0);
    case AS_I32: return uniform ? word ^ 0x80000000u : (uint32_t)(int32_t)(x * 268435456.0);
    case AS_TF32: return nearest_tf32(x);
    }
    return 0;
}

static const uint64_t edge = (uint64_t)1 << 32;

static void elements_match_the_description(void **unused) {
    (void)unused;
    const uint64_t starts[] = {0, edge - 1500, 2 * edge - 1500, 4 * edge - 1500, ((uint64_t)1 << 62) + 3};
    for (int t = 0; t < TYPES; t++)
        for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++)
            for (uint64_t i = starts[s]; i < starts[s] + 3000; i++)
                for (as_dist d = AS_NORMAL; d <= AS_UNIFORM; d++)
                    assert_int_equal(as_rng_element_bits((as_dtype)t, d, i, 0x123456789abcdef0u, 77),
                                     slow_bits((as_dtype)t, d, i, 0x123456789abcdef0u, 77));
}

/* AS_BITS of every type is one stream of bytes. */
static void bits_are_the_same_bytes(void **unused) {
    (void)unused;
    unsigned char want[4096], got[4096];
    as_rng_fill(want, AS_U8, AS_BITS, 8 * edge, sizeof want, 5, 6);
    for (uint32_t b = 0; b < sizeof want / 16; b++) {
        const as_philox c = as_rng_block(8 * edge / 16 + b, 5, 6);
        assert_memory_equal(want + 16 * b, c.v, 16);
    }
    for (int t = 0; t < TYPES; t++) {
        const size_t bytes = as_dtype_bytes((as_dtype)t);
        as_rng_fill(got, (as_dtype)t, AS_BITS, 8 * edge / bytes, sizeof got / bytes, 5, 6);
        assert_memory_equal(got, want, sizeof got);
    }
}

static void fill_matches_elements_in_any_pieces(void **unused) {
    (void)unused;
    enum { N = 4099 };
    unsigned char *whole = malloc(N * 8 + 16), *pieces = malloc(N * 8 + 16);
    assert_true(whole && pieces);
    const uint64_t first = edge - 1001; /* odd, across index 2^32 and no multiple of a block */
    for (int t = 0; t < TYPES; t++)
        for (int d = 0; d < DISTS; d++) {
            const size_t bytes = as_dtype_bytes((as_dtype)t);
            memset(whole, 0xa5, N * 8 + 16);
            memset(pieces, 0xa5, N * 8 + 16);
            as_rng_fill(whole, (as_dtype)t, (as_dist)d, first, N, 42, 9);
            for (size_t i = 0; i < N; i++) {
                const uint64_t bits = as_rng_element_bits((as_dtype)t, (as_dist)d, first + i, 42, 9);
                assert_memory_equal(whole + i * bytes, &bits, bytes);
            }
            /* 1, 3, 7, ... elements at odd addresses; an empty piece between. */
            unsigned char *odd = pieces + 1;
            for (size_t at = 0, n = 1; at < N; at += n, n = 2 * n + 1) {
                n = n < N - at ? n : N - at;
                as_rng_fill(odd + at * bytes, (as_dtype)t, (as_dist)d, first + at, n, 42, 9);
                as_rng_fill(odd + (at + n) * bytes, (as_dtype)t, (as_dist)d, first + at + n, 0, 42, 9);
            }
            assert_memory_equal(odd, whole, N * bytes);
            for (size_t i = N * bytes; i < N * 8 + 15; i++) {
                assert_int_equal(whole[i], 0xa5); /* nothing behind the last element */
                assert_int_equal(odd[i], 0xa5);
            }
        }
    as_rng_fill(NULL, AS_F32, AS_NORMAL, 0, 0, 1, 1);
    as_rng_fill(NULL, AS_F32, AS_ZEROS, 0, 0, 1, 1);
    free(whole);
    free(pieces);
}

static void streams_differ_by_seed_and_key(void **unused) {
    (void)unused;
    float a[64], b[64], again[64];
    as_rng_fill(a, AS_F32, AS_NORMAL, 0, 64, 1, 1);
    as_rng_fill(again, AS_F32, AS_NORMAL, 0, 64, 1, 1);
    assert_memory_equal(a, again, sizeof a);
    const struct {
        uint64_t seed;
        uint32_t key;
    } other[] = {{2, 1}, {1, 2}, {1 + edge, 1}};
    for (size_t i = 0; i < 3; i++) {
        as_rng_fill(b, AS_F32, AS_NORMAL, 0, 64, other[i].seed, other[i].key);
        int equal = 0;
        for (int j = 0; j < 64; j++)
            equal += a[j] == b[j];
        assert_true(equal <= 1);
    }
}

static void moments(void **unused) {
    (void)unused;
    enum { N = 1 << 20 };
    double *x = malloc(N * sizeof *x);
    assert_non_null(x);
    for (as_dist d = AS_NORMAL; d <= AS_UNIFORM; d++) {
        as_rng_fill(x, AS_F64, d, 0, N, 42, 3);
        double m1 = 0, m2 = 0, m4 = 0, lag = 0, most = 0;
        for (int i = 0; i < N; i++) {
            m1 += x[i] / N;
            m2 += x[i] * x[i] / N;
            m4 += x[i] * x[i] * x[i] * x[i] / N;
            lag += i ? x[i] * x[i - 1] / N : 0;
            most = fabs(x[i]) > most ? fabs(x[i]) : most;
        }
        const double variance = d == AS_NORMAL ? 1.0 : 1.0 / 3, excess = d == AS_NORMAL ? -0.11875 : -1.2;
        assert_true(fabs(m1) < 5 * sqrt(variance / N));
        assert_true(fabs(lag) < 5 * variance / sqrt(N));
        assert_true(fabs(m2 / variance - 1) < 5 * sqrt((2 + excess) / N));
        assert_true(fabs(m4 / (m2 * m2) - 3 - excess) < 0.025); /* standard error sqrt(24 / N) = 0.005 */
        assert_true(d == AS_NORMAL ? most > 4.0 && most < 4.5 : most > 0.9999 && most <= 1.0);
    }
    free(x);
}

/* Every value of a format, both neighbours of every rounding boundary, and the boundary itself. */
static void check_rounding(uint32_t (*round_bits)(uint32_t), uint32_t (*slow)(double), float (*widen)(uint32_t),
                           uint32_t codes, float largest_step) {
    for (uint32_t code = 0; code < codes; code++) {
        const float low = widen(code);
        const float high = code + 1 < codes ? widen(code + 1) : low + largest_step;
        const double middle = (low + (double)high) / 2;
        const float probes[] = {low, nextafterf(low, INFINITY), nextafterf((float)middle, 0.0f), (float)middle,
                                nextafterf((float)middle, INFINITY)};
        for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++)
            for (int sign = 0; sign < 2; sign++) {
                const float x = sign ? -probes[i] : probes[i];
                if (isfinite(x))
                    assert_int_equal(round_bits(as_f32_bits(x)), slow(x));
            }
    }
}
static uint32_t round_bf16(uint32_t f) { return as_bf16_round(f); }
static uint32_t round_f16(uint32_t f) { return as_f16_round(f); }
static uint32_t round_tf32(uint32_t f) { return as_tf32_round(f); }
static uint32_t round_f8(uint32_t f) { return as_f8e4m3_round(f); }

static void rounding_at_every_boundary(void **unused) {
    (void)unused;
    check_rounding(round_bf16, nearest_bf16, widen_bf16, 0x7f80, INFINITY);
    check_rounding(round_tf32, nearest_tf32, widen_tf32, 0x3fc00, INFINITY);
    check_rounding(round_f16, nearest_f16, widen_f16, 0x7c00, 32.0f);
    check_rounding(round_f8, nearest_f8, widen_f8, 0x7f, 32.0f);
}

/* All exponents, with a stride of a prime through the fractions: subnormals of f32, overflow, both signs. */
static void rounding_everywhere(void **unused) {
    (void)unused;
    for (uint64_t b = 0; b < edge; b += 8191) {
        const float x = as_f32_from_bits((uint32_t)b);
        if (!isfinite(x))
            continue;
        assert_int_equal(as_bf16_round((uint32_t)b), nearest_bf16(x));
        assert_int_equal(as_tf32_round((uint32_t)b), nearest_tf32(x));
        assert_int_equal(as_f16_round((uint32_t)b), nearest_f16(x));
        assert_int_equal(as_f8e4m3_round((uint32_t)b), nearest_f8(x));
    }
}

static void rounding_of_special_values(void **unused) {
    (void)unused;
    assert_int_equal(as_bf16_round(as_f32_bits(INFINITY)), 0x7f80);
    assert_int_equal(as_f16_round(as_f32_bits(-INFINITY)), 0xfc00);
    assert_int_equal(as_f8e4m3_round(as_f32_bits(INFINITY)), 0x7e);
    assert_int_equal(as_f8e4m3_round(as_f32_bits(-1e30f)), 0xfe);
    assert_int_equal(as_bf16_round(as_f32_bits(-0.0f)), 0x8000);
    const uint32_t nan[] = {0x7fc00000, 0x7f800001, 0xff800001, 0x7fffffff};
    for (size_t i = 0; i < 4; i++) {
        assert_true(isnan(as_bf16_to_f32(as_bf16_round(nan[i]))));
        assert_true(isnan(as_f32_from_bits(as_tf32_round(nan[i]))));
        assert_true(isnan(as_f16_to_f32(as_f16_round(nan[i]))));
        assert_true(isnan(as_f8e4m3_to_f32(as_f8e4m3_round(nan[i]))));
    }
    /* Anchors of the formats, so that a fault in widening cannot hide one in rounding. */
    assert_true(as_f16_to_f32(0x0001) == 0x1p-24f && as_f16_to_f32(0x7bff) == 65504.0f);
    assert_true(as_f16_to_f32(0x0400) == 0x1p-14f && as_f16_to_f32(0xbc00) == -1.0f);
    assert_true(as_f8e4m3_to_f32(0x01) == 0x1p-9f && as_f8e4m3_to_f32(0x7e) == 448.0f);
    assert_true(as_f8e4m3_to_f32(0x08) == 0x1p-6f && as_f8e4m3_to_f32(0xb8) == -1.0f);
    assert_true(as_bf16_to_f32(0x3f80) == 1.0f && isinf(as_f16_to_f32(0x7c00)));
}

static void below_is_even_and_bounded(void **unused) {
    (void)unused;
    as_rng r = {.seed = 7, .key = 1, .counter = 0};
    enum { BINS = 7, DRAWS = 70000 };
    int count[BINS] = {0};
    for (int i = 0; i < DRAWS; i++)
        count[as_rng_below(&r, BINS)]++;
    const double mean = (double)DRAWS / BINS;
    double chi2 = 0;
    for (int i = 0; i < BINS; i++)
        chi2 += (count[i] - mean) * (count[i] - mean) / mean;
    assert_true(chi2 < 22.5); /* 6 degrees of freedom: exceeded once in 1,000 seeds */
    for (int i = 0; i < 100; i++)
        assert_int_equal(as_rng_below(&r, 1), 0);
    /* With a bound of 3/4 of 2^64 a plain modulus would put half of the draws in the lowest third. */
    const uint64_t bound = (uint64_t)3 << 62;
    const uint64_t before = r.counter;
    int low = 0;
    for (int i = 0; i < 30000; i++) {
        const uint64_t x = as_rng_below(&r, bound);
        assert_true(x < bound);
        low += x < bound / 3;
    }
    assert_true(abs(low - 10000) < 400);     /* 5 standard deviations of 82 */
    assert_true(r.counter - before > 38000); /* a quarter of the draws was thrown away */
}

static void shuffle_permutes(void **unused) {
    (void)unused;
    int first[5] = {0};
    for (uint64_t seed = 0; seed < 5000; seed++) {
        as_rng r = {.seed = seed, .key = 2, .counter = 0};
        int x[5] = {0, 1, 2, 3, 4}, seen = 0;
        as_rng_shuffle(&r, x, 5);
        for (int i = 0; i < 5; i++)
            seen |= 1 << x[i];
        assert_int_equal(seen, 31);
        first[x[0]]++;
    }
    for (int i = 0; i < 5; i++)
        assert_true(abs(first[i] - 1000) < 142); /* 5 standard deviations */
    as_rng r = {.seed = 1, .key = 2, .counter = 0};
    int one = 9;
    as_rng_shuffle(&r, &one, 1);
    as_rng_shuffle(&r, NULL, 0);
    assert_true(one == 9 && r.counter == 0);
}

/* Vectors of xxHash's own sanity check: bytes made by its generator, seeds 0 and PRIME32; and known strings. */
static void checksum_known_answers(void **unused) {
    (void)unused;
    assert_int_equal(as_checksum(NULL, 0, 0), 0xef46db3751d8e999u);
    assert_int_equal(as_checksum("a", 1, 0), 0xd24ec4f1a98c6e5bu);
    assert_int_equal(as_checksum("abc", 3, 0), 0x44bc2cf5ad770999u);
    unsigned char bytes[222];
    uint64_t generator = 2654435761u;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(generator >> 56);
        generator *= 11400714785074694797u;
    }
    static const struct {
        size_t n;
        uint64_t seed, answer;
    } v[] = {
        {0, 2654435761u, 0xac75fda2929b17efu}, {1, 0, 0xe934a84adb052768u},
        {1, 2654435761u, 0x5014607643a9b4c3u}, {4, 0, 0x9136a0dca57457eeu},
        {14, 0, 0x8282dcc4994e35c8u},          {14, 2654435761u, 0xc3bd6bf63deb6df0u},
        {222, 0, 0xb641ae8cb691c174u},         {222, 2654435761u, 0x20cb8ab7ae10c14au},
    };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
        assert_int_equal(as_checksum(bytes, v[i].n, v[i].seed), v[i].answer);
    for (size_t i = 0; i < sizeof bytes; i++) { /* each byte counts */
        bytes[i] ^= 1;
        assert_int_not_equal(as_checksum(bytes, sizeof bytes, 0), 0xb641ae8cb691c174u);
        bytes[i] ^= 1;
    }
}

static void types_have_sizes_and_names(void **unused) {
    (void)unused;
    static const size_t bytes[TYPES] = {4, 8, 2, 2, 1, 1, 1, 4, 4, 4};
    static const char *const names[TYPES] = {"f32", "f64", "bf16", "f16", "f8e4m3", "i8", "u8", "u32", "i32", "tf32"};
    for (int t = 0; t < TYPES; t++) {
        assert_int_equal(as_dtype_bytes((as_dtype)t), bytes[t]);
        assert_string_equal(as_dtype_name((as_dtype)t), names[t]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(elements_match_the_description),
        cmocka_unit_test(bits_are_the_same_bytes),
        cmocka_unit_test(fill_matches_elements_in_any_pieces),
        cmocka_unit_test(streams_differ_by_seed_and_key),
        cmocka_unit_test(moments),
        cmocka_unit_test(rounding_at_every_boundary),
        cmocka_unit_test(rounding_everywhere),
        cmocka_unit_test(rounding_of_special_values),
        cmocka_unit_test(below_is_even_and_bounded),
        cmocka_unit_test(shuffle_permutes),
        cmocka_unit_test(checksum_known_answers),
        cmocka_unit_test(types_have_sizes_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
