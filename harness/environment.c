#include "environment.h"
#include "environment_internal.h"
#include "place_internal.h"
#include "sysfile.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static bool anonymous(void) {
    const char *v = getenv("ASSAY_ANONYMOUS");
    return v && strcmp(v, "1") == 0;
}

/* ---- Google Benchmark's keys ---- */

/* ISO 8601 with the offset as +hh:mm; strftime writes +hhmm. */
static void iso_date(char *out, size_t size) {
    time_t now = time(NULL);
    struct tm local;
    char stamp[32], offset[8];
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &local);
    strftime(offset, sizeof offset, "%z", &local);
    snprintf(out, size, "%s%.3s:%.2s", stamp, offset, offset + 3);
}

static int online_cpus(const char *sysroot) {
    char list[256];
    int n = 0;
    if (as_sysfile_read(sysroot, "/sys/devices/system/cpu/online", list, sizeof list))
        n = as_sysfile_list_count(list, NULL);
    if (n == 0 && sysroot[0] == '\0')
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

/* The rated clock; the momentary one of /proc/cpuinfo only where nothing better is known; 0 if nothing is. */
static json_int_t mhz(const char *sysroot) {
    static const char *const files[] = {"/sys/devices/system/cpu/cpu0/cpufreq/base_frequency",
                                        "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"};
    char text[4096], value[64];
    uint64_t khz;
    double now;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (as_sysfile_uint(sysroot, files[i], &khz))
            return (json_int_t)(khz / 1000);
    if (as_sysfile_read(sysroot, "/proc/cpuinfo", text, sizeof text) &&
        as_sysfile_field(text, "cpu MHz", value, sizeof value) && as_sysfile_decimal(value, NULL, &now))
        return llround(now);
    return 0;
}

static bool cpu_scaling(const char *sysroot) {
    char text[64];
    return as_sysfile_read(sysroot, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text, sizeof text) &&
           strcmp(text, "performance") != 0;
}

static void add_cache(json_t *list, const char *type, int level, size_t bytes, int shared_by) {
    if (bytes)
        json_array_append_new(list, json_pack("{s:s, s:i, s:I, s:i}", "type", type, "level", level, "size",
                                              (json_int_t)bytes, "num_sharing", shared_by));
}

static json_t *caches(const as_topology_info *t) {
    json_t *list = json_array();
    add_cache(list, "Data", 1, t->l1d_bytes, t->l1d_shared_by);
    add_cache(list, "Unified", 2, t->l2_bytes, t->l2_shared_by);
    add_cache(list, "Unified", 3, t->l3_bytes, t->l3_shared_by);
    return list;
}

static json_t *load_average(const char *sysroot) {
    char text[128];
    json_t *list = json_array();
    const char *p = text;
    double value;
    as_sysfile_read(sysroot, "/proc/loadavg", text, sizeof text);
    for (int i = 0; i < 3 && as_sysfile_decimal(p, &p, &value); i++) {
        json_array_append_new(list, json_real(value));
        p += *p == ' ';
    }
    return list;
}

static json_t *host_name(const struct utsname *system) {
    return anonymous() ? json_string("host") : as_environment_text(system->nodename);
}

/* An anonymous result does not tell where the user keeps programs. */
static json_t *executable_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return as_environment_text(anonymous() && slash ? slash + 1 : path);
}

/* ---- ours ---- */

static json_t *os_name(const char *sysroot) {
    char text[2048];
    const char *p = NULL;
    if (as_sysfile_read(sysroot, "/etc/os-release", text, sizeof text) ||
        as_sysfile_read(sysroot, "/usr/lib/os-release", text, sizeof text))
        p = strstr(text, "PRETTY_NAME=");
    if (!p)
        return json_string("unknown");
    p += strlen("PRETTY_NAME=");
    p += *p == '"';
    text[(size_t)(p - text) + strcspn(p, "\"\n")] = '\0';
    return as_environment_text(p);
}

