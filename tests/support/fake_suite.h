/* Suites of the tests: right kernels, kernels broken in one way each, and kernels that kill their worker. A test binary
 * that calls fake_main first is the `assay` command over these suites, and its own probe and worker. */
#pragma once

#include "fake_device.h"

#include <sys/types.h>

struct json_t;

extern const as_suite fake_vector_suite; /* "vector": z = 2 x + y in rows of 64; reference */
extern const as_suite fake_copy_suite;   /* "copy" */
extern const as_suite fake_effect_suite; /* "effect": 8 executions an operation */
extern const as_suite fake_fault_suite;  /* "fault": worker killers beside innocent cases */
extern const as_suite fake_ceilings;
extern const as_registry fake_registry;

enum { FAKE_ROW = 64, FAKE_TILE = 16, FAKE_EXECUTIONS = 8 };

/* Calls of any vector variant in this process, and the outputs that the first of them wrote. */
enum { FAKE_MOST_VISITS = 4096 };
extern int fake_calls;
extern const void *fake_visited[FAKE_MOST_VISITS];
void fake_forget(void); /* variants that count their runs begin anew */

/* Runs argv as the command where it is one (run, verify, list, dmon, lock, __probe, ..., --...); -1 otherwise. */
int fake_main(int argc, char **argv);

/* This same binary as a command: `words` ends at NULL, the first is the command. Standard output and error go to
 * `output` (malloc; NULL allowed). Returns the exit status, or 128 + the signal that ended it. */
int fake_assay(const char *const *words, char **output);
pid_t fake_start(const char *const *words, int output_fd); /* output_fd -1: /dev/null */

/* A new empty folder; fake_remove_folder deletes it with the files in it. */
char *fake_folder(void);
void fake_remove_folder(char *folder);

/* The case of a result, by id; NULL where there is none (borrowed). */
struct json_t *fake_case(const struct json_t *result, const char *list, const char *id);
const char *fake_text(const struct json_t *object, const char *key); /* "" where absent */
