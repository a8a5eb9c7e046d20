/* Internal to the doctor's files: what the checks share. */
#pragma once

#include "doctor.h"
#include "doctor_table.h"

/* ---- files ---- */

/* As as_sysfile_read, but an empty file is readable. */
bool as_doctor_file(const as_doctor_view *v, const char *path, char *text, size_t size);
/* Unknown, with the reason why `path` cannot be read and where to look instead. */
void as_doctor_unreadable(const as_doctor_view *v, as_finding *f, const char *path);
/* Appends a command that changes a setting of the kernel: in a container it belongs to the container's host. */
void as_doctor_setting(const as_doctor_view *v, as_finding *f, const char *fmt, ...) AS_PRINTF(3, 4);

/* ---- CPUs ---- */

int as_doctor_measured(const as_doctor_view *v); /* number of measured CPUs: the first of the placement */
bool as_doctor_is_measured(const as_doctor_view *v, int cpu);
hwloc_bitmap_t as_doctor_measured_set(const as_doctor_view *v); /* freed by the caller; NULL without memory */
/* "0-3,8" of online CPUs that are not measured; "" if there is none or sysfs does not tell. */
void as_doctor_other_cpus(const as_doctor_view *v, char *out, size_t size);
int as_doctor_online(const as_doctor_view *v); /* CPUs of the machine; 0 unknown */

/* Share of the sample that a CPU was busy, or stolen; NaN where /proc/stat does not tell. */
double as_doctor_busy(const as_doctor_view *v, int cpu);
double as_doctor_steal(const as_doctor_view *v, int cpu);
double as_doctor_seconds(const as_doctor_view *v); /* length of the sample */
/* `share` of the sample, but never a single tick of /proc/stat: one may have been gathered before it. */
double as_doctor_limit(const as_doctor_view *v, double share);
int as_doctor_by_pid(const void *a, const void *b); /* order of as_process_time */
/* The processes that used most CPU time: "stress 98 %, python3 12 %" (100 %: one CPU); "" if none used 1 %. */
void as_doctor_consumers(const as_doctor_view *v, char *out, size_t size);
