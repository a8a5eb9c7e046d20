/* Float64 references: which rows, by whom they are computed, and the comparison. */
#include "build_info.h"
#include "reference_file.h"
#include "verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whole output by the host where that is cheap: up to 512 x 512 x 512 and ragged shapes, and up to 32 MiB of doubles. */
static const double whole_flops = 3e8;
enum { SAMPLED_ROWS = 64, CROSS_ROWS = 8, WHOLE_ELEMENTS = 4 << 20 };

void as_reference_cache_free(as_reference_cache *c) {
    free(c->rows);
    free(c->expected);
    free(c->scale);
    memset(c, 0, sizeof *c);
}

static int by_value(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* All rows; or a seeded sample with the first and last row of every tile, so that a kernel wrong only at an edge is
 * seen. Sorted, without repeats. Returns NULL when out of memory. */
static int64_t *choose_rows(const as_work *work, bool whole, uint64_t seed, int64_t sample, int64_t *n_out) {
    const int64_t total = work->rows;
    const int64_t edges = !whole && work->tile > 0 ? 2 * (total / work->tile + 1) : 0;
    const int64_t capacity = whole ? total : sample + edges + 2;
    int64_t *rows = malloc(sizeof *rows * (size_t)(capacity > 0 ? capacity : 1));
    int64_t n = 0;
    if (!rows)
        return NULL;
    if (whole) {
        for (; n < total; n++)
            rows[n] = n;
    } else {
        as_rng rng = {.seed = seed, .key = 0x7265666u};
        rows[n++] = 0;
        rows[n++] = total - 1;
        for (int64_t i = 0; i < sample; i++)
            rows[n++] = (int64_t)as_rng_below(&rng, (uint64_t)total);
        for (int64_t r = 0; edges && r < total; r += work->tile) {
            rows[n++] = r;
            if (r > 0)
                rows[n++] = r - 1;
        }
        qsort(rows, (size_t)n, sizeof *rows, by_value);
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++)
            if (kept == 0 || rows[i] != rows[kept - 1])
                rows[kept++] = rows[i];
        n = kept;
    }
    *n_out = n;
    return rows;
}

/* Index of the operand that is judged. */
static int output_of(const as_work *work) {
    int out = work->operands - 1;
    while (out > 0 && work->operand[out].role != AS_OUT)
        out--;
    return out;
}

/* ---- by the host ---- */

static as_status host_reference(as_bench *b, uint64_t seed, const void *output, const int64_t *rows, int64_t n_rows,
                                double *expected, double *scale, as_error *e) {
    const void *input[AS_MAX_OPERANDS] = {0};
    as_status s = AS_OK;
    for (int i = 0; i < b->work.operands && s == AS_OK; i++) {
        const as_operand *o = &b->work.operand[i];
        if (o->role != AS_IN)
            continue;
        void *p = malloc(as_operand_bytes(o) + 1);
        input[i] = p;
        if (!p)
            s = as_fail(e, AS_ENOMEM, "no host memory for the reference's inputs");
        else
            as_rng_fill(p, o->type, o->dist, 0, (uint64_t)o->count, seed, o->key);
    }
    if (s == AS_OK)
        s = b->suite->reference(&(as_reference){&b->params, &b->work, input, rows, n_rows, expected, scale, output}, e);
    for (int i = 0; i < b->work.operands; i++)
        free((void *)input[i]);
    return s;
}

/* ---- by a plain float64 kernel on the device, itself checked against the host on seeded rows ---- */

static as_status device_reference(as_bench *b, as_workshop *w, int copy, double *expected, double *scale, as_error *e) {
    const as_device_driver *driver = w->device.driver;
    const size_t bytes = (size_t)(b->work.rows * b->work.columns) * sizeof(double);
    void *operand[AS_MAX_OPERANDS + 2] = {0};
    int n = 0;
    for (int i = 0; i < b->work.operands; i++)
        if (b->work.operand[i].role == AS_IN)
            operand[n++] = b->operand[i];
    if (b->work.follows_output)
        operand[n++] = b->operand[copy * AS_MAX_OPERANDS + output_of(&b->work)];
    void *outputs[2] = {0};
    as_status s = AS_OK;
    for (int i = 0; i < 2 && s == AS_OK; i++) {
        s = driver->alloc(&w->device, AS_MEM_DEVICE, bytes, &outputs[i], e);
        if (s == AS_OK)
            s = driver->set(&w->device, outputs[i], 0xFF, bytes, e);
        operand[n + i] = outputs[i];
    }
    as_call call = b->call[0];
    call.operand = operand;
    call.state = NULL;
    if (s == AS_OK)
        s = b->suite->device_reference(&call, e);
    if (s == AS_OK)
        s = driver->stream_sync(&w->device, w->stream, e);
    if (s == AS_OK)
        s = driver->copy(&w->device, expected, outputs[0], bytes, e);
    if (s == AS_OK)
        s = driver->copy(&w->device, scale, outputs[1], bytes, e);
    for (int i = 0; i < 2; i++)
        if (outputs[i])
            driver->release(&w->device, AS_MEM_DEVICE, outputs[i]);
    return s;
}

