/* Where a convolution on a GPU finds its windows: integer arithmetic for device and host alike, so that a machine without
 * a GPU can test it (tests/test_cnn.c walks it as the kernels do, test_cnn_emulated.cc runs the kernels on fibers).
 *
 * Images lie with a border of zeros, [side + 2 border][side + 2 border][pitch], pitch elements a pixel: the channels, or
 * 4 for the three of the network's input. A row of the kernel is one run of elements; the convolution is a product of
 * [pixels of the batch][terms] and [channels][terms], terms = rows x run, in which no loop asks where an image ends. Runs
 * are whole pieces of AS_CNN_PIECE elements: where kernel x pitch is none (7 x 4), the run is longer and the weights
 * beyond the kernel are 0. */
#pragma once

#include "cnn.h"

enum { AS_CNN_PIECE = 8, AS_CNN_COLOURS = 4 };

typedef struct as_cnn_layout {
    int side, border, pitch;
} as_cnn_layout;

static inline AS_HD int64_t as_cnn_layout_row(const as_cnn_layout *l) {
    return (int64_t)(l->side + 2 * l->border) * l->pitch;
}
static inline AS_HD int64_t as_cnn_layout_image(const as_cnn_layout *l) {
    return as_cnn_layout_row(l) * (l->side + 2 * l->border);
}
/* Element of pixel (y, x) of the first image, from -border on. */
static inline AS_HD int64_t as_cnn_layout_at(const as_cnn_layout *l, int y, int x) {
    return (y + l->border) * as_cnn_layout_row(l) + (int64_t)(x + l->border) * l->pitch;
}

/* Of a buffer's images: a border of 1 for the 3x3 convolutions, none around images of one pixel. */
static inline as_cnn_layout as_cnn_layout_of(const as_cnn_net *n, int buffer, int side, int channels) {
    as_cnn_layout l = {side, side > 1 && buffer != AS_CNN_LOGITS ? 1 : 0, channels};
    if (buffer == AS_CNN_IMAGES)
        l.border = n->op[0].pad, l.pitch = AS_CNN_COLOURS;
    return l;
}

/* The operation whose result `op` reads: the last one before it that wrote its buffer; -1: the images. */
static inline int as_cnn_source(const as_cnn_net *n, int op) {
    int i = op - 1;
    while (i >= 0 && n->op[i].to != n->op[op].from)
        i--;
    return i;
}

/* The first operation that writes to the same buffer in the same shape: both have one memory, whose border no operation
 * touches. A shortcut's tensor is one of them. */
static inline int as_cnn_twin(const as_cnn_net *n, int op) {
    const as_cnn_op *o = &n->op[op];
    int i = 0;
    while (n->op[i].to != o->to || n->op[i].out_side != o->out_side || n->op[i].out_channels != o->out_channels)
        i++;
    return i;
}

typedef struct as_cnn_window {
    uint32_t pixels, side; /* of the output: of the batch; of an edge */
    /* Elements: of window (0, 0), from image to image, from row to row of windows, from window to window. */
    uint32_t in_first, in_image, in_down, in_right;
    uint32_t run, gap, terms; /* elements of a row of the kernel; from one to the next in the image; rows x run */
    uint32_t out_first, out_image, out_down, out_right;
} as_cnn_window;

static inline uint32_t as_cnn_run(int kernel, int pitch) {
    return (uint32_t)((kernel * pitch + AS_CNN_PIECE - 1) / AS_CNN_PIECE * AS_CNN_PIECE);
}

static inline as_cnn_window as_cnn_window_of(const as_cnn_op *o, int64_t batch, const as_cnn_layout *in,
                                             const as_cnn_layout *out) {
    as_cnn_window w;
    w.side = (uint32_t)o->out_side;
    w.pixels = (uint32_t)(batch * o->out_side * o->out_side);
    w.in_first = (uint32_t)as_cnn_layout_at(in, -o->pad, -o->pad);
    w.in_image = (uint32_t)as_cnn_layout_image(in);
    w.in_down = (uint32_t)(o->stride * as_cnn_layout_row(in));
    w.in_right = (uint32_t)(o->stride * in->pitch);
    w.run = as_cnn_run(o->kernel, in->pitch);
    w.gap = (uint32_t)as_cnn_layout_row(in);
    w.terms = w.run * (uint32_t)o->kernel;
    w.out_first = (uint32_t)as_cnn_layout_at(out, 0, 0);
    w.out_image = (uint32_t)as_cnn_layout_image(out);
    w.out_down = (uint32_t)as_cnn_layout_row(out);
    w.out_right = (uint32_t)out->pitch;
    return w;
}

/* Elements where the window of a pixel of the batch begins, and where its result goes. */
typedef struct as_cnn_where {
    uint32_t in, out;
} as_cnn_where;

static inline AS_HD as_cnn_where as_cnn_window_at(const as_cnn_window *w, uint32_t pixel) {
    const uint32_t row = pixel / w->side, x = pixel - row * w->side, image = row / w->side, y = row - image * w->side;
    as_cnn_where at;
    at.in = w->in_first + image * w->in_image + y * w->in_down + x * w->in_right;
    at.out = w->out_first + image * w->out_image + y * w->out_down + x * w->out_right;
    return at;
}

/* Term `k` of a window, that moves on by steps: k = row x run + column, at row x gap + column from its beginning. */
typedef struct as_cnn_term {
    uint32_t k, column, row; /* row: its offset, row x gap */
} as_cnn_term;

static inline AS_HD void as_cnn_term_move(const as_cnn_window *w, as_cnn_term *t, uint32_t by) {
    t->k += by;
    t->column += by;
    while (t->column >= w->run) {
        t->column -= w->run;
        t->row += w->gap;
    }
}
