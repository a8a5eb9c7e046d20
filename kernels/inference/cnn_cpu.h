/* A convolutional network on the host: one walk over its operations for all rungs, each with a table of its own.
 * Activations are f32, images [side + 2 border][side + 2 border][channels] whose border holds the zeros that the
 * convolutions after them read, so that no loop asks where the image ends. */
#pragma once

#include "../../harness/parts.h"
#include "cnn.h"

typedef struct as_cnn_cpu as_cnn_cpu;

/* Images of one buffer as an operation finds them. */
typedef struct as_cnn_tensor {
    float *data; /* of the border's first pixel of the first image */
    int side, channels, border;
} as_cnn_tensor;

static inline int64_t as_cnn_row(const as_cnn_tensor *t) { return (int64_t)(t->side + 2 * t->border) * t->channels; }
static inline int64_t as_cnn_image(const as_cnn_tensor *t) { return as_cnn_row(t) * (t->side + 2 * t->border); }
/* Pixel (y, x) of image n; from -border on. */
static inline float *as_cnn_pixel(const as_cnn_tensor *t, int64_t n, int y, int x) {
    return t->data + n * as_cnn_image(t) + (y + t->border) * as_cnn_row(t) + (int64_t)(x + t->border) * t->channels;
}

typedef struct as_cnn_ops {
    /* `add` has data NULL where there is no shortcut. The output's border is the caller's. */
    void (*convolve)(const as_cnn_cpu *c, int op, const as_cnn_tensor *in, const as_cnn_tensor *out,
                     const as_cnn_tensor *add);
    /* The largest or the mean of the operation's windows; what is beyond the border is 0, and no input is below it. */
    void (*pool)(const as_cnn_cpu *c, int op, const as_cnn_tensor *in, const as_cnn_tensor *out);
} as_cnn_ops;

/* For tests: what an operation leaves. */
typedef void (*as_cnn_tap_fn)(void *context, const as_cnn_op *o, const as_cnn_tensor *out, int64_t batch);

struct as_cnn_cpu {
    as_cnn_step step;
    as_cnn_net net;
    const as_cnn_ops *ops;
    as_team *team;
    const void *weights; /* of the call under way */
    float *images;       /* widened, with their border */
    float *buffer[AS_CNN_BUFFERS];
    float *scratch;                 /* of the rung */
    float *packed[AS_CNN_MOST_OPS]; /* of the rung */
    as_part *part;                  /* [ops + 1] of the instrumented pass; NULL: not instrumented */
    as_cnn_tap_fn tap;
    void *tap_context;
};

/* State for the call's parameters and `scratch_floats` of scratch. AS_ENOMEM. */
as_status as_cnn_cpu_create(as_cnn_cpu **out, const as_call *call, const as_cnn_ops *ops, int64_t scratch_floats,
                            as_error *e) AS_MUST_CHECK;
void as_cnn_cpu_free(as_cnn_cpu *c); /* NULL allowed */
/* Scratch that a rung with such operations asks for. */
int64_t as_cnn_scratch_floats(const char *variant, const as_cnn_net *n, int64_t batch);
/* Zeroed floats at a multiple of 64 bytes; NULL: no memory. */
float *as_cnn_floats(int64_t n);

as_status as_cnn_cpu_run(const as_call *call, as_error *e);
as_status as_cnn_cpu_breakdown(const as_call *call, as_parts *parts, as_error *e);

/* ---- for the rungs ---- */

static inline float as_cnn_load(const void *p, as_dtype type, int64_t i) {
    return type == AS_F32   ? ((const float *)p)[i]
           : type == AS_F16 ? as_f16_to_f32(((const uint16_t *)p)[i])
                            : as_bf16_to_f32(((const uint16_t *)p)[i]);
}
