/* Register tiles of matmul/packed for bf16, axis `config`; both operands come as rows along k.
 *
 *   amx    32 x 32 sums in four tiles; a step multiplies 32 rows by 32 columns, 32 deep: 2 + 2 tiles loaded (32 cycles),
 *          four products (64 cycles). Panels come from L2, which leaves their blocks deep enough that sums seldom go
 *          through memory. A panel holds its rows by steps, a strip of B the words of a pair of k side by side
 *          (word (k, column)), as the instruction wants them.
 *   dot    AVX512-BF16: 14 x 32 sums; a word of A, two elements, is spread to all lanes and multiplied by two elements of
 *          each of 32 columns. The same loads as in f32 for twice the multiply-adds.
 *   widen  the tile of f32; bf16 is widened once, where it is packed.
 *
 * Packing turns rows into columns, 16 x 16 words at a time in registers: word by word it would take longer than the
 * product of two matrices of 512 does with amx. */
#include "packed.h"

#include "../../harness/rng.h"
#include "../isa.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* out[d * size + i] = widened element d of row i. */
static void widen_plain(void *out, const void *from, int64_t stride, int64_t elements, int64_t depth, int64_t n,
                        int size) {
    float *to = out;
    const uint16_t *rows = from;
    for (int64_t d = 0; d < depth; d++)
        for (int64_t i = 0; i < size; i++)
            to[d * size + i] = i < n && d < elements ? as_bf16_to_f32(rows[i * stride + d]) : 0.0f;
}

#if defined(__x86_64__)
/* Rows of 16 words to columns: pairs of rows, of pairs, of quarters, of halves change places. */
AS_TARGET_AVX512_BF16 static inline void transpose16(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        const __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88), b = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
        const __m512i c = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88),
                      d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
        t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        t[i + 8] = _mm512_shuffle_i32x4(a, c, 0xDD);
        t[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(b, d, 0xDD);
    }
    memcpy(r, t, sizeof t);
}

/* 16 words of a row from element `at` on, of which `elements` are left: pairs, or single ones widened. */
AS_TARGET_AVX512_BF16 static inline __m512i load_words(const uint16_t *row, int64_t elements, bool pairs) {
    const int64_t most = pairs ? 32 : 16, n = elements < 0 ? 0 : elements < most ? elements : most;
    const __mmask32 mask = n == 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
    if (pairs)
        return _mm512_maskz_loadu_epi16(mask, row);
    const __m256i narrow = _mm256_maskz_loadu_epi16((__mmask16)mask, row);
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
}

/* out[d * size + i] = word d of row i. */
AS_TARGET_AVX512_BF16 static void pack_columns(uint32_t *out, const uint16_t *from, int64_t stride, int64_t elements,
                                               int64_t depth, int64_t n, int size, bool pairs) {
    const int64_t per_word = pairs ? 2 : 1;
    for (int64_t i = 0; i < size; i += 16) {
        const int64_t width = size - i < 16 ? size - i : 16;
        const __mmask16 lanes = (__mmask16)((1u << width) - 1);
        for (int64_t d = 0; d < depth; d += 16) {
            __m512i r[16];
            for (int j = 0; j < 16; j++)
                r[j] = i + j < n ? load_words(from + (i + j) * stride + d * per_word, elements - d * per_word, pairs)
                                 : _mm512_setzero_si512();
            transpose16(r);
            for (int j = 0; j < 16 && d + j < depth; j++)
                _mm512_mask_storeu_epi32(out + (d + j) * size + i, lanes, r[j]);
        }
    }
}

AS_TARGET_AVX512_BF16 static void widen_columns(void *out, const void *from, int64_t stride, int64_t elements,
                                                int64_t depth, int64_t n, int size) {
    pack_columns(out, from, stride, elements, depth, n, size, false);
}
AS_TARGET_AVX512_BF16 static void pair_columns(void *out, const void *from, int64_t stride, int64_t elements,
                                               int64_t depth, int64_t n, int size) {
    pack_columns(out, from, stride, elements, depth, n, size, true);
}

/* ---- dot ---- */

enum { DOT_ROWS = 14, DOT_COLUMNS = 32 };

