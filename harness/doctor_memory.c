/* Free memory, swap, page sizes and page movement. proc(5); kernel documentation: admin-guide/sysctl/vm.rst,
 * admin-guide/mm/transhuge.rst, admin-guide/sysctl/kernel.rst (numa_balancing). */
#include "doctor_internal.h"
#include "sysfile.h"

#include <stdio.h>
#include <string.h>

static const double MIB = 1048576;
static const double UNFIT_BYTES = 256 * 1048576.0, SMALL_BYTES = 2048 * 1048576.0; /* as of a cgroup's limit */
static const double SMALL_SHARE = 0.10;                                            /* of the machine's memory */
static const double RESERVED_SHARE = 0.10; /* of the machine's memory, in unused huge pages */
enum { EAGER_SWAPPINESS = 10 };

static double meminfo(const as_doctor_view *v, const char *name) {
    return (double)as_sysfile_meminfo_bytes(v->sysroot, name);
}

void as_check_memory_free(const as_doctor_view *v, as_finding *f) {
    const double all = meminfo(v, "MemTotal"), left = meminfo(v, "MemAvailable");
    if (all <= 0 || left <= 0) {
        as_doctor_unreadable(v, f, "/proc/meminfo");
        return;
    }
    as_found(f,
             left < UNFIT_BYTES                               ? AS_FIT_UNFIT
             : left < SMALL_BYTES || left < SMALL_SHARE * all ? AS_FIT_WARNING
                                                              : AS_FIT_OK,
             "%.0f of %.0f MiB", left / MIB, all / MIB);
    if (f->status != AS_FIT_OK)
        as_remedy(f, "end what holds memory (ps -e -o rss,comm --sort -rss | head)");
}

void as_check_swap(const as_doctor_view *v, as_finding *f) {
    if (meminfo(v, "MemTotal") <= 0) {
        as_doctor_unreadable(v, f, "/proc/meminfo");
        return;
    }
    const double all = meminfo(v, "SwapTotal"), used = all - meminfo(v, "SwapFree");
    const uint64_t moved = v->after->swapped_pages - v->before->swapped_pages;
    if (all <= 0) {
        as_found(f, AS_FIT_OK, "no swap");
        return;
    }
    as_found(f,
             moved > 0  ? AS_FIT_WARNING
             : used > 0 ? AS_FIT_NOTE
                        : AS_FIT_OK,
             "%.0f of %.0f MiB in use; %llu pages moved in the sample", used / MIB, all / MIB,
             (unsigned long long)moved);
    if (f->status == AS_FIT_OK && !v->after->has_vmstat)
        as_doctor_unreadable(v, f, "/proc/vmstat");
    else if (f->status != AS_FIT_OK)
        as_doctor_setting(v, f, "sudo swapoff -a (with memory free for what is swapped out)");
}

void as_check_swappiness(const as_doctor_view *v, as_finding *f) {
    uint64_t value;
    if (!as_sysfile_uint(v->sysroot, "/proc/sys/vm/swappiness", &value)) {
        as_doctor_unreadable(v, f, "/proc/sys/vm/swappiness");
        return;
    }
    const bool swap = meminfo(v, "SwapTotal") > 0, eager = swap && value > EAGER_SWAPPINESS;
    as_found(f, eager ? AS_FIT_WARNING : AS_FIT_OK, "%llu%s", (unsigned long long)value,
             swap ? "" : ", without effect: no swap");
    if (eager)
        as_doctor_setting(v, f, "sudo sysctl vm.swappiness=1");
}

/* ---- page sizes ---- */

void as_check_transparent_huge_pages(const as_doctor_view *v, as_finding *f) {
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    char text[128], chosen[32] = "";
    const char *open = as_sysfile_read(v->sysroot, path, text, sizeof text) ? strchr(text, '[') : NULL;
    if (!open || sscanf(open, "[%31[a-z]]", chosen) != 1) { /* "always [madvise] never" */
        as_doctor_unreadable(v, f, path);
        return;
    }
    const bool always = strcmp(chosen, "always") == 0;
    as_found(f, always ? AS_FIT_WARNING : AS_FIT_OK, "%s", chosen);
    if (always)
        as_doctor_setting(v, f, "echo madvise | sudo tee %s", path);
}

void as_check_huge_pages(const as_doctor_view *v, as_finding *f) {
    char text[8192], value[32];
    unsigned long long unused = 0;
    const double size = meminfo(v, "Hugepagesize"), all = meminfo(v, "MemTotal");
    if (!as_sysfile_read(v->sysroot, "/proc/meminfo", text, sizeof text) || all <= 0) {
        as_doctor_unreadable(v, f, "/proc/meminfo");
        return;
    }
    if (as_sysfile_field(text, "HugePages_Free", value, sizeof value))
        (void)!sscanf(value, "%llu", &unused);
    const double bytes = (double)unused * size;
    as_found(f, bytes > RESERVED_SHARE * all ? AS_FIT_WARNING : AS_FIT_OK, "%.0f MiB reserved and unused", bytes / MIB);
    if (f->status == AS_FIT_WARNING)
        as_doctor_setting(v, f, "sudo sysctl vm.nr_hugepages=0, if nothing needs them");
}

/* ---- movement between nodes ---- */

void as_check_numa_balancing(const as_doctor_view *v, as_finding *f) {
    static const char path[] = "/proc/sys/kernel/numa_balancing";
    char list[256];
    uint64_t value;
    const int nodes = as_sysfile_read(v->sysroot, "/sys/devices/system/node/online", list, sizeof list)
                          ? as_sysfile_list_count(list, NULL)
                          : 0;
    const bool known = as_sysfile_uint(v->sysroot, path, &value);
    if (nodes == 1) {
        as_found(f, AS_FIT_OK, "one NUMA node: nothing to balance");
    } else if (!known) {
        as_doctor_unreadable(v, f, path);
    } else if (value == 0) {
        as_found(f, AS_FIT_OK, "off");
    } else if (nodes == 0) {
        as_doctor_unreadable(v, f, "/sys/devices/system/node/online");
    } else {
        as_found(f, AS_FIT_WARNING, "on (%llu), %d NUMA nodes", (unsigned long long)value, nodes);
        as_doctor_setting(v, f, "sudo sysctl kernel.numa_balancing=0");
    }
}
