/* inference/simd and inference/openblas on the host.
 *
 * simd      AVX2 or AVX-512, chosen at run time (vector.h); bf16 weights are widened in registers, or multiplied as they
 *           are where the machine has AVX512-BF16 and one row asks (a batch is bound by arithmetic there, and measured
 *           against the rate of f32). Every product is split by rows of its matrix over the team, so that each member
 *           streams its own share of the weights. Attention of a decode step is split over heads and positions as one
 *           range, evenly, and a head that lies on a border is put together afterwards; heads that share keys and
 *           values read them once. A prefill's attention goes by blocks of queries.
 * openblas  the same but for the products, which are cblas_sgemm (several rows) and cblas_sgemv (one).
 *
 * What is too small to share stays on the caller: a barrier costs about a microsecond. */
#include "../matmul/matmul.h"
#include "../threads.h"
#include "decoder_cpu.h"
#include "vector.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_ROWS = 24, SHARED_FLOATS = 8192 };

static const as_vector *vector(void) { return as_vector_for(as_isa_best()); }

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

static float *scratch_of(const as_decoder_cpu *d, int member) {
    return d->scratch + (size_t)member * d->scratch_floats;
}

/* ---- products ---- */

typedef struct product_job {
    const as_decoder_cpu *d;
    const as_tensor *w;
    const float *x;
    int64_t rows;
    float *out;
    bool add, bf16;
} product_job;

static void product_member(int member, int size, void *context) {
    const product_job *j = context;
    const as_tensor *w = j->w;
    const int64_t groups = (w->rows + GROUP_ROWS - 1) / GROUP_ROWS;
    const int64_t from = at_most(groups * member / size * GROUP_ROWS, w->rows),
                  to = at_most(groups * (member + 1) / size * GROUP_ROWS, w->rows);
    const as_dtype type = j->d->step.type;
    const char *weights = (const char *)as_decoder_weight(j->d, w) + (size_t)(from * w->columns) * as_dtype_bytes(type);
    if (j->bf16) {
        uint16_t *x = (uint16_t *)scratch_of(j->d, member);
        as_vector_round_bf16(j->x, w->columns, x);
        as_vector_product_bf16((const uint16_t *)weights, to - from, w->columns, x, w->scale, j->out + from, j->add);
        return;
    }
    if (type == AS_BF16 && j->rows == 1) {
        float *x = scratch_of(j->d, member);
        vector()->spread(j->x, w->columns, x);
        vector()->stream_bf16((const uint16_t *)weights, to - from, w->columns, x, w->scale, j->out + from, j->add);
        return;
    }
    vector()->product(type, weights, to - from, w->columns, j->x, j->rows, w->scale, j->out + from, w->rows, j->add);
}

static void product(const as_decoder_cpu *d, const as_tensor *w, const float *x, int64_t rows, float *out, bool add) {
    const bool bf16 = rows == 1 && d->step.type == AS_BF16 && w->columns % 32 == 0 && as_isa_bf16();
    product_job job = {d, w, x, rows, out, add, bf16};
    if (rows * w->rows * w->columns < SHARED_FLOATS)
        product_member(0, 1, &job);
    else
        as_team_run(d->team, product_member, &job);
}

static void product_openblas(const as_decoder_cpu *d, const as_tensor *w, const float *x, int64_t rows, float *out,
                             bool add) {
    const float *weights = as_decoder_weight(d, w);
    const int n = (int)w->rows, k = (int)w->columns;
    const float beta = add ? 1 : 0;
    if (rows == 1)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, n, k, w->scale, weights, k, x, 1, beta, out, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, n, k, w->scale, x, k, weights, k, beta, out, n);
}

/* ---- row by row ---- */

typedef struct row_job {
    const as_decoder_cpu *d;
    const as_tensor *w;
    const float *x;
    int64_t rows;
    float *out;
    const as_chunk *chunk;
} row_job;

/* Rows over the team where there is enough to do. */
static void by_rows(as_team_fn fn, row_job *job, int64_t floats) {
    if (job->rows == 1 || floats < SHARED_FLOATS)
        fn(0, 1, job);
    else
        as_team_run(job->d->team, fn, job);
}

