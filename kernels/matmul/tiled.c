/* matmul/tiled on the host: B is cut into blocks of BLOCK_K x BLOCK_N and A into panels of a few rows, both copied into
 * packed buffers, so that the inner loop reads consecutive memory out of L1 and L2. The inner loop keeps a tile of C in
 * registers and does one multiply-add for each element of it and each k. Threads take row panels, and each packs for
 * itself. What it still wastes, and packed.c does not: A is packed again for every block of B, and each tile of C goes
 * through memory before it is added. */
#include "matmul.h"

#include "../isa.h"

#include <stdlib.h>
#include <string.h>

/* A block of B is 256 x 256 floats, 256 KiB: half of a small L2. A packed panel of A is at most 14 x 256 floats,
 * 14 KiB, beside one strip of B in L1. */
enum { BLOCK_K = 256, BLOCK_N = 256, MAX_ROWS = 14, MAX_COLUMNS = 32 };

typedef struct buffers {
    _Alignas(64) float b[BLOCK_K * BLOCK_N];
    _Alignas(64) float a[BLOCK_K * MAX_ROWS];
} buffers; /* one for each member of the team */

/* Register tile: rows x columns of C, columns a whole number of vectors. */
typedef void (*tile_fn)(int64_t depth, const float *a, const float *b, float *tile);

/* tile[rows][columns] = sum over depth of a[d][rows] x b[d][columns]; rows and columns are constants after inlining,
 * so that the accumulators stay in registers. */
#define DEFINE_TILE(name, target, width, rows, vectors)                                                                \
    typedef float name##_vector __attribute__((vector_size(4 * (width)), aligned(4), may_alias));                      \
    target static void name(int64_t depth, const float *a, const float *b, float *tile) {                              \
        name##_vector sum[rows][vectors];                                                                              \
        memset(sum, 0, sizeof sum);                                                                                    \
        for (int64_t d = 0; d < depth; d++, a += (rows), b += (vectors) * (width))                                     \
            for (int i = 0; i < (rows); i++)                                                                           \
                for (int v = 0; v < (vectors); v++)                                                                    \
                    sum[i][v] += a[i] * ((const name##_vector *)b)[v];                                                 \
        memcpy(tile, sum, sizeof sum);                                                                                 \
    }

/* Rows and vectors fill the registers: 28 + 3 of 32 (AVX-512), 12 + 3 of 16 (AVX2, SSE2). */
DEFINE_TILE(tile_base, , 4, 4, 2)
DEFINE_TILE(tile_avx2, AS_TARGET_AVX2, 8, 6, 2)
DEFINE_TILE(tile_avx512, AS_TARGET_AVX512, 16, 14, 2)

typedef struct tile_kind {
    tile_fn run;
    int rows, columns;
} tile_kind;

static tile_kind tile_for(as_isa isa) {
    switch (isa) {
    case AS_ISA_AVX512: return (tile_kind){tile_avx512, 14, 32};
    case AS_ISA_AVX2: return (tile_kind){tile_avx2, 6, 16};
    case AS_ISA_BASE: break;
    }
    return (tile_kind){tile_base, 4, 8};
}

int64_t as_matmul_tile_rows_cpu(void) { return tile_for(as_isa_best()).rows; }

typedef struct tiled_state {
    tile_kind tile;
    int members;
    buffers *buffer; /* members */
} tiled_state;

typedef struct tiled_job {
    const tiled_state *state;
    as_matmul_shape s;
    const float *a, *b;
    float *c;
} tiled_job;

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

/* Strips of `columns` columns one after another, each depth x columns; missing columns are zero. */
static void pack_b(float *out, const float *b, int64_t stride, int64_t depth, int64_t n, int columns) {
    for (int64_t j = 0; j < n; j += columns) {
        int64_t w = at_most(n - j, columns);
        for (int64_t d = 0; d < depth; d++, out += columns) {
            memcpy(out, b + d * stride + j, (size_t)w * sizeof *b);
            if (w < columns)
                memset(out + w, 0, (size_t)(columns - w) * sizeof *b);
        }
    }
}

/* depth x rows, missing rows zero. */
static void pack_a(float *out, const float *a, int64_t stride, int64_t depth, int64_t m, int rows) {
    for (int64_t d = 0; d < depth; d++)
        for (int i = 0; i < rows; i++)
            *out++ = i < m ? a[i * stride + d] : 0.0f;
}

static void store(float *c, int64_t stride, const float *tile, int64_t m, int64_t n, int columns, bool add) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * stride + j] = add ? c[i * stride + j] + tile[i * columns + j] : tile[i * columns + j];
}

