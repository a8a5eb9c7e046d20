/* How often the sampler may look. Its CPU time stays at most 0.3% of wall time over any 60 s, its start apart: that is
 * over, with the first sample, before the first round begins. (On an H200 the two took 0.83 s of CPU time, NVML's own.)
 *
 *   period  = max(floor, mean cost of a sample / (0.9 x 0.3%))
 *
 * The tenth that is left pays for samples dearer than the mean. Behind it stands a guard: the entries of the last 60 s
 * are kept, and a sample that would exceed 180 ms in them waits until the oldest have left the window. */
#include "telemetry_internal.h"

#include <math.h>
#include <string.h>

const double as_pace_share = 0.003;
const int64_t as_pace_window_ns = 60000000000;

static const int64_t least_floor_ns = 100000000; /* 600 entries in a window: fewer than there is room for */

static void add(as_pace *p, int64_t at_ns, double cpu_ns) {
    const int at = (p->first + p->count) % AS_PACE_ENTRIES;
    p->entry[at].at_ns = at_ns;
    p->entry[at].cpu_ns = cpu_ns;
    p->count++;
    p->in_window_ns += cpu_ns;
    p->worst_ns = fmax(p->worst_ns, p->in_window_ns);
}

static void drop_oldest(as_pace *p) {
    p->in_window_ns -= p->entry[p->first].cpu_ns;
    p->first = (p->first + 1) % AS_PACE_ENTRIES;
    p->count--;
}

static void forget(as_pace *p, int64_t now_ns) {
    while (p->count > 0 && (p->entry[p->first].at_ns <= now_ns - as_pace_window_ns || p->count == AS_PACE_ENTRIES))
        drop_oldest(p);
    if (p->count == 0)
        p->in_window_ns = 0; /* no error of rounding is carried on */
}

void as_pace_init(as_pace *p, int64_t floor_ns) {
    memset(p, 0, sizeof *p);
    p->floor_ns = floor_ns > least_floor_ns ? floor_ns : least_floor_ns;
}

void as_pace_spent(as_pace *p, int64_t now_ns, double cpu_ns) {
    forget(p, now_ns);
    add(p, now_ns, cpu_ns);
    p->mean_ns = p->mean_ns > 0 ? 0.9 * p->mean_ns + 0.1 * cpu_ns : cpu_ns;
}

int64_t as_pace_next(as_pace *p, int64_t now_ns) {
    const double window = (double)as_pace_window_ns, most = as_pace_share * window;
    const double period = fmax((double)p->floor_ns, p->mean_ns / (0.9 * as_pace_share));
    int64_t next = now_ns + (int64_t)period;
    forget(p, next);
    while (p->count > 0 && p->in_window_ns + p->mean_ns > most) {
        next = p->entry[p->first].at_ns + as_pace_window_ns;
        drop_oldest(p);
    }
    return next;
}
