/* Copies of n bytes. Operands in order: source (input, random bits), destination (output), both `bytes` long, but for
 * `latency`. docs/method.md, "Copies", has every formula; docs/nvbandwidth.md the cases of that tool.
 *
 * Bytes: a copy inside one memory (host to host, device to device) reads n and writes n, counted as 2 n
 * ("read + written"). A copy over a link (host and device, two devices) crosses it once, counted as n ("copied once").
 * Axis dir: h2h (cpu); h2d, d2h, d2d, p2d, d2p (cuda; h host, d this device, p another device).
 * Axis memory: kind of the host side. Page-locked memory is mapped: a kernel reads and writes it in place. */
#pragma once

#include "../table.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_MEMCPY_NODE_BYTES = 8, AS_MEMCPY_LINE_BYTES = 128, AS_MEMCPY_CHASE_STEPS = 8192 };
enum { AS_MEMCPY_MOST_PIECES = 65536, AS_MEMCPY_REQUEST_BYTES = 1 << 20 };

#define AS_MEMCPY_CPU(X)                                                                                               \
    X(memcpy, nt, AS_DETERMINISTIC, "vector loads and non-temporal stores (around the caches), split over threads")

#define AS_MEMCPY_CPU_STATE(X)                                                                                         \
    X(memcpy, libc, AS_DETERMINISTIC, "memcpy of the C library, the range split over threads")

#define AS_MEMCPY_CPU_AVAILABLE(X)                                                                                     \
    X(memcpy, rep_movsb, AS_DETERMINISTIC, "one string instruction a thread")                                          \
    X(memcpy, avx2, AS_DETERMINISTIC, "32-byte loads and stores through the caches")                                   \
    X(memcpy, avx512, AS_DETERMINISTIC, "64-byte loads and stores through the caches")

#define AS_MEMCPY_ONCE (AS_DETERMINISTIC | AS_SINGLE | AS_OWN_CLOCK)

#define AS_MEMCPY_CPU_EXTRA(X)                                                                                         \
    X(memcpy, huge, AS_DETERMINISTIC, "memcpy of the C library between huge pages",                                    \
      {"huge_bytes", "bytes", true, false}, {"reserved_bytes", "bytes", true, false})                                  \
    X(memcpy, request_copy, AS_MEMCPY_ONCE, "a request's body read from a pipe and copied on to where it is needed",   \
      {"read", "ns", false, false})                                                                                    \
    X(memcpy, request_straight, AS_MEMCPY_ONCE, "a request's body read from a pipe to where it is needed",             \
      {"read", "ns", false, false})

/* sync returns when the copy is complete, device to device too, where cudaMemcpy alone does not wait. */
#define AS_MEMCPY_CUDA(X)                                                                                              \
    X(memcpy, sync, AS_DETERMINISTIC | AS_HOST_CLOCK, "cudaMemcpy, host waits for completion; timed by the host")      \
    X(memcpy, kernel, AS_DETERMINISTIC | AS_CAPTURE, "16-byte loads and stores by a kernel")

#define AS_MEMCPY_CUDA_STATE(X)                                                                                        \
    X(memcpy, async, AS_DETERMINISTIC, "cudaMemcpyAsync on a stream; timed on the device")                             \
    X(memcpy, many, AS_DETERMINISTIC, "the same bytes by `pieces` calls of cudaMemcpyAsync")                           \
    X(memcpy, resident, AS_DETERMINISTIC, "sent once, then used `uses` times by a kernel")                             \
    X(memcpy, resend, AS_DETERMINISTIC, "sent again for each of `uses` uses by a kernel")                              \
    X(memcpy, latency, AS_DETERMINISTIC, "one thread follows a chain of pointers through host or peer memory")         \
    X(memcpy, bidirectional, AS_MEMCPY_ONCE, "a copy while another goes the other way")                                \
    X(memcpy, all, AS_MEMCPY_ONCE, "a copy while all other GPUs copy the same way")                                    \
    X(memcpy, all_bidirectional, AS_MEMCPY_ONCE, "a copy while all GPUs copy both ways")

#define AS_MEMCPY_CUDA_LIBRARY(X)                                                                                      \
    X(memcpy, batch, AS_DETERMINISTIC, "the same bytes as `pieces` copies of one cudaMemcpyBatchAsync")                \
    X(memcpy, peer, AS_MEMCPY_ONCE, "a copy between two GPUs")                                                         \
    X(memcpy, peer_bidirectional, AS_MEMCPY_ONCE, "copies between two GPUs both ways")                                 \
    X(memcpy, all_to_one, AS_MEMCPY_ONCE, "every other GPU copies from or to this one")                                \
    X(memcpy, one_to_all, AS_MEMCPY_ONCE, "this GPU copies from or to every other one")

#define AS_MEMCPY_MANAGED_SERIES                                                                                       \
    {"host_read", "ns", false, false}, { "device_read", "ns", false, false }