static void norm_member(int member, int size, void *context) {
    const row_job *j = context;
    const int64_t n = j->w->columns;
    for (int64_t r = j->rows * member / size; r < j->rows * (member + 1) / size; r++)
        vector()->norm(j->d->step.type, as_decoder_weight(j->d, j->w), j->x + r * n, n, j->d->step.model->norm_epsilon,
                       j->out + r * n);
}

static void norm(const as_decoder_cpu *d, const as_tensor *w, const float *x, int64_t rows, float *out) {
    by_rows(norm_member, &(row_job){d, w, x, rows, out, NULL}, rows * w->columns);
}

static void rotate_member(int member, int size, void *context) {
    const row_job *j = context;
    const as_model *m = j->d->step.model;
    const int half = m->head_dim / 2;
    for (int64_t r = j->rows * member / size; r < j->rows * (member + 1) / size; r++) {
        const int64_t at = (j->chunk->first + r % j->chunk->t) * half;
        for (int head = 0; head < m->heads + m->kv_heads; head++)
            vector()->rotate(j->d->qkv + r * as_decoder_qkv_columns(m) + (int64_t)head * m->head_dim, half,
                             j->d->cosine + at, j->d->sine + at);
    }
}

static void rotate(const as_decoder_cpu *d, const as_chunk *c) {
    const int64_t rows = d->step.batch * c->t;
    if (d->step.model->rope_theta > 0)
        by_rows(rotate_member, &(row_job){d, NULL, NULL, rows, NULL, c}, rows * as_decoder_qkv_columns(d->step.model));
}

static void activate_member(int member, int size, void *context) {
    const row_job *j = context;
    const int64_t n = j->d->step.model->d_ff;
    for (int64_t r = j->rows * member / size; r < j->rows * (member + 1) / size; r++)
        vector()->activate(j->d->gate_up + r * 2 * n, j->d->gate_up + r * 2 * n + n, n, j->d->active + r * n);
}

static void activate(const as_decoder_cpu *d, int64_t rows) {
    by_rows(activate_member, &(row_job){d, NULL, NULL, rows, NULL, NULL}, rows * d->step.model->d_ff);
}

/* ---- attention ---- */

/* What a member works with: queries, output, scores, running maxima and sums. */
typedef struct bench {
    float *q, *out, *score, *most, *sum;
} bench;

static size_t bench_floats(const as_model *m) {
    return (size_t)AS_ATTEND_ROWS * (2 * (size_t)m->head_dim + AS_ATTEND_BLOCK + 2);
}

static bench bench_of(const as_decoder_cpu *d, int member) {
    const size_t rows = AS_ATTEND_ROWS, hd = (size_t)d->step.model->head_dim;
    float *p = scratch_of(d, member);
    return (bench){.score = p,
                   .q = p + rows * AS_ATTEND_BLOCK,
                   .out = p + rows * (AS_ATTEND_BLOCK + hd),
                   .most = p + rows * (AS_ATTEND_BLOCK + 2 * hd),
                   .sum = p + rows * (AS_ATTEND_BLOCK + 2 * hd + 1)};
}

typedef struct attend_job {
    const as_decoder_cpu *d;
    const as_chunk *c;
    int layer;
} attend_job;

/* Queries of tokens [t, t + tokens) of a batch row, for the heads that share kv head `head`: token-major. */
static as_attend begin(const attend_job *j, const bench *b, int64_t row, int head, int64_t t, int tokens) {
    const as_decoder_cpu *d = j->d;
    const as_model *m = d->step.model;
    const int group = m->heads / m->kv_heads, hd = m->head_dim;
    const float scale = 1 / sqrtf((float)hd);
    for (int i = 0; i < tokens * group; i++) {
        const float *from = d->qkv + (row * j->c->t + t + i / group) * as_decoder_qkv_columns(m) +
                            (int64_t)(head * group + i % group) * hd;
        for (int k = 0; k < hd; k++)
            b->q[i * hd + k] = from[k] * scale;
        b->most[i] = -INFINITY;
        b->sum[i] = 0;
    }
    memset(b->out, 0, (size_t)(tokens * group * hd) * sizeof *b->out);
    return (as_attend){.keys = as_decoder_entry(d, j->c, j->layer, 0, row, head),
                       .values = as_decoder_entry(d, j->c, j->layer, 1, row, head),
                       .type = d->step.type,
                       .head_dim = hd,
                       .rows = tokens * group,
                       .q = b->q,
                       .most = b->most,
                       .sum = b->sum,
                       .out = b->out,
                       .score = b->score};
}

