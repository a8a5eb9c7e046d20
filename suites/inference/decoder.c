/* Cases of decoders: what the axes may be, operands, work, and a rough time for the planner. */
#include "../../kernels/inference/decoder.h"
#ifdef ASSAY_CUDA
#include "../../kernels/inference/decoder_cuda.h"
#endif
#include "../../kernels/ceiling/levels.h"
#include "../suites.h"
#include "inference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BATCH = 1024, REFERENCE_ROWS = 2 };

/* ---- the axes ---- */

static as_status only_for(const as_params *p, const char *axis, const char *phases, as_error *e) {
    if (as_axis_untouched(p, axis))
        return AS_OK;
    return as_fail(e, AS_EUSAGE, "inference: %s is for phase %s: leave it out of phase %s", axis, phases,
                   as_params_text(p, "phase"));
}

static as_status check_phase(const as_params *p, as_error *e) {
    const char *phase = as_params_text(p, "phase"), *type = as_params_text(p, "type");
    const bool decode = strcmp(phase, "decode") == 0, generate = strcmp(phase, "generate") == 0;
    if (!decode && !generate && strcmp(phase, "prefill") != 0)
        return as_fail(e, AS_EUSAGE, "inference: phase is decode, prefill or generate, not '%.20s'", phase);
    if (strcmp(type, "f32") != 0 && strcmp(type, "bf16") != 0)
        return as_fail(e, AS_EUSAGE, "inference: type is bf16 or f32, not '%.20s'", type);
    if (!decode)
        AS_TRY(only_for(p, "context", "decode", e));
    if (decode)
        AS_TRY(only_for(p, "prompt", "prefill or generate", e));
    return generate ? AS_OK : only_for(p, "tokens", "generate", e);
}

static as_status check_size(const as_step *s, as_error *e) {
    const long long most = s->model->max_positions;
    if (s->batch < 1 || s->batch > MOST_BATCH)
        return as_fail(e, AS_EUSAGE, "inference: batch is 1 to %d", MOST_BATCH);
    if (s->phase != AS_PHASE_DECODE && s->prompt < 1)
        return as_fail(e, AS_EUSAGE, "inference: a prompt has at least one token");
    if (s->phase == AS_PHASE_GENERATE && s->tokens < 2)
        return as_fail(e, AS_EUSAGE, "inference: generate takes at least 2 tokens: one of the prefill, one of a step");
    if (s->context > most || s->prompt > most || s->tokens > most || as_step_capacity(s) > most)
        return as_fail(e, AS_EUSAGE, "inference: %s has %lld positions; %s", s->model->name, most,
                       s->phase == AS_PHASE_DECODE ? "context is at most one less"
                                                   : "take a shorter prompt, or fewer new tokens");
    return AS_OK;
}

static as_status check_variant(const as_params *p, const as_variant *v, as_error *e) {
#ifdef ASSAY_CUDA
    if (strcmp(v->on, "cuda") == 0) {
        const as_step s = as_step_of(p);
        return as_decoder_check_cuda(v->name, &s, e);
    }
#endif
    const bool cpu = strcmp(v->on, "cpu") == 0;
    if (cpu && strcmp(v->name, "naive") == 0 && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "inference/naive runs on one thread: leave threads at 1");
    if (cpu && strcmp(v->name, "openblas") == 0 && strcmp(as_params_text(p, "type"), "f32") != 0)
        return as_fail(e, AS_EUSAGE, "inference/openblas takes type:f32");
    return AS_OK;
}

/* ---- the planner's guess ---- */

/* Bytes and operations a nanosecond of one thread, on the slow side. */
static const struct guess {
    const char *on, *variant;
    double bytes_per_ns, flops_per_ns;
} guesses[] = {
    {"cpu", "naive", 1, 1.0},        {"cpu", "simd", 10, 40},
    {"cpu", "openblas", 8, 40},      {"cuda", "eager_naive", 200, 500},
    {"cuda", "eager", 1500, 200000}, {"cuda", "graph", 2500, 200000},
    {"cuda", "fused", 2500, 200000}, {"cuda", "persistent", 2500, 200000},
};

