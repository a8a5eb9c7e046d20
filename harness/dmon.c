/* `assay dmon`: what the sampler sees, live, like `nvidia-smi dmon`: the host and each device in one line a period. The
 * readings are made in the sampler's process: a driver that breaks takes that one, and this command says so. */
#include "options.h"
#include "plan.h"
#include "process.h"
#include "telemetry.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEADER_EVERY = 20, LEAST_PERIOD_MS = 50 };

typedef struct dmon {
    as_names devices; /* asked for; none: all */
    int64_t period_ns, count;
    bool json, help;
    as_machine machine;
    as_telemetry telemetry;
    bool shown[AS_TELEMETRY_COLUMNS]; /* columns that the table has: those that had a value in the first two samples */
} dmon;

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
    (void)number;
    stopped = 1;
}

/* ---- the command line ---- */

static void print_help(FILE *to) {
    fprintf(to, "usage: assay dmon [--device NAME[,NAME]] [--period TIME] [--count N] [--json]\n\n"
                "Prints load, clocks, power and temperatures of the host and its devices, one line a period.\n\n"
                "  --device NAME[,NAME]   cpu, cuda0, cuda (default: all that are there; the host is always shown)\n"
                "  --period TIME          500ms, 1s, 1m; at least 50ms (default 1s)\n"
                "  --count N              end after N lines (default: until Ctrl-C)\n"
                "  --json                 JSON lines, in base units, null where unknown\n");
}

static as_status add_devices(dmon *d, const char *text, as_error *e) {
    char *copy = strdup(text), *save = NULL;
    as_status s = copy ? AS_OK : as_fail(e, AS_ENOMEM, "out of memory");
    for (char *w = copy ? strtok_r(copy, ",", &save) : NULL; w && s == AS_OK; w = strtok_r(NULL, ",", &save)) {
        if (d->devices.count == AS_MAX_NAMES)
            s = as_fail(e, AS_EUSAGE, "--device: more than %d names", AS_MAX_NAMES);
        else
            d->devices.name[d->devices.count++] = strdup(w);
    }
    if (s == AS_OK && d->devices.count == 0)
        s = as_fail(e, AS_EUSAGE, "--device: the name is empty");
    free(copy);
    return s;
}

static as_status take_value(dmon *d, const char *name, const char *value, as_error *e) {
    as_error detail = {0};
    as_status s = AS_OK;
    if (strcmp(name, "--device") == 0)
        return add_devices(d, value, e);
    if (strcmp(name, "--period") == 0) {
        s = as_parse_duration(value, &d->period_ns, &detail);
        if (s == AS_OK && d->period_ns < LEAST_PERIOD_MS * INT64_C(1000000))
            return as_fail(e, AS_EUSAGE, "--period %.40s: at least %d ms", value, LEAST_PERIOD_MS);
    } else {
        s = as_parse_int(value, 1, INT64_MAX / 2, &d->count, &detail);
    }
    return s == AS_OK ? AS_OK : as_fail(e, s, "%s: %s", name, detail.message);
}

static as_status parse(dmon *d, int argc, char **argv, as_error *e) {
    d->period_ns = 1000000000;
    for (int i = 2; i < argc; i++) {
        char name[16];
        const char *equals = strchr(argv[i], '=');
        const size_t length = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        snprintf(name, sizeof name, "%.*s", length < 15 ? (int)length : 15, argv[i]);
        const bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0, json = strcmp(name, "--json") == 0;
        if (!equals && (help || json)) {
            d->help = d->help || help;
            d->json = d->json || json;
            continue;
        }
        if (strcmp(name, "--device") != 0 && strcmp(name, "--period") != 0 && strcmp(name, "--count") != 0)
            return as_fail(e, AS_EUSAGE, "dmon has no option '%.60s'; see assay dmon --help", argv[i]);
        if (!equals && (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0))
            return as_fail(e, AS_EUSAGE, "%s needs a value; see assay dmon --help", name);
        AS_TRY(take_value(d, name, equals ? equals + 1 : argv[++i], e));
    }
    return AS_OK;
}

