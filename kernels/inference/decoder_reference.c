/* The decoder in float64, plain loops, a row at a time: what every variant is judged by. It shares with them the shapes
 * (model.h, decoder.h) and nothing else.
 *
 * The scale of a logit is |head row| |hidden| / sqrt(d_model) times the matrix's factor: the size of a sum of products
 * of two vectors that do not know of one another, and so the size of the logit's error over the relative error of the
 * hidden vector (as_step_tolerance). The logit itself may cancel to zero. */
#include "decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sums {
    as_step step;
    const void *weights, *kv; /* kv NULL: no earlier tokens */
    int64_t row, t, first;    /* batch row; its tokens; position of the first of them */
    double *x, *h, *qkv, *attention, *gate_up;
    double *line;  /* one row of a matrix, widened */
    double *score; /* [first + t] */
} sums;

static double element(const void *p, as_dtype type, int64_t i) {
    return type == AS_F32 ? (double)((const float *)p)[i] : (double)as_bf16_to_f32(((const uint16_t *)p)[i]);
}

static void widen(const sums *s, const as_tensor *w, int64_t row) {
    const int64_t n = w->columns, at = w->offset + row * n;
    for (int64_t i = 0; i < n; i++)
        s->line[i] = element(s->weights, s->step.type, at + i);
}

/* Eight sums side by side: float64 leaves no matter to their order, and one chain would wait for each addition. */
static double dot(const double *a, const double *b, int64_t n) {
    double sum[8] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++)
            sum[l] += a[i + l] * b[i + l];
    for (; i < n; i++)
        rest += a[i] * b[i];
    for (int l = 0; l < 8; l++)
        rest += sum[l];
    return rest;
}

/* out[t][w.rows] = (or +=) scale * in[t][w.columns] w^T */
static void product(const sums *s, as_tensor_role role, int layer, const double *in, double *out, int add) {
    const as_tensor w = as_model_tensor(s->step.model, role, layer);
    for (int64_t n = 0; n < w.rows; n++) {
        widen(s, &w, n);
        for (int64_t t = 0; t < s->t; t++) {
            const double sum = dot(in + t * w.columns, s->line, w.columns) * (double)w.scale;
            out[t * w.rows + n] = add ? out[t * w.rows + n] + sum : sum;
        }
    }
}

static void norm(const sums *s, as_tensor_role role, int layer, const double *in, double *out) {
    const as_tensor w = as_model_tensor(s->step.model, role, layer);
    const int64_t d = w.columns;
    widen(s, &w, 0);
    for (int64_t t = 0; t < s->t; t++) {
        const double factor =
            1 / sqrt(dot(in + t * d, in + t * d, d) / (double)d + (double)s->step.model->norm_epsilon);
        for (int64_t i = 0; i < d; i++)
            out[t * d + i] = in[t * d + i] * factor * s->line[i];
    }
}

static void rotate(const sums *s) {
    const as_model *m = s->step.model;
    const int hd = m->head_dim, columns = (m->heads + 2 * m->kv_heads) * hd;
    for (int64_t t = 0; m->rope_theta > 0 && t < s->t; t++)
        for (int head = 0; head < m->heads + m->kv_heads; head++)
            for (int i = 0; i < hd / 2; i++) {
                const double angle = (double)(s->first + t) * pow((double)m->rope_theta, -2.0 * i / hd);
                double *v = s->qkv + t * columns + head * hd;
                const double a = v[i], b = v[i + hd / 2];
                v[i] = a * cos(angle) - b * sin(angle);
                v[i + hd / 2] = b * cos(angle) + a * sin(angle);
            }
}

/* Element i of the key (which 0) or value (1) at a position: an earlier token's from the operand, rounded as it stands
 * there, one of this step's unrounded. */
