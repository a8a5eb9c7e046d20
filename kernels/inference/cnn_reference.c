/* A convolutional network in float64, plain loops, an image at a time: what every variant is judged by. It shares with
 * them the list of operations (cnn.h) and nothing else: its images have no border, it asks at each step of a window
 * whether it is inside.
 *
 * The scale of a logit is |head row| |features| / sqrt(features) times the head's factor: the size of a sum of products
 * of two vectors that do not know of one another, and so the size of the logit's error over the relative error of the
 * features (as_cnn_tolerance). The logit itself may cancel to zero. */
#include "cnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sums {
    as_cnn_net net;
    as_dtype type;
    const void *weights;
    double *buffer[AS_CNN_BUFFERS + 2]; /* [side][side][channels]: activations, the image, the logits */
    double *block;                      /* weights of the operation under way, widened, then its biases */
} sums;

static double element(const void *p, as_dtype type, int64_t i) {
    if (type == AS_F32 || type == AS_TF32)
        return (double)((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return (double)(type == AS_F16 ? as_f16_to_f32(bits) : as_bf16_to_f32(bits));
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

static void widen(const sums *s, const as_cnn_op *o) {
    const int64_t weights = as_cnn_terms(o) * o->out_channels;
    for (int64_t i = 0; i < weights; i++)
        s->block[i] = element(s->weights, s->type, o->weights + i);
    for (int64_t i = 0; i < o->out_channels; i++)
        s->block[weights + i] = element(s->weights, s->type, o->bias + i);
}

static double convolved(const sums *s, const as_cnn_op *o, int y, int x, int channel) {
    const double *in = s->buffer[o->from], *w = s->block + channel * as_cnn_terms(o);
    double sum = 0;
    for (int i = 0; i < o->kernel; i++)
        for (int j = 0; j < o->kernel; j++) {
            const int row = y * o->stride + i - o->pad, column = x * o->stride + j - o->pad;
            if (row >= 0 && row < o->in_side && column >= 0 && column < o->in_side)
                sum += dot(in + ((int64_t)row * o->in_side + column) * o->in_channels,
                           w + ((int64_t)i * o->kernel + j) * o->in_channels, o->in_channels);
        }
    return sum * (double)o->scale + (double)AS_CNN_BIAS * s->block[as_cnn_terms(o) * o->out_channels + channel];
}

static double pooled(const sums *s, const as_cnn_op *o, int y, int x, int channel) {
    const double *in = s->buffer[o->from];
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < o->kernel; i++)
        for (int j = 0; j < o->kernel; j++) {
            const int row = y * o->stride + i - o->pad, column = x * o->stride + j - o->pad;
            if (row < 0 || row >= o->in_side || column < 0 || column >= o->in_side)
                continue;
            const double value = in[((int64_t)row * o->in_side + column) * o->in_channels + channel];
            most = value > most ? value : most;
            sum += value;
        }
    return o->kind == AS_CNN_MAX_POOL ? most : sum / (double)(o->kernel * o->kernel);
}

static void operation(const sums *s, const as_cnn_op *o) {
    double *out = s->buffer[o->to];
    if (o->kind == AS_CNN_CONVOLVE)
        widen(s, o);
    for (int y = 0; y < o->out_side; y++)
        for (int x = 0; x < o->out_side; x++)
            for (int k = 0; k < o->out_channels; k++) {
                const int64_t at = ((int64_t)y * o->out_side + x) * o->out_channels + k;
                double value = o->kind == AS_CNN_CONVOLVE ? convolved(s, o, y, x, k) : pooled(s, o, y, x, k);
                if (o->add != AS_CNN_NOTHING)
                    value += s->buffer[o->add][at];
                out[at] = o->relu && value < 0 ? 0 : value;
            }
}

static void image_of(const sums *s, const void *images, int64_t n) {
    const int64_t elements = as_cnn_inputs(&s->net.op[0]);
    for (int64_t i = 0; i < elements; i++)
        s->buffer[AS_CNN_IMAGES][i] = element(images, s->type, n * elements + i);
}

/* The last operation again, for its scales. */
static void scales(const sums *s, double *scale) {
    const as_cnn_op *o = &s->net.op[s->net.ops - 1];
    const double *h = s->buffer[o->from];
    const int64_t n = o->in_channels;
    const double length = sqrt(dot(h, h, n) / (double)n);
    for (int k = 0; k < o->out_channels; k++)
        scale[k] = sqrt(dot(s->block + k * n, s->block + k * n, n)) * length * (double)o->scale;
}

static void sums_free(sums *s) {
    for (int b = 0; b < AS_CNN_BUFFERS + 2; b++)
        free(s->buffer[b]);
    free(s->block);
}

static as_status sums_init(sums *s, as_error *e) {
    int64_t size[AS_CNN_BUFFERS + 2] = {0}, block = 0;
    bool good = true;
    for (int i = 0; i < s->net.ops; i++) {
        const as_cnn_op *o = &s->net.op[i];
        const int64_t weights = (as_cnn_terms(o) + 1) * o->out_channels;
        size[o->from] = as_cnn_inputs(o) > size[o->from] ? as_cnn_inputs(o) : size[o->from];
        size[o->to] = as_cnn_outputs(o) > size[o->to] ? as_cnn_outputs(o) : size[o->to];
        block = o->kind == AS_CNN_CONVOLVE && weights > block ? weights : block;
    }
    for (int b = 0; b < AS_CNN_BUFFERS + 2; b++)
        good &= (s->buffer[b] = calloc((size_t)size[b], sizeof(double))) != NULL;
    good &= (s->block = malloc((size_t)block * sizeof(double))) != NULL;
    if (good)
        return AS_OK;
    sums_free(s);
    return as_fail(e, AS_ENOMEM, "no host memory for the reference of %s", s->net.model->name);
}

as_status as_cnn_reference(const as_reference *r, as_error *e) {
    const as_cnn_step step = as_cnn_step_of(r->params);
    sums s = {.type = step.type, .weights = r->input[0]};
    as_cnn_build(step.model, &s.net);
    AS_TRY(sums_init(&s, e));
    const size_t classes = (size_t)step.model->classes;
    for (int64_t k = 0; k < r->n_rows; k++) {
        image_of(&s, r->input[1], r->rows[k]);
        for (int i = 0; i < s.net.ops; i++)
            operation(&s, &s.net.op[i]);
        memcpy(r->expected + (size_t)k * classes, s.buffer[AS_CNN_LOGITS], classes * sizeof(double));
        scales(&s, r->scale + (size_t)k * classes);
    }
    sums_free(&s);
    return AS_OK;
}