/* Seeded rows beside the first and the last one. */
static int64_t sample_of(const as_work *work, int64_t usual) {
    const int64_t most = work->reference_rows > 2 ? work->reference_rows - 2 : 0;
    return work->reference_rows && most < usual ? most : usual;
}

static as_status cross_check(as_bench *b, uint64_t seed, const void *output, const double *expected,
                             const double *scale, as_error *e) {
    const int64_t columns = b->work.columns;
    as_work sampled = b->work;
    sampled.tile = 0; /* tile edges are the business of the full check */
    int64_t n = 0, *rows = choose_rows(&sampled, false, seed, sample_of(&b->work, CROSS_ROWS), &n);
    double *x = malloc(sizeof *x * (size_t)(n * columns)), *y = malloc(sizeof *y * (size_t)(n * columns));
    as_status s =
        rows && x && y ? host_reference(b, seed, output, rows, n, x, y, e) : as_fail(e, AS_ENOMEM, "out of memory");
    for (int64_t i = 0; s == AS_OK && i < n * columns; i++) {
        const int64_t at = rows[i / columns] * columns + i % columns;
        const double bound = 1e-12 * y[i];
        if (!(fabs(expected[at] - x[i]) <= bound) || !(fabs(scale[at] - y[i]) <= bound))
            s = as_fail(e, AS_EFAIL, "the device's float64 reference disagrees with the host's at element %lld",
                        (long long)at);
    }
    free(rows);
    free(x);
    free(y);
    return s;
}

static bool whole_by_host(const as_work *work) {
    if (work->reference_rows)
        return work->rows <= work->reference_rows;
    return (work->flops <= whole_flops && work->rows * work->columns <= WHOLE_ELEMENTS) || work->rows <= SAMPLED_ROWS;
}

static bool on_device(const as_bench *b, const as_workshop *w) {
    return (b->work.reference_by_device || !whole_by_host(&b->work)) && b->suite->device_reference &&
           strcmp(b->suite->device_reference_on, w->device.driver->kind) == 0;
}

static as_status compute(as_bench *b, as_workshop *w, int copy, const void *output, as_reference_cache *c,
                         as_error *e) {
    const as_work *work = &b->work;
    const bool device = on_device(b, w);
    c->rows = choose_rows(work, device || whole_by_host(work), w->seed, sample_of(work, SAMPLED_ROWS), &c->n_rows);
    const size_t n = (size_t)(c->n_rows * work->columns) + 1;
    c->expected = malloc(sizeof *c->expected * n);
    c->scale = malloc(sizeof *c->scale * n);
    if (!c->rows || !c->expected || !c->scale)
        return as_fail(e, AS_ENOMEM, "no host memory for the reference");
    if (device) {
        AS_TRY(device_reference(b, w, copy, c->expected, c->scale, e));
        return work->reference_by_device ? AS_OK : cross_check(b, w->seed, output, c->expected, c->scale, e);
    }
    return host_reference(b, w->seed, output, c->rows, c->n_rows, c->expected, c->scale, e);
}

/* From disk, or computed and stored. On failure the cache is empty. */
static as_status fill_cache(as_bench *b, as_workshop *w, int copy, const void *output, as_reference_cache *c,
                            const char *key, as_error *e) {
    as_reference_cache_free(c);
    snprintf(c->key, sizeof c->key, "%s", key);
    if (w->references && as_reference_load(c, w->references, b->work.columns))
        return AS_OK;
    const as_status s = compute(b, w, copy, output, c, e);
    if (s != AS_OK)
        as_reference_cache_free(c);
    else if (w->references)
        as_reference_store(c, w->references, b->work.columns);
    return s;
}

/* Everything that the reference depends on: inputs, shape, seed, parameters, which rows and the code that computes it;
 * not the variant, nor the axes by which it works otherwise for the same output. */
static bool changes_output(const as_param *p) {
    static const char *const others[] = {"threads", "cache", "config"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(p->axis->name, others[i]) == 0)
            return false;
    return !as_param_is_default(p);
}

static void reference_key(const as_bench *b, const as_workshop *w, const void *output, char key[AS_ID_MAX]) {
    size_t n = (size_t)snprintf(key, AS_ID_MAX, "%s %lldx%lld %.17g %.17g %s%lld %llu %.16s", b->suite->name,
                                (long long)b->work.rows, (long long)b->work.columns, b->work.flops, b->work.bytes_read,
                                on_device(b, w) ? "all" : "rows", (long long)b->work.tile, (unsigned long long)w->seed,
                                as_build.source_hash);
    for (int i = 0; i < b->work.operands && n < AS_ID_MAX; i++)
        n +=
            (size_t)snprintf(key + n, AS_ID_MAX - n, " %d.%d.%lld.%u", (int)b->work.operand[i].type,
                             (int)b->work.operand[i].dist, (long long)b->work.operand[i].count, b->work.operand[i].key);
    if (output && n < AS_ID_MAX)
        n += (size_t)snprintf(
            key + n, AS_ID_MAX - n, " of %016llx",
            (unsigned long long)as_checksum(output, as_operand_bytes(&b->work.operand[output_of(&b->work)]), 0));
    for (int i = 0; i < b->params.count && n < AS_ID_MAX; i++) {
        const as_param *p = &b->params.value[i];
        if (changes_output(p))
            n += (size_t)snprintf(key + n, AS_ID_MAX - n, " %s:%s", p->axis->name, p->text);
    }
}

