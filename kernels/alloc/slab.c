/* The simplest pool there is: a stack of block numbers under a spin lock. It is what a pool must beat. */
#include "alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

struct as_slab {
    _Alignas(64) atomic_flag lock;
    int free;
    int block[];
};

static void lock(as_slab *s) {
    while (atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire))
        ;
}

static void unlock(as_slab *s) { atomic_flag_clear_explicit(&s->lock, memory_order_release); }

as_status as_slab_create(as_slab **out, int blocks, as_error *e) {
    const size_t bytes = (sizeof **out + (size_t)blocks * sizeof(int) + 63) / 64 * 64;
    as_slab *s = aligned_alloc(64, bytes);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for a free list of %d blocks", blocks);
    atomic_flag_clear(&s->lock);
    s->free = blocks;
    for (int i = 0; i < blocks; i++)
        s->block[i] = i;
    *out = s;
    return AS_OK;
}

int as_slab_take(as_slab *s) {
    lock(s);
    const int block = s->free > 0 ? s->block[--s->free] : -1;
    unlock(s);
    return block;
}

void as_slab_give(as_slab *s, int block) {
    lock(s);
    s->block[s->free++] = block;
    unlock(s);
}

void as_slab_destroy(as_slab *s) { free(s); }
