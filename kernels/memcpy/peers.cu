#include "peers.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <stdlib.h>

static int device_count() {
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess)
        return n;
    (void)cudaGetLastError();
    return 0;
}

int as_memcpy_others(const as_device *d, int *ordinal, int most) {
    const int own = as_cuda_of(d)->ordinal, n = device_count();
    int found = 0;
    for (int i = 0; i < n && found < most; i++)
        if (i != own)
            ordinal[found++] = i;
    return found;
}

static bool can_access(int from, int to) {
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess)
        return can != 0;
    (void)cudaGetLastError();
    return false;
}

bool as_memcpy_reach(int a, int b) { return can_access(a, b) && can_access(b, a); }

static as_status open_way(int from, int to, as_error *e) {
    AS_CUDA(e, cudaSetDevice(from));
    const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        return AS_OK;
    }
    AS_CUDA(e, code);
    return AS_OK;
}

as_status as_memcpy_open_peer(int a, int b, as_error *e) {
    const as_status there = open_way(b, a, e), back = open_way(a, b, there == AS_OK ? e : NULL);
    return there != AS_OK ? there : back;
}

as_status as_memcpy_need_peer(const as_device *d, as_error *e) {
    const int own = as_cuda_of(d)->ordinal, n = device_count();
    for (int i = 0; i < n; i++)
        if (i != own && as_memcpy_reach(own, i))
            return AS_OK;
    return as_fail(e, AS_EABSENT, "two GPUs with peer access are needed; %d visible, none that %s reaches", n, d->name);
}

as_status as_memcpy_peer_of(const as_call *call, int *ordinal, as_error *e) {
    const int own = as_cuda_of(call->device)->ordinal, n = device_count();
    const char *peer = as_params_text(call->params, "peer");
    AS_TRY(as_memcpy_need_peer(call->device, e));
    const bool next = strcmp(peer, "next") == 0;
    for (int i = 1; i < n; i++) {
        const int other = next ? (own + i) % n : atoi(peer);
        if (other == own || other >= n || !as_memcpy_reach(own, other))
            continue;
        *ordinal = other;
        return as_memcpy_open_peer(own, other, e);
    }
    return as_fail(e, AS_EABSENT, "peer:%s is no other GPU that %s reaches; %d visible", peer, call->device->name, n);
}
