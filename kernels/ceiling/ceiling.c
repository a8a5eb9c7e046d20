/* Ceilings of the host: bandwidth of each memory level by what moves, and the rate of atomic additions. Vector width is
 * the widest that the machine has. What is counted: ceiling.h; sizes: docs/method.md.
 *
 * The work of one operation does not depend on how many threads share it: each member takes an equal part.
 *   l1, l2     private pieces, half of a core's first level, a quarter of its second; every piece is covered
 *              `passes` times in a row, so that its first pass out of slower memory weighs little. Half of the second
 *              level was too much on a 16-core Xeon guest: copies there reached 351 GB/s, where the C library's in a
 *              quarter of it reached 623. That level is indexed by physical pages, which a guest does not choose.
 *   l3, dram   one range, one pass, shared out in equal parts; reads are of four places of a part at a time. In l3 the
 *              parts move on by one member with every operation, inside each group of cores that shares a cache: a
 *              member that always took the same part would find it in its own l2.
 *
 * Which stores are the faster for data that no cache holds depends on the machine, and near the last level's size on
 * the case as well: as_ceilings_for takes both kinds there. */
#include "ceiling.h"

#include "../stream.h"
#include "levels.h"

#include <stdlib.h>

enum { LINE = 64, PIECE = 4096 };

