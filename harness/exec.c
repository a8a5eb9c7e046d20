/* `--exec COMMAND --name X`: any program as a case. One operation is one start of the program, timed from spawn to
 * exit; CPU time, peak memory and exit status come from wait4. Verified by exit: status 0 and the same output. */
#include "place.h"
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct exec_suite {
    as_suite suite; /* first: the suite's address is the whole */
    as_variant variants[2];
    as_point points[2];
    char **argv;
    char *text; /* what argv points into */
    char *name;
} exec_suite;

static const as_axis no_axes[1];

/* ---- splitting: blanks separate, '...' and "..." keep, \ escapes the next character ---- */

static as_status split(const char *command, char **text, char ***argv, as_error *e) {
    const size_t length = strlen(command);
    char *out = *text = malloc(length + 1);
    *argv = calloc(length / 2 + 2, sizeof **argv);
    if (!*text || !*argv)
        return as_fail(e, AS_ENOMEM, "out of memory");
    int n = 0;
    char quote = 0;
    bool in_word = false;
    for (const char *c = command; *c; c++) {
        if (!quote && (*c == ' ' || *c == '\t')) {
            if (in_word)
                *out++ = '\0';
            in_word = false;
            continue;
        }
        if (!in_word)
            (*argv)[n++] = out;
        in_word = true;
        if (quote ? *c == quote : *c == '\'' || *c == '"')
            quote = quote ? 0 : *c;
        else if (*c == '\\' && quote != '\'' && c[1])
            *out++ = *++c;
        else
            *out++ = *c;
    }
    *out = '\0';
    if (quote)
        return as_fail(e, AS_EUSAGE, "--exec: a quote is not closed");
    return n > 0 ? AS_OK : as_fail(e, AS_EUSAGE, "--exec: the command is empty");
}

/* ---- one operation ---- */

typedef struct exec_state {
    char *const *argv;
    cpu_set_t all;        /* the placement, where the program runs: this thread has one CPU of it */
    uint64_t output_hash; /* of the first run; all others must equal it */
    bool ran;
    char buffer[65536];
} exec_state;

/* Hash of the whole output, in full buffers: how the stream was split into reads must not matter. */
static uint64_t drain(exec_state *x, int fd) {
    uint64_t hash = 0;
    for (size_t used = 0;;) {
        const ssize_t n = read(fd, x->buffer + used, sizeof x->buffer - used);
        if (n < 0 && errno == EINTR)
            continue;
        used += n > 0 ? (size_t)n : 0;
        if (n > 0 && used < sizeof x->buffer)
            continue;
        hash = as_checksum(x->buffer, used, hash);
        used = 0;
        if (n <= 0)
            return hash;
    }
}

/* In the child, which borrows our memory until it execs: system calls only. A program must not outlive its worker,
 * which posix_spawn cannot ask for. */
static _Noreturn void become(const exec_state *x, int out, pid_t worker, volatile int *failure) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGXFSZ, SIG_DFL);
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && getppid() == worker) {
        sched_setaffinity(0, sizeof x->all, &x->all);
        execvp(x->argv[0], x->argv);
    }
    /* The worker sleeps until this process is gone, and reads it only then. */
    *failure = errno ? errno : ECHILD;
    _exit(127);
}

static as_status spawn(const exec_state *x, int out, pid_t *pid, as_error *e) {
    volatile int failure = 0;
    const pid_t worker = getpid();
    const pid_t child = vfork();
    if (child == 0) /* the checker asks for exec alone; become() makes system calls only, and the parent waits */
        become(x, out, worker, &failure); // NOLINT(clang-analyzer-unix.Vfork)
    if (child < 0)
        return as_fail_code(e, AS_EENV, errno, "cannot fork: %s", strerror(errno));
    *pid = child;
    if (failure == 0)
        return AS_OK;
    waitpid(child, NULL, 0);
    return as_fail_code(e, AS_EFAIL, failure, "cannot start '%s': %s", x->argv[0], strerror(failure));
}

