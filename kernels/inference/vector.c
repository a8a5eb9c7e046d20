#include "vector.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Of activations that stay in L2 while a matrix passes by: half of the 512 KiB that the smallest of today's have. */
enum { BLOCK_BYTES = 256 << 10 };

/* Rows so short (keys of a head) that what follows their sums weighs more than where they are read. */
enum { SHORT_K = 256 };

/* One row of activations: where the weights are read. Least times, one thread of an EPYC guest with 32 KiB of L1, 1 MiB
 * of L2 and AVX512-BF16, rows of 288 and of 2048 elements, GB/s:
 *
 *   weights in              512 KiB       6 MiB      34 MiB     256 MiB
 *   row after row          102, 102      97, 97      19, 18      12, 14
 *   eight rows at a time   115,  97      84, 81      10, 20       7, 16
 *   four places            115, 107      97, 96      28, 29      20, 20
 *   eight places           116,  96      95, 83      29, 30      21, 20
 *   a plain sum               115         100          23          13   (four places: stream.c) */

/* Sums of the lanes of several vectors: halves of two vectors are exchanged and added, so that each step leaves half as
 * many vectors, until one holds all the sums. Three instructions a sum, where one alone takes nine. */
#define SUMS_ONE_BY_ONE(v, n, out)                                                                                     \
    for (int sums_i = 0; sums_i < (n); sums_i++)                                                                       \
    (out)[sums_i] = SUM((v)[sums_i])

#define NAME(x) x##_base
#define TARGET
#define WIDTH 4
#define ROWS 2
#define COLUMNS 4
#define SUM(v) ((v)[0] + (v)[1] + (v)[2] + (v)[3])
#define SUMS SUMS_ONE_BY_ONE
#include "vector_body.h"

#if defined(__x86_64__)
AS_TARGET_AVX2 static inline float sum_of_8(__m256 v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

AS_TARGET_AVX2 static inline __m256 fold_8(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}
AS_TARGET_AVX2 static inline __m256 fold_8_pairs(__m256 a, __m256 b) {
    const __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)), _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}
AS_TARGET_AVX2 static inline void eight_sums_of_8(const __m256 *v, float *out) {
    const __m256 a = fold_8_pairs(fold_8(v[0], v[1]), fold_8(v[2], v[3])),
                 b = fold_8_pairs(fold_8(v[4], v[5]), fold_8(v[6], v[7]));
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)));
}

/* 8 sums, 4 of x and one of w in 16 registers. */
#define NAME(x) x##_avx2
#define TARGET AS_TARGET_AVX2
#define WIDTH 8
#define ROWS 2
#define COLUMNS 4
#define SUM(v) sum_of_8((__m256)(v))
#define SUMS(v, n, out)                                                                                                \
    if ((n) % 8 == 0)                                                                                                  \
        for (int sums_i = 0; sums_i < (n); sums_i += 8)                                                                \
            eight_sums_of_8((const __m256 *)(v) + sums_i, (out) + sums_i);                                             \
    else                                                                                                               \
        SUMS_ONE_BY_ONE(v, n, out)
#include "vector_body.h"

