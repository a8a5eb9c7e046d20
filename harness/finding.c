#include "finding.h"
#include "options.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void as_found(as_finding *f, as_fitness status, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->found, sizeof f->found, fmt, ap);
    va_end(ap);
    f->status = status;
    f->remedy[0] = '\0';
}

void as_remedy(as_finding *f, const char *fmt, ...) {
    const size_t used = strlen(f->remedy);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->remedy + used, sizeof f->remedy - used, fmt, ap);
    va_end(ap);
}

const char *as_fitness_name(as_fitness s) {
    static const char *const names[] = {"ok", "note", "unknown", "warning", "unfit"};
    return names[s];
}

/* Names of processes and zones are anybody's bytes; a terminal must not obey them. */
static json_t *printable(const char *text) {
    char copy[sizeof((as_finding *)0)->remedy];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *c = copy; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return json_string(copy);
}

json_t *as_finding_json(const as_finding *f, const char *subject) {
    json_t *o = json_object();
    json_object_set_new(o, "subject", json_string(subject));
    json_object_set_new(o, "check", json_string(f->rule->name));
    json_object_set_new(o, "status", json_string(as_fitness_name(f->status)));
    json_object_set_new(o, "found", printable(f->found));
    json_object_set_new(o, "why", json_string(f->rule->why));
    json_object_set_new(o, "remedy", f->status == AS_FIT_OK ? json_null() : printable(f->remedy));
    json_object_set_new(o, "looks_at", json_string(f->rule->looks_at));
    json_object_set_new(o, "warns_from", json_string(as_profile_name(f->rule->warns_from)));
    return o;
}
