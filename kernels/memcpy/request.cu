/* A request's body on its way to the device: it waits in a pipe, as bytes wait in a socket. The time runs from the
 * first read() until the device has the bytes; request.c is the host's half alone.
 *
 *   request_copy      read() into a buffer, copied on to pinned memory, sent. `copies` copies by the CPU, read()'s included
 *   request_straight  read() into pinned memory, sent from there: one CPU copy
 *   request_register  read() into ordinary memory, which is registered, sent and given back for each request: predicted
 *                     to lose, as locking costs more than copying a body of this size
 *   request_mapped    read() into pinned memory; a kernel reads it there, as the first kernel of a service may */
#include "memcpy.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "copy.h"

#include <stdlib.h>
#include <unistd.h>

typedef enum path { COPY, STRAIGHT, REGISTER, MAPPED } path;

typedef struct request {
    path kind;
    as_request_pipe pipe;
    size_t bytes;
    int ordinary; /* ordinary buffers that the body passes */
    unsigned char *body[2];
    void *pinned; /* NULL: REGISTER */
} request;

static void finish(void *state) {
    request *s = (request *)state;
    if (!s)
        return;
    as_request_close(&s->pipe);
    for (int i = 0; i < 2; i++)
        free(s->body[i]);
    if (s->pinned)
        (void)cudaFreeHost(s->pinned);
    free(s);
}

static as_status make(request *s, as_error *e) {
    AS_TRY(as_request_open(&s->pipe, s->bytes, e));
    for (int i = 0; i < s->ordinary; i++) {
        void *p = NULL;
        if (posix_memalign(&p, (size_t)sysconf(_SC_PAGESIZE), s->bytes) != 0)
            return as_fail(e, AS_ENOMEM, "no memory for a body of %zu bytes", s->bytes);
        memset(p, 0, s->bytes);
        s->body[i] = (unsigned char *)p;
    }
    if (s->kind != REGISTER)
        AS_CUDA(e, cudaMallocHost(&s->pinned, s->bytes));
    return AS_OK;
}

static as_status prepare(const as_call *call, path kind, void **state, as_error *e) {
    request *s = (request *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a request");
    s->kind = kind;
    s->pipe.in = s->pipe.out = -1;
    s->bytes = (size_t)as_params_int(call->params, "bytes");
    s->ordinary = kind == COPY ? (int)as_params_int(call->params, "copies") - 1 : kind == REGISTER ? 1 : 0;
    const as_status status = make(s, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

/* Reads the body and brings it to its last place on the host. */
static as_status host_half(const request *s, double *read_ns, void **body, as_error *e) {
    const double begin = as_request_now_ns();
    *body = s->ordinary ? s->body[0] : s->pinned;
    AS_TRY(as_request_receive(&s->pipe, *body, s->bytes, e));
    *read_ns = as_request_now_ns() - begin;
    for (int i = 1; s->kind == COPY && i <= s->ordinary; i++) {
        void *next = i < s->ordinary ? s->body[i] : s->pinned;
        memcpy(next, *body, s->bytes);
        *body = next;
    }
    if (s->kind == REGISTER)
        AS_CUDA(e, cudaHostRegister(*body, s->bytes, cudaHostRegisterDefault));
    return AS_OK;
}

static as_status device_half(const request *s, const as_call *call, void *body, as_error *e) {
    cudaStream_t stream = as_cuda_stream(call->stream);
    if (s->kind == MAPPED)
        AS_TRY(as_memcpy_launch_copy(call->operand[1], body, s->bytes, stream, e));
    else
        AS_CUDA(e, cudaMemcpyAsync(call->operand[1], body, s->bytes, cudaMemcpyHostToDevice, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    return AS_OK;
}

static as_status run(const as_call *call, as_error *e) {
    const request *s = (const request *)call->state;
    double read_ns = 0;
    void *body = NULL;
    AS_TRY(as_request_send(&s->pipe, call->operand[0], s->bytes, e));
    const double begin = as_request_now_ns();
    AS_TRY(host_half(s, &read_ns, &body, e));
    const double host = as_request_now_ns();
    as_status status = device_half(s, call, body, e);
    if (s->kind == REGISTER) {
        const cudaError_t code = cudaHostUnregister(body);
        if (status == AS_OK && code != cudaSuccess)
            status = as_cuda_fail_at(e, __FILE__, __LINE__, code, "cudaHostUnregister");
    }
    const double end = as_request_now_ns();
    if (call->own_ns)
        *call->own_ns = end - begin;
    if (call->extra) {
        call->extra[0] = read_ns;
        call->extra[1] = host - begin;
    }
    return status;
}

#define DEFINE_HOOKS(name, kind)                                                                                       \
    as_status as_memcpy_request_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                \
        return prepare(call, kind, state, e);                                                                          \
    }                                                                                                                  \
    void as_memcpy_request_##name##_finish_cuda(void *state) { finish(state); }                                        \
    as_status as_memcpy_request_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(copy, COPY)
DEFINE_HOOKS(straight, STRAIGHT)
DEFINE_HOOKS(register, REGISTER)
DEFINE_HOOKS(mapped, MAPPED)
