/* The plan: which cases, on which devices, in what groups, with what share of the budget. */
#pragma once

#include "options.h"
#include "place.h"
#include "stats.h"
#include "suite.h"

struct json_t;

enum { AS_MAX_DEVICES = 17 };
#define AS_CEILING_SHARE 0.15 /* of the budget, at most */

/* What the probe process found. `device[]` are stubs: name, driver, index and last-level cache are set, `impl` is
 * NULL, since only a worker opens a device. */
typedef struct as_machine {
    int devices;
    as_device device[AS_MAX_DEVICES];
    size_t free_bytes[AS_MAX_DEVICES];
    struct json_t *description[AS_MAX_DEVICES];
    struct json_t *no_energy[AS_MAX_DEVICES]; /* why its energy cannot be read; null where it can */
    struct json_t *absent;                    /* [{kind, reason, broken}] */
} as_machine;

typedef enum as_case_status { AS_PENDING, AS_DONE, AS_FAILED, AS_SKIPPED, AS_LOST, AS_NOT_REACHED } as_case_status;

/* One case as planned. */
typedef struct as_case {
    const as_suite *suite;
    const as_variant *variant;
    as_params params;
    as_work work;
    const as_device *device; /* stub in as_machine */
    char *id;
    int priority;
    bool ceiling;                                       /* of plan.ceilings, not of plan.cases */
    bool asked;                                         /* a ceiling that the selection names, not only a case */
    int ceiling_of[AS_MAX_BOUNDS][AS_MAX_CEILING_REFS]; /* indices into the case list; -1 none */
    size_t bytes;                                       /* of all its operands and copies */
    int copies;                                         /* input sets to rotate: 1 warm */
    int group;                                          /* packing of cases that are prepared together */
    int visits;                                         /* preparations planned: one a launch, a ceiling's two */
    double visit_ns;                                    /* estimate: prepare, verify, warm up, rounds, check */
    double cost_ns;                                     /* of all its visits */
    const char *drop_reason;                            /* not NULL: planned, and not reached, for this reason */
    char drop_text[240];                                /* what drop_reason points at, where it is made for the case */
    double energy_ns;                                   /* of cost_ns: its energy pass; 0: none */
    const char *no_energy;                              /* not NULL: asked for, and left out for this reason */
} as_case;

/* Named by the selection itself: a case, or a ceiling that was asked for. */
static inline bool as_case_is_selected(const as_case *c) { return !c->ceiling || c->asked; }

typedef struct as_profile_limits {
    double target; /* relative half-width */
    int64_t budget_ns;
    double round_ns;      /* time that a round aims at */
    double warmup_ns;     /* most that a warm-up takes */
    double longest_op_ns; /* predicted operations above it are left out of the plan */
    int most_cases;       /* by device kind; 0: no limit */
} as_profile_limits;

typedef struct as_plan {
    const as_registry *registry;
    const as_options *options;
    as_machine machine;
    as_placement placement;
    as_profile_limits limits;
    as_stop_rule rule;
    int64_t budget_ns;
    int min_rounds;     /* of a case in one launch */
    int ceiling_rounds; /* at the beginning, and again at the end */
    as_case *cases;     /* the selected cases, then the `ceilings` ceilings that they name */
    int count, ceilings, groups;
    uint64_t hash;              /* of ids, seed, profile and the build: what --resume compares */
    const as_suite *exec_suite; /* --exec; owned, NULL without */
} as_plan;

as_status as_plan_build(as_plan *plan, const as_registry *registry, const as_options *o, as_error *e) AS_MUST_CHECK;
void as_plan_free(as_plan *plan);
/* The plan for people: placement, groups, cases, estimated cost against the budget. */
void as_plan_print(const as_plan *plan, FILE *to);
int as_plan_widest_id(const as_plan *plan); /* columns that the ids of a table take, at least those of its heading */
/* What `list --json` prints; also plan.catalogue of a result. New object. */
struct json_t *as_plan_catalogue(const as_registry *registry);

/* ---- probe.c: device discovery in a process of its own, so that the supervisor never initialises a driver ---- */
as_status as_probe(as_machine *out, const as_registry *registry, as_error *e) AS_MUST_CHECK;
int as_probe_child(const as_registry *registry); /* body of that process; returns its exit code */
void as_machine_free(as_machine *m);

/* ---- exec.c: --exec as a suite of one variant ---- */
as_status as_exec_suite_create(const as_suite **out, const char *command, const char *name, as_error *e) AS_MUST_CHECK;
void as_exec_suite_free(const as_suite *suite);
