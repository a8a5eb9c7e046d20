#include "bench.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

size_t as_operand_bytes(const as_operand *o) { return (size_t)o->count * as_dtype_bytes(o->type); }

as_status as_workshop_open(as_workshop *w, const as_device_driver *driver, int index, const as_placement *place,
                           uint64_t seed, as_error *e) {
    memset(w, 0, sizeof *w);
    w->placement = *place;
    w->seed = seed;
    /* The driver's own threads start under the whole placement's mask; only then is this thread pinned. */
    AS_TRY(as_place_bind_process(place, e));
    AS_TRY(driver->open(index, &w->device, e));
    w->device.place = &w->placement;
    w->placed = as_place_json(place);
    as_status s = as_place_bind(place, 0, e);
    if (s == AS_OK)
        s = driver->stream_create(&w->device, &w->stream, e);
    if (s == AS_OK)
        s = driver->event_create(&w->device, &w->from, e);
    if (s == AS_OK)
        s = driver->event_create(&w->device, &w->to, e);
    if (s == AS_OK)
        s = as_inputs_create(&w->inputs, &w->device, seed, e);
    if (s != AS_OK)
        as_workshop_close(w);
    return s;
}

void as_workshop_close(as_workshop *w) {
    const as_device_driver *driver = w->device.driver;
    for (int i = 0; i < AS_MAX_TEAMS; i++)
        as_team_destroy(w->team[i]);
    as_inputs_free(w->inputs);
    if (driver) {
        if (w->from)
            driver->event_destroy(&w->device, w->from);
        if (w->to)
            driver->event_destroy(&w->device, w->to);
        if (w->stream)
            driver->stream_destroy(&w->device, w->stream);
        driver->close(&w->device);
    }
    json_decref(w->placed);
    memset(w, 0, sizeof *w);
}

/* The team of the size that axis `threads` asks: a number, or "all" for one member a core. */
static as_status team_for(as_workshop *w, const as_params *p, as_team **out, as_error *e) {
    *out = NULL;
    if (w->device.driver != &as_cpu_driver)
        return AS_OK;
    const int64_t n = as_params_has(p, "threads") ? as_params_int(p, "threads") : 1;
    const int size = n < 0 ? w->placement.cores : (int)n;
    for (int i = 0; i < AS_MAX_TEAMS; i++) {
        if (!w->team[i])
            AS_TRY(as_team_create(&w->team[i], size, &w->placement, e));
        if (as_team_size(w->team[i]) == size) {
            *out = w->team[i];
            return AS_OK;
        }
    }
    return as_fail(e, AS_EENV, "more than %d team sizes in one launch; select fewer with --filter", AS_MAX_TEAMS);
}

static as_status make_copy(as_bench *b, as_workshop *w, int copy, as_team *team, as_error *e) {
    void **operand = &b->operand[copy * AS_MAX_OPERANDS];
    for (int i = 0; i < b->work.operands; i++) {
        const as_operand *o = &b->work.operand[i];
        if (o->role == AS_IN)
            AS_TRY(as_inputs_acquire(w->inputs, o, copy, &operand[i], e));
        else
            AS_TRY(w->device.driver->alloc(&w->device, o->memory, as_operand_bytes(o), &operand[i], e));
    }
    as_call *c = &b->call[copy];
    *c = (as_call){.params = &b->params,
                   .operand = operand,
                   .device = &w->device,
                   .stream = w->stream,
                   .team = team,
                   .place = &w->placement,
                   .extra = b->extra,
                   .own_ns = &b->own_ns};
    if (b->variant->prepare)
        AS_TRY(b->variant->prepare(c, &c->state, e));
    b->prepared = copy + 1;
    return AS_OK;
}

static as_status sum_inputs(as_bench *b, as_workshop *w, as_error *e) {
    uint64_t h = 0;
    for (int i = 0; i < b->work.operands; i++)
        if (b->work.operand[i].role == AS_IN)
            AS_TRY(as_device_checksum(&w->device, b->operand[i], as_operand_bytes(&b->work.operand[i]), h, &h, e));
    b->input_checksum = h;
    return AS_OK;
}

as_status as_bench_prepare(as_bench *b, as_workshop *w, as_error *e) {
    as_case_id(b->id, b->suite->name, b->variant->name, &b->params, w->device.name);
    AS_TRY(b->suite->describe(&b->params, b->variant, &w->device, &b->work, e));
    if (b->variant->available)
        AS_TRY(b->variant->available(&w->device, e));
    b->call = calloc((size_t)b->copies, sizeof *b->call);
    b->operand = calloc((size_t)b->copies * AS_MAX_OPERANDS, sizeof *b->operand);
    as_team *team = NULL;
    void *extra = NULL;
    as_status s = b->call && b->operand ? team_for(w, &b->params, &team, e) : as_fail(e, AS_ENOMEM, "out of memory");
    if (s == AS_OK)
        s = w->device.driver->alloc(&w->device, AS_MEM_PINNED, AS_MAX_EXTRA * sizeof *b->extra, &extra, e);
    b->extra = extra;
    for (int i = 0; s == AS_OK && i < AS_MAX_EXTRA; i++)
        b->extra[i] = 0;
    for (int copy = 0; copy < b->copies && s == AS_OK; copy++)
        s = make_copy(b, w, copy, team, e);
    if (s == AS_OK)
        s = sum_inputs(b, w, e);
    if (s == AS_OK)
        s = as_bench_poison(b, w, e);
    if (s != AS_OK)
        as_bench_release(b, w);
    return s;
}

void as_bench_release(as_bench *b, as_workshop *w) {
    const as_device_driver *driver = w->device.driver;
    if (b->graph)
        driver->graph_destroy(&w->device, b->graph);
    for (int copy = 0; copy < b->prepared; copy++)
        if (b->variant->finish && b->call[copy].state)
            b->variant->finish(b->call[copy].state);
    for (int copy = 0; b->operand && copy < b->copies; copy++)
        for (int i = 0; i < b->work.operands; i++) {
            void *p = b->operand[copy * AS_MAX_OPERANDS + i];
            if (p && b->work.operand[i].role == AS_IN)
                as_inputs_release(w->inputs, p);
            else if (p)
                driver->release(&w->device, b->work.operand[i].memory, p);
        }
    if (b->extra)
        driver->release(&w->device, AS_MEM_PINNED, b->extra);
    free(b->call);
    free(b->operand);
    b->extra = NULL;
    b->call = NULL;
    b->operand = NULL;
    b->graph = NULL;
    b->prepared = 0;
}

as_status as_bench_poison(as_bench *b, as_workshop *w, as_error *e) {
    for (int copy = 0; copy < b->copies; copy++)
        for (int i = 0; i < b->work.operands; i++)
            if (b->work.operand[i].role == AS_OUT)
                AS_TRY(w->device.driver->set(&w->device, b->operand[copy * AS_MAX_OPERANDS + i], 0xFF,
                                             as_operand_bytes(&b->work.operand[i]), e));
    return AS_OK;
}
