/* Child processes of this same binary: the probe, and workers with a private line protocol. */
#pragma once

#include "status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct json_t;

/* Runs /proc/self/exe with one argument and returns its standard output (malloc). AS_EENV after timeout_ms. */
as_status as_process_self_output(const char *argument, char **text, int timeout_ms, as_error *e) AS_MUST_CHECK;

/* A child that reads one JSON object a line on descriptor 3 and answers each with one. */
typedef struct as_peer {
    pid_t pid; /* 0: none */
    int fd;
    char *buffer; /* bytes read and not yet consumed */
    size_t used, capacity;
} as_peer;

/* The child dies with its parent (PR_SET_PDEATHSIG). */
as_status as_peer_start(as_peer *p, const char *argument, as_error *e) AS_MUST_CHECK;
as_status as_peer_send(as_peer *p, const struct json_t *message, as_error *e) AS_MUST_CHECK;
/* Waits for one line. AS_ELOST when the peer died or the time ran out (message says which); AS_EINTR when
 * *interrupted becomes true while waiting. */
as_status as_peer_receive(as_peer *p, struct json_t **message, int64_t timeout_ns, const volatile int *interrupted,
                          as_error *e) AS_MUST_CHECK;
/* Closes the line, gives the peer grace_ms to end by itself, kills it if it has not, and reaps; describes how it ended: "exit status 3", "signal 11 (Segmentation fault)". */
void as_peer_stop(as_peer *p, int grace_ms, char how[128]);

/* The worker's end: descriptor 3. Receive: AS_ELOST when the parent is gone. */
void as_peer_of_parent(as_peer *p);

int64_t as_now_ns(void); /* CLOCK_MONOTONIC_RAW */
