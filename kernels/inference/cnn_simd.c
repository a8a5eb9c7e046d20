/* Convolutional networks on the host, inference/simd and inference/openblas.
 *
 * simd      direct convolution. Output pixels of the whole batch, in order, are cut into register tiles (cnn_vector.h),
 *           output channels into panels of a tile's width, and (panel, tile) is one range that the team takes in turn, a
 *           SHARES-th of a member's part at a time: a member stays with a panel, which its L2 holds, while the images pass
 *           by, and one that is held up does not hold up the others. A row of the kernel is one run of floats in the image,
 *           so that 7x7, 3x3 and 1x1 are the same loop: sums of pixels x channels, a weight's vector and an image's element
 *           at a time. Panels are packed once, scaled, in prepare, as weights are when a network is loaded. Bias, shortcut
 *           and ReLU go with the store.
 * openblas  im2col, cblas_sgemm, then bias, shortcut and ReLU: some pixels at a time, so that the matrix of windows
 *           stays below IM2COL_FLOATS. Windows and what follows the product are split over the team.
 *
 * Floor of an image of resnet18: 3.63e9 operations at the measured rate of multiply-adds, 22 ms on a core with 167 GFLOP/s.
 * Least times of simd on one core of such a Sapphire Rapids guest, AVX-512, neighbours at work: 27.4 ms an image at batch
 * 1 (79% of the floor's rate; stage 4 waits for its weights), 25.2 ms at batch 8 (86%; 3x3 convolutions 90 to 96%, the stem
 * 64%: its runs of 21 floats are short). openblas with its own AVX-512 kernels: 38.6 and 35.5 ms. */
#include "../matmul/matmul.h"
#include "../threads.h"
#include "cnn_cpu.h"
#include "cnn_vector.h"

#include <cblas.h>
#include <float.h>
#include <stdatomic.h>
#include <string.h>

enum { IM2COL_FLOATS = 8 << 20, SHARES = 8 };

static const as_cnn_vector *vector(void) { return as_cnn_vector_for(as_isa_best()); }

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

typedef struct job {
    const as_cnn_cpu *c;
    const as_cnn_op *o;
    const as_cnn_tensor *in, *out, *add;
    const float *packed;
    _Atomic int64_t *next; /* simd: the first tile that nobody has taken */
    int64_t first, pixels; /* openblas: of the piece under way */
    float *windows, *product;
} job;

/* Where pixel `at` of the batch lies. */
typedef struct place {
    int64_t n;
    int y, x;
} place;

static place place_of(int64_t at, int side) {
    const int64_t row = at / side;
    return (place){row / side, (int)(row % side), (int)(at % side)};
}

static void next(place *p, int side) {
    if (++p->x < side)
        return;
    p->x = 0;
    if (++p->y < side)
        return;
    p->y = 0;
    p->n++;
}

static const float *window(const job *j, const place *p) {
    const as_cnn_op *o = j->o;
    return as_cnn_pixel(j->in, p->n, p->y * o->stride - o->pad, p->x * o->stride - o->pad);
}

/* ---- direct convolution ---- */

/* Panel by panel: [terms][width] of weights, then all the biases; `out` zeroed. */
static void pack(const as_cnn_cpu *c, const void *weights, const as_cnn_op *o, int width, float *out) {
    const int64_t terms = as_cnn_terms(o), panels = (o->out_channels + width - 1) / width;
    for (int64_t k = 0; k < o->out_channels; k++) {
        float *panel = out + k / width * width * terms + k % width;
        for (int64_t i = 0; i < terms; i++)
            panel[i * width] = o->scale * as_cnn_load(weights, c->step.type, o->weights + k * terms + i);
        out[panels * width * terms + k] = AS_CNN_BIAS * as_cnn_load(weights, c->step.type, o->bias + k);
    }
}

