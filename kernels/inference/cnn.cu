/* Rungs of convolutional networks: prepare, run, breakdown. All walk the same list of operations (cnn.h); a rung differs
 * in which kernel a convolution takes and whether the walk is captured in a graph. */
#include "cnn_cuda.h"

#include "../../harness/parts.h"
#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "cnn_f32.cuh"
#include "cnn_mma.cuh"
#include "cnn_plain.cuh"
#include "issue.cuh"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum as_cnn_rung { AS_CNN_NAIVE, AS_CNN_EAGER, AS_CNN_GRAPH } as_cnn_rung;

/* Copies in, the images, the operations, the copy out; and a mark behind the last. */
enum { MOST_STAGES = AS_CNN_MOST_OPS + 3 };

typedef struct state {
    as_cnn_rung rung;
    as_cnn_step step;
    as_cnn_net net;
    int multiprocessors;
    /* Device memory, one allocation. The borders are 0 from the beginning, and no kernel writes there. */
    char *memory;
    char *in, *images; /* transfers: as they came; with their border */
    float *logits;     /* transfers */
    char *stem;        /* the first convolution's weights */
    char *out[AS_CNN_MOST_OPS];
    cudaGraphExec_t graph;
    /* Breakdown: an event before each stage and one behind the last; NULL: nobody listens. */
    cudaEvent_t *event;
    unsigned event_flags;
    int events;
} state;

/* ---- memory ---- */

static void part(char *memory, size_t *at, void *out, size_t bytes) {
    char *const here = memory ? memory + *at : NULL;
    memcpy(out, &here, sizeof here);
    *at += (bytes + 255) / 256 * 256;
}

static size_t lay_out(state *s, char *memory) {
    const size_t batch = (size_t)s->step.batch, bytes = as_dtype_bytes(s->step.type);
    const as_cnn_op *stem = &s->net.op[0];
    const as_cnn_layout images = as_cnn_layout_of(&s->net, AS_CNN_IMAGES, stem->in_side, stem->in_channels);
    size_t at = 0;
    if (s->step.transfers) {
        part(memory, &at, &s->in, batch * (size_t)as_cnn_inputs(stem) * bytes);
        part(memory, &at, &s->logits, batch * (size_t)s->step.model->classes * sizeof(float));
    }
    /* The last window's run may end a pixel beyond the last row. */
    part(memory, &at, &s->images, (batch * (size_t)as_cnn_layout_image(&images) + AS_CNN_PIECE) * bytes);
    part(memory, &at, &s->stem,
         (size_t)stem->out_channels * stem->kernel * as_cnn_run(stem->kernel, AS_CNN_COLOURS) * bytes);
    for (int i = 0; i < s->net.ops; i++) {
        const as_cnn_op *o = &s->net.op[i];
        const as_cnn_layout l = as_cnn_layout_of(&s->net, o->to, o->out_side, o->out_channels);
        const int twin = as_cnn_twin(&s->net, i);
        if (o->to == AS_CNN_LOGITS)
            continue;
        if (twin == i)
            part(memory, &at, &s->out[i], batch * (size_t)as_cnn_layout_image(&l) * bytes);
        else
            s->out[i] = s->out[twin];
    }
    return at;
}

int64_t as_cnn_state_bytes_cuda(const as_cnn_step *step) {
    state s = {};
    s.step = *step;
    as_cnn_build(step->model, &s.net);
    return (int64_t)lay_out(&s, NULL);
}

static const char *input_of(const state *s, int op) {
    const int source = as_cnn_source(&s->net, op);
    return source < 0 ? s->images : s->out[source];
}

/* ---- tensor cores: which tile ---- */

/* Rates rank the rows, as matmul/mma's do. */
#define AS_CNN_TILES(X)                                                                                                \
    X(128, 128, 2, 2, 3, 2, 100)                                                                                       \
    X(128, 64, 2, 2, 3, 3, 90)                                                                                         \
    X(64, 64, 2, 2, 4, 3, 65)

