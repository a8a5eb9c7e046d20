#include "nvbandwidth.h"

#include "memcpy.h"

#include <stdlib.h>

#define RATE "the rate"
#define ONE "the rate of the measured direction alone"
#define SUM "the sum of both or all GPUs: the rate"
#define LOAD "the time of a load"
#define HALF "half the rate: it counts a byte once, not read + written"

const as_nvbandwidth_case as_nvbandwidth_cases[] = {
    {"host_to_device_memcpy_ce", "async", "bytes=536870912;dir=h2d", RATE, false},
    {"device_to_host_memcpy_ce", "async", "bytes=536870912;dir=d2h", RATE, false},
    {"host_to_device_bidirectional_memcpy_ce", "bidirectional", "bytes=536870912;dir=h2d", ONE, false},
    {"device_to_host_bidirectional_memcpy_ce", "bidirectional", "bytes=536870912;dir=d2h", ONE, false},
    {"device_to_device_memcpy_read_ce", "peer", "bytes=536870912;dir=p2d", RATE, true},
    {"device_to_device_memcpy_write_ce", "peer", "bytes=536870912;dir=d2p", RATE, true},
    {"device_to_device_bidirectional_memcpy_read_ce", "peer_bidirectional", "bytes=536870912;dir=p2d", SUM, true},
    {"device_to_device_bidirectional_memcpy_write_ce", "peer_bidirectional", "bytes=536870912;dir=d2p", SUM, true},
    {"all_to_host_memcpy_ce", "all", "bytes=536870912;dir=d2h", ONE, false},
    {"all_to_host_bidirectional_memcpy_ce", "all_bidirectional", "bytes=536870912;dir=d2h", ONE, false},
    {"host_to_all_memcpy_ce", "all", "bytes=536870912;dir=h2d", ONE, false},
    {"host_to_all_bidirectional_memcpy_ce", "all_bidirectional", "bytes=536870912;dir=h2d", ONE, false},
    {"all_to_one_write_ce", "all_to_one", "bytes=536870912;dir=p2d", SUM, true},
    {"all_to_one_read_ce", "all_to_one", "bytes=536870912;dir=d2p", SUM, true},
    {"one_to_all_write_ce", "one_to_all", "bytes=536870912;dir=d2p", SUM, true},
    {"one_to_all_read_ce", "one_to_all", "bytes=536870912;dir=p2d", SUM, true},
    {"host_to_device_memcpy_sm", "kernel", "bytes=536870912;dir=h2d", RATE, false},
    {"device_to_host_memcpy_sm", "kernel", "bytes=536870912;dir=d2h", RATE, false},
    {"host_to_device_bidirectional_memcpy_sm", "bidirectional", "bytes=268435456;dir=h2d;by=sm", ONE, false},
    {"device_to_host_bidirectional_memcpy_sm", "bidirectional", "bytes=268435456;dir=d2h;by=sm", ONE, false},
    {"device_to_device_memcpy_read_sm", "peer", "bytes=536870912;dir=p2d;by=sm", RATE, true},
    {"device_to_device_memcpy_write_sm", "peer", "bytes=536870912;dir=d2p;by=sm", RATE, true},
    {"device_to_device_bidirectional_memcpy_read_sm", "peer_bidirectional", "bytes=536870912;dir=p2d;by=sm", SUM, true},
    {"device_to_device_bidirectional_memcpy_write_sm", "peer_bidirectional", "bytes=536870912;dir=d2p;by=sm", SUM,
     true},
    {"all_to_host_memcpy_sm", "all", "bytes=536870912;dir=d2h;by=sm", ONE, false},
    {"all_to_host_bidirectional_memcpy_sm", "all_bidirectional", "bytes=268435456;dir=d2h;by=sm", ONE, false},
    {"host_to_all_memcpy_sm", "all", "bytes=536870912;dir=h2d;by=sm", ONE, false},
    {"host_to_all_bidirectional_memcpy_sm", "all_bidirectional", "bytes=268435456;dir=h2d;by=sm", ONE, false},
    {"all_to_one_write_sm", "all_to_one", "bytes=536870912;dir=p2d;by=sm", SUM, true},
    {"all_to_one_read_sm", "all_to_one", "bytes=536870912;dir=d2p;by=sm", SUM, true},
    {"one_to_all_write_sm", "one_to_all", "bytes=536870912;dir=d2p;by=sm", SUM, true},
    {"one_to_all_read_sm", "one_to_all", "bytes=536870912;dir=p2d;by=sm", SUM, true},
    {"host_device_latency_sm", "latency", "bytes=2097152;dir=h2d", LOAD, false},
    {"device_to_device_latency_sm", "latency", "bytes=2097152;dir=p2d", LOAD, true},
    {"device_local_copy", "async", "bytes=536870912;dir=d2d", HALF, false},
    {.name = NULL},
};

/* The id that a plan gives the case on cuda0. */
static void id_of(const as_nvbandwidth_case *c, char id[AS_ID_MAX]) {
    char text[128], *rest = text;
    as_params p;
    as_error e;
    bool good = as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, &e) == AS_OK;
    snprintf(text, sizeof text, "%s", c->axes);
    for (char *pair; good && (pair = strsep(&rest, ";"));) {
        char *value = pair;
        const char *axis = strsep(&value, "=");
        good = value && as_params_set(&p, axis, value, &e) == AS_OK;
    }
    if (!good)
        abort(); /* a fault of the table above */
    as_case_id(id, "memcpy", c->variant, &p, "cuda0");
}

void as_nvbandwidth_print(FILE *to) {
    char id[AS_ID_MAX];
    fprintf(to, "| nvbandwidth 0.8 | case | it prints | GPUs |\n|---|---|---|---|\n");
    for (const as_nvbandwidth_case *c = as_nvbandwidth_cases; c->name; c++) {
        id_of(c, id);
        fprintf(to, "| `%s` | `%s` | %s | %s |\n", c->name, id, c->reported, c->two_gpus ? "2, never run" : "1");
    }
}
