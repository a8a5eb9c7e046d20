/* Several host threads that launch at the same time: `workers` threads, each on a CPU of its own, `chain` kernels each.
 *
 *   workers_stream   all into one stream: one lock in the runtime, one queue on the device
 *   workers_streams  each into a stream of its own: the device may run them side by side
 *   workers_graph    one instantiated graph of `chain` kernels, each launches it into a stream of its own. The runtime
 *                    does not guard a graph against threads, hence a lock around the launch (misuse=shared_exec: none)
 *
 * One operation is one dispatch of the threads, all launches, and the wait for every stream. */
#include "launch.cuh"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_WORKERS = 64 };
typedef enum how { ONE_STREAM, OWN_STREAMS, ONE_GRAPH } how;

typedef struct crew {
    how kind;
    int workers, ordinal;
    int64_t chain;
    as_team *team; /* NULL for one worker */
    cudaStream_t stream[MOST_WORKERS];
    cudaGraphExec_t exec;
    pthread_mutex_t lock;
    as_cuda_link link;
    as_status status[MOST_WORKERS];
    as_error error[MOST_WORKERS];
} crew;

static as_status issue(crew *c, int number, as_error *e) {
    cudaStream_t stream = c->stream[c->kind == ONE_STREAM ? 0 : number];
    if (c->kind == ONE_GRAPH) {
        pthread_mutex_lock(&c->lock);
        const cudaError_t code = cudaGraphLaunch(c->exec, stream);
        pthread_mutex_unlock(&c->lock);
        AS_CUDA(e, code);
        return AS_OK;
    }
    for (int64_t i = 0; i < c->chain; i++)
        AS_TRY(as_cuda_link_launch(&c->link, stream, e));
    return AS_OK;
}

static void member(int number, int, void *context) {
    crew *c = (crew *)context;
    (void)cudaSetDevice(c->ordinal); /* a property of the calling thread */
    c->status[number] = issue(c, number, &c->error[number]);
}

static as_status run(const as_call *call, as_error *e) {
    crew *c = (crew *)call->state;
    if (c->team)
        as_team_run(c->team, member, c);
    else
        member(0, 1, c);
    for (int i = 0; i < c->workers; i++) {
        if (c->status[i] != AS_OK && e)
            *e = c->error[i];
        AS_TRY(c->status[i]);
    }
    for (int i = 0; i < c->workers && c->stream[i]; i++)
        AS_CUDA(e, cudaStreamSynchronize(c->stream[i]));
    return AS_OK;
}

static void finish(void *state) {
    crew *c = (crew *)state;
    if (!c)
        return;
    as_team_destroy(c->team);
    if (c->exec)
        (void)cudaGraphExecDestroy(c->exec);
    for (int i = 0; i < c->workers; i++)
        if (c->stream[i])
            (void)cudaStreamDestroy(c->stream[i]);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static as_status make(const as_call *call, crew *c, as_error *e) {
    const int streams = c->kind == ONE_STREAM ? 1 : c->workers;
    for (int i = 0; i < streams; i++)
        AS_CUDA(e, cudaStreamCreateWithFlags(&c->stream[i], cudaStreamNonBlocking));
    if (c->kind == ONE_GRAPH)
        AS_TRY(as_cuda_chain_prepare(&c->link, c->chain, c->stream[0], &c->exec, e));
    if (c->workers == 1)
        return AS_OK;
    const as_status status = as_team_create(&c->team, c->workers, call->place, e);
    return status == AS_EENV ? as_fail(e, AS_EABSENT, "needs %d CPUs", c->workers) : status;
}

static as_status prepare(const as_call *call, how kind, void **state, as_error *e) {
    crew *c = (crew *)calloc(1, sizeof *c);
    if (!c)
        return as_fail(e, AS_ENOMEM, "no memory for the state of several workers");
    c->kind = kind;
    c->workers = (int)as_params_int(call->params, "workers");
    c->ordinal = as_cuda_of(call->device)->ordinal;
    c->chain = as_launch_chain_of(call->params);
    c->link = as_launch_link_of(call);
    pthread_mutex_init(&c->lock, NULL);
    const as_status status = make(call, c, e);
    if (status != AS_OK)
        finish(c);
    else
        *state = c;
    return status;
}

#define DEFINE_HOOKS(name, kind)                                                                                       \
    as_status as_launch_workers_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                \
        return prepare(call, kind, state, e);                                                                          \
    }                                                                                                                  \
    void as_launch_workers_##name##_finish_cuda(void *state) { finish(state); }                                        \
    as_status as_launch_workers_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(stream, ONE_STREAM)
DEFINE_HOOKS(streams, OWN_STREAMS)
DEFINE_HOOKS(graph, ONE_GRAPH)
