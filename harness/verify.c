#include "verify.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_name(as_check c) {
    switch (c) {
    case AS_CHECK_REFERENCE: return "reference";
    case AS_CHECK_COPY: return "copy";
    case AS_CHECK_EFFECT: return "effect";
    case AS_CHECK_EXIT: return "exit";
    }
    return "unknown";
}

static int output_index(const as_work *w) {
    for (int i = w->operands - 1; i >= 0; i--)
        if (w->operand[i].role == AS_OUT)
            return i;
    return -1;
}

static as_status run_once(as_bench *b, as_workshop *w, as_error *e) {
    for (int copy = 0; copy < b->copies; copy++)
        AS_TRY(b->variant->run(&b->call[copy], e));
    return w->device.driver->stream_sync(&w->device, w->stream, e);
}

/* The last operand must hold the first operand's seeded bytes: generated again here, not read from the source, so
 * that a kernel which overwrites its source is caught too. */
static as_status check_copy(as_bench *b, as_workshop *w, as_verdict *v, as_error *e) {
    enum { CHUNK = 8 << 20 };
    const as_operand *source = &b->work.operand[0];
    const int out = output_index(&b->work);
    const size_t size = as_dtype_bytes(source->type), chunk = CHUNK / size;
    char *expected = malloc(CHUNK), *got = malloc(CHUNK);
    as_status s = expected && got ? AS_OK : as_fail(e, AS_ENOMEM, "out of memory");
    v->passed = true;
    for (uint64_t at = 0; s == AS_OK && at < (uint64_t)source->count && v->passed; at += chunk) {
        uint64_t n = (uint64_t)source->count - at < chunk ? (uint64_t)source->count - at : chunk;
        as_rng_fill(expected, source->type, source->dist, at, n, w->seed, source->key);
        s = w->device.driver->copy(&w->device, got, (char *)b->operand[out] + at * size, n * size, e);
        if (s != AS_OK || memcmp(expected, got, n * size) == 0)
            continue;
        size_t i = 0;
        while (expected[i] == got[i])
            i++;
        v->passed = false;
        snprintf(v->detail, sizeof v->detail, "byte %llu is 0x%02x, expected 0x%02x",
                 (unsigned long long)(at * size + i), (unsigned char)got[i], (unsigned char)expected[i]);
    }
    v->checked = source->count * (int64_t)size;
    free(expected);
    free(got);
    return s;
}

/* A counting twin: the same variant with a counter, in a state of its own. */
static as_status check_effect(as_bench *b, as_workshop *w, as_verdict *v, as_error *e) {
    const as_device_driver *driver = w->device.driver;
    void *counter = NULL;
    AS_TRY(driver->alloc(&w->device, AS_MEM_DEVICE, sizeof(uint64_t), &counter, e));
    as_call twin = b->call[0];
    twin.counter = counter;
    twin.state = NULL;
    as_status s = driver->set(&w->device, counter, 0, sizeof(uint64_t), e);
    if (s == AS_OK && b->variant->prepare)
        s = b->variant->prepare(&twin, &twin.state, e);
    if (s == AS_OK) {
        s = driver->set(&w->device, counter, 0, sizeof(uint64_t), e); /* whatever prepare ran does not count */
        if (s == AS_OK)
            s = b->variant->run(&twin, e);
        if (s == AS_OK)
            s = driver->stream_sync(&w->device, w->stream, e);
        uint64_t count = 0;
        if (s == AS_OK)
            s = driver->copy(&w->device, &count, counter, sizeof count, e);
        v->checked = b->work.expected_count;
        v->passed = s == AS_OK && count == (uint64_t)b->work.expected_count;
        if (s == AS_OK && !v->passed)
            snprintf(v->detail, sizeof v->detail, "%llu executions, expected %lld", (unsigned long long)count,
                     (long long)b->work.expected_count);
        if (b->variant->finish && twin.state)
            b->variant->finish(twin.state);
    }
    driver->release(&w->device, AS_MEM_DEVICE, counter);
    return s;
}

