#include "decoder_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, STAGES = 10, STAGES_ONCE = 4 };

/* ---- state ---- */

static int64_t floats_of(const as_step *s, int64_t rows) {
    const as_model *m = s->model;
    return rows * (2 * (int64_t)m->d_model + as_decoder_qkv_columns(m) + (int64_t)m->heads * m->head_dim +
                   3 * (int64_t)m->d_ff) +
           s->batch * m->d_model + (s->phase == AS_PHASE_GENERATE ? s->batch * m->vocab : 0) +
           as_step_capacity(s) * m->head_dim;
}

int64_t as_decoder_state_bytes_cpu(const as_step *s) {
    const int64_t cache = s->phase == AS_PHASE_DECODE ? 0 : as_step_kv_elements(s) * (int64_t)as_dtype_bytes(s->type);
    return floats_of(s, s->batch * s->prompt) * (int64_t)sizeof(float) + cache;
}

static void *take(size_t bytes, bool *good) {
    const size_t whole = (bytes + LINE - 1) / LINE * LINE;
    void *p = aligned_alloc(LINE, whole > 0 ? whole : LINE);
    if (p)
        memset(p, 0, whole); /* page faults here, not in the timed region */
    else
        *good = false;
    return p;
}

static float *floats(int64_t n, bool *good) { return take((size_t)n * sizeof(float), good); }

as_status as_decoder_cpu_create(as_decoder_cpu **out, const as_call *call, const as_decoder_ops *ops,
                                size_t scratch_floats, size_t partial_bytes, as_error *e) {
    const as_step s = as_step_of(call->params);
    const as_model *m = s.model;
    *out = NULL;
    as_decoder_cpu *d = calloc(1, sizeof *d);
    if (!d)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a decoder");
    const int64_t rows = s.batch * s.prompt, capacity = as_step_capacity(&s);
    const size_t members = (size_t)as_team_size(call->team);
    bool good = true;
    *d = (as_decoder_cpu){.step = s, .ops = ops, .team = call->team, .rows = rows, .scratch_floats = scratch_floats};
    d->x = floats(rows * m->d_model, &good);
    d->h = floats(rows * m->d_model, &good);
    d->qkv = floats(rows * as_decoder_qkv_columns(m), &good);
    d->attention = floats(rows * m->heads * m->head_dim, &good);
    d->gate_up = floats(rows * 2 * m->d_ff, &good);
    d->active = floats(rows * m->d_ff, &good);
    d->last = floats(s.batch * m->d_model, &good);
    d->cosine = floats(capacity * (m->head_dim / 2), &good);
    d->sine = floats(capacity * (m->head_dim / 2), &good);
    d->scratch = floats((int64_t)(scratch_floats * members), &good);
    d->partial = take(partial_bytes * members, &good);
    if (s.phase == AS_PHASE_GENERATE) {
        d->logits = floats(s.batch * m->vocab, &good);
        d->next = take((size_t)s.batch * sizeof *d->next, &good);
    }
    if (s.phase != AS_PHASE_DECODE)
        d->kv = take((size_t)as_step_kv_elements(&s) * as_dtype_bytes(s.type), &good);
    if (!good) {
        as_decoder_cpu_free(d);
        return as_fail(e, AS_ENOMEM,
                       "no memory for the activations and the cache of %s (%.1f GB); take a smaller batch", m->name,
                       (double)as_decoder_state_bytes_cpu(&s) * 1e-9);
    }
    as_rotary_table(m, 0, capacity, d->cosine, d->sine);
    *out = d;
    return AS_OK;
}

void as_decoder_cpu_free(as_decoder_cpu *d) {
    if (!d)
        return;
    void *const all[] = {d->x,      d->h,      d->qkv,  d->attention, d->gate_up, d->active,  d->last,
                         d->logits, d->cosine, d->sine, d->kv,        d->next,    d->scratch, d->partial};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(d);
}

/* ---- stages ---- */

/* Ends a stage: its time in the instrumented pass, its values in a test. Bytes and flops: what it must read, write and
 * compute at least. */
static void stage(as_decoder_cpu *d, const as_chunk *c, const char *path, int layer, double bytes, double flops,
                  const float *values, int64_t rows, int64_t columns) {
    if (d->tap)
        d->tap(d->tap_context, path, layer, values, rows, columns);
    if (!d->mark)
        return;
    const int64_t now = as_parts_now_ns();
    if (d->marks < d->most_marks)
        d->mark[d->marks++] = (as_mark){d->step.phase != AS_PHASE_DECODE && c->first == 0 ? "prefill" : "decode",
                                        path,
                                        layer,
                                        now - d->last_ns,
                                        bytes,
                                        flops};
    d->last_ns = now;
}

static float load(const void *p, as_dtype type, int64_t i) {
    return type == AS_F32 ? ((const float *)p)[i] : as_bf16_to_f32(((const uint16_t *)p)[i]);
}

