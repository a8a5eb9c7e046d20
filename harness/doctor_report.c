/* The report of `assay doctor`: its verdict, and its text for people. docs/doctor.md documents the JSON. */
#include "doctor.h"
#include "options.h"

#include <jansson.h>
#include <string.h>

enum { STATUSES = AS_FIT_UNFIT + 1 };

static const char *text_of(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static as_fitness status_of(const json_t *finding) {
    for (int s = 0; s < STATUSES; s++)
        if (strcmp(text_of(finding, "status"), as_fitness_name((as_fitness)s)) == 0)
            return (as_fitness)s;
    return AS_FIT_UNKNOWN;
}

void as_doctor_add(json_t *all, const json_t *findings, as_profile profile, bool asked) {
    size_t i;
    json_t *f;
    json_array_foreach((json_t *)findings, i, f) {
        as_profile from = AS_QUICK;
        as_fitness s = status_of(f);
        (void)!as_profile_parse(text_of(f, "warns_from"), &from, NULL);
        if (s == AS_FIT_UNFIT && !asked)
            s = AS_FIT_WARNING;
        if (s == AS_FIT_WARNING && from > profile)
            s = AS_FIT_NOTE;
        json_object_set_new(f, "status", json_string(as_fitness_name(s)));
        json_array_append(all, f);
    }
}

int as_doctor_conclude(json_t *report) {
    int counts[STATUSES] = {0};
    size_t i;
    json_t *f, *o = json_object();
    json_array_foreach(json_object_get(report, "findings"), i, f) counts[status_of(f)]++;
    for (int s = 0; s < STATUSES; s++)
        json_object_set_new(o, as_fitness_name((as_fitness)s), json_integer(counts[s]));
    const int code = counts[AS_FIT_UNFIT] ? 3 : counts[AS_FIT_WARNING] ? 4 : 0;
    json_object_set_new(report, "counts", o);
    json_object_set_new(report, "verdict", json_string(code == 3 ? "unfit" : code == 4 ? "warnings" : "fit"));
    json_object_set_new(report, "exit_code", json_integer(code));
    return code;
}

/* ---- text ---- */

typedef struct widths {
    int subject, check;
} widths;

static widths measure(const json_t *findings) {
    widths w = {0};
    size_t i;
    json_t *f;
    json_array_foreach((json_t *)findings, i, f) {
        const int subject = (int)strlen(text_of(f, "subject")), check = (int)strlen(text_of(f, "check"));
        w.subject = subject > w.subject ? subject : w.subject;
        w.check = check > w.check ? check : w.check;
    }
    return w;
}

/* The heavy first; within a status in the order of the checks. What is fine takes one line. */
static void print_status(const json_t *findings, as_fitness s, widths w, FILE *to) {
    size_t i;
    json_t *f;
    json_array_foreach((json_t *)findings, i, f) {
        if (status_of(f) != s)
            continue;
        fprintf(to, "%-7s  %-*s  %-*s  %s\n", as_fitness_name(s), w.subject, text_of(f, "subject"), w.check,
                text_of(f, "check"), text_of(f, "found"));
        const int indent = 7 + 2 + w.subject + 2 + w.check + 2;
        if (s == AS_FIT_WARNING || s == AS_FIT_UNFIT)
            fprintf(to, "%*swhy: %s\n", indent, "", text_of(f, "why"));
        if (s != AS_FIT_OK)
            fprintf(to, "%*sremedy: %s\n", indent, "", text_of(f, "remedy"));
    }
}

void as_doctor_print(const json_t *report, FILE *to) {
    static const as_fitness order[] = {AS_FIT_UNFIT, AS_FIT_WARNING, AS_FIT_UNKNOWN, AS_FIT_NOTE, AS_FIT_OK};
    static const char *const conclusions[] = {"fit", "fit with warnings, results may be disturbed",
                                              "unfit for what was asked"};
    const json_t *findings = json_object_get(report, "findings"), *counts = json_object_get(report, "counts");
    const int code = (int)json_integer_value(json_object_get(report, "exit_code"));
    const widths w = measure(findings);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        print_status(findings, order[i], w, to);
    fprintf(to, "\n");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        fprintf(to, "%s%s %d", i ? ", " : "", as_fitness_name(order[i]),
                (int)json_integer_value(json_object_get(counts, as_fitness_name(order[i]))));
    fprintf(to, "\n%s on CPUs %s, watched for %.1f s: %s\n", text_of(report, "for"), text_of(report, "cpus"),
            json_number_value(json_object_get(report, "sample_s")), conclusions[code == 3 ? 2 : code == 4]);
}
