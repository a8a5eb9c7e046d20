#include "vector.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Of activations that stay in L2 while a matrix passes by: half of the 512 KiB that the smallest of today's have. */
enum { BLOCK_BYTES = 256 << 10 };

#define NAME(x) x##_base
#define TARGET
#define WIDTH 4
#define ROWS 2
#define COLUMNS 4
#define SUM(v) ((v)[0] + (v)[1] + (v)[2] + (v)[3])
#include "vector_body.h"

#if defined(__x86_64__)
AS_TARGET_AVX2 static inline float sum_of_8(__m256 v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* 8 sums, 4 of x and one of w in 16 registers. */
#define NAME(x) x##_avx2
#define TARGET AS_TARGET_AVX2
#define WIDTH 8
#define ROWS 2
#define COLUMNS 4
#define SUM(v) sum_of_8((__m256)(v))
#include "vector_body.h"

/* 24 sums, 4 of x and one of w in 32 registers. */
#define NAME(x) x##_avx512
#define TARGET AS_TARGET_AVX512
#define WIDTH 16
#define ROWS 6
#define COLUMNS 4
#define SUM(v) _mm512_reduce_add_ps((__m512)(v))
#include "vector_body.h"

#define AS_TARGET_BF16 __attribute__((target("avx512f,avx512bf16,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")))

/* `streams` rows at a time, so that as many streams are under way and no sum waits for the one before. */
#define DEFINE_STREAMS(name, streams)                                                                                  \
    AS_TARGET_BF16 static void name(const uint16_t *w, int64_t k, const uint16_t *x, float scale, float *out,          \
                                    bool add) {                                                                        \
        __m512 sum[streams];                                                                                           \
        for (int r = 0; r < (streams); r++)                                                                            \
            sum[r] = _mm512_setzero_ps();                                                                              \
        for (int64_t j = 0; j < k; j += 32) {                                                                          \
            const __m512bh in = (__m512bh)_mm512_loadu_si512(x + j);                                                   \
            for (int r = 0; r < (streams); r++)                                                                        \
                sum[r] = _mm512_dpbf16_ps(sum[r], (__m512bh)_mm512_loadu_si512(w + r * k + j), in);                    \
        }                                                                                                              \
        for (int r = 0; r < (streams); r++) {                                                                          \
            const float total = _mm512_reduce_add_ps(sum[r]) * scale;                                                  \
            out[r] = add ? out[r] + total : total;                                                                     \
        }                                                                                                              \
    }
DEFINE_STREAMS(streams_8, 8)
DEFINE_STREAMS(streams_1, 1)

AS_TARGET_BF16 void as_vector_product_bf16(const uint16_t *w, int64_t n, int64_t k, const uint16_t *x, float scale,
                                           float *out, bool add) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        streams_8(w + i * k, k, x, scale, out + i, add);
    for (; i < n; i++)
        streams_1(w + i * k, k, x, scale, out + i, add);
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
