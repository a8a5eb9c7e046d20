/* Shapes of the models, and where each of their weights stands in one block of memory.
 *
 * A model's weights are one operand: a block of elements of one type, every tensor at an offset that as_model_tensor
 * tells. Matrices are row-major [outputs, inputs], as Hugging Face's files have them; what is read together stands
 * together (Q over K over V; gate over up), so that one product does both. Tied weights stand once.
 *
 * Synthetic weights are unit normals from the seed. Kernels multiply a matrix's products by its `scale`, a power of
 * two near 1 / sqrt(inputs), which keeps activations near 1 and changes no bit of the products; a model read from
 * files has scale 1 everywhere. Quantised types put their scales at the same place. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum as_family {
    AS_DECODER, /* Llama: RMSNorm, rotary embedding, grouped-query attention, SwiGLU */
    AS_ENCODER, /* BERT: learned positions, LayerNorm after each sum, biases, exact GELU */
} as_family;

typedef struct as_model {
    const char *name;
    as_family family;
    int layers, d_model, heads, kv_heads, head_dim, d_ff, vocab;
    bool tied;                      /* the head is the embedding */
    int experts, experts_per_token; /* mixture of experts; 0: none. Sized by `assay size`, not run */
    int max_positions;
    float norm_epsilon, rope_theta; /* theta 0: no rotary embedding */
    bool sized_only;                /* no case runs it */
} as_model;

/* What a tensor is for. Decoders have those up to AS_T_HEAD, encoders the others and AS_T_EMBED, AS_T_QKV, AS_T_O,
 * AS_T_UP, AS_T_DOWN. */
typedef enum as_tensor_role {
    AS_T_EMBED,      /* [vocab, d_model] */
    AS_T_ATTN_NORM,  /* [d_model], each layer from here ... */
    AS_T_QKV,        /* [(heads + 2 kv_heads) head_dim, d_model] */
    AS_T_O,          /* [d_model, heads head_dim] */
    AS_T_MLP_NORM,   /* [d_model] */
    AS_T_GATE_UP,    /* [2 d_ff, d_model]: gate's rows, then up's */
    AS_T_DOWN,       /* [d_model, d_ff] ... to here */
    AS_T_FINAL_NORM, /* [d_model] */
    AS_T_HEAD,       /* [vocab, d_model]; of tied models the embedding itself */
    AS_T_POSITION,   /* [max_positions, d_model] */
    AS_T_TYPE,       /* [2, d_model] */
    AS_T_EMBED_NORM, /* [2, d_model]: weight, bias */
    AS_T_QKV_BIAS,   /* [3 d_model], each layer from here ... */
    AS_T_O_BIAS,     /* [d_model] */
    AS_T_O_NORM,     /* [2, d_model]: weight, bias, after attention's sum */
    AS_T_UP,         /* [d_ff, d_model] */
    AS_T_UP_BIAS,    /* [d_ff] */
    AS_T_DOWN_BIAS,  /* [d_model] */
    AS_T_DOWN_NORM,  /* [2, d_model]: weight, bias, after the feed-forward's sum; ... to here */
    AS_T_ROLES,
} as_tensor_role;

typedef struct as_tensor {
    as_tensor_role role;
    int layer; /* 0 for tensors that stand once */
    int64_t rows, columns;
    int64_t offset; /* elements from the block's start; a multiple of AS_TENSOR_ALIGN */
    float scale;    /* of synthetic weights: what a product with it is multiplied by (1 for vectors of norms) */
} as_tensor;

enum { AS_TENSOR_ALIGN = 128 }; /* elements: whole cache lines for every type of one byte or more */

/* The presets, in order of size within each family; ends at name NULL. */
extern const as_model as_models[];
/* NULL if there is none of that name. */
const as_model *as_model_named(const char *name);

/* A tensor of the block. The model must have the role (an absent one is our bug: abort). */
as_tensor as_model_tensor(const as_model *m, as_tensor_role role, int layer);
/* Elements of the block, padding included; 0 for mixtures of experts, which have none. */
int64_t as_model_elements(const as_model *m);
/* Weights of the whole model, experts included, padding left out; and those that one token of a decode step reads:
 * all but the embedding (one row of it) unless it is the head too, and of the experts only those that are chosen. */
double as_model_parameters(const as_model *m);
double as_model_parameters_read(const as_model *m);
/* Elements of keys and values of one token, all layers. */
int64_t as_model_kv_elements(const as_model *m);

#ifdef __cplusplus
}
#endif
