/* matmul/packed on the host: the arrangement of Goto & van de Geijn (ACM TOMS 34, 2008), turned so that vectors lie
 * along the rows of C.
 *
 *   member of the team   a rectangle of C, from a grid over the team whose rectangles are nearly square; no member waits
 *                        for another, and each packs what it needs itself: (1/rows + 1/columns) of the multiply-adds
 *   depth block          KC columns of A and rows of B; all of the member's rows of A are packed once, transposed, so
 *                        that a register tile reads its column of A as consecutive floats
 *   column block         KC x NC of B packed in strips as wide as a register tile; it fills half of L2
 *   panel                MR rows of A, MR x KC: stays in L1 while the strips of the block pass by
 *   register tile        MR x NR of C, read and written once a depth block, straight from registers
 *
 * KC is chosen so that a panel takes at most half of L1, and at most 320 so that a strip's lines are still there when
 * the next panel comes; NC so that a block of B takes half of L2. Both follow the caches of the machine.
 *
 * Loads for each multiply-add: a strip is read from L2 once for MR rows, so 4 NR KC bytes for MR NR KC multiply-adds:
 * 1/MR of a float each (14 rows: 9 bytes a cycle at two 16-wide multiply-adds a cycle), which L2 delivers.
 *
 * bf16 (axis type): tiles and packing of packed_bf16.c; C is summed in f32, in a buffer as large as the member's
 * rectangle, and rounded once at the end.
 *
 * Measured against OpenBLAS: results/README.md. */
#include "matmul.h"

#include "../ceiling/levels.h"
#include "../isa.h"
#include "packed.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KC = 320 };

/* rows and vectors are constants, so that the sums stay in registers; rows * vectors + vectors + 1 of them are used.
 * The next lines of the strip are fetched ahead of the hardware, which stops at a page. */
