#include "cnn_cpu.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

/* ---- state ---- */

/* Zeros around an image: what the widest convolution that reads it asks for. Pools keep off the border of their own
 * output as convolutions do; images of one pixel (averages, logits) have none. */
static int border_of(const as_cnn_net *n, int buffer, int side) {
    return buffer == AS_CNN_IMAGES ? n->op[0].pad : side > 1 && buffer != AS_CNN_LOGITS;
}

static as_cnn_tensor tensor(const as_cnn_net *n, float *data, int buffer, int side, int channels) {
    return (as_cnn_tensor){data, side, channels, border_of(n, buffer, side)};
}

/* Floats of one image in each buffer. */
static void sizes(const as_cnn_net *n, int64_t floats[AS_CNN_BUFFERS]) {
    memset(floats, 0, AS_CNN_BUFFERS * sizeof *floats);
    for (int i = 0; i < n->ops; i++) {
        const as_cnn_op *o = &n->op[i];
        const as_cnn_tensor t = tensor(n, NULL, o->to, o->out_side, o->out_channels);
        if (o->to < AS_CNN_BUFFERS && as_cnn_image(&t) > floats[o->to])
            floats[o->to] = as_cnn_image(&t);
    }
}

static int64_t image_floats(const as_cnn_net *n) {
    const as_cnn_tensor t = tensor(n, NULL, AS_CNN_IMAGES, n->model->side, n->model->channels);
    return as_cnn_image(&t);
}

int64_t as_cnn_state_bytes_cpu(const char *variant, const as_cnn_step *s) {
    as_cnn_net n;
    int64_t floats[AS_CNN_BUFFERS];
    as_cnn_build(s->model, &n);
    sizes(&n, floats);
    int64_t sum = image_floats(&n);
    for (int b = 0; b < AS_CNN_BUFFERS; b++)
        sum += floats[b];
    sum *= s->batch;
    sum += as_cnn_scratch_floats(variant, &n, s->batch);
    if (strcmp(variant, "simd") == 0)
        sum += n.elements; /* packed */
    return sum * (int64_t)sizeof(float);
}

float *as_cnn_floats(int64_t n) {
    const size_t bytes = ((size_t)n * sizeof(float) + LINE) / LINE * LINE;
    float *p = aligned_alloc(LINE, bytes);
    if (p)
        memset(p, 0, bytes); /* page faults here, not in the timed region */
    return p;
}

as_status as_cnn_cpu_create(as_cnn_cpu **out, const as_call *call, const as_cnn_ops *ops, int64_t scratch_floats,
                            as_error *e) {
    *out = NULL;
    as_cnn_cpu *c = calloc(1, sizeof *c);
    if (!c)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a network");
    c->step = as_cnn_step_of(call->params);
    c->ops = ops;
    c->team = call->team;
    as_cnn_build(c->step.model, &c->net);
    int64_t floats[AS_CNN_BUFFERS];
    sizes(&c->net, floats);
    bool good = (c->images = as_cnn_floats(image_floats(&c->net) * c->step.batch)) != NULL;
    for (int b = 0; b < AS_CNN_BUFFERS; b++)
        good &= (c->buffer[b] = as_cnn_floats(floats[b] * c->step.batch)) != NULL;
    good &= (c->scratch = as_cnn_floats(scratch_floats)) != NULL;
    if (!good) {
        const as_status status = as_fail(e, AS_ENOMEM, "no memory for the activations of %s", c->step.model->name);
        as_cnn_cpu_free(c);
        return status;
    }
    *out = c;
    return AS_OK;
}

void as_cnn_cpu_free(as_cnn_cpu *c) {
    if (!c)
        return;
    free(c->images);
    for (int b = 0; b < AS_CNN_BUFFERS; b++)
        free(c->buffer[b]);
    free(c->scratch);
    for (int i = 0; i < c->net.ops; i++)
        free(c->packed[i]);
    free(c);
}

/* ---- images and borders ---- */

typedef struct border_job {
    const as_cnn_cpu *c;
    const as_cnn_tensor *out;
    const void *images;
} border_job;

/* Rows of the images, widened, between their borders, which are 0 from the beginning. */
static void widen_member(int member, int size, void *context) {
    const border_job *j = context;
    const as_cnn_tensor *t = j->out;
    const as_dtype type = j->c->step.type;
    const int64_t rows = j->c->step.batch * t->side, row = (int64_t)t->side * t->channels;
    for (int64_t r = rows * member / size; r < rows * (member + 1) / size; r++) {
        const char *from = (const char *)j->images + (size_t)(r * row) * as_dtype_bytes(type);
        float *to = as_cnn_pixel(t, r / t->side, (int)(r % t->side), 0);
        if (type == AS_F32)
            memcpy(to, from, (size_t)row * sizeof *to);
        else
            for (int64_t i = 0; i < row; i++)
                to[i] = as_cnn_load(from, type, i);
    }
}

