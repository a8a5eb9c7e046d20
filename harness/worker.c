/* Commands (field "do") and answers:
 *
 *   open    device kind, index, seed, cpus      -> description, read_back
 *   prepare case, suite, variant, axes, copies  -> ns, input_checksum
 *   verify  case                                -> verification, ns
 *   warmup  case, batch, limit_ns               -> batch, op_ns, spent_ns, warm
 *   round   case, samples, batch                -> begin_ns, end_ns, time[], host[], extra{}, row{}, counters{}, flags[]
 *   check   case                                -> passed, detail, output_checksum
 *   energy  case, batch                         -> energy{}
 *   parts   case                                -> parts{}
 *   release case                                -> {}
 *
 * Every answer carries ok; a failed one status and message. */
#include "worker.h"
#include "build_info.h"
#include "energy.h"
#include "measure.h"
#include "plan.h"
#include "process.h"
#include "verify.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct worker {
    const as_registry *registry;
    as_workshop shop;
    as_bench **bench; /* by the plan's case number; NULL: not prepared */
    int capacity;
    as_reference_cache references;
    as_round round; /* reused: rounds allocate nothing of their own */
    const as_suite *exec_suite;
    char *reference_folder; /* NULL: none */
    void *monitor;          /* of the device's energy counter; opened by the first pass */
    as_peer peer;
} worker;

static int64_t get_int(const json_t *m, const char *key) { return json_integer_value(json_object_get(m, key)); }

static const char *get_text(const json_t *m, const char *key) {
    const char *s = json_string_value(json_object_get(m, key));
    return s ? s : "";
}

/* ---- open ---- */

static as_status do_open(worker *w, const json_t *m, json_t *answer, as_error *e) {
    const char *kind = get_text(m, "kind");
    const as_device_driver *driver = strcmp(kind, as_cpu_driver.kind) == 0 ? &as_cpu_driver : NULL;
    for (const as_device_driver *const *d = w->registry->drivers; d && *d && !driver; d++)
        if (strcmp((*d)->kind, kind) == 0)
            driver = *d;
    if (!driver)
        return as_fail(e, AS_EABSENT, "no driver for %s", kind);
    if (strcmp(get_text(m, "build"), as_build.source_hash) != 0)
        return as_fail(e, AS_EENV, "the binary was replaced while it ran; start again");
    if (*get_text(m, "exec"))
        AS_TRY(as_exec_suite_create(&w->exec_suite, get_text(m, "exec"), get_text(m, "exec_name"), e));
    as_placement place;
    const char *cpus = json_string_value(json_object_get(m, "cpus"));
    const char *near = json_string_value(json_object_get(m, "near"));
    AS_TRY(as_place_resolve(&(as_place_request){.cpus = cpus, .near_pci = near}, &place, e));
    AS_TRY(as_workshop_open(&w->shop, driver, (int)get_int(m, "index"), &place, strtoull(get_text(m, "seed"), NULL, 10),
                            e));
    const char *references = get_text(m, "references");
    w->reference_folder = *references ? strdup(references) : NULL;
    w->shop.references = w->reference_folder;
    json_object_set(answer, "placement", w->shop.placed);
    json_object_set_new(answer, "clock_cost_ns", json_real(as_host_clock_cost_ns()));
    return AS_OK;
}

/* ---- cases ---- */

static as_status find_suite(worker *w, const json_t *m, as_bench *b, as_error *e) {
    const char *name = get_text(m, "suite"), *variant = get_text(m, "variant");
    const as_suite *all[64];
    int n = 0;
    if (w->exec_suite)
        all[n++] = w->exec_suite;
    if (w->registry->ceilings)
        all[n++] = w->registry->ceilings;
    for (const as_suite *const *s = w->registry->suites; s && *s && n < 64; s++)
        all[n++] = *s;
    for (int i = 0; i < n; i++)
        if (strcmp(all[i]->name, name) == 0)
            for (const as_variant *v = all[i]->variants; v->name; v++)
                if (strcmp(v->name, variant) == 0 && strcmp(v->on, w->shop.device.driver->kind) == 0) {
                    b->suite = all[i];
                    b->variant = v;
                    return AS_OK;
                }
    return as_fail(e, AS_EUSAGE, "no variant %s/%s", name, variant);
}

