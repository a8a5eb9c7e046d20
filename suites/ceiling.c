/* The ceilings: what each resource gives at best. Measured in every run for the cases that name them. */
#include "../kernels/ceiling/ceiling.h"
#include "../kernels/ceiling/levels.h"
#include "../kernels/matmul/types.h"
#include "suites.h"

#include <stdio.h>

static const as_axis axes[] = {
    {"level", "none", false, false, "", "read, copy: l1, l2, l3, dram on the cpu; l2 (read only), hbm on a GPU"},
    {"type", "none", false, false, "", "fma: f32 or f64; tensor: tf32, bf16, f16, e4m3, s8"},
    {"dir", "none", false, false, "", "link: h2d or d2h"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_CEILING_CPU_STATE(AS_ROW_CPU_STATE) //
#ifdef ASSAY_CUDA
    AS_CEILING_CUDA(AS_ROW_CUDA)                 //
    AS_CEILING_CUDA_STATE(AS_ROW_CUDA_STATE)     //
    AS_CEILING_CUDA_LIBRARY(AS_ROW_CUDA_LIBRARY) //
#endif
    {.name = NULL},
};

/* The harness chooses: those that the planned cases name. */
static const as_point points[] = {{.variants = NULL}};

typedef struct question {
    const as_params *p;
    const as_device *d;
    bool cpu;
} question;

static as_status bandwidth_size(question q, int64_t *read_bytes, int64_t *copy_bytes, int64_t *passes, as_error *e) {
    const char *level = as_params_text(q.p, "level");
    if (q.cpu) {
        as_ceiling_cpu_size s;
        AS_TRY(as_ceiling_size_cpu(q.p, &s, e));
        *read_bytes = s.bytes, *copy_bytes = as_ceiling_copy_bytes(s), *passes = s.passes;
        return AS_OK;
    }
    if (strcmp(level, "l2") != 0 && strcmp(level, "hbm") != 0)
        return as_fail(e, AS_EUSAGE, "a ceiling of device memory needs level:l2 or level:hbm");
    as_ceiling_size s = as_ceiling_size_cuda(q.p, q.d);
    *read_bytes = *copy_bytes = s.bytes, *passes = s.passes;
    return AS_OK;
}

static as_status describe_read(question q, as_work *w, as_error *e) {
    int64_t bytes, copy, passes;
    AS_TRY(bandwidth_size(q, &bytes, &copy, &passes, e));
    w->operand[w->operands++] = (as_operand){"words", AS_IN, AS_MEM_DEVICE, AS_U32, AS_BITS, bytes / 4, 1};
    w->operand[w->operands++] = (as_operand){"sum", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, 1, 0};
    w->bytes_read = (double)bytes * (double)passes;
    w->convention = "read";
    w->working_set_bytes = bytes;
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read};
    w->check = AS_CHECK_REFERENCE;
    w->predicted_ns = 2000 + w->bytes_read / (q.cpu ? 8 : 1000);
    return AS_OK;
}

static as_status describe_copy(question q, as_work *w, as_error *e) {
    int64_t read, bytes, passes;
    AS_TRY(bandwidth_size(q, &read, &bytes, &passes, e));
    if (!q.cpu && strcmp(as_params_text(q.p, "level"), "hbm") != 0)
        return as_fail(e, AS_EUSAGE, "ceiling/copy on a GPU is for level:hbm");
    w->operand[w->operands++] = (as_operand){"source", AS_IN, AS_MEM_DEVICE, AS_U32, AS_BITS, bytes / 4, 1};
    w->operand[w->operands++] = (as_operand){"destination", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, bytes / 4, 0};
    w->bytes_read = w->bytes_written = (double)bytes * (double)passes;
    w->convention = "read + written";
    w->working_set_bytes = 2 * bytes;
    w->bound[w->bounds++] = (as_bound){"memory", 2 * w->bytes_read};
    w->check = AS_CHECK_COPY;
    w->predicted_ns = 2000 + 2 * w->bytes_read / (q.cpu ? 8 : 1000);
    return AS_OK;
}

