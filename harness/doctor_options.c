/* The command line of `assay doctor`. */
#include "doctor_options.h"
#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const int64_t LEAST_SAMPLE_NS = 100000000, MOST_SAMPLE_NS = 60000000000;

#define AT(field) offsetof(as_doctor_options, field)
static const struct option_row {
    const char *name, *argument; /* argument NULL: a flag */
    size_t at;
    const char *help;
} rows[] = {
    {"device", "NAME[,NAME]", AT(device), "devices to look at: cpu, cuda0, cuda (default: all that are there)"},
    {"cpus", "LIST", AT(cpus), "CPUs that the run would use, such as 0-3,8 (default: as assay run)"},
    {"for", "PROFILE", AT(profile_name), "quick, standard or publish: what is asked of the machine; default quick"},
    {"sample", "TIME", AT(sample), "how long load, steal and interrupts are watched, 100ms to 60s; default 1s"},
    {"out", "FILE", AT(out), "where the result would be written; default: this folder"},
    {"json", NULL, AT(json), "print one JSON document (assay.doctor/1)"},
    {"help", NULL, AT(help), "this text"},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

void as_doctor_help(void) {
    printf("usage: assay doctor [OPTION]...\n\n"
           "Says what on this machine would spoil results, and the remedy for each. It changes nothing.\n\n");
    for (int i = 0; i < N_ROWS; i++) {
        char left[48];
        snprintf(left, sizeof left, "--%s %s", rows[i].name, rows[i].argument ? rows[i].argument : "");
        printf("  %-24s %s\n", left, rows[i].help);
    }
    printf("\nexit codes\n  0 fit    2 usage    3 unfit for what was asked, or not written    4 fit with warnings\n");
}

static const struct option_row *find_row(const char *name, size_t length) {
    for (int i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

static as_status parse_words(as_doctor_options *o, int argc, char **argv, as_error *e) {
    for (int i = 2; i < argc; i++) {
        const char *word = strcmp(argv[i], "-h") == 0 ? "--help" : argv[i], *equals = strchr(word, '=');
        const bool option = strncmp(word, "--", 2) == 0;
        const struct option_row *row =
            option ? find_row(word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2)) : NULL;
        if (!row)
            return as_fail(e, AS_EUSAGE, "doctor has no option '%.60s'; see assay doctor --help", word);
        if (!row->argument) {
            if (equals)
                return as_fail(e, AS_EUSAGE, "--%s takes no value", row->name);
            *(bool *)((char *)o + row->at) = true;
            continue;
        }
        const char *value = equals ? equals + 1 : i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 ? argv[++i] : "";
        if (!*value)
            return as_fail(e, AS_EUSAGE, "--%s needs a value: %s", row->name, row->argument);
        *(const char **)((char *)o + row->at) = value;
    }
    return AS_OK;
}

static bool known_kind(const as_registry *registry, const char *word, size_t n) {
    const char *kinds[16] = {as_cpu_driver.kind};
    int count = 1;
    for (const as_device_driver *const *d = registry->drivers; d && *d && count < 15; d++)
        kinds[count++] = (*d)->kind;
    for (const as_absent_kind *a = registry->absent; a && a->kind && count < 15; a++)
        kinds[count++] = a->kind;
    for (int i = 0; i < count; i++) {
        const size_t k = strlen(kinds[i]);
        if (n >= k && strncmp(word, kinds[i], k) == 0 && strspn(word + k, "0123456789") >= n - k &&
            (i > 0 || n == k)) /* there is one cpu */
            return true;
    }
    return false;
}

static as_status check_devices(const as_registry *registry, const char *list, as_error *e) {
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        if (!known_kind(registry, p, n))
            return as_fail(e, AS_EUSAGE,
                           "--device %.*s: unknown; devices are cpu, a kind such as cuda, or cuda0, cuda1 ...",
                           n < 40 ? (int)n : 40, p);
        p += n + (p[n] == ',');
    }
    return AS_OK;
}

as_status as_doctor_options_parse(as_doctor_options *o, const as_registry *registry, int argc, char **argv,
                                  as_error *e) {
    as_error detail;
    *o = (as_doctor_options){.sample = "1s", .profile_name = "quick"};
    AS_TRY(parse_words(o, argc, argv, e));
    if (as_profile_parse(o->profile_name, &o->profile, &detail) != AS_OK)
        return as_fail(e, AS_EUSAGE, "--for %.40s: unknown; choose quick, standard or publish", o->profile_name);
    if (as_parse_duration(o->sample, &o->sample_ns, &detail) != AS_OK)
        return as_fail(e, AS_EUSAGE, "--sample: %s", detail.message);
    if (o->sample_ns < LEAST_SAMPLE_NS || o->sample_ns > MOST_SAMPLE_NS)
        return as_fail(e, AS_EUSAGE, "--sample %.40s: give 100ms to 60s", o->sample);
    return check_devices(registry, o->device, e);
}

bool as_doctor_asks(const as_doctor_options *o, const char *name, const char *kind) {
    const size_t k = strlen(kind);
    for (const char *p = o->device; p && *p;) {
        const size_t n = strcspn(p, ",");
        if ((n == strlen(name) && strncmp(p, name, n) == 0) || (n == k && strncmp(p, kind, n) == 0))
            return true;
        p += n + (p[n] == ',');
    }
    return o->device == NULL;
}
