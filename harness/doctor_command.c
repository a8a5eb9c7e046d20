/* `assay doctor`: the sample, the drivers' child process, the report. */
#include "build_info.h"
#include "doctor.h"
#include "doctor_options.h"
#include "options.h"
#include "process.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHILD_TIMEOUT_MS = 60000 };
enum { RULE_PRESENT, RULE_CPUS };
const as_check_rule as_doctor_asked[] = {
    [RULE_PRESENT] = {"present", "the drivers, asked in a process of their own",
                      "a device that is absent or broken measures nothing", AS_QUICK},
    [RULE_CPUS] = {"cpus", "--cpus, the CPUs allowed to this process, the topology",
                   "the run binds its threads to these CPUs", AS_QUICK},
    {NULL, NULL, NULL, AS_QUICK}};

/* ---- findings about what was asked ---- */

static void add_asked(json_t *all, int rule, const char *subject, as_fitness status, const char *found,
                      const char *remedy, bool asked) {
    as_finding f = {.rule = &as_doctor_asked[rule]};
    as_found(&f, status, "%s", found);
    as_remedy(&f, "%s", remedy);
    json_t *list = json_array();
    json_array_append_new(list, as_finding_json(&f, subject));
    as_doctor_add(all, list, AS_PUBLISH, asked);
    json_decref(list);
}

static json_t *ask_driver(const as_device_driver *driver, json_t *absent) {
    as_error e = {0};
    char reason[256] = "no device";
    int n = 0;
    json_t *devices = json_array();
    const bool broken = driver->count(&n, reason, &e) != AS_OK;
    if (broken || n == 0)
        json_array_append_new(absent, json_pack("{s:s, s:s, s:b}", "kind", driver->kind, "reason",
                                                broken ? e.message : reason, "broken", (int)broken));
    for (int i = 0; i < n; i++) {
        json_t *findings = driver->health ? driver->health(i) : json_array();
        json_array_append_new(devices, json_pack("{s:o, s:s, s:o}", "name", json_sprintf("%s%d", driver->kind, i),
                                                 "kind", driver->kind, "findings", findings));
    }
    return devices;
}

int as_doctor_child(const as_registry *registry) {
    json_t *devices = json_array(), *absent = json_array();
    for (const as_device_driver *const *d = registry->drivers; d && *d; d++) {
        json_t *of_driver = ask_driver(*d, absent);
        json_array_extend(devices, of_driver);
        json_decref(of_driver);
    }
    for (const as_absent_kind *k = registry->absent; k && k->kind; k++)
        json_array_append_new(absent, json_pack("{s:s, s:s, s:b}", "kind", k->kind, "reason", k->reason, "broken", 0));
    json_t *all = json_pack("{s:o, s:o}", "devices", devices, "absent", absent);
    const int rc = all && json_dumpf(all, stdout, JSON_COMPACT) == 0 ? 0 : 3;
    json_decref(all);
    return rc;
}

static const char *text_of(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

/* Every word of --device that no device answers to; a kind that nobody named and that is absent is a note. */
static void add_absent(json_t *all, const json_t *answer, const char *list) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "absent"), i, row) {
        const bool broken = json_is_true(json_object_get(row, "broken"));
        if (!list)
            add_asked(all, RULE_PRESENT, text_of(row, "kind"), broken ? AS_FIT_WARNING : AS_FIT_NOTE,
                      text_of(row, "reason"),
                      "nothing to do for the CPU; else its driver, the device passed into the container, or a build "
                      "that has it",
                      false);
    }
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        char name[48];
        const char *reason = "there are fewer devices of this kind";
        bool there = n == strlen(as_cpu_driver.kind) && strncmp(p, as_cpu_driver.kind, n) == 0;
        snprintf(name, sizeof name, "%.*s", n < 47 ? (int)n : 47, p);
        json_array_foreach(json_object_get(answer, "devices"), i, row) there |=
            strcmp(text_of(row, "name"), name) == 0 || strcmp(text_of(row, "kind"), name) == 0;
        json_array_foreach(json_object_get(answer, "absent"), i,
                           row) if (strncmp(text_of(row, "kind"), name, strlen(text_of(row, "kind"))) == 0) reason =
            text_of(row, "reason");
        if (!there)
            add_asked(all, RULE_PRESENT, name, AS_FIT_UNFIT, reason,
                      "name a device that is there; else its driver, the device passed into the container, or a build "
                      "that has it",
                      true);
        p += n + (p[n] == ',');
    }
}

static void add_devices(json_t *all, const as_doctor_options *o, const json_t *answer) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "devices"), i, row) {
        if (!as_doctor_asks(o, text_of(row, "name"), text_of(row, "kind")))
            continue;
        add_asked(all, RULE_PRESENT, text_of(row, "name"), AS_FIT_OK, "visible", "", true);
        as_doctor_add(all, json_object_get(row, "findings"), o->profile, o->device != NULL);
    }
    add_absent(all, answer, o->device);
}