static as_status describe_fma(question q, as_work *w, as_error *e) {
    const char *type = as_params_text(q.p, "type");
    bool f32 = strcmp(type, "f32") == 0;
    if (!f32 && strcmp(type, "f64") != 0)
        return as_fail(e, AS_EUSAGE, "ceiling/fma needs type:f32 or type:f64");
    double steps = q.cpu ? (double)as_ceiling_fma_steps_cpu(q.p)
                         : (double)AS_CEILING_FMA_THREADS * AS_CEILING_FMA_CHAINS * AS_CEILING_FMA_STEPS;
    w->operand[w->operands++] = (as_operand){"steps", AS_OUT, AS_MEM_DEVICE, AS_F64, AS_ZEROS, 1, 0};
    w->flops = 2 * steps;
    w->convention = "a multiply-add is two operations";
    w->working_set_bytes = 8;
    w->bound[w->bounds++] = (as_bound){f32 ? "flops.f32" : "flops.f64", w->flops};
    w->check = AS_CHECK_REFERENCE;
    w->predicted_ns = 2000 + w->flops / (q.cpu ? 50 : 10000);
    return AS_OK;
}

/* The type, where the tensor cores have it; NULL for the others. */
static const as_matmul_type *tensor_type(const char *name) {
    const as_matmul_type *t = as_matmul_type_named(name);
    return t && t->element != AS_MM_F32 ? t : NULL;
}

static as_status describe_tensor(question q, as_work *w, as_error *e) {
    const as_matmul_type *t = tensor_type(as_params_text(q.p, "type"));
    if (!t)
        return as_fail(e, AS_EUSAGE, "ceiling/tensor needs type:tf32, bf16, f16, e4m3 or s8");
    w->operand[w->operands++] = (as_operand){"steps", AS_OUT, AS_MEM_DEVICE, AS_F64, AS_ZEROS, 1, 0};
    w->flops = 2 * as_ceiling_tensor_steps((int)as_dtype_bytes(t->in));
    w->convention = "a multiply-add is two operations";
    w->working_set_bytes = 8;
    w->bound[w->bounds++] = (as_bound){t->ceiling, w->flops};
    w->check = AS_CHECK_REFERENCE;
    w->predicted_ns = 2000 + w->flops / 100000;
    return AS_OK;
}

static as_status describe_link(question q, as_work *w, as_error *e) {
    const char *dir = as_params_text(q.p, "dir");
    bool h2d = strcmp(dir, "h2d") == 0;
    if (!h2d && strcmp(dir, "d2h") != 0)
        return as_fail(e, AS_EUSAGE, "ceiling/link needs dir:h2d or dir:d2h");
    const int64_t bytes = AS_CEILING_LINK_BYTES;
    as_memory from = h2d ? AS_MEM_PINNED : AS_MEM_DEVICE, to = h2d ? AS_MEM_DEVICE : AS_MEM_PINNED;
    w->operand[w->operands++] = (as_operand){"source", AS_IN, from, AS_U8, AS_BITS, bytes, 1};
    w->operand[w->operands++] = (as_operand){"destination", AS_OUT, to, AS_U8, AS_BITS, bytes, 0};
    w->bytes_read = (double)bytes;
    w->convention = "copied once";
    w->working_set_bytes = 2 * bytes;
    w->bound[w->bounds++] = (as_bound){h2d ? "link.h2d" : "link.d2h", (double)bytes};
    w->check = AS_CHECK_COPY;
    w->predicted_ns = 9000 + (double)bytes / 20;
    return AS_OK;
}

