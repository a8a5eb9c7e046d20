/* The host's side of offload, and the references; offload.h states the operations. Elements, rows or matrices are split
 * evenly over the team. Loops are compiled for each instruction set; exp is a polynomial, since that of the C library
 * is no vector loop. */
#include "offload.h"

#include "../isa.h"
#include "../matmul/matmul.h"
#include "../stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = AS_OFFLOAD_SIDE, ROW = AS_OFFLOAD_ROW, MATRIX = SIDE * SIDE };

as_status as_offload_matmul_params(int64_t n, as_params *out, as_error *e) {
    static const as_axis axes[] = {
        {"n", "0", true, false, "", ""},
        {"m", "0", true, false, "", ""},
        {"k", "0", true, false, "", ""},
        {"config", "auto", false, false, "", ""},
    };
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)n);
    AS_TRY(as_params_init(out, axes, sizeof axes / sizeof *axes, e));
    return as_params_set(out, "n", text, e);
}

/* ---- loops by instruction set ---- */

/* exp(x) = 2^k 2^f, k = round(x log2 e), |f| <= 1/2: Taylor's polynomial of 2^f to the 7th power, error below 2^-24.
 * x <= 0 here; below -87 the result is 0 at the scale of a softmax, and the exponent is kept in range. */
#define EXP_LOOP                                                                                                       \
    for (int i = 0; i < ROW; i++) {                                                                                    \
        const float t = (x[i] - most < -87.0f ? -87.0f : x[i] - most) * 1.44269504088896341f;                          \
        const int k = (int)(t - 0.5f);                                                                                 \
        const float f = t - (float)k;                                                                                  \
        const float p = 1.0f + f * (0.693147180559945f +                                                               \
                                    f * (0.240226506959101f +                                                          \
                                         f * (0.0555041086648216f +                                                    \
                                              f * (0.00961812910762848f +                                              \
                                                   f * (0.00133335581464284f +                                         \
                                                        f * (0.000154035303933816f + f * 0.0000152527338040598f)))))); \
        union {                                                                                                        \
            int bits;                                                                                                  \
            float value;                                                                                               \
        } power = {.bits = (k + 127) << 23};                                                                           \
        y[i] = p * power.value;                                                                                        \
    }

/* Sixteen partial maxima and sums: one chain of dependent additions would be the whole cost. */
#define DEFINE_LOOPS(suffix, target)                                                                                   \
    target static void axpy_##suffix(const float *restrict x, const float *restrict y, float *restrict z, int64_t n) { \
        for (int64_t i = 0; i < n; i++)                                                                                \
            z[i] = 3 * x[i] + y[i];                                                                                    \
    }                                                                                                                  \
    target static void softmax_##suffix(const float *restrict x, float *restrict y) {                                  \
        float part[16], most, sum = 0;                                                                                 \
        for (int l = 0; l < 16; l++)                                                                                   \
            part[l] = x[l];                                                                                            \
        for (int i = 16; i < ROW; i += 16)                                                                             \
            for (int l = 0; l < 16; l++)                                                                               \
                part[l] = x[i + l] > part[l] ? x[i + l] : part[l];                                                     \
        most = part[0];                                                                                                \
        for (int l = 1; l < 16; l++)                                                                                   \
            most = part[l] > most ? part[l] : most;                                                                    \
        EXP_LOOP                                                                                                       \
        memset(part, 0, sizeof part);                                                                                  \
        for (int i = 0; i < ROW; i += 16)                                                                              \
            for (int l = 0; l < 16; l++)                                                                               \
                part[l] += y[i + l];                                                                                   \
        for (int l = 0; l < 16; l++)                                                                                   \
            sum += part[l];                                                                                            \
        const float scale = 1 / sum;                                                                                   \
        for (int i = 0; i < ROW; i++)                                                                                  \
            y[i] *= scale;                                                                                             \
    }                                                                                                                  \
    target static void product_##suffix(const float *restrict a, const float *restrict b, float *restrict c) {         \
        for (int i = 0; i < SIDE; i++) {                                                                               \
            float row[SIDE] = {0};                                                                                     \
            for (int k = 0; k < SIDE; k++)                                                                             \
                for (int j = 0; j < SIDE; j++)                                                                         \
                    row[j] += a[i * SIDE + k] * b[k * SIDE + j];                                                       \
            memcpy(c + i * SIDE, row, sizeof row);                                                                     \
        }                                                                                                              \
    }

DEFINE_LOOPS(base, )
DEFINE_LOOPS(avx2, AS_TARGET_AVX2)
DEFINE_LOOPS(avx512, AS_TARGET_AVX512)

#define PICK(name) (isa == AS_ISA_AVX512 ? name##_avx512 : isa == AS_ISA_AVX2 ? name##_avx2 : name##_base)

/* ---- team ---- */

typedef struct offload_job {
    const as_call *call;
    as_offload_op op;
    int64_t n;
} offload_job;

static int64_t bound(int64_t count, int member, int size, int64_t grain) {
    const int64_t pieces = (count + grain - 1) / grain, at = pieces * member / size * grain;
    return at < count ? at : count;
}

