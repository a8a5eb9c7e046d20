/* Synthetic work on a CPU; synthetic.h states operands, amounts and the injection.
 *
 * spin    one step is a multiply and an add that wait for the step before: 4 cycles on current cores. An empty asm
 *         statement a step keeps the compiler from joining steps: 2 n steps must take twice as long as n.
 * stream  the loops of stream.h, piece after piece. A member takes a row of neighbouring reads. */
#include "synthetic.h"

#include "../stream.h"

#include <stdlib.h>

/* ---- spin ---- */

as_status as_synthetic_spin_prepare_cpu(const as_call *call, void **state, as_error *e) {
    int64_t nominal, *steps = malloc(sizeof *steps);
    if (!steps)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a synthetic case");
    const as_status s = as_synthetic_steps(call->params, AS_SYNTHETIC_CPU_STEPS, &nominal, steps, e);
    if (s == AS_OK)
        *state = steps;
    else
        free(steps);
    return s;
}
void as_synthetic_spin_finish_cpu(void *state) { free(state); }

as_status as_synthetic_spin_cpu(const as_call *call, as_error *e) {
    (void)e;
    uint32_t x = *(const uint32_t *)call->operand[0];
    for (int64_t i = *(const int64_t *)call->state; i > 0; i--) {
        x = x * AS_SYNTHETIC_A + AS_SYNTHETIC_C;
        __asm__ volatile("" : "+r"(x));
    }
    *(uint32_t *)call->operand[1] = x;
    return AS_OK;
}

/* ---- stream ---- */

typedef struct stream_state {
    as_synthetic_pieces pieces;
    as_stream_sum_fn sum;
    const unsigned char *from;
    uint32_t *to;
} stream_state;

as_status as_synthetic_stream_prepare_cpu(const as_call *call, void **state, as_error *e) {
    as_synthetic_pieces pieces;
    AS_TRY(as_synthetic_pieces_of(call->params, &pieces, e));
    stream_state *s = malloc(sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a synthetic case");
    *s = (stream_state){.pieces = pieces, .sum = as_stream_sum(as_isa_best())};
    *state = s;
    return AS_OK;
}
void as_synthetic_stream_finish_cpu(void *state) { free(state); }

static void stream_member(int member, int size, void *context) {
    const stream_state *s = context;
    const int64_t end = s->pieces.reads * (member + 1) / size;
    for (int64_t i = s->pieces.reads * member / size; i < end; i++)
        s->to[i] =
            s->sum(s->from + as_synthetic_piece(s->pieces, i) * AS_SYNTHETIC_PIECE_BYTES, AS_SYNTHETIC_PIECE_BYTES, 1);
}

as_status as_synthetic_stream_cpu(const as_call *call, as_error *e) {
    (void)e;
    stream_state *s = call->state;
    s->from = call->operand[0];
    s->to = call->operand[1];
    as_team_run(call->team, stream_member, s);
    return AS_OK;
}
