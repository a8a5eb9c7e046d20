#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shapes as their makers publish them (config.json of each model). llama-15m: Karpathy's stories15M. */
const as_model as_models[] = {
    {"tiny", AS_DECODER, 2, 64, 4, 2, 16, 128, 256, true, 0, 0, 512, 1e-5f, 10000, false},
    {"llama-15m", AS_DECODER, 6, 288, 6, 6, 48, 768, 32000, true, 0, 0, 1024, 1e-5f, 10000, false},
    {"llama-1b", AS_DECODER, 16, 2048, 32, 8, 64, 8192, 128256, true, 0, 0, 131072, 1e-5f, 500000, false},
    {"llama-8b", AS_DECODER, 32, 4096, 32, 8, 128, 14336, 128256, false, 0, 0, 131072, 1e-5f, 500000, false},
    {"llama-70b", AS_DECODER, 80, 8192, 64, 8, 128, 28672, 128256, false, 0, 0, 131072, 1e-5f, 500000, true},
    {"mixtral-8x7b", AS_DECODER, 32, 4096, 32, 8, 128, 14336, 32000, false, 8, 2, 32768, 1e-5f, 1000000, true},
    {"tiny-bert", AS_ENCODER, 2, 64, 4, 4, 16, 128, 256, false, 0, 0, 128, 1e-12f, 0, false},
    {"minilm-l6", AS_ENCODER, 6, 384, 12, 12, 32, 1536, 30522, false, 0, 0, 512, 1e-12f, 0, false},
    {"bert-base", AS_ENCODER, 12, 768, 12, 12, 64, 3072, 30522, false, 0, 0, 512, 1e-12f, 0, false},
    {.name = NULL},
};

