/* Included once for each instruction set, with NAME(x), TARGET, WIDTH (floats of a vector), ROWS x COLUMNS (a register
 * tile: rows of the matrix x rows of activations), SUM(v) (of a vector's lanes) and SUMS(v, n, out) (the same of n
 * vectors). Constants of loops that hold vectors are known to the compiler, so that it unrolls them and the sums stay in
 * registers. */

typedef float NAME(floats) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef uint16_t NAME(halves) __attribute__((vector_size(2 * WIDTH), aligned(2), may_alias));
typedef uint32_t NAME(words) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

/* bf16 is the upper half of an f32. */
#define LOAD_AS_F32(p) (*(const NAME(floats) *)(p))
#define LOAD_AS_BF16(p) ((NAME(floats))(__builtin_convertvector(*(const NAME(halves) *)(p), NAME(words)) << 16))

/* Lane by lane: yes where mask is all ones, no where it is 0. */
TARGET static inline NAME(floats) NAME(pick)(NAME(ints) mask, NAME(floats) yes, NAME(floats) no) {
    return (NAME(floats))(((NAME(ints))yes & mask) | ((NAME(ints))no & ~mask));
}

/* out[c * stride + r] for r < rows, c < columns. Elements of a row beyond whole vectors are added one by one. */
#define TILE(name, element, rows, columns, load_vector, load_one)                                                      \
    TARGET static void name(const element *w, int64_t k, const float *x, float scale, float *out, int64_t stride,      \
                            bool add) {                                                                                \
        _Alignas(4 * WIDTH) NAME(floats) sum[(columns) * (rows)]; /* SUMS loads them whole */                          \
        float total[(columns) * (rows)];                                                                               \
        memset(sum, 0, sizeof sum);                                                                                    \
        int64_t i = 0;                                                                                                 \
        for (; i + WIDTH <= k; i += WIDTH) {                                                                           \
            NAME(floats) in[columns];                                                                                  \
            for (int c = 0; c < (columns); c++)                                                                        \
                in[c] = LOAD_AS_F32(x + c * k + i);                                                                    \
            for (int r = 0; r < (rows); r++) {                                                                         \
                const NAME(floats) weight = load_vector(w + r * k + i);                                                \
                for (int c = 0; c < (columns); c++)                                                                    \
                    sum[c * (rows) + r] += weight * in[c];                                                             \
            }                                                                                                          \
        }                                                                                                              \
        SUMS(sum, (columns) * (rows), total);                                                                          \
        for (int r = 0; r < (rows) && i < k; r++)                                                                      \
            for (int c = 0; c < (columns); c++)                                                                        \
                for (int64_t j = i; j < k; j++)                                                                        \
                    total[c * (rows) + r] += load_one(w[r * k + j]) * x[c * k + j];                                    \
        for (int s = 0; s < (columns) * (rows); s++)                                                                   \
            total[s] *= scale;                                                                                         \
        for (int c = 0; c < (columns); c++)                                                                            \
            for (int r = 0; add && r < (rows); r++)                                                                    \
                out[c * stride + r] += total[c * (rows) + r];                                                          \
        for (int c = 0; c < (columns); c++)                                                                            \
            for (int r = 0; !add && r < (rows); r++)                                                                   \
                out[c * stride + r] = total[c * (rows) + r];                                                           \
    }

/* One x against `rows` rows of each of four streams, `gap` rows apart: memory is read in four places, in each of them
 * in its order, which keeps more of its prefetchers at work than one place does (vector.c). */
