/* What every variant of the decoder shares: axes, operands, formulas, the rotary table. */
#include "decoder.h"

#include <math.h>
#include <string.h>

as_step as_step_of(const as_params *p) {
    const char *phase = as_params_text(p, "phase");
    as_step s = {.model = as_model_named(as_params_text(p, "model")),
                 .phase = strcmp(phase, "prefill") == 0    ? AS_PHASE_PREFILL
                          : strcmp(phase, "generate") == 0 ? AS_PHASE_GENERATE
                                                           : AS_PHASE_DECODE,
                 .type = strcmp(as_params_text(p, "type"), "f32") == 0 ? AS_F32 : AS_BF16,
                 .batch = as_params_int(p, "batch"),
                 .prompt = 1};
    if (s.phase == AS_PHASE_DECODE)
        s.context = as_params_int(p, "context");
    else
        s.prompt = as_params_int(p, "prompt");
    if (s.phase == AS_PHASE_GENERATE)
        s.tokens = as_params_int(p, "tokens");
    return s;
}

as_step_io as_step_operands(const as_step *s, void *const *operand) {
    as_step_io io = {.weights = operand[0]};
    int n = 1;
    if (s->phase == AS_PHASE_DECODE)
        io.kv = operand[n++];
    io.tokens = operand[n++];
    if (s->phase == AS_PHASE_GENERATE)
        io.chosen = operand[n];
    else
        io.logits = operand[n];
    return io;
}

/* ---- formulas: decoder.h ---- */

static double head_parameters(const as_model *m) { return (double)m->vocab * m->d_model; }

static double decode_flops(const as_model *m, double batch, double context) {
    return 2 * batch * as_model_parameters_read(m) +
           4 * batch * (double)m->layers * m->heads * m->head_dim * (context + 1);
}

static double prefill_flops(const as_model *m, double batch, double t) {
    return 2 * batch * t * (as_model_parameters_read(m) - head_parameters(m)) + 2 * batch * head_parameters(m) +
           2 * batch * (double)m->layers * m->heads * m->head_dim * t * (t + 1);
}

double as_step_flops(const as_step *s) {
    const double batch = (double)s->batch;
    if (s->phase == AS_PHASE_DECODE)
        return decode_flops(s->model, batch, (double)s->context);
    double sum = prefill_flops(s->model, batch, (double)s->prompt);
    for (int64_t i = 0; i + 1 < s->tokens; i++)
        sum += decode_flops(s->model, batch, (double)(s->prompt + i));
    return sum;
}

double as_step_bytes_read(const as_step *s) {
    const double bytes = (double)as_dtype_bytes(s->type), weights = as_model_parameters_read(s->model) * bytes,
                 entry = (double)as_model_kv_elements(s->model) * (double)s->batch * bytes;
    if (s->phase == AS_PHASE_DECODE)
        return weights + entry * (double)s->context;
    double sum = weights;
    for (int64_t i = 0; i + 1 < s->tokens; i++)
        sum += weights + entry * (double)(s->prompt + i);
    return sum;
}

double as_step_bytes_written(const as_step *s) {
    const int64_t entries = s->phase == AS_PHASE_DECODE ? 1 : as_step_capacity(s);
    return (double)as_model_kv_elements(s->model) * (double)(s->batch * entries) * (double)as_dtype_bytes(s->type);
}

void as_rotary_table(const as_model *m, int64_t first, int64_t positions, float *cosine, float *sine) {
    const int half = m->head_dim / 2;
    for (int i = 0; i < half; i++) {
        const double frequency = m->rope_theta > 0 ? pow((double)m->rope_theta, -2.0 * i / m->head_dim) : 0;
        for (int64_t p = 0; p < positions; p++) {
            const double angle = (double)(first + p) * frequency;
            cosine[p * half + i] = (float)cos(angle);
            sine[p * half + i] = (float)sin(angle);
        }
    }
}

/* Each layer stores about eight tensors between its operations (two norms, q k v, attention, two sums, gate and up,
 * their product), each rounding its elements by up to u relative to them: bf16 u = 2^-9. Sums of k terms in f32, in any
 * order, are off by at most about sqrt(k / 2) 2^-24 of the root of the sum of squares where roundings are independent
 * (a partial sum grows as sqrt(i), and each is rounded). Independent errors add as squares: after L layers a vector is
 * off by sqrt(8 L + 4) u of its norm, and a logit by that share of its scale, the size that it has for weights and
 * activations that do not know of one another. A layer passes errors on and lets them grow: about twofold by the end
 * for normal weights. Six standard deviations cover all logits of a batch: 2 x 6. The standard deviation of a rounding
 * is u / sqrt(3). */
double as_step_tolerance(const as_step *s) {
    const as_model *m = s->model;
    const int longest = m->d_ff > m->d_model ? m->d_ff : m->d_model;
    const double sums = sqrt(longest / 2.0) * 0x1p-24;
    const double u = s->type == AS_BF16 ? 0x1p-9 + sums : 0x1p-24 + sums;
    return 2 * 6 * sqrt(8.0 * m->layers + 4) * u / sqrt(3.0);
}