static as_status exec_run(const as_call *call, as_error *e) {
    exec_state *x = call->state;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = 0;
    uint64_t hash = 0;
    as_status s = spawn(x, ends[1], &pid, e);
    close(ends[1]);
    if (s == AS_OK)
        hash = drain(x, ends[0]);
    close(ends[0]);
    AS_TRY(s);
    int status = 0;
    struct rusage use;
    pid_t waited;
    while ((waited = wait4(pid, &status, 0, &use)) < 0 && errno == EINTR)
        ;
    if (waited < 0)
        return as_fail_code(e, AS_EENV, errno, "cannot wait for '%s': %s", x->argv[0], strerror(errno));
    if (WIFSIGNALED(status))
        return as_fail(e, AS_EFAIL, "'%s' ended by signal %d", x->argv[0], WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return as_fail(e, AS_EFAIL, "'%s' exited with status %d", x->argv[0], WEXITSTATUS(status));
    if (x->ran && hash != x->output_hash)
        return as_fail(e, AS_EFAIL, "'%s' printed something else than in its first run", x->argv[0]);
    x->ran = true;
    x->output_hash = hash;
    call->extra[0] = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e9 +
                     (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e3;
    call->extra[1] = (double)use.ru_maxrss * 1024;
    return AS_OK;
}

/* ---- the suite ---- */

static as_status exec_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *out, as_error *e) {
    (void)p, (void)v, (void)d, (void)e;
    *out = (as_work){.check = AS_CHECK_EXIT, .no_ceiling = "a program of unknown work", .convention = "none"};
    return AS_OK;
}

static const exec_suite *current; /* one a process: --exec is given once */

static as_status exec_prepare(const as_call *call, void **state, as_error *e) {
    exec_state *x = calloc(1, sizeof *x);
    if (!x)
        return as_fail(e, AS_ENOMEM, "out of memory");
    x->argv = current->argv;
    CPU_ZERO(&x->all);
    for (int i = 0; i < call->place->cpus; i++)
        CPU_SET((size_t)call->place->cpu[i], &x->all);
    *state = x;
    return AS_OK;
}

static as_status check_name(const char *name, as_error *e) {
    for (const char *c = name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", *c))
            return as_fail(e, AS_EUSAGE,
                           "--name %.40s: use letters, digits, '_', '-' and '.', since it becomes part of an id", name);
    return strlen(name) < AS_AXIS_TEXT ? AS_OK
                                       : as_fail(e, AS_EUSAGE, "--name: at most %d characters", AS_AXIS_TEXT - 1);
}

as_status as_exec_suite_create(const as_suite **out, const char *command, const char *name, as_error *e) {
    AS_TRY(check_name(name, e));
    exec_suite *x = calloc(1, sizeof *x);
    if (!x || !(x->name = strdup(name))) {
        free(x);
        return as_fail(e, AS_ENOMEM, "out of memory");
    }
    x->variants[0] = (as_variant){.name = x->name,
                                  .on = "cpu",
                                  .summary = "a program, from spawn to exit",
                                  .flags = AS_SINGLE | AS_HOST_CLOCK,
                                  .run = exec_run,
                                  .prepare = exec_prepare,
                                  .finish = free,
                                  .extra = {{"cpu_time", "ns", false}, {"peak_memory", "bytes", false}}};
    x->points[0] = (as_point){.from = AS_QUICK, .on = "cpu", .variants = "*", .axes = ""};
    x->suite = (as_suite){.name = "exec",
                          .summary = "a program given on the command line",
                          .axes = no_axes,
                          .variants = x->variants,
                          .points = x->points,
                          .describe = exec_describe};
    *out = &x->suite;
    current = x;
    as_status s = split(command, &x->text, &x->argv, e);
    if (s != AS_OK) {
        as_exec_suite_free(*out);
        *out = NULL;
    }
    return s;
}

void as_exec_suite_free(const as_suite *suite) {
    exec_suite *x = (exec_suite *)suite;
    if (!x)
        return;
    free(x->argv);
    free(x->text);
    free(x->name);
    free(x);
    current = NULL;
}
