/* Seeded inputs of a worker, shared by every case that asks for the same (memory, type, distribution, stream, count)
 * and reference-counted. Cold copies are distinct buffers with the same content: the arena that cold runs rotate. */
#pragma once

#include "suite.h"

typedef struct as_inputs as_inputs;

as_status as_inputs_create(as_inputs **out, as_device *device, uint64_t seed, as_error *e) AS_MUST_CHECK;
void as_inputs_free(as_inputs *in); /* NULL allowed; releases what is left */

/* Copy number `copy` of an input, filled. The caller returns it with as_inputs_release. */
as_status as_inputs_acquire(as_inputs *in, const as_operand *o, int copy, void **out, as_error *e) AS_MUST_CHECK;
void as_inputs_release(as_inputs *in, void *p);

/* Checksum of what the buffer holds now: all of it up to 8 MiB, else its first and last 4 MiB. */
as_status as_device_checksum(as_device *device, const void *p, size_t bytes, uint64_t start, uint64_t *out,
                             as_error *e) AS_MUST_CHECK;
/* Of every byte, in pieces of 4 MiB: outputs that must repeat. */
as_status as_device_checksum_whole(as_device *device, const void *p, size_t bytes, uint64_t *out,
                                   as_error *e) AS_MUST_CHECK;
