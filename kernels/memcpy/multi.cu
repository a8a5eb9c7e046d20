/* Copies that share links or devices, after nvbandwidth's cases: which lanes each variant has. Lane 0 is measured on
 * the case's own device. Axis by: ce copies by the copy engines, sm by kernels (both directions of a link in one kernel).
 *
 *   bidirectional        lane 0 and the other direction as traffic; predicted 85 to 95% of one direction alone
 *   all                  lane 0 and the same direction on every other GPU as traffic; alone it is a plain copy
 *   all_bidirectional    both directions on every GPU
 *   peer                 p2d reads the other GPU's memory, d2p writes it; this GPU's engine or kernel does either
 *   peer_bidirectional   each of the two GPUs reads (p2d) or writes (d2p); the sum of both rates
 *   all_to_one           p2d: every other GPU writes here; d2p: every other GPU reads from here; the sum
 *   one_to_all           d2p: this GPU writes to every other one; p2d: it reads from each; the sum
 *
 * A case of several GPUs holds the lock of its own alone: others must be left to it. */
#include "copy.h"
#include "lanes.h"
#include "peers.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

typedef struct job {
    as_lanes *lanes;
    const as_call *call;
    size_t bytes;
    as_memcpy_dir dir;
} job;

typedef as_status (*plan_fn)(const job *j, as_error *e);

static as_status prepare(const as_call *call, as_lanes_time time, plan_fn plan, void **state, as_error *e) {
    job j = {NULL, call, (size_t)as_params_int(call->params, "bytes"), as_memcpy_dir_of(call->params)};
    *state = NULL;
    AS_TRY(as_lanes_create(&j.lanes, call, time, e));
    const as_status status = plan(&j, e);
    if (status != AS_OK)
        as_lanes_destroy(j.lanes);
    else
        *state = j.lanes;
    return status;
}

/* Traffic between host and `ordinal`: both buffers are its own. */
static as_status traffic(const job *j, int ordinal, bool down, as_error *e) {
    void *host, *device;
    AS_TRY(as_lanes_buffer(j->lanes, AS_MEMCPY_HOST, j->bytes, NULL, &host, e));
    AS_TRY(as_lanes_buffer(j->lanes, ordinal, j->bytes, NULL, &device, e));
    return as_lanes_add(j->lanes, ordinal, down ? host : device, down ? device : host, j->bytes, false, e);
}

/* Gives the last lane its way back through buffers of its own, within one kernel. */
static as_status back(const job *j, int ordinal, bool down, as_error *e) {
    void *host, *device;
    AS_TRY(as_lanes_buffer(j->lanes, AS_MEMCPY_HOST, j->bytes, NULL, &host, e));
    AS_TRY(as_lanes_buffer(j->lanes, ordinal, j->bytes, NULL, &device, e));
    as_lane *l = &j->lanes->lane[j->lanes->lanes - 1];
    l->back_dst = down ? host : device;
    l->back_src = down ? device : host;
    return AS_OK;
}

/* The measured copy between host and device, as the operands stand. */
static as_status own_copy(const job *j, as_error *e) {
    return as_lanes_add(j->lanes, j->lanes->own, j->call->operand[1], j->call->operand[0], j->bytes, true, e);
}

static as_status plan_bidirectional(const job *j, as_error *e) {
    const bool other_way_is_down = j->dir == AS_H2D;
    AS_TRY(own_copy(j, e));
    return j->lanes->by_kernel ? back(j, j->lanes->own, other_way_is_down, e)
                               : traffic(j, j->lanes->own, other_way_is_down, e);
}

static as_status plan_all(const job *j, as_error *e) {
    int other[AS_MEMCPY_LANES];
    const int others = as_memcpy_others(j->call->device, other, AS_MEMCPY_LANES);
    AS_TRY(own_copy(j, e));
    for (int i = 0; i < others; i++)
        AS_TRY(traffic(j, other[i], j->dir == AS_D2H, e));
    return AS_OK;
}

static as_status plan_all_bidirectional(const job *j, as_error *e) {
    int other[AS_MEMCPY_LANES];
    const int others = as_memcpy_others(j->call->device, other, AS_MEMCPY_LANES);
    AS_TRY(plan_bidirectional(j, e));
    for (int i = 0; i < others; i++) {
        AS_TRY(traffic(j, other[i], false, e));
        AS_TRY(j->lanes->by_kernel ? back(j, other[i], true, e) : traffic(j, other[i], true, e));
    }
    return AS_OK;
}

