/* A fixed team of threads, each pinned to its own CPU of the placement; the caller is member 0.
 * Dispatch is a spin-then-sleep barrier: no allocation, no lock in a timed region. */
#pragma once

#include "status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_team as_team;
typedef struct as_placement as_placement;

/* Runs once on every member: member in [0, size). */
typedef void (*as_team_fn)(int member, int size, void *context);

/* `size` members on the placement's first `size` CPUs; size <= placement CPUs, else AS_EENV. Binds the caller to the
 * first CPU and leaves it there. Only the creating thread may run and destroy the team. */
as_status as_team_create(as_team **out, int size, const as_placement *place, as_error *e) AS_MUST_CHECK;
void as_team_run(as_team *team, as_team_fn fn, void *context);
int as_team_size(const as_team *team);
/* True if every member may still run on its own CPU only, and does: asked outside timed regions. */
bool as_team_holds(as_team *team);
void as_team_destroy(as_team *team); /* NULL allowed */

#ifdef __cplusplus
}
#endif
