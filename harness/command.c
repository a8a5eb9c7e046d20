/* The command: `assay COMMAND [OPTION]...`. Only here is an exit code decided. */
#include "address_space.h"
#include "build_info.h"
#include "doctor.h"
#include "journal.h"
#include "lock.h"
#include "plan.h"
#include "plan_cases.h"
#include "run.h"
#include "telemetry.h"
#include "worker.h"

#include <jansson.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const as_error *e, const as_options *o) {
    if (e->status == AS_EABSENT && o && o->if_present) {
        fprintf(stderr, "skipped: %s\n", e->message);
        return 77;
    }
    fprintf(stderr, "assay: %s\n", e->message);
    return as_exit_code(e->status);
}

static void print_version(void) {
    printf("assay %s, commit %s%s, %s, %s%s%s\n", as_build.version, as_build.commit[0] ? as_build.commit : "unknown",
           as_build.dirty == 1 ? " (dirty)" : "", as_build.compiler, as_build.build_type,
           as_build.toolkit[0] ? ", " : "", as_build.toolkit);
}

static void list_suite(const as_suite *s) {
    printf("%s: %s%s\n", s->name, s->summary, s->only_if_named ? " (only with --suite or --cases)" : "");
    for (const as_variant *v = s->variants; v->name; v++)
        printf("  %-5s %-20s %s\n", v->on, v->name, v->summary ? v->summary : "");
    for (int i = 0; i < s->n_axes; i++)
        printf("  axis  %-20s %s (default %s)\n", s->axes[i].name, s->axes[i].help ? s->axes[i].help : "",
               s->axes[i].fallback);
}

/* JSON is the whole catalogue, as results hold it. */
static int list(const as_registry *registry, const as_options *o) {
    as_error e = {0};
    if (o->chosen > (o->json || o->suites.count > 0))
        as_fail(&e, AS_EUSAGE, "list takes --suite or --json; `assay run --dry-run` prints the cases of a plan");
    else if (as_registry_check_suites(registry, &o->suites, &e) == AS_OK && o->json) {
        json_t *catalogue = as_plan_catalogue(registry);
        int rc = json_dumpf(catalogue, stdout, JSON_INDENT(2)) == 0 ? 0 : 3;
        puts("");
        json_decref(catalogue);
        return rc;
    }
    if (e.status != AS_OK)
        return fail(&e, NULL);
    const as_suite *s;
    for (int i = 0; (s = as_registry_suite(registry, i)); i++)
        if (as_names_hold(&o->suites, s->name))
            list_suite(s);
    return 0;
}

/* `run --resume FILE [--quiet] [--wait TIME]` takes up the command line that the journal keeps. */
static as_status resume_options(as_options *o, json_t **header, char ***words, as_error *e) {
    if (!o->resume || o->chosen > 0)
        return AS_OK;
    AS_TRY(as_journal_header(o->resume, header, e));
    const json_t *argv = json_object_get(*header, "argv");
    const int n = (int)json_array_size(argv);
    const char *resume = o->resume;
    const bool quiet = o->quiet;
    const int64_t wait_ns = o->wait_ns;
    if (n < 2 || !(*words = calloc((size_t)n + 1, sizeof **words)))
        return as_fail(e, AS_EUSAGE, "--resume: the journal keeps no command line; delete it and run again");
    for (int i = 0; i < n; i++)
        if (!((*words)[i] = (char *)json_string_value(json_array_get(argv, (size_t)i))))
            return as_fail(e, AS_EUSAGE, "--resume: the journal's command line is damaged; delete it and run again");
    bool help;
    as_options_free(o);
    AS_TRY(as_options_parse(o, n, *words, &help, e));
    o->resume = resume;
    o->quiet = quiet;
    o->wait_ns = wait_ns ? wait_ns : o->wait_ns;
    return AS_OK;
}

/* A table that a full disk or a closed pipe swallowed must not end in 0. */
static int flushed(int code) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("assay: standard output cannot be written; free some space or redirect it elsewhere\n", stderr);
        code = code ? code : 3;
    }
    if (as_address_space_is_limited())
        _exit(code);
    return code;
}

static int run_command(const as_registry *registry, as_options *o, int argc, char **argv) {
    as_error e = {0};
    json_t *header = NULL;
    char **words = NULL;
    int code = 0;
    as_status s = resume_options(o, &header, &words, &e);
    if (s == AS_OK)
        s = as_run(registry, o, argc, argv, &code, &e);
    if (s != AS_OK)
        code = fail(&e, o);
    as_options_free(o);
    free(words);
    json_decref(header);
    return code;
}

