/* `assay __sampler`: a process of its own, so that a broken NVML takes the curves with it and not the run. It dies with
 * the supervisor. One message on descriptor 3 says what to sample; after that the line is only watched for its end. */
#include "plan.h"
#include "process.h"
#include "telemetry_internal.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct sampler {
    as_peer peer;
    as_telemetry_area *area;
    size_t area_bytes;
    int sources, columns;
    struct {
        const as_device_telemetry *driver;
        void *monitor; /* NULL: its columns stay unknown */
        int first;
    } source[AS_TELEMETRY_SOURCES];
    const as_telemetry_column *column[AS_TELEMETRY_COLUMNS];
    double now[AS_TELEMETRY_COLUMNS], before[AS_TELEMETRY_COLUMNS];
    int64_t before_ns; /* 0: no sample yet */
} sampler;

static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- start ---- */

/* On a core that is not measured it disturbs nobody. Otherwise it runs only where nothing else wants to. */
static void stand_aside(as_telemetry_area *a, int spare) {
    const char *how = "default";
    if (spare >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(spare, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0) {
            a->cpu = spare;
            how = "own core";
        }
    }
    if (a->cpu < 0) {
        if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) == 0)
            how = "idle class";
        else if (setpriority(PRIO_PROCESS, 0, 19) == 0)
            how = "nice 19";
    }
    snprintf(a->scheduling, sizeof a->scheduling, "%s", how);
}

static const as_device_telemetry *telemetry_of(const as_registry *registry, const char *kind) {
    if (strcmp(kind, as_cpu_driver.kind) == 0)
        return as_cpu_driver.telemetry;
    for (const as_device_driver *const *d = registry->drivers; d && *d; d++)
        if (strcmp((*d)->kind, kind) == 0)
            return (*d)->telemetry;
    return NULL;
}

static void follow_host(const sampler *s, void *monitor, const json_t *message) {
    const json_t *list = json_object_get(message, "cpus");
    int cpu[AS_CLOCK_CPUS], n = 0;
    for (; n < AS_CLOCK_CPUS && n < (int)json_array_size(list); n++)
        cpu[n] = (int)json_integer_value(json_array_get(list, (size_t)n));
    as_host_monitor_follow(monitor, cpu, n, &s->area->worker);
}

/* False where the message and this binary do not fit: the same walk as the supervisor's, or nothing. */
static bool open_sources(sampler *s, const as_registry *registry, const json_t *message) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(message, "devices"), i, row) {
        const char *kind = json_string_value(json_object_get(row, "kind"));
        const as_device_telemetry *driver = kind ? telemetry_of(registry, kind) : NULL;
        if (!driver || s->sources == AS_TELEMETRY_SOURCES)
            return false;
        s->source[s->sources].driver = driver;
        s->source[s->sources].first = s->columns;
        void *monitor = driver->open(json_object_get(row, "description"));
        if (monitor && driver == &as_host_telemetry)
            follow_host(s, monitor, message);
        s->source[s->sources++].monitor = monitor;
        for (const as_telemetry_column *c = driver->columns; c->name; c++) {
            if (s->columns == AS_TELEMETRY_COLUMNS)
                return false;
            s->column[s->columns++] = c;
        }
    }
    return s->columns == (int)json_integer_value(json_object_get(message, "columns"));
}

