/* One stage of one case: send the command, await the answer, record it. */
#include "build_info.h"
#include "energy.h"
#include "supervisor.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the worker ---- */

static json_t *open_command(const as_supervisor *s) {
    const as_options *o = s->plan->options;
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)o->seed);
    const char *near = NULL;
    for (int i = 0; i < s->plan->machine.devices; i++)
        if (&s->plan->machine.device[i] == s->device)
            near = json_string_value(json_object_get(s->plan->machine.description[i], "pci_bus_id"));
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s?, s:s?, s:s?, s:s?, s:s?}", "do", "open", "build",
                     as_build.source_hash, "kind", s->device->driver->kind, "index", s->device->index, "seed", seed,
                     "cpus", o->cpus, "near", near, "exec", o->exec, "exec_name", o->exec_name, "references",
                     s->journal->references);
}

static as_status ask(as_supervisor *s, json_t *command, json_t **answer, as_error *e) {
    as_status status = as_peer_send(&s->worker, command, e);
    json_decref(command);
    *answer = NULL;
    return status != AS_OK ? status
                           : as_peer_receive(&s->worker, answer, s->plan->options->timeout_ns, &as_interrupted, e);
}

as_status as_worker_start(as_supervisor *s, const as_device *device, as_error *e) {
    s->device = device;
    s->launch = s->state->launches;
    s->oom_kills = as_cgroup_oom_kills("");
    AS_TRY(as_peer_start(&s->worker, "__worker", e));
    as_telemetry_follow(s->telemetry, s->worker.pid);
    json_t *answer = NULL;
    AS_TRY(ask(s, open_command(s), &answer, e));
    as_status status = AS_OK;
    if (!json_is_true(json_object_get(answer, "ok")))
        status = as_fail(e, (as_status)json_integer_value(json_object_get(answer, "status")), "%s: %s", device->name,
                         json_string_value(json_object_get(answer, "message")));
    if (status == AS_OK && device->driver == &as_cpu_driver)
        s->state->clock_cost_ns = json_number_value(json_object_get(answer, "clock_cost_ns"));
    if (status == AS_OK) {
        json_t *record = json_pack("{s:s, s:i, s:s, s:O?}", "kind", "launch", "launch", s->launch, "device",
                                   device->name, "placement", json_object_get(answer, "placement"));
        status = as_journal_record(s->journal, s->state, record, e);
        json_decref(record);
    }
    json_decref(answer);
    return status;
}

/* A worker that failed is dying or hangs: 20 ms. */
void as_worker_stop(as_supervisor *s, char how[128]) { as_peer_stop(&s->worker, 20, how); }

/* A healthy one frees what it holds: a leak or a crash in there is seen by the sanitizers' tests. */
void as_worker_end(as_supervisor *s) {
    char how[128];
    as_peer_stop(&s->worker, 5000, how);
}

/* ---- stages ---- */

as_status as_case_finish(as_supervisor *s, int c, as_case_status status, const char *reason, as_error *e) {
    json_t *record = json_pack("{s:s, s:i, s:s, s:s}", "kind", "status", "case", c, "status",
                               as_case_status_name(status), "reason", reason ? reason : "");
    as_status rc = as_journal_record(s->journal, s->state, record, e);
    json_decref(record);
    const as_outcome *o = &s->state->outcome[c];
    double units[4096];
    const char *scope;
    as_interval interval = {.relative_half_width = NAN};
    if (status == AS_DONE && o->n_rounds > 0 && o->n_rounds < 4096) /* a failed case has no number */
        interval =
            as_stats_interval(units, as_outcome_units(o, &s->plan->rule, units, &scope), s->plan->rule.confidence);
    if (as_case_is_selected(&s->plan->cases[c]) || status != AS_DONE)
        as_progress_case(s->progress, s->plan->cases[c].id, as_case_status_name(status), interval.value,
                         interval.relative_half_width, reason);
    return rc;
}

/* What SIGKILL from elsewhere means: the kernel's counter knows, where it can be read. */
static const char *about_memory(const as_supervisor *s, const char *how) {
    if (strncmp(how, "signal 9 ", 9) != 0)
        return "";
    const int64_t kills = as_cgroup_oom_kills("");
    if (kills < 0 || s->oom_kills < 0)
        return "; if nobody sent it, the kernel did for want of memory: take smaller cases, or a higher limit";
    return kills > s->oom_kills ? "; the kernel killed it for want of memory: take smaller cases, or a higher limit"
                                : "; somebody killed it, not the memory limit";
}