const as_model *as_model_named(const char *name) {
    for (const as_model *m = as_models; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

/* Roles of each family in the order of the block: what stands once before the layers, each layer, once after them. */
typedef struct order {
    as_tensor_role before[4], layer[10], after[2];
    int n_before, n_layer, n_after;
} order;

static const order decoder = {
    .before = {AS_T_EMBED},
    .n_before = 1,
    .layer = {AS_T_ATTN_NORM, AS_T_QKV, AS_T_O, AS_T_MLP_NORM, AS_T_GATE_UP, AS_T_DOWN},
    .n_layer = 6,
    .after = {AS_T_FINAL_NORM, AS_T_HEAD},
    .n_after = 2,
};
static const order encoder = {
    .before = {AS_T_EMBED, AS_T_POSITION, AS_T_TYPE, AS_T_EMBED_NORM},
    .n_before = 4,
    .layer = {AS_T_QKV, AS_T_QKV_BIAS, AS_T_O, AS_T_O_BIAS, AS_T_O_NORM, AS_T_UP, AS_T_UP_BIAS, AS_T_DOWN,
              AS_T_DOWN_BIAS, AS_T_DOWN_NORM},
    .n_layer = 10,
};

static const order *order_of(const as_model *m) { return m->family == AS_DECODER ? &decoder : &encoder; }

static void shape(const as_model *m, as_tensor_role role, int64_t *rows, int64_t *columns) {
    const int64_t d = m->d_model, q = (int64_t)m->heads * m->head_dim, kv = (int64_t)m->kv_heads * m->head_dim;
    const struct {
        int64_t rows, columns;
    } shapes[AS_T_ROLES] = {
        [AS_T_EMBED] = {m->vocab, d},
        [AS_T_ATTN_NORM] = {1, d},
        [AS_T_QKV] = {q + 2 * kv, d},
        [AS_T_O] = {d, q},
        [AS_T_MLP_NORM] = {1, d},
        [AS_T_GATE_UP] = {2 * (int64_t)m->d_ff, d},
        [AS_T_DOWN] = {d, m->d_ff},
        [AS_T_FINAL_NORM] = {1, d},
        [AS_T_HEAD] = {m->vocab, d},
        [AS_T_POSITION] = {m->max_positions, d},
        [AS_T_TYPE] = {2, d},
        [AS_T_EMBED_NORM] = {2, d},
        [AS_T_QKV_BIAS] = {1, q + 2 * kv},
        [AS_T_O_BIAS] = {1, d},
        [AS_T_O_NORM] = {2, d},
        [AS_T_UP] = {m->d_ff, d},
        [AS_T_UP_BIAS] = {1, m->d_ff},
        [AS_T_DOWN_BIAS] = {1, d},
        [AS_T_DOWN_NORM] = {2, d},
    };
    *rows = shapes[role].rows, *columns = shapes[role].columns;
}

static int64_t elements_of(const as_model *m, as_tensor_role role) {
    int64_t rows, columns;
    shape(m, role, &rows, &columns);
    return (rows * columns + AS_TENSOR_ALIGN - 1) / AS_TENSOR_ALIGN * AS_TENSOR_ALIGN;
}

/* Elements of the roles before `role`, or of all of them; -1 in *index where the role is not among them. */
static int64_t sum_before(const as_model *m, const as_tensor_role *roles, int n, as_tensor_role role, int *index) {
    int64_t sum = 0;
    *index = -1;
    for (int i = 0; i < n; i++) {
        if (roles[i] == role) {
            *index = i;
            return sum;
        }
        if (!(roles[i] == AS_T_HEAD && m->tied))
            sum += elements_of(m, roles[i]);
    }
    return sum;
}

/* Vectors that are added or multiplied as they stand have scale 1; biases stay small beside the products of N(0, 1). */
static float scale_of(as_tensor_role role, int64_t columns) {
    switch (role) {
    case AS_T_QKV:
    case AS_T_O:
    case AS_T_GATE_UP:
    case AS_T_UP:
    case AS_T_DOWN:
    case AS_T_HEAD: return exp2f(-roundf(log2f((float)columns) / 2));
    case AS_T_QKV_BIAS:
    case AS_T_O_BIAS:
    case AS_T_UP_BIAS:
    case AS_T_DOWN_BIAS: return 0.125f;
    default: return 1;
    }
}

as_tensor as_model_tensor(const as_model *m, as_tensor_role role, int layer) {
    const order *o = order_of(m);
    as_tensor t = {.role = role, .layer = layer};
    shape(m, role, &t.rows, &t.columns);
    t.scale = scale_of(role, t.columns);
    int at;
    const int64_t before = sum_before(m, o->before, o->n_before, role == AS_T_HEAD && m->tied ? AS_T_EMBED : role, &at);
    t.offset = before;
    if (at >= 0)
        return t;
    const int64_t within = sum_before(m, o->layer, o->n_layer, role, &at);
    if (at >= 0) {
        int end;
        t.offset = before + layer * sum_before(m, o->layer, o->n_layer, AS_T_ROLES, &end) + within;
        return t;
    }
    const int64_t after = sum_before(m, o->after, o->n_after, role, &at);
    if (at < 0)
        abort();
    t.offset = before + m->layers * within + after;
    return t;
}

int64_t as_model_elements(const as_model *m) {
    const order *o = order_of(m);
    int end;
    if (m->experts)
        return 0;
    return sum_before(m, o->before, o->n_before, AS_T_ROLES, &end) +
           m->layers * sum_before(m, o->layer, o->n_layer, AS_T_ROLES, &end) +
           sum_before(m, o->after, o->n_after, AS_T_ROLES, &end);
}

static double parameters_of(const as_model *m, as_tensor_role role) {
    int64_t rows, columns;
    shape(m, role, &rows, &columns);
    return (double)rows * (double)columns;
}

/* Weights with `experts` copies of the feed-forward (and the router, where there are several to choose from). */
static double parameters_with(const as_model *m, int experts) {
    const order *o = order_of(m);
    double once = 0, layer = 0;
    for (int i = 0; i < o->n_before; i++)
        once += parameters_of(m, o->before[i]);
    for (int i = 0; i < o->n_after; i++)
        if (!(o->after[i] == AS_T_HEAD && m->tied))
            once += parameters_of(m, o->after[i]);
    for (int i = 0; i < o->n_layer; i++) {
        const bool expert = m->experts && (o->layer[i] == AS_T_GATE_UP || o->layer[i] == AS_T_DOWN);
        layer += parameters_of(m, o->layer[i]) * (expert ? experts : 1);
    }
    return once + m->layers * (layer + (double)m->experts * m->d_model);
}

double as_model_parameters(const as_model *m) { return parameters_with(m, m->experts); }

double as_model_parameters_read(const as_model *m) {
    const double all = parameters_with(m, m->experts_per_token);
    return m->family == AS_DECODER && !m->tied ? all - parameters_of(m, AS_T_EMBED) + m->d_model : all;
}

int64_t as_model_kv_elements(const as_model *m) { return 2 * (int64_t)m->layers * m->kv_heads * m->head_dim; }
