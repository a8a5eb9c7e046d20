#include "options.h"

#include <stdlib.h>
#include <string.h>

static const char *const profile_names[] = {"quick", "standard", "publish"};

const char *as_profile_name(as_profile p) { return profile_names[p]; }

as_status as_profile_parse(const char *text, as_profile *out, as_error *e) {
    for (int i = 0; i < 3; i++)
        if (strcmp(text, profile_names[i]) == 0) {
            *out = (as_profile)i;
            return AS_OK;
        }
    return as_fail(e, AS_EUSAGE, "--profile %s: unknown; choose quick, standard or publish", text);
}

as_status as_parse_duration(const char *text, int64_t *ns, as_error *e) {
    static const struct {
        const char *suffix;
        int64_t ns;
    } units[] = {{"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}, {"", 1000000000}};
    const int64_t most = 30LL * 24 * 3600 * 1000000000;
    size_t digits = strspn(text, "0123456789");
    char number[24];
    if (digits > 0 && digits < sizeof number) {
        memcpy(number, text, digits);
        number[digits] = '\0';
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            int64_t value;
            if (strcmp(text + digits, units[i].suffix) == 0 &&
                as_parse_int(number, 1, most / units[i].ns, &value, NULL) == AS_OK) {
                *ns = value * units[i].ns;
                return AS_OK;
            }
        }
    }
    return as_fail(e, AS_EUSAGE, "'%.40s' is not a duration; give a whole number above 0 with ms, s, m or h: 90s, 4m",
                   text);
}

/* ---- the table ---- */

typedef enum kind { FLAG, TEXT, LIST, COUNT, SEED, DURATION, PROFILE, ON_OFF, SWITCH, JSON_ONLY, SECONDS } kind;
#define AT(field) offsetof(as_options, field)

static const struct option_row {
    const char *name, *argument;
    kind kind;
    size_t at;
    int64_t min, max;
    const char *help;
} rows[] = {
    {"suite", "NAME[,NAME]", LIST, AT(suites), 0, 0, "suites to take (default: all)"},
    {"filter", "REGEX", TEXT, AT(filter), 0, 0, "extended regular expression that a case's id must match"},
    {"cases", "FILE", TEXT, AT(cases), 0, 0, "take exactly the ids listed in FILE, one a line, of whatever profile"},
    {"device", "NAME[,NAME]", LIST, AT(devices), 0, 0, "devices: cpu, cuda0, cuda (default: all that are there)"},
    {"profile", "NAME", PROFILE, AT(profile), 0, 0,
     "quick (5% intervals), standard (2%) or publish (1%); default quick"},
    {"budget", "TIME", DURATION, AT(budget_ns), 0, 0, "wall time of the whole run: 90s, 4m (default: by profile)"},
    {"timeout", "TIME", DURATION, AT(timeout_ns), 0, 0, "longest time a stage of one case may take (default 60s)"},
    {"wait", "TIME", DURATION, AT(wait_ns), 0, 0,
     "wait so long for a GPU that another run uses (default: refuse at once)"},
    {"launches", "N", COUNT, AT(launches), 1, 1000,
     "fresh processes to spread the rounds over (default 1, profile publish 6)"},
    {"rounds", "N", COUNT, AT(rounds), 1, 10000, "exactly N rounds a launch, no stop rule"},
    {"seed", "N", SEED, AT(seed), 0, 0, "64-bit seed of inputs and order (default 42)"},
    {"cpus", "LIST", TEXT, AT(cpus), 0, 0, "CPUs to measure on: 0-3,8 (default: all that this process may use)"},
    {"gpu", "N", COUNT, AT(gpu), 0, 1023, "use only accelerator N (default: all visible)"},
    {"out", "FILE", TEXT, AT(out), 0, 0, "result file (default assay-<date>.json)"},
    {"resume", "FILE", TEXT, AT(resume), 0, 0, "go on with the run whose result or journal FILE is"},
    {"ceilings", "on|off", ON_OFF, AT(ceilings), 0, 0, "measure the machine's limits too (default on)"},
    {"telemetry", "on|off", SWITCH, AT(telemetry), 0, 0,
     "sample clocks, power, load beside the run (default on; ASSAY_TELEMETRY=off is the same)"},
    {"energy", "on|off", SWITCH, AT(energy), 0, 0,
     "measure energy by operation, some 5 s a case (default on, in the quick profile off)"},
    {"exec", "COMMAND", TEXT, AT(exec), 0, 0, "time a program (split at blanks, quotes as in a shell) as a case"},
    {"name", "NAME", TEXT, AT(exec_name), 0, 0, "name of the --exec case"},
    {"strict", NULL, FLAG, AT(strict), 0, 0, "exit 4 if a case is suspect or has not converged"},
    {"dry-run", NULL, FLAG, AT(dry_run), 0, 0, "print the plan, its placement and budget; run nothing"},
    {"if-present", NULL, FLAG, AT(if_present), 0, 0, "exit 77 where the asked device is absent"},
    {"json", NULL, FLAG, AT(json), 0, 0, "list: print JSON"},
    {"quiet", NULL, FLAG, AT(quiet), 0, 0, "no progress, only the closing table"},
    /* Google Benchmark's flags that map to fields of the plan; any other --benchmark_... is an error. */
    {"benchmark_filter", "REGEX", TEXT, AT(filter), 0, 0, "as --filter"},
    {"benchmark_repetitions", "N", COUNT, AT(rounds), 1, 10000, "as --rounds"},
    {"benchmark_min_time", "TIME", SECONDS, AT(budget_ns), 0, 0, "as --budget (0.5, 2s)"},
    {"benchmark_out", "FILE", TEXT, AT(out), 0, 0, "as --out"},
    {"benchmark_out_format", "json", JSON_ONLY, 0, 0, 0, "json is the only format"},
    {"benchmark_list_tests", "[true]", FLAG, AT(list_only), 0, 0, "print the ids of the plan"},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

void as_options_help(FILE *to) {
    fprintf(to, "options of list, run and verify\n");
    for (int i = 0; i < N_ROWS; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", rows[i].name, rows[i].argument ? " " : "",
                 rows[i].argument ? rows[i].argument : "");
        fprintf(to, "  %-30s %s\n", left, rows[i].help);
    }
    fprintf(to, "  %-30s %s\n", "--help, --version", "this text; the version and what it was built from");
    fprintf(
        to,
        "\nexit codes\n"
        "  0 all is well    1 a verification failed, a case was lost    2 usage or malformed input\n"
        "  3 the environment cannot do it    4 inconclusive (--strict)    77 device absent (--if-present)\n"
        "  Interrupted (SIGINT, SIGTERM, SIGHUP): the partial result is written, then the signal is raised again.\n");
}

/* ---- parsing ---- */

static as_status add_names(as_names *list, const char *text, const char *option, as_error *e) {
    char *copy = strdup(text), *save = NULL;
    if (!copy)
        return as_fail(e, AS_ENOMEM, "out of memory");
    as_status status = AS_OK;
    for (char *w = strtok_r(copy, ",", &save); w && status == AS_OK; w = strtok_r(NULL, ",", &save)) {
        if (list->count == AS_MAX_NAMES)
            status = as_fail(e, AS_EUSAGE, "--%s: more than %d names", option, AS_MAX_NAMES);
        else if (!(list->name[list->count] = strdup(w)))
            status = as_fail(e, AS_ENOMEM, "out of memory");
        else
            list->count++;
    }
    if (status == AS_OK && list->count == 0)
        status = as_fail(e, AS_EUSAGE, "--%s: the name is empty", option);
    free(copy);
    return status;
}

static as_status parse_seed(const char *text, uint64_t *out, as_error *e) {
    uint64_t value = 0;
    bool good = *text != '\0';
    for (const char *c = text; *c && good; c++) {
        unsigned digit = (unsigned)(*c - '0');
        good = *c >= '0' && *c <= '9' && value <= (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    if (!good)
        return as_fail(e, AS_EUSAGE, "--seed %.40s: give a whole number from 0 to 18446744073709551615", text);
    *out = value;
    return AS_OK;
}

/* Google Benchmark writes seconds as a decimal: 0.5 or 0.5s. Milliseconds are kept. */
static as_status parse_seconds(const char *text, int64_t *ns, as_error *e) {
    int64_t whole = 0, milli = 0, scale = 100;
    const char *c = text;
    bool good = *c >= '0' && *c <= '9';
    for (; *c >= '0' && *c <= '9' && whole < 1000000; c++)
        whole = whole * 10 + (*c - '0');
    if (*c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++, scale /= 10)
            milli += scale * (*c - '0');
    if (*c == 's')
        c++;
    if (!good || *c || whole * 1000 + milli == 0)
        return as_fail(e, AS_EUSAGE, "--benchmark_min_time %.40s: give seconds above 0: 0.5, 2s", text);
    *ns = (whole * 1000 + milli) * 1000000;
    return AS_OK;
}

static as_status store(as_options *o, const struct option_row *row, const char *text, as_error *e) {
    void *field = (char *)o + row->at;
    as_error detail = {0};
    as_status s = AS_OK;
    int64_t number = 0;
    switch (row->kind) {
    case FLAG:
        if (text && strcmp(text, "true") != 0)
            return as_fail(e, AS_EUSAGE, "--%s takes no value", row->name);
        *(bool *)field = true;
        return AS_OK;
    case TEXT:
        if (!*text)
            return as_fail(e, AS_EUSAGE, "--%s: the value is empty", row->name);
        *(const char **)field = text;
        return AS_OK;
    case LIST: return add_names(field, text, row->name, e);
    case SEED: return parse_seed(text, field, e);
    case PROFILE: return as_profile_parse(text, field, e);
    case SECONDS: return parse_seconds(text, field, e);
    case ON_OFF:
    case SWITCH:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
            return as_fail(e, AS_EUSAGE, "--%s %.40s: choose on or off", row->name, text);
        if (row->kind == ON_OFF)
            *(bool *)field = strcmp(text, "on") == 0;
        else
            *(int *)field = strcmp(text, "on") == 0;
        return AS_OK;
    case JSON_ONLY:
        if (strcmp(text, "json") != 0)
            return as_fail(e, AS_EUSAGE, "--%s %.40s: json is the only format", row->name, text);
        return AS_OK;
    case DURATION: s = as_parse_duration(text, field, &detail); break;
    case COUNT:
        s = as_parse_int(text, row->min, row->max, &number, &detail);
        if (row->at == AT(launches))
            *(int *)field = (int)number;
        else
            *(int64_t *)field = number;
        break;
    }
    return s == AS_OK ? AS_OK : as_fail(e, s, "--%s: %s", row->name, detail.message);
}

static const struct option_row *find_row(const char *name, size_t length) {
    for (int i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

/* Switches that the command line left open. */
static as_status settle_defaults(as_options *o, as_error *e) {
    const char *word = getenv("ASSAY_TELEMETRY");
    if (o->telemetry < 0 && word && strcmp(word, "on") != 0 && strcmp(word, "off") != 0)
        return as_fail(e, AS_EUSAGE, "ASSAY_TELEMETRY=%.40s: choose on or off", word);
    if (o->telemetry < 0)
        o->telemetry = !word || strcmp(word, "on") == 0;
    if (o->energy < 0)
        o->energy = o->profile != AS_QUICK;
    return AS_OK;
}

static as_status parse_words(as_options *o, int argc, char **argv, bool *help, as_error *e) {
    *o = (as_options){.profile = AS_QUICK,
                      .seed = 42,
                      .gpu = -1,
                      .ceilings = true,
                      .telemetry = -1,
                      .energy = -1,
                      .timeout_ns = 60000000000,
                      .command = argc > 1 ? argv[1] : NULL};
    *help = false;
    for (int i = 2; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            *help = true;
            return AS_OK;
        }
        if (strncmp(word, "--", 2) != 0)
            return as_fail(e, AS_EUSAGE, "'%.60s' is not an option; see assay --help", word);
        const char *equals = strchr(word, '=');
        size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
        const struct option_row *row = find_row(word + 2, length);
        if (!row)
            return as_fail(e, AS_EUSAGE, "there is no option %.60s; see assay --help", word);
        const char *value = equals ? equals + 1 : NULL;
        if (row->kind != FLAG && !value) {
            if (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0)
                return as_fail(e, AS_EUSAGE, "--%s needs a value: %s", row->name, row->argument);
            value = argv[++i];
        }
        AS_TRY(store(o, row, value, e));
        o->chosen += row->at != AT(resume) && row->at != AT(quiet) && row->at != AT(wait_ns);
    }
    if (o->launches == 0) /* a published number speaks of processes, not of one process; a check needs one */
        o->launches = o->profile == AS_PUBLISH && o->command && strcmp(o->command, "run") == 0 ? 6 : 1;
    AS_TRY(settle_defaults(o, e));
    if (o->resume && o->dry_run)
        return as_fail(e, AS_EUSAGE, "--resume runs what is left; leave --dry-run away");
    if (o->resume && o->out)
        return as_fail(e, AS_EUSAGE, "--resume writes the result that its journal names; leave --out away");
    if ((o->exec != NULL) != (o->exec_name != NULL))
        return as_fail(e, AS_EUSAGE, "--exec and --name go together: --exec 'sleep 0.1' --name nap");
    return AS_OK;
}

void as_options_free(as_options *o) {
    as_names *lists[] = {&o->suites, &o->devices};
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->count; i++)
            free((char *)lists[l]->name[i]);
    memset(o, 0, sizeof *o);
}

as_status as_options_parse(as_options *o, int argc, char **argv, bool *help, as_error *e) {
    const as_status s = parse_words(o, argc, argv, help, e);
    if (s != AS_OK)
        as_options_free(o);
    return s;
}