/* The worker died or hung: the case at fault is lost, a fresh worker takes over with a new launch index. */
static as_status replace_worker(as_supervisor *s, int c, const as_error *why, as_error *e) {
    char how[128], reason[700];
    as_worker_stop(s, how);
    snprintf(reason, sizeof reason, "%.440s (worker: %s%s)", why->message, how, about_memory(s, how));
    AS_TRY(as_case_finish(s, c, AS_LOST, reason, e));
    return as_worker_start(s, s->device, e);
}

/* A failing answer: what it means for the case. A driver's error may have poisoned the device's context, so the
 * worker of an accelerator is replaced. */
static as_status failed_answer(as_supervisor *s, int c, const json_t *answer, as_error *e) {
    const as_status status = (as_status)json_integer_value(json_object_get(answer, "status"));
    const char *message = json_string_value(json_object_get(answer, "message"));
    AS_TRY(as_case_finish(s, c, status == AS_EABSENT ? AS_SKIPPED : AS_FAILED, message, e));
    if (status == AS_EABSENT || s->device->driver == &as_cpu_driver) {
        as_stage_release(s, c); /* its operands, where it was prepared */
        return AS_OK;
    }
    char how[128];
    as_worker_stop(s, how);
    return as_worker_start(s, s->device, e);
}

/* Sends `command` (stolen) for case c. Returns the answer if it is a good one; NULL if the case is out of the running
 * or *fatal is set. */
static json_t *stage(as_supervisor *s, int c, const char *name, json_t *command, as_status *fatal, as_error *e) {
    const as_outcome *o = &s->state->outcome[c];
    as_progress_step(s->progress, name, s->plan->cases[c].id, o->n_rounds ? o->median_ns[o->n_rounds - 1] : 0);
    json_object_set_new(command, "do", json_string(name));
    json_object_set_new(command, "case", json_integer(c));
    json_t *answer = NULL;
    as_error why = {0};
    const as_status status = ask(s, command, &answer, &why);
    if (status == AS_OK && json_is_true(json_object_get(answer, "ok")))
        return answer;
    if (status == AS_OK)
        *fatal = failed_answer(s, c, answer, e);
    else if (status == AS_ELOST)
        *fatal = replace_worker(s, c, &why, e);
    else
        *fatal = as_fail(e, status, "%s", why.message);
    json_decref(answer);
    return NULL;
}

static bool record_answer(as_supervisor *s, int c, const char *kind, json_t *answer, as_status *fatal, as_error *e) {
    json_object_del(answer, "ok");
    json_object_set_new(answer, "kind", json_string(kind));
    json_object_set_new(answer, "case", json_integer(c));
    json_object_set_new(answer, "launch", json_integer(s->launch));
    *fatal = as_journal_record(s->journal, s->state, answer, e);
    json_decref(answer);
    return *fatal == AS_OK;
}

bool as_stage_prepare(as_supervisor *s, int c, as_status *fatal, as_error *e) {
    const as_case *k = &s->plan->cases[c];
    json_t *axes = json_object();
    for (int i = 0; i < k->params.count; i++)
        if (!as_param_is_default(&k->params.value[i]))
            json_object_set_new(axes, k->params.value[i].axis->name, json_string(k->params.value[i].text));
    json_t *answer = stage(s, c, "prepare",
                           json_pack("{s:s, s:s, s:o, s:i}", "suite", k->suite->name, "variant", k->variant->name,
                                     "axes", axes, "copies", k->copies),
                           fatal, e);
    return answer && record_answer(s, c, "prepared", answer, fatal, e);
}

bool as_stage_verify(as_supervisor *s, int c, as_status *fatal, as_error *e) {
    json_t *answer = stage(s, c, "verify", json_object(), fatal, e);
    if (!answer)
        return false;
    json_t *verification = json_object_get(answer, "verification");
    const bool passed = strcmp(json_string_value(json_object_get(verification, "status")), "passed") == 0;
    char detail[256] = "", before[20] = "";
    const json_t *earlier = s->state->outcome[c].verification;
    const char *sum = json_string_value(json_object_get(earlier, "output_checksum"));
    snprintf(before, sizeof before, "%s", sum ? sum : "");
    const char *now = json_string_value(json_object_get(verification, "output_checksum"));
    if (!passed)
        snprintf(detail, sizeof detail, "verification failed: %s",
                 json_string_value(json_object_get(verification, "detail")));
    else if (*before && now && strcmp(before, now) != 0)
        snprintf(detail, sizeof detail, "output differs between launches, though the variant is deterministic");
    if (!record_answer(s, c, "verified", answer, fatal, e))
        return false;
    if (!*detail)
        return true;
    as_stage_release(s, c);
    *fatal = as_case_finish(s, c, AS_FAILED, detail, e);
    return false;
}