/* A measured lane run by `ordinal`: from this device to `peer` (d2p) or back. Its peer's side is a buffer of its own;
 * its side on this device is the operand where it may be, else another one. */
static as_status peer_lane(const job *j, int ordinal, int peer, as_memcpy_dir dir, bool own_output, as_error *e) {
    const void *source = j->call->operand[0];
    void *there, *here = j->call->operand[1];
    AS_TRY(as_lanes_buffer(j->lanes, peer, j->bytes, dir == AS_P2D ? source : NULL, &there, e));
    if (dir == AS_D2P)
        return as_lanes_add(j->lanes, ordinal, there, source, j->bytes, true, e);
    if (!own_output)
        AS_TRY(as_lanes_buffer(j->lanes, j->lanes->own, j->bytes, NULL, &here, e));
    return as_lanes_add(j->lanes, ordinal, here, there, j->bytes, true, e);
}

static as_status plan_peer(const job *j, as_error *e) {
    int peer;
    AS_TRY(as_memcpy_peer_of(j->call, &peer, e));
    return peer_lane(j, j->lanes->own, peer, j->dir, true, e);
}

/* Reading: each takes from the other; writing: each sends. The peer's lane goes the other way than this device's. */
static as_status plan_peer_bidirectional(const job *j, as_error *e) {
    int peer;
    AS_TRY(as_memcpy_peer_of(j->call, &peer, e));
    AS_TRY(peer_lane(j, j->lanes->own, peer, j->dir, true, e));
    AS_TRY(peer_lane(j, peer, peer, j->dir == AS_P2D ? AS_D2P : AS_P2D, false, e));
    for (int i = 0; i < 2; i++)
        j->lanes->lane[i].after = 1;
    return AS_OK;
}

static as_status every_peer(const job *j, bool by_peer, as_error *e) {
    int other[AS_MEMCPY_LANES];
    const int others = as_memcpy_others(j->call->device, other, AS_MEMCPY_LANES);
    for (int i = 0; i < others; i++) {
        if (!as_memcpy_reach(j->lanes->own, other[i]))
            continue;
        AS_TRY(as_memcpy_open_peer(j->lanes->own, other[i], e));
        AS_TRY(peer_lane(j, by_peer ? other[i] : j->lanes->own, other[i], j->dir, false, e));
    }
    return j->lanes->lanes ? AS_OK : as_memcpy_need_peer(j->call->device, e);
}

static as_status plan_all_to_one(const job *j, as_error *e) { return every_peer(j, true, e); }
static as_status plan_one_to_all(const job *j, as_error *e) { return every_peer(j, false, e); }

#define DEFINE_HOOKS(name, time)                                                                                       \
    as_status as_memcpy_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                        \
        return prepare(call, time, plan_##name, state, e);                                                             \
    }                                                                                                                  \
    void as_memcpy_##name##_finish_cuda(void *state) { as_lanes_destroy((as_lanes *)state); }                          \
    as_status as_memcpy_##name##_cuda(const as_call *call, as_error *e) {                                              \
        return as_lanes_run((as_lanes *)call->state, call->operand[1], call->own_ns, e);                               \
    }
#define DEFINE_PEER_HOOKS(name, time)                                                                                  \
    DEFINE_HOOKS(name, time)                                                                                           \
    as_status as_memcpy_##name##_available_cuda(as_device *device, as_error *e) {                                      \
        return as_memcpy_need_peer(device, e);                                                                         \
    }

DEFINE_HOOKS(bidirectional, AS_LANES_FIRST)
DEFINE_HOOKS(all, AS_LANES_FIRST)
DEFINE_HOOKS(all_bidirectional, AS_LANES_FIRST)
DEFINE_PEER_HOOKS(peer, AS_LANES_FIRST)
DEFINE_PEER_HOOKS(peer_bidirectional, AS_LANES_EACH)
DEFINE_PEER_HOOKS(all_to_one, AS_LANES_ALL)
DEFINE_PEER_HOOKS(one_to_all, AS_LANES_ALL)