#define STREAMS(name, element, rows, load_vector, load_one)                                                            \
    TARGET static void name(const element *w, int64_t k, int64_t gap, const float *x, float scale, float *out,         \
                            bool add) {                                                                                \
        _Alignas(4 * WIDTH) NAME(floats) sum[4 * (rows)];                                                              \
        float total[4 * (rows)];                                                                                       \
        int64_t i = 0;                                                                                                 \
        memset(sum, 0, sizeof sum);                                                                                    \
        for (int q = 0; q < (rows); q++)                                                                               \
            for (i = 0; i + WIDTH <= k; i += WIDTH) {                                                                  \
                const NAME(floats) in = LOAD_AS_F32(x + i);                                                            \
                for (int r = 0; r < 4; r++)                                                                            \
                    sum[4 * q + r] += load_vector(w + (r * gap + q) * k + i) * in;                                     \
            }                                                                                                          \
        SUMS(sum, 4 * (rows), total);                                                                                  \
        for (int q = 0; q < (rows); q++)                                                                               \
            for (int r = 0; r < 4; r++) {                                                                              \
                for (int64_t j = i; j < k; j++)                                                                        \
                    total[4 * q + r] += load_one(w[(r * gap + q) * k + j]) * x[j];                                     \
                float *to = out + r * gap + q;                                                                         \
                *to = add ? *to + total[4 * q + r] * scale : total[4 * q + r] * scale;                                 \
            }                                                                                                          \
    }

