#include "process.h"
#include "address_space.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PEER_FD = 3 };

int64_t as_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* In the child, between fork and exec: `fd` becomes `as`, all dies with the parent. */
static void become(int fd, int as, const char *argument, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the parent died before the line above */
        _exit(3);
    signal(SIGINT, SIG_IGN); /* the terminal's Ctrl-C and its end reach the whole group; the supervisor decides */
    signal(SIGHUP, SIG_IGN);
    if (fd == as)
        fcntl(fd, F_SETFD, 0);
    else if (dup2(fd, as) < 0)
        _exit(3);
    execl("/proc/self/exe", "assay", argument, (char *)NULL);
    _exit(3);
}

static as_status spawn(int theirs, int as, const char *argument, pid_t *pid, as_error *e) {
    pid_t parent = getpid();
    AS_TRY(as_address_space_check(e)); /* before fork, where a handler of OpenBLAS waits for such a thread too */
    fflush(NULL);
    *pid = fork();
    if (*pid < 0)
        return as_fail_code(e, AS_EENV, errno, "cannot fork: %s", strerror(errno));
    if (*pid == 0)
        become(theirs, as, argument, parent);
    return AS_OK;
}

as_status as_process_self_output(const char *argument, char **text, int timeout_ms, as_error *e) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = -1;
    as_status status = spawn(ends[1], STDOUT_FILENO, argument, &pid, e);
    close(ends[1]);
    size_t used = 0, capacity = 65536;
    *text = malloc(capacity);
    int64_t deadline = as_now_ns() + (int64_t)timeout_ms * 1000000;
    while (status == AS_OK && *text) {
        int64_t left = (deadline - as_now_ns()) / 1000000;
        struct pollfd p = {.fd = ends[0], .events = POLLIN};
        int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            kill(pid, SIGKILL);
            status = as_fail(e, AS_EENV, "`assay %s` gave no answer in %d s; a device driver hangs", argument,
                             timeout_ms / 1000);
            break;
        }
        if (used + 4096 > capacity)
            *text = realloc(*text, capacity *= 2);
        ssize_t n = *text ? read(ends[0], *text + used, capacity - used - 1) : 0;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    if (!*text)
        return as_fail(e, AS_ENOMEM, "out of memory");
    (*text)[used] = '\0';
    if (status != AS_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

as_status as_peer_start(as_peer *p, const char *argument, as_error *e) {
    memset(p, 0, sizeof *p);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot make a socket pair: %s", strerror(errno));
    as_status status = spawn(ends[1], PEER_FD, argument, &p->pid, e);
    close(ends[1]);
    p->fd = ends[0];
    if (status != AS_OK) {
        close(p->fd);
        memset(p, 0, sizeof *p);
    }
    return status;
}

void as_peer_of_parent(as_peer *p) {
    memset(p, 0, sizeof *p);
    p->fd = PEER_FD;
    fcntl(PEER_FD, F_SETFD, FD_CLOEXEC); /* programs that a case starts must not hold the line open */
}

as_status as_peer_send(as_peer *p, const json_t *message, as_error *e) {
    char *text = json_dumps(message, JSON_COMPACT);
    if (!text)
        return as_fail(e, AS_EFAIL, "a message holds a number that JSON cannot (NaN or infinity)");
    size_t length = strlen(text), sent = 0;
    text[length] = '\n'; /* the terminating zero's place: the message is length + 1 bytes */
    while (sent < length + 1) {
        ssize_t n = send(p->fd, text + sent, length + 1 - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        sent += (size_t)n;
    }
    free(text);
    return sent == length + 1 ? AS_OK : as_fail_code(e, AS_ELOST, errno, "the other process is gone");
}

static json_t *take_line(as_peer *p) {
    char *end = p->used ? memchr(p->buffer, '\n', p->used) : NULL;
    if (!end)
        return NULL;
    size_t length = (size_t)(end - p->buffer);
    json_t *message = json_loadb(p->buffer, length, 0, NULL);
    p->used -= length + 1;
    memmove(p->buffer, end + 1, p->used);
    return message ? message : json_null();
}

as_status as_peer_receive(as_peer *p, json_t **message, int64_t timeout_ns, const volatile int *interrupted,
                          as_error *e) {
    int64_t deadline = as_now_ns() + timeout_ns;
    for (;;) {
        if ((*message = take_line(p)))
            return json_is_object(*message) ? AS_OK : as_fail(e, AS_ELOST, "the other process sent no JSON object");
        if (interrupted && *interrupted)
            return as_fail(e, AS_EINTR, "interrupted");
        int64_t left = (deadline - as_now_ns()) / 1000000;
        if (left <= 0)
            return as_fail(e, AS_ELOST, "no answer in %.0f s; raise --timeout if the case is only slow",
                           (double)timeout_ns * 1e-9);
        struct pollfd f = {.fd = p->fd, .events = POLLIN};
        int ready = poll(&f, 1, left < 3600000 ? (int)left : 3600000);
        if (ready <= 0)
            continue; /* EINTR or time: looked at above */
        if (p->capacity - p->used < 65536) {
            size_t capacity = p->capacity ? 2 * p->capacity : 131072;
            char *bigger = realloc(p->buffer, capacity);
            if (!bigger)
                return as_fail(e, AS_ENOMEM, "out of memory");
            p->buffer = bigger;
            p->capacity = capacity;
        }
        ssize_t n = read(p->fd, p->buffer + p->used, p->capacity - p->used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return as_fail(e, AS_ELOST, "the other process died");
        p->used += (size_t)n;
    }
}

void as_peer_stop(as_peer *p, int grace_ms, char how[128]) {
    snprintf(how, 128, "not running");
    if (p->pid > 0) {
        shutdown(p->fd, SHUT_WR);
        int status = 0;
        pid_t done = 0;
        for (int i = 0; i < grace_ms && (done = waitpid(p->pid, &status, WNOHANG)) == 0; i++)
            usleep(1000);
        if (done == 0) {
            kill(p->pid, SIGKILL);
            waitpid(p->pid, &status, 0);
            snprintf(how, 128, "killed by the supervisor");
        } else if (WIFSIGNALED(status)) {
            snprintf(how, 128, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        } else {
            snprintf(how, 128, "exit status %d", WEXITSTATUS(status));
        }
        close(p->fd);
    }
    free(p->buffer);
    memset(p, 0, sizeof *p);
}