static as_status slot(worker *w, int64_t number, as_error *e) {
    if (number < w->capacity)
        return AS_OK;
    int capacity = (int)number + 256;
    as_bench **bigger = realloc(w->bench, sizeof *bigger * (size_t)capacity);
    if (!bigger)
        return as_fail(e, AS_ENOMEM, "out of memory");
    memset(bigger + w->capacity, 0, sizeof *bigger * (size_t)(capacity - w->capacity));
    w->bench = bigger;
    w->capacity = capacity;
    return AS_OK;
}

static as_status do_prepare(worker *w, const json_t *m, json_t *answer, as_error *e) {
    const int64_t number = get_int(m, "case"), begin = as_now_ns();
    AS_TRY(slot(w, number, e));
    as_bench *b = calloc(1, sizeof *b);
    if (!b)
        return as_fail(e, AS_ENOMEM, "out of memory");
    b->copies = (int)get_int(m, "copies");
    as_status s = find_suite(w, m, b, e);
    if (s == AS_OK)
        s = as_params_init(&b->params, b->suite->axes, b->suite->n_axes, e);
    const char *axis;
    json_t *value;
    json_object_foreach((json_t *)json_object_get(m, "axes"), axis, value) {
        if (s == AS_OK)
            s = as_params_set(&b->params, axis, json_string_value(value), e);
    }
    if (s == AS_OK)
        s = as_bench_prepare(b, &w->shop, e);
    if (s != AS_OK) {
        free(b);
        return s;
    }
    w->bench[number] = b;
    char sum[20];
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)b->input_checksum);
    json_object_set_new(answer, "input_checksum", json_string(sum));
    json_object_set_new(answer, "ns", json_integer(as_now_ns() - begin));
    return AS_OK;
}

static as_status do_verify(worker *w, as_bench *b, json_t *answer, as_error *e) {
    const int64_t begin = as_now_ns();
    as_verdict verdict;
    AS_TRY(as_verify(b, &w->shop, &w->references, &verdict, e));
    json_object_set_new(answer, "verification", as_verdict_json(&verdict, b));
    json_object_set_new(answer, "ns", json_integer(as_now_ns() - begin));
    return AS_OK;
}

static as_status do_warmup(worker *w, as_bench *b, const json_t *m, json_t *answer, as_error *e) {
    as_warmup warm;
    AS_TRY(as_measure_warmup(b, &w->shop, get_int(m, "batch"), (double)get_int(m, "limit_ns"), &warm, e));
    json_object_set_new(answer, "batch", json_integer(warm.batch));
    json_object_set_new(answer, "op_ns", json_real(warm.op_ns));
    json_object_set_new(answer, "spent_ns", json_real(warm.spent_ns));
    json_object_set_new(answer, "warm", json_boolean(warm.warm));
    return AS_OK;
}

static json_t *integers(const int64_t *x, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(x[i]));
    return list;
}

static json_t *row_json(const as_gb_row *row) {
    json_t *counters = json_object();
    for (int i = 0; i < row->counters; i++)
        if (isfinite(row->counter[i].value))
            json_object_set_new(counters, row->counter[i].name, json_real(row->counter[i].value));
    return json_pack("{s:f, s:f, s:I, s:o}", "real_time", row->real_time_ns, "cpu_time", row->cpu_time_ns, "iterations",
                     (json_int_t)row->iterations, "counters", counters);
}

