/* The rate of multiply-adds on the host: twelve independent vector chains x = x a + b in registers, more than the
 * latency of four or five cycles times the two that start in each cycle. With a = b = 1 from x = 0 every value is
 * the number of steps so far, exact in float up to 2^24; a, b and the start are read from memory at run time, so that
 * the compiler can skip nothing. Chains start again every BLOCK steps, so that they stay exact.
 *
 * Axis `width` takes narrower vectors than the widest: what code that was built for them can reach. 16-byte vectors
 * have a joined multiply-add where AVX2 is; without it a step is a multiplication and an addition.
 *
 * bf16: by AVX512-BF16 (vdpbf16ps) each lane of f32 adds two products of bf16. With ones a chain counts its
 * multiply-adds all the same. */
#include "ceiling.h"

#include "../isa.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LINE = 64, CHAINS = 12, BLOCK = 1 << 20 };

/* Multiply-adds of one operation: a whole number of iterations at every width (384 = 12 chains x 32 of bf16), about
 * 3 ms of one core at 150 GFLOP/s. Many threads get eight times as much, so that starting them weighs little. */
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
DEFINE_FMA(f32_128, AS_TARGET_AVX2, float, 16, zero_f32, one_f32)
DEFINE_FMA(f32_256, AS_TARGET_AVX2, float, 32, zero_f32, one_f32)
DEFINE_FMA(f32_512, AS_TARGET_AVX512, float, 64, zero_f32, one_f32)
DEFINE_FMA(f64_base, , double, 16, zero_f64, one_f64)
DEFINE_FMA(f64_128, AS_TARGET_AVX2, double, 16, zero_f64, one_f64)
DEFINE_FMA(f64_256, AS_TARGET_AVX2, double, 32, zero_f64, one_f64)
DEFINE_FMA(f64_512, AS_TARGET_AVX512, double, 64, zero_f64, one_f64)

#if defined(__x86_64__)
/* Chains of 2^19 steps of two, so that they stay exact. */
AS_TARGET_AVX512_BF16 static double bf16_512(int64_t iterations) {
    const __m512bh one = _mm512_cvtne2ps_pbh(_mm512_set1_ps(one_f32), _mm512_set1_ps(one_f32));
    double done = 0;
    for (int64_t left = iterations; left > 0; left -= BLOCK / 2) {
        __m512 x[CHAINS];
        for (int c = 0; c < CHAINS; c++)
            x[c] = _mm512_set1_ps(zero_f32);
        for (int64_t i = left < BLOCK / 2 ? left : BLOCK / 2; i > 0; i--)
            for (int c = 0; c < CHAINS; c++)
                x[c] = _mm512_dpbf16_ps(x[c], one, one);
        for (int c = 0; c < CHAINS; c++) {
            float lanes[16];
            _mm512_storeu_ps(lanes, x[c]);
            for (int lane = 0; lane < 16; lane++)
                done += (double)lanes[lane];
        }
    }
    return done;
}
#else
#define bf16_512 f32_base
#endif

/* By type and width, the widest first. `steps`: multiply-adds of one instruction. */
static const struct unit {
    const char *type, *width;
    as_isa isa;
    bool bf16;
    int steps;
    fma_fn run;
} units[] = {
    {"f32", "512", AS_ISA_AVX512, false, 16, f32_512},  {"f32", "256", AS_ISA_AVX2, false, 8, f32_256},
    {"f32", "128", AS_ISA_AVX2, false, 4, f32_128},     {"f32", "128", AS_ISA_BASE, false, 4, f32_base},
    {"f64", "512", AS_ISA_AVX512, false, 8, f64_512},   {"f64", "256", AS_ISA_AVX2, false, 4, f64_256},
    {"f64", "128", AS_ISA_AVX2, false, 2, f64_128},     {"f64", "128", AS_ISA_BASE, false, 2, f64_base},
    {"bf16", "512", AS_ISA_AVX512, true, 32, bf16_512},
};

static as_status find_unit(const as_params *p, const struct unit **out, as_error *e) {
    const char *type = as_params_text(p, "type"), *width = as_params_text(p, "width");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const struct unit *u = &units[i];
        if (strcmp(u->type, type) == 0 && (strcmp(width, "widest") == 0 || strcmp(u->width, width) == 0) &&
            u->isa <= as_isa_best() && (!u->bf16 || as_isa_bf16())) {
            *out = u;
            return AS_OK;
        }
    }
    return as_fail(e, AS_EABSENT, "this processor multiplies no %s in vectors of %s bits%s", type, width,
                   strcmp(type, "bf16") == 0 ? " (AVX512-BF16 does)" : "");
}

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
    const struct unit *u = NULL;
    AS_TRY(find_unit(call->params, &u, e));
    fma_state *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    s->run = u->run;
    s->iterations = as_ceiling_fma_steps_cpu(call->params) / (CHAINS * u->steps);
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