/* [a b a b] of each quarter: sums of two lanes of a, of b, of two others of a, of b. */
AS_TARGET_AVX512 static inline __m512 fold_16(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
AS_TARGET_AVX512 static inline __m512 fold_16_pairs(__m512 a, __m512 b) {
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
/* Quarters 0, 2 of a and b, and quarters 1, 3. */
AS_TARGET_AVX512 static inline __m512 fold_16_quarters(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}
AS_TARGET_AVX512 static inline __m512 four_of_16(const __m512 *v) {
    return fold_16_pairs(fold_16(v[0], v[1]), fold_16(v[2], v[3]));
}
AS_TARGET_AVX512 static inline void sixteen_sums_of_16(const __m512 *v, float *out) {
    _mm512_storeu_ps(out, fold_16_quarters(fold_16_quarters(four_of_16(v), four_of_16(v + 4)),
                                           fold_16_quarters(four_of_16(v + 8), four_of_16(v + 12))));
}
AS_TARGET_AVX512 static inline void eight_sums_of_16(const __m512 *v, float *out) {
    const __m512 half = fold_16_quarters(four_of_16(v), four_of_16(v + 4));
    _mm256_storeu_ps(out, _mm512_castps512_ps256(fold_16_quarters(half, half)));
}

/* 16 sums, 4 of x and one of w in 32 registers. */
#define NAME(x) x##_avx512
#define TARGET AS_TARGET_AVX512
#define WIDTH 16
#define ROWS 4
#define COLUMNS 4
#define SUM(v) _mm512_reduce_add_ps((__m512)(v))
#define SUMS(v, n, out)                                                                                                \
    if ((n) == 16)                                                                                                     \
        sixteen_sums_of_16((const __m512 *)(v), out);                                                                  \
    else if ((n) == 8)                                                                                                 \
        eight_sums_of_16((const __m512 *)(v), out);                                                                    \
    else                                                                                                               \
        SUMS_ONE_BY_ONE(v, n, out)
#include "vector_body.h"

#define AS_TARGET_BF16 __attribute__((target("avx512f,avx512bf16,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")))

#define WEIGHTS(p) ((__m512bh)_mm512_loadu_si512(p))

AS_TARGET_BF16 static inline __m512 bf16_row(const uint16_t *w, int64_t k, const uint16_t *x) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t j = 0; j < k; j += 32)
        sum = _mm512_dpbf16_ps(sum, WEIGHTS(w + j), WEIGHTS(x + j));
    return sum;
}

/* Two rows of each of four streams. */
AS_TARGET_BF16 static void bf16_pairs(const uint16_t *w, int64_t k, int64_t gap, const uint16_t *x, float *total) {
    __m512 sum[8];
    for (int r = 0; r < 8; r++)
        sum[r] = _mm512_setzero_ps();
    for (int q = 0; q < 2; q++)
        for (int64_t j = 0; j < k; j += 32) {
            const __m512bh in = WEIGHTS(x + j);
            for (int r = 0; r < 4; r++)
                sum[4 * q + r] = _mm512_dpbf16_ps(sum[4 * q + r], WEIGHTS(w + (r * gap + q) * k + j), in);
        }
    eight_sums_of_16(sum, total);
}

AS_TARGET_BF16 void as_vector_product_bf16(const uint16_t *w, int64_t n, int64_t k, const uint16_t *x, float scale,
                                           float *out, bool add) {
    const int64_t gap = n / 8 * 2; /* whole pairs */
    for (int64_t i = 0; i < gap; i += 2) {
        float total[8];
        bf16_pairs(w + i * k, k, gap, x, total);
        for (int r = 0; r < 8; r++) {
            float *to = out + i + r % 4 * gap + r / 4;
            *to = add ? *to + total[r] * scale : total[r] * scale;
        }
    }
    for (int64_t i = 4 * gap; i < n; i++) {
        const float total = _mm512_reduce_add_ps(bf16_row(w + i * k, k, x)) * scale;
        out[i] = add ? out[i] + total : total;
    }
}

static const as_vector *const tables[] = {&table_base, &table_avx2, &table_avx512};
#else
void as_vector_product_bf16(const uint16_t *w, int64_t n, int64_t k, const uint16_t *x, float scale, float *out,
                            bool add) {
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += as_bf16_to_f32(w[i * k + j]) * as_bf16_to_f32(x[j]);
        out[i] = add ? out[i] + sum * scale : sum * scale;
    }
}

static const as_vector *const tables[] = {&table_base, &table_base, &table_base};
#endif

void as_vector_round_bf16(const float *x, int64_t n, uint16_t *out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint16_t)as_bf16_round(as_f32_bits(x[i]));
}

const as_vector *as_vector_for(as_isa isa) { return tables[isa]; }
