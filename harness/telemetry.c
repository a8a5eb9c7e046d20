/* The supervisor's side of the telemetry: starts the sampler, reads the memory that both share, ends it. */
#include "telemetry.h"
#include "place_internal.h"
#include "process.h"
#include "sysfile.h"
#include "telemetry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void failed(as_telemetry *t, const char *state, const char *why) {
    snprintf(t->state, sizeof t->state, "%s", state);
    snprintf(t->fault, sizeof t->fault, "telemetry: %.200s", why);
}

/* ---- where the sampler may run ---- */

/* Measured, or a hardware thread of the same core as a measured one. */
static bool touched(const char *sysroot, const as_placement *measured, int cpu) {
    char path[96], list[256];
    bool found = false;
    hwloc_bitmap_t core = hwloc_bitmap_alloc();
    as_error ignored;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (!core)
        return true;
    if (!as_sysfile_read(sysroot, path, list, sizeof list) || as_place_parse(list, core, &ignored) != AS_OK)
        hwloc_bitmap_only(core, (unsigned)cpu);
    for (int i = 0; i < measured->cpus && !found; i++)
        found = hwloc_bitmap_isset(core, (unsigned)measured->cpu[i]);
    hwloc_bitmap_free(core);
    return found;
}

int as_spare_cpu(const char *sysroot, const as_placement *measured, const int *allowed, int count) {
    for (int i = 0; i < count; i++)
        if (!touched(sysroot, measured, allowed[i]))
            return allowed[i];
    return -1;
}

