/* inference/naive on the host: each operation as its formula reads, one multiply-add after another, one thread. */
#include "decoder_cpu.h"

#include <math.h>
#include <string.h>

static float load(const void *p, as_dtype type, int64_t i) {
    return type == AS_F32 ? ((const float *)p)[i] : as_bf16_to_f32(((const uint16_t *)p)[i]);
}

static void product(const as_decoder_cpu *d, const as_tensor *w, const float *x, int64_t rows, float *out, bool add) {
    const void *weights = as_decoder_weight(d, w);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n = 0; n < w->rows; n++) {
            float sum = 0;
            for (int64_t k = 0; k < w->columns; k++)
                sum += x[r * w->columns + k] * load(weights, d->step.type, n * w->columns + k);
            sum *= w->scale;
            out[r * w->rows + n] = add ? out[r * w->rows + n] + sum : sum;
        }
}

static void norm(const as_decoder_cpu *d, const as_tensor *w, const float *x, int64_t rows, float *out) {
    const void *weights = as_decoder_weight(d, w);
    const int64_t n = w->columns;
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[r * n + i] * x[r * n + i];
        const float factor = 1 / sqrtf(sum / (float)n + d->step.model->norm_epsilon);
        for (int64_t i = 0; i < n; i++)
            out[r * n + i] = x[r * n + i] * factor * load(weights, d->step.type, i);
    }
}

static void rotate(const as_decoder_cpu *d, const as_chunk *c) {
    const as_model *m = d->step.model;
    const int half = m->head_dim / 2;
    if (m->rope_theta == 0)
        return;
    for (int64_t r = 0; r < d->step.batch * c->t; r++)
        for (int head = 0; head < m->heads + m->kv_heads; head++) {
            float *v = d->qkv + r * as_decoder_qkv_columns(m) + (int64_t)head * m->head_dim;
            const int64_t at = (c->first + r % c->t) * half;
            for (int i = 0; i < half; i++) {
                const float a = v[i], b = v[i + half], cosine = d->cosine[at + i], sine = d->sine[at + i];
                v[i] = a * cosine - b * sine;
                v[i + half] = b * cosine + a * sine;
            }
        }
}

/* One query over `n` entries: the scores first, then their softmax, then the weighted sum of the values. */
static void one_head(const float *q, const void *keys, const void *values, as_dtype type, int64_t n, int head_dim,
                     float *score, float *out) {
    const float scale = 1 / sqrtf((float)head_dim);
    float most = -INFINITY, sum = 0;
    for (int64_t p = 0; p < n; p++) {
        float s = 0;
        for (int i = 0; i < head_dim; i++)
            s += q[i] * load(keys, type, p * head_dim + i);
        score[p] = s * scale;
        most = score[p] > most ? score[p] : most;
    }
    for (int64_t p = 0; p < n; p++) {
        score[p] = expf(score[p] - most);
        sum += score[p];
    }
    for (int i = 0; i < head_dim; i++) {
        float total = 0;
        for (int64_t p = 0; p < n; p++)
            total += score[p] * load(values, type, p * head_dim + i);
        out[i] = total / sum;
    }
}

static void attend(const as_decoder_cpu *d, const as_chunk *c, int layer) {
    const as_model *m = d->step.model;
    const int group = m->heads / m->kv_heads;
    for (int64_t r = 0; r < d->step.batch * c->t; r++)
        for (int head = 0; head < m->heads; head++)
            one_head(d->qkv + r * as_decoder_qkv_columns(m) + (int64_t)head * m->head_dim,
                     as_decoder_entry(d, c, layer, 0, r / c->t, head / group),
                     as_decoder_entry(d, c, layer, 1, r / c->t, head / group), d->step.type, c->first + r % c->t + 1,
                     m->head_dim, d->scratch, d->attention + (r * m->heads + head) * m->head_dim);
}

static void activate(const as_decoder_cpu *d, int64_t rows) {
    const int64_t n = d->step.model->d_ff;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            const float gate = d->gate_up[r * 2 * n + i], up = d->gate_up[r * 2 * n + n + i];
            d->active[r * n + i] = gate / (1 + expf(-gate)) * up;
        }
}

static const as_decoder_ops ops = {product, norm, rotate, attend, activate};

as_status as_inference_naive_prepare_cpu(const as_call *call, void **state, as_error *e) {
    const as_step s = as_step_of(call->params);
    as_decoder_cpu *d = NULL;
    AS_TRY(as_decoder_cpu_create(&d, call, &ops, (size_t)as_step_capacity(&s), 0, e));
    *state = d;
    return AS_OK;
}

void as_inference_naive_finish_cpu(void *state) { as_decoder_cpu_free(state); }

as_status as_inference_naive_breakdown_cpu(const as_call *call, as_parts *parts, as_error *e) {
    return as_decoder_cpu_breakdown(call, parts, e);
}

as_status as_inference_naive_cpu(const as_call *call, as_error *e) { return as_decoder_cpu_run(call, e); }
