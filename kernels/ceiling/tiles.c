/* The rate of AMX: products of two tiles of 16 rows x 64 bytes, added to a tile of 16 x 16 sums. Four sums, each of one of
 * two A and one of two B, hide the latency of a product (52 cycles) behind the 16 cycles that each takes; eight tiles are
 * all there are. Operands are ones, so that every sum counts its multiply-adds: exact in f32 below 2^24, so sums start
 * again every BLOCK products. The tiles are loaded from memory that the compiler does not know. */
#include "ceiling.h"

#include "../isa.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SUMS = 4, SIDE = 16, ROW_BYTES = 64, BLOCK = 1 << 16 };

int64_t as_ceiling_tensor_steps_cpu(const as_params *p, int element_bytes) {
    const int64_t products = INT64_C(1) << (as_params_int(p, "threads") == 1 ? 17 : 20); /* 1 ms of a core at 2 GHz */
    return products * SIDE * SIDE * (ROW_BYTES / element_bytes);
}

as_status as_ceiling_tensor_available_cpu(as_device *device, as_error *e) {
    (void)device;
    if (as_isa_tiles())
        return AS_OK;
    return as_fail(e, AS_EABSENT, "this processor has no AMX tiles, or the kernel does not grant them");
}

typedef struct tiles_state {
    bool bf16;
    int64_t products; /* of the whole operation */
    int members;
    double *done; /* members */
} tiles_state;

#if defined(__x86_64__)
static volatile uint16_t one_bf16 = 0x3F80;
static volatile int8_t one_s8 = 1;

/* The tiles of A (4, 5) and B (6, 7) hold ones. */
AS_TARGET_TILES static void load_tiles(bool bf16) {
    _Alignas(64) unsigned char ones[SIDE * ROW_BYTES];
    for (size_t i = 0; i < sizeof ones; i++)
        ones[i] = bf16 ? (unsigned char)(one_bf16 >> (8 * (i & 1))) : (unsigned char)one_s8;
    __asm__ volatile("" ::: "memory"); /* the intrinsics do not tell the compiler what they read */
    _tile_loadd(4, ones, ROW_BYTES);
    _tile_loadd(5, ones, ROW_BYTES);
    _tile_loadd(6, ones, ROW_BYTES);
    _tile_loadd(7, ones, ROW_BYTES);
}

AS_TARGET_TILES static double count_tiles(bool bf16) {
    _Alignas(64) uint32_t sum[SUMS][SIDE * SIDE];
    double done = 0;
    _tile_stored(0, sum[0], ROW_BYTES);
    _tile_stored(1, sum[1], ROW_BYTES);
    _tile_stored(2, sum[2], ROW_BYTES);
    _tile_stored(3, sum[3], ROW_BYTES);
    for (int t = 0; t < SUMS; t++)
        for (int i = 0; i < SIDE * SIDE; i++) {
            float f;
            memcpy(&f, &sum[t][i], sizeof f);
            done += bf16 ? (double)f : (double)(int32_t)sum[t][i];
        }
    return done;
}

/* Multiply-adds done in so many products of each of the four sums. */
AS_TARGET_TILES static double run_tiles(bool bf16, int64_t products) {
    double done = 0;
    as_isa_tiles_begin();
    load_tiles(bf16);
    for (int64_t left = products; left > 0; left -= BLOCK) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        const int64_t now = left < BLOCK ? left : BLOCK;
        if (bf16)
            for (int64_t i = 0; i < now; i++) {
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
        else
            for (int64_t i = 0; i < now; i++) {
                _tile_dpbssd(0, 4, 6);
                _tile_dpbssd(1, 4, 7);
                _tile_dpbssd(2, 5, 6);
                _tile_dpbssd(3, 5, 7);
            }
        done += count_tiles(bf16);
    }
    as_isa_tiles_end();
    return done;
}
#else
static double run_tiles(bool bf16, int64_t products) {
    (void)bf16, (void)products;
    return 0;
}
#endif

as_status as_ceiling_tensor_prepare_cpu(const as_call *call, void **state, as_error *e) {
    AS_TRY(as_ceiling_tensor_available_cpu(call->device, e));
    const bool bf16 = strcmp(as_params_text(call->params, "type"), "bf16") == 0;
    tiles_state *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    s->bf16 = bf16;
    s->products = as_ceiling_tensor_steps_cpu(call->params, bf16 ? 2 : 1) / (SIDE * SIDE * (bf16 ? 32 : 64));
    s->members = as_team_size(call->team);
    s->done = calloc((size_t)s->members, sizeof *s->done);
    if (!s->done) {
        free(s);
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    }
    *state = s;
    return AS_OK;
}

void as_ceiling_tensor_finish_cpu(void *state) {
    tiles_state *s = state;
    if (!s)
        return;
    free(s->done);
    free(s);
}

static void tiles_member(int member, int size, void *context) {
    tiles_state *s = context;
    const int64_t rounds = s->products / SUMS, from = rounds * member / size, to = rounds * (member + 1) / size;
    s->done[member] = run_tiles(s->bf16, to - from);
}

as_status as_ceiling_tensor_cpu(const as_call *call, as_error *e) {
    (void)e;
    const tiles_state *s = call->state;
    as_team_run(call->team, tiles_member, call->state);
    double done = 0;
    for (int i = 0; i < s->members; i++)
        done += s->done[i];
    *(double *)call->operand[0] = done;
    return AS_OK;
}