static int spare_cpu(const as_placement *measured) {
    static int allowed[CPU_SETSIZE];
    cpu_set_t set;
    int n = 0;
    if (!measured || sched_getaffinity(0, sizeof set, &set) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            allowed[n++] = cpu;
    return as_spare_cpu("", measured, allowed, n);
}

/* ---- start ---- */

static void lay_out_columns(as_telemetry *t, const as_telemetry_request *r) {
    for (int i = 0; i < r->devices && t->sources < AS_TELEMETRY_SOURCES; i++) {
        const as_device_telemetry *driver = r->device[i].driver;
        int n = 0;
        while (driver && driver->columns[n].name)
            n++;
        if (!driver || t->columns + n > AS_TELEMETRY_COLUMNS)
            continue;
        as_telemetry_source *s = &t->source[t->sources++];
        snprintf(s->name, sizeof s->name, "%s", r->device[i].name);
        s->driver = driver;
        s->first = t->columns;
        for (int c = 0; c < n; c++)
            t->column[t->columns++] = &driver->columns[c];
    }
}

/* Not backed by pages before a row is written there. -1 and a fault where it cannot be had. */
static int make_area(as_telemetry *t) {
    t->area_bytes = sizeof *t->area + sizeof(double) * (size_t)(t->columns + 1) * (size_t)AS_TELEMETRY_ROWS;
    enum { FIRST_FREE = 10 }; /* the sampler's line becomes its descriptor 3: this one must not stand there */
    const int low = memfd_create("assay-telemetry", MFD_CLOEXEC);
    const int fd = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, FIRST_FREE) : -1;
    void *p = MAP_FAILED;
    if (low >= 0)
        close(low);
    if (fd >= 0 && ftruncate(fd, (off_t)t->area_bytes) == 0)
        p = mmap(NULL, t->area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED) {
        t->area = p;
        return fd;
    }
    failed(t, "unavailable", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static json_t *order(const as_telemetry *t, const as_telemetry_request *r, int area) {
    json_t *devices = json_array(), *cpus = json_array();
    for (int s = 0; s < t->sources; s++)
        for (int i = 0; i < r->devices; i++)
            if (strcmp(r->device[i].name, t->source[s].name) == 0)
                json_array_append_new(devices, json_pack("{s:s, s:O?}", "kind", r->device[i].kind, "description",
                                                         r->device[i].description));
    for (int i = 0; r->measured && i < r->measured->cpus && i < AS_CLOCK_CPUS; i++)
        json_array_append_new(cpus, json_integer(r->measured->cpu[i]));
    return json_pack("{s:o, s:o, s:i, s:i, s:I, s:i, s:I, s:b}", "devices", devices, "cpus", cpus, "columns",
                     t->columns, "area", area, "area_bytes", (json_int_t)t->area_bytes, "spare", spare_cpu(r->measured),
                     "period_ns", (json_int_t)r->period_ns, "stretch", (int)r->stretch);
}

static void await_first_sample(as_telemetry *t) {
    enum { TRIES = 1500 };
    for (int i = 0; i < TRIES && !atomic_load(&t->area->ready) && as_telemetry_alive(t); i++)
        usleep(2000);
}

void as_telemetry_start(as_telemetry *t, const as_telemetry_request *r) {
    memset(t, 0, sizeof *t);
    t->fd = -1;
    t->begin_ns = as_now_ns();
    snprintf(t->state, sizeof t->state, "sampling");
    lay_out_columns(t, r);
    const int area = make_area(t);
    if (area < 0)
        return;
    t->area->floor_ns = r->period_ns;
    as_peer peer;
    as_error e = {0};
    fcntl(area, F_SETFD, 0); /* the one descriptor that the sampler inherits beside its line */
    as_status s = as_peer_start(&peer, "__sampler", &e);
    json_t *message = order(t, r, area);
    if (s == AS_OK) {
        t->pid = peer.pid;
        t->fd = peer.fd;
        s = as_peer_send(&peer, message, &e);
    }
    json_decref(message);
    close(area);
    if (s != AS_OK)
        failed(t, "unavailable", e.message);
    else
        await_first_sample(t);
}

void as_telemetry_follow(as_telemetry *t, pid_t worker) {
    if (t && t->area)
        atomic_store(&t->area->worker, (int)worker);
}

/* ---- end ---- */

static void describe_end(as_telemetry *t, int status) {
    char why[200];
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "the sampler died: signal %d (%s); curves end there, the measurements are whole",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, sizeof why, "the sampler ended with status %d; curves end there, the measurements are whole",
                 WEXITSTATUS(status));
    failed(t, "died", why);
}

bool as_telemetry_alive(as_telemetry *t) {
    int status = 0;
    if (t->pid > 0 && waitpid(t->pid, &status, WNOHANG) == t->pid) {
        t->pid = 0;
        describe_end(t, status);
    }
    return t->pid > 0;
}

/* A sample that began and has not ended, or one that is long overdue. */
static bool is_stuck(const as_telemetry *t, int64_t now_ns) {
    const int64_t patience_ns = 5000000000;
    const int64_t due = atomic_load(&t->area->next_ns), beat = atomic_load(&t->area->heartbeat_ns);
    const int64_t since = due > beat ? due : beat;
    return now_ns - (since > 0 ? since : t->begin_ns) > patience_ns;
}

static bool gone_within(pid_t pid, int ms, int *status) {
    for (int i = 0; i < ms; i++) {
        if (waitpid(pid, status, WNOHANG) != 0)
            return true;
        usleep(1000);
    }
    return false;
}

void as_telemetry_stop(as_telemetry *t) {
    int status = 0;
    if (!t->state[0])
        return;
    if (t->pid > 0 && as_telemetry_alive(t)) {
        const bool stuck = is_stuck(t, as_now_ns());
        shutdown(t->fd, SHUT_RDWR);
        snprintf(t->state, sizeof t->state, "complete");
        if (!gone_within(t->pid, 1000, &status)) {
            kill(t->pid, SIGKILL);
            /* In a driver's call that no signal ends it is left behind: the run does not wait for it. */
            (void)gone_within(t->pid, 1000, &status);
            failed(t, "stuck", "the sampler hung and was killed; curves end there, the measurements are whole");
        } else if (stuck) {
            failed(t, "stuck", "the sampler got no CPU or hung for over 5 s; curves have a gap");
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            describe_end(t, status);
        }
        t->pid = 0;
    }
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

void as_telemetry_free(as_telemetry *t) {
    if (t->area)
        munmap(t->area, t->area_bytes);
    memset(t, 0, sizeof *t);
    t->fd = -1;
}

/* ---- reading ---- */

int as_telemetry_rows(const as_telemetry *t) { return t->area ? atomic_load(&t->area->rows) : 0; }

const double *as_telemetry_row(const as_telemetry *t, int row) { return as_area_row(t->area, row, t->columns); }
