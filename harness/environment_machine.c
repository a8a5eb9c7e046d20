/* What the machine is: nothing in here fluctuates between two runs on an unchanged machine. */
#include "environment_internal.h"
#include "place_internal.h"
#include "sysfile.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

enum { CPUINFO_BYTES = 8192 }; /* the first processor's paragraph, with its flags */

json_t *as_environment_text(const char *bytes) {
    json_t *s = json_string(bytes);
    if (s)
        return s;
    char *copy = strdup(bytes);
    if (!copy)
        return json_string("");
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    s = json_string(copy);
    free(copy);
    return s;
}

static void keep_ascii(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text >= 0x7f || (unsigned char)*text < 0x20)
            *text = '?';
}

void as_environment_cpu_model(const char *sysroot, char *out, size_t size) {
    char text[CPUINFO_BYTES];
    struct utsname system;
    as_sysfile_read(sysroot, "/proc/cpuinfo", text, sizeof text);
    if (!as_sysfile_field(text, "model name", out, size) && !as_sysfile_field(text, "cpu model", out, size))
        snprintf(out, size, "%s CPU", uname(&system) == 0 ? system.machine : "unknown");
    keep_ascii(out);
}

/* ---- instruction sets that kernels may use ---- */

static json_t *isa(const char *cpuinfo) {
    static const char *const wanted[] = {
        "sse4_2",   "avx",      "avx2",        "fma",         "f16c",        "avx_vnni", "avx512f",
        "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16",
        "amx_int8", "asimd",    "asimddp",     "sve",         "sve2",        "i8mm",     "bf16"};
    char flags[CPUINFO_BYTES];
    json_t *out = json_array();
    if (!as_sysfile_field(cpuinfo, "flags", flags, sizeof flags))
        as_sysfile_field(cpuinfo, "Features", flags, sizeof flags);
    char *rest = NULL;
    for (char *word = strtok_r(flags, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            if (strcmp(word, wanted[i]) == 0)
                json_array_append_new(out, json_string(word));
    return out;
}

/* ---- hypervisor ---- */

/* The hypervisor's signature from CPUID leaf 0x40000000; NULL where there is none to ask. */
static const char *cpuid_hypervisor(void) {
#if defined(__x86_64__) || defined(__i386__)
    static const char *const known[][2] = {{"KVMKVMKVM", "kvm"},
                                           {"Microsoft Hv", "hyperv"},
                                           {"VMwareVMware", "vmware"},
                                           {"XenVMMXenVMM", "xen"},
                                           {"bhyve bhyve ", "bhyve"}};
    unsigned a, r[3] = {0};
    char signature[13] = "";
    __cpuid(0x40000000, a, r[0], r[1], r[2]);
    memcpy(signature, r, 12);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(signature, known[i][0], strlen(known[i][0])) == 0)
            return known[i][1];
#endif
    return NULL;
}

static json_t *hypervisor(const char *sysroot, const char *cpuinfo) {
    char text[CPUINFO_BYTES];
    const char *name = NULL;
    if (as_sysfile_read(sysroot, "/sys/hypervisor/type", text, sizeof text) && strcmp(text, "none") != 0)
        return as_environment_text(text);
    if (!as_sysfile_field(cpuinfo, "flags", text, sizeof text) || !strstr(text, " hypervisor"))
        return json_null();
    if (sysroot[0] == '\0')
        name = cpuid_hypervisor();
    return json_string(name ? name : "unknown");
}

/* ---- switches that change speed; null where the kernel does not tell ---- */

static json_t *governor(const char *sysroot) {
    char text[64];
    if (!as_sysfile_read(sysroot, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text, sizeof text))
        return json_null();
    return as_environment_text(text);
}

static json_t *turbo(const char *sysroot) {
    uint64_t value;
    if (as_sysfile_uint(sysroot, "/sys/devices/system/cpu/intel_pstate/no_turbo", &value))
        return json_boolean(value == 0);
    if (as_sysfile_uint(sysroot, "/sys/devices/system/cpu/cpufreq/boost", &value))
        return json_boolean(value != 0);
    return json_null();
}

static json_t *smt(const char *sysroot) {
    uint64_t value;
    if (!as_sysfile_uint(sysroot, "/sys/devices/system/cpu/smt/active", &value))
        return json_null();
    return json_boolean(value != 0);
}

json_t *as_environment_machine(const char *sysroot, const as_topology_info *t) {
    char cpuinfo[CPUINFO_BYTES], model[160], vendor[64];
    as_sysfile_read(sysroot, "/proc/cpuinfo", cpuinfo, sizeof cpuinfo);
    as_environment_cpu_model(sysroot, model, sizeof model);
    as_sysfile_field(cpuinfo, "vendor_id", vendor, sizeof vendor);
    keep_ascii(vendor);
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "cpu_model", model, "cpu_vendor", vendor, "packages", t->packages,
                  "cores", t->cores, "hardware_threads", t->hardware_threads, "numa_nodes", t->numa_nodes);
    json_object_set_new(o, "isa", isa(cpuinfo));
    json_object_set_new(o, "l1d_bytes", json_integer((json_int_t)t->l1d_bytes));
    json_object_set_new(o, "l2_bytes", json_integer((json_int_t)t->l2_bytes));
    json_object_set_new(o, "l3_bytes", json_integer((json_int_t)t->l3_bytes));
    json_object_set_new(o, "memory_bytes", json_integer((json_int_t)t->memory_bytes));
    json_object_set_new(o, "hypervisor", hypervisor(sysroot, cpuinfo));
    json_object_set_new(o, "governor", governor(sysroot));
    json_object_set_new(o, "turbo", turbo(sysroot));
    json_object_set_new(o, "smt", smt(sysroot));
    return o;
}

json_t *as_environment_container(const char *sysroot) {
    as_cgroup group;
    as_cgroup_read(sysroot, &group);
    json_t *o = json_object();
    json_object_set_new(o, "cpuset", as_environment_text(group.cpuset));
    json_object_set_new(o, "cpu_quota", json_real(group.cpu_quota));
    json_object_set_new(o, "memory_limit_bytes",
                        group.memory_limit_bytes ? json_integer((json_int_t)group.memory_limit_bytes) : json_null());
    return o;
}

json_t *as_environment_mitigations(const char *sysroot) {
    static const char folder[] = "/sys/devices/system/cpu/vulnerabilities";
    char path[PATH_MAX], text[256];
    json_t *o = json_object();
    snprintf(path, sizeof path, "%s%s", sysroot, folder);
    DIR *dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        if (d->d_name[0] != '.' && as_sysfile_read(sysroot, path, text, sizeof text))
            json_object_set_new(o, d->d_name, as_environment_text(text));
    }
    if (dir)
        closedir(dir);
    return o;
}