bool as_stage_warmup(as_supervisor *s, int c, as_status *fatal, as_error *e) {
    json_t *answer = stage(s, c, "warmup",
                           json_pack("{s:I, s:I}", "batch", (json_int_t)s->state->outcome[c].batch, "limit_ns",
                                     (json_int_t)s->plan->limits.warmup_ns),
                           fatal, e);
    return answer && record_answer(s, c, "warm", answer, fatal, e);
}

int as_round_samples(const as_supervisor *s, int c) {
    const as_outcome *o = &s->state->outcome[c];
    const double sample_ns = o->op_ns * (double)o->batch;
    const double full = fmin(fmax(floor(s->plan->limits.round_ns / (sample_ns > 1 ? sample_ns : 1)), 1), 1000);
    return s->share[c].samples > 0 && s->share[c].samples < full ? s->share[c].samples : (int)full;
}

bool as_stage_round(as_supervisor *s, int c, int order, as_status *fatal, as_error *e) {
    const as_outcome *o = &s->state->outcome[c];
    const int round = as_outcome_rounds_in(o, s->launch);
    json_t *answer =
        stage(s, c, "round", json_pack("{s:i, s:I}", "samples", as_round_samples(s, c), "batch", (json_int_t)o->batch),
              fatal, e);
    if (!answer)
        return false;
    json_object_set_new(answer, "round", json_integer(round));
    json_object_set_new(answer, "order", json_integer(order));
    return record_answer(s, c, "round", answer, fatal, e);
}

bool as_stage_check(as_supervisor *s, int c, as_status *fatal, as_error *e) {
    json_t *answer = stage(s, c, "check", json_object(), fatal, e);
    if (!answer)
        return false;
    const bool passed = json_is_true(json_object_get(answer, "passed"));
    const char *now = json_string_value(json_object_get(answer, "output_checksum"));
    const char *before = json_string_value(json_object_get(s->state->outcome[c].verification, "output_checksum"));
    char detail[256] = "";
    if (!passed) {
        const char *why = json_string_value(json_object_get(answer, "detail"));
        snprintf(detail, sizeof detail, "wrong after timing: %s", why ? why : "output");
    } else if (now && before && strcmp(now, before) != 0) {
        snprintf(detail, sizeof detail, "output changed after timing, though the variant is deterministic");
        json_object_set_new(answer, "passed", json_false());
    }
    if (!record_answer(s, c, "checked", answer, fatal, e))
        return false;
    if (!*detail)
        return true;
    as_stage_release(s, c);
    *fatal = as_case_finish(s, c, AS_FAILED, detail, e);
    return false;
}

/* The breakdown: of variants that have one, once a run. */
bool as_stage_parts(as_supervisor *s, int c, as_status *fatal, as_error *e) {
    if (!s->plan->cases[c].variant->breakdown || s->state->outcome[c].parts)
        return true;
    json_t *answer = stage(s, c, "parts", json_object(), fatal, e);
    return answer && record_answer(s, c, "parts", answer, fatal, e);
}

/* What the plan left out, or the budget no longer holds, is recorded with its reason and costs nothing. */
bool as_stage_energy(as_supervisor *s, int c, as_status *fatal, as_error *e) {
    const as_outcome *o = &s->state->outcome[c];
    if (!s->plan->options->energy || s->plan->cases[c].ceiling || o->energy)
        return true;
    const char *why = s->plan->cases[c].no_energy;
    if (!why && (double)(s->deadline_ns - as_now_ns()) < as_energy_cost_ns(o->op_ns))
        why = "the budget was spent before its energy pass; raise --budget";
    if (!why && as_energy_cost_ns(o->op_ns) > 0.5 * (double)s->plan->options->timeout_ns)
        why = "an energy pass over operations this long would take over half of --timeout; raise it";
    json_t *answer = why ? json_pack("{s:{s:s, s:s}}", "energy", "state", "absent", "reason", why)
                         : stage(s, c, "energy", json_pack("{s:I}", "batch", (json_int_t)o->batch), fatal, e);
    return answer && record_answer(s, c, "energy", answer, fatal, e);
}

/* A worker that dies or hangs here is replaced at once, so that no later case is blamed for it; its late answer dies
 * with it. */
void as_stage_release(as_supervisor *s, int c) {
    json_t *answer = NULL;
    as_error ignored;
    const as_status status = ask(s, json_pack("{s:s, s:i}", "do", "release", "case", c), &answer, &ignored);
    json_decref(answer);
    if (status != AS_ELOST)
        return;
    char how[128];
    as_worker_stop(s, how);
    as_progress_note(s->progress, "%s: its release failed (%s); a fresh worker goes on", s->plan->cases[c].id, how);
    (void)!as_worker_start(s, s->device, &ignored); /* where that fails too, the next stage says why */
}