/* Tile `at` of all: panel by panel, `tiles` in each. */
static void one_tile(const job *j, const as_cnn_vector *v, as_cnn_tile *t, int64_t at, int64_t tiles) {
    const as_cnn_op *o = j->o;
    const int64_t pixels = j->c->step.batch * o->out_side * o->out_side, terms = as_cnn_terms(o),
                  panels = (o->out_channels + v->width - 1) / v->width;
    const int64_t first = at % tiles * v->pixels, channel = at / tiles * v->width;
    place p = place_of(first, o->out_side);
    t->pixels = (int)at_most(pixels - first, v->pixels);
    for (int i = 0; i < v->pixels; i++) {
        if (i > 0 && i < t->pixels)
            next(&p, o->out_side);
        t->in[i] = window(j, &p); /* beyond the last pixel: the last again */
        t->out[i] = as_cnn_pixel(j->out, p.n, p.y, p.x) + channel;
        t->add[i] = j->add->data ? t->out[i] : NULL;
    }
    t->channels = (int)at_most(o->out_channels - channel, v->width);
    t->panel = j->packed + channel * terms;
    t->bias = j->packed + panels * v->width * terms + channel;
    v->tile(t);
}

static void tiles_member(int member, int size, void *context) {
    const job *j = context;
    const as_cnn_vector *v = vector();
    const as_cnn_op *o = j->o;
    const int64_t pixels = j->c->step.batch * o->out_side * o->out_side, tiles = (pixels + v->pixels - 1) / v->pixels,
                  all = tiles * ((o->out_channels + v->width - 1) / v->width), share = all / size / SHARES + 1;
    as_cnn_tile t = {
        .runs = o->kernel, .run = (int64_t)o->kernel * o->in_channels, .gap = as_cnn_row(j->in), .relu = o->relu};
    (void)member;
    for (int64_t from; (from = atomic_fetch_add(j->next, share)) < all;)
        for (int64_t at = from; at < at_most(from + share, all); at++)
            one_tile(j, v, &t, at, tiles);
}

static void convolve(const as_cnn_cpu *c, int op, const as_cnn_tensor *in, const as_cnn_tensor *out,
                     const as_cnn_tensor *add) {
    _Atomic int64_t next = 0;
    as_team_run(
        c->team, tiles_member,
        &(job){.c = c, .o = &c->net.op[op], .in = in, .out = out, .add = add, .packed = c->packed[op], .next = &next});
}

/* ---- im2col and cblas_sgemm ---- */

static int64_t piece_of(const as_cnn_op *o, int64_t batch) {
    const int64_t most = IM2COL_FLOATS / as_cnn_terms(o);
    return at_most(most > 1 ? most : 1, batch * o->out_side * o->out_side);
}

static void windows_member(int member, int size, void *context) {
    const job *j = context;
    const as_cnn_op *o = j->o;
    const int64_t run = (int64_t)o->kernel * o->in_channels, gap = as_cnn_row(j->in), terms = as_cnn_terms(o);
    for (int64_t i = j->pixels * member / size; i < j->pixels * (member + 1) / size; i++) {
        const place p = place_of(j->first + i, o->out_side);
        const float *from = window(j, &p);
        for (int row = 0; row < o->kernel; row++)
            memcpy(j->windows + i * terms + row * run, from + row * gap, (size_t)run * sizeof *from);
    }
}

static void finish_member(int member, int size, void *context) {
    const job *j = context;
    const as_cnn_op *o = j->o;
    const float *bias = (const float *)j->c->weights + o->bias;
    for (int64_t i = j->pixels * member / size; i < j->pixels * (member + 1) / size; i++) {
        const place p = place_of(j->first + i, o->out_side);
        const float *sum = j->product + i * o->out_channels;
        float *out = as_cnn_pixel(j->out, p.n, p.y, p.x);
        const float least = o->relu ? 0 : -FLT_MAX;
        for (int k = 0; k < o->out_channels; k++) {
            const float value = sum[k] + AS_CNN_BIAS * bias[k] + (j->add->data ? out[k] : 0);
            out[k] = value < least ? least : value;
        }
    }
}

static void convolve_openblas(const as_cnn_cpu *c, int op, const as_cnn_tensor *in, const as_cnn_tensor *out,
                              const as_cnn_tensor *add) {
    const as_cnn_op *o = &c->net.op[op];
    const int64_t all = c->step.batch * o->out_side * o->out_side, piece = piece_of(o, c->step.batch);
    const int terms = (int)as_cnn_terms(o), channels = o->out_channels;
    job j = {.c = c, .o = o, .in = in, .out = out, .add = add};
    j.windows = c->scratch, j.product = c->scratch + piece * terms;
    for (j.first = 0; j.first < all; j.first += piece) {
        j.pixels = at_most(all - j.first, piece);
        as_team_run(c->team, windows_member, &j);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)j.pixels, channels, terms, o->scale, j.windows, terms,
                    (const float *)c->weights + o->weights, terms, 0, j.product, channels);
        as_team_run(c->team, finish_member, &j);
    }
}