static void embed(as_decoder_cpu *d, const as_chunk *c) {
    const as_model *m = d->step.model;
    const as_tensor w = as_model_tensor(m, AS_T_EMBED, 0);
    const void *table = as_decoder_weight(d, &w);
    for (int64_t b = 0; b < d->step.batch; b++)
        for (int64_t t = 0; t < c->t; t++) {
            const int64_t id = c->tokens[b * c->stride + t] % (uint32_t)m->vocab;
            float *x = d->x + (b * c->t + t) * m->d_model;
            for (int i = 0; i < m->d_model; i++)
                x[i] = load(table, d->step.type, id * m->d_model + i);
        }
    const double rows = (double)(d->step.batch * c->t * m->d_model);
    stage(d, c, "embed", -1, rows * (double)as_dtype_bytes(d->step.type), 0, d->x, d->step.batch * c->t, m->d_model);
}

/* The chunk's keys and values into the cache, rounded to its type. */
static void kv_write(as_decoder_cpu *d, const as_chunk *c, int layer) {
    const as_model *m = d->step.model;
    const int64_t columns = as_decoder_qkv_columns(m);
    for (int64_t r = 0; r < d->step.batch * c->t; r++)
        for (int which = 0; which < 2; which++)
            for (int head = 0; head < m->kv_heads; head++) {
                const float *from =
                    d->qkv + r * columns + (int64_t)(m->heads + which * m->kv_heads + head) * m->head_dim;
                const int64_t at =
                    as_step_kv_offset(&d->step, layer, which, r / c->t, head) + (c->first + r % c->t) * m->head_dim;
                if (d->step.type == AS_F32)
                    memcpy((float *)c->kv + at, from, (size_t)m->head_dim * sizeof *from);
                else
                    for (int i = 0; i < m->head_dim; i++)
                        ((uint16_t *)c->kv)[at + i] = (uint16_t)as_bf16_round(as_f32_bits(from[i]));
            }
}

static double product_bytes(const as_decoder_cpu *d, const as_tensor *w) {
    return (double)(w->rows * w->columns) * (double)as_dtype_bytes(d->step.type);
}
static double product_flops(const as_tensor *w, int64_t rows) {
    return 2 * (double)rows * (double)(w->rows * w->columns);
}

static void product_stage(as_decoder_cpu *d, const as_chunk *c, const char *path, int layer, as_tensor_role role,
                          const float *x, int64_t rows, float *out, bool add) {
    const as_tensor w = as_model_tensor(d->step.model, role, layer < 0 ? 0 : layer);
    d->ops->product(d, &w, x, rows, out, add);
    stage(d, c, path, layer, product_bytes(d, &w), product_flops(&w, rows), out, rows, w.rows);
}

static void norm_stage(as_decoder_cpu *d, const as_chunk *c, const char *path, int layer, as_tensor_role role,
                       const float *x, int64_t rows, float *out) {
    const as_tensor w = as_model_tensor(d->step.model, role, layer < 0 ? 0 : layer);
    d->ops->norm(d, &w, x, rows, out);
    stage(d, c, path, layer, product_bytes(d, &w), 4 * (double)(rows * w.columns), out, rows, w.columns);
}

/* Keys and values read once for each row, of which a query at position p sees p + 1. */
static void attend_stage(as_decoder_cpu *d, const as_chunk *c, int layer) {
    const as_model *m = d->step.model;
    const double batch = (double)d->step.batch, t = (double)c->t, seen = t * (double)c->first + t * (t + 1) / 2;
    const double entry = 2.0 * m->kv_heads * m->head_dim * (double)as_dtype_bytes(d->step.type);
    d->ops->attend(d, c, layer);
    stage(d, c, "attention", layer, batch * (double)(c->first + c->t) * entry,
          4 * batch * seen * m->heads * m->head_dim, d->attention, d->step.batch * c->t,
          (int64_t)m->heads * m->head_dim);
}

static void layer_of(as_decoder_cpu *d, const as_chunk *c, int layer) {
    const as_model *m = d->step.model;
    const int64_t rows = d->step.batch * c->t, columns = as_decoder_qkv_columns(m);
    const double heads = (double)(rows * (m->heads + m->kv_heads) * m->head_dim),
                 entries = 2.0 * (double)(rows * m->kv_heads * m->head_dim);
    norm_stage(d, c, "norm", layer, AS_T_ATTN_NORM, d->x, rows, d->h);
    product_stage(d, c, "qkv", layer, AS_T_QKV, d->h, rows, d->qkv, false);
    d->ops->rotate(d, c);
    stage(d, c, "rotary", layer, 0, 3 * heads, d->qkv, rows, columns);
    kv_write(d, c, layer);
    stage(d, c, "kv_write", layer, entries * (double)as_dtype_bytes(d->step.type), 0, d->qkv, rows, columns);
    attend_stage(d, c, layer);
    product_stage(d, c, "output", layer, AS_T_O, d->attention, rows, d->x, true);
    norm_stage(d, c, "mlp/norm", layer, AS_T_MLP_NORM, d->x, rows, d->h);
    product_stage(d, c, "mlp/gate_up", layer, AS_T_GATE_UP, d->h, rows, d->gate_up, false);
    d->ops->activate(d, rows);
    stage(d, c, "mlp/activation", layer, 0, 5 * (double)(rows * m->d_ff), d->active, rows, m->d_ff);
    product_stage(d, c, "mlp/down", layer, AS_T_DOWN, d->active, rows, d->x, true);
}