template <int ELEMENT, typename T>
static as_status tensor_convolution(const state *s, const as_cnn_convolution<T> &p, const as_issue &how, as_error *e) {
    static const struct {
        int m, n, rate;
    } tile[] = {
#define ROW(m, n, warps_m, warps_n, stages, blocks, rate) {m, n, rate},
        AS_CNN_TILES(ROW)
#undef ROW
    };
    constexpr int tiles = (int)(sizeof tile / sizeof *tile);
    int best = 0, blocks[tiles];
    double least = INFINITY;
    for (int i = 0; i < tiles; i++) {
        blocks[i] = (int)((p.window.pixels + (uint32_t)tile[i].m - 1) / (uint32_t)tile[i].m) *
                    ((p.channels + tile[i].n - 1) / tile[i].n);
        const double cost = ceil((double)blocks[i] / s->multiprocessors) * tile[i].m * tile[i].n / tile[i].rate;
        if (cost < least)
            least = cost, best = i;
    }
    const dim3 grid((unsigned)blocks[best]);
    int row = 0;
#define LAUNCH(m, n, warps_m, warps_n, stages, per_sm, rate)                                                           \
    if (row++ == best) {                                                                                               \
        typedef as_mma_config<ELEMENT, m, n, warps_m, warps_n, stages, per_sm> C;                                      \
        return as_issue_kernel<as_cnn_mma_kernel<C>>(how, grid, C::threads, C::shared_bytes, e, p);                    \
    }
    AS_CNN_TILES(LAUNCH)
#undef LAUNCH
    return as_fail(e, AS_EFAIL, "no tile for a convolution");
}

static as_status fast_convolution(const state *s, const as_cnn_convolution<as_f16> &p, const as_issue &how,
                                  as_error *e) {
    return tensor_convolution<AS_MM_F16>(s, p, how, e);
}
static as_status fast_convolution(const state *s, const as_cnn_convolution<as_bf16> &p, const as_issue &how,
                                  as_error *e) {
    return tensor_convolution<AS_MM_BF16>(s, p, how, e);
}
static as_status fast_convolution(const state *s, const as_cnn_convolution<as_tf32> &p, const as_issue &how,
                                  as_error *e) {
    return tensor_convolution<AS_MM_TF32>(s, p, how, e);
}
static as_status fast_convolution(const state *s, const as_cnn_convolution<float> &p, const as_issue &how,
                                  as_error *e) {
    (void)s;
    const uint32_t blocks = (p.window.pixels + AS_CNN_F32_PIXELS - 1) / AS_CNN_F32_PIXELS *
                            (uint32_t)((p.channels + AS_CNN_F32_CHANNELS - 1) / AS_CNN_F32_CHANNELS);
    return as_issue_kernel<as_cnn_f32_kernel>(how, dim3(blocks), AS_CNN_F32_THREADS, 0, e, p);
}

/* ---- the walk ---- */

static dim3 blocks_for(int64_t threads) { return dim3((unsigned)((threads + AS_CNN_THREADS - 1) / AS_CNN_THREADS)); }

static as_status stage_begins(state *s, cudaStream_t stream, as_error *e) {
    if (s->event)
        AS_CUDA(e, cudaEventRecordWithFlags(s->event[s->events++], stream, s->event_flags));
    return AS_OK;
}