static as_status output_checksum(as_bench *b, as_workshop *w, int copy, uint64_t *out, as_error *e) {
    const int i = output_index(&b->work);
    *out = 0;
    if (i < 0)
        return AS_OK;
    return as_device_checksum_whole(&w->device, b->operand[copy * AS_MAX_OPERANDS + i],
                                    as_operand_bytes(&b->work.operand[i]), out, e);
}

/* Every copy ran on the same inputs: a deterministic variant must have left the same bits everywhere. The others are
 * compared with the reference copy by copy. */
static as_status check_copies(as_bench *b, as_workshop *w, as_reference_cache *cache, as_verdict *v, as_error *e) {
    if (output_index(&b->work) < 0)
        return AS_OK;
    const bool deterministic = b->variant->flags & AS_DETERMINISTIC;
    if (deterministic)
        AS_TRY(output_checksum(b, w, 0, &v->checksum, e));
    for (int copy = 1; copy < b->copies && v->passed; copy++) {
        uint64_t h = 0;
        if (!deterministic && b->work.check == AS_CHECK_REFERENCE)
            AS_TRY(as_verify_reference(b, w, copy, cache, v, e));
        if (deterministic)
            AS_TRY(output_checksum(b, w, copy, &h, e));
        if (deterministic && h != v->checksum) {
            v->passed = false;
            snprintf(v->detail, sizeof v->detail, "copy %d differs from copy 0, though the variant is deterministic",
                     copy);
        }
    }
    return AS_OK;
}

as_status as_verify_output(as_bench *b, as_workshop *w, as_reference_cache *cache, as_verdict *v, as_error *e) {
    *v = (as_verdict){.kind = kind_name(b->work.check), .max_error = NAN};
    switch (b->work.check) {
    case AS_CHECK_REFERENCE: AS_TRY(as_verify_reference(b, w, 0, cache, v, e)); break;
    case AS_CHECK_COPY: AS_TRY(check_copy(b, w, v, e)); break;
    case AS_CHECK_EFFECT: return check_effect(b, w, v, e);
    case AS_CHECK_EXIT: /* the command's run fails by itself when its status or output differ */
        v->passed = true;
        v->checked = 1;
        return AS_OK;
    }
    if (v->checked == 0 && b->work.rows * b->work.columns > 0) {
        v->passed = false;
        snprintf(v->detail, sizeof v->detail, "no element was checked");
    }
    return v->passed ? check_copies(b, w, cache, v, e) : AS_OK;
}

as_status as_verify(as_bench *b, as_workshop *w, as_reference_cache *cache, as_verdict *v, as_error *e) {
    AS_TRY(as_bench_poison(b, w, e));
    AS_TRY(run_once(b, w, e));
    return as_verify_output(b, w, cache, v, e);
}

json_t *as_verdict_json(const as_verdict *v, const as_bench *b) {
    char in[20], out[20];
    const bool deterministic = b->variant->flags & AS_DETERMINISTIC,
               has_sum = deterministic && output_index(&b->work) >= 0;
    snprintf(in, sizeof in, "%016llx", (unsigned long long)b->input_checksum);
    snprintf(out, sizeof out, "%016llx", (unsigned long long)v->checksum);
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:b, s:s, s:o, s:s, s:o}", "kind", v->kind, "status",
                     v->passed ? "passed" : "failed", "checked", (json_int_t)v->checked, "max_error",
                     isfinite(v->max_error) ? json_real(v->max_error) : json_null(), "tolerance",
                     b->work.check == AS_CHECK_REFERENCE ? json_real(b->work.tolerance) : json_null(), "deterministic",
                     (int)deterministic, "input_checksum", in, "output_checksum",
                     has_sum ? json_string(out) : json_null(), "after_timing", "not_run", "detail",
                     v->detail[0] ? json_string(v->detail) : json_null());
}
