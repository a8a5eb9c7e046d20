/* What a call into foreign code costs, by how the callee is found. `chain` calls of a function that returns |x|.
 *
 *   call_static    the linker put the address into the call: predicted 1 to 2 ns
 *   call_pointer   the address is loaded first: the same, as long as the branch predictor knows it
 *   call_plt       into a shared library, through the procedure linkage table: one jump more
 *   call_library   through a pointer that dlsym gave: as call_pointer, the code only lies elsewhere
 *   call_syscall   into the kernel and back: 50 to 500 ns, by the mitigations that are on
 *
 * The argument passes through an empty asm statement, so that no call is left out or moved; the sum of the results is
 * what counts the calls. */
#include "launch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long (*abs_fn)(long x);

#define OPAQUE(x) __asm__ volatile("" : "+r"(x))

static as_status credit(const as_call *call, long sum) {
    OPAQUE(sum);
    if (call->counter)
        *call->counter += (uint64_t)sum;
    return AS_OK;
}

as_status as_launch_call_static_cpu(const as_call *call, as_error *e) {
    (void)e;
    long sum = 0, x = -1;
    for (int64_t i = as_launch_chain_of(call->params); i > 0; i--) {
        OPAQUE(x);
        sum += as_launch_abs_here(x);
    }
    return credit(call, sum);
}

static long through(abs_fn volatile *fn, int64_t calls) {
    long sum = 0, x = -1;
    for (; calls > 0; calls--) {
        OPAQUE(x);
        sum += (*fn)(x);
    }
    return sum;
}

as_status as_launch_call_pointer_cpu(const as_call *call, as_error *e) {
    (void)e;
    abs_fn volatile fn = as_launch_abs_here; /* read again before each call */
    return credit(call, through(&fn, as_launch_chain_of(call->params)));
}

/* Compiled with -fno-builtin-labs: a call, not an instruction. */
as_status as_launch_call_plt_cpu(const as_call *call, as_error *e) {
    (void)e;
    long sum = 0, x = -1;
    for (int64_t i = as_launch_chain_of(call->params); i > 0; i--) {
        OPAQUE(x);
        sum += labs(x);
    }
    return credit(call, sum);
}

as_status as_launch_call_syscall_cpu(const as_call *call, as_error *e) {
    (void)e;
    const long parent = call->counter ? (long)getppid() : 0;
    long sum = 0;
    for (int64_t i = as_launch_chain_of(call->params); i > 0; i--)
        sum += syscall(SYS_getppid) == parent;
    return credit(call, sum);
}

/* ---- a library found at run time ---- */

typedef struct library {
    void *handle;
    abs_fn volatile fn;
} library;

/* <folder of the program>/../<library folder>/assay/libassay_foreign.so, in the build as when installed. */
static as_status path_of(char *path, size_t size, as_error *e) {
    char program[3072];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return as_fail(e, AS_EABSENT, "the path of the program is not known (/proc/self/exe)");
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(path, size, "%s/../%s/assay/libassay_foreign.so", program, ASSAY_LIBDIR);
    return AS_OK;
}

as_status as_launch_call_library_prepare_cpu(const as_call *call, void **state, as_error *e) {
    (void)call;
    char path[4096];
    AS_TRY(path_of(path, sizeof path, e));
    library *l = calloc(1, sizeof *l);
    if (!l)
        return as_fail(e, AS_ENOMEM, "no memory for the state of launch/call_library");
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = l->handle ? dlsym(l->handle, "as_foreign_abs") : NULL;
    if (!symbol) {
        const char *why = dlerror();
        as_launch_call_library_finish_cpu(l);
        return as_fail(e, AS_EABSENT, "%.300s; build or install it beside the command", why ? why : path);
    }
    memcpy((void *)&l->fn, &symbol, sizeof symbol); /* ISO C has no cast from object to function pointers */
    *state = l;
    return AS_OK;
}

void as_launch_call_library_finish_cpu(void *state) {
    library *l = state;
    if (l && l->handle)
        dlclose(l->handle);
    free(l);
}

as_status as_launch_call_library_cpu(const as_call *call, as_error *e) {
    (void)e;
    library *l = call->state;
    return credit(call, through(&l->fn, as_launch_chain_of(call->params)));
}
