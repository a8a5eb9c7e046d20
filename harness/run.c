/* plan -> place -> prepare -> verify -> measure -> record. */
#include "run.h"
#include "lock.h"
#include "record.h"
#include "supervisor.h"
#include "telemetry.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct run {
    as_plan plan;
    as_run_state state;
    as_journal journal;
    as_progress progress;
    as_supervisor supervisor;
    as_telemetry telemetry;
    as_locks locks;
    bool verify_only;
    char out[4096];
} run;

static void default_out(char *out, size_t size) {
    time_t now = time(NULL);
    struct tm t;
    gmtime_r(&now, &t);
    strftime(out, size, "assay-%Y%m%dT%H%M%SZ.json", &t);
}

/* The journal's first line: enough to resume without the command line. */
static json_t *journal_header(const run *r, int argc, char **argv) {
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->plan.hash);
    json_t *words = json_array();
    for (int i = 0; i < argc; i++)
        json_array_append_new(words, json_string(argv[i]));
    json_t *context = as_record_context(&r->plan, argc, argv);
    return json_pack("{s:s, s:s, s:O, s:o, s:o}", "schema", "assay.journal/2", "plan", hash, "date",
                     json_object_get(context, "date"), "argv", words, "context", context);
}

static as_status same_machine(const run *r, as_error *e) {
    const json_t *then = json_object_get(r->state.context, "devices");
    for (int i = 0; i < r->plan.machine.devices; i++) {
        const char *const keys[] = {"model", "uuid", "driver"};
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const json_t *a = json_object_get(json_array_get(then, (size_t)i), keys[k]);
            const json_t *b = json_object_get(r->plan.machine.description[i], keys[k]);
            if (a && b && !json_equal((json_t *)a, (json_t *)b))
                return as_fail(e, AS_EENV, "--resume: %s of %s has changed since; start a new run", keys[k],
                               r->plan.machine.device[i].name);
        }
    }
    return AS_OK;
}

static as_status open_journal(run *r, const as_options *o, int argc, char **argv, as_error *e) {
    r->journal.fd = -1;
    if (r->verify_only && !o->out)
        return AS_OK;
    if (o->resume) {
        AS_TRY(as_journal_resume(&r->journal, o->resume, &r->state, e));
        snprintf(r->out, sizeof r->out, "%s", r->journal.result_path);
        return same_machine(r, e);
    }
    if (o->out)
        snprintf(r->out, sizeof r->out, "%s", o->out);
    else
        default_out(r->out, sizeof r->out);
    json_t *header = journal_header(r, argc, argv);
    as_status s = as_journal_create(&r->journal, r->out, header, e);
    r->state.context = s == AS_OK ? json_incref(json_object_get(header, "context")) : NULL;
    json_decref(header);
    return s;
}

/* The host, and each device that has a case. */
static void start_telemetry(run *r) {
    const as_machine *m = &r->plan.machine;
    as_telemetry_request q = {.measured = &r->plan.placement, .period_ns = 100000000, .stretch = true};
    for (int d = 0; d < m->devices && q.devices < AS_TELEMETRY_SOURCES; d++) {
        bool used = m->device[d].driver == &as_cpu_driver;
        for (int i = 0; i < r->plan.count && !used; i++)
            used = r->plan.cases[i].device == &m->device[d];
        if (!used)
            continue;
        q.device[q.devices].name = m->device[d].name;
        q.device[q.devices].kind = m->device[d].driver->kind;
        q.device[q.devices].driver = m->device[d].driver->telemetry;
        q.device[q.devices++].description = m->description[d];
    }
    as_telemetry_start(&r->telemetry, &q);
    r->telemetry.first_launch = r->state.launches;
    r->state.telemetry = &r->telemetry;
}

/* Every device that a case of the plan runs on. */
static as_status lock_devices(run *r, int argc, char **argv, bool *waited, as_error *e) {
    const as_plan *plan = &r->plan;
    for (int d = 0; d < plan->machine.devices; d++)
        for (int i = 0; i < plan->count; i++)
            if (plan->cases[i].device == &plan->machine.device[d] && !plan->cases[i].drop_reason) {
                AS_TRY(as_locks_want(&r->locks, plan->machine.description[d], e));
                break;
            }
    return as_locks_take(&r->locks, argc, argv, plan->options->wait_ns, waited, e);
}

