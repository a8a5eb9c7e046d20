/* Status codes and caller-owned errors: every fallible function returns as_status. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define AS_MUST_CHECK __attribute__((warn_unused_result))
#define AS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define AS_MUST_CHECK
#define AS_PRINTF(f, a)
#endif

/* What went wrong, by who must act. as_exit_code() maps these to the process's exit codes. */
typedef enum as_status {
    AS_OK = 0,
    AS_EFAIL,   /* a verification failed, a kernel reported an error */
    AS_EUSAGE,  /* bad option or malformed input: the user must change the command */
    AS_EENV,    /* the environment cannot do what was asked: broken driver, unwritable path */
    AS_EABSENT, /* asked-for hardware or library is not there */
    AS_ENOMEM,  /* host or device memory does not suffice */
    AS_ELOST,   /* a worker died or hung */
    AS_EINTR,   /* interrupted by a signal */
} as_status;

/* Caller-owned detail of the last failure. `code` is the foreign code (errno, driver), 0 if none. */
typedef struct as_error {
    as_status status;
    int line;
    int code;
    const char *file;
    char message[512];
} as_error;

/* Fills `e` (NULL allowed) and returns `s`, so that `return as_fail(...)` reads naturally.
 * The message is one line and names the remedy. */
as_status as_fail_at(as_error *e, as_status s, const char *file, int line, int code, const char *fmt, ...)
    AS_PRINTF(6, 7);
#define as_fail(e, s, ...) as_fail_at((e), (s), __FILE__, __LINE__, 0, __VA_ARGS__)
#define as_fail_code(e, s, code, ...) as_fail_at((e), (s), __FILE__, __LINE__, (code), __VA_ARGS__)

/* Relays a failure to the caller. */
#define AS_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        as_status as_try_ = (expr);                                                                                    \
        if (as_try_ != AS_OK)                                                                                          \
            return as_try_;                                                                                            \
    } while (0)

/* Exit codes: 0 well, 1 failed check, 2 usage, 3 environment. (4, 77: decided by the commands.) */
int as_exit_code(as_status s);
const char *as_status_name(as_status s);

#ifdef __cplusplus
}
#endif
