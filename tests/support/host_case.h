/* What the tests of every kind of device ask a suite (case_*), and a case of it on the host (host_*), prepared as the
 * harness prepares it: operands filled from a seed or poisoned, a team of pinned threads, the suite's reference. Failures
 * of the test itself end it (cmocka). */
#pragma once

#include "suite.h"
#include "team.h"

enum { HOST_SEED = 42, HOST_TEAM = 3 };

/* Set up and torn down by the group: cmocka_run_group_tests(tests, host_open, host_close). */
extern as_device cpu;
extern as_team *team_of_one, *team_of_three; /* three members also where there are fewer CPUs: they share them */
int host_open(void **state);
int host_close(void **state);

/* The variant of that name for a kind of device, "cpu" or "cuda"; host_variant for the host. */
const as_variant *case_variant(const as_suite *suite, const char *on, const char *name);
const as_variant *host_variant(const as_suite *suite, const char *name);
/* axes: "n=17;type=f32"; "" for the defaults. */
as_params case_params(const as_suite *suite, const char *axes);
/* What the suite says of the case; its variant is one of the host's. */
as_work host_work(const as_suite *suite, const char *variant, const char *axes);

/* One element of an output: f64, f32, bf16, f16, u32, i32. */
double case_element(as_dtype type, const void *data, int64_t i);

typedef struct host_case {
    const as_suite *suite;
    const as_variant *variant;
    as_params params;
    as_work work;
    void *operand[AS_MAX_OPERANDS];
    uint64_t counter; /* of an effect check */
    double extra[AS_MAX_EXTRA];
    as_call call;
} host_case;

/* The variant may be a broken one of the test's own. The case must not be moved while it is prepared. */
void host_begin(host_case *c, const as_suite *suite, const as_variant *v, const char *axes, as_team *team);
void host_run(host_case *c);
void host_end(host_case *c);
void *host_output(const host_case *c);
/* Elements of the output that differ from the reference by more than the tolerance; a NaN does. */
int64_t host_wrong(const host_case *c);
/* Share of the tolerance that the worst element of the output uses; infinite for a NaN. */
double host_worst(const host_case *c);
/* Begins, runs and ends a case. True if the harness would accept its output. */
bool host_accepts(const as_suite *suite, const as_variant *v, const char *axes, as_team *team);
/* The same, and the test fails if it is refused. */
void host_accept(const as_suite *suite, const char *variant, const char *axes, as_team *team);
