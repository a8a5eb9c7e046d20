/* What it costs to start a process: `chain` starts of `true`, one after another, each to its exit.
 *
 *   process_fork   copies the page tables of the program that forks, which the new one throws away: grows with the
 *                  memory of this process
 *   process_spawn  posix_spawn borrows the memory until exec: independent of it
 *
 * The child runs on the CPU of the thread that starts it, whose mask it inherits. */
#include "launch.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct starter {
    const char *path;
    int (*start)(const char *path, pid_t *pid); /* errno, 0 if well */
} starter;

/* fork(2) without the C library's handlers: OpenBLAS would end its threads in one. The child does nothing but exec. */
static int by_fork(const char *path, pid_t *pid) {
    char *const words[] = {(char *)path, NULL};
    *pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (*pid == 0) {
        execve(path, words, environ);
        _exit(127);
    }
    return *pid < 0 ? errno : 0;
}

static int by_spawn(const char *path, pid_t *pid) {
    char *const words[] = {(char *)path, NULL};
    return posix_spawn(pid, path, NULL, NULL, words, environ);
}

static as_status prepare(int (*start)(const char *path, pid_t *pid), void **state, as_error *e) {
    static const char *const places[] = {"/bin/true", "/usr/bin/true"};
    starter *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a process start");
    s->start = start;
    for (size_t i = 0; i < sizeof places / sizeof *places && !s->path; i++)
        if (access(places[i], X_OK) == 0)
            s->path = places[i];
    if (!s->path) {
        free(s);
        return as_fail(e, AS_EABSENT, "there is no program `true` in /bin or /usr/bin");
    }
    *state = s;
    return AS_OK;
}

static as_status run(const as_call *call, as_error *e) {
    const starter *s = call->state;
    for (int64_t i = as_launch_chain_of(call->params); i > 0; i--) {
        pid_t pid = 0;
        int status = 0;
        const int code = s->start(s->path, &pid);
        if (code != 0)
            return as_fail_code(e, AS_EENV, code, "cannot start %s: %s (a limit on processes?)", s->path,
                                strerror(code));
        while (waitpid(pid, &status, 0) < 0)
            if (errno != EINTR)
                return as_fail_code(e, AS_EENV, errno, "cannot wait for %s: %s", s->path, strerror(errno));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return as_fail(e, AS_EFAIL, "%s did not end well (wait status %d)", s->path, status);
        if (call->counter)
            *call->counter += 1;
    }
    return AS_OK;
}

#define DEFINE_HOOKS(name, start)                                                                                      \
    as_status as_launch_process_##name##_prepare_cpu(const as_call *call, void **state, as_error *e) {                 \
        (void)call;                                                                                                    \
        return prepare(start, state, e);                                                                               \
    }                                                                                                                  \
    void as_launch_process_##name##_finish_cpu(void *state) { free(state); }                                           \
    as_status as_launch_process_##name##_cpu(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(fork, by_fork)
DEFINE_HOOKS(spawn, by_spawn)
