/* Cases of convolutional networks: what the axes may be, operands, work, and a rough time for the planner. */
#include "../../kernels/ceiling/levels.h"
#include "../suites.h"
#include "inference.h"
#ifdef ASSAY_CUDA
#include "../../kernels/inference/cnn_cuda.h"
#endif

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BATCH = 1024, REFERENCE_IMAGES = 2 };

/* ---- the axes ---- */

static bool listed(const char *type) {
    static const char *const types[] = {"f32", "tf32", "bf16", "f16"};
    for (int i = 0; i < AS_COUNT(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

static as_status check_axes(const as_params *p, const as_variant *v, as_error *e) {
    static const char *const others[] = {"context", "prompt", "tokens"};
    const char *type = as_params_text(p, "type"), *transfers = as_params_text(p, "transfers");
    const bool cpu = strcmp(v->on, "cpu") == 0;
    const int64_t batch = as_params_int(p, "batch");
    if (strcmp(as_params_text(p, "phase"), "forward") != 0)
        return as_fail(e, AS_EUSAGE, "inference: images have phase:forward, not '%.20s'", as_params_text(p, "phase"));
    for (int i = 0; i < AS_COUNT(others); i++)
        if (!as_axis_untouched(p, others[i]))
            return as_fail(e, AS_EUSAGE, "inference: %s is for language models: leave it out for %s", others[i],
                           as_params_text(p, "model"));
    if (!listed(type))
        return as_fail(e, AS_EUSAGE, "inference: type is f32, tf32, bf16 or f16 for images, not '%.20s'", type);
    if (cpu && strcmp(type, "tf32") == 0)
        return as_fail(e, AS_EUSAGE, "inference: tf32 is a GPU's: take type:f32");
    if (strcmp(transfers, "no") != 0 && strcmp(transfers, "yes") != 0)
        return as_fail(e, AS_EUSAGE, "inference: transfers is no or yes, not '%.20s'", transfers);
    if (cpu && strcmp(transfers, "no") != 0)
        return as_fail(e, AS_EUSAGE, "inference: the cpu has its images where it computes: leave transfers out");
    if (batch < 1 || batch > MOST_BATCH)
        return as_fail(e, AS_EUSAGE, "inference: batch is 1 to %d", MOST_BATCH);
    if (cpu && strcmp(v->name, "naive") == 0 && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "inference/naive runs on one thread: leave threads at 1");
    if (cpu && strcmp(v->name, "openblas") == 0 && strcmp(type, "f32") != 0)
        return as_fail(e, AS_EUSAGE, "inference/openblas takes type:f32");
    return AS_OK;
}

/* ---- the planner's guess ---- */

/* Operations a nanosecond of one thread, on the slow side; of a whole GPU. */
static const struct guess {
    const char *on, *variant;
    double f32, narrow;
} guesses[] = {
    {"cpu", "naive", 1, 0.5},    {"cpu", "simd", 40, 40},        {"cpu", "openblas", 40, 40},
    {"cuda", "naive", 300, 300}, {"cuda", "eager", 8000, 40000}, {"cuda", "graph", 8000, 40000},
};

static double predict(const as_params *p, const as_variant *v, const as_cnn_step *s, double flops) {
    double rate = 1;
    for (int i = 0; i < AS_COUNT(guesses); i++)
        if (strcmp(guesses[i].on, v->on) == 0 && strcmp(guesses[i].variant, v->name) == 0)
            rate = s->type == AS_F32 ? guesses[i].f32 : guesses[i].narrow;
    if (strcmp(v->on, "cpu") != 0)
        return 2e5 + flops / rate;
    as_levels levels;
    as_error ignored;
    double threads = (double)as_params_int(p, "threads");
    if (threads < 1)
        threads = as_levels_read(&levels, &ignored) == AS_OK ? levels.cores : 1;
    return 10000 + flops / rate / threads;
}

/* ---- work ---- */

static int64_t state_bytes_of(const as_cnn_step *s, const as_variant *v) {
#ifdef ASSAY_CUDA
    if (strcmp(v->on, "cuda") == 0)
        return as_cnn_state_bytes_cuda(s);
#endif
    return strcmp(v->on, "cpu") == 0 ? as_cnn_state_bytes_cpu(v->name, s) : 0;
}

static void add_operands(const as_cnn_net *n, const as_cnn_step *s, as_work *w) {
    const as_memory memory = s->transfers ? AS_MEM_PINNED : AS_MEM_DEVICE;
    const int64_t images = s->batch * as_cnn_inputs(&n->op[0]), logits = s->batch * s->model->classes;
    w->operand[0] = (as_operand){"weights", AS_IN, AS_MEM_DEVICE, s->type, AS_NORMAL, n->elements, 1};
    w->operand[1] = (as_operand){"images", AS_IN, memory, s->type, AS_NORMAL, images, 2};
    w->operand[2] = (as_operand){"logits", AS_OUT, memory, AS_F32, AS_NORMAL, logits, 0};
    w->operands = 3;
    w->rows = s->batch;
    w->columns = s->model->classes;
}

static void add_bounds(const as_cnn_net *n, const as_cnn_step *s, bool cpu, as_work *w) {
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read + w->bytes_written};
    w->bound[w->bounds++] = (as_bound){as_cnn_flops_ceiling(cpu ? AS_F32 : s->type), w->flops};
    if (!s->transfers)
        return;
    const double images = (double)(s->batch * as_cnn_inputs(&n->op[0])) * (double)as_dtype_bytes(s->type);
    w->bound[w->bounds++] = (as_bound){"link.h2d", images};
    w->bound[w->bounds++] = (as_bound){"link.d2h", w->bytes_written};
}

static void add_facts(const as_cnn_net *n, const as_cnn_step *s, as_work *w) {
    const double weights = (double)n->elements * (double)as_dtype_bytes(s->type),
                 images = (double)(s->batch * as_cnn_inputs(&n->op[0])) * (double)as_dtype_bytes(s->type);
    w->fact[w->facts++] = (as_fact){"weights_bytes", "bytes", weights, "elements of the model's block x bytes"};
    w->fact[w->facts++] = (as_fact){"images_bytes", "bytes", images, "batch x side x side x channels x bytes"};
    w->fact[w->facts++] = (as_fact){"activation_bytes", "bytes", (double)w->state_bytes, "the variant's state"};
    w->fact[w->facts++] = (as_fact){"peak_bytes", "bytes", weights + images + (double)w->state_bytes + w->bytes_written,
                                    "weights_bytes + images_bytes + activation_bytes + logits"};
}

as_status as_cnn_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    (void)d;
    const bool cpu = strcmp(v->on, "cpu") == 0;
    AS_TRY(check_axes(p, v, e));
    const as_cnn_step s = as_cnn_step_of(p);
    as_cnn_net n;
    as_cnn_build(s.model, &n);
    *w = (as_work){0};
    add_operands(&n, &s, w);
    w->flops = as_cnn_flops(&n, &s);
    w->bytes_read = as_cnn_bytes_read(&n, &s);
    w->bytes_written = as_cnn_bytes_written(&n, &s);
    w->convention = "weights and images once; logits written";
    w->state_bytes = state_bytes_of(&s, v);
    w->working_set_bytes = (int64_t)(w->bytes_read + w->bytes_written);
    w->items = (double)s.batch;
    w->item = "image";
    add_bounds(&n, &s, cpu, w);
    add_facts(&n, &s, w);
    w->utilisation = true;
    w->check = AS_CHECK_REFERENCE;
    w->tolerance = as_cnn_tolerance(&n, cpu ? AS_F32 : s.type); /* the host keeps activations in f32 */
    if (w->flops > 3e8)
        w->reference_rows = REFERENCE_IMAGES;
    const double images =
        w->reference_rows && s.batch > w->reference_rows ? (double)w->reference_rows : (double)s.batch;
    w->reference_ns = w->flops * images / (double)s.batch * 0.4; /* 2.5 operations a nanosecond */
    w->predicted_ns = predict(p, v, &s, w->flops);
    return AS_OK;
}

/* ---- what would fit ---- */

void as_cnn_largest(const as_params *p, const as_variant *v, const as_device *d, double room, char text[160]) {
    (void)d;
    as_cnn_step s = as_cnn_step_of(p);
    as_cnn_net n;
    as_cnn_build(s.model, &n);
    int64_t low = 0, high = s.batch;
    while (low < high) {
        s.batch = low + (high - low + 1) / 2;
        const double bytes = (double)(n.elements + s.batch * as_cnn_inputs(&n.op[0])) * (double)as_dtype_bytes(s.type) +
                             as_cnn_bytes_written(&n, &s) + (double)state_bytes_of(&s, v);
        if (bytes <= room)
            low = s.batch;
        else
            high = s.batch - 1;
    }
    if (low > 0)
        snprintf(text, 160, "the largest that fits is batch:%lld", (long long)low);
    else
        snprintf(text, 160, "no batch of %s fits", s.model->name);
}
