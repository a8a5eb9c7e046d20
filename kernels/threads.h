/* Placement of threads that a library creates behind our back (OpenMP, OpenBLAS): a new thread inherits the
 * affinity of its creator, and member 0 of a team is pinned to one CPU, so that all of them would share it. */
#pragma once

#include "../harness/status.h"
#include "../harness/team.h"

/* CPU (OS index) of each member, read on the members; `cpu` holds as_team_size values. */
void as_threads_cpus(as_team *team, int *cpu);
/* Lets the caller run on all CPUs of the team and calls fn, whose new threads inherit that; then pins the caller
 * back to where it was. */
as_status as_threads_spawn(as_team *team, void (*fn)(void *context), void *context, as_error *e) AS_MUST_CHECK;
/* Pins the calling thread to one CPU; a refusal is ignored (the harness checks placement after the run). */
void as_threads_pin(int cpu);