/* ---- what is watched ---- */

static bool wanted(const dmon *d, const as_device *device) {
    if (d->devices.count == 0 || device->driver == &as_cpu_driver)
        return true;
    for (int i = 0; i < d->devices.count; i++)
        if (strcmp(d->devices.name[i], device->name) == 0 || strcmp(d->devices.name[i], device->driver->kind) == 0)
            return true;
    return false;
}

/* Each asked name must be there: a misspelt one is no silence. */
static as_status check_names(const dmon *d, as_error *e) {
    for (int n = 0; n < d->devices.count; n++) {
        bool there = false;
        for (int i = 0; i < d->machine.devices; i++)
            there = there || strcmp(d->devices.name[n], d->machine.device[i].name) == 0 ||
                    strcmp(d->devices.name[n], d->machine.device[i].driver->kind) == 0;
        const char *why = "no such device";
        size_t i;
        json_t *row;
        json_array_foreach(d->machine.absent, i, row) {
            const char *kind = json_string_value(json_object_get(row, "kind"));
            if (kind && strncmp(kind, d->devices.name[n], strlen(kind)) == 0)
                why = json_string_value(json_object_get(row, "reason"));
        }
        if (!there)
            return as_fail(e, AS_EENV, "--device %.40s: %.300s; without --device all that is there is shown",
                           d->devices.name[n], why);
    }
    return AS_OK;
}

static void start(dmon *d) {
    as_telemetry_request q = {.period_ns = d->period_ns};
    for (int i = 0; i < d->machine.devices && q.devices < AS_TELEMETRY_SOURCES; i++) {
        const as_device *device = &d->machine.device[i];
        if (!wanted(d, device))
            continue;
        q.device[q.devices].name = device->name;
        q.device[q.devices].kind = device->driver->kind;
        q.device[q.devices].driver = device->driver->telemetry;
        q.device[q.devices++].description = d->machine.description[i];
    }
    as_telemetry_start(&d->telemetry, &q);
}

/* ---- printing ---- */

static const char *device_of(const as_telemetry *t, int column) {
    const char *name = "";
    for (int s = 0; s < t->sources; s++)
        if (t->source[s].first <= column)
            name = t->source[s].name;
    return name;
}

static int width_of(const as_telemetry *t, int c) {
    const size_t widths[] = {strlen(t->column[c]->head), strlen(t->column[c]->shown_unit), strlen(device_of(t, c)), 6};
    size_t most = 0;
    for (int i = 0; i < 4; i++)
        most = widths[i] > most ? widths[i] : most;
    return (int)most;
}

static void print_header(const dmon *d) {
    const as_telemetry *t = &d->telemetry;
    static const char *const first[] = {"# device", "#   what", "#   unit"};
    for (int line = 0; line < 3; line++) {
        printf("%s", first[line]);
        for (int c = 0; c < t->columns; c++) {
            const char *word = line == 0 ? device_of(t, c) : line == 1 ? t->column[c]->head : t->column[c]->shown_unit;
            if (d->shown[c])
                printf(" %*s", width_of(t, c), word);
        }
        puts("");
    }
}

static void print_line(const dmon *d, const double *row) {
    const as_telemetry *t = &d->telemetry;
    const time_t now = time(NULL);
    struct tm local;
    char stamp[16];
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
    printf("%s", stamp);
    for (int c = 0; c < t->columns; c++) {
        const as_telemetry_column *k = t->column[c];
        char text[32] = "-";
        if (isfinite(row[c + 1]) && k->kind == AS_MASK)
            snprintf(text, sizeof text, "0x%llx", (unsigned long long)row[c + 1]);
        else if (isfinite(row[c + 1]))
            snprintf(text, sizeof text, "%.*f", k->digits, row[c + 1] * k->shown);
        if (d->shown[c])
            printf(" %*s", width_of(t, c), text);
    }
    puts("");
}

