/* Times one decode step of rungs fused and persistent under other values of as_decoder_tune. Not a test: it checks
 * nothing; after a change of the values, `assay verify --suite inference` does.
 *
 *   tune_inference_cuda [model [context [batch]]]      default llama-8b 512 1 */
#include "gpu_test.h"

#include "kernels/inference/decoder_cuda.h"
#include "suites/suites.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RUNS = 20, ROUNDS = 5 };

typedef struct setting {
    const char *name, *variant;
    as_decoder_tuning tuning;
} setting;

static const setting settings[] = {
    {"as it stands", "fused", {2, 64 << 10, 128 << 10, 2, true}},
    {"no overlap", "fused", {2, 64 << 10, 128 << 10, 2, false}},
    {"no prefetch", "fused", {2, 0, 128 << 10, 2, true}},
    {"prefetch 32 KiB", "fused", {2, 32 << 10, 128 << 10, 2, true}},
    {"prefetch 128 KiB", "fused", {2, 128 << 10, 128 << 10, 2, true}},
    {"1 block", "fused", {1, 64 << 10, 128 << 10, 2, true}},
    {"1 block, prefetch 128 KiB", "fused", {1, 128 << 10, 128 << 10, 2, true}},
    {"1 block, no prefetch", "fused", {1, 0, 128 << 10, 2, true}},
    {"attention 1 block", "fused", {2, 64 << 10, 128 << 10, 1, true}},
    {"as it stands", "persistent", {2, 64 << 10, 128 << 10, 2, true}},
    {"no prefetch", "persistent", {2, 64 << 10, 0, 2, true}},
    {"prefetch 64 KiB", "persistent", {2, 64 << 10, 64 << 10, 2, true}},
    {"prefetch 256 KiB", "persistent", {2, 64 << 10, 256 << 10, 2, true}},
};

static as_device device;
static as_stream stream;
static as_event from, to;

static const as_variant *variant_named(const char *name) {
    for (const as_variant *v = as_inference_suite.variants; v->name; v++)
        if (strcmp(v->on, "cuda") == 0 && strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

/* Least mean time of RUNS steps in ROUNDS rounds. */
static as_status time_one(const setting *s, as_call *call, double *least_ns, as_error *e) {
    const as_variant *v = variant_named(s->variant);
    const as_device_driver *driver = device.driver;
    as_decoder_tune = s->tuning;
    *least_ns = INFINITY;
    AS_TRY(v->prepare(call, &call->state, e));
    as_status status = AS_OK;
    for (int round = 0; round < ROUNDS && status == AS_OK; round++) {
        double ns = 0;
        status = driver->event_record(&device, from, stream, e);
        for (int i = 0; i < RUNS && status == AS_OK; i++)
            status = v->run(call, e);
        if (status == AS_OK)
            status = driver->event_record(&device, to, stream, e);
        if (status == AS_OK)
            status = driver->stream_sync(&device, stream, e);
        if (status == AS_OK)
            status = driver->event_elapsed(&device, from, to, &ns, e);
        *least_ns = fmin(*least_ns, ns / RUNS);
    }
    v->finish(call->state);
    return status;
}

static as_status tune(const char *model, const char *context, const char *batch, as_error *e) {
    const as_device_driver *driver = &as_cuda_driver;
    as_params p;
    as_work w;
    void *operand[AS_MAX_OPERANDS] = {0}, *extra = NULL;
    AS_TRY(as_params_init(&p, as_inference_suite.axes, as_inference_suite.n_axes, e));
    AS_TRY(as_params_set(&p, "model", model, e));
    AS_TRY(as_params_set(&p, "context", context, e));
    AS_TRY(as_params_set(&p, "batch", batch, e));
    AS_TRY(driver->open(0, &device, e));
    AS_TRY(driver->stream_create(&device, &stream, e));
    AS_TRY(driver->event_create(&device, &from, e));
    AS_TRY(driver->event_create(&device, &to, e));
    AS_TRY(as_inference_suite.describe(&p, variant_named("fused"), &device, &w, e));
    AS_TRY(driver->alloc(&device, AS_MEM_PINNED, AS_MAX_EXTRA * sizeof(double), &extra, e));
    for (int i = 0; i < w.operands; i++) {
        const as_operand *o = &w.operand[i];
        const size_t bytes = (size_t)o->count * as_dtype_bytes(o->type);
        AS_TRY(driver->alloc(&device, o->memory, bytes, &operand[i], e));
        if (o->role == AS_IN)
            AS_TRY(driver->fill(&device, o->memory, operand[i], o->type, o->dist, (uint64_t)o->count, 1, o->key, e));
    }
    as_call call = {.params = &p, .operand = operand, .device = &device, .stream = stream, .extra = extra};
    printf("%s, context %s, batch %s: %.2f GB to move\n", model, context, batch, w.bytes_read * 1e-9);
    for (int i = 0; i < AS_COUNT(settings); i++) {
        double ns;
        as_error why = {0};
        if (time_one(&settings[i], &call, &ns, &why) != AS_OK)
            printf("%-11s %-28s %s\n", settings[i].variant, settings[i].name, why.message);
        else
            printf("%-11s %-28s %9.1f us %7.3f TB/s\n", settings[i].variant, settings[i].name, ns * 1e-3,
                   w.bytes_read / ns * 1e-3);
    }
    return AS_OK; /* what is left goes with the process */
}

int main(int argc, char **argv) {
    as_error e = {0};
    const int absent = without_device();
    if (absent)
        return absent;
    if (tune(argc > 1 ? argv[1] : "llama-8b", argc > 2 ? argv[2] : "512", argc > 3 ? argv[3] : "1", &e) == AS_OK)
        return 0;
    fprintf(stderr, "%s\n", e.message);
    return 1;
}