/* Many rows of x: blocks of them that fit half of a small L2 stay there while the matrix passes by. */
#define PRODUCT(kind, element, load_vector, load_one)                                                                  \
    STREAMS(NAME(product_##kind##_pairs), element, 2, load_vector, load_one)                                           \
    STREAMS(NAME(product_##kind##_rows_apart), element, 1, load_vector, load_one)                                      \
    TILE(NAME(product_##kind##_short), element, 16, 1, load_vector, load_one)                                          \
    TILE(NAME(product_##kind##_tile), element, ROWS, COLUMNS, load_vector, load_one)                                   \
    TILE(NAME(product_##kind##_narrow), element, ROWS, 1, load_vector, load_one)                                       \
    TILE(NAME(product_##kind##_one), element, 1, 1, load_vector, load_one)                                             \
    TARGET static void NAME(product_##kind##_rows)(const element *w, int64_t n, int64_t k, const float *x,             \
                                                   int64_t rows, float scale, float *out, int64_t stride, bool add) {  \
        for (int64_t i = 0; i < n;) {                                                                                  \
            const bool tall = n - i >= ROWS;                                                                           \
            int64_t r = 0;                                                                                             \
            for (; tall && r + COLUMNS <= rows; r += COLUMNS)                                                          \
                NAME(product_##kind##_tile)(w + i * k, k, x + r * k, scale, out + r * stride + i, stride, add);        \
            for (; tall && r < rows; r++)                                                                              \
                NAME(product_##kind##_narrow)(w + i * k, k, x + r * k, scale, out + r * stride + i, stride, add);      \
            for (; r < rows; r++)                                                                                      \
                NAME(product_##kind##_one)(w + i * k, k, x + r * k, scale, out + r * stride + i, stride, add);         \
            i += tall ? ROWS : 1;                                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void NAME(product_##kind)(const element *w, int64_t n, int64_t k, const float *x, int64_t rows,      \
                                            float scale, float *out, int64_t stride, bool add) {                       \
        if (rows == 1) {                                                                                               \
            int64_t i = 0;                                                                                             \
            for (; k <= SHORT_K && i + 16 <= n; i += 16)                                                               \
                NAME(product_##kind##_short)(w + i * k, k, x, scale, out + i, stride, add);                            \
            w += i * k, out += i, n -= i, i = 0;                                                                       \
            const int64_t gap = n / 4;                                                                                 \
            for (; i + 2 <= gap; i += 2)                                                                               \
                NAME(product_##kind##_pairs)(w + i * k, k, gap, x, scale, out + i, add);                               \
            for (; i < gap; i++)                                                                                       \
                NAME(product_##kind##_rows_apart)(w + i * k, k, gap, x, scale, out + i, add);                          \
            for (i = 4 * gap; i < n; i++)                                                                              \
                NAME(product_##kind##_one)(w + i * k, k, x, scale, out + i, stride, add);                              \
            return;                                                                                                    \
        }                                                                                                              \
        const int64_t fit = BLOCK_BYTES / (4 * k) / COLUMNS * COLUMNS, block = fit > COLUMNS ? fit : COLUMNS;          \
        for (int64_t r = 0; r < rows; r += block)                                                                      \
            NAME(product_##kind##_rows)                                                                                \
        (w, n, k, x + r * k, rows - r < block ? rows - r : block, scale, out + r * stride, stride, add);               \
    }

#define SAME(x) (x)
PRODUCT(f32, float, LOAD_AS_F32, SAME)
PRODUCT(bf16, uint16_t, LOAD_AS_BF16, as_bf16_to_f32)

TARGET static void NAME(product)(as_dtype type, const void *w, int64_t n, int64_t k, const float *x, int64_t rows,
                                 float scale, float *out, int64_t stride, bool add) {
    if (type == AS_F32)
        NAME(product_f32)(w, n, k, x, rows, scale, out, stride, add);
    else
        NAME(product_bf16)(w, n, k, x, rows, scale, out, stride, add);
}

/* Even elements of each 2 WIDTH, then the odd ones; what is left over as it stands. */
TARGET static void NAME(spread)(const float *x, int64_t k, float *out) {
    int64_t i = 0;
    for (; i + 2 * WIDTH <= k; i += 2 * WIDTH)
        for (int l = 0; l < WIDTH; l++) {
            out[i + l] = x[i + 2 * l];
            out[i + WIDTH + l] = x[i + 2 * l + 1];
        }
    for (; i < k; i++)
        out[i] = x[i];
}

/* Two bf16 in a word of 32 bits: the lower one is an f32 after a shift, the upper one after its neighbour is cleared.
 * Half as many loads as widening one by one, and no instruction that moves lanes. One row of each of four streams. */
TARGET static inline void NAME(spread_rows)(const uint16_t *w, int64_t k, int64_t gap, const float *x, float total[4]) {
    _Alignas(4 * WIDTH) NAME(floats) sum[8];
    memset(sum, 0, sizeof sum);
    int64_t i = 0;
    for (; i + 2 * WIDTH <= k; i += 2 * WIDTH) {
        const NAME(floats) even = LOAD_AS_F32(x + i), odd = LOAD_AS_F32(x + i + WIDTH);
        for (int r = 0; r < 4; r++) {
            const NAME(words) both = *(const NAME(words) *)(w + r * gap * k + i);
            sum[2 * r] += (NAME(floats))(both << 16) * even;
            sum[2 * r + 1] += (NAME(floats))(both & 0xFFFF0000u) * odd;
        }
    }
    float lanes[8];
    SUMS(sum, 8, lanes);
    for (int r = 0; r < 4; r++) {
        total[r] = lanes[2 * r] + lanes[2 * r + 1];
        for (int64_t j = i; j < k; j++)
            total[r] += as_bf16_to_f32(w[r * gap * k + j]) * x[j];
    }
}

TARGET static void NAME(stream_bf16)(const uint16_t *w, int64_t n, int64_t k, const float *x, float scale, float *out,
                                     bool add) {
    const int64_t gap = n / 4;
    float total[4];
    for (int64_t i = 0; i < gap; i++) {
        NAME(spread_rows)(w + i * k, k, gap, x, total);
        for (int r = 0; r < 4; r++)
            out[r * gap + i] = add ? out[r * gap + i] + total[r] * scale : total[r] * scale;
    }
    for (int64_t i = 4 * gap; i < n; i++) { /* the same row four times: fewer than four rows of a matrix */
        NAME(spread_rows)(w + i * k, k, 0, x, total);
        out[i] = add ? out[i] + total[0] * scale : total[0] * scale;
    }
}

TARGET static void NAME(norm)(as_dtype type, const void *w, const float *x, int64_t n, float epsilon, float *out) {
    NAME(floats) sum = {0};
    float total = 0;
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        sum += LOAD_AS_F32(x + i) * LOAD_AS_F32(x + i);
    for (; i < n; i++)
        total += x[i] * x[i];
    const float factor = 1 / sqrtf((total + SUM(sum)) / (float)n + epsilon);
    if (type == AS_F32)
        for (i = 0; i < n; i++)
            out[i] = x[i] * factor * ((const float *)w)[i];
    else
        for (i = 0; i < n; i++)
            out[i] = x[i] * factor * as_bf16_to_f32(((const uint16_t *)w)[i]);
}

TARGET static void NAME(rotate)(float *v, int half, const float *cosine, const float *sine) {
    for (int i = 0; i < half; i++) {
        const float a = v[i], b = v[i + half];
        v[i] = a * cosine[i] - b * sine[i];
        v[i + half] = b * cosine[i] + a * sine[i];
    }
}

/* exp(x) within 2 ulp for |x| < 87, clamped beyond: x = n ln 2 + r with |r| <= ln 2 / 2, Taylor's series of exp(r) to
 * the seventh power (next term: 5e-9), times 2^n. ln 2 in two parts, so that n ln 2 is exact enough. */
TARGET static inline NAME(floats) NAME(exp)(NAME(floats) x) {
    const NAME(floats) zero = {0}, low = zero - 87.0f, high = zero + 87.0f, shift = zero + 12582912.0f;
    x = NAME(pick)(x < low, low, x);
    x = NAME(pick)(x > high, high, x);
    const NAME(floats) n = (x * 1.44269504f + shift) - shift;
    const NAME(floats) r = x - n * 0.693359375f - n * -2.12194440e-4f;
    NAME(floats) p = zero + 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (NAME(floats))((__builtin_convertvector(n, NAME(ints)) + 127) << 23);
}

/* The tail goes through a whole vector of its own. */
TARGET static void NAME(activate)(const float *gate, const float *up, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += WIDTH) {
        const size_t bytes = (n - i < WIDTH ? (size_t)(n - i) : WIDTH) * sizeof *gate;
        NAME(floats) g = {0}, u = {0};
        memcpy(&g, gate + i, bytes);
        memcpy(&u, up + i, bytes);
        g = g / (1.0f + NAME(exp)(-g)) * u;
        memcpy(out + i, &g, bytes);
    }
}

/* Scores of one row over a block, n of them visible, become weights; the others 0. Returns what earlier output and
 * sum are to be multiplied by. The row holds AS_ATTEND_BLOCK floats, whole vectors. */
TARGET static float NAME(soften)(float *score, int n, float *most, float *sum) {
    float top = *most;
    int at = 0;
    NAME(floats) tops = {0};
    tops += top;
    for (; at + WIDTH <= n; at += WIDTH) {
        const NAME(floats) v = LOAD_AS_F32(score + at);
        tops = NAME(pick)(v > tops, v, tops);
    }
    for (int l = 0; l < WIDTH; l++)
        top = tops[l] > top ? tops[l] : top;
    for (; at < n; at++)
        top = score[at] > top ? score[at] : top;
    NAME(floats) total = {0};
    for (int j = 0; j < AS_ATTEND_BLOCK; j += WIDTH) {
        NAME(floats) *v = (NAME(floats) *)(score + j);
        if (j >= n) {
            *v = (NAME(floats)){0};
            continue;
        }
        *v = NAME(exp)(*v - top);
        for (int l = n - j; l < WIDTH; l++)
            (*v)[l] = 0;
        total += *v;
    }
    NAME(floats) difference = {0};
    difference += *most - top;
    const float keep = *most == -INFINITY ? 0 : NAME(exp)(difference)[0];
    *sum = *sum * keep + SUM(total);
    *most = top;
    return keep;
}

/* out[r] = keep[r] * out[r] + sum over j of weight[r][j] value[j], one vector of each, for r < rows; positions j, j + 1
 * ... of `turns` go into sums of their own, since few rows would wait for their additions. */
#define VALUES(name, element, rows, turns, load_vector)                                                                \
    TARGET static void name(const element *v, int head_dim, int n, const float *weight, const float *keep,             \
                            float *out) {                                                                              \
        NAME(floats) sum[rows][turns];                                                                                 \
        memset(sum, 0, sizeof sum);                                                                                    \
        int j = 0;                                                                                                     \
        for (; j + (turns) <= n; j += (turns))                                                                         \
            for (int l = 0; l < (turns); l++) {                                                                        \
                const NAME(floats) in = load_vector(v + (j + l) * head_dim);                                           \
                for (int r = 0; r < (rows); r++)                                                                       \
                    sum[r][l] += weight[r * AS_ATTEND_BLOCK + j + l] * in;                                             \
            }                                                                                                          \
        for (; j < n; j++)                                                                                             \
            for (int r = 0; r < (rows); r++)                                                                           \
                sum[r][0] += weight[r * AS_ATTEND_BLOCK + j] * load_vector(v + j * head_dim);                          \
        for (int r = 0; r < (rows); r++) {                                                                             \
            for (int l = 1; l < (turns); l++)                                                                          \
                sum[r][0] += sum[r][l];                                                                                \
            NAME(floats) *to = (NAME(floats) *)(out + r * head_dim);                                                   \
            *to = *to * keep[r] + sum[r][0];                                                                           \
        }                                                                                                              \
    }

#define ALL_VALUES(kind, element, load_vector, load_one)                                                               \
    VALUES(NAME(values_##kind##_four), element, 4, 2, load_vector)                                                     \
    VALUES(NAME(values_##kind##_one), element, 1, 4, load_vector)                                                      \
    TARGET static void NAME(values_##kind)(const element *v, int head_dim, int n, const float *weight,                 \
                                           const float *keep, int rows, float *out) {                                  \
        int i = 0;                                                                                                     \
        for (; i + WIDTH <= head_dim; i += WIDTH) {                                                                    \
            int r = 0;                                                                                                 \
            for (; r + 4 <= rows; r += 4)                                                                              \
                NAME(values_##kind##_four)                                                                             \
            (v + i, head_dim, n, weight + r * AS_ATTEND_BLOCK, keep + r, out + r * head_dim + i);                      \
            for (; r < rows; r++)                                                                                      \
                NAME(values_##kind##_one)                                                                              \
            (v + i, head_dim, n, weight + r * AS_ATTEND_BLOCK, keep + r, out + r * head_dim + i);                      \
        }                                                                                                              \
        for (; i < head_dim; i++)                                                                                      \
            for (int r = 0; r < rows; r++) {                                                                           \
                float sum = out[r * head_dim + i] * keep[r];                                                           \
                for (int j = 0; j < n; j++)                                                                            \
                    sum += weight[r * AS_ATTEND_BLOCK + j] * load_one(v[j * head_dim + i]);                            \
                out[r * head_dim + i] = sum;                                                                           \
            }                                                                                                          \
    }

ALL_VALUES(f32, float, LOAD_AS_F32, SAME)
ALL_VALUES(bf16, uint16_t, LOAD_AS_BF16, as_bf16_to_f32)

TARGET static void NAME(attend)(const as_attend *a) {
    const size_t bytes = as_rng_type_bytes(a->type);
    float keep[AS_ATTEND_ROWS];
    for (int64_t p = a->from; p < a->to; p += AS_ATTEND_BLOCK) {
        const int n = a->to - p < AS_ATTEND_BLOCK ? (int)(a->to - p) : AS_ATTEND_BLOCK;
        const size_t at = (size_t)(p * a->head_dim) * bytes;
        NAME(product)
        (a->type, (const char *)a->keys + at, n, a->head_dim, a->q, a->rows, 1, a->score, AS_ATTEND_BLOCK, false);
        for (int r = 0; r < a->rows; r++) {
            const int64_t left = a->limit ? a->limit[r] - p : n;
            const int seen = left < 0 ? 0 : left < n ? (int)left : n;
            keep[r] = NAME(soften)(a->score + r * AS_ATTEND_BLOCK, seen, a->most + r, a->sum + r);
        }
        const char *values = (const char *)a->values + at;
        if (a->type == AS_F32)
            NAME(values_f32)((const float *)values, a->head_dim, n, a->score, keep, a->rows, a->out);
        else
            NAME(values_bf16)((const uint16_t *)values, a->head_dim, n, a->score, keep, a->rows, a->out);
    }
}

static const as_vector NAME(table) = {NAME(product), NAME(spread),   NAME(stream_bf16), NAME(norm),
                                      NAME(rotate),  NAME(activate), NAME(attend)};

#undef LOAD_AS_F32
#undef LOAD_AS_BF16
#undef TILE
#undef STREAMS
#undef PRODUCT
#undef SAME
#undef VALUES
#undef ALL_VALUES
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef COLUMNS
#undef SUM
#undef SUMS