/* Rows [from, to) of C for one block of B, which lies packed in buf->b. */
static void block_rows(const tiled_job *job, buffers *buf, int64_t from, int64_t to, int64_t k0, int64_t depth,
                       int64_t n0, int64_t width) {
    const tile_kind t = job->state->tile;
    const as_matmul_shape s = job->s;
    _Alignas(64) float tile[MAX_ROWS * MAX_COLUMNS];
    for (int64_t i = from; i < to; i += t.rows) {
        int64_t m = at_most(to - i, t.rows);
        pack_a(buf->a, job->a + i * s.k + k0, s.k, depth, m, t.rows);
        for (int64_t j = 0; j < width; j += t.columns) {
            t.run(depth, buf->a, buf->b + j * depth, tile);
            store(job->c + i * s.n + n0 + j, s.n, tile, m, at_most(width - j, t.columns), t.columns, k0 > 0);
        }
    }
}

static void tiled_member(int member, int size, void *context) {
    const tiled_job *job = context;
    const as_matmul_shape s = job->s;
    const tile_kind t = job->state->tile;
    buffers *buf = &job->state->buffer[member];
    int64_t panels = (s.m + t.rows - 1) / t.rows;
    int64_t from = panels * member / size * t.rows;
    int64_t to = at_most(panels * (member + 1) / size * t.rows, s.m);
    if (from >= to)
        return;
    for (int64_t n0 = 0; n0 < s.n; n0 += BLOCK_N)
        for (int64_t k0 = 0; k0 < s.k; k0 += BLOCK_K) {
            int64_t width = at_most(s.n - n0, BLOCK_N), depth = at_most(s.k - k0, BLOCK_K);
            pack_b(buf->b, job->b + k0 * s.n + n0, s.n, depth, width, t.columns);
            block_rows(job, buf, from, to, k0, depth, n0, width);
        }
}

as_status as_matmul_tiled_prepare_cpu(const as_call *call, void **state, as_error *e) {
    tiled_state *t = calloc(1, sizeof *t);
    if (!t)
        return as_fail(e, AS_ENOMEM, "no memory for the state of matmul/tiled");
    t->tile = tile_for(as_isa_best());
    t->members = as_team_size(call->team);
    t->buffer = aligned_alloc(64, (size_t)t->members * sizeof *t->buffer);
    if (!t->buffer) {
        free(t);
        return as_fail(e, AS_ENOMEM, "no memory for the packing buffers of matmul/tiled");
    }
    memset(t->buffer, 0, (size_t)t->members * sizeof *t->buffer); /* page faults here, not in the timed region */
    *state = t;
    return AS_OK;
}

void as_matmul_tiled_finish_cpu(void *state) {
    tiled_state *t = state;
    if (!t)
        return;
    free(t->buffer);
    free(t);
}

as_status as_matmul_tiled_cpu(const as_call *call, as_error *e) {
    const tiled_state *t = call->state;
    if (as_team_size(call->team) > t->members)
        return as_fail(e, AS_EFAIL, "matmul/tiled was prepared for %d threads, not %d", t->members,
                       as_team_size(call->team));
    tiled_job job = {t, as_matmul_shape_of(call->params), call->operand[0], call->operand[1], call->operand[2]};
    as_team_run(call->team, tiled_member, &job);
    return AS_OK;
}