static bool map_area(sampler *s, const json_t *message) {
    const int fd = (int)json_integer_value(json_object_get(message, "area"));
    s->area_bytes = (size_t)json_integer_value(json_object_get(message, "area_bytes"));
    void *p = mmap(NULL, s->area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    s->area = p == MAP_FAILED ? NULL : p;
    return s->area != NULL;
}

/* ---- one sample ---- */

static void read_all(sampler *s) {
    for (int i = 0; i < s->sources; i++) {
        double *values = s->now + s->source[i].first;
        if (s->source[i].monitor)
            s->source[i].driver->read(s->source[i].monitor, values);
        else
            for (const as_telemetry_column *c = s->source[i].driver->columns; c->name; c++)
                *values++ = NAN;
    }
}

/* Every second row goes, from the oldest on; the distance of what stays is that of the samples to come. */
static void thin_out(sampler *s) {
    const size_t row_bytes = sizeof(double) * (size_t)(s->columns + 1);
    for (int i = 1; i < AS_TELEMETRY_ROWS / 2; i++)
        memcpy(as_area_row(s->area, i, s->columns), as_area_row(s->area, 2 * i, s->columns), row_bytes);
    atomic_store(&s->area->rows, AS_TELEMETRY_ROWS / 2);
    atomic_fetch_add(&s->area->thinned, 1);
}

/* Counters become rates over the time since the last sample; the first sample has none. */
static void write_row(sampler *s, int64_t at_ns) {
    as_telemetry_area *a = s->area;
    if (atomic_load(&a->rows) == AS_TELEMETRY_ROWS)
        thin_out(s);
    const int rows = atomic_load(&a->rows);
    double *out = as_area_row(a, rows, s->columns);
    const double seconds = (double)(at_ns - s->before_ns) * 1e-9;
    out[0] = (double)at_ns;
    for (int c = 0; c < s->columns; c++) {
        double value = s->now[c];
        if (s->column[c]->kind == AS_RATE) {
            const double grown = value - s->before[c], scale = s->column[c]->scale;
            value = s->before_ns && grown >= 0 && seconds > 0 ? grown * (scale != 0 ? scale : 1) / seconds : NAN;
            s->before[c] = s->now[c];
        }
        out[c + 1] = value;
    }
    s->before_ns = at_ns;
    atomic_store(&a->rows, rows + 1);
}

/* ---- the loop ---- */

/* True once the supervisor has closed the line. */
static bool ended(const sampler *s, int64_t until_ns) {
    for (;;) {
        const int64_t left_ns = until_ns - as_now_ns();
        struct pollfd f = {.fd = s->peer.fd, .events = POLLIN};
        const int64_t ms = (left_ns + 999999) / 1000000;
        if (poll(&f, 1, ms <= 0 ? 0 : ms > 3600000 ? 3600000 : (int)ms) > 0)
            return true;
        if (as_now_ns() >= until_ns)
            return false;
    }
}

static void sample_until_the_end(sampler *s, int64_t floor_ns, bool stretch, int64_t begin_ns) {
    as_telemetry_area *a = s->area;
    static as_pace pace;
    double spent_ns = 0;
    as_pace_init(&pace, floor_ns);
    for (int64_t next = as_now_ns();;) {
        if (ended(s, next))
            return;
        const int64_t at_ns = as_now_ns();
        atomic_store(&a->heartbeat_ns, at_ns);
        read_all(s);
        write_row(s, at_ns);
        const double total_ns = cpu_ns();
        const int64_t now_ns = as_now_ns();
        if (spent_ns > 0)
            as_pace_spent(&pace, now_ns, total_ns - spent_ns);
        else
            a->start_cpu_ns = total_ns; /* libraries start with the first question */
        spent_ns = total_ns;
        a->cpu_ns = total_ns;
        a->wall_ns = (double)(now_ns - begin_ns);
        a->worst_share = pace.worst_ns / (double)as_pace_window_ns;
        pace.floor_ns = floor_ns << atomic_load(&a->thinned);
        next = stretch ? as_pace_next(&pace, now_ns) : at_ns + floor_ns;
        if (next < now_ns)
            next = now_ns + floor_ns;
        atomic_store(&a->period_ns, next - at_ns);
        atomic_store(&a->next_ns, next);
        atomic_store(&a->heartbeat_ns, now_ns);
        atomic_store(&a->ready, 1);
    }
}

int as_sampler_main(const as_registry *registry) {
    const int64_t begin_ns = as_now_ns();
    static sampler s;
    json_t *message = NULL;
    as_peer_of_parent(&s.peer);
    int rc = 3;
    if (as_peer_receive(&s.peer, &message, 10000000000, NULL, NULL) == AS_OK && map_area(&s, message)) {
        const bool stretch = json_is_true(json_object_get(message, "stretch"));
        snprintf(s.area->scheduling, sizeof s.area->scheduling, "default");
        s.area->cpu = -1;
        if (stretch) /* a run measures beside it */
            stand_aside(s.area, (int)json_integer_value(json_object_get(message, "spare")));
        if (open_sources(&s, registry, message)) {
            sample_until_the_end(&s, json_integer_value(json_object_get(message, "period_ns")), stretch, begin_ns);
            rc = 0;
        }
    }
    for (int i = 0; i < s.sources; i++)
        if (s.source[i].monitor)
            s.source[i].driver->close(s.source[i].monitor);
    if (s.area)
        munmap(s.area, s.area_bytes);
    json_decref(message);
    free(s.peer.buffer);
    return rc;
}