static double entry(const sums *s, int layer, int which, int head, int64_t position, int i) {
    const as_model *m = s->step.model;
    const int hd = m->head_dim, columns = (m->heads + 2 * m->kv_heads) * hd;
    if (position < s->first)
        return element(s->kv, s->step.type,
                       as_step_kv_offset(&s->step, layer, which, s->row, head) + position * hd + i);
    return s->qkv[(position - s->first) * columns + (m->heads + which * m->kv_heads + head) * hd + i];
}

static void attend(const sums *s, int layer) {
    const as_model *m = s->step.model;
    const int hd = m->head_dim, columns = (m->heads + 2 * m->kv_heads) * hd, group = m->heads / m->kv_heads;
    for (int64_t t = 0; t < s->t; t++)
        for (int head = 0; head < m->heads; head++) {
            const double *q = s->qkv + t * columns + head * hd;
            double *out = s->attention + (t * m->heads + head) * hd, most = -INFINITY, sum = 0;
            for (int64_t p = 0; p <= s->first + t; p++) {
                s->score[p] = 0;
                for (int i = 0; i < hd; i++)
                    s->score[p] += q[i] * entry(s, layer, 0, head / group, p, i);
                s->score[p] /= sqrt((double)hd);
                most = s->score[p] > most ? s->score[p] : most;
            }
            memset(out, 0, (size_t)hd * sizeof *out);
            for (int64_t p = 0; p <= s->first + t; p++) {
                const double weight = exp(s->score[p] - most);
                sum += weight;
                for (int i = 0; i < hd; i++)
                    out[i] += weight * entry(s, layer, 1, head / group, p, i);
            }
            for (int i = 0; i < hd; i++)
                out[i] /= sum;
        }
}

/* All layers; leaves the normalised hidden vectors of all tokens in s->h. */
static void hidden(const sums *s, const uint32_t *tokens) {
    const as_model *m = s->step.model;
    const int64_t d = m->d_model, f = m->d_ff;
    const as_tensor table = as_model_tensor(m, AS_T_EMBED, 0);
    for (int64_t t = 0; t < s->t; t++) {
        widen(s, &table, tokens[t] % (uint32_t)m->vocab);
        memcpy(s->x + t * d, s->line, (size_t)d * sizeof *s->x);
    }
    for (int layer = 0; layer < m->layers; layer++) {
        norm(s, AS_T_ATTN_NORM, layer, s->x, s->h);
        product(s, AS_T_QKV, layer, s->h, s->qkv, 0);
        rotate(s);
        attend(s, layer);
        product(s, AS_T_O, layer, s->attention, s->x, 1);
        norm(s, AS_T_MLP_NORM, layer, s->x, s->h);
        product(s, AS_T_GATE_UP, layer, s->h, s->gate_up, 0);
        for (int64_t t = 0; t < s->t; t++)
            for (int64_t i = 0; i < f; i++) {
                const double gate = s->gate_up[t * 2 * f + i];
                s->gate_up[t * f + i] = gate / (1 + exp(-gate)) * s->gate_up[t * 2 * f + f + i];
            }
        product(s, AS_T_DOWN, layer, s->gate_up, s->x, 1);
    }
    norm(s, AS_T_FINAL_NORM, 0, s->x, s->h);
}

/* Logits after token t, and their scales. */
static void head(const sums *s, int64_t t, double *logits, double *scale) {
    const as_model *m = s->step.model;
    const as_tensor w = as_model_tensor(m, AS_T_HEAD, 0);
    const double *h = s->h + t * m->d_model, length = sqrt(dot(h, h, m->d_model) / m->d_model);
    for (int64_t v = 0; v < w.rows; v++) {
        widen(s, &w, v);
        logits[v] = dot(h, s->line, w.columns) * (double)w.scale;
        scale[v] = sqrt(dot(s->line, s->line, w.columns)) * length * (double)w.scale;
    }
}

