/* Convolutional networks of the ResNet family: images in, logits out. Operands in order:
 *
 *   weights  input, the model's block (below), element type by axis `type`
 *   images   input, [batch][side][side][channels], seeded normals, as normalised photographs are near; type as the weights
 *   logits   output, f32 [batch][classes]
 *
 * The inference form: batch normalisation is a factor and a sum for each channel once its statistics are fixed, and is
 * folded into the weights and the bias of the convolution before it. So the block holds folded weights and biases, and
 * a network is a list of operations over square images [side][side][channels] (channels innermost):
 *
 *   convolve  out = scale * sum over the kernel and the input channels of weight * in + AS_CNN_BIAS * bias, plus the
 *             tensor `add` (shortcut) where there is one, then max(0, .) where it says `relu`. Zeros beyond the border.
 *   max pool  the largest of kernel x kernel, of those inside the border
 *   average   the mean of the whole image
 *
 * and the head is a convolution of an image of one pixel. Sums are kept in f32 at least; what is stored between
 * operations is of the axis's type or wider.
 *
 * Weights are seeded unit normals, [out][kernel row][kernel column][in]: a row of the kernel is one run of elements
 * where the image lies with its channels innermost, too. Scales are powers of two that keep activations near 1 through
 * the depth: sqrt(2 / inputs) before a ReLU, half of it where a shortcut is added.
 *
 * Work: flops 2 x outputs x kernel^2 x input channels of each convolution and the head (ResNet-18: 3.63e9 an image);
 * pools, shortcuts and ReLU are left out. Bytes: weights once, images once, logits once. */
#pragma once

#include "../table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_CNN_STAGES = 4, AS_CNN_MOST_OPS = 48, AS_CNN_BUFFERS = 3 };

typedef struct as_cnn {
    const char *name;
    int side, channels, classes; /* of an image: pixels of an edge; colours */
    int stem;                    /* channels after the first convolution, 7x7 with stride 2 */
    int width[AS_CNN_STAGES];    /* channels of a stage; each but the first halves the side */
    int blocks[AS_CNN_STAGES];   /* basic blocks: two 3x3 convolutions and a shortcut */
} as_cnn;

/* The presets; ends at name NULL. */
extern const as_cnn as_cnns[];
/* NULL if there is none of that name. */
const as_cnn *as_cnn_named(const char *name);

typedef enum as_cnn_kind { AS_CNN_CONVOLVE, AS_CNN_MAX_POOL, AS_CNN_AVERAGE } as_cnn_kind;

/* Where an operation reads and writes: one of AS_CNN_BUFFERS activations, or an operand. */
enum { AS_CNN_NOTHING = -1, AS_CNN_IMAGES = AS_CNN_BUFFERS, AS_CNN_LOGITS };

typedef struct as_cnn_op {
    as_cnn_kind kind;
    const char *path; /* of its part in the breakdown */
    int layer;        /* which of the path, -1: the only one */
    int in_side, in_channels, out_side, out_channels;
    int kernel, stride, pad;
    int from, to, add; /* `to` may be `add`: element by element, read before it is written */
    bool relu;
    int64_t weights, bias; /* elements from the block's start */
    float scale;
} as_cnn_op;

#define AS_CNN_BIAS 0.125f /* what biases, unit normals like all of the block, are multiplied by */

typedef struct as_cnn_net {
    const as_cnn *model;
    int ops;
    as_cnn_op op[AS_CNN_MOST_OPS];
    int64_t elements;   /* of the block of weights, padding included */
    int64_t parameters; /* padding left out */
} as_cnn_net;

void as_cnn_build(const as_cnn *m, as_cnn_net *out);

/* Elements of one image, where the operation reads and writes. */
static inline int64_t as_cnn_inputs(const as_cnn_op *o) { return (int64_t)o->in_side * o->in_side * o->in_channels; }
static inline int64_t as_cnn_outputs(const as_cnn_op *o) {
    return (int64_t)o->out_side * o->out_side * o->out_channels;
}
/* Products that one output sums up. */
static inline int64_t as_cnn_terms(const as_cnn_op *o) { return (int64_t)o->kernel * o->kernel * o->in_channels; }
/* Floating-point operations of one image: 0 for pools. */
static inline double as_cnn_op_flops(const as_cnn_op *o) {
    return o->kind == AS_CNN_CONVOLVE ? 2.0 * (double)as_cnn_outputs(o) * (double)as_cnn_terms(o) : 0;
}

/* What the axes say. */
typedef struct as_cnn_step {
    const as_cnn *model;
    as_dtype type; /* of weights and images: AS_F32, AS_BF16 or AS_F16; on a GPU AS_TF32, too */
    int64_t batch;
    bool transfers; /* images come from the host's memory and logits go back to it, within the operation */
} as_cnn_step;
/* From a case's axes; they have been checked (suites/inference/cnn.c). */
as_cnn_step as_cnn_step_of(const as_params *p);

/* Work of one operation. */
double as_cnn_flops(const as_cnn_net *n, const as_cnn_step *s);
double as_cnn_bytes_read(const as_cnn_net *n, const as_cnn_step *s);
double as_cnn_bytes_written(const as_cnn_net *n, const as_cnn_step *s);
/* A part of it: bytes that operation `o` must move, activations being of `activation_bytes` each. */
double as_cnn_op_bytes(const as_cnn_op *o, const as_cnn_step *s, double activation_bytes);

/* The bound of arithmetic in a type on a GPU. */
static inline const char *as_cnn_flops_ceiling(as_dtype type) {
    return type == AS_F32 ? "flops.f32" : type == AS_TF32 ? "flops.tf32" : type == AS_F16 ? "flops.f16" : "flops.bf16";
}

/* How far a logit may be from the float64 reference, in units of the reference's scale (cnn_reference.c). */
double as_cnn_tolerance(const as_cnn_net *n, as_dtype type);

/* Float64 reference: logits of chosen images. */
as_status as_cnn_reference(const as_reference *r, as_error *e);

/* The same names as the decoder's rungs: suites/inference/route.c picks by the model. */
#define AS_CNN_CPU_BREAKDOWN(X)                                                                                        \
    X(cnn, naive, AS_DETERMINISTIC | AS_SINGLE, "plain loops, a sum at a time; one thread", {0})                       \
    X(cnn, simd, AS_DETERMINISTIC | AS_SINGLE,                                                                         \
      "AVX2 or AVX-512, direct convolution by register tiles, packed weights, over the team", {0})                     \
    X(cnn, openblas, AS_SINGLE, "im2col and cblas_sgemm, pools as simd", {0})

AS_CNN_CPU_BREAKDOWN(AS_PROTOTYPE_CPU_BREAKDOWN)

/* Bytes of a host variant's state: activations, packed weights, scratch. */
int64_t as_cnn_state_bytes_cpu(const char *variant, const as_cnn_step *s);

#ifdef __cplusplus
}
#endif
