/* What the GPU tests share. CUDA does not survive a fork, so that everything that needs a process of its own, the
 * search for a device too, runs in a child before the parent touches the driver. */
#pragma once

#include "kernels/cuda/cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define assert_ok(expr)                                                                                                \
    do {                                                                                                               \
        as_error e_ = {0}, *e = &e_;                                                                                   \
        as_status s_ = (expr);                                                                                         \
        if (s_ != AS_OK)                                                                                               \
            fail_msg("%s: %s", as_status_name(s_), e_.message);                                                        \
    } while (0)

/* The exit status of `fn` in a child; 128 + signal where it was killed. */
static inline int in_child(int (*fn)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(fn());
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int probe(void) {
    int n = 0;
    char reason[256] = "";
    as_error e = {0};
    if (as_cuda_driver.count(&n, reason, &e) != AS_OK) {
        fprintf(stderr, "broken CUDA driver: %s\n", e.message);
        return 3;
    }
    if (n == 0)
        fprintf(stderr, "no CUDA device: %s\n", reason);
    return n > 0 ? 0 : 77;
}

/* 0: there is a device. Else what main must return: 77 skipped, or 1 where ASSAY_REQUIRE_GPU demands a device or the
 * driver is broken. */
static inline int without_device(void) {
    const int found = in_child(probe);
    if (found == 77 && !getenv("ASSAY_REQUIRE_GPU"))
        return 77;
    return found == 0 ? 0 : 1;
}