/* Logits of each row's last token. */
static void forward(as_decoder_cpu *d, const as_chunk *c, float *logits) {
    const as_model *m = d->step.model;
    const int64_t batch = d->step.batch;
    embed(d, c);
    for (int layer = 0; layer < m->layers; layer++)
        layer_of(d, c, layer);
    const float *last = d->x;
    if (c->t > 1) {
        for (int64_t b = 0; b < batch; b++)
            memcpy(d->last + b * m->d_model, d->x + ((b + 1) * c->t - 1) * m->d_model,
                   (size_t)m->d_model * sizeof *d->x);
        last = d->last;
    }
    norm_stage(d, c, "final_norm", -1, AS_T_FINAL_NORM, last, batch, d->h);
    product_stage(d, c, "head", -1, AS_T_HEAD, d->h, batch, logits, false);
}

/* ---- generate ---- */

static uint32_t largest(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (uint32_t)best;
}

static void sample(as_decoder_cpu *d, const as_chunk *c, uint32_t *chosen, int64_t at) {
    const int vocab = d->step.model->vocab;
    for (int64_t b = 0; b < d->step.batch; b++) {
        d->next[b] = largest(d->logits + b * vocab, vocab);
        chosen[b * d->step.tokens + at] = d->next[b];
    }
    stage(d, c, "sample", -1, 4.0 * (double)(d->step.batch * vocab), 0, d->logits, d->step.batch, vocab);
}

static void generate(as_decoder_cpu *d, const as_step_io *io, double *extra) {
    const as_step *s = &d->step;
    const int64_t begin = as_parts_now_ns();
    as_chunk c = {s->prompt, 0, io->tokens, s->prompt, d->kv};
    forward(d, &c, d->logits);
    sample(d, &c, io->chosen, 0);
    const int64_t first = as_parts_now_ns();
    for (int64_t i = 1; i < s->tokens; i++) {
        c = (as_chunk){1, s->prompt + i - 1, d->next, 1, d->kv};
        forward(d, &c, d->logits);
        sample(d, &c, io->chosen, i);
    }
    extra[AS_EXTRA_TTFT] = (double)(first - begin);
    extra[AS_EXTRA_ITL] = s->tokens > 1 ? (double)(as_parts_now_ns() - first) / (double)(s->tokens - 1) : NAN;
}

/* ---- one operation ---- */

as_status as_decoder_cpu_run(const as_call *call, as_error *e) {
    (void)e;
    as_decoder_cpu *d = call->state;
    const as_step *s = &d->step;
    const as_step_io io = as_step_operands(s, call->operand);
    d->weights = io.weights;
    call->extra[AS_EXTRA_TTFT] = call->extra[AS_EXTRA_ITL] = NAN;
    if (s->phase == AS_PHASE_GENERATE)
        generate(d, &io, call->extra);
    else
        forward(d, &(as_chunk){s->prompt, s->context, io.tokens, s->prompt, io.kv ? io.kv : d->kv}, io.logits);
    return AS_OK;
}

/* What bounds a stage: the bytes that it must move, or its arithmetic where that takes longer on any machine of ours
 * (more than 32 operations a byte). */
static const char *bound_of(const as_mark *m) {
    if (m->bytes == 0)
        return m->flops > 0 ? "flops.f32" : NULL;
    return m->flops > 32 * m->bytes ? "flops.f32" : "memory";
}

as_status as_decoder_cpu_breakdown(const as_call *call, as_parts *parts, as_error *e) {
    as_decoder_cpu *d = call->state;
    const int64_t chunks = d->step.tokens > 0 ? d->step.tokens : 1;
    d->most_marks = (int)(chunks * (d->step.model->layers * STAGES + STAGES_ONCE));
    d->marks = 0;
    d->mark = malloc(sizeof *d->mark * (size_t)d->most_marks);
    if (!d->mark)
        return as_fail(e, AS_ENOMEM, "no memory for the marks of a breakdown");
    const int64_t begin = d->last_ns = as_parts_now_ns();
    const as_status status = as_decoder_cpu_run(call, e);
    const int64_t end = as_parts_now_ns();
    for (int i = 0; i < d->marks; i++) {
        const as_mark *m = &d->mark[i];
        as_parts_add(parts, &(as_part){.phase = m->phase,
                                       .path = m->path,
                                       .layer = m->layer,
                                       .where = "host",
                                       .source = "clock",
                                       .ns = (double)m->ns,
                                       .bytes = m->bytes,
                                       .flops = m->flops,
                                       .ceiling = bound_of(m)});
    }
    as_parts_total(parts, (double)(end - begin));
    free(d->mark);
    d->mark = NULL;
    return status;
}
