#include "cnn_vector.h"

/* A tile of P pixels x V vectors takes P V sums, V weights and an image's element in registers, and P + V loads for P V
 * multiply-adds. */

/* 8 sums, 2 weights, 1 element in 16 registers. */
#define NAME(x) x##_base
#define TARGET
#define WIDTH 4
#define PIXELS 4
#define VECTORS 2
#include "cnn_vector_body.h"

#if defined(__x86_64__)
/* 12 sums, 2 weights, 1 element in 16 registers. */
#define NAME(x) x##_avx2
#define TARGET AS_TARGET_AVX2
#define WIDTH 8
#define PIXELS 6
#define VECTORS 2
#include "cnn_vector_body.h"

/* 28 sums, 2 weights, 1 element in 32 registers. The sides of ResNet's images (112 to 7) are whole tiles, or halves. On
 * one core of a Sapphire Rapids guest 98% of the rate of multiply-adds alone; 6 x 4 reads twice the weights: 87%. */
#define NAME(x) x##_avx512
#define TARGET AS_TARGET_AVX512
#define WIDTH 16
#define PIXELS 14
#define VECTORS 2
#include "cnn_vector_body.h"

static const as_cnn_vector *const tables[] = {&table_base, &table_avx2, &table_avx512};
#else
static const as_cnn_vector *const tables[] = {&table_base, &table_base, &table_base};
#endif

const as_cnn_vector *as_cnn_vector_for(as_isa isa) { return tables[isa]; }