static void round_answer(const worker *w, const as_bench *b, json_t *answer) {
    const as_round *r = &w->round;
    json_object_set_new(answer, "begin_ns", json_integer(r->begin_ns));
    json_object_set_new(answer, "end_ns", json_integer(r->end_ns));
    json_object_set_new(answer, "time", integers(r->time_ns, r->samples));
    if (as_bench_device_clock(b, &w->shop))
        json_object_set_new(answer, "host", integers(r->host_ns, r->samples));
    json_t *extra = json_object();
    for (int i = 0; i < AS_MAX_EXTRA && b->variant->extra[i].name; i++) {
        if (!isfinite(r->extra[i][0])) /* this operation has no such series */
            continue;
        json_t *list = json_array();
        for (int k = 0; k < r->samples; k++)
            json_array_append_new(list, json_integer(llround(r->extra[i][k])));
        json_object_set_new(extra, b->variant->extra[i].name, list);
    }
    json_object_set_new(answer, "extra", extra);
    json_object_set_new(answer, "row", row_json(&r->row));
}

static as_status do_round(worker *w, as_bench *b, const json_t *m, json_t *answer, as_error *e) {
    as_device *device = &w->shop.device;
    as_round *r = &w->round;
    r->samples = (int)get_int(m, "samples");
    r->batch = get_int(m, "batch");
    if (r->samples < 1 || r->samples > AS_MAX_SAMPLES || r->batch < 1)
        return as_fail(e, AS_EUSAGE, "a round of %d samples of %lld operations", r->samples, (long long)r->batch);
    json_t *before = device->driver->counters(device);
    as_status s = as_measure_round(b, &w->shop, r, e);
    json_t *after = device->driver->counters(device), *flags = json_array();
    device->driver->judge(before, after, flags);
    if (!as_place_holds(&w->shop.placement, 0) || (b->call[0].team && !as_team_holds(b->call[0].team)))
        json_array_append_new(flags, json_string("placement lost"));
    if (s == AS_OK && r->suspicion[0])
        json_array_append_new(flags, json_string(r->suspicion));
    json_decref(before);
    json_object_set_new(answer, "counters", after);
    json_object_set_new(answer, "flags", flags);
    if (s == AS_OK)
        round_answer(w, b, answer);
    return s;
}

/* Poison, one run through the timed path (the captured graph where there is one), check. */
static as_status do_check(worker *w, as_bench *b, json_t *answer, as_error *e) {
    as_verdict verdict;
    AS_TRY(as_bench_poison(b, &w->shop, e));
    AS_TRY(as_measure_once(b, &w->shop, e));
    AS_TRY(as_verify_output(b, &w->shop, &w->references, &verdict, e));
    json_t *v = as_verdict_json(&verdict, b);
    json_object_set_new(answer, "passed", json_boolean(verdict.passed));
    json_object_set(answer, "output_checksum", json_object_get(v, "output_checksum"));
    json_object_set(answer, "detail", json_object_get(v, "detail"));
    json_decref(v);
    return AS_OK;
}

/* The counter is opened by the first pass that asks: NVML in a worker that measures no energy would be in the way. */
static as_status do_energy(worker *w, as_bench *b, const json_t *m, json_t *answer, as_error *e) {
    const as_device_telemetry *telemetry = w->shop.device.driver->telemetry;
    if (telemetry && !w->monitor) {
        json_t *description = w->shop.device.driver->describe(&w->shop.device);
        w->monitor = telemetry->open(description);
        json_decref(description);
    }
    json_t *energy = NULL;
    const int64_t batch = get_int(m, "batch");
    if (batch < 1)
        return as_fail(e, AS_EUSAGE, "an energy pass of batches of %lld operations", (long long)batch);
    AS_TRY(as_energy_measure(b, &w->shop, batch, telemetry, w->monitor, &as_energy_usual, &energy, e));
    json_object_set_new(answer, "energy", energy);
    return AS_OK;
}

