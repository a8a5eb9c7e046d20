/* What this binary was built from; the build writes build_info.c (cmake/build_info.cmake). */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_build_info {
    const char *version;     /* "0.1.0" */
    const char *commit;      /* 40 hex digits from git or ASSAY_COMMIT; "" where neither tells */
    int dirty;               /* 1: tracked files differ from the commit; 0: clean; -1: unknown */
    const char *source_hash; /* sha256 over the source files, in path order */
    const char *build_type;  /* "Release" ... */
    const char *compiler;    /* "GNU 12.2.0" */
    const char *flags;       /* C flags */
    const char *sanitizers;  /* "" or "address,undefined" */
    const char *toolkit;     /* accelerator toolkit and architectures, "" for none */
} as_build_info;

extern const as_build_info as_build;

#ifdef __cplusplus
}
#endif