static int64_t whole_pieces(int64_t bytes) { return bytes < PIECE ? PIECE : bytes / PIECE * PIECE; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Bytes of the level that a ceiling works in; sources and destinations together. */
static as_status level_bytes(as_level level, const as_levels *l, bool one, int64_t *out, as_error *e) {
    const int64_t mib = 1 << 20;
    int64_t instances = one ? 1 : l->l3_instances;
    switch (level) {
    case AS_LEVEL_L1: *out = l->l1_bytes / 2; return AS_OK;
    case AS_LEVEL_L2: *out = l->l2_bytes / 4; return AS_OK;
    case AS_LEVEL_L3: /* neighbours use it too, other guests of the host among them: a quarter stays resident */
        if (!l->l3_bytes)
            return as_fail(e, AS_EABSENT, "this machine shows no third-level cache");
        *out = smaller(l->l3_bytes / 4, 64 * mib) * instances;
        return AS_OK;
    case AS_LEVEL_DRAM: {
        int64_t bytes = 4 * l->l3_bytes * instances;
        if (bytes < 256 * mib)
            bytes = 256 * mib;
        *out = smaller(smaller(bytes, 1024 * mib), l->memory_bytes / 8);
        return AS_OK;
    }
    case AS_LEVEL_UNKNOWN: break;
    }
    return as_fail(e, AS_EUSAGE, "a ceiling of memory needs level:l1, l2, l3 or dram");
}

as_status as_ceiling_size_cpu(const as_params *p, as_ceiling_cpu_size *out, as_error *e) {
    as_levels l;
    as_level level = as_level_parse(as_params_text(p, "level"));
    bool one = as_params_int(p, "threads") == 1;
    int64_t bytes = 0;
    AS_TRY(as_levels_read(&l, e));
    AS_TRY(level_bytes(level, &l, one, &bytes, e));
    *out = (as_ceiling_cpu_size){.bytes = whole_pieces(bytes), .passes = 1, .chunks = 0};
    if (level == AS_LEVEL_L1 || level == AS_LEVEL_L2) {
        out->chunks = one ? 1 : 4 * l.cores; /* 4 for each core: uneven teams differ by a quarter at most */
        out->passes = ((int64_t)(level == AS_LEVEL_L1 ? 16 : 32) << 20) / out->bytes;
        out->bytes *= out->chunks;
    }
    return AS_OK;
}

/* ---- read, write, copy, triad ---- */

typedef struct partial {
    _Alignas(LINE) uint64_t value;
} partial;

typedef struct stream_state stream_state;
/* Covers `bytes` of each operand from `at` on, `passes` times. */
typedef void (*cover_fn)(const stream_state *s, int64_t at, int64_t bytes, partial *own);

struct stream_state {
    as_ceiling_cpu_size size; /* bytes: of one operand */
    int group;                /* members that share an l3 and so exchange parts; 1: parts stay */
    int operation;            /* counts operations */
    cover_fn cover;
    as_stream_sum_fn sum;
    as_stream_fill_fn fill;
    as_stream_copy_fn copy;
    as_stream_triad_fn triad;
    unsigned char *operand[3];
    int members;
    partial *partial; /* members */
};

static void cover_read(const stream_state *s, int64_t at, int64_t bytes, partial *own) {
    own->value += s->sum(s->operand[0] + at, (size_t)bytes, s->size.passes);
}

static void cover_write(const stream_state *s, int64_t at, int64_t bytes, partial *own) {
    (void)own;
    for (int64_t pass = 0; pass < s->size.passes; pass++)
        s->fill((uint32_t *)(s->operand[1] + at), *(const uint32_t *)s->operand[0], (size_t)bytes / 4);
}

static void cover_copy(const stream_state *s, int64_t at, int64_t bytes, partial *own) {
    (void)own;
    for (int64_t pass = 0; pass < s->size.passes; pass++)
        s->copy(s->operand[1] + at, s->operand[0] + at, (size_t)bytes);
}

static void cover_triad(const stream_state *s, int64_t at, int64_t bytes, partial *own) {
    (void)own;
    for (int64_t pass = 0; pass < s->size.passes; pass++)
        s->triad((float *)(s->operand[2] + at), (const float *)(s->operand[0] + at),
                 (const float *)(s->operand[1] + at), (size_t)bytes / 4);
}

static void stream_finish(void *state) {
    stream_state *s = state;
    if (!s)
        return;
    free(s->partial);
    free(s);
}

/* Axis `stores`: whether they go around the caches. */
static as_status stores_around(const as_params *p, as_level level, bool *around, as_error *e) {
    const char *stores = as_params_text(p, "stores");
    *around = strcmp(stores, "nt") == 0 || (strcmp(stores, "usual") == 0 && level == AS_LEVEL_DRAM);
    if (*around || strcmp(stores, "usual") == 0 || strcmp(stores, "temporal") == 0)
        return AS_OK;
    return as_fail(e, AS_EUSAGE, "ceiling: stores is usual, temporal or nt, not '%.20s'", stores);
}

static as_status stream_prepare(const as_call *call, cover_fn cover, int operands, void **out, as_error *e) {
    const as_isa isa = as_isa_best();
    const as_level level = as_level_parse(as_params_text(call->params, "level"));
    as_levels l;
    as_ceiling_cpu_size size;
    bool around;
    AS_TRY(as_levels_read(&l, e));
    AS_TRY(as_ceiling_size_cpu(call->params, &size, e));
    AS_TRY(stores_around(call->params, level, &around, e));
    stream_state *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    s->members = as_team_size(call->team);
    s->partial = aligned_alloc(LINE, (size_t)s->members * sizeof *s->partial);
    if (!s->partial) {
        free(s);
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    }
    s->size = size;
    s->size.bytes = as_ceiling_operand_bytes(size, operands);
    s->group = level == AS_LEVEL_L3 ? l.l3_cores : 1;
    s->cover = cover;
    s->sum = level == AS_LEVEL_L1 || level == AS_LEVEL_L2 ? as_stream_sum(isa) : as_stream_sum_quarters(isa);
    s->fill = around ? as_stream_fill_nt(isa) : as_stream_fill(isa);
    s->copy = around ? as_stream_copy_nt(isa) : as_stream_copy_temporal(isa);
    s->triad = around ? as_stream_triad_nt(isa) : as_stream_triad(isa);
    *out = s;
    return AS_OK;
}

/* The part of [0, count) that a member takes in this operation. */
typedef struct part {
    int64_t from, to;
} part;

static part part_of(int64_t count, int member, int size) {
    return (part){count * member / size, count * (member + 1) / size};
}

static int moved_on(const stream_state *s, int member, int size) {
    int first = member / s->group * s->group;
    int width = size - first < s->group ? size - first : s->group;
    return first + (member - first + s->operation % width) % width;
}

static void stream_member(int member, int size, void *context) {
    stream_state *s = context;
    partial *own = &s->partial[member];
    own->value = 0;
    if (s->size.chunks) {
        const int64_t chunk = s->size.bytes / s->size.chunks;
        const part p = part_of(s->size.chunks, member, size);
        for (int64_t c = p.from; c < p.to; c++)
            s->cover(s, c * chunk, chunk, own);
    } else {
        const part p = part_of(s->size.bytes / PIECE, moved_on(s, member, size), size);
        s->cover(s, p.from * PIECE, (p.to - p.from) * PIECE, own);
    }
}

static stream_state *stream_run(const as_call *call, int operands) {
    stream_state *s = call->state;
    for (int i = 0; i < operands; i++)
        s->operand[i] = call->operand[i];
    as_team_run(call->team, stream_member, s);
    s->operation++;
    return s;
}

as_status as_ceiling_read_cpu(const as_call *call, as_error *e) {
    (void)e;
    const stream_state *s = stream_run(call, 1);
    uint32_t sum = 0;
    for (int i = 0; i < s->members; i++)
        sum += (uint32_t)s->partial[i].value;
    *(uint32_t *)call->operand[1] = sum;
    return AS_OK;
}

as_status as_ceiling_read_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return stream_prepare(call, cover_read, 1, state, e);
}
void as_ceiling_read_finish_cpu(void *state) { stream_finish(state); }