/* ---- pools ---- */

static void pool_member(int member, int size, void *context) {
    const job *j = context;
    const as_cnn_op *o = j->o;
    const int64_t pixels = j->c->step.batch * o->out_side * o->out_side, gap = as_cnn_row(j->in);
    for (int64_t i = pixels * member / size; i < pixels * (member + 1) / size; i++) {
        const place p = place_of(i, o->out_side);
        float *out = as_cnn_pixel(j->out, p.n, p.y, p.x);
        if (o->kind == AS_CNN_MAX_POOL)
            vector()->largest(window(j, &p), o->kernel, gap, o->out_channels, out);
        else
            vector()->mean(window(j, &p), o->kernel, gap, o->out_channels, 1 / (float)(o->kernel * o->kernel), out);
    }
}

static void pool(const as_cnn_cpu *c, int op, const as_cnn_tensor *in, const as_cnn_tensor *out) {
    as_team_run(c->team, pool_member, &(job){.c = c, .o = &c->net.op[op], .in = in, .out = out});
}

/* ---- hooks ---- */

static const as_cnn_ops simd = {convolve, pool};
static const as_cnn_ops openblas = {convolve_openblas, pool};

int64_t as_cnn_scratch_floats(const char *variant, const as_cnn_net *n, int64_t batch) {
    int64_t most = 0;
    for (int i = 0; strcmp(variant, "openblas") == 0 && i < n->ops; i++)
        if (n->op[i].kind == AS_CNN_CONVOLVE) {
            const int64_t floats = piece_of(&n->op[i], batch) * (as_cnn_terms(&n->op[i]) + n->op[i].out_channels);
            most = floats > most ? floats : most;
        }
    return most;
}

as_status as_cnn_simd_prepare_cpu(const as_call *call, void **state, as_error *e) {
    as_cnn_cpu *c = NULL;
    const int width = vector()->width;
    AS_TRY(as_cnn_cpu_create(&c, call, &simd, 0, e));
    for (int i = 0; i < c->net.ops; i++) {
        const as_cnn_op *o = &c->net.op[i];
        if (o->kind != AS_CNN_CONVOLVE)
            continue;
        c->packed[i] = as_cnn_floats((as_cnn_terms(o) + 1) * ((o->out_channels + width - 1) / width * width));
        if (!c->packed[i]) {
            const as_status status =
                as_fail(e, AS_ENOMEM, "no memory for the packed weights of %s", c->step.model->name);
            as_cnn_cpu_free(c);
            return status;
        }
        pack(c, call->operand[0], o, width, c->packed[i]);
    }
    *state = c;
    return AS_OK;
}

void as_cnn_simd_finish_cpu(void *state) { as_cnn_cpu_free(state); }

as_status as_cnn_simd_cpu(const as_call *call, as_error *e) { return as_cnn_cpu_run(call, e); }

as_status as_cnn_simd_breakdown_cpu(const as_call *call, as_parts *parts, as_error *e) {
    return as_cnn_cpu_breakdown(call, parts, e);
}

/* OpenBLAS's threads are created where they may run on all CPUs of the team, as for matmul. */
as_status as_cnn_openblas_prepare_cpu(const as_call *call, void **state, as_error *e) {
    void *none = NULL;
    as_cnn_cpu *c = NULL;
    AS_TRY(as_matmul_openblas_prepare_cpu(call, &none, e));
    as_cnn_net n;
    const as_cnn_step s = as_cnn_step_of(call->params);
    as_cnn_build(s.model, &n);
    AS_TRY(as_cnn_cpu_create(&c, call, &openblas, as_cnn_scratch_floats("openblas", &n, s.batch), e));
    *state = c;
    return AS_OK;
}

void as_cnn_openblas_finish_cpu(void *state) { as_cnn_cpu_free(state); }

as_status as_cnn_openblas_cpu(const as_call *call, as_error *e) {
    openblas_set_num_threads(as_team_size(call->team)); /* a store when it already is; other cases may differ */
    return as_cnn_cpu_run(call, e);
}

as_status as_cnn_openblas_breakdown_cpu(const as_call *call, as_parts *parts, as_error *e) {
    openblas_set_num_threads(as_team_size(call->team));
    return as_cnn_cpu_breakdown(call, parts, e);
}