static void sums_free(sums *s) {
    double *const all[] = {s->x, s->h, s->qkv, s->attention, s->gate_up, s->line, s->score};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static as_status sums_init(sums *s, as_error *e) {
    const as_model *m = s->step.model;
    const size_t t = (size_t)s->t, d = (size_t)m->d_model, q = (size_t)(m->heads * m->head_dim);
    const size_t longest =
        d > q ? (d > (size_t)m->d_ff ? d : (size_t)m->d_ff) : (q > (size_t)m->d_ff ? q : (size_t)m->d_ff);
    s->x = malloc(t * d * sizeof(double));
    s->h = malloc(t * d * sizeof(double));
    s->qkv = malloc(t * (size_t)(m->heads + 2 * m->kv_heads) * (size_t)m->head_dim * sizeof(double));
    s->attention = malloc(t * q * sizeof(double));
    s->gate_up = malloc(t * 2 * (size_t)m->d_ff * sizeof(double));
    s->line = malloc(longest * sizeof(double));
    s->score = malloc((size_t)(s->first + s->t) * sizeof(double));
    if (s->x && s->h && s->qkv && s->attention && s->gate_up && s->line && s->score)
        return AS_OK;
    sums_free(s);
    return as_fail(e, AS_ENOMEM, "no host memory for the reference of %s", m->name);
}

/* Which of `logits` the variant may have chosen: its own choice where that is a largest one within the tolerance. */
static uint32_t right_token(const double *logits, const double *scale, int vocab, uint32_t chosen, double tolerance) {
    int best = 0;
    for (int v = 1; v < vocab; v++)
        if (logits[v] > logits[best])
            best = v;
    if (chosen < (uint32_t)vocab && logits[best] - logits[chosen] <= tolerance * (scale[best] + scale[chosen]))
        return chosen;
    return (uint32_t)best;
}

/* The prompt and what was chosen after it, as if all of it had been given. */
static as_status judge_row(const as_reference *r, sums *s, const as_step_io *io, int64_t k, as_error *e) {
    const int vocab = s->step.model->vocab;
    const int64_t prompt = s->step.prompt, n = s->step.tokens;
    const uint32_t *chosen = (const uint32_t *)r->output + s->row * n;
    uint32_t *tokens = malloc((size_t)s->t * sizeof *tokens);
    double *logits = malloc((size_t)vocab * 2 * sizeof *logits);
    if (!tokens || !logits) {
        free(tokens);
        free(logits);
        return as_fail(e, AS_ENOMEM, "no host memory for the reference of %s", s->step.model->name);
    }
    memcpy(tokens, io->tokens + s->row * prompt, (size_t)prompt * sizeof *tokens);
    memcpy(tokens + prompt, chosen, (size_t)(n - 1) * sizeof *tokens);
    hidden(s, tokens);
    for (int64_t i = 0; i < n; i++) {
        head(s, prompt - 1 + i, logits, logits + vocab);
        r->expected[k * n + i] = right_token(logits, logits + vocab, vocab, chosen[i], as_step_tolerance(&s->step));
        r->scale[k * n + i] = 1;
    }
    free(tokens);
    free(logits);
    return AS_OK;
}

as_status as_decoder_reference(const as_reference *r, as_error *e) {
    const as_step step = as_step_of(r->params);
    const int64_t vocab = step.model->vocab;
    const as_step_io io = as_step_operands(&step, (void *const *)r->input);
    for (int64_t k = 0; k < r->n_rows; k++) {
        const int64_t row = r->rows[k];
        sums s = {.step = step,
                  .weights = io.weights,
                  .kv = io.kv,
                  .row = row,
                  .t = step.phase == AS_PHASE_GENERATE ? as_step_capacity(&step) : step.prompt,
                  .first = step.context};
        AS_TRY(sums_init(&s, e));
        as_status status = AS_OK;
        if (step.phase == AS_PHASE_GENERATE) {
            status = judge_row(r, &s, &io, k, e);
        } else {
            hidden(&s, io.tokens + row * step.prompt);
            head(&s, s.t - 1, r->expected + k * vocab, r->scale + k * vocab);
        }
        sums_free(&s);
        AS_TRY(status);
    }
    return AS_OK;
}