static void clear_member(int member, int size, void *context) {
    const border_job *j = context;
    const as_cnn_tensor *t = j->out;
    const int64_t batch = j->c->step.batch, row = as_cnn_row(t), edge = (int64_t)t->border * t->channels;
    for (int64_t n = batch * member / size; n < batch * (member + 1) / size; n++) {
        memset(as_cnn_pixel(t, n, -t->border, -t->border), 0, (size_t)(row * t->border) * sizeof(float));
        memset(as_cnn_pixel(t, n, t->side, -t->border), 0, (size_t)(row * t->border) * sizeof(float));
        for (int y = 0; y < t->side; y++) {
            memset(as_cnn_pixel(t, n, y, -t->border), 0, (size_t)edge * sizeof(float));
            memset(as_cnn_pixel(t, n, y, t->side), 0, (size_t)edge * sizeof(float));
        }
    }
}

/* ---- the walk ---- */

static void mark(as_cnn_cpu *c, int at, const char *path, int layer, double bytes, double flops, int64_t *last_ns) {
    if (!c->part)
        return;
    const int64_t now = as_parts_now_ns();
    c->part[at] = (as_part){.phase = "forward",
                            .path = path,
                            .layer = layer,
                            .where = "host",
                            .source = "clock",
                            .ns = (double)(now - *last_ns),
                            .bytes = bytes,
                            .flops = flops,
                            /* what takes longer on any machine of ours: 32 operations a byte */
                            .ceiling = flops > 32 * bytes ? "flops.f32" : "memory"};
    *last_ns = now;
}

static void forward(as_cnn_cpu *c, const void *images, float *logits, int64_t last_ns) {
    const as_cnn_net *n = &c->net;
    float *const buffer[] = {c->buffer[0], c->buffer[1], c->buffer[2], c->images, logits};
    const as_cnn_tensor padded = tensor(n, c->images, AS_CNN_IMAGES, n->model->side, n->model->channels);
    const double image_bytes = (double)(c->step.batch * as_cnn_inputs(&n->op[0]));
    as_team_run(c->team, widen_member, &(border_job){c, &padded, images});
    mark(c, 0, "images", -1, image_bytes * (4 + (double)as_dtype_bytes(c->step.type)), 0, &last_ns);
    for (int i = 0; i < n->ops; i++) {
        const as_cnn_op *o = &n->op[i];
        const as_cnn_tensor in = tensor(n, buffer[o->from], o->from, o->in_side, o->in_channels),
                            out = tensor(n, buffer[o->to], o->to, o->out_side, o->out_channels),
                            add = o->add == AS_CNN_NOTHING ? (as_cnn_tensor){0} : out;
        if (out.border > 0 && !add.data) /* a shortcut's own border is clear */
            as_team_run(c->team, clear_member, &(border_job){.c = c, .out = &out});
        if (o->kind == AS_CNN_CONVOLVE)
            c->ops->convolve(c, i, &in, &out, &add);
        else
            c->ops->pool(c, i, &in, &out);
        mark(c, i + 1, o->path, o->layer, as_cnn_op_bytes(o, &c->step, sizeof(float)),
             as_cnn_op_flops(o) * (double)c->step.batch, &last_ns);
        if (c->tap)
            c->tap(c->tap_context, o, &out, c->step.batch);
    }
}

as_status as_cnn_cpu_run(const as_call *call, as_error *e) {
    (void)e;
    as_cnn_cpu *c = call->state;
    c->weights = call->operand[0];
    forward(c, call->operand[1], call->operand[2], 0);
    return AS_OK;
}

as_status as_cnn_cpu_breakdown(const as_call *call, as_parts *parts, as_error *e) {
    as_cnn_cpu *c = call->state;
    as_part part[AS_CNN_MOST_OPS + 1];
    (void)e;
    c->part = part;
    c->weights = call->operand[0];
    const int64_t begin = as_parts_now_ns();
    forward(c, call->operand[1], call->operand[2], begin);
    const int64_t end = as_parts_now_ns();
    c->part = NULL;
    for (int i = 0; i <= c->net.ops; i++)
        as_parts_add(parts, &part[i]);
    as_parts_total(parts, (double)(end - begin));
    return AS_OK;
}
