/* Suite inference: whole models, from a token to its logits. Axes, variants and points; each family of models has its
 * own file beside this one. docs/inference.md is its reference. */
#include "inference.h"
#include "../../kernels/inference/cnn.h"
#include "../../kernels/inference/decoder.h"
#ifdef ASSAY_CUDA
#include "../../kernels/inference/cnn_cuda.h"
#include "../../kernels/inference/decoder_cuda.h"
#endif
#include "../suites.h"

#include <string.h>

static const as_axis axes[] = {
    {"model", "none", false, false, "",
     "a preset: tiny, llama-15m, llama-1b, llama-8b, tiny-cnn, resnet18; must be given"},
    {"phase", "decode", false, false, "",
     "decode: one token a row; prefill: the prompt; generate: both; forward: images"},
    {"batch", "1", true, false, "rows", "sequences or images that go through the model together"},
    {"context", "512", true, false, "tokens", "decode: tokens of each row so far"},
    {"prompt", "128", true, false, "tokens", "prefill, generate: tokens of each row's prompt"},
    {"tokens", "64", true, false, "tokens", "generate: new tokens of each row"},
    {"type", "bf16", false, false, "", "weights, keys and values, images: bf16 or f32; images also f16, tf32"},
    {"transfers", "no", false, false, "", "images on a GPU, yes: they come from the host's memory, logits go to it"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

/* ---- families ---- */

static const as_variant decoder_variants[] = {
    AS_INFERENCE_CPU_BREAKDOWN(AS_ROW_CPU_BREAKDOWN) //
#ifdef ASSAY_CUDA
    AS_INFERENCE_CUDA_BREAKDOWN(AS_ROW_CUDA_BREAKDOWN) //
#endif
    {.name = NULL},
};

static const as_variant cnn_variants[] = {
    AS_CNN_CPU_BREAKDOWN(AS_ROW_CPU_BREAKDOWN) //
#ifdef ASSAY_CUDA
    AS_CNN_CUDA_BREAKDOWN(AS_ROW_CUDA_BREAKDOWN)     //
    AS_CNN_CUDA_OWN_BREAKDOWN(AS_ROW_CUDA_BREAKDOWN) //
#endif
    {.name = NULL},
};

static const as_family_suite decoders = {
    .variants = decoder_variants,
    .describe = as_decoder_describe,
    .reference = as_decoder_reference,
    .largest = as_decoder_largest,
#ifdef ASSAY_CUDA
    .device_reference = as_decoder_reference_cuda,
#endif
};

static const as_family_suite cnns = {
    .variants = cnn_variants,
    .describe = as_cnn_describe,
    .reference = as_cnn_reference,
    .largest = as_cnn_largest,
#ifdef ASSAY_CUDA
    .device_reference = as_cnn_reference_cuda,
#endif
};

static const as_family_suite *family_of(const as_params *p) {
    return as_cnn_named(as_params_text(p, "model")) ? &cnns : &decoders;
}

/* A variant of the suite: the name, flags and series of the family's that has the most of them, hooks of the model's. */
#define PREPARE(kind, name)                                                                                            \
    static as_status prepare_##name##_##kind(const as_call *call, void **state, as_error *e) {                         \
        return as_route_prepare(as_family_variant(family_of(call->params), #name, #kind), call, state, e);             \
    }
#define PREPARE_CPU(op, name, ...) PREPARE(cpu, name)
#define PREPARE_CUDA(op, name, ...) PREPARE(cuda, name)
#define ROUTED(kind, variant, flag, text, ...)                                                                         \
    {.name = #variant,                                                                                                 \
     .on = #kind,                                                                                                      \
     .summary = (text),                                                                                                \
     .flags = (flag),                                                                                                  \
     .run = as_route_run,                                                                                              \
     .prepare = prepare_##variant##_##kind,                                                                            \
     .finish = as_route_finish,                                                                                        \
     .extra = {__VA_ARGS__},                                                                                           \
     .breakdown = as_route_breakdown},
#define ROUTED_CPU(op, variant, flag, text, ...) ROUTED(cpu, variant, flag, text, __VA_ARGS__)
#define ROUTED_CUDA(op, variant, flag, text, ...) ROUTED(cuda, variant, flag, text, __VA_ARGS__)

AS_INFERENCE_CPU_BREAKDOWN(PREPARE_CPU)
#ifdef ASSAY_CUDA
AS_INFERENCE_CUDA_BREAKDOWN(PREPARE_CUDA)
AS_CNN_CUDA_OWN_BREAKDOWN(PREPARE_CUDA)
#endif

static const as_variant variants[] = {
    AS_INFERENCE_CPU_BREAKDOWN(ROUTED_CPU) //
#ifdef ASSAY_CUDA
    AS_INFERENCE_CUDA_BREAKDOWN(ROUTED_CUDA) //
    AS_CNN_CUDA_OWN_BREAKDOWN(ROUTED_CUDA)   //
#endif
    {.name = NULL},
};

#define DECODER "eager_naive,eager,graph,fused,persistent" /* naive is for images */

static const as_point points[] = {
    {AS_QUICK, "cpu", "naive", "model=llama-15m", 1},
    {AS_QUICK, "cpu", "simd", "model=llama-15m;threads=1,all", 0},
    {AS_QUICK, "cpu", "simd,openblas", "model=llama-15m;type=f32;threads=all", 1},
    {AS_QUICK, "cpu", "simd", "model=llama-15m;phase=prefill;threads=all", 0},
    {AS_QUICK, "cpu", "openblas", "model=llama-15m;phase=prefill;type=f32;threads=all", 1},
    {AS_QUICK, "cpu", "simd", "model=llama-15m;phase=generate;prompt=32;tokens=32;threads=all", 0},
    {AS_QUICK, "cpu", "simd", "model=resnet18;phase=forward;type=f32;threads=all", 1},
    {AS_STANDARD, "cpu", "naive,simd", "model=tiny;context=128", 2},
    {AS_STANDARD, "cpu", "naive,simd", "model=tiny;phase=generate;type=f32", 2},
    {AS_STANDARD, "cpu", "simd", "model=llama-1b;threads=1,all", 2},
    {AS_STANDARD, "cpu", "openblas", "model=llama-1b;type=f32;threads=all", 3},
    {AS_STANDARD, "cpu", "simd", "model=llama-15m;batch=4,16,64;threads=all", 2},
    {AS_STANDARD, "cpu", "simd", "model=llama-15m;context=0,128,1023;threads=all", 2},
    {AS_STANDARD, "cpu", "simd,openblas", "model=llama-15m;phase=prefill;prompt=1,16,512;type=f32;threads=all", 2},
    {AS_STANDARD, "cpu", "simd", "model=llama-15m;phase=prefill;prompt=16,512;threads=all", 2},
    {AS_STANDARD, "cpu", "simd", "model=llama-15m;cache=cold;threads=all", 3},
    {AS_STANDARD, "cpu", "simd", "model=llama-1b;phase=prefill;prompt=16;threads=all", 3},
    {AS_STANDARD, "cpu", "simd", "model=llama-1b;batch=4,16;threads=all", 3},
    {AS_STANDARD, "cpu", "simd", "model=llama-1b;context=4096;threads=all", 3},
    {AS_STANDARD, "cpu", "naive,simd", "model=resnet18;phase=forward;type=f32", 3},
    {AS_STANDARD, "cpu", "openblas", "model=resnet18;phase=forward;type=f32;threads=all", 3},
    {AS_STANDARD, "cpu", "simd,openblas", "model=resnet18;phase=forward;batch=8,32;type=f32;threads=all", 3},
    {AS_STANDARD, "cpu", "naive,simd", "model=tiny-cnn;phase=forward;batch=3;type=f32", 3},
    {AS_PUBLISH, "cpu", "simd,openblas", "model=resnet18;phase=forward;batch=64,128;type=f32;threads=all", 4},
    {AS_PUBLISH, "cpu", "naive", "model=llama-15m;type=f32", 4},
    {AS_PUBLISH, "cpu", "simd", "model=tiny;phase=prefill;prompt=1,511;batch=3", 4},
    {AS_QUICK, "cuda", DECODER, "model=llama-1b", 0},
    {AS_QUICK, "cuda", "fused,persistent", "model=llama-8b", 0},
    {AS_QUICK, "cuda", "fused", "model=llama-8b;phase=prefill;prompt=512", 1},
    {AS_QUICK, "cuda", "graph", "model=resnet18;phase=forward;batch=128;type=f16;transfers=yes", 1},
    {AS_STANDARD, "cuda", "eager,graph", "model=llama-8b", 2},
    {AS_STANDARD, "cuda", "eager,graph,fused", "model=llama-1b;phase=prefill;prompt=512", 2},
    {AS_STANDARD, "cuda", "fused,persistent", "model=llama-1b;phase=generate;prompt=128;tokens=32", 2},
    {AS_STANDARD, "cuda", "graph,fused", "model=llama-1b;batch=2,4,8,16,32,64;context=2048", 2},
    {AS_STANDARD, "cuda", DECODER, "model=tiny;phase=generate;type=f32", 2},
    {AS_STANDARD, "cuda", DECODER, "model=tiny;context=128;type=f32,bf16", 2},
    {AS_STANDARD, "cuda", DECODER, "model=llama-15m;type=f32,bf16", 2},
    {AS_STANDARD, "cuda", "eager_naive", "model=llama-8b", 3},
    {AS_STANDARD, "cuda", "eager,graph,fused", "model=llama-8b;batch=4,16,64;context=2048", 2},
    {AS_STANDARD, "cuda", "fused,persistent", "model=llama-8b;context=0,8192,65536", 2},
    {AS_STANDARD, "cuda", "fused", "model=llama-8b;phase=prefill;prompt=1,16,128,2048", 2},
    {AS_STANDARD, "cuda", "fused", "model=llama-8b;phase=generate;prompt=512;tokens=64", 3},
    {AS_STANDARD, "cuda", "naive,eager,graph", "model=tiny-cnn;phase=forward;batch=3;type=f32,tf32,bf16,f16", 2},
    {AS_STANDARD, "cuda", "graph", "model=resnet18;phase=forward;batch=1,8,16,32,64,128;type=f16", 2},
    {AS_STANDARD, "cuda", "graph", "model=resnet18;phase=forward;batch=1,32,64;type=f16;transfers=yes", 3},
    {AS_STANDARD, "cuda", "graph", "model=resnet18;phase=forward;batch=32,64,128;type=f32;transfers=no,yes", 2},
    {AS_STANDARD, "cuda", "graph", "model=resnet18;phase=forward;batch=32,64,128;type=tf32", 3},
    {AS_STANDARD, "cuda", "graph", "model=resnet18;phase=forward;batch=128;type=bf16", 3},
    {AS_STANDARD, "cuda", "eager", "model=resnet18;phase=forward;batch=1,32,128;type=f16", 3},
    {AS_STANDARD, "cuda", "naive", "model=resnet18;phase=forward;batch=1,32;type=f32", 3},
    {AS_PUBLISH, "cuda", "eager_naive,eager,graph,fused", "model=tiny;phase=prefill;prompt=1,511;batch=3", 4},
    {AS_PUBLISH, "cuda", "eager_naive,eager,graph,fused", "model=llama-15m;batch=17;context=1023", 4},
    {.variants = NULL},
};

bool as_axis_untouched(const as_params *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->value[i].axis->name, name) == 0)
            return as_param_is_default(&p->value[i]);
    return true;
}

static as_status check_model(const as_params *p, as_error *e) {
    const char *name = as_params_text(p, "model");
    if (strcmp(name, "none") == 0)
        return as_fail(e, AS_EUSAGE, "inference: model must be given (model:llama-15m)");
    if (as_cnn_named(name))
        return AS_OK;
    const as_model *m = as_model_named(name);
    if (!m)
        return as_fail(e, AS_EUSAGE, "inference: there is no model %.40s; the help of axis model lists them", name);
    if (m->sized_only)
        return as_fail(e, AS_EUSAGE, "inference: %s is a preset to size, not to run", name);
    if (m->family != AS_DECODER)
        return as_fail(e, AS_EUSAGE, "inference: %s is no decoder", m->name);
    return AS_OK;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    AS_TRY(check_model(p, e));
    const as_family_suite *f = family_of(p);
    /* A variant that no family has is of a device that this build leaves out: its formulas hold all the same. */
    const bool known = as_family_variant(&decoders, v->name, v->on) || as_family_variant(&cnns, v->name, v->on);
    if (known && !as_family_variant(f, v->name, v->on))
        return as_fail(e, AS_EUSAGE, "inference/%s is not for %s", v->name, as_params_text(p, "model"));
    if (f != &cnns && !as_axis_untouched(p, "transfers"))
        return as_fail(e, AS_EUSAGE, "inference: transfers is for images: leave it out for %s",
                       as_params_text(p, "model"));
    return f->describe(p, v, d, w, e);
}

static as_status reference(const as_reference *r, as_error *e) { return family_of(r->params)->reference(r, e); }

#ifdef ASSAY_CUDA
static as_status device_reference(const as_call *call, as_error *e) {
    return family_of(call->params)->device_reference(call, e);
}
#endif

static void largest(const as_params *p, const as_variant *v, const as_device *d, double room, char text[160]) {
    family_of(p)->largest(p, v, d, room, text);
}

const as_suite as_inference_suite = {
    .name = "inference",
    .summary = "whole models: decode, prefill, generation; images",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = reference,
#ifdef ASSAY_CUDA
    .device_reference_on = "cuda",
    .device_reference = device_reference,
#endif
    .largest = largest,
};