/* `shares`: operands that the level's bytes are shared out to; `given`: those that the kernel takes. */
#define DEFINE_STREAM(name, shares, given)                                                                             \
    as_status as_ceiling_##name##_prepare_cpu(const as_call *call, void **state, as_error *e) {                        \
        return stream_prepare(call, cover_##name, shares, state, e);                                                   \
    }                                                                                                                  \
    void as_ceiling_##name##_finish_cpu(void *state) { stream_finish(state); }                                         \
    as_status as_ceiling_##name##_cpu(const as_call *call, as_error *e) {                                              \
        (void)e;                                                                                                       \
        stream_run(call, given);                                                                                       \
        return AS_OK;                                                                                                  \
    }

DEFINE_STREAM(write, 1, 2)
DEFINE_STREAM(copy, 2, 2)
DEFINE_STREAM(triad, 3, 3)

/* ---- atomic ---- */

typedef struct counter {
    _Alignas(2 * LINE) uint64_t value; /* two lines: the neighbour's may be fetched along */
} counter;

typedef struct atomic_state {
    int members;
    counter *counter; /* members */
} atomic_state;

as_status as_ceiling_atomic_prepare_cpu(const as_call *call, void **state, as_error *e) {
    atomic_state *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    s->members = as_team_size(call->team);
    s->counter = aligned_alloc(2 * LINE, (size_t)s->members * sizeof *s->counter);
    if (!s->counter) {
        free(s);
        return as_fail(e, AS_ENOMEM, "no memory for the counters of a ceiling");
    }
    *state = s;
    return AS_OK;
}

void as_ceiling_atomic_finish_cpu(void *state) {
    atomic_state *s = state;
    if (!s)
        return;
    free(s->counter);
    free(s);
}

static void atomic_member(int member, int size, void *context) {
    atomic_state *s = context;
    uint64_t *own = &s->counter[member].value;
    const part p = part_of(AS_CEILING_ADDITIONS_CPU, member, size);
    __atomic_store_n(own, 0, __ATOMIC_RELAXED);
    for (int64_t i = p.from; i < p.to; i++)
        __atomic_fetch_add(own, 1, __ATOMIC_RELAXED);
}

as_status as_ceiling_atomic_cpu(const as_call *call, as_error *e) {
    (void)e;
    const atomic_state *s = call->state;
    as_team_run(call->team, atomic_member, call->state);
    uint64_t done = 0;
    for (int i = 0; i < s->members; i++)
        done += s->counter[i].value;
    *(double *)call->operand[0] = (double)done;
    return AS_OK;
}
