/* Suite attention: the attention of a decoder alone, for one new token over a cache (decode) or a prompt over itself.
 * */
#include "../kernels/attention/attention.h"
#include "suites.h"

#include <string.h>

static const as_axis axes[] = {
    {"phase", "decode", false, false, "", "decode: one query a row; prefill: a query for each entry, causal"},
    {"heads", "32", true, false, "heads", "query heads"},
    {"kv_heads", "8", true, false, "heads", "heads of keys and values, each shared by heads / kv_heads query heads"},
    {"head_dim", "128", true, false, "elements", "elements of a head"},
    {"batch", "1", true, false, "rows", "sequences"},
    {"context", "1024", true, false, "entries", "entries of keys and values of each row"},
    {"type", "bf16", false, false, "", "bf16 or f32, of all operands"},
    {"config", "auto", false, false, "", "tensor, prefill: queries of a block, q64 or q128; auto: q128"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_ATTENTION_CPU(AS_ROW_CPU) //
#ifdef ASSAY_CUDA
    AS_ATTENTION_CUDA_STATE(AS_ROW_CUDA_STATE) //
#endif
    {.name = NULL},
};

static const as_point points[] = {
    {AS_QUICK, "cuda", "tensor", "context=65536", 0},
    {AS_QUICK, "cuda", "tensor", "phase=prefill;kv_heads=32;context=16384", 0},
    {AS_STANDARD, "cpu", "naive", "", 2},
    {AS_STANDARD, "cpu", "naive", "phase=prefill;heads=4;kv_heads=2;head_dim=48;context=100;batch=2;type=f32", 2},
    {AS_STANDARD, "cuda", "tensor", "context=8192;batch=16", 1},
    {AS_STANDARD, "cuda", "tensor", "phase=prefill;kv_heads=32;context=4096", 1},
    {AS_STANDARD, "cuda", "simple,tensor", "context=100;batch=3", 2},
    {AS_STANDARD, "cuda", "simple,tensor", "phase=prefill;context=333;batch=2;head_dim=64", 2},
    {AS_STANDARD, "cuda", "simple,tensor", "context=512,8192;cache=cold", 2},
    {AS_STANDARD, "cuda", "simple,tensor", "context=2048;batch=16,64", 2},
    {AS_STANDARD, "cuda", "tensor", "context=1,17,131072", 2},
    {AS_STANDARD, "cuda", "tensor", "head_dim=64;context=65536", 2},
    {AS_STANDARD, "cuda", "simple", "type=f32;context=8192;batch=4", 3},
    {AS_STANDARD, "cuda", "simple", "phase=prefill;heads=6;kv_heads=6;head_dim=48;type=f32,bf16", 3},
    {AS_STANDARD, "cuda", "simple,tensor", "phase=prefill;context=512,2048", 2},
    {AS_STANDARD, "cuda", "tensor", "phase=prefill;head_dim=64;context=4096", 2},
    {AS_STANDARD, "cpu", "naive", "context=8192", 3},
    {AS_STANDARD, "cuda", "tensor", "phase=prefill;kv_heads=32;context=4096,16384;config=q64", 3},
    {AS_PUBLISH, "cuda", "tensor", "kv_heads=4,16,32;context=8192;batch=16", 4},
    {.variants = NULL},
};

static as_status check(const as_params *p, const as_variant *v, const as_device *d, as_error *e) {
    enum { MOST_HEADS = 256, MOST_HEAD_DIM = 256, MOST_BATCH = 1024, MOST_CONTEXT = 1 << 20 };
    const char *phase = as_params_text(p, "phase"), *type = as_params_text(p, "type");
    const char *config = as_params_text(p, "config");
    AS_TRY(as_suite_check_common(p, d, e));
    if (strcmp(phase, "decode") != 0 && strcmp(phase, "prefill") != 0)
        return as_fail(e, AS_EUSAGE, "attention: phase is decode or prefill, not '%.20s'", phase);
    if (strcmp(type, "f32") != 0 && strcmp(type, "bf16") != 0)
        return as_fail(e, AS_EUSAGE, "attention: type is bf16 or f32, not '%.20s'", type);
    const as_attention_shape s = as_attention_shape_of(p);
    if (strcmp(config, "auto") != 0 && (!s.prefill || (strcmp(config, "q64") != 0 && strcmp(config, "q128") != 0)))
        return as_fail(e, AS_EUSAGE, "attention: config is auto, and in phase prefill q64 or q128 too");
    if (s.heads < 1 || s.heads > MOST_HEADS || s.kv_heads < 1 || s.heads % s.kv_heads)
        return as_fail(e, AS_EUSAGE, "attention: heads is 1 to %d and a multiple of kv_heads", MOST_HEADS);
    if (s.head_dim < 1 || s.head_dim > MOST_HEAD_DIM || s.batch < 1 || s.batch > MOST_BATCH || s.context < 1 ||
        s.context > MOST_CONTEXT)
        return as_fail(e, AS_EUSAGE, "attention: head_dim is 1 to %d, batch 1 to %d, context 1 to %d", MOST_HEAD_DIM,
                       MOST_BATCH, MOST_CONTEXT);
    if (strcmp(v->on, "cpu") == 0 && strcmp(config, "auto") != 0)
        return as_fail(e, AS_EUSAGE, "attention/naive knows one way: leave config at auto");
    if (strcmp(v->on, "cpu") == 0 && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "attention/naive runs on one thread: leave threads at 1");
#ifdef ASSAY_CUDA
    if (strcmp(v->on, "cuda") == 0)
        return as_attention_check_cuda(v->name, config, &s, e);
#endif
    return AS_OK;
}

/* Rough bytes and operations a nanosecond; for the planner only. */
static const struct guess {
    const char *on, *variant;
    double bytes_per_ns, flops_per_ns;
} guesses[] = {{"cpu", "naive", 1, 1}, {"cuda", "simple", 200, 2000}, {"cuda", "tensor", 2000, 200000}};

static double predict(const as_variant *v, const as_work *w) {
    for (int i = 0; i < AS_COUNT(guesses); i++)
        if (strcmp(guesses[i].on, v->on) == 0 && strcmp(guesses[i].variant, v->name) == 0)
            return 5000 + w->bytes_read / guesses[i].bytes_per_ns + w->flops / guesses[i].flops_per_ns;
    return 0;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(check(p, v, d, e));
    const as_attention_shape s = as_attention_shape_of(p);
    const double query = as_attention_query_elements(&s), entry = as_attention_entry_elements(&s);
    const double bytes = (double)as_dtype_bytes(s.type);
    *w = (as_work){0};
    w->operand[0] = (as_operand){"q", AS_IN, AS_MEM_DEVICE, s.type, AS_NORMAL, (int64_t)query, 1};
    w->operand[1] = (as_operand){"k", AS_IN, AS_MEM_DEVICE, s.type, AS_NORMAL, (int64_t)entry, 2};
    w->operand[2] = (as_operand){"v", AS_IN, AS_MEM_DEVICE, s.type, AS_NORMAL, (int64_t)entry, 3};
    w->operand[3] = (as_operand){"out", AS_OUT, AS_MEM_DEVICE, s.type, AS_NORMAL, (int64_t)query, 0};
    w->operands = 4;
    w->flops = as_attention_flops(&s);
    w->bytes_read = (query + 2 * entry) * bytes;
    w->bytes_written = query * bytes;
    w->convention = "queries, keys and values read once, output written";
    w->working_set_bytes = (int64_t)(w->bytes_read + w->bytes_written);
    w->items = (double)(s.batch * s.tokens);
    w->item = "token";
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read + w->bytes_written};
    w->bound[w->bounds++] =
        (as_bound){strcmp(v->on, "cuda") == 0 && s.type == AS_BF16 ? "flops.bf16" : "flops.f32", w->flops};
    w->check = AS_CHECK_REFERENCE;
    w->tolerance = as_attention_tolerance(&s);
    w->rows = s.batch * s.tokens * s.heads;
    w->columns = s.head_dim;
    w->predicted_ns = predict(v, w);
    return AS_OK;
}

const as_suite as_attention_suite = {
    .name = "attention",
    .summary = "attention alone: one token over a cache, a prompt over itself",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = as_attention_reference,
};
