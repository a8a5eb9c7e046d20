/* What every variant of a convolutional network shares: shapes, the list of operations, formulas. */
#include "cnn.h"
#include "model.h"

#include <math.h>
#include <string.h>

/* resnet18: He et al. 2016, table 1, as torchvision builds it. tiny-cnn: sides that halve unevenly, widths that are no
 * multiple of a vector, for tests. */
const as_cnn as_cnns[] = {
    {"tiny-cnn", 38, 3, 10, 16, {16, 24, 40, 72}, {1, 2, 1, 1}},
    {"resnet18", 224, 3, 1000, 64, {64, 128, 256, 512}, {2, 2, 2, 2}},
    {.name = NULL},
};

const as_cnn *as_cnn_named(const char *name) {
    for (const as_cnn *m = as_cnns; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

/* ---- the list of operations ---- */

static int64_t aligned(int64_t elements) {
    return (elements + AS_TENSOR_ALIGN - 1) / AS_TENSOR_ALIGN * AS_TENSOR_ALIGN;
}

static float power_of_two(double value) { return exp2f(roundf(log2f((float)value))); }

/* Adds an operation that reads what `side` and `channels` say; returns it. */
static as_cnn_op *add(as_cnn_net *n, as_cnn_kind kind, const char *path, int layer, int side, int channels,
                      int out_channels, int kernel, int stride) {
    as_cnn_op *o = &n->op[n->ops++];
    const int pad = kernel / 2;
    *o = (as_cnn_op){kind,
                     path,
                     layer,
                     side,
                     channels,
                     (side + 2 * pad - kernel) / stride + 1,
                     out_channels,
                     kernel,
                     stride,
                     pad,
                     .add = AS_CNN_NOTHING};
    if (kind != AS_CNN_CONVOLVE)
        return o;
    o->relu = true;
    o->scale = power_of_two(sqrt(2.0 / (double)as_cnn_terms(o)));
    o->weights = n->elements;
    o->bias = o->weights + aligned(as_cnn_terms(o) * out_channels);
    n->elements = o->bias + aligned(out_channels);
    n->parameters += (as_cnn_terms(o) + 1) * out_channels;
    return o;
}

static const as_cnn_op *route(as_cnn_op *o, int from, int to) {
    o->from = from, o->to = to;
    return o;
}

/* A basic block on buffer x, of which t and u are the others. Returns the buffer of its result. */
static int block(as_cnn_net *n, const char *const path[2], int at, int *side, int *channels, int width, int stride,
                 int x) {
    const int t = (x + 1) % AS_CNN_BUFFERS, u = (x + 2) % AS_CNN_BUFFERS;
    const bool projected = stride != 1 || *channels != width;
    int result = x;
    const as_cnn_op *first = route(add(n, AS_CNN_CONVOLVE, path[0], 2 * at, *side, *channels, width, 3, stride), x, t);
    const int out_side = first->out_side;
    if (projected) {
        as_cnn_op *o = add(n, AS_CNN_CONVOLVE, path[1], -1, *side, *channels, width, 1, stride);
        route(o, x, u);
        o->relu = false;
        o->scale = power_of_two(sqrt(1.0 / (double)as_cnn_terms(o)));
        result = u;
    }
    as_cnn_op *second = add(n, AS_CNN_CONVOLVE, path[0], 2 * at + 1, out_side, width, width, 3, 1);
    route(second, t, result);
    second->add = result;
    second->scale /= 2;
    *side = out_side, *channels = width;
    return result;
}

void as_cnn_build(const as_cnn *m, as_cnn_net *n) {
    static const char *const path[AS_CNN_STAGES][2] = {{"stage1/convolution", "stage1/projection"},
                                                       {"stage2/convolution", "stage2/projection"},
                                                       {"stage3/convolution", "stage3/projection"},
                                                       {"stage4/convolution", "stage4/projection"}};
    memset(n, 0, sizeof *n);
    n->model = m;
    const as_cnn_op *stem =
        route(add(n, AS_CNN_CONVOLVE, "stem", -1, m->side, m->channels, m->stem, 7, 2), AS_CNN_IMAGES, 1);
    const as_cnn_op *pool =
        route(add(n, AS_CNN_MAX_POOL, "max_pool", -1, stem->out_side, m->stem, m->stem, 3, 2), 1, 0);
    int side = pool->out_side, channels = m->stem, x = 0;
    for (int s = 0; s < AS_CNN_STAGES; s++)
        for (int b = 0; b < m->blocks[s]; b++)
            x = block(n, path[s], b, &side, &channels, m->width[s], s > 0 && b == 0 ? 2 : 1, x);
    as_cnn_op *average = add(n, AS_CNN_AVERAGE, "average_pool", -1, side, channels, channels, side, side);
    average->pad = 0;
    average->out_side = 1;
    route(average, x, (x + 1) % AS_CNN_BUFFERS);
    as_cnn_op *head = add(n, AS_CNN_CONVOLVE, "head", -1, 1, channels, m->classes, 1, 1);
    route(head, average->to, AS_CNN_LOGITS);
    head->relu = false;
    head->scale = power_of_two(sqrt(1.0 / (double)as_cnn_terms(head)));
}

/* ---- axes and formulas ---- */

static as_dtype type_of(const char *name) {
    static const as_dtype types[] = {AS_F32, AS_TF32, AS_F16};
    for (int i = 0; i < (int)(sizeof types / sizeof *types); i++)
        if (strcmp(name, as_dtype_name(types[i])) == 0)
            return types[i];
    return AS_BF16;
}

as_cnn_step as_cnn_step_of(const as_params *p) {
    return (as_cnn_step){.model = as_cnn_named(as_params_text(p, "model")),
                         .type = type_of(as_params_text(p, "type")),
                         .batch = as_params_int(p, "batch"),
                         .transfers = strcmp(as_params_text(p, "transfers"), "yes") == 0};
}

double as_cnn_flops(const as_cnn_net *n, const as_cnn_step *s) {
    double sum = 0;
    for (int i = 0; i < n->ops; i++)
        sum += as_cnn_op_flops(&n->op[i]);
    return sum * (double)s->batch;
}

double as_cnn_bytes_read(const as_cnn_net *n, const as_cnn_step *s) {
    return ((double)n->parameters + (double)s->batch * (double)as_cnn_inputs(&n->op[0])) *
           (double)as_dtype_bytes(s->type);
}

double as_cnn_bytes_written(const as_cnn_net *n, const as_cnn_step *s) {
    return 4.0 * (double)s->batch * (double)n->model->classes;
}

double as_cnn_op_bytes(const as_cnn_op *o, const as_cnn_step *s, double activation_bytes) {
    const double batch = (double)s->batch, in = batch * (double)as_cnn_inputs(o),
                 out = batch * (double)as_cnn_outputs(o), type = (double)as_dtype_bytes(s->type);
    double bytes = in * (o->from == AS_CNN_IMAGES ? type : activation_bytes) +
                   out * (o->to == AS_CNN_LOGITS ? 4 : activation_bytes) +
                   (o->add == AS_CNN_NOTHING ? 0 : out * activation_bytes);
    if (o->kind == AS_CNN_CONVOLVE)
        bytes += (double)((as_cnn_terms(o) + 1) * o->out_channels) * type;
    return bytes;
}

/* Each convolution stores its result once, rounding elements by up to u relative to them (bf16 2^-9, f16 and tf32 2^-11), and its
 * sum of k terms in f32, in any order, is off by about sqrt(k / 2) 2^-24 of the root of the sum of squares, where
 * roundings are independent (as for decoders: as_step_tolerance). Errors that are independent add as squares: after L
 * operations a vector is off by sqrt(L) u of its norm, and a logit by that share of its scale, the size that it has for
 * a head row that does not know of the features. ReLU and pools pass on no more than they get; a convolution passes
 * errors on as it does the image, the shortcut likewise: growth is about one, and two covers it. Six standard
 * deviations cover all logits of a batch. The standard deviation of a rounding is u / sqrt(3). */
double as_cnn_tolerance(const as_cnn_net *n, as_dtype type) {
    int64_t longest = 0;
    int stores = 0;
    for (int i = 0; i < n->ops; i++) {
        stores++;
        if (as_cnn_terms(&n->op[i]) > longest && n->op[i].kind == AS_CNN_CONVOLVE)
            longest = as_cnn_terms(&n->op[i]);
    }
    const double sums = sqrt((double)longest / 2) * 0x1p-24, u = (type == AS_F32    ? 0x1p-24
                                                                  : type == AS_BF16 ? 0x1p-9
                                                                                    : 0x1p-11) +
                                                                 sums;
    return 2 * 6 * sqrt((double)stores) * u / sqrt(3.0);
}