static void describe_launch(as_work *w) {
    w->convention = "no data moved";
    w->items = AS_CEILING_LAUNCHES;
    w->item = "kernel";
    w->bound[w->bounds++] = (as_bound){"launch", AS_CEILING_LAUNCHES};
    w->check = AS_CHECK_EFFECT;
    w->expected_count = AS_CEILING_LAUNCHES;
    w->predicted_ns = 800.0 * AS_CEILING_LAUNCHES;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    question q = {p, d, strcmp(v->on, "cpu") == 0};
    AS_TRY(as_suite_check_common(p, d, e));
    *w = (as_work){0};
    if (strcmp(v->name, "read") == 0)
        AS_TRY(describe_read(q, w, e));
    else if (strcmp(v->name, "copy") == 0)
        AS_TRY(describe_copy(q, w, e));
    else if (strcmp(v->name, "fma") == 0)
        AS_TRY(describe_fma(q, w, e));
    else if (strcmp(v->name, "tensor") == 0)
        AS_TRY(describe_tensor(q, w, e));
    else if (strcmp(v->name, "link") == 0)
        AS_TRY(describe_link(q, w, e));
    else
        describe_launch(w);
    if (w->check == AS_CHECK_REFERENCE) {
        w->rows = w->columns = 1;
        w->tolerance = 0.25; /* outputs are whole numbers: any difference is at least 1 */
    }
    return AS_OK;
}

/* ---- which ceiling serves a bound ---- */

static int add(as_ceiling_ref out[], int n, const char *variant, const char *axis, const char *value,
               const char *threads) {
    out[n].variant = variant;
    if (threads)
        snprintf(out[n].axes, sizeof out[n].axes, "%s=%s;threads=%s", axis, value, threads);
    else
        snprintf(out[n].axes, sizeof out[n].axes, "%s=%s", axis, value);
    return n + 1;
}

/* What reads nearly everything that it moves is measured against reading: copies, whose two directions overlap, can be
 * faster than any read. */
static bool only_reads(const as_work *w) { return w->bytes_written < 0.05 * w->bytes_read; }

static int cpu_ceilings(const as_bound *b, const as_work *w, const as_params *p, bool cold, as_ceiling_ref out[]) {
    const char *threads = as_params_has(p, "threads") ? as_params_text(p, "threads") : "1";
    if (strncmp(b->ceiling, "flops.", 6) == 0)
        return add(out, 0, "fma", "type", b->ceiling + 6, threads);
    if (strcmp(b->ceiling, "memory") != 0)
        return 0;
    as_levels l;
    as_error ignored;
    if (as_levels_read(&l, &ignored) != AS_OK)
        return 0;
    int64_t count = as_params_has(p, "threads") ? as_params_int(p, "threads") : 1;
    const char *level = as_level_name(as_level_serving(&l, w->working_set_bytes, count, cold));
    const int n = add(out, 0, "read", "level", level, threads);
    return only_reads(w) ? n : add(out, n, "copy", "level", level, threads);
}

static int cuda_ceilings(const as_bound *b, const as_work *w, const as_device *d, bool cold, as_ceiling_ref out[]) {
    if (strncmp(b->ceiling, "flops.", 6) == 0)
        return add(out, 0, tensor_type(b->ceiling + 6) ? "tensor" : "fma", "type", b->ceiling + 6, NULL);
    if (strncmp(b->ceiling, "link.", 5) == 0)
        return add(out, 0, "link", "dir", b->ceiling + 5, NULL);
    if (strcmp(b->ceiling, "launch") == 0) {
        out[0].variant = "launch";
        out[0].axes[0] = '\0';
        return 1;
    }
    if (strcmp(b->ceiling, "memory") != 0)
        return 0;
    if (!cold && (double)w->working_set_bytes <= 4.0 * (double)d->last_level_cache_bytes)
        return add(out, 0, "read", "level", "l2", NULL);
    const int n = add(out, 0, "read", "level", "hbm", NULL);
    return only_reads(w) ? n : add(out, n, "copy", "level", "hbm", NULL);
}

int as_ceilings_for(const as_bound *b, const as_work *w, const as_params *p, const as_device *d, bool cold,
                    as_ceiling_ref out[AS_MAX_CEILING_REFS]) {
    if (strcmp(d->driver->kind, "cpu") == 0)
        return cpu_ceilings(b, w, p, cold, out);
    if (strcmp(d->driver->kind, "cuda") == 0)
        return cuda_ceilings(b, w, d, cold, out);
    return 0;
}

const as_suite as_ceiling_suite = {
    .name = "ceiling",
    .summary = "what each resource gives at best",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = as_ceiling_reference,
};
