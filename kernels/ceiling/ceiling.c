/* Ceilings of the host: bandwidth of each memory level and the rate of multiply-adds. Vector width is the widest
 * that the machine has. What is counted: ceiling.h; sizes: docs/method.md.
 *
 * The work of one operation does not depend on how many threads share it: each member takes an equal part.
 *   l1, l2     private pieces, half of a core's first level, a quarter of its second; every piece is covered
 *              `passes` times in a row, so that its first pass out of slower memory weighs little. Half of the second
 *              level was too much on a 16-core Xeon guest: copies there reached 351 GB/s, where the C library's in a
 *              quarter of it reached 623. That level is indexed by physical pages, which a guest does not choose.
 *   l3, dram   one range, one pass, shared out in equal parts, each read in four places at a time. In l3 the parts move on by one member with every
 *              operation, inside each group of cores that shares a cache: a member that always read the same part
 *              would find it in its own l2. */
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

/* ---- read and copy ---- */

typedef struct partial {
    _Alignas(LINE) uint64_t value;
} partial;

typedef struct stream_state {
    as_ceiling_cpu_size size; /* bytes: of one operand */
    int group;                /* members that share an l3 and so exchange parts; 1: parts stay */
    int operation;            /* counts operations */
    as_stream_sum_fn sum;     /* read */
    as_stream_copy_fn copy;   /* copy */
    const unsigned char *from;
    unsigned char *to;
    int members;
    partial *partial; /* members */
} stream_state;

static void stream_finish(void *state) {
    stream_state *s = state;
    if (!s)
        return;
    free(s->partial);
    free(s);
}

static as_status stream_prepare(const as_call *call, bool copies, stream_state **out, as_error *e) {
    as_levels l;
    as_ceiling_cpu_size size;
    as_level level = as_level_parse(as_params_text(call->params, "level"));
    AS_TRY(as_levels_read(&l, e));
    AS_TRY(as_ceiling_size_cpu(call->params, &size, e));
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
    if (copies)
        s->size.bytes = as_ceiling_copy_bytes(size);
    s->group = level == AS_LEVEL_L3 ? l.l3_cores : 1;
    s->sum = level == AS_LEVEL_L1 || level == AS_LEVEL_L2 ? as_stream_sum(as_isa_best())
                                                          : as_stream_sum_quarters(as_isa_best());
    s->copy = level == AS_LEVEL_DRAM ? as_stream_copy_nt(as_isa_best()) : as_stream_copy_temporal(as_isa_best());
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

static void read_member(int member, int size, void *context) {
    stream_state *s = context;
    uint32_t sum = 0;
    if (s->size.chunks) {
        int64_t chunk = s->size.bytes / s->size.chunks;
        part p = part_of(s->size.chunks, member, size);
        for (int64_t c = p.from; c < p.to; c++)
            sum += s->sum(s->from + c * chunk, (size_t)chunk, s->size.passes);
    } else {
        part p = part_of(s->size.bytes / PIECE, moved_on(s, member, size), size);
        sum = s->sum(s->from + p.from * PIECE, (size_t)((p.to - p.from) * PIECE), 1);
    }
    s->partial[member].value = sum;
}

static void copy_member(int member, int size, void *context) {
    stream_state *s = context;
    if (s->size.chunks) {
        int64_t chunk = s->size.bytes / s->size.chunks;
        part p = part_of(s->size.chunks, member, size);
        for (int64_t c = p.from; c < p.to; c++)
            for (int64_t pass = 0; pass < s->size.passes; pass++)
                s->copy(s->to + c * chunk, s->from + c * chunk, (size_t)chunk);
    } else {
        part p = part_of(s->size.bytes / PIECE, moved_on(s, member, size), size);
        s->copy(s->to + p.from * PIECE, s->from + p.from * PIECE, (size_t)((p.to - p.from) * PIECE));
    }
}

as_status as_ceiling_read_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return stream_prepare(call, false, (stream_state **)state, e);
}
void as_ceiling_read_finish_cpu(void *state) { stream_finish(state); }

as_status as_ceiling_read_cpu(const as_call *call, as_error *e) {
    (void)e;
    stream_state *s = call->state;
    s->from = call->operand[0];
    as_team_run(call->team, read_member, s);
    s->operation++;
    uint32_t sum = 0;
    for (int i = 0; i < s->members; i++)
        sum += (uint32_t)s->partial[i].value;
    *(uint32_t *)call->operand[1] = sum;
    return AS_OK;
}

as_status as_ceiling_copy_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return stream_prepare(call, true, (stream_state **)state, e);
}
void as_ceiling_copy_finish_cpu(void *state) { stream_finish(state); }

as_status as_ceiling_copy_cpu(const as_call *call, as_error *e) {
    (void)e;
    stream_state *s = call->state;
    s->from = call->operand[0];
    s->to = call->operand[1];
    as_team_run(call->team, copy_member, s);
    s->operation++;
    return AS_OK;
}