static void finish(const attend_job *j, const as_attend *a, int64_t row, int head, int64_t t) {
    const as_model *m = j->d->step.model;
    const int group = m->heads / m->kv_heads, hd = m->head_dim;
    for (int i = 0; i < a->rows; i++) {
        float *to =
            j->d->attention + ((row * j->c->t + t + i / group) * m->heads + (int64_t)head * group + i % group) * hd;
        for (int k = 0; k < hd; k++)
            to[k] = a->out[i * hd + k] / a->sum[i];
    }
}

/* A prefill: blocks of queries of one kv head, the longest first, dealt out in turn. */
static void prefill_member(int member, int size, void *context) {
    const attend_job *j = context;
    const as_model *m = j->d->step.model;
    const int group = m->heads / m->kv_heads, width = AS_ATTEND_ROWS / group;
    const int64_t blocks = (j->c->t + width - 1) / width, heads = j->d->step.batch * m->kv_heads;
    const bench b = bench_of(j->d, member);
    for (int64_t i = member; i < blocks * heads; i += size) {
        const int64_t t = (blocks - 1 - i / heads) * width, row = i % heads / m->kv_heads;
        const int head = (int)(i % m->kv_heads), tokens = (int)at_most(j->c->t - t, width);
        int64_t limit[AS_ATTEND_ROWS];
        as_attend a = begin(j, &b, row, head, t, tokens);
        for (int k = 0; k < a.rows; k++)
            limit[k] = j->c->first + t + k / group + 1;
        a.limit = limit;
        a.to = j->c->first + t + tokens;
        vector()->attend(&a);
        finish(j, &a, row, head, t);
    }
}

/* A piece of a head: head -1: none. `value` holds out, most, sum as in a bench, for the group's rows. */
struct as_partial {
    int64_t head;
    float value[];
};

static size_t partial_bytes(const as_model *m) {
    const size_t group = (size_t)(m->heads / m->kv_heads), hd = (size_t)m->head_dim;
    return (sizeof(struct as_partial) + group * (hd + 2) * sizeof(float) + 63) / 64 * 64;
}

static struct as_partial *partial_of(const as_decoder_cpu *d, int member, int end) {
    return (struct as_partial *)((char *)d->partial + (size_t)(2 * member + end) * partial_bytes(d->step.model));
}

/* A decode step: member i takes its share of all (row, kv head, position) as one range. A head that it does not have as a
 * whole it leaves as a partial: 0 at the beginning of its range, 1 at the end. */
static void decode_member(int member, int size, void *context) {
    const attend_job *j = context;
    const as_model *m = j->d->step.model;
    const int group = m->heads / m->kv_heads;
    const int64_t n = j->c->first + 1, all = j->d->step.batch * m->kv_heads * n;
    const int64_t from = all * member / size, to = all * (member + 1) / size;
    const bench b = bench_of(j->d, member);
    partial_of(j->d, member, 0)->head = partial_of(j->d, member, 1)->head = -1;
    for (int64_t at = from; at < to;) {
        const int64_t head = at / n, end = at_most((head + 1) * n, to);
        as_attend a = begin(j, &b, head / m->kv_heads, (int)(head % m->kv_heads), 0, 1);
        a.from = at - head * n;
        a.to = end - head * n;
        vector()->attend(&a);
        if (a.to - a.from == n) {
            finish(j, &a, head / m->kv_heads, (int)(head % m->kv_heads), 0);
        } else {
            struct as_partial *p = partial_of(j->d, member, a.from == 0);
            p->head = head;
            memcpy(p->value, a.out, (size_t)(group * m->head_dim) * sizeof *a.out);
            memcpy(p->value + group * m->head_dim, a.most, (size_t)group * sizeof *a.most);
            memcpy(p->value + group * (m->head_dim + 1), a.sum, (size_t)group * sizeof *a.sum);
        }
        at = end;
    }
}

/* Adds a piece to what the bench holds of the same head: both in units of the larger maximum. */
static void join(const as_attend *a, const struct as_partial *p, int hd) {
    for (int i = 0; i < a->rows; i++) {
        const float most = p->value[a->rows * hd + i], sum = p->value[a->rows * (hd + 1) + i];
        const float top = most > a->most[i] ? most : a->most[i];
        const float keep = a->sum[i] > 0 ? expf(a->most[i] - top) : 0, take = expf(most - top);
        for (int k = 0; k < hd; k++)
            a->out[i * hd + k] = a->out[i * hd + k] * keep + p->value[i * hd + k] * take;
        a->sum[i] = a->sum[i] * keep + sum * take;
        a->most[i] = top;
    }
}