/* Without linkage: other files may have a class of this name. T: what an element is on the device. */
namespace {
template <typename T> struct walk {
    state *s;
    as_issue how;
    as_error *e;
    const T *weights;

    as_status convolve(int i, const as_cnn_window &w, const T *in, T *out, float *logits) {
        const as_cnn_op *o = &s->net.op[i];
        as_cnn_convolution<T> p = {};
        p.window = w;
        p.in = in;
        p.weights = i == 0 ? (const T *)s->stem : weights + o->weights;
        p.bias = weights + o->bias;
        p.add = o->add == AS_CNN_NOTHING ? NULL : out;
        p.out = o->to == AS_CNN_LOGITS ? NULL : out;
        p.logits = logits;
        p.channels = o->out_channels;
        p.scale = o->scale;
        p.relu = o->relu;
        if (s->rung != AS_CNN_NAIVE)
            return fast_convolution(s, p, how, e);
        return as_issue_kernel<as_cnn_naive_kernel<T>>(how, blocks_for((int64_t)w.pixels * p.channels), AS_CNN_THREADS,
                                                       0, e, p);
    }
    as_status operation(int i, float *logits) {
        const as_cnn_op *o = &s->net.op[i];
        const as_cnn_layout from = as_cnn_layout_of(&s->net, o->from, o->in_side, o->in_channels),
                            to = as_cnn_layout_of(&s->net, o->to, o->out_side, o->out_channels);
        const as_cnn_window w = as_cnn_window_of(o, s->step.batch, &from, &to);
        const T *in = (const T *)input_of(s, i);
        if (o->kind == AS_CNN_CONVOLVE)
            return convolve(i, w, in, (T *)s->out[i], logits);
        return as_issue_kernel<as_cnn_pool_kernel<T>>(how, blocks_for((int64_t)w.pixels * from.pitch), AS_CNN_THREADS,
                                                      0, e, w, o->kernel, from.pitch, o->kind == AS_CNN_AVERAGE, in,
                                                      (T *)s->out[i]);
    }
    as_status images(const T *from) {
        const as_cnn_op *stem = &s->net.op[0];
        const as_cnn_layout l = as_cnn_layout_of(&s->net, AS_CNN_IMAGES, stem->in_side, stem->in_channels);
        const uint32_t pixels = (uint32_t)(s->step.batch * stem->in_side * stem->in_side);
        return as_issue_kernel<as_cnn_images_kernel<T>>(how, blocks_for(pixels), AS_CNN_THREADS, 0, e, l,
                                                        stem->in_channels, pixels, from, (T *)s->images);
    }
    /* Once: the stem's weights in rows of whole pieces. */
    as_status stem() {
        const as_cnn_op *o = &s->net.op[0];
        return as_issue_kernel<as_cnn_stem_kernel<T>>(how, blocks_for(as_cnn_terms(o) * o->out_channels),
                                                      AS_CNN_THREADS, 0, e, weights + o->weights, o->out_channels,
                                                      o->kernel, o->in_channels, (int)AS_CNN_COLOURS,
                                                      (int)as_cnn_run(o->kernel, AS_CNN_COLOURS), (T *)s->stem);
    }
    as_status all(void *const *operand) {
        const size_t images_bytes = (size_t)(s->step.batch * as_cnn_inputs(&s->net.op[0])) * sizeof(T),
                     logits_bytes = (size_t)(s->step.batch * s->step.model->classes) * sizeof(float);
        const T *from = (const T *)operand[1];
        float *const logits = s->step.transfers ? s->logits : (float *)operand[2];
        if (s->step.transfers) {
            AS_TRY(stage_begins(s, how.stream, e));
            AS_CUDA(e, cudaMemcpyAsync(s->in, from, images_bytes, cudaMemcpyHostToDevice, how.stream));
            from = (const T *)s->in;
        }
        AS_TRY(stage_begins(s, how.stream, e));
        AS_TRY(images(from));
        for (int i = 0; i < s->net.ops; i++) {
            AS_TRY(stage_begins(s, how.stream, e));
            AS_TRY(operation(i, logits));
        }
        if (s->step.transfers) {
            AS_TRY(stage_begins(s, how.stream, e));
            AS_CUDA(e, cudaMemcpyAsync(operand[2], logits, logits_bytes, cudaMemcpyDeviceToHost, how.stream));
        }
        return stage_begins(s, how.stream, e);
    }
};
} // namespace

template <typename T>
static as_status walk_as(state *s, void *const *operand, bool stem, cudaStream_t stream, as_error *e) {
    walk<T> w = {s, {stream, false, false}, e, (const T *)operand[0]};
    return stem ? w.stem() : w.all(operand);
}