static bool allowed_variable(const char *name, size_t length) {
    static const char *const allowed[] = {"CUDA_VISIBLE_DEVICES",
                                          "CUDA_DEVICE_ORDER",
                                          "CUDA_MODULE_LOADING",
                                          "OPENBLAS_NUM_THREADS",
                                          "OPENBLAS_CORETYPE",
                                          "GOMP_CPU_AFFINITY",
                                          "MALLOC_ARENA_MAX",
                                          "ASSAY_ANONYMOUS",
                                          "ASSAY_TELEMETRY",
                                          "ASSAY_INJECT",
                                          "LANG",
                                          "LC_ALL"};
    if (length > 4 && strncmp(name, "OMP_", 4) == 0)
        return true;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        if (strlen(allowed[i]) == length && strncmp(name, allowed[i], length) == 0)
            return true;
    return false;
}

static json_t *variables(void) {
    json_t *o = json_object();
    for (char **v = environ; v && *v; v++) {
        char name[64];
        size_t length = strcspn(*v, "=");
        if ((*v)[length] != '=' || length >= sizeof name || !allowed_variable(*v, length))
            continue;
        memcpy(name, *v, length);
        name[length] = '\0';
        json_object_set_new(o, name, as_environment_text(*v + length + 1)); /* a name that is no UTF-8 is dropped */
    }
    return o;
}

static void warn(json_t *list, const char *text) { json_array_append_new(list, json_string(text)); }

/* What a reader must know before trusting a number from this machine; each line names its consequence. */
static json_t *warnings(const char *sysroot, const json_t *context, const as_topology_info *t) {
    json_t *list = json_array();
    double load = json_number_value(json_array_get(json_object_get(context, "load_avg"), 0));
    if (cpu_scaling(sysroot))
        warn(list, "the CPU frequency governor is not \"performance\": CPU times may vary with the clock");
    if (t->l1d_bytes == 0 || t->l2_bytes == 0)
        warn(list, "cache sizes are unknown: working sets cannot be matched with cache levels");
    if (t->memory_bytes == 0)
        warn(list, "the memory size is unknown: large cases may not fit");
    if (t->cpu_quota > 0 && t->cpu_quota < t->cores)
        warn(list, "the cgroup limits CPU time below the number of cores: busy threads will be paused");
    if (load > 0.5 * online_cpus(sysroot))
        warn(list, "other processes kept the machine busy before this run: CPU times may be too long");
    return list;
}

static void read_whole_topology(const char *sysroot, as_topology_info *out) {
    hwloc_topology_t t = NULL;
    as_error ignored;
    if (sysroot[0] != '\0' || as_topology_load(&t, false, true, &ignored) != AS_OK)
        t = NULL; /* sysfs and sysconf remain */
    as_topology_fill(t, sysroot, out);
    if (t)
        hwloc_topology_destroy(t);
}

json_t *as_environment_context(const char *sysroot, const char *executable) {
    char date[48], kernel[256];
    struct utsname system = {0};
    as_topology_info topology;
    uname(&system);
    iso_date(date, sizeof date);
    read_whole_topology(sysroot, &topology); /* the machine's identity does not depend on this process's cpuset */
    snprintf(kernel, sizeof kernel, "%s %s %s", system.sysname, system.release, system.machine);

    json_t *c = json_object();
    json_object_set_new(c, "date", json_string(date));
    json_object_set_new(c, "host_name", host_name(&system));
    json_object_set_new(c, "executable", executable_name(executable));
    json_object_set_new(c, "num_cpus", json_integer(online_cpus(sysroot)));
    json_object_set_new(c, "mhz_per_cpu", json_integer(mhz(sysroot)));
    json_object_set_new(c, "cpu_scaling_enabled", json_boolean(cpu_scaling(sysroot)));
    json_object_set_new(c, "caches", caches(&topology));
    json_object_set_new(c, "load_avg", load_average(sysroot));
    json_object_set_new(c, "library_build_type", json_string("release"));
    json_object_set_new(c, "machine", as_environment_machine(sysroot, &topology));
    json_object_set_new(c, "kernel", as_environment_text(kernel));
    json_object_set_new(c, "os", os_name(sysroot));
    json_object_set_new(c, "container", as_environment_container(sysroot));
    json_object_set_new(c, "mitigations", as_environment_mitigations(sysroot));
    json_object_set_new(c, "environment_variables", variables());
    json_object_set_new(c, "warnings", warnings(sysroot, c, &topology));
    return c;
}