static as_status do_parts(worker *w, as_bench *b, json_t *answer, as_error *e) {
    as_parts *parts = NULL;
    AS_TRY(as_parts_create(&parts, e));
    as_status s = as_measure_parts(b, parts, e);
    if (s == AS_OK)
        s = w->shop.device.driver->stream_sync(&w->shop.device, w->shop.stream, e);
    json_t *all = s == AS_OK ? as_parts_json(parts) : NULL;
    as_parts_free(parts);
    AS_TRY(s);
    if (!all)
        return as_fail(e, AS_ENOMEM, "no memory for a breakdown, or its variant ended no operation");
    json_object_set_new(answer, "parts", all);
    return AS_OK;
}

static void release(worker *w, int64_t number) {
    if (number < w->capacity && w->bench[number]) {
        as_bench_release(w->bench[number], &w->shop);
        free(w->bench[number]);
        w->bench[number] = NULL;
    }
}

/* ---- the loop ---- */

static as_status obey_case(worker *w, as_bench *b, const char *what, const json_t *m, json_t *answer, as_error *e) {
    if (strcmp(what, "verify") == 0)
        return do_verify(w, b, answer, e);
    if (strcmp(what, "warmup") == 0)
        return do_warmup(w, b, m, answer, e);
    if (strcmp(what, "round") == 0)
        return do_round(w, b, m, answer, e);
    if (strcmp(what, "check") == 0)
        return do_check(w, b, answer, e);
    if (strcmp(what, "energy") == 0)
        return do_energy(w, b, m, answer, e);
    if (strcmp(what, "parts") == 0)
        return do_parts(w, b, answer, e);
    return as_fail(e, AS_EUSAGE, "unknown command %s", what);
}

static as_status obey(worker *w, const json_t *m, json_t *answer, as_error *e) {
    const char *what = get_text(m, "do");
    const int64_t number = get_int(m, "case");
    if (strcmp(what, "open") == 0)
        return do_open(w, m, answer, e);
    if (strcmp(what, "prepare") == 0)
        return do_prepare(w, m, answer, e);
    if (number < 0 || number >= w->capacity || !w->bench[number])
        return as_fail(e, AS_EUSAGE, "case %lld is not prepared", (long long)number);
    if (strcmp(what, "release") == 0) {
        release(w, number);
        return AS_OK;
    }
    /* A profiler's time line shows the case and, within it, the stage. */
    const as_device_driver *driver = w->shop.device.driver;
    if (driver->range_push) {
        driver->range_push(w->bench[number]->id);
        driver->range_push(what);
    }
    const as_status s = obey_case(w, w->bench[number], what, m, answer, e);
    if (driver->range_push) {
        driver->range_pop();
        driver->range_pop();
    }
    return s;
}

int as_worker_main(const as_registry *registry) {
    worker *w = calloc(1, sizeof *w);
    if (!w)
        return 3;
    w->registry = registry;
    as_peer_of_parent(&w->peer);
    for (;;) {
        json_t *message = NULL;
        if (as_peer_receive(&w->peer, &message, INT64_MAX / 4, NULL, NULL) != AS_OK)
            break;
        as_error e = {0};
        json_t *answer = json_object();
        const as_status s = obey(w, message, answer, &e);
        json_object_set_new(answer, "ok", json_boolean(s == AS_OK));
        if (s != AS_OK) {
            json_object_set_new(answer, "status", json_integer(s));
            json_object_set_new(answer, "message", json_string(e.message));
        }
        const as_status sent = as_peer_send(&w->peer, answer, &e);
        json_decref(answer);
        json_decref(message);
        if (sent != AS_OK)
            break;
    }
    for (int i = 0; i < w->capacity; i++)
        release(w, i);
    as_reference_cache_free(&w->references);
    as_exec_suite_free(w->exec_suite);
    if (w->monitor)
        w->shop.device.driver->telemetry->close(w->monitor);
    if (w->shop.device.driver)
        as_workshop_close(&w->shop);
    free(w->reference_folder);
    free(w->bench);
    free(w->peer.buffer);
    free(w);
    return 0;
}
