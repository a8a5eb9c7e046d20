/* The rate of multiply-adds on the host: twelve independent vector chains x = x a + b in registers, more than the
 * latency of four or five cycles times the two that start in each cycle. With a = b = 1 from x = 0 every value is
 * the number of steps so far, exact in float up to 2^24; a, b and the start are read from memory at run time, so that
 * the compiler can skip nothing. Chains start again every BLOCK steps, so that they stay exact. */
#include "ceiling.h"

#include "../isa.h"

#include <stdlib.h>

enum { LINE = 64, CHAINS = 12, BLOCK = 1 << 20 };

/* Multiply-adds of one operation: a whole number of iterations at every vector width (192 = 12 chains x 16 floats),
 * about 3 ms of one core at 150 GFLOP/s. Many threads get eight times as much, so that starting them weighs little. */
int64_t as_ceiling_fma_steps_cpu(const as_params *p) {
    return INT64_C(192) << (as_params_int(p, "threads") == 1 ? 20 : 23);
}

/* Multiply-adds done in `iterations` of CHAINS vectors each, summed from the chains. */
typedef double (*fma_fn)(int64_t iterations);

/* Read afresh for each chain: chains that the compiler knew to be equal would be computed once. */
static volatile float zero_f32 = 0, one_f32 = 1;
static volatile double zero_f64 = 0, one_f64 = 1;

#define DEFINE_FMA(name, target, type, width, zero, one)                                                               \
    typedef type name##_vector __attribute__((vector_size(width)));                                                    \
    target static double name(int64_t iterations) {                                                                    \
        const type scale = one, step = one;                                                                            \
        double done = 0;                                                                                               \
        for (int64_t left = iterations; left > 0; left -= BLOCK) {                                                     \
            name##_vector x[CHAINS];                                                                                   \
            for (int c = 0; c < CHAINS; c++)                                                                           \
                x[c] = (name##_vector){0} + zero;                                                                      \
            for (int64_t i = left < BLOCK ? left : BLOCK; i > 0; i--)                                                  \
                for (int c = 0; c < CHAINS; c++)                                                                       \
                    x[c] = x[c] * scale + step;                                                                        \
            for (int c = 0; c < CHAINS; c++)                                                                           \
                for (size_t lane = 0; lane < (width) / sizeof(type); lane++)                                           \
                    done += (double)x[c][lane];                                                                        \
        }                                                                                                              \
        return done;                                                                                                   \
    }

DEFINE_FMA(f32_base, , float, 16, zero_f32, one_f32)
DEFINE_FMA(f32_avx2, AS_TARGET_AVX2, float, 32, zero_f32, one_f32)
DEFINE_FMA(f32_avx512, AS_TARGET_AVX512, float, 64, zero_f32, one_f32)
DEFINE_FMA(f64_base, , double, 16, zero_f64, one_f64)
DEFINE_FMA(f64_avx2, AS_TARGET_AVX2, double, 32, zero_f64, one_f64)
DEFINE_FMA(f64_avx512, AS_TARGET_AVX512, double, 64, zero_f64, one_f64)

static const fma_fn f32_by_isa[] = {f32_base, f32_avx2, f32_avx512};
static const fma_fn f64_by_isa[] = {f64_base, f64_avx2, f64_avx512};

typedef struct partial {
    _Alignas(LINE) double done;
} partial;

typedef struct fma_state {
    fma_fn run;
    int64_t iterations; /* of the whole operation */
    int members;
    partial *partial; /* members */
} fma_state;

as_status as_ceiling_fma_prepare_cpu(const as_call *call, void **state, as_error *e) {
    as_isa isa = as_isa_best();
    bool f32 = strcmp(as_params_text(call->params, "type"), "f32") == 0;
    int64_t lanes = (INT64_C(16) << isa) / (f32 ? 4 : 8);
    fma_state *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    s->run = f32 ? f32_by_isa[isa] : f64_by_isa[isa];
    s->iterations = as_ceiling_fma_steps_cpu(call->params) / (CHAINS * lanes);
    s->members = as_team_size(call->team);
    s->partial = aligned_alloc(LINE, (size_t)s->members * sizeof *s->partial);
    if (!s->partial) {
        free(s);
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    }
    *state = s;
    return AS_OK;
}

void as_ceiling_fma_finish_cpu(void *state) {
    fma_state *s = state;
    if (!s)
        return;
    free(s->partial);
    free(s);
}

static void fma_member(int member, int size, void *context) {
    fma_state *s = context;
    int64_t from = s->iterations * member / size, to = s->iterations * (member + 1) / size;
    s->partial[member].done = s->run(to - from);
}

as_status as_ceiling_fma_cpu(const as_call *call, as_error *e) {
    (void)e;
    fma_state *s = call->state;
    as_team_run(call->team, fma_member, s);
    double done = 0;
    for (int i = 0; i < s->members; i++)
        done += s->partial[i].done;
    *(double *)call->operand[0] = done;
    return AS_OK;
}
