/* The ceilings: what each resource gives at best. Measured in every run for the cases that name them (ceiling_choice.c
 * says which), and all of them where people ask for the suite itself. */
#include "../kernels/ceiling/ceiling.h"
#include "../kernels/ceiling/levels.h"
#include "../kernels/matmul/types.h"
#include "suites.h"

static const as_axis axes[] = {
    {"level", "none", false, false, "",
     "read, write, copy, triad: l1, l2, l3, dram on the cpu; shared, l1 (read), l2, hbm on a GPU; atomic: l2, shared "
     "on "
     "a GPU"},
    {"type", "none", false, false, "",
     "fma: f32, f64, on the cpu also bf16; tensor: bf16 and s8, on a GPU also tf32, f16, e4m3"},
    {"dir", "none", false, false, "", "link: h2d, d2h or both"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
    {"stores", "usual", false, false, "",
     "write, copy, triad on the cpu: temporal or nt (non-temporal); usual: nt for dram, else temporal"},
    {"width", "widest", false, false, "bits", "fma on the cpu: vectors of 128, 256 or 512 bits"},
};

static const as_variant variants[] = {
    AS_CEILING_CPU_STATE(AS_ROW_CPU_STATE)     //
    AS_CEILING_CPU_LIBRARY(AS_ROW_CPU_LIBRARY) //
#ifdef ASSAY_CUDA
    AS_CEILING_CUDA(AS_ROW_CUDA)                 //
    AS_CEILING_CUDA_STATE(AS_ROW_CUDA_STATE)     //
    AS_CEILING_CUDA_LIBRARY(AS_ROW_CUDA_LIBRARY) //
#endif
    {.name = NULL},
};

/* A run takes those that its cases name; these are for whoever asks for the suite. */
static const as_point points[] = {
    {AS_QUICK, "cpu", "read,write,copy,triad", "level=l1,l2,l3,dram;threads=1,all", 0},
    {AS_QUICK, "cpu", "write,copy,triad", "level=l3;threads=1,all;stores=nt", 1},
    {AS_QUICK, "cpu", "write,copy,triad", "level=dram;threads=1,all;stores=temporal", 1},
    {AS_QUICK, "cpu", "fma", "type=f32,f64,bf16;threads=1,all", 0},
    {AS_QUICK, "cpu", "fma", "type=f32,f64;width=128,256,512", 1},
    {AS_QUICK, "cpu", "tensor", "type=bf16,s8;threads=1,all", 0},
    {AS_QUICK, "cpu", "atomic", "threads=1,all", 0},
    {AS_QUICK, "cuda", "read", "level=shared,l1,l2,hbm", 0},
    {AS_QUICK, "cuda", "write,copy,triad", "level=shared,l2,hbm", 0},
    {AS_QUICK, "cuda", "fma", "type=f32,f64", 0},
    {AS_QUICK, "cuda", "tensor", "type=tf32,bf16,f16,e4m3,s8", 0},
    {AS_QUICK, "cuda", "atomic", "level=shared,l2", 0},
    {AS_QUICK, "cuda", "link", "dir=h2d,d2h,both", 0},
    {AS_QUICK, "cuda", "launch", "", 0},
    {.variants = NULL},
};

typedef struct question {
    const as_params *p;
    const as_device *d;
    bool cpu;
} question;

/* ---- bandwidth ---- */

/* What a bandwidth ceiling moves, in operands: read and written; the CPU's sizes and the GPU's are shared out to both. */
typedef struct traffic {
    const char *variant;
    int read, written;
    const char *levels_cuda;
} traffic;
static const traffic traffics[] = {
    {"read", 1, 0, "shared, l1, l2, hbm"},
    {"write", 0, 1, "shared, l2, hbm"},
    {"copy", 1, 1, "shared, l2, hbm"},
    {"triad", 2, 1, "shared, l2, hbm"},
};

static const traffic *traffic_of(const char *variant) {
    for (int i = 0; i < AS_COUNT(traffics); i++)
        if (strcmp(traffics[i].variant, variant) == 0)
            return &traffics[i];
    return NULL;
}

static bool is_word_of(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = strstr(list, word); at && n; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

static as_status traffic_size(question q, const traffic *t, as_ceiling_size *out, as_error *e) {
    const char *level = as_params_text(q.p, "level");
    if (q.cpu) {
        as_ceiling_cpu_size s;
        AS_TRY(as_ceiling_size_cpu(q.p, &s, e));
        *out = (as_ceiling_size){as_ceiling_operand_bytes(s, t->read + t->written), s.passes};
        return AS_OK;
    }
    if (!is_word_of(t->levels_cuda, level))
        return as_fail(e, AS_EUSAGE, "ceiling/%s on a GPU needs a level: %s", t->variant, t->levels_cuda);
    *out = as_ceiling_size_cuda(q.p, q.d, t->read + t->written);
    return AS_OK;
}

static void input(as_work *w, const char *name, as_dtype type, as_dist dist, int64_t count, uint32_t key) {
    w->operand[w->operands++] = (as_operand){name, AS_IN, AS_MEM_DEVICE, type, dist, count, key};
}

static void output(as_work *w, const char *name, as_dtype type, int64_t rows, int64_t columns) {
    w->operand[w->operands++] =
        (as_operand){name, AS_OUT, AS_MEM_DEVICE, type, type == AS_F64 ? AS_ZEROS : AS_BITS, rows * columns, 0};
    w->rows = rows;
    w->columns = columns;
}

static void traffic_operands(const traffic *t, int64_t bytes, as_work *w) {
    const int64_t words = bytes / 4, columns = 1024;
    w->check = AS_CHECK_REFERENCE;
    if (strcmp(t->variant, "read") == 0) {
        input(w, "words", AS_U32, AS_BITS, words, AS_CEILING_WORDS);
        output(w, "sum", AS_U32, 1, 1);
    } else if (strcmp(t->variant, "write") == 0) {
        input(w, "word", AS_U32, AS_BITS, 1, AS_CEILING_WORD);
        output(w, "out", AS_U32, words / columns, columns);
    } else if (strcmp(t->variant, "copy") == 0) {
        input(w, "source", AS_U32, AS_BITS, words, AS_CEILING_WORDS);
        output(w, "destination", AS_U32, 1, words);
        w->check = AS_CHECK_COPY;
    } else {
        input(w, "b", AS_F32, AS_NORMAL, words, AS_CEILING_TRIAD);
        input(w, "c", AS_F32, AS_NORMAL, words, AS_CEILING_TRIAD + 1);
        output(w, "a", AS_F32, words / columns, columns);
        w->tolerance = 0x1p-22; /* two roundings to 24 bits, of numbers below twice the scale */
    }
}

static as_status describe_traffic(question q, const traffic *t, as_work *w, as_error *e) {
    as_ceiling_size s = {0};
    AS_TRY(traffic_size(q, t, &s, e));
    const double each = (double)s.bytes * (double)s.passes;
    traffic_operands(t, s.bytes, w);
    w->bytes_read = t->read * each;
    w->bytes_written = t->written * each;
    w->convention = t->read && t->written ? "read + written" : t->read ? "read" : "written";
    w->working_set_bytes = (t->read + t->written) * s.bytes;
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read + w->bytes_written};
    w->predicted_ns = 2000 + (w->bytes_read + w->bytes_written) / (q.cpu ? 8 : 1000);
    return AS_OK;
}

/* ---- arithmetic, atomics ---- */

/* The steps are the output: one number that the reference knows. */
static void steps(as_work *w) {
    output(w, "steps", AS_F64, 1, 1);
    w->working_set_bytes = 8;
    w->check = AS_CHECK_REFERENCE;
}

static void multiply_adds(as_work *w, const char *bound, double count, double per_ns) {
    steps(w);
    w->flops = 2 * count;
    w->convention = "a multiply-add is two operations";
    w->bound[w->bounds++] = (as_bound){bound, w->flops};
    w->predicted_ns = 2000 + w->flops / per_ns;
}

static as_status describe_fma(question q, as_work *w, as_error *e) {
    static const struct {
        const char *type, *bound;
        bool cuda;
    } rows[] = {{"f32", "flops.f32", true}, {"f64", "flops.f64", true}, {"bf16", "flops.bf16", false}};
    const char *type = as_params_text(q.p, "type"), *width = as_params_text(q.p, "width");
    const char *widths = q.cpu ? "widest, 128, 256, 512" : "widest";
    if (!is_word_of(widths, width))
        return as_fail(e, AS_EUSAGE, "ceiling/fma: width is one of %s, not '%.20s'", widths, width);
    for (int i = 0; i < AS_COUNT(rows); i++)
        if (strcmp(rows[i].type, type) == 0 && (q.cpu || rows[i].cuda)) {
            multiply_adds(w, rows[i].bound,
                          q.cpu ? (double)as_ceiling_fma_steps_cpu(q.p)
                                : (double)AS_CEILING_FMA_THREADS * AS_CEILING_FMA_CHAINS * AS_CEILING_FMA_STEPS,
                          q.cpu ? 50 : 10000);
            return AS_OK;
        }
    return as_fail(e, AS_EUSAGE, "ceiling/fma needs type:f32, f64%s", q.cpu ? " or bf16" : "");
}

static as_status describe_tensor(question q, as_work *w, as_error *e) {
    const char *types = q.cpu ? "bf16, s8" : "tf32, bf16, f16, e4m3, s8", *type = as_params_text(q.p, "type");
    const as_matmul_type *t = as_matmul_type_named(type);
    if (!t || !is_word_of(types, type))
        return as_fail(e, AS_EUSAGE, "ceiling/tensor needs a type: %s", types);
    const int bytes = (int)as_dtype_bytes(t->in);
    multiply_adds(w, t->ceiling,
                  q.cpu ? (double)as_ceiling_tensor_steps_cpu(q.p, bytes) : as_ceiling_tensor_steps(bytes),
                  q.cpu ? 1000 : 100000);
    return AS_OK;
}

static as_status describe_atomic(question q, as_work *w, as_error *e) {
    const char *level = as_params_text(q.p, "level");
    if (!is_word_of(q.cpu ? "none" : "l2, shared", level))
        return as_fail(e, AS_EUSAGE,
                       q.cpu ? "ceiling/atomic on the cpu has no level: leave it out"
                             : "ceiling/atomic on a GPU needs level:l2 or level:shared");
    if (strcmp(level, "l2") == 0) {
        output(w, "counters", AS_U32, 1, AS_CEILING_COUNTERS);
        w->working_set_bytes = 4 * AS_CEILING_COUNTERS;
        w->check = AS_CHECK_REFERENCE;
    } else {
        steps(w);
    }
    w->items = q.cpu ? AS_CEILING_ADDITIONS_CPU : AS_CEILING_ADDITIONS;
    w->item = "addition";
    w->convention = "no bytes counted";
    w->bound[w->bounds++] = (as_bound){strcmp(level, "shared") == 0 ? "atomics.shared" : "atomics", w->items};
    w->predicted_ns = 5000 + w->items * (q.cpu ? 8 : 0.002);
    return AS_OK;
}

/* ---- links, launches ---- */

static as_status describe_link(question q, as_work *w, as_error *e) {
    const char *dir = as_params_text(q.p, "dir");
    const bool both = strcmp(dir, "both") == 0, h2d = both || strcmp(dir, "h2d") == 0;
    if (!is_word_of("h2d, d2h, both", dir))
        return as_fail(e, AS_EUSAGE, "ceiling/link needs dir:h2d, d2h or both");
    const int64_t bytes = AS_CEILING_LINK_BYTES;
    const as_memory from = h2d ? AS_MEM_PINNED : AS_MEM_DEVICE, to = h2d && !both ? AS_MEM_DEVICE : AS_MEM_PINNED;
    w->operand[w->operands++] = (as_operand){"source", AS_IN, from, AS_U8, AS_BITS, bytes, AS_CEILING_WORDS};
    w->operand[w->operands++] = (as_operand){"destination", AS_OUT, to, AS_U8, AS_BITS, bytes, 0};
    w->bytes_read = (both ? 2.0 : 1.0) * (double)bytes;
    w->convention = both ? "copied once in each direction" : "copied once";
    w->working_set_bytes = 2 * bytes;
    w->state_bytes = both ? 2 * bytes : 0;
    w->bound[w->bounds++] = (as_bound){both ? "link.both" : h2d ? "link.h2d" : "link.d2h", w->bytes_read};
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

static as_status describe_one(question q, const char *variant, as_work *w, as_error *e) {
    const traffic *t = traffic_of(variant);
    if (t)
        return describe_traffic(q, t, w, e);
    if (strcmp(variant, "fma") == 0)
        return describe_fma(q, w, e);
    if (strcmp(variant, "tensor") == 0)
        return describe_tensor(q, w, e);
    if (strcmp(variant, "atomic") == 0)
        return describe_atomic(q, w, e);
    if (strcmp(variant, "link") == 0)
        return describe_link(q, w, e);
    describe_launch(w);
    return AS_OK;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    const question q = {p, d, strcmp(v->on, "cpu") == 0};
    AS_TRY(as_suite_check_common(p, d, e));
    *w = (as_work){0};
    AS_TRY(describe_one(q, v->name, w, e));
    if (w->check == AS_CHECK_REFERENCE && w->tolerance == 0)
        w->tolerance = 0.25; /* outputs are whole numbers: any difference is at least 1 */
    return AS_OK;
}

const as_suite as_ceiling_suite = {
    .name = "ceiling",
    .summary = "what each resource gives at best",
    .only_if_named = true,
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = as_ceiling_reference,
};
