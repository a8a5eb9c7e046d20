#include "inputs.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    as_operand what;
    int copy, users;
    void *pointer;
} entry;

struct as_inputs {
    as_device *device;
    uint64_t seed;
    entry *entries;
    int count, capacity;
};

as_status as_inputs_create(as_inputs **out, as_device *device, uint64_t seed, as_error *e) {
    *out = calloc(1, sizeof **out);
    if (!*out)
        return as_fail(e, AS_ENOMEM, "out of memory");
    (*out)->device = device;
    (*out)->seed = seed;
    return AS_OK;
}

static void drop(as_inputs *in, int i) {
    in->device->driver->release(in->device, in->entries[i].what.memory, in->entries[i].pointer);
    in->entries[i] = in->entries[--in->count];
}

void as_inputs_free(as_inputs *in) {
    if (!in)
        return;
    while (in->count > 0)
        drop(in, in->count - 1);
    free(in->entries);
    free(in);
}

static bool same(const entry *x, const as_operand *o, int copy) {
    return x->copy == copy && x->what.memory == o->memory && x->what.type == o->type && x->what.dist == o->dist &&
           x->what.count == o->count && x->what.key == o->key;
}

as_status as_inputs_acquire(as_inputs *in, const as_operand *o, int copy, void **out, as_error *e) {
    for (int i = 0; i < in->count; i++)
        if (same(&in->entries[i], o, copy)) {
            in->entries[i].users++;
            *out = in->entries[i].pointer;
            return AS_OK;
        }
    if (in->count == in->capacity) {
        int capacity = in->capacity ? 2 * in->capacity : 64;
        entry *bigger = realloc(in->entries, sizeof *bigger * (size_t)capacity);
        if (!bigger)
            return as_fail(e, AS_ENOMEM, "out of memory");
        in->entries = bigger;
        in->capacity = capacity;
    }
    const as_device_driver *driver = in->device->driver;
    entry *x = &in->entries[in->count];
    *x = (entry){.what = *o, .copy = copy, .users = 1};
    AS_TRY(driver->alloc(in->device, o->memory, (size_t)o->count * as_dtype_bytes(o->type), &x->pointer, e));
    as_status s =
        driver->fill(in->device, o->memory, x->pointer, o->type, o->dist, (uint64_t)o->count, in->seed, o->key, e);
    if (s != AS_OK) {
        driver->release(in->device, o->memory, x->pointer);
        return s;
    }
    *out = x->pointer;
    in->count++;
    return AS_OK;
}

void as_inputs_release(as_inputs *in, void *p) {
    for (int i = 0; i < in->count; i++)
        if (in->entries[i].pointer == p) {
            if (--in->entries[i].users == 0)
                drop(in, i);
            return;
        }
}

as_status as_device_checksum(as_device *device, const void *p, size_t bytes, uint64_t start, uint64_t *out,
                             as_error *e) {
    enum { PART = 4 << 20 };
    const size_t head = bytes <= 2 * (size_t)PART ? bytes : PART, tail = bytes <= 2 * (size_t)PART ? 0 : PART;
    char *host = calloc(head + 1, 1);
    if (!host)
        return as_fail(e, AS_ENOMEM, "out of memory");
    as_status s = head ? device->driver->copy(device, host, p, head, e) : AS_OK;
    uint64_t h = s == AS_OK ? as_checksum(host, head, start) : 0;
    if (s == AS_OK && tail) {
        s = device->driver->copy(device, host, (const char *)p + bytes - tail, tail, e);
        h = as_checksum(host, tail, h);
    }
    free(host);
    *out = h;
    return s;
}

as_status as_device_checksum_whole(as_device *device, const void *p, size_t bytes, uint64_t *out, as_error *e) {
    enum { PIECE = 4 << 20 };
    *out = 0;
    if (bytes == 0)
        return as_device_checksum(device, p, 0, 0, out, e);
    for (size_t at = 0; at < bytes; at += PIECE)
        AS_TRY(as_device_checksum(device, (const char *)p + at, bytes - at < PIECE ? bytes - at : PIECE, *out, out, e));
    return AS_OK;
}