static as_status prepare_verify_measure(run *r, as_error *e) {
    int selected = 0, done = 0;
    for (int i = 0; i < r->plan.count; i++)
        if (as_case_is_selected(&r->plan.cases[i])) {
            selected++;
            done += r->state.outcome[i].status != AS_PENDING; /* resumed or never reached */
        }
    as_progress_init(&r->progress, !r->plan.options->quiet, selected, r->plan.budget_ns);
    r->progress.done = done;
    const bool telemetry = r->plan.options->telemetry && !r->verify_only;
    if (telemetry)
        start_telemetry(r);
    r->supervisor = (as_supervisor){.plan = &r->plan,
                                    .state = &r->state,
                                    .journal = &r->journal,
                                    .progress = &r->progress,
                                    .verify_only = r->verify_only,
                                    .telemetry = telemetry ? &r->telemetry : NULL};
    as_status s = as_supervise(&r->supervisor, e);
    as_telemetry_stop(&r->telemetry);
    if (r->telemetry.fault[0])
        as_progress_note(&r->progress, "warning: %s", r->telemetry.fault);
    as_progress_end(&r->progress);
    return s;
}

static as_status record(run *r, int argc, char **argv, as_error *e) {
    if (r->journal.fd < 0)
        return AS_OK;
    json_t *document = as_record_run(&r->state, argc, argv);
    if (!document)
        return as_fail(e, AS_ENOMEM, "the result could not be assembled");
    as_status s = as_journal_finish(&r->journal, document, r->state.interrupted, e);
    json_decref(document);
    return s;
}

static int judge(const run *r) {
    const as_summary sum = as_summarise(&r->state);
    if (sum.failed || sum.lost)
        return 1;
    if (sum.done == 0 && sum.skipped > 0)
        return 3; /* everything that was asked is absent here */
    if (sum.done == 0 && sum.not_reached > 0)
        return 4;
    return r->plan.options->strict && (sum.suspect || sum.not_reached) ? 4 : 0;
}

static void run_free(run *r) {
    as_run_state_free(&r->state);
    as_journal_free(&r->journal);
    as_plan_free(&r->plan);
    as_telemetry_free(&r->telemetry);
    as_locks_free(&r->locks);
}

/* An interrupted run leaves a valid partial result, then ends as the signal asks, so that a shell sees it. */
static void raise_again(run *r) {
    const int number = as_interrupted;
    fprintf(stderr, "interrupted: %s holds what was measured; go on with `assay run --resume %s`\n", r->out, r->out);
    run_free(r);
    signal(number, SIG_DFL);
    raise(number);
}

static as_status run_stages(run *r, const as_registry *registry, const as_options *o, int argc, char **argv,
                            int *exit_code, as_error *e) {
    AS_TRY(as_plan_build(&r->plan, registry, o, e)); /* plan, place */
    if (o->list_only) {
        for (int i = 0; i < r->plan.count; i++)
            if (as_case_is_selected(&r->plan.cases[i]))
                puts(r->plan.cases[i].id);
        return AS_OK;
    }
    if (o->dry_run) {
        as_plan_print(&r->plan, stdout);
        return AS_OK;
    }
    bool waited;
    AS_TRY(lock_devices(r, argc, argv, &waited, e));
    if (waited) { /* free memory was read while another run held it */
        as_plan_free(&r->plan);
        AS_TRY(as_plan_build(&r->plan, registry, o, e));
    }
    AS_TRY(as_run_state_init(&r->state, &r->plan, e));
    AS_TRY(open_journal(r, o, argc, argv, e));
    if (o->launches > 1)
        as_journal_share_references(&r->journal);
    const as_status s = prepare_verify_measure(r, e);
    if (s != AS_OK && s != AS_EINTR)
        return s; /* the journal stays: --resume goes on */
    AS_TRY(record(r, argc, argv, e));
    as_print_table(&r->state, r->verify_only);
    if (r->journal.fd >= 0)
        printf("result: %s\n", r->out);
    *exit_code = judge(r);
    return AS_OK;
}

as_status as_run(const as_registry *registry, const as_options *o, int argc, char **argv, int *exit_code, as_error *e) {
    run r;
    memset(&r, 0, sizeof r);
    r.journal.fd = -1;
    r.verify_only = strcmp(o->command, "verify") == 0;
    *exit_code = 0;
    const as_status s = run_stages(&r, registry, o, argc, argv, exit_code, e);
    if (s == AS_OK && r.state.interrupted)
        raise_again(&r);
    run_free(&r);
    return s;
}