/* ---- comparison ---- */

static double to_double(const void *p, as_dtype type, int64_t i) {
    switch (type) {
    case AS_F32:
    case AS_TF32: return ((const float *)p)[i];
    case AS_F64: return ((const double *)p)[i];
    case AS_I8: return ((const int8_t *)p)[i];
    case AS_U8: return ((const uint8_t *)p)[i];
    case AS_U32: return ((const uint32_t *)p)[i];
    case AS_I32: return ((const int32_t *)p)[i];
    case AS_BF16: {
        const uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    case AS_F16: {
        const unsigned h = ((const uint16_t *)p)[i];
        const int exponent = (h >> 10) & 31, fraction = h & 1023;
        const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                                : ldexp(fraction, -24);
        return h & 0x8000 ? -magnitude : magnitude;
    }
    case AS_F8E4M3: {
        const unsigned h = ((const uint8_t *)p)[i];
        const int exponent = (h >> 3) & 15, fraction = h & 7;
        const double magnitude = (h & 127) == 127 ? NAN
                                 : exponent       ? ldexp(8 + fraction, exponent - 10)
                                                  : ldexp(fraction, -9);
        return h & 0x80 ? -magnitude : magnitude;
    }
    }
    return NAN;
}

static void compare_row(const as_bench *b, const as_reference_cache *c, int64_t k, const void *row, as_dtype type,
                        as_verdict *v) {
    for (int64_t j = 0; j < b->work.columns; j++) {
        const double want = c->expected[k * b->work.columns + j],
                     bound = b->work.tolerance * c->scale[k * b->work.columns + j];
        const double got = to_double(row, type, j), error = fabs(got - want);
        if (error <= bound) {
            if (bound > 0 && error / bound > v->max_error)
                v->max_error = error / bound;
            continue;
        }
        if (v->passed)
            snprintf(v->detail, sizeof v->detail, "row %lld, column %lld: %.9g, expected %.9g +- %.3g",
                     (long long)c->rows[k], (long long)j, got, want, bound);
        v->passed = false;
    }
}

/* The output of a case whose reference follows it; NULL for the others. */
static as_status copy_output(as_bench *b, as_workshop *w, int copy, void **out, as_error *e) {
    *out = NULL;
    if (!b->work.follows_output)
        return AS_OK;
    const int at = output_of(&b->work);
    const size_t bytes = as_operand_bytes(&b->work.operand[at]);
    *out = malloc(bytes + 1);
    if (!*out)
        return as_fail(e, AS_ENOMEM, "no host memory to check the output");
    return w->device.driver->copy(&w->device, *out, b->operand[copy * AS_MAX_OPERANDS + at], bytes, e);
}

static as_status compare(as_bench *b, as_workshop *w, int copy, const as_reference_cache *c, as_verdict *v,
                         as_error *e) {
    const int out = output_of(&b->work);
    const as_dtype type = b->work.operand[out].type;
    const size_t row_bytes = (size_t)b->work.columns * as_dtype_bytes(type);
    /* One read back for all rows: a copy a row would take a device round trip each. */
    const int64_t first = c->n_rows ? c->rows[0] : 0, last = c->n_rows ? c->rows[c->n_rows - 1] + 1 : 0;
    char *host = malloc((size_t)(last - first) * row_bytes + 1);
    if (!host)
        return as_fail(e, AS_ENOMEM, "no host memory to check the output");
    const as_status s = w->device.driver->copy(
        &w->device, host, (const char *)b->operand[copy * AS_MAX_OPERANDS + out] + (size_t)first * row_bytes,
        (size_t)(last - first) * row_bytes, e);
    v->passed = true;
    v->max_error = 0;
    for (int64_t k = 0; s == AS_OK && k < c->n_rows; k++)
        compare_row(b, c, k, host + (size_t)(c->rows[k] - first) * row_bytes, type, v);
    v->checked = c->n_rows * b->work.columns;
    free(host);
    return s;
}

as_status as_verify_reference(as_bench *b, as_workshop *w, int copy, as_reference_cache *c, as_verdict *v,
                              as_error *e) {
    char key[AS_ID_MAX];
    void *output = NULL;
    as_status s = copy_output(b, w, copy, &output, e);
    reference_key(b, w, s == AS_OK ? output : NULL, key);
    if (s == AS_OK && strcmp(key, c->key) != 0)
        s = fill_cache(b, w, copy, output, c, key, e);
    free(output);
    AS_TRY(s);
    return compare(b, w, copy, c, v, e);
}