static double predict(const as_params *p, const as_variant *v, const as_work *w) {
    const struct guess *g = NULL;
    for (int i = 0; i < AS_COUNT(guesses); i++)
        if (strcmp(guesses[i].on, v->on) == 0 && strcmp(guesses[i].variant, v->name) == 0)
            g = &guesses[i];
    if (!g) /* a device's rung */
        return 1e5 + w->bytes_read / 1000 + w->flops / 50000;
    as_levels levels;
    as_error ignored;
    double threads = strcmp(v->on, "cpu") == 0 ? (double)as_params_int(p, "threads") : 1;
    if (threads < 1)
        threads = as_levels_read(&levels, &ignored) == AS_OK ? levels.cores : 1;
    return 10000 + fmax(w->bytes_read / g->bytes_per_ns, w->flops / g->flops_per_ns) / threads;
}

/* ---- work ---- */

static as_operand operand(const char *name, as_role role, as_dtype type, as_dist dist, int64_t count, uint32_t key) {
    return (as_operand){name, role, AS_MEM_DEVICE, type, dist, count, key};
}

static void add_fact(as_work *w, const char *name, double bytes, const char *formula) {
    w->fact[w->facts++] = (as_fact){name, "bytes", bytes, formula};
}

static void add_operands(const as_step *s, as_work *w) {
    const as_model *m = s->model;
    w->operand[w->operands++] = operand("weights", AS_IN, s->type, AS_NORMAL, as_model_elements(m), 1);
    if (s->phase == AS_PHASE_DECODE)
        w->operand[w->operands++] = operand("kv", AS_IN, s->type, AS_NORMAL, as_step_kv_elements(s), 2);
    w->operand[w->operands++] = operand("tokens", AS_IN, AS_U32, AS_BITS, s->batch * s->prompt, 3);
    w->rows = s->batch;
    w->columns = s->phase == AS_PHASE_GENERATE ? s->tokens : m->vocab;
    if (s->phase == AS_PHASE_GENERATE)
        w->operand[w->operands++] = operand("chosen", AS_OUT, AS_U32, AS_BITS, w->rows * w->columns, 0);
    else
        w->operand[w->operands++] = operand("logits", AS_OUT, AS_F32, AS_NORMAL, w->rows * w->columns, 0);
}

static void add_facts(const as_step *s, as_work *w) {
    const double bytes = (double)as_dtype_bytes(s->type), weights = (double)as_model_elements(s->model) * bytes,
                 kv = (double)as_step_kv_elements(s) * bytes,
                 own = s->phase == AS_PHASE_DECODE ? 0 : kv; /* the cache in the state */
    const double activations = (double)w->state_bytes - own + 4.0 * (double)(w->rows * w->columns);
    add_fact(w, "weights_bytes", weights, "elements of the model's block x bytes");
    add_fact(w, "weights_read_bytes", as_model_parameters_read(s->model) * bytes,
             "weights that one token reads x bytes");
    add_fact(w, "kv_bytes", kv, "2 x layers x kv heads x head dim x batch x positions x bytes");
    add_fact(w, "activation_bytes", activations, "the variant's state without the cache, and the output");
    add_fact(w, "peak_bytes", weights + kv + activations, "weights_bytes + kv_bytes + activation_bytes");
}

static int64_t state_bytes_of(const as_step *s, const as_variant *v) {
#ifdef ASSAY_CUDA
    if (strcmp(v->on, "cuda") == 0)
        return as_decoder_state_bytes_cuda(v->name, s);
#endif
    return strcmp(v->on, "cpu") == 0 ? as_decoder_state_bytes_cpu(s) : 0;
}

static double items_of(const as_step *s) {
    return (double)(s->batch * (s->phase == AS_PHASE_GENERATE ? s->tokens : s->prompt));
}