AS_TARGET_AVX512_BF16 static void dot_tile(int64_t depth, const void *a, const void *b, float *c, int64_t stride,
                                           bool add) {
    const uint32_t *left = a, *right = b;
    __m512 sum[DOT_ROWS][2];
    for (int i = 0; i < DOT_ROWS; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (int64_t d = 0; d < depth; d++, left += DOT_ROWS, right += DOT_COLUMNS) {
        const __m512bh b0 = (__m512bh)_mm512_loadu_si512(right), b1 = (__m512bh)_mm512_loadu_si512(right + 16);
        __builtin_prefetch(right + 8 * DOT_COLUMNS);
        __builtin_prefetch(right + 8 * DOT_COLUMNS + 16);
        for (int i = 0; i < DOT_ROWS; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32((int)left[i]);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
        }
    }
    for (int i = 0; i < DOT_ROWS; i++)
        for (int v = 0; v < 2; v++) {
            float *out = c + i * stride + 16 * v;
            _mm512_storeu_ps(out, add ? _mm512_add_ps(sum[i][v], _mm512_loadu_ps(out)) : sum[i][v]);
        }
}

/* ---- amx ---- */

enum { AMX_SIDE = 32, AMX_STEP = 16 /* words */, AMX_ROW_BYTES = 64, AMX_TILE_BYTES = 16 * AMX_ROW_BYTES };

/* Steps one after another: 32 rows of 16 words. */
AS_TARGET_AVX512_BF16 static void amx_rows(void *out, const void *from, int64_t stride, int64_t elements, int64_t depth,
                                           int64_t n, int size) {
    uint32_t *to = out;
    const uint16_t *rows = from;
    for (int64_t d = 0; d < depth; d += AMX_STEP)
        for (int i = 0; i < size; i++, to += AMX_STEP)
            _mm512_storeu_si512(to, i < n ? load_words(rows + i * stride + 2 * d, elements - 2 * d, true)
                                          : _mm512_setzero_si512());
}

/* Steps one after another: 16 words deep, 16 columns, then the other 16. */
AS_TARGET_AVX512_BF16 static void amx_columns(void *out, const void *from, int64_t stride, int64_t elements,
                                              int64_t depth, int64_t n, int size) {
    uint32_t *to = out;
    const uint16_t *rows = from;
    for (int64_t d = 0; d < depth; d += AMX_STEP)
        for (int i = 0; i < size; i += 16, to += 16 * AMX_STEP)
            pack_columns(to, rows + i * stride + 2 * d, stride, elements - 2 * d, AMX_STEP, n - i, 16, true);
}

AS_TARGET_TILES static void amx_tile(int64_t depth, const void *a, const void *b, float *c, int64_t stride, bool add) {
    const char *left = a, *right = b;
    const int64_t bytes = stride * (int64_t)sizeof *c;
    float *below = c + 16 * stride;
    if (add) {
        _tile_loadd(0, c, bytes);
        _tile_loadd(1, c + 16, bytes);
        _tile_loadd(2, below, bytes);
        _tile_loadd(3, below + 16, bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t d = 0; d < depth; d += AMX_STEP, left += 2 * AMX_TILE_BYTES, right += 2 * AMX_TILE_BYTES) {
        _tile_loadd(4, left, AMX_ROW_BYTES);
        _tile_loadd(6, right, AMX_ROW_BYTES);
        _tile_loadd(7, right + AMX_TILE_BYTES, AMX_ROW_BYTES);
        _tile_loadd(5, left + AMX_TILE_BYTES, AMX_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, bytes);
    _tile_stored(1, c + 16, bytes);
    _tile_stored(2, below, bytes);
    _tile_stored(3, below + 16, bytes);
}

static const as_packed_kernel amx = {.tile = amx_tile,
                                     .pack_a = amx_rows,
                                     .pack_b = amx_columns,
                                     .rows = AMX_SIDE,
                                     .columns = AMX_SIDE,
                                     .per_word = 2,
                                     .depth_unit = AMX_STEP,
                                     .l1_halves = 4,
                                     .most_depth = 512,
                                     .begin = as_isa_tiles_begin,
                                     .end = as_isa_tiles_end};
static const as_packed_kernel dot = {.tile = dot_tile,
                                     .pack_a = pair_columns,
                                     .pack_b = pair_columns,
                                     .rows = DOT_ROWS,
                                     .columns = DOT_COLUMNS,
                                     .per_word = 2,
                                     .depth_unit = 1,
                                     .l1_halves = 1,
                                     .most_depth = 320};
#else
static const as_packed_kernel amx = {0}, dot = {0};
#define widen_columns widen_plain
#endif

as_status as_packed_bf16(const char *config, const as_packed_kernel *f32, as_packed_kernel *out, as_error *e) {
    const bool any = strcmp(config, "auto") == 0;
    *out = *f32;
    if (as_isa_tiles() && (any || strcmp(config, "amx") == 0))
        *out = amx;
    else if (as_isa_bf16() && (any || strcmp(config, "dot") == 0))
        *out = dot;
    else if (any || strcmp(config, "widen") == 0) /* maskz_loadu_epi16 is AVX-512 BW, which AVX512-BF16 comes with */
        out->pack_a = out->pack_b = as_isa_bf16() ? widen_columns : widen_plain;
    else
        return as_fail(e, AS_EABSENT, "matmul/packed in bf16: this processor has no %s",
                       strcmp(config, "amx") == 0 ? "AMX tiles, or the kernel does not grant them" : "AVX512-BF16");
    out->element_bytes = 2;
    out->b_transposed = true;
    return AS_OK;
}

/* One loop, made for the vectors of each instruction set: element by element it would take as long as the product of two
 * matrices of 512 by amx. */
#define DEFINE_ROUND(name, target)                                                                                     \
    target static void name(uint16_t *restrict out, const float *restrict from, int64_t n) {                           \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = (uint16_t)as_bf16_round(as_f32_bits(from[i]));                                                    \
    }

DEFINE_ROUND(round_base, )
DEFINE_ROUND(round_avx2, AS_TARGET_AVX2)
DEFINE_ROUND(round_avx512, AS_TARGET_AVX512_BF16)

void as_packed_round_bf16(uint16_t *out, const float *from, int64_t n) {
    if (as_isa_bf16())
        round_avx512(out, from, n);
    else if (as_isa_best() >= AS_ISA_AVX2)
        round_avx2(out, from, n);
    else
        round_base(out, from, n);
}
