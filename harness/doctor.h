/* `assay doctor`: what on this machine would spoil results, and the remedy for each. It reads; it changes nothing and
 * needs no root. Host checks are a table; each row is a function over a tree of /proc and /sys and two samples of its
 * counters. docs/doctor.md lists the checks. */
#pragma once

#include "finding.h"
#include "place_internal.h"

#include <stdint.h>
#include <stdio.h>

/* Ticks of one CPU since boot (/proc/stat). */
typedef struct as_cpu_time {
    uint64_t busy, idle, steal; /* busy: without steal; idle: with iowait */
    bool known;
} as_cpu_time;

typedef struct as_process_time {
    long pid;
    uint64_t ticks;
    char name[20]; /* the kernel's comm: no arguments, no user */
} as_process_time;

/* A device interrupt and how often it struck the measured CPUs. */
typedef struct as_interrupt_count {
    char label[12], name[32];
    uint64_t count;
} as_interrupt_count;

/* Counters at one moment. Heap arrays are freed by as_doctor_sample_free. */
typedef struct as_doctor_sample {
    int64_t at_ns;
    bool has_stat, has_interrupts, has_processes, has_throttles, has_vmstat;
    as_cpu_time cpu[AS_MAX_CPUS]; /* by OS index */
    int running;                  /* processes ready to run, this one included; -1 unknown */
    uint64_t interrupts[AS_MAX_CPUS];
    as_interrupt_count *interrupt;
    int n_interrupts;
    as_process_time *process; /* by rising pid, without this process */
    int n_processes;
    uint64_t throttles;     /* core and package throttle events of the measured CPUs */
    uint64_t swapped_pages; /* in and out */
    as_cgroup group;
} as_doctor_sample;

/* What a check may look at. */
typedef struct as_doctor_view {
    const char *sysroot;       /* "" or the root of a fake tree */
    const as_placement *place; /* measured are the first `cores` of its CPUs */
    const as_doctor_sample *before, *after;
    int allowed_cpus;     /* of this process; 0 unknown */
    const char *folder;   /* where the result will stand */
    int64_t folder_bytes; /* free there for this user; -1 unknown */
    bool folder_writable; /* false: `folder_reason` says why */
    char folder_reason[80];
    bool container, virtual_machine; /* as far as the tree tells */
} as_doctor_view;

typedef struct as_doctor_check {
    as_check_rule rule;
    void (*look)(const as_doctor_view *v, as_finding *f);
} as_doctor_check;

/* The host's checks, in the order in which they are printed; ends at rule.name NULL. */
extern const as_doctor_check as_doctor_checks[];

/* Fills `s`, which the caller zeroed or freed before. What cannot be read is left out and known to be. */
void as_doctor_sample_read(const char *sysroot, const as_placement *p, as_doctor_sample *s);
void as_doctor_sample_free(as_doctor_sample *s);
/* Sets `container` and `virtual_machine` from the tree. */
void as_doctor_surroundings(as_doctor_view *v);
/* Sets `folder*` from the file system: the folder of `out`, "." for NULL. */
void as_doctor_folder(as_doctor_view *v, const char *out, char folder[4096]);
/* New array of findings about "host". */
struct json_t *as_doctor_host(const as_doctor_view *v);

/* Appends `findings` to `all`. Warnings whose rule begins above `profile` become notes; what is unfit and was not
 * asked for becomes a warning. */
void as_doctor_add(struct json_t *all, const struct json_t *findings, as_profile profile, bool asked);
/* Completes the report with counts, verdict ("fit", "warnings", "unfit") and exit code (0, 4, 3), which it returns. */
int as_doctor_conclude(struct json_t *report);
/* The report for people. */
void as_doctor_print(const struct json_t *report, FILE *to);

/* The checks that are about the command line: is what was asked for there? Ends at name NULL. */
extern const as_check_rule as_doctor_asked[];

/* The command: parses argv, looks, prints; returns the exit code. */
int as_doctor_main(const as_registry *registry, int argc, char **argv);
/* Body of the child process that asks the drivers: their initialisation may crash or hang. */
int as_doctor_child(const as_registry *registry);