/* `stem`: what is done once; else one operation. */
static as_status issue(state *s, void *const *operand, bool stem, cudaStream_t stream, as_error *e) {
    s->events = 0;
    switch (s->step.type) {
    case AS_F16: return walk_as<as_f16>(s, operand, stem, stream, e);
    case AS_BF16: return walk_as<as_bf16>(s, operand, stem, stream, e);
    case AS_TF32: return walk_as<as_tf32>(s, operand, stem, stream, e);
    default: return walk_as<float>(s, operand, stem, stream, e);
    }
}

static as_status capture(state *s, void *const *operand, cudaStream_t stream, cudaGraphExec_t *out, as_error *e) {
    cudaGraph_t graph = NULL;
    AS_CUDA(e, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    as_status status = issue(s, operand, false, stream, e);
    const cudaError_t code = cudaStreamEndCapture(stream, &graph); /* also after a failure: it cannot be used else */
    if (status == AS_OK && code != cudaSuccess)
        status = as_cuda_fail_at(e, __FILE__, __LINE__, code, "cudaStreamEndCapture");
    if (status == AS_OK) {
        AS_CUDA_GOTO(e, status, as_cuda_instantiate(out, graph));
        AS_CUDA_GOTO(e, status, cudaGraphUpload(*out, stream));
        AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
    }
out:
    if (graph)
        (void)cudaGraphDestroy(graph);
    return status;
}

/* ---- hooks ---- */

static void finish(state *s) {
    if (!s)
        return;
    if (s->graph)
        (void)cudaGraphExecDestroy(s->graph);
    if (s->memory)
        (void)cudaFree(s->memory);
    free(s);
}

static as_status set_up(state *s, const as_call *call, as_error *e) {
    const cudaStream_t stream = as_cuda_stream(call->stream);
    const size_t bytes = lay_out(s, NULL);
    AS_CUDA(e, cudaMalloc((void **)&s->memory, bytes));
    (void)lay_out(s, s->memory);
    AS_CUDA(e, cudaMemsetAsync(s->memory, 0, bytes, stream));
    AS_TRY(issue(s, call->operand, true, stream, e));
    AS_TRY(issue(s, call->operand, false, stream, e)); /* a kernel's module is not loaded in a capture */
    AS_CUDA(e, cudaStreamSynchronize(stream));
    return s->rung == AS_CNN_GRAPH ? capture(s, call->operand, stream, &s->graph, e) : AS_OK;
}

static as_status prepare(const as_call *call, as_cnn_rung rung, void **out, as_error *e) {
    const cudaDeviceProp &d = as_cuda_of(call->device)->properties;
    const as_cnn_step step = as_cnn_step_of(call->params);
    if (rung != AS_CNN_NAIVE && step.type != AS_F32 && d.major < 8)
        return as_fail(e, AS_EABSENT, "images in %s are for compute capability 8.0 and later; %.80s has %d.%d",
                       as_dtype_name(step.type), d.name, d.major, d.minor);
    state *s = (state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "out of host memory for a variant's state");
    s->rung = rung;
    s->step = step;
    s->multiprocessors = d.multiProcessorCount;
    as_cnn_build(step.model, &s->net);
    const as_status status = set_up(s, call, e);
    if (status == AS_OK)
        *out = s;
    else
        finish(s);
    return status;
}

static as_status run(const as_call *call, as_error *e) {
    state *s = (state *)call->state;
    const cudaStream_t stream = as_cuda_stream(call->stream);
    if (!s->graph)
        return issue(s, call->operand, false, stream, e);
    AS_CUDA(e, cudaGraphLaunch(s->graph, stream));
    return AS_OK;
}

/* ---- breakdown: events before each stage, of the graph by nodes of their own ---- */

static as_part part_of(const state *s, int stage, double ns) {
    const int copies = s->step.transfers ? 1 : 0, at = stage - copies - 1; /* -1: the images */
    const double bytes = (double)as_dtype_bytes(s->step.type),
                 images = (double)(s->step.batch * as_cnn_inputs(&s->net.op[0])) * bytes;
    as_part p = {};
    p.phase = "forward";
    p.layer = -1;
    p.where = "device";
    p.source = "events";
    p.ns = ns;
    if (at < -1) {
        p.path = "images/h2d", p.bytes = images, p.ceiling = "link.h2d";
    } else if (at == -1) {
        p.path = "images", p.bytes = 2 * images, p.ceiling = "memory";
    } else if (at == s->net.ops) {
        p.path = "logits/d2h", p.bytes = as_cnn_bytes_written(&s->net, &s->step), p.ceiling = "link.d2h";
    } else {
        const as_cnn_op *o = &s->net.op[at];
        p.path = o->path;
        p.layer = o->layer;
        p.bytes = as_cnn_op_bytes(o, &s->step, bytes);
        p.flops = as_cnn_op_flops(o) * (double)s->step.batch;
        /* More operations a byte than any device's rates are apart: arithmetic bounds it. */
        p.ceiling = p.flops <= 128 * p.bytes ? "memory" : as_cnn_flops_ceiling(s->step.type);
    }
    return p;
}

static as_status add_parts(const state *s, as_parts *parts, as_error *e) {
    float ms;
    for (int i = 0; i + 1 < s->events; i++) {
        AS_CUDA(e, cudaEventElapsedTime(&ms, s->event[i], s->event[i + 1]));
        const as_part p = part_of(s, i, 1e6 * (double)ms);
        as_parts_add(parts, &p);
    }
    AS_CUDA(e, cudaEventElapsedTime(&ms, s->event[0], s->event[s->events - 1]));
    as_parts_total(parts, 1e6 * (double)ms);
    return AS_OK;
}

static as_status breakdown(const as_call *call, as_parts *parts, as_error *e) {
    state *s = (state *)call->state;
    const cudaStream_t stream = as_cuda_stream(call->stream);
    cudaEvent_t event[MOST_STAGES + 1] = {};
    cudaGraphExec_t exec = NULL;
    as_status status = AS_OK;
    for (int i = 0; i <= MOST_STAGES; i++)
        AS_CUDA_GOTO(e, status, cudaEventCreate(&event[i]));
    s->event = event;
    s->event_flags = s->graph ? cudaEventRecordExternal : cudaEventRecordDefault;
    if (s->graph) {
        status = capture(s, call->operand, stream, &exec, e);
        if (status == AS_OK)
            AS_CUDA_GOTO(e, status, cudaGraphLaunch(exec, stream));
    } else {
        status = issue(s, call->operand, false, stream, e);
    }
    if (status == AS_OK)
        AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
    if (status == AS_OK)
        status = add_parts(s, parts, e);
out:
    s->event = NULL;
    if (exec)
        (void)cudaGraphExecDestroy(exec);
    for (int i = 0; i <= MOST_STAGES; i++)
        if (event[i])
            (void)cudaEventDestroy(event[i]);
    return status;
}

#define HOOKS(variant, rung)                                                                                           \
    as_status as_cnn_##variant##_prepare_cuda(const as_call *call, void **out, as_error *e) {                          \
        return prepare(call, rung, out, e);                                                                            \
    }                                                                                                                  \
    void as_cnn_##variant##_finish_cuda(void *s) { finish((state *)s); }                                               \
    as_status as_cnn_##variant##_cuda(const as_call *call, as_error *e) { return run(call, e); }                       \
    as_status as_cnn_##variant##_breakdown_cuda(const as_call *call, as_parts *parts, as_error *e) {                   \
        return breakdown(call, parts, e);                                                                              \
    }

HOOKS(naive, AS_CNN_NAIVE)
HOOKS(eager, AS_CNN_EAGER)
HOOKS(graph, AS_CNN_GRAPH)