#define AS_MEMCPY_MANAGED (AS_DETERMINISTIC | AS_SINGLE | AS_HOST_CLOCK)
#define AS_MEMCPY_REQUEST_SERIES                                                                                       \
    {"read", "ns", false, false}, { "host", "ns", false, false }
#define AS_MEMCPY_REQUEST (AS_MEMCPY_ONCE | AS_HOST_CLOCK)

#define AS_MEMCPY_CUDA_EXTRA(X)                                                                                        \
    X(memcpy, overlap, AS_MEMCPY_ONCE, "a copy beside a kernel of the same length", {"copy", "ns", false, false},      \
      {"hidden", "permille", true, false}, {"issue", "ns", false, false})                                              \
    X(memcpy, managed_fault, AS_MEMCPY_MANAGED, "managed memory read by host, then device; pages move by faults",      \
      AS_MEMCPY_MANAGED_SERIES)                                                                                        \
    X(memcpy, managed_prefetch, AS_MEMCPY_MANAGED, "the same; prefetched to the device before it reads",               \
      AS_MEMCPY_MANAGED_SERIES)                                                                                        \
    X(memcpy, managed_advise, AS_MEMCPY_MANAGED, "the same as managed_fault; advised as read mostly",                  \
      AS_MEMCPY_MANAGED_SERIES)                                                                                        \
    X(memcpy, request_copy, AS_MEMCPY_REQUEST, "body read from a pipe, copied to pinned memory, sent to the device",   \
      AS_MEMCPY_REQUEST_SERIES)                                                                                        \
    X(memcpy, request_straight, AS_MEMCPY_REQUEST, "body read from a pipe into pinned memory, sent from there",        \
      AS_MEMCPY_REQUEST_SERIES)                                                                                        \
    X(memcpy, request_register, AS_MEMCPY_REQUEST, "body read into ordinary memory, registered, sent, unregistered",   \
      AS_MEMCPY_REQUEST_SERIES)                                                                                        \
    X(memcpy, request_mapped, AS_MEMCPY_REQUEST, "body read from a pipe into pinned memory, read there by a kernel",   \
      AS_MEMCPY_REQUEST_SERIES)

AS_MEMCPY_CPU(AS_PROTOTYPE_CPU)
AS_MEMCPY_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_MEMCPY_CPU_AVAILABLE(AS_PROTOTYPE_CPU_AVAILABLE)
AS_MEMCPY_CPU_EXTRA(AS_PROTOTYPE_CPU_STATE)
AS_MEMCPY_CUDA(AS_PROTOTYPE_CUDA)
AS_MEMCPY_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)
AS_MEMCPY_CUDA_LIBRARY(AS_PROTOTYPE_CUDA_LIBRARY)
AS_MEMCPY_CUDA_EXTRA(AS_PROTOTYPE_CUDA_STATE)

typedef enum as_memcpy_dir { AS_H2H, AS_H2D, AS_D2H, AS_D2D, AS_P2D, AS_D2P, AS_DIR_UNKNOWN } as_memcpy_dir;

static inline as_memcpy_dir as_memcpy_dir_of(const as_params *p) {
    static const char *const names[] = {"h2h", "h2d", "d2h", "d2d", "p2d", "d2p"};
    const char *dir = as_params_text(p, "dir");
    for (int i = 0; i < AS_DIR_UNKNOWN; i++)
        if (strcmp(dir, names[i]) == 0)
            return (as_memcpy_dir)i;
    return AS_DIR_UNKNOWN;
}

/* Start of piece i of `pieces`: the bytes split evenly. */
static inline int64_t as_memcpy_piece_at(int64_t bytes, int64_t pieces, int64_t i) {
    return bytes / pieces * i + bytes % pieces * i / pieces;
}

/* `latency`: the node that a walk of AS_MEMCPY_CHASE_STEPS ends at; a step is one line. */
as_status as_memcpy_reference(const as_reference *r, as_error *e);

/* ---- node.c: memory of another NUMA node ---- */

/* Moves the pages of [p, p + bytes), at least one byte, to the node that is farthest from the placement's (NULL: the
 * caller's), and reads back that they are there. AS_EABSENT with the reason on a machine with one node, and where the
 * pages may not be moved. */
as_status as_memcpy_move_far(void *p, size_t bytes, const as_placement *place, as_error *e) AS_MUST_CHECK;

/* ---- request.c: the host's half of a request ---- */

typedef struct as_request_pipe {
    int out, in; /* -1: not open */
} as_request_pipe;

/* A pipe that takes `bytes` at once. AS_EABSENT where the system's limit on pipes is lower. */
as_status as_request_open(as_request_pipe *p, size_t bytes, as_error *e) AS_MUST_CHECK;
void as_request_close(as_request_pipe *p);
as_status as_request_send(const as_request_pipe *p, const void *body, size_t bytes, as_error *e) AS_MUST_CHECK;
as_status as_request_receive(const as_request_pipe *p, void *body, size_t bytes, as_error *e) AS_MUST_CHECK;
double as_request_now_ns(void);

#ifdef __cplusplus
}
#endif
