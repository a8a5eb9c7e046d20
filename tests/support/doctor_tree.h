/* A tree of /proc and /sys in which every check of `assay doctor` is content: the recorded machine of two packages
 * (16 CPUs; core c has CPUs c and c + 8; the first threads 0-7 are measured). A test changes files and looks again. */
#pragma once

#include "doctor.h"
#include "fake_tree.h"

#define DOCTOR_CPUS 16
#define DOCTOR_MEASURED 8

typedef struct doctor_machine {
    fake_tree tree;
    as_placement place;
    as_doctor_sample before, after;
    as_doctor_view view;
} doctor_machine;

void doctor_machine_init(doctor_machine *m); /* the clean tree */
void doctor_machine_free(doctor_machine *m);
void doctor_write(const doctor_machine *m, const char *path, const char *text);
void doctor_write_cpus(const doctor_machine *m, const char *file, const char *text); /* of every CPU */
/* /proc/stat with these ticks of user, idle and steal time on one CPU; the others have 1000 ticks of idle time. */
void doctor_write_stat(const doctor_machine *m, int cpu, int user, int idle, int steal);
/* A process of 1 + ticks of CPU time. */
void doctor_write_process(const doctor_machine *m, int pid, const char *name, int ticks);
/* Counters of the sample's beginning and end; between them the test writes what has changed. The sample lasts 1 s. */
void doctor_begin(doctor_machine *m);
void doctor_end(doctor_machine *m);
/* The finding of one check. */
as_finding doctor_look(doctor_machine *m, const char *check);

/* Names in the first column of the table under this heading of docs/doctor.md, without back quotes. */
enum { DOC_ROWS = 80 };
int doctor_doc_rows(const char *heading, char names[DOC_ROWS][32]);
