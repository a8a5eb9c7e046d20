/* The GPU's convolutional networks on a machine without a GPU: the whole of cnn.cu and of its reference, its kernels on
 * fibers (emulated/cuda_runtime.h), tensor cores by the fragments that the PTX ISA draws. Every type and rung against the
 * host's float64 reference. What it cannot tell: a missing wait for an asynchronous copy, a race, a time. */
#include <cuda_runtime.h>

#define as_cuda_fail_at as_emulated_fail_at /* a build with CUDA has those of kernels/cuda, too */
#define as_cuda_instantiate as_emulated_instantiate

/* What is PTX on a device is defined here; the names of the originals are moved out of the way. */
#define as_ldmatrix4 as_ldmatrix4_ptx
#define as_copy16 as_copy16_ptx
#define as_mma as_mma_ptx
#define as_copies_commit as_copies_commit_ptx
#define as_copies_wait as_copies_wait_ptx
#define as_pack_bf16 as_pack_bf16_ptx
#define as_widen_f16 as_widen_f16_ptx
#define as_narrow_f16 as_narrow_f16_ptx
#include "kernels/inference/ptx.cuh"
#undef as_ldmatrix4
#undef as_copy16
#undef as_mma
#undef as_copies_commit
#undef as_copies_wait
#undef as_pack_bf16
#undef as_widen_f16
#undef as_narrow_f16

static float as_widen_f16(uint16_t bits) { return as_f16_to_f32(bits); }
static uint16_t as_narrow_f16(float x) { return (uint16_t)as_f16_round(as_f32_bits(x)); }
static uint32_t as_pack_bf16(float low, float high) {
    return as_bf16_round(as_f32_bits(low)) | as_bf16_round(as_f32_bits(high)) << 16;
}
static void as_copies_commit() {}
template <int PENDING> static void as_copies_wait() {}
static void as_copy16(uint32_t to, const void *from, bool valid) {
    if (to % 16 || (valid && (uintptr_t)from % 16))
        abort();
    memset(as_dynamic_shared + to, 0, 16);
    if (valid)
        memcpy(as_dynamic_shared + to, from, 16);
}

/* What the lanes of a warp tell one another. */
static struct as_exchange { uint32_t address[32], a[32][4], b[32][2]; } exchange[32];

static void as_ldmatrix4(uint32_t (&r)[4], uint32_t address) {
    as_exchange *w = &exchange[threadIdx.x / 32];
    const unsigned lane = threadIdx.x % 32;
    w->address[lane] = address;
    as_meet_warp();
    for (unsigned m = 0; m < 4; m++)
        memcpy(&r[m], as_dynamic_shared + w->address[8 * m + lane / 4] + 4 * (lane % 4), 4);
    as_meet_warp();
}

template <int ELEMENT> static float piece_of(uint32_t word, unsigned k) {
    const uint16_t half = (uint16_t)(word >> (16 * k));
    return ELEMENT == AS_MM_TF32  ? __uint_as_float(word)
           : ELEMENT == AS_MM_F16 ? as_f16_to_f32(half)
                                  : as_bf16_to_f32(half);
}

/* Figures of m16n8k16 (two elements a word) and m16n8k8 (one): lane / 4 is a's row and b's column, lane % 4 the word along
 * k; a's words 1 and 3 are 8 rows on, 2 and 3 four words on, as is b's word 1. */
template <int ELEMENT> static void as_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    as_exchange *w = &exchange[threadIdx.x / 32];
    const unsigned lane = threadIdx.x % 32, pieces = ELEMENT == AS_MM_TF32 ? 1 : 2;
    memcpy(w->a[lane], a, sizeof a);
    w->b[lane][0] = b0, w->b[lane][1] = b1;
    as_meet_warp();
    for (unsigned h = 0; h < 2; h++)
        for (unsigned i = 0; i < 2; i++)
            for (unsigned word = 0; word < 8; word++)
                for (unsigned k = 0; k < pieces; k++)
                    d[2 * h + i] += piece_of<ELEMENT>(w->a[lane / 4 * 4 + word % 4][word / 4 * 2 + h], k) *
                                    piece_of<ELEMENT>(w->b[(lane % 4 * 2 + i) * 4 + word % 4][word / 4], k);
    as_meet_warp();
}

#include "kernels/inference/cnn_mma.cuh"
#undef __shared__
#define __shared__ static /* arrays of a block: one block at a time */
#include "kernels/inference/cnn.cu"
#include "kernels/inference/cnn_reference.cu"

extern "C" {
#include "suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
}

/* What cnn.cu asks of kernels/cuda. */
extern "C" as_status as_cuda_fail_at(as_error *e, const char *file, int line, cudaError_t code, const char *call) {
    return as_fail(e, AS_EFAIL, "%s:%d: %s: %d", file, line, call, code);
}
extern "C" cudaError_t as_cuda_instantiate(cudaGraphExec_t *, cudaGraph_t) { return cudaErrorNotSupported; }

enum { SEED = 42, CLASSES = 10, MOST_IMAGES = 8 };

typedef struct trial {
    as_params params;
    as_cnn_net net;
    as_cnn_step step;
    void *weights, *images;
    float logits[MOST_IMAGES * CLASSES];
    as_cuda_impl impl;
    as_device device;
} trial;

