#include "child.h"

#include "driver_api.h"
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPORT_FD = 3, TIMEOUT_MS = 30000, MOST_SETTINGS = 8 };
#define WITHIN_CHILD                                                                                                   \
    "ASSAY_LAUNCH_CHILD" /* set in children: a program that takes no notice of its words cannot fork on */

extern char **environ;

double as_cold_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- the parent ---- */

static bool is_set_by(const char *variable, const as_child_setting *s) {
    const size_t length = strlen(s->name);
    return strncmp(variable, s->name, length) == 0 && variable[length] == '=';
}

/* The environment with the settings; one block that free takes. NULL: no memory. */
static char **environment_with(const as_child_setting *settings) {
    size_t count = 0, bytes = 0;
    while (environ[count])
        count++;
    for (const as_child_setting *s = settings; s->name; s++)
        bytes += strlen(s->name) + (s->value ? strlen(s->value) : 0) + 2;
    char **out = malloc((count + MOST_SETTINGS + 1) * sizeof *out + bytes);
    if (!out)
        return NULL;
    char *text = (char *)(out + count + MOST_SETTINGS + 1);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (const as_child_setting *s = settings; s->name; s++)
            replaced |= is_set_by(environ[i], s);
        if (!replaced)
            out[n++] = environ[i];
    }
    for (const as_child_setting *s = settings; s->name; s++) {
        if (!s->value)
            continue;
        out[n++] = text;
        text += sprintf(text, "%s=%s", s->name, s->value) + 1;
    }
    out[n] = NULL;
    return out;
}

static as_status start(char *const *words, char **variables, int write_end, pid_t *pid, as_error *e) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, write_end, REPORT_FD);
    const int code = posix_spawn(pid, "/proc/self/exe", &actions, NULL, words, variables);
    posix_spawn_file_actions_destroy(&actions);
    if (code != 0)
        return as_fail_code(e, AS_EENV, code, "cannot start a process of this binary: %s", strerror(code));
    return AS_OK;
}

/* The whole report, or fewer bytes where the child ended before. A child that hangs is killed. */
static as_status receive(int fd, pid_t pid, as_child_report *out, as_error *e) {
    size_t got = 0;
    const double deadline = as_cold_now_ns() + TIMEOUT_MS * 1e6;
    as_status status = AS_OK;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const double left_ms = (deadline - as_cold_now_ns()) / 1e6;
        const int ready = left_ms > 0 ? poll(&p, 1, (int)left_ms + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            kill(pid, SIGKILL);
            status = as_fail(e, AS_EFAIL, "the fresh process gave no answer in %d s", TIMEOUT_MS / 1000);
            break;
        }
        const ssize_t n = read(fd, (char *)out + got, sizeof *out - got);
        if (n < 0 && errno == EINTR)
            continue;
        got += n > 0 ? (size_t)n : 0;
        if (n <= 0 || got == sizeof *out)
            break;
    }
    int how = 0;
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    if (got < sizeof *out)
        memset(out, 0, sizeof *out);
    out->signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    if (status == AS_OK && got < sizeof *out && !out->signal)
        snprintf(out->message, sizeof out->message, "the fresh process ended with status %d and no report",
                 WEXITSTATUS(how));
    return status;
}

as_status as_child_run(const char *bus, const char *mode, const char *argument, const as_child_setting *settings,
                       as_child_report *out, as_error *e) {
    memset(out, 0, sizeof *out);
    if (getenv(WITHIN_CHILD))
        return as_fail(e, AS_EFAIL, "a fresh process would start another: unset " WITHIN_CHILD);
    char fd[12], parent[24];
    snprintf(fd, sizeof fd, "%d", REPORT_FD);
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    char *const words[] = {(char *)"assay",
                           (char *)AS_LAUNCH_CHILD_COMMAND,
                           fd,
                           parent,
                           (char *)bus,
                           (char *)mode,
                           (char *)argument,
                           NULL};
    as_child_setting all[MOST_SETTINGS] = {{WITHIN_CHILD, "1"}};
    for (int i = 1; settings && settings->name && i + 1 < MOST_SETTINGS; i++)
        all[i] = *settings++;
    char **variables = environment_with(all);
    int ends[2];
    if (!variables)
        return as_fail(e, AS_ENOMEM, "no memory for an environment");
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(variables);
        return as_fail_code(e, AS_EENV, errno, "cannot make a pipe: %s; raise ulimit -n", strerror(errno));
    }
    pid_t pid = 0;
    as_status s = start(words, variables, ends[1], &pid, e);
    close(ends[1]);
    if (s == AS_OK)
        s = receive(ends[0], pid, out, e);
    close(ends[0]);
    free(variables);
    return s;
}

/* ---- the child ---- */

static const struct mode {
    const char *name;
    as_status (*run)(as_child_job *j, as_error *e);
    bool initialised; /* cuInit is called before */
} modes[] = {
    {"context", as_child_context, false},           {"module", as_child_module, true},
    {"runtime", as_child_runtime, false},           {"contexts", as_child_contexts, true},
    {"freed_memory", as_child_freed_memory, false}, {"second_context", as_child_second_context, false},
    {"shared_exec", as_child_shared_exec, false},   {"older_cubin", as_child_older_cubin, true},
    {"static_jit", as_child_static_jit, false},
};

static as_status obey(const struct mode *m, as_child_job *j, as_error *e) {
    AS_TRY(as_cu_open(&j->api, e));
    if (m->initialised) {
        const int code = j->api->init(0);
        if (code != 0)
            return as_fail_code(e, AS_EENV, code, "cuInit: error %d of the driver", code);
        const int found = j->api->device_by_bus(&j->device, j->bus);
        if (found != 0)
            return as_fail_code(e, AS_EENV, found, "no GPU at %s (error %d of the driver)", j->bus, found);
    }
    return m->run(j, e);
}

int as_launch_child_main(int argc, char **argv) {
    enum { WORDS = 7 };
    if (argc != WORDS)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (pid_t)atol(argv[3])) /* the parent died before the line above */
        return 3;
    const int fd = atoi(argv[2]);
    as_child_report report;
    memset(&report, 0, sizeof report);
    as_child_job job = {.bus = argv[4], .argument = argv[6], .device = -1, .report = &report};
    as_error e = {0};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, argv[5]) == 0) {
            report.done = obey(&modes[i], &job, &e) == AS_OK;
            snprintf(report.message, sizeof report.message, "%.190s", e.message);
            return write(fd, &report, sizeof report) == sizeof report ? 0 : 3;
        }
    return 2;
}
