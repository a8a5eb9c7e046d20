/* A convolutional network on the host, inference/naive: each operation as its formula reads, one multiply-add after
 * another, one thread. */
#include "cnn_cpu.h"

static void convolve(const as_cnn_cpu *c, int op, const as_cnn_tensor *in, const as_cnn_tensor *out,
                     const as_cnn_tensor *add) {
    const as_cnn_op *o = &c->net.op[op];
    const as_dtype type = c->step.type;
    const int64_t run = (int64_t)o->kernel * o->in_channels;
    for (int64_t n = 0; n < c->step.batch; n++)
        for (int y = 0; y < out->side; y++)
            for (int x = 0; x < out->side; x++)
                for (int k = 0; k < out->channels; k++) {
                    const int64_t weights = o->weights + k * as_cnn_terms(o);
                    float sum = 0;
                    for (int row = 0; row < o->kernel; row++) {
                        const float *p = as_cnn_pixel(in, n, y * o->stride - o->pad + row, x * o->stride - o->pad);
                        for (int64_t i = 0; i < run; i++)
                            sum += p[i] * as_cnn_load(c->weights, type, weights + row * run + i);
                    }
                    sum = sum * o->scale + AS_CNN_BIAS * as_cnn_load(c->weights, type, o->bias + k);
                    if (add->data)
                        sum += as_cnn_pixel(add, n, y, x)[k];
                    as_cnn_pixel(out, n, y, x)[k] = o->relu && sum < 0 ? 0 : sum;
                }
}

static void pool(const as_cnn_cpu *c, int op, const as_cnn_tensor *in, const as_cnn_tensor *out) {
    const as_cnn_op *o = &c->net.op[op];
    for (int64_t n = 0; n < c->step.batch; n++)
        for (int y = 0; y < out->side; y++)
            for (int x = 0; x < out->side; x++)
                for (int k = 0; k < out->channels; k++) {
                    float most = 0, sum = 0;
                    for (int row = 0; row < o->kernel; row++)
                        for (int column = 0; column < o->kernel; column++) {
                            const float value =
                                as_cnn_pixel(in, n, y * o->stride - o->pad + row, x * o->stride - o->pad + column)[k];
                            most = value > most ? value : most;
                            sum += value;
                        }
                    as_cnn_pixel(out, n, y, x)[k] =
                        o->kind == AS_CNN_MAX_POOL ? most : sum / (float)(o->kernel * o->kernel);
                }
}

static const as_cnn_ops ops = {convolve, pool};

as_status as_cnn_naive_prepare_cpu(const as_call *call, void **state, as_error *e) {
    as_cnn_cpu *c = NULL;
    AS_TRY(as_cnn_cpu_create(&c, call, &ops, 0, e));
    *state = c;
    return AS_OK;
}

void as_cnn_naive_finish_cpu(void *state) { as_cnn_cpu_free(state); }

as_status as_cnn_naive_cpu(const as_call *call, as_error *e) { return as_cnn_cpu_run(call, e); }

as_status as_cnn_naive_breakdown_cpu(const as_call *call, as_parts *parts, as_error *e) {
    return as_cnn_cpu_breakdown(call, parts, e);
}
