/* The host's half of a request: its body waits in a pipe, as bytes wait in a socket, and is read to where it is needed.
 *
 *   request_copy      read() into a buffer, then `copies` - 1 copies on; the last one ends in the destination
 *   request_straight  read() into the destination: one copy by the CPU is left, the kernel's own
 *
 * The time is that of the reader alone. The writer has filled the pipe before: one thread, and a pipe that takes the
 * whole body, make that certain. */
#include "memcpy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double as_request_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

as_status as_request_open(as_request_pipe *p, size_t bytes, as_error *e) {
    int fd[2];
    p->in = p->out = -1;
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0)
        return as_fail_code(e, AS_EENV, errno, "no pipe: %s", strerror(errno));
    p->out = fd[0];
    p->in = fd[1];
    const int size = fcntl(p->in, F_SETPIPE_SZ, (int)bytes);
    if (size < 0 || (size_t)size < bytes) {
        as_request_close(p);
        return as_fail(e, AS_EABSENT, "a pipe of %zu bytes is not allowed: raise /proc/sys/fs/pipe-max-size", bytes);
    }
    return AS_OK;
}

void as_request_close(as_request_pipe *p) {
    if (p->out >= 0)
        close(p->out);
    if (p->in >= 0)
        close(p->in);
    p->in = p->out = -1;
}

as_status as_request_send(const as_request_pipe *p, const void *body, size_t bytes, as_error *e) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(p->in, (const char *)body + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return as_fail_code(e, AS_EFAIL, errno, "the pipe took %zu of %zu bytes: %s", done, bytes, strerror(errno));
        done += (size_t)n;
    }
    return AS_OK;
}

as_status as_request_receive(const as_request_pipe *p, void *body, size_t bytes, as_error *e) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(p->out, (char *)body + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return as_fail_code(e, AS_EFAIL, errno, "the pipe gave %zu of %zu bytes: %s", done, bytes, strerror(errno));
        done += (size_t)n;
    }
    return AS_OK;
}

/* ---- the variants of the host ---- */

typedef struct request_state {
    as_request_pipe pipe;
    size_t bytes;
    int buffers;              /* between the pipe and the destination */
    unsigned char *buffer[2]; /* each touched */
} request_state;

static void finish(void *state) {
    request_state *s = state;
    if (!s)
        return;
    as_request_close(&s->pipe);
    for (int i = 0; i < s->buffers; i++)
        free(s->buffer[i]);
    free(s);
}

static as_status prepare(const as_call *call, int buffers, void **state, as_error *e) {
    request_state *s = calloc(1, sizeof *s);
    *state = NULL;
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a request");
    s->pipe = (as_request_pipe){-1, -1};
    s->bytes = (size_t)as_params_int(call->params, "bytes");
    s->buffers = buffers;
    as_status status = as_request_open(&s->pipe, s->bytes, e);
    for (int i = 0; i < buffers && status == AS_OK; i++) {
        s->buffer[i] = malloc(s->bytes);
        if (s->buffer[i])
            memset(s->buffer[i], 0, s->bytes);
        else
            status = as_fail(e, AS_ENOMEM, "no memory for a body of %zu bytes", s->bytes);
    }
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

static as_status run(const as_call *call, as_error *e) {
    const request_state *s = call->state;
    void *first = s->buffers ? s->buffer[0] : call->operand[1];
    AS_TRY(as_request_send(&s->pipe, call->operand[0], s->bytes, e));
    const double begin = as_request_now_ns();
    AS_TRY(as_request_receive(&s->pipe, first, s->bytes, e));
    const double read = as_request_now_ns();
    for (int i = 0; i < s->buffers; i++)
        memcpy(i + 1 < s->buffers ? s->buffer[i + 1] : call->operand[1], s->buffer[i], s->bytes);
    const double end = as_request_now_ns();
    if (call->own_ns)
        *call->own_ns = end - begin;
    if (call->extra)
        call->extra[0] = read - begin;
    return AS_OK;
}

as_status as_memcpy_request_copy_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return prepare(call, (int)as_params_int(call->params, "copies") - 1, state, e);
}
as_status as_memcpy_request_straight_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return prepare(call, 0, state, e);
}
void as_memcpy_request_copy_finish_cpu(void *state) { finish(state); }
void as_memcpy_request_straight_finish_cpu(void *state) { finish(state); }
as_status as_memcpy_request_copy_cpu(const as_call *call, as_error *e) { return run(call, e); }
as_status as_memcpy_request_straight_cpu(const as_call *call, as_error *e) { return run(call, e); }