as_status as_decoder_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    (void)d;
    const bool cpu = strcmp(v->on, "cpu") == 0;
    AS_TRY(check_phase(p, e));
    const as_step s = as_step_of(p);
    AS_TRY(check_size(&s, e));
    AS_TRY(check_variant(p, v, e));
    *w = (as_work){0};
    add_operands(&s, w);
    w->state_bytes = state_bytes_of(&s, v);
    add_facts(&s, w);
    w->flops = as_step_flops(&s);
    w->bytes_read = as_step_bytes_read(&s);
    w->bytes_written = as_step_bytes_written(&s);
    w->convention = "weights once a step, keys and values of each row; new entries written";
    w->working_set_bytes = (int64_t)((as_model_parameters_read(s.model) + (double)as_step_kv_elements(&s)) *
                                     (double)as_dtype_bytes(s.type));
    w->items = items_of(&s);
    w->item = "token";
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read + w->bytes_written};
    w->bound[w->bounds++] = (as_bound){!cpu && s.type == AS_BF16 ? "flops.bf16" : "flops.f32", w->flops};
    w->utilisation = true;
    w->check = AS_CHECK_REFERENCE;
    w->follows_output = s.phase == AS_PHASE_GENERATE;
    w->tolerance = s.phase == AS_PHASE_GENERATE ? 0.25 : as_step_tolerance(&s); /* tokens are whole numbers */
    if (w->flops > 3e8)
        w->reference_rows = REFERENCE_ROWS;
    w->reference_by_device = !cpu && w->flops > 2e9;
    const double rows = w->reference_rows && s.batch > w->reference_rows ? (double)w->reference_rows : (double)s.batch;
    w->reference_ns = w->reference_by_device
                          ? 1e8 + w->flops / 1000                    /* as many a nanosecond on the device */
                          : w->flops * rows / (double)s.batch * 0.4; /* 2.5 operations a nanosecond */
    w->predicted_ns = predict(p, v, w);
    return AS_OK;
}

/* ---- what would fit ---- */

static double bytes_of(const as_step *s, const as_variant *v) {
    const double state = (double)state_bytes_of(s, v);
    return (double)as_model_elements(s->model) * (double)as_dtype_bytes(s->type) + state +
           (s->phase == AS_PHASE_DECODE ? (double)as_step_kv_elements(s) * (double)as_dtype_bytes(s->type) : 0) +
           4.0 * (double)(s->batch * s->model->vocab);
}

typedef int64_t *(*axis_fn)(as_step *s);
static int64_t *batch_of(as_step *s) { return &s->batch; }
static int64_t *length_of(as_step *s) { return s->phase == AS_PHASE_DECODE ? &s->context : &s->prompt; }

/* The largest value of an axis, at most what it is, with which the step fits; 0: none. Memory grows with it. */
static int64_t largest(as_step s, axis_fn axis, const as_variant *v, double room) {
    int64_t low = 0, high = *axis(&s);
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        *axis(&s) = middle;
        if (bytes_of(&s, v) <= room)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void as_decoder_largest(const as_params *p, const as_variant *v, const as_device *d, double room, char text[160]) {
    (void)d;
    const as_step s = as_step_of(p);
    const long long batch = largest(s, batch_of, v, room), length = largest(s, length_of, v, room);
    const char *axis = s.phase == AS_PHASE_DECODE ? "context" : "prompt";
    if (batch > 0 && length > 0)
        snprintf(text, 160, "the largest that fits is batch:%lld, or %s:%lld with this batch", batch, axis, length);
    else if (batch > 0 || length > 0)
        snprintf(text, 160, "the largest that fits is %s:%lld", batch > 0 ? "batch" : axis, batch > 0 ? batch : length);
    else
        snprintf(text, 160, "no batch fits beside %.1f GB of weights; take a smaller model",
                 (double)as_model_elements(s.model) * (double)as_dtype_bytes(s.type) * 1e-9);
}
