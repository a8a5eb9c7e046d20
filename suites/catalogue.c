/* What the catalogue holds beside the suites: the models that cases run and `assay size` predicts. */
#include "../kernels/inference/model.h"
#include "suites.h"

#include <jansson.h>

static json_t *model_json(const as_model *m) {
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:I}", "name", m->name,
                     "family", m->family == AS_DECODER ? "decoder" : "encoder", "layers", m->layers, "d_model",
                     m->d_model, "heads", m->heads, "kv_heads", m->kv_heads, "head_dim", m->head_dim, "d_ff", m->d_ff,
                     "vocab", m->vocab, "tied", m->tied, "experts", m->experts, "experts_per_token",
                     m->experts_per_token, "max_positions", m->max_positions, "parameters",
                     (json_int_t)as_model_parameters(m));
}

json_t *as_suites_catalogue(void) {
    json_t *models = json_array();
    for (const as_model *m = as_models; m->name; m++)
        json_array_append_new(models, model_json(m));
    return json_pack("{s:o}", "models", models);
}
