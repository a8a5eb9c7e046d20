/* Internal to the telemetry's files: the shared memory, the rule of the period, the host on a given file tree. */
#pragma once

#include "telemetry.h"

#include <stdatomic.h>

enum { AS_TELEMETRY_ROWS = 16384, AS_TELEMETRY_KEPT = 4096, AS_CLOCK_CPUS = 4 };

/* Written by the sampler, read by the supervisor. When the rows are full every second one goes and the shortest
 * period doubles; a reader may then meet rows that do not grow in time, and skips them. */
typedef struct as_telemetry_area {
    _Atomic int ready; /* the first row is there */
    _Atomic int rows;
    _Atomic int thinned;          /* how often every second row was dropped */
    _Atomic int worker;           /* process to follow; 0: none */
    _Atomic int64_t heartbeat_ns; /* raw clock, set around each sample */
    _Atomic int64_t next_ns;      /* when the next sample is due */
    _Atomic int64_t period_ns;    /* the last one */
    int64_t floor_ns;             /* the shortest asked for */
    int cpu;                      /* the core it has to itself; -1: none */
    char scheduling[16];          /* "own core", "idle class", "nice 19", "default" */
    double start_cpu_ns, cpu_ns;  /* of the process: to the end of the first sample, and in all */
    double wall_ns;               /* since the process began */
    double worst_share;           /* largest share of one CPU over any 60 s after the start */
    double row[];                 /* rows x (1 + columns) */
} as_telemetry_area;

/* ---- telemetry_pace.c: the rule that stretches the period ---- */

enum { AS_PACE_ENTRIES = 1024 };

typedef struct as_pace {
    int64_t floor_ns;
    double mean_ns;      /* CPU time of a sample, exponentially weighted */
    double in_window_ns; /* CPU time of the last 60 s */
    double worst_ns;     /* the most it ever was */
    int first, count;
    struct {
        int64_t at_ns;
        double cpu_ns;
    } entry[AS_PACE_ENTRIES];
} as_pace;

/* Share of one CPU that the sampler may take, and the window it is meant over. */
extern const double as_pace_share;
extern const int64_t as_pace_window_ns;

/* floor_ns is raised to 100 ms. */
void as_pace_init(as_pace *p, int64_t floor_ns);
void as_pace_spent(as_pace *p, int64_t now_ns, double cpu_ns);
int64_t as_pace_next(as_pace *p, int64_t now_ns); /* when the next sample may begin */

/* ---- telemetry_host.c ---- */

void *as_host_monitor_open(const char *sysroot);
/* CPUs whose clock is read (the first AS_CLOCK_CPUS count), and where the followed process stands; may be NULL. */
void as_host_monitor_follow(void *monitor, const int *cpu, int cpus, const _Atomic int *worker);
/* The lowest allowed CPU that is neither measured nor a sibling of a measured one; -1 if there is none. */
int as_spare_cpu(const char *sysroot, const as_placement *measured, const int *allowed, int count);

static inline double *as_area_row(as_telemetry_area *a, int row, int columns) {
    return a->row + (size_t)row * (size_t)(columns + 1);
}
