/* The float64 reference of a convolutional network on the device: plain kernels, one an operation, on images without a
 * border, that share nothing with the rungs but the list of operations. cnn_reference.c says what the scale is; the
 * harness checks the one against the other. */
#include "cnn_cuda.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "issue.cuh"

enum { THREADS = 256 };

struct as_cnn_truth {
    as_cnn_net net;
    as_dtype type;
    int64_t batch;
    double *buffer[AS_CNN_BUFFERS + 2]; /* [batch][side][side][channels]; the last: the caller's logits */
};

static __device__ double element(const void *p, as_dtype type, int64_t i) {
    if (type == AS_F32 || type == AS_TF32)
        return (double)((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return (double)(type == AS_F16 ? as_f16_to_f32(bits) : as_bf16_to_f32(bits));
}

static __global__ void as_cnn_truth_images_kernel(const void *images, as_dtype type, int64_t count, double *out) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        out[i] = element(images, type, i);
}

/* A thread an output. */
static __global__ void as_cnn_truth_kernel(const as_cnn_op o, int64_t batch, const void *weights, as_dtype type,
                                           const double *in, const double *add, double *out) {
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int channel = (int)(at % o.out_channels);
    const int64_t pixel = at / o.out_channels, row = pixel / o.out_side, n = row / o.out_side;
    const int x = (int)(pixel % o.out_side), y = (int)(row % o.out_side);
    if (n >= batch)
        return;
    const int64_t terms = (int64_t)o.kernel * o.kernel * o.in_channels;
    double sum = 0, most = -INFINITY;
    for (int i = 0; i < o.kernel; i++)
        for (int j = 0; j < o.kernel; j++) {
            const int v = y * o.stride + i - o.pad, u = x * o.stride + j - o.pad;
            if (v < 0 || v >= o.in_side || u < 0 || u >= o.in_side)
                continue;
            const double *p = in + ((n * o.in_side + v) * o.in_side + u) * o.in_channels;
            if (o.kind != AS_CNN_CONVOLVE) {
                sum += p[channel];
                most = p[channel] > most ? p[channel] : most;
                continue;
            }
            const int64_t w = o.weights + channel * terms + (int64_t)(i * o.kernel + j) * o.in_channels;
            for (int c = 0; c < o.in_channels; c++)
                sum += p[c] * element(weights, type, w + c);
        }
    if (o.kind == AS_CNN_CONVOLVE)
        sum = sum * (double)o.scale + (double)AS_CNN_BIAS * element(weights, type, o.bias + channel);
    else
        sum = o.kind == AS_CNN_MAX_POOL ? most : sum / (double)(o.kernel * o.kernel);
    if (add)
        sum += add[at];
    out[at] = o.relu && sum < 0 ? 0 : sum;
}

/* |head row| |features| / sqrt(features) x the head's factor, of each logit. */
static __global__ void as_cnn_truth_scale_kernel(const as_cnn_op o, int64_t batch, const void *weights, as_dtype type,
                                                 const double *features, double *out) {
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = at / o.out_channels;
    if (n >= batch)
        return;
    double length = 0, row = 0;
    for (int c = 0; c < o.in_channels; c++) {
        const double h = features[n * o.in_channels + c],
                     w = element(weights, type, o.weights + at % o.out_channels * o.in_channels + c);
        length += h * h, row += w * w;
    }
    out[at] = sqrt(row) * sqrt(length / o.in_channels) * (double)o.scale;
}

static dim3 grid_for(int64_t threads) { return dim3((unsigned)((threads + THREADS - 1) / THREADS)); }

static as_status compute(const as_cnn_truth *t, const as_call *call, as_error *e) {
    const as_issue how = {as_cuda_stream(call->stream), false, false};
    const void *weights = call->operand[0];
    const int64_t images = t->batch * as_cnn_inputs(&t->net.op[0]);
    AS_TRY(as_issue_kernel<as_cnn_truth_images_kernel>(how, grid_for(images), THREADS, 0, e,
                                                       (const void *)call->operand[1], t->type, images,
                                                       t->buffer[AS_CNN_IMAGES]));
    for (int i = 0; i < t->net.ops; i++) {
        const as_cnn_op *o = &t->net.op[i];
        AS_TRY(as_issue_kernel<as_cnn_truth_kernel>(how, grid_for(t->batch * as_cnn_outputs(o)), THREADS, 0, e, *o,
                                                    t->batch, weights, t->type, (const double *)t->buffer[o->from],
                                                    (const double *)(o->add < 0 ? NULL : t->buffer[o->add]),
                                                    t->buffer[o->to]));
    }
    const as_cnn_op *head = &t->net.op[t->net.ops - 1];
    AS_TRY(as_issue_kernel<as_cnn_truth_scale_kernel>(
        how, grid_for(t->batch * as_cnn_outputs(head)), THREADS, 0, e, *head, t->batch, weights, t->type,
        (const double *)t->buffer[head->from], (double *)call->operand[3]));
    AS_CUDA(e, cudaStreamSynchronize(how.stream));
    return AS_OK;
}

as_status as_cnn_reference_cuda(const as_call *call, as_error *e) {
    const as_cnn_step step = as_cnn_step_of(call->params);
    as_cnn_truth t = {};
    int64_t size[AS_CNN_BUFFERS + 2] = {};
    as_status status = AS_OK;
    t.type = step.type;
    t.batch = step.batch;
    as_cnn_build(step.model, &t.net);
    for (int i = 0; i < t.net.ops; i++) {
        const as_cnn_op *o = &t.net.op[i];
        size[o->from] = as_cnn_inputs(o) > size[o->from] ? as_cnn_inputs(o) : size[o->from];
        size[o->to] = as_cnn_outputs(o) > size[o->to] ? as_cnn_outputs(o) : size[o->to];
    }
    t.buffer[AS_CNN_LOGITS] = (double *)call->operand[2];
    for (int b = 0; b < AS_CNN_LOGITS; b++)
        AS_CUDA_GOTO(e, status, cudaMalloc((void **)&t.buffer[b], (size_t)(t.batch * size[b]) * sizeof(double)));
    status = compute(&t, call, e);
out:
    for (int b = 0; b < AS_CNN_LOGITS; b++)
        if (t.buffer[b])
            (void)cudaFree(t.buffer[b]);
    return status;
}
