/* Attention on the host: the naive variant, the float64 reference, formulas. */
#include "attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

as_attention_shape as_attention_shape_of(const as_params *p) {
    as_attention_shape s = {.prefill = strcmp(as_params_text(p, "phase"), "prefill") == 0,
                            .type = strcmp(as_params_text(p, "type"), "f32") == 0 ? AS_F32 : AS_BF16,
                            .batch = as_params_int(p, "batch"),
                            .heads = as_params_int(p, "heads"),
                            .kv_heads = as_params_int(p, "kv_heads"),
                            .head_dim = as_params_int(p, "head_dim"),
                            .context = as_params_int(p, "context")};
    s.tokens = s.prefill ? s.context : 1;
    return s;
}

double as_attention_flops(const as_attention_shape *s) {
    const double once = (double)s->batch * (double)s->heads * (double)s->head_dim * (double)s->context;
    return s->prefill ? 2 * once * ((double)s->context + 1) : 4 * once;
}

double as_attention_query_elements(const as_attention_shape *s) {
    return (double)s->batch * (double)s->tokens * (double)s->heads * (double)s->head_dim;
}
double as_attention_entry_elements(const as_attention_shape *s) {
    return (double)s->batch * (double)s->kv_heads * (double)s->context * (double)s->head_dim;
}

/* The reference's scale is sqrt(sum of weight^2 value^2) + |out|: what an output is off by when each weight is off by
 * one part, independently, and the result by one part more. bf16 rounds weights and result to u = 2^-9. In f32 a weight
 * is off by what its exponent is: sums of head_dim products, each score up to about 8, so under 2^-19; and partial sums
 * of n entries by sqrt(n) 2^-24 of the scale. Six standard deviations of a rounding, u / sqrt(3), for millions of
 * outputs, and as much again for weights whose largest is rounded alike. */
double as_attention_tolerance(const as_attention_shape *s) {
    const double sums = 0x1p-19 + sqrt((double)s->context) * 0x1p-24;
    return 4 * sqrt(3.0) * ((s->type == AS_BF16 ? 0x1p-9 : 0) + sums);
}

static float load(const void *p, as_dtype type, int64_t i) {
    return type == AS_F32 ? ((const float *)p)[i] : as_bf16_to_f32(((const uint16_t *)p)[i]);
}

/* Where query row `row` (batch, token, head) begins among the entries of its kv head, and how many it sees. */
static int64_t entries_of(const as_attention_shape *s, int64_t row, int64_t *seen) {
    const int64_t head = row % s->heads, token = row / s->heads % s->tokens, batch = row / s->heads / s->tokens;
    *seen = s->prefill ? token + 1 : s->context;
    return (batch * s->kv_heads + head / (s->heads / s->kv_heads)) * s->context * s->head_dim;
}

/* Two passes: the largest score, then weights and sums; nothing but the output is written. */
static void one_row(const as_attention_shape *s, const void *q, const void *k, const void *v, int64_t row, float *sum) {
    int64_t seen;
    const int64_t first = entries_of(s, row, &seen), n = s->head_dim;
    const float scale = 1 / sqrtf((float)n);
    float most = -INFINITY, total = 0;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t p = 0; p < seen; p++) {
            float score = 0;
            for (int64_t i = 0; i < n; i++)
                score += load(q, s->type, row * n + i) * load(k, s->type, first + p * n + i);
            score *= scale;
            if (pass == 0) {
                most = score > most ? score : most;
                continue;
            }
            const float weight = expf(score - most);
            total += weight;
            for (int64_t i = 0; i < n; i++)
                sum[i] += weight * load(v, s->type, first + p * n + i);
        }
    for (int64_t i = 0; i < n; i++)
        sum[i] /= total;
}

as_status as_attention_naive_cpu(const as_call *call, as_error *e) {
    enum { MOST = 256 };
    const as_attention_shape s = as_attention_shape_of(call->params);
    float sum[MOST];
    (void)e;
    for (int64_t row = 0; row < s.batch * s.tokens * s.heads; row++) {
        one_row(&s, call->operand[0], call->operand[1], call->operand[2], row, sum);
        for (int64_t i = 0; i < s.head_dim; i++)
            if (s.type == AS_F32)
                ((float *)call->operand[3])[row * s.head_dim + i] = sum[i];
            else
                ((uint16_t *)call->operand[3])[row * s.head_dim + i] = (uint16_t)as_bf16_round(as_f32_bits(sum[i]));
    }
    return AS_OK;
}

static double widen(const void *p, as_dtype type, int64_t i) { return (double)load(p, type, i); }

as_status as_attention_reference(const as_reference *r, as_error *e) {
    const as_attention_shape s = as_attention_shape_of(r->params);
    const int64_t n = s.head_dim;
    double *score = malloc(sizeof *score * (size_t)s.context);
    if (!score)
        return as_fail(e, AS_ENOMEM, "no host memory for the reference of attention");
    for (int64_t k = 0; k < r->n_rows; k++) {
        int64_t seen;
        const int64_t row = r->rows[k], first = entries_of(&s, row, &seen);
        double *out = r->expected + k * n, *scale = r->scale + k * n, most = -INFINITY, total = 0;
        for (int64_t p = 0; p < seen; p++) {
            score[p] = 0;
            for (int64_t i = 0; i < n; i++)
                score[p] += widen(r->input[0], s.type, row * n + i) * widen(r->input[1], s.type, first + p * n + i);
            score[p] /= sqrt((double)n);
            most = score[p] > most ? score[p] : most;
        }
        for (int64_t p = 0; p < seen; p++)
            total += score[p] = exp(score[p] - most);
        memset(out, 0, (size_t)n * sizeof *out);
        memset(scale, 0, (size_t)n * sizeof *scale);
        for (int64_t p = 0; p < seen; p++)
            for (int64_t i = 0; i < n; i++) {
                const double part = score[p] / total * widen(r->input[2], s.type, first + p * n + i);
                out[i] += part;
                scale[i] += part * part;
            }
        for (int64_t i = 0; i < n; i++)
            scale[i] = sqrt(scale[i]) + fabs(out[i]);
    }
    free(score);
    return AS_OK;
}