/* Pieces of one head follow one another: the end of a member's range, whole ranges, the beginning of a last one. */
static void join_all(const attend_job *j, int size) {
    const as_model *m = j->d->step.model;
    const bench b = bench_of(j->d, 0);
    int64_t open = -1;
    as_attend a = {0};
    for (int i = 0; i < 2 * size; i++) {
        const struct as_partial *p = partial_of(j->d, i / 2, i % 2);
        if (p->head < 0)
            continue;
        if (p->head != open) {
            if (open >= 0)
                finish(j, &a, open / m->kv_heads, (int)(open % m->kv_heads), 0);
            open = p->head;
            a = begin(j, &b, open / m->kv_heads, (int)(open % m->kv_heads), 0, 1);
        }
        join(&a, p, m->head_dim);
    }
    if (open >= 0)
        finish(j, &a, open / m->kv_heads, (int)(open % m->kv_heads), 0);
}

static void attend(const as_decoder_cpu *d, const as_chunk *c, int layer) {
    const as_model *m = d->step.model;
    attend_job job = {d, c, layer};
    if (c->t > 1) {
        as_team_run(d->team, prefill_member, &job);
        return;
    }
    if (d->step.batch * m->heads * m->head_dim * (c->first + 1) < SHARED_FLOATS || as_team_size(d->team) == 1) {
        decode_member(0, 1, &job);
        return;
    }
    as_team_run(d->team, decode_member, &job);
    join_all(&job, as_team_size(d->team));
}

/* ---- hooks ---- */

static as_status prepare(const as_call *call, const as_decoder_ops *ops, void **state, as_error *e) {
    const as_step s = as_step_of(call->params);
    const as_model *m = s.model;
    const int inputs[] = {m->d_model, m->d_ff, m->heads * m->head_dim};
    size_t scratch = bench_floats(m);
    for (int i = 0; i < 3; i++) /* a row of any matrix's inputs, in another order or in bf16 */
        scratch = scratch < (size_t)inputs[i] ? (size_t)inputs[i] : scratch;
    if (m->heads / m->kv_heads > AS_ATTEND_ROWS)
        return as_fail(e, AS_EUSAGE, "inference: %d heads share a kv head of %s; this variant takes at most %d",
                       m->heads / m->kv_heads, m->name, AS_ATTEND_ROWS);
    as_decoder_cpu *d = NULL;
    AS_TRY(as_decoder_cpu_create(&d, call, ops, (scratch + 15) / 16 * 16, 2 * partial_bytes(m), e));
    *state = d;
    return AS_OK;
}

static const as_decoder_ops simd = {product, norm, rotate, attend, activate};
static const as_decoder_ops openblas = {product_openblas, norm, rotate, attend, activate};

as_status as_inference_simd_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return prepare(call, &simd, state, e);
}

void as_inference_simd_finish_cpu(void *state) { as_decoder_cpu_free(state); }

as_status as_inference_simd_cpu(const as_call *call, as_error *e) { return as_decoder_cpu_run(call, e); }

as_status as_inference_simd_breakdown_cpu(const as_call *call, as_parts *parts, as_error *e) {
    return as_decoder_cpu_breakdown(call, parts, e);
}

/* OpenBLAS's threads are created where they may run on all CPUs of the team, as for matmul. */
as_status as_inference_openblas_prepare_cpu(const as_call *call, void **state, as_error *e) {
    void *none = NULL;
    AS_TRY(as_matmul_openblas_prepare_cpu(call, &none, e));
    return prepare(call, &openblas, state, e);
}

void as_inference_openblas_finish_cpu(void *state) { as_decoder_cpu_free(state); }

as_status as_inference_openblas_cpu(const as_call *call, as_error *e) {
    openblas_set_num_threads(as_team_size(call->team)); /* a store when it already is; other cases may differ */
    return as_decoder_cpu_run(call, e);
}

as_status as_inference_openblas_breakdown_cpu(const as_call *call, as_parts *parts, as_error *e) {
    openblas_set_num_threads(as_team_size(call->team));
    return as_decoder_cpu_breakdown(call, parts, e);
}