static void print_json(const as_telemetry *t, const double *row) {
    json_t *out = json_pack("{s:I}", "time_ns", (json_int_t)row[0]);
    for (int c = 0; c < t->columns; c++) {
        const char *name = device_of(t, c);
        const double x = row[c + 1];
        if (!json_object_get(out, name))
            json_object_set_new(out, name, json_object());
        json_object_set_new(json_object_get(out, name), t->column[c]->name,
                            !isfinite(x)                      ? json_null()
                            : x == floor(x) && fabs(x) < 1e15 ? json_integer(llround(x))
                                                              : json_real(x));
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    puts("");
    json_decref(out);
}

/* Rates need two samples: what neither of the first two knows is left out of the table. */
static void choose_columns(dmon *d) {
    for (int c = 0; c < d->telemetry.columns; c++)
        for (int row = 0; row < 2; row++)
            d->shown[c] = d->shown[c] || isfinite(as_telemetry_row(&d->telemetry, row)[c + 1]);
}

/* ---- the loop ---- */

static bool wait_for_rows(dmon *d, int rows) {
    while (!stopped && as_telemetry_rows(&d->telemetry) < rows) {
        if (!as_telemetry_alive(&d->telemetry))
            return false;
        usleep(10000);
    }
    return true;
}

/* The first sample has no rates and is not shown. */
static as_status watch(dmon *d, as_error *e) {
    const as_telemetry *t = &d->telemetry;
    double last = 0;
    int64_t lines = 0;
    if (wait_for_rows(d, 2) && !stopped) {
        choose_columns(d);
        last = as_telemetry_row(t, 0)[0];
    }
    while (!stopped && (d->count == 0 || lines < d->count)) {
        const int rows = as_telemetry_rows(t);
        const double *row = rows > 0 ? as_telemetry_row(t, rows - 1) : NULL;
        if (!row || row[0] <= last) {
            if (!as_telemetry_alive(&d->telemetry))
                return as_fail(e, AS_EENV, "%s; try --device cpu", t->fault[0] ? t->fault : "nothing can be sampled");
            usleep(10000);
            continue;
        }
        last = row[0];
        if (!d->json && lines % HEADER_EVERY == 0)
            print_header(d);
        if (d->json)
            print_json(t, row);
        else
            print_line(d, row);
        lines++;
        if (fflush(stdout) != 0)
            return as_fail(e, AS_EENV, "standard output cannot be written");
    }
    return AS_OK;
}

static as_status run(dmon *d, const as_registry *registry, as_error *e) {
    AS_TRY(as_probe(&d->machine, registry, e));
    AS_TRY(check_names(d, e));
    size_t i;
    json_t *row;
    json_array_foreach(d->machine.absent, i, row) if (!d->json)
        printf("# %s: %s\n", json_string_value(json_object_get(row, "kind")),
               json_string_value(json_object_get(row, "reason")));
    start(d);
    const as_status s = watch(d, e);
    as_telemetry_stop(&d->telemetry);
    return s;
}

int as_dmon_main(const as_registry *registry, int argc, char **argv) {
    static dmon d;
    as_error e = {0};
    const struct sigaction act = {.sa_handler = on_signal};
    as_status s = parse(&d, argc, argv, &e);
    if (s == AS_OK && d.help) {
        print_help(stdout);
    } else if (s == AS_OK) {
        sigaction(SIGINT, &act, NULL);
        sigaction(SIGTERM, &act, NULL);
        s = run(&d, registry, &e);
    }
    if (s != AS_OK)
        fprintf(stderr, "assay: %s\n", e.message);
    for (int i = 0; i < d.devices.count; i++)
        free((char *)d.devices.name[i]);
    as_telemetry_free(&d.telemetry);
    as_machine_free(&d.machine);
    return as_exit_code(s);
}