/* ---- commands ---- */

static int with_options(const as_registry *registry, int argc, char **argv) {
    as_error e = {0};
    as_options o;
    bool help = false;
    if (as_options_parse(&o, argc, argv, &help, &e) != AS_OK)
        return fail(&e, NULL);
    if (help)
        as_options_help(stdout);
    else if (strcmp(o.command, "list") != 0)
        return run_command(registry, &o, argc, argv);
    const int code = help ? 0 : list(registry, &o);
    as_options_free(&o);
    return code;
}

static int in_python(const as_registry *registry, int argc, char **argv) {
    (void)registry;
    as_error e = {0};
    (void)!as_python_exec(argc, argv, &e); /* returns only where it failed */
    return fail(&e, NULL);
}

/* `git bisect run` reads 1 to 127 as a verdict on the commit, and stops at 128 and above. */
static int bisect(const as_registry *registry, int argc, char **argv) { return 128 + in_python(registry, argc, argv); }

static int worker(const as_registry *registry, int argc, char **argv) {
    (void)argc, (void)argv;
    return as_worker_main(registry);
}

static int probe(const as_registry *registry, int argc, char **argv) {
    (void)argc, (void)argv;
    return as_probe_child(registry);
}

static int health(const as_registry *registry, int argc, char **argv) {
    (void)argc, (void)argv;
    return as_doctor_child(registry);
}

static int sampler(const as_registry *registry, int argc, char **argv) {
    (void)argc, (void)argv;
    return as_sampler_main(registry);
}

static const struct command {
    const char *name;
    const char *help; /* NULL: internal, a process of the run */
    int (*run)(const as_registry *registry, int argc, char **argv);
} commands[] = {
    {"list", "suites, variants and axes (--json for tools)", with_options},
    {"run", "run the plan: verify, measure, record one JSON", with_options},
    {"verify", "check every kernel's output, measure nothing", with_options},
    {"doctor", "what on this machine would spoil results, and the remedy; changes nothing", as_doctor_main},
    {"lock", "hold the GPUs for one command: assay lock [--device NAME] [--wait TIME] -- COMMAND", as_lock_command},
    {"report", "make an HTML report of results: assay report RESULT... -o DIR [--lang zh]", in_python},
    {"validate", "check results against the schema and recompute their figures", in_python},
    {"compare", "slower, faster, same or inconclusive, case by case: assay compare BASE NEW", in_python},
    {"duet", "two builds side by side, launches in turns: assay duet A B", in_python},
    {"bisect", "find the commit that made it slower: git bisect run assay bisect --build COMMAND", bisect},
    {"calibrate", "how small a change this machine lets compare and duet see, by a study of known ones", in_python},
    {"reproduce", "measure a published result again, and what of it holds: assay reproduce RESULT.json", in_python},
    {"size", "predict memory, TTFT and ITL of a model from measured ceilings: assay size --model P RESULT", in_python},
    {"claims", "judge written claims: assay claims FILE RESULT...", in_python},
    {"baseline", "what nights are compared with: assay baseline accept RESULT --reason TEXT", in_python},
    {"nightly", "judge a night by its baseline and its history: assay nightly RESULT", in_python},
    {"dmon", "print clocks, power, temperatures and load as they are: assay dmon [--period 1s] [--json]", as_dmon_main},
    {"__worker", NULL, worker},
    {"__probe", NULL, probe},
    {"__sampler", NULL, sampler},
    {"__health", NULL, health},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *to) {
    fprintf(to, "usage: assay COMMAND [OPTION]...\n\n"
                "Measures what this machine, CPU and GPU, can do for AI inference.\n\n"
                "commands (assay COMMAND --help)\n");
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].help)
            fprintf(to, "  %-11s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n");
    as_options_help(to);
}

int as_main(int argc, char **argv, const as_registry *registry) {
    signal(SIGCHLD, SIG_DFL); /* inherited as ignored, it would hide how a child ended */
    signal(SIGXFSZ, SIG_IGN); /* a file-size limit is an error of write, with a message */
    setlocale(LC_ALL, "C");   /* numbers are printed and read with '.', whatever the user's locale */
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "--version") == 0) {
        print_version();
        return flushed(0);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(argc > 1 ? stdout : stderr);
        return flushed(argc > 1 ? 0 : 2);
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return flushed(commands[i].run(registry, argc, argv));
    for (const as_private_command *c = registry->commands; c && c->name; c++)
        if (strcmp(name, c->name) == 0)
            return c->run(argc, argv);
    fprintf(stderr, "assay: there is no command '%.40s'; see assay --help\n", name);
    return flushed(2);
}
