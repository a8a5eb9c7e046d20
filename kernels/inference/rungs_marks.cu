/* The marks of a breakdown: names, bytes and operations of stages; events between them. */
#include "rungs_marks.cuh"

#include <stdlib.h>
#include <string.h>

static as_status hear(void *context, as_decoder_stage stage, int layer, as_error *e) {
    as_recorder *r = (as_recorder *)context;
    if (r->n == r->room)
        return as_fail(e, AS_EFAIL, "more stages in a pass than expected");
    if (r->event)
        AS_CUDA(e, cudaEventRecordWithFlags(r->event[r->n], r->stream, r->flags));
    const as_mark_cuda m = {r->d, stage, layer};
    r->mark[r->n++] = m;
    return AS_OK;
}

/* ---- what a stage is called, moves and computes ---- */

typedef struct stage_row {
    const char *path, *gap;
    int role; /* of the matrix; -1: none */
} stage_row;
static const stage_row rows[AS_STAGES] = {
    {"embed", "gap/embed", -1},
    {"norm", "gap/norm", -1},
    {"qkv", "gap/qkv", AS_T_QKV},
    {"rotary", "gap/rotary", -1},
    {"attention", "gap/attention", -1},
    {"attention/join", "gap/attention/join", -1},
    {"output", "gap/output", AS_T_O},
    {"mlp/norm", "gap/mlp/norm", -1},
    {"mlp/gate_up", "gap/mlp/gate_up", AS_T_GATE_UP},
    {"mlp/activation", "gap/mlp/activation", -1},
    {"mlp/down", "gap/mlp/down", AS_T_DOWN},
    {"final_norm", "gap/final_norm", -1},
    {"head", "gap/head", AS_T_HEAD},
    {"head/scale", "gap/head/scale", -1},
};

static as_part describe(const as_mark_cuda *m, const char *source, double ns) {
    const as_decoder *d = m->d;
    const as_model *model = d->m;
    const double type = (double)as_dtype_bytes(d->step.type), batch = (double)d->step.batch, t = d->row_tokens;
    as_part p = {};
    p.phase = d->row_tokens > 1 || d->step.phase == AS_PHASE_PREFILL ? "prefill" : "decode";
    p.path = rows[m->stage].path;
    p.layer = m->layer;
    p.where = "device";
    p.source = source;
    p.ns = ns;
    if (rows[m->stage].role >= 0) {
        const as_tensor *w = &d->matrix[rows[m->stage].role].tensor;
        const double tokens = m->stage == AS_S_HEAD ? batch : (double)d->tokens;
        p.bytes = (double)w->rows * (double)w->columns * type;
        p.flops = 2 * tokens * (double)w->rows * (double)w->columns;
    } else if (m->stage == AS_S_ATTENTION) {
        const double first = d->step.phase == AS_PHASE_DECODE ? (double)d->step.context : 0;
        p.bytes = batch * (first + t) * 2 * model->kv_heads * model->head_dim * type;
        p.flops = 4 * batch * (t * first + t * (t + 1) / 2) * model->heads * model->head_dim;
    }
    /* More operations a byte than any device's rates are apart: arithmetic bounds it. */
    if (p.bytes > 0)
        p.ceiling = p.flops <= 128 * p.bytes ? "memory" : d->step.type == AS_BF16 ? "flops.bf16" : "flops.f32";
    return p;
}

void as_mark_add(as_parts *parts, const as_mark_cuda *m, const char *source, double ns) {
    const as_part p = describe(m, source, ns);
    as_parts_add(parts, &p);
}
void as_mark_add_other(as_parts *parts, const as_mark_cuda *m, const char *path, const char *where, const char *source,
                       double ns) {
    as_part p = describe(m, source, ns);
    p.path = path;
    p.layer = -1;
    p.where = where;
    p.bytes = p.flops = 0;
    p.ceiling = NULL;
    as_parts_add(parts, &p);
}
void as_mark_add_gap(as_parts *parts, const as_mark_cuda *m, const char *source, double ns) {
    as_part p = describe(m, source, ns);
    p.path = rows[m->stage].gap;
    p.bytes = p.flops = 0;
    p.ceiling = NULL;
    as_parts_add(parts, &p);
}

bool as_mark_is_library(const as_mark_cuda *m) {
    static const struct {
        as_decoder_stage stage;
        as_product_name product;
    } all[] = {{AS_S_QKV, AS_P_QKV},
               {AS_S_O, AS_P_O},
               {AS_S_GATE_UP, AS_P_GATE_UP},
               {AS_S_DOWN, AS_P_DOWN},
               {AS_S_HEAD, AS_P_HEAD}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].stage == m->stage)
            return m->d->library[all[i].product] != NULL;
    return false;
}

/* ---- recorders ---- */

void as_recorder_free(as_recorder *r) {
    if (r->d)
        memset(&r->d->listener, 0, sizeof r->d->listener);
    for (int i = 0; r->event && i <= r->room; i++)
        if (r->event[i])
            (void)cudaEventDestroy(r->event[i]);
    free(r->event);
    free(r->mark);
    memset(r, 0, sizeof *r);
}

static as_status recorder_make(as_recorder *r, bool events, as_error *e) {
    r->room = (r->d->m->layers + 1) * AS_STAGES;
    r->mark = (as_mark_cuda *)calloc((size_t)r->room, sizeof *r->mark);
    if (events)
        r->event = (cudaEvent_t *)calloc((size_t)r->room + 1, sizeof *r->event);
    if (!r->mark || (events && !r->event))
        return as_fail(e, AS_ENOMEM, "no memory for a breakdown");
    for (int i = 0; events && i <= r->room; i++)
        AS_CUDA(e, cudaEventCreate(&r->event[i]));
    return AS_OK;
}

as_status as_recorder_init(as_recorder *r, as_decoder *d, bool events, unsigned flags, cudaStream_t stream,
                           as_error *e) {
    memset(r, 0, sizeof *r);
    r->d = d;
    r->flags = flags;
    r->stream = stream;
    const as_status status = recorder_make(r, events, e);
    if (status != AS_OK) {
        as_recorder_free(r);
        return status;
    }
    d->listener.stage = hear;
    d->listener.context = r;
    d->listener.between = events;
    return AS_OK;
}

as_status as_recorder_add_events(const as_recorder *r, as_parts *parts, double *total_ns, as_error *e) {
    float ms;
    for (int i = 0; i < r->n; i++) {
        AS_CUDA(e, cudaEventElapsedTime(&ms, r->event[i], r->event[i + 1]));
        as_mark_add(parts, &r->mark[i], "events", 1e6 * (double)ms);
    }
    AS_CUDA(e, cudaEventElapsedTime(&ms, r->event[0], r->event[r->n]));
    *total_ns += 1e6 * (double)ms;
    return AS_OK;
}
