/* The environment of a run, for `context`: machine, kernel, container, allowed environment variables.
 * Nothing secret: variables by allow-list only. Nothing that fluctuates in the machine's identity. */
#pragma once

#include "place.h"
#include "status.h"

struct json_t;

/* New object with Google Benchmark's context keys (date, host_name, executable, num_cpus, mhz_per_cpu,
 * cpu_scaling_enabled, caches, load_avg, library_build_type) and ours (machine, kernel, os, container,
 * mitigations, environment_variables, warnings). `sysroot` is "" or the root of a fake /sys and /proc
 * tree in tests. ASSAY_ANONYMOUS=1 replaces the host name by "host". */
struct json_t *as_environment_context(const char *sysroot, const char *executable);

/* New object of counters of this process and machine, read around a round: minor_faults, major_faults,
 * voluntary_switches, involuntary_switches, steal_ticks, cpu_ticks, cpu_hz (mean of the placement; 0 unknown), wait_ns
 * (ready and waiting for a CPU), thermal_throttle_ms (both absent where unknown), time_ns. */
struct json_t *as_environment_counters(const char *sysroot, const as_placement *p);
/* Adds reasons ("other load: steal", "disturbed: waited for a CPU", "throttled: thermal", "clocks moved", "major page
 * faults") to the JSON array `flags`. */
void as_environment_judge(const struct json_t *before, const struct json_t *after, struct json_t *flags);