#define DEFINE_TILE(name, target, width, rows, vectors)                                                                \
    typedef float name##_vector __attribute__((vector_size(4 * (width)), aligned(4), may_alias));                      \
    target static void name(int64_t depth, const void *left, const void *right, float *c, int64_t stride, bool add) {  \
        const float *a = left, *b = right;                                                                             \
        name##_vector sum[rows][vectors];                                                                              \
        memset(sum, 0, sizeof sum);                                                                                    \
        for (int i = 0; i < (rows); i++)                                                                               \
            for (int v = 0; v < (vectors); v++)                                                                        \
                __builtin_prefetch(c + i * stride + v * (width), 1);                                                   \
        for (int64_t d = 0; d < depth; d++, a += (rows), b += (vectors) * (width)) {                                   \
            for (int v = 0; v < (vectors); v++)                                                                        \
                __builtin_prefetch(b + (8 * (vectors) + v) * (width));                                                 \
            for (int i = 0; i < (rows); i++)                                                                           \
                for (int v = 0; v < (vectors); v++)                                                                    \
                    sum[i][v] += a[i] * ((const name##_vector *)b)[v];                                                 \
        }                                                                                                              \
        for (int i = 0; i < (rows); i++)                                                                               \
            for (int v = 0; v < (vectors); v++) {                                                                      \
                name##_vector *out = (name##_vector *)(c + i * stride) + v;                                            \
                if (add)                                                                                               \
                    sum[i][v] += *out;                                                                                 \
                *out = sum[i][v];                                                                                      \
            }                                                                                                          \
    }

/* 28 + 3 of 32 registers (AVX-512), 12 + 3 of 16 (AVX2), 8 + 3 of 16 (SSE2). */
DEFINE_TILE(tile_base, , 4, 4, 2)
DEFINE_TILE(tile_avx2, AS_TARGET_AVX2, 8, 6, 2)
DEFINE_TILE(tile_avx512, AS_TARGET_AVX512, 16, 14, 2)

typedef struct plan {
    as_packed_kernel kernel;
    int grid_rows, grid_columns;
    int64_t words;                       /* along k */
    int64_t kc, nc;                      /* words; columns */
    size_t a_floats, b_floats, c_floats; /* buffers of one member; c: 0 where C is f32 and summed in place */
} plan;

typedef struct packed_state {
    plan plan;
    float *buffer; /* of each member: A, then B, then C */
} packed_state;

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }
static int64_t blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

static int64_t up_to(int64_t n, int64_t unit) { return blocks(n, unit) * unit; }

static void pack_b_f32(void *out, const void *from, int64_t stride, int64_t elements, int64_t depth, int64_t n,
                       int size);
static void pack_a_f32(void *out, const void *from, int64_t stride, int64_t elements, int64_t depth, int64_t n,
                       int size);

static as_packed_kernel kernel_f32(void) {
    as_packed_kernel k = {.pack_a = pack_a_f32,
                          .pack_b = pack_b_f32,
                          .element_bytes = 4,
                          .per_word = 1,
                          .depth_unit = 1,
                          .l1_halves = 1,
                          .most_depth = MAX_KC};
    switch (as_isa_best()) {
    case AS_ISA_AVX512: k.tile = tile_avx512, k.rows = 14, k.columns = 32; return k;
    case AS_ISA_AVX2: k.tile = tile_avx2, k.rows = 6, k.columns = 16; return k;
    case AS_ISA_BASE: break;
    }
    k.tile = tile_base, k.rows = 4, k.columns = 8;
    return k;
}

/* The grid of `members` with the least packing, (rows of a rectangle + its columns), for m x n. */
static void pick_grid(plan *p, int members, as_matmul_shape s) {
    double least = 0;
    for (int r = 1; r <= members; r++) {
        if (members % r)
            continue;
        const double side = (double)blocks(blocks(s.m, p->kernel.rows), r) * p->kernel.rows +
                            (double)blocks(blocks(s.n, p->kernel.columns), members / r) * p->kernel.columns;
        if (r == 1 || side < least) {
            least = side;
            p->grid_rows = r;
            p->grid_columns = members / r;
        }
    }
}

/* Of a row of sums: an odd number of lines, so that the rows of a tile do not all fall into one set of a cache. */
static int64_t sums_stride(int64_t columns) { return (blocks(columns, 16) | 1) * 16; }

static plan plan_for(const as_levels *l, const as_packed_kernel *k, int members, as_matmul_shape s) {
    plan p = {.kernel = *k, .grid_rows = 1, .grid_columns = 1, .words = blocks(s.k, k->per_word)};
    pick_grid(&p, members, s);
    const int64_t depth = at_most(k->l1_halves * l->l1_bytes / 2 / (4 * k->rows), k->most_depth);
    const int64_t parts = depth > 0 ? blocks(p.words, depth) : p.words;
    p.kc = up_to(parts > 0 ? blocks(p.words, parts) : 1, k->depth_unit); /* equal blocks, no thin last one */
    const int64_t strips = l->l2_bytes / 2 / (4 * p.kc * k->columns);
    p.nc = (strips > 1 ? strips : 1) * k->columns;
    const int64_t tall = blocks(blocks(s.m, k->rows), p.grid_rows) * k->rows;
    const int64_t wide = blocks(blocks(s.n, k->columns), p.grid_columns) * k->columns;
    p.a_floats = (size_t)up_to(tall * p.kc, 16);
    /* fetched ahead: beyond the last strip */
    p.b_floats = (size_t)up_to(at_most(p.nc, wide) * p.kc, 16) + 16 * AS_PACKED_MAX_COLUMNS;
    p.c_floats = k->b_transposed ? (size_t)(tall * sums_stride(wide)) : 0;
    return p;
}

/* ---- packing ---- */

/* depth x columns; missing columns are zero. */
static void pack_b_f32(void *out, const void *from, int64_t stride, int64_t elements, int64_t depth, int64_t n,
                       int size) {
    (void)elements; /* as many as words */
    float *to = out;
    const float *b = from;
    for (int64_t d = 0; d < depth; d++, to += size) {
        memcpy(to, b + d * stride, (size_t)n * sizeof *b);
        if (n < size)
            memset(to + n, 0, (size_t)(size - n) * sizeof *b);
    }
}

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* out[d][0..4) for d in [0, 4) from four rows: a 4 x 4 transposition in registers. */
static inline void transpose4(float *out, int64_t out_stride, const float *a, int64_t stride) {
    const quad r0 = *(const quad *)a, r1 = *(const quad *)(a + stride);
    const quad r2 = *(const quad *)(a + 2 * stride), r3 = *(const quad *)(a + 3 * stride);
    const quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    const quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    const quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    const quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(quad *)out = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(quad *)(out + out_stride) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(quad *)(out + 2 * out_stride) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(quad *)(out + 3 * out_stride) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

/* depth x rows, missing rows zero. */
static void pack_a_f32(void *out, const void *from, int64_t stride, int64_t elements, int64_t depth, int64_t n,
                       int size) {
    (void)elements;
    float *to = out;
    const float *a = from;
    const int64_t quads = n / 4 * 4, quad_depth = depth / 4 * 4;
    for (int64_t i = 0; i < quads; i += 4)
        for (int64_t d = 0; d < quad_depth; d += 4)
            transpose4(to + d * size + i, size, a + i * stride + d, stride);
    for (int64_t d = 0; d < depth; d++)
        for (int64_t i = d < quad_depth ? quads : 0; i < size; i++)
            to[d * size + i] = i < n ? a[i * stride + d] : 0.0f;
}

/* ---- one member ---- */

typedef struct packed_job {
    const packed_state *state;
    as_matmul_shape s;
    const char *a, *b;
    void *c;
} packed_job;

typedef struct rectangle {
    int64_t row, rows, column, columns;
} rectangle;

static rectangle rectangle_of(const plan *p, as_matmul_shape s, int member) {
    const as_packed_kernel *k = &p->kernel;
    const int r = member / p->grid_columns, c = member % p->grid_columns;
    const int64_t panels = blocks(s.m, k->rows), strips = blocks(s.n, k->columns);
    rectangle out = {.row = panels * r / p->grid_rows * k->rows, .column = strips * c / p->grid_columns * k->columns};
    out.rows = at_most(panels * (r + 1) / p->grid_rows * k->rows, s.m) - out.row;
    out.columns = at_most(strips * (c + 1) / p->grid_columns * k->columns, s.n) - out.column;
    return out;
}

/* One register tile; one that reaches over the edge of C goes through a whole tile on the stack. */
static void one_tile(const as_packed_kernel *k, int64_t depth, const float *a, const float *b, float *c, int64_t stride,
                     int64_t rows, int64_t columns, bool add) {
    if (rows >= k->rows && columns >= k->columns) {
        k->tile(depth, a, b, c, stride, add);
        return;
    }
    _Alignas(64) float tile[AS_PACKED_MAX_ROWS * AS_PACKED_MAX_COLUMNS];
    k->tile(depth, a, b, tile, k->columns, false);
    for (int64_t i = 0; i < at_most(rows, k->rows); i++)
        for (int64_t j = 0; j < at_most(columns, k->columns); j++)
            c[i * stride + j] = add ? c[i * stride + j] + tile[i * k->columns + j] : tile[i * k->columns + j];
}

/* `depth` words from word `at` on, of the rectangle's rows and columns. */
static void one_depth(const packed_job *job, rectangle r, int64_t at, float *a, float *b, float *c, int64_t stride) {
    const plan *p = &job->state->plan;
    const as_packed_kernel *k = &p->kernel;
    const as_matmul_shape s = job->s;
    const int64_t depth = up_to(at_most(p->words - at, p->kc), k->depth_unit), first = at * k->per_word,
                  elements = at_most(s.k - first, depth * k->per_word);
    const int64_t b_row = k->b_transposed ? s.k : s.n;
    for (int64_t i = 0; i < r.rows; i += k->rows)
        k->pack_a(a + i * depth, job->a + ((r.row + i) * s.k + first) * k->element_bytes, s.k, elements, depth,
                  at_most(r.rows - i, k->rows), k->rows);
    for (int64_t n = 0; n < r.columns; n += p->nc) {
        const int64_t width = at_most(r.columns - n, p->nc);
        for (int64_t j = 0; j < width; j += k->columns) {
            const int64_t column = r.column + n + j,
                          from = k->b_transposed ? column * s.k + first : first * s.n + column;
            k->pack_b(b + j * depth, job->b + from * k->element_bytes, b_row, elements, depth,
                      at_most(width - j, k->columns), k->columns);
        }
        for (int64_t i = 0; i < r.rows; i += k->rows)
            for (int64_t j = 0; j < width; j += k->columns)
                one_tile(k, depth, a + i * depth, b + j * depth, c + i * stride + n + j, stride, r.rows - i, width - j,
                         at > 0);
    }
}

static void packed_member(int member, int size, void *context) {
    (void)size;
    const packed_job *job = context;
    const plan *p = &job->state->plan;
    if (member >= p->grid_rows * p->grid_columns)
        return;
    const as_matmul_shape s = job->s;
    const rectangle r = rectangle_of(p, s, member);
    float *a = job->state->buffer + (size_t)member * (p->a_floats + p->b_floats + p->c_floats), *b = a + p->a_floats;
    float *sums = p->c_floats ? b + p->b_floats : (float *)job->c + r.row * s.n + r.column;
    const int64_t stride = p->c_floats ? sums_stride(r.columns) : s.n;
    if (p->kernel.begin)
        p->kernel.begin();
    for (int64_t at = 0; at < p->words; at += p->kc)
        one_depth(job, r, at, a, b, sums, stride);
    if (p->kernel.end)
        p->kernel.end();
    for (int64_t i = 0; p->c_floats && i < r.rows; i++)
        as_packed_round_bf16((uint16_t *)job->c + (r.row + i) * s.n + r.column, sums + i * stride, r.columns);
}

/* ---- hooks ---- */

as_status as_matmul_packed_prepare_cpu(const as_call *call, void **state, as_error *e) {
    as_levels levels;
    AS_TRY(as_levels_read(&levels, e));
    as_packed_kernel kernel = kernel_f32();
    const as_matmul_type *type = as_params_has(call->params, "type") ? as_matmul_type_of(call->params) : NULL;
    if (type && type->element == AS_MM_BF16) { /* suite offload has no such axis: f32 */
        const as_packed_kernel f32 = kernel;
        AS_TRY(as_packed_bf16(as_params_text(call->params, "config"), &f32, &kernel, e));
    }
    packed_state *t = calloc(1, sizeof *t);
    if (!t)
        return as_fail(e, AS_ENOMEM, "no memory for the state of matmul/packed");
    const int members = as_team_size(call->team);
    t->plan = plan_for(&levels, &kernel, members, as_matmul_shape_of(call->params));
    const size_t bytes = (size_t)members * (t->plan.a_floats + t->plan.b_floats + t->plan.c_floats) * sizeof *t->buffer;
    t->buffer = aligned_alloc(64, bytes);
    if (!t->buffer) {
        free(t);
        return as_fail(e, AS_ENOMEM, "no memory for the packing buffers of matmul/packed (%zu bytes)", bytes);
    }
    memset(t->buffer, 0, bytes); /* page faults here, not in the timed region */
    *state = t;
    return AS_OK;
}

void as_matmul_packed_finish_cpu(void *state) {
    packed_state *t = state;
    if (!t)
        return;
    free(t->buffer);
    free(t);
}

as_status as_matmul_packed_cpu(const as_call *call, as_error *e) {
    const packed_state *t = call->state;
    const int planned = t->plan.grid_rows * t->plan.grid_columns;
    if (as_team_size(call->team) != planned)
        return as_fail(e, AS_EFAIL, "matmul/packed was prepared for %d threads, not %d", planned,
                       as_team_size(call->team));
    packed_job job = {t, as_matmul_shape_of(call->params), call->operand[0], call->operand[1], call->operand[2]};
    as_team_run(call->team, packed_member, &job);
    return AS_OK;
}