/* The drivers are left alone where only the CPU was asked for. */
static as_status look_at_devices(json_t *all, const as_doctor_options *o, as_error *e) {
    if (o->device && strcmp(o->device, as_cpu_driver.kind) == 0)
        return AS_OK;
    char *text = NULL;
    json_t *answer = NULL;
    as_error detail = {0};
    if (as_process_self_output("__health", &text, CHILD_TIMEOUT_MS, &detail) == AS_OK)
        answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    else if (detail.status == AS_ENOMEM)
        return as_fail(e, AS_ENOMEM, "%s", detail.message);
    free(text);
    if (answer)
        add_devices(all, o, answer);
    else
        add_asked(all, RULE_PRESENT, "drivers", AS_FIT_UNFIT,
                  detail.message[0] ? detail.message : "the process that asks the drivers died",
                  "assay __health shows why; reinstall the driver, or --device cpu", o->device != NULL);
    json_decref(answer);
    return AS_OK;
}

/* ---- the host ---- */

static void list_text(const as_placement *p, char *out, size_t size) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    out[0] = '\0';
    for (int i = 0; set && i < p->cores; i++)
        hwloc_bitmap_set(set, (unsigned)p->cpu[i]);
    if (set)
        hwloc_bitmap_list_snprintf(out, size, set);
    hwloc_bitmap_free(set);
}

/* CPUs that may not be used are unfit; the rest is then told of the CPUs that a run would choose by itself. */
static as_status place(json_t *all, const as_doctor_options *o, as_placement *p, as_error *e) {
    as_error refused;
    char list[256];
    const as_status s = as_place_resolve(&(as_place_request){.cpus = o->cpus}, p, &refused);
    if (s == AS_EENV && o->cpus) {
        add_asked(all, RULE_CPUS, "host", AS_FIT_UNFIT, refused.message,
                  "--cpus with allowed ones, or a wider taskset or cpuset", true);
        return as_place_resolve(NULL, p, e);
    }
    if (s != AS_OK)
        return as_fail(e, s, "%s%s", s == AS_EUSAGE ? "--cpus: " : "", refused.message);
    list_text(p, list, sizeof list);
    if (p->warnings > 0)
        add_asked(all, RULE_CPUS, "host", AS_FIT_NOTE, p->warning[0],
                  "assay run --dry-run shows the placement; choose another with --cpus", true);
    else
        add_asked(all, RULE_CPUS, "host", AS_FIT_OK, list, "", true);
    return AS_OK;
}

static void wait_ns(int64_t ns) {
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static int allowed_cpus(void) {
    as_error ignored;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    const int n = set && as_place_allowed(set, &ignored) == AS_OK ? hwloc_bitmap_weight(set) : 0;
    hwloc_bitmap_free(set);
    return n;
}

static void look_at_host(json_t *all, const as_doctor_options *o, const as_placement *p) {
    as_doctor_sample before, after;
    char folder[4096];
    as_doctor_view v = {.sysroot = "", .place = p, .before = &before, .after = &after, .allowed_cpus = allowed_cpus()};
    as_doctor_surroundings(&v);
    as_doctor_folder(&v, o->out, folder);
    as_doctor_sample_read("", p, &before);
    wait_ns(o->sample_ns);
    as_doctor_sample_read("", p, &after);
    json_t *host = as_doctor_host(&v);
    as_doctor_add(all, host, o->profile, true);
    json_decref(host);
    as_doctor_sample_free(&before);
    as_doctor_sample_free(&after);
}

/* ---- the whole ---- */

static as_status examine(const as_doctor_options *o, json_t *report, as_error *e) {
    as_placement p;
    char list[256], date[32];
    const time_t now = time(NULL);
    struct tm t;
    json_t *all = json_array();
    json_object_set_new(report, "schema", json_string("assay.doctor/1"));
    json_object_set_new(report, "findings", all);
    AS_TRY(place(all, o, &p, e));
    look_at_host(all, o, &p);
    AS_TRY(look_at_devices(all, o, e));
    gmtime_r(&now, &t);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &t);
    list_text(&p, list, sizeof list);
    json_object_set_new(report, "version", json_string(as_build.version));
    json_object_set_new(report, "date", json_string(date));
    json_object_set_new(report, "for", json_string(as_profile_name(o->profile)));
    json_object_set_new(report, "device", o->device ? json_string(o->device) : json_null());
    json_object_set_new(report, "cpus", json_string(list));
    json_object_set_new(report, "sample_s", json_real((double)o->sample_ns * 1e-9));
    return AS_OK;
}

int as_doctor_main(const as_registry *registry, int argc, char **argv) {
    as_error e = {0};
    as_doctor_options o;
    json_t *report = json_object();
    int code = 0;
    as_status s = as_doctor_options_parse(&o, registry, argc, argv, &e);
    if (s == AS_OK && o.help)
        as_doctor_help();
    else if (s == AS_OK)
        s = examine(&o, report, &e);
    if (s != AS_OK) {
        fprintf(stderr, "assay: %s\n", e.message);
        code = as_exit_code(s);
    } else if (!o.help) {
        code = as_doctor_conclude(report);
        if (!o.json)
            as_doctor_print(report, stdout);
        else if (json_dumpf(report, stdout, JSON_INDENT(2)) != 0 || puts("") < 0)
            code = 3;
    }
    json_decref(report);
    return code;
}
