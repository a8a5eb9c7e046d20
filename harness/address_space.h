/* A limit of the address space (ulimit -v), under which libraries may wait for memory forever. */
#pragma once

#include "status.h"

#include <stdbool.h>
#include <stddef.h>

/* True where this process has such a limit: it must then end by _exit, without the destructors of libraries. OpenBLAS
 * starts a thread for each CPU when it is loaded. Each asks for 128 MiB of address space until it gets them, and at
 * exit a destructor waits for these threads. */
bool as_address_space_is_limited(void);

/* What the limit leaves for the buffers of cases, beside what the threads of this process's CPUs may ask for: OpenBLAS
 * asks again and again, for ever. SIZE_MAX without a limit, 0 where it leaves nothing. */
size_t as_address_space_room_bytes(void);

/* AS_EENV where it leaves nothing: a thread that asks in vain would keep a CPU busy until its case's time is up. */
as_status as_address_space_check(as_error *e) AS_MUST_CHECK;