static void member(int number, int size, void *context) {
    const offload_job *job = context;
    const as_isa isa = as_isa_best();
    void *const *x = job->call->operand;
    const int64_t grain = job->op == AS_OFFLOAD_SOFTMAX ? ROW : job->op == AS_OFFLOAD_BATCHED ? 1 : 16;
    const int64_t from = bound(job->n, number, size, grain), to = bound(job->n, number + 1, size, grain);
    switch (job->op) {
    case AS_OFFLOAD_COPY:
        as_stream_copy_temporal(isa)((float *)x[1] + from, (const float *)x[0] + from,
                                     (size_t)(to - from) * sizeof(float));
        return;
    case AS_OFFLOAD_AXPY:
        PICK(axpy)((const float *)x[0] + from, (const float *)x[1] + from, (float *)x[2] + from, to - from);
        return;
    case AS_OFFLOAD_SOFTMAX:
        for (int64_t i = from; i < to; i += ROW)
            PICK(softmax)((const float *)x[0] + i, (float *)x[1] + i);
        return;
    case AS_OFFLOAD_BATCHED:
        for (int64_t i = from; i < to; i++)
            PICK(product)
            ((const float *)x[0] + i * MATRIX, (const float *)x[1] + i * MATRIX, (float *)x[2] + i * MATRIX);
        return;
    case AS_OFFLOAD_MATMUL: return; /* matmul/packed dispatches by itself */
    }
}

static as_status loop(const as_call *call, as_offload_op op) {
    offload_job job = {call, op, as_params_int(call->params, "n")};
    as_team_run(call->team, member, &job);
    return AS_OK;
}

#define DEFINE_LOOP_HOOKS(name, op)                                                                                    \
    as_status as_offload_##name##_prepare_cpu(const as_call *call, void **state, as_error *e) {                        \
        (void)call, (void)e;                                                                                           \
        *state = NULL;                                                                                                 \
        return AS_OK;                                                                                                  \
    }                                                                                                                  \
    void as_offload_##name##_finish_cpu(void *state) { (void)state; }                                                  \
    as_status as_offload_##name##_cpu(const as_call *call, as_error *e) {                                              \
        (void)e;                                                                                                       \
        return loop(call, op);                                                                                         \
    }

DEFINE_LOOP_HOOKS(copy, AS_OFFLOAD_COPY)
DEFINE_LOOP_HOOKS(axpy, AS_OFFLOAD_AXPY)
DEFINE_LOOP_HOOKS(softmax, AS_OFFLOAD_SOFTMAX)
DEFINE_LOOP_HOOKS(batched, AS_OFFLOAD_BATCHED)

/* ---- matmul: the hooks of matmul/packed, under parameters of their own ---- */

typedef struct product_state {
    as_params params;
    void *packed;
} product_state;

as_status as_offload_matmul_prepare_cpu(const as_call *call, void **state, as_error *e) {
    product_state *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of offload/matmul");
    as_status status = as_offload_matmul_params(as_params_int(call->params, "n"), &s->params, e);
    as_call inner = *call;
    inner.params = &s->params;
    if (status == AS_OK)
        status = as_matmul_packed_prepare_cpu(&inner, &s->packed, e);
    if (status != AS_OK)
        free(s);
    else
        *state = s;
    return status;
}

void as_offload_matmul_finish_cpu(void *state) {
    product_state *s = state;
    if (s)
        as_matmul_packed_finish_cpu(s->packed);
    free(s);
}

as_status as_offload_matmul_cpu(const as_call *call, as_error *e) {
    const product_state *s = call->state;
    as_call inner = *call;
    inner.params = &s->params;
    inner.state = s->packed;
    return as_matmul_packed_cpu(&inner, e);
}

/* ---- references ---- */

static void dot_row(const float *a, const float *b, int64_t side, double *expected, double *scale) {
    for (int64_t j = 0; j < side; j++) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < side; k++) {
            const double term = (double)a[k] * b[k * side + j];
            sum += term;
            size += fabs(term);
        }
        expected[j] = sum;
        scale[j] = size;
    }
}

static void softmax_row(const float *x, double *expected, double *scale) {
    double most = x[0], sum = 0;
    for (int i = 1; i < ROW; i++)
        most = fmax(most, x[i]);
    for (int i = 0; i < ROW; i++)
        sum += exp(x[i] - most);
    for (int i = 0; i < ROW; i++)
        scale[i] = expected[i] = exp(x[i] - most) / sum;
}

as_status as_offload_reference(const as_reference *r, as_error *e) {
    const as_offload_op op = (as_offload_op)(r->work->operand[0].key >> 4);
    const int64_t columns = r->work->columns;
    const float *a = r->input[0], *b = r->input[1];
    for (int64_t i = 0; i < r->n_rows; i++) {
        double *expected = r->expected + i * columns, *scale = r->scale + i * columns;
        const int64_t at = r->rows[i] * columns;
        switch (op) {
        case AS_OFFLOAD_AXPY:
            for (int64_t j = 0; j < columns; j++) {
                expected[j] = 3.0 * a[at + j] + b[at + j];
                scale[j] = 3.0 * fabs(a[at + j]) + fabs(b[at + j]);
            }
            break;
        case AS_OFFLOAD_SOFTMAX: softmax_row(a + at, expected, scale); break;
        case AS_OFFLOAD_MATMUL: dot_row(a + at, b, columns, expected, scale); break;
        case AS_OFFLOAD_BATCHED: dot_row(a + at, b + r->rows[i] / SIDE * MATRIX, SIDE, expected, scale); break;
        case AS_OFFLOAD_COPY: return as_fail(e, AS_EFAIL, "a copy is compared byte for byte");
        }
    }
    return AS_OK;
}
