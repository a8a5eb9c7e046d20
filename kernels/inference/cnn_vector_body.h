/* Included once for each instruction set, with NAME(x), TARGET, WIDTH (floats of a vector) and PIXELS x VECTORS (sums of a
 * register tile). Constants of loops that hold vectors are known to the compiler, so that it unrolls them and the sums
 * stay in registers. */

typedef float NAME(floats) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

#define LOAD(p) (*(const NAME(floats) *)(p))
/* What is larger, lane by lane; a NaN in `a` stays. */
#define LARGER(a, b) ((NAME(floats))(((NAME(ints))(b) & ((b) > (a))) | ((NAME(ints))(a) & ~((b) > (a)))))

/* The last channels of a tensor: fewer than a panel. */
TARGET static void NAME(store_some)(const as_cnn_tile *t, int p, const float *sums) {
    for (int c = 0; c < t->channels; c++) {
        const float sum = sums[c] + (t->add[0] ? t->add[p][c] : 0);
        t->out[p][c] = t->relu && sum < 0 ? 0 : sum;
    }
}

#define TILE(name, rows)                                                                                               \
    TARGET static void name(const as_cnn_tile *t) {                                                                    \
        NAME(floats) sum[rows][VECTORS];                                                                               \
        const float *w = t->panel, *in[rows];                                                                          \
        for (int p = 0; p < (rows); p++) {                                                                             \
            in[p] = t->in[p];                                                                                          \
            for (int v = 0; v < VECTORS; v++)                                                                          \
                sum[p][v] = LOAD(t->bias + v * WIDTH);                                                                 \
        }                                                                                                              \
        for (int r = 0; r < t->runs; r++)                                                                              \
            for (int64_t i = r * t->gap, end = i + t->run; i < end; i++, w += VECTORS * WIDTH) {                       \
                NAME(floats) weight[VECTORS];                                                                          \
                for (int v = 0; v < VECTORS; v++)                                                                      \
                    weight[v] = LOAD(w + v * WIDTH);                                                                   \
                for (int p = 0; p < (rows); p++)                                                                       \
                    for (int v = 0; v < VECTORS; v++)                                                                  \
                        sum[p][v] += in[p][i] * weight[v];                                                             \
            }                                                                                                          \
        const NAME(floats) zero = {0};                                                                                 \
        for (int p = 0; p < (rows); p++) {                                                                             \
            if (p >= t->pixels)                                                                                        \
                continue;                                                                                              \
            if (t->channels < VECTORS * WIDTH) {                                                                       \
                NAME(store_some)(t, p, (const float *)sum[p]);                                                         \
                continue;                                                                                              \
            }                                                                                                          \
            for (int v = 0; v < VECTORS; v++) {                                                                        \
                NAME(floats) out = sum[p][v];                                                                          \
                if (t->add[0])                                                                                         \
                    out += LOAD(t->add[p] + v * WIDTH);                                                                \
                if (t->relu)                                                                                           \
                    out = LARGER(out, zero);                                                                           \
                *(NAME(floats) *)(t->out[p] + v * WIDTH) = out;                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }

TILE(NAME(whole), PIXELS)
TILE(NAME(half), (PIXELS + 1) / 2)

TARGET static void NAME(tile)(const as_cnn_tile *t) {
    if (t->pixels > (PIXELS + 1) / 2)
        NAME(whole)(t);
    else
        NAME(half)(t);
}

TARGET static void NAME(largest)(const float *in, int side, int64_t gap, int channels, float *out) {
    int c = 0;
    for (; c + WIDTH <= channels; c += WIDTH) {
        NAME(floats) most = LOAD(in + c);
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++) {
                const NAME(floats) value = LOAD(in + y * gap + x * channels + c);
                most = LARGER(most, value);
            }
        *(NAME(floats) *)(out + c) = most;
    }
    for (; c < channels; c++) {
        float most = in[c];
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++) {
                const float value = in[y * gap + x * channels + c];
                most = value > most ? value : most;
            }
        out[c] = most;
    }
}

TARGET static void NAME(mean)(const float *in, int side, int64_t gap, int channels, float factor, float *out) {
    for (int c = 0; c < channels; c++)
        out[c] = 0;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            for (int c = 0; c < channels; c++)
                out[c] += in[y * gap + x * channels + c];
    for (int c = 0; c < channels; c++)
        out[c] *= factor;
}

static const as_cnn_vector NAME(table) = {PIXELS, VECTORS *WIDTH, NAME(tile), NAME(largest), NAME(mean)};

#undef LOAD
#undef LARGER
#undef TILE
#undef NAME
#undef TARGET
#undef WIDTH
#undef PIXELS
#undef VECTORS