static void begin(trial *t, const char *type, const char *batch, const char *transfers, int multiprocessors) {
    as_error e;
    memset((void *)t, 0, sizeof *t);
    assert_int_equal(as_params_init(&t->params, as_inference_suite.axes, as_inference_suite.n_axes, &e), AS_OK);
    const char *const axes[][2] = {{"model", "tiny-cnn"}, {"type", type}, {"batch", batch}, {"transfers", transfers}};
    for (auto &axis : axes)
        assert_int_equal(as_params_set(&t->params, axis[0], axis[1], &e), AS_OK);
    t->step = as_cnn_step_of(&t->params);
    as_cnn_build(t->step.model, &t->net);
    assert_true(t->step.batch <= MOST_IMAGES && t->net.model->classes == CLASSES);
    const uint64_t images = (uint64_t)(t->step.batch * as_cnn_inputs(&t->net.op[0])),
                   weights = (uint64_t)t->net.elements;
    assert_int_equal(cudaMalloc(&t->weights, weights * as_dtype_bytes(t->step.type)), cudaSuccess);
    assert_int_equal(cudaMalloc(&t->images, images * as_dtype_bytes(t->step.type)), cudaSuccess);
    as_rng_fill(t->weights, t->step.type, AS_NORMAL, 0, weights, SEED, 1);
    as_rng_fill(t->images, t->step.type, AS_NORMAL, 0, images, SEED, 2);
    memset(t->logits, 0xFF, sizeof t->logits);
    t->impl.properties.major = 9;
    t->impl.properties.multiProcessorCount = multiprocessors;
    t->device.impl = &t->impl;
}

static void end(trial *t) {
    (void)cudaFree(t->weights);
    (void)cudaFree(t->images);
}

static void reference(const trial *t, double *expected, double *scale) {
    as_error e;
    int64_t rows[MOST_IMAGES];
    for (int i = 0; i < MOST_IMAGES; i++)
        rows[i] = i;
    const void *const input[] = {t->weights, t->images, NULL};
    const as_reference r = {&t->params, NULL, input, rows, t->step.batch, expected, scale, NULL};
    assert_int_equal(as_cnn_reference(&r, &e), AS_OK);
}

typedef as_status (*prepare_fn)(const as_call *call, void **state, as_error *e);
typedef as_status (*breakdown_fn)(const as_call *call, as_parts *parts, as_error *e);

static void accept(const char *name, prepare_fn prepare_rung, as_run_fn run_rung, breakdown_fn breakdown_rung,
                   trial *t) {
    double expected[MOST_IMAGES * CLASSES], scale[MOST_IMAGES * CLASSES], worst = 0;
    void *const operand[] = {t->weights, t->images, t->logits};
    as_error e = {};
    as_call call = {};
    as_parts *parts = NULL;
    call.params = &t->params;
    call.operand = operand;
    call.device = &t->device;
    if (prepare_rung(&call, &call.state, &e) != AS_OK || run_rung(&call, &e) != AS_OK)
        fail_msg("%s: %s", name, e.message);
    assert_int_equal(as_parts_create(&parts, &e), AS_OK);
    assert_int_equal(breakdown_rung(&call, parts, &e), AS_OK); /* runs it once more */
    assert_int_equal(as_parts_operations(parts), 1);
    as_parts_free(parts);
    finish((state *)call.state);
    reference(t, expected, scale);
    for (int i = 0; i < t->step.batch * CLASSES; i++)
        worst = fmax(worst, isnan(t->logits[i]) ? INFINITY
                                                : fabs((double)t->logits[i] - expected[i]) /
                                                      (as_cnn_tolerance(&t->net, t->step.type) * scale[i]));
    if (getenv("ASSAY_TEST_SHOW"))
        print_message("%s %s: %.3g of the tolerance\n", name, as_dtype_name(t->step.type), worst);
    if (!(worst <= 1))
        fail_msg("%s %s: %.3g of the tolerance", name, as_dtype_name(t->step.type), worst);
}

/* Of many multiprocessors the smallest tile is chosen, of one the largest. */
static void check_rungs(void **) {
    static const struct {
        const char *type, *batch, *transfers;
        int multiprocessors;
        bool naive;
    } cases[] = {{"f32", "2", "no", 132, true},   {"tf32", "1", "yes", 132, true}, {"bf16", "1", "no", 132, true},
                 {"f16", "1", "yes", 132, false}, {"f16", "2", "no", 1, true},     {"f16", "2", "no", 4, false}};
    for (auto &c : cases) {
        trial t;
        begin(&t, c.type, c.batch, c.transfers, c.multiprocessors);
        if (c.naive)
            accept("naive", as_cnn_naive_prepare_cuda, as_cnn_naive_cuda, as_cnn_naive_breakdown_cuda, &t);
        memset(t.logits, 0xFF, sizeof t.logits);
        accept("eager", as_cnn_eager_prepare_cuda, as_cnn_eager_cuda, as_cnn_eager_breakdown_cuda, &t);
        end(&t);
    }
}

static void check_reference(void **) {
    trial t;
    as_error e;
    double expected[2][MOST_IMAGES * CLASSES], got[2][MOST_IMAGES * CLASSES];
    begin(&t, "f16", "2", "no", 1);
    reference(&t, expected[0], expected[1]);
    void *const operand[] = {t.weights, t.images, got[0], got[1]};
    as_call call = {};
    call.params = &t.params;
    call.operand = operand;
    assert_int_equal(as_cnn_reference_cuda(&call, &e), AS_OK);
    for (int i = 0; i < 2 * CLASSES; i++)
        for (int k = 0; k < 2; k++)
            assert_true(fabs(got[k][i] - expected[k][i]) <= 1e-9 * expected[1][i]);
    end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_rungs), cmocka_unit_test(check_reference)};
    return cmocka_run_group_tests_name("cnn emulated", tests, NULL, NULL);
}
