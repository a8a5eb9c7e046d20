/* report, validate, claims ... live in the Python package `reports`: found beside the command, run by the first
 * Python that has its modules. */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* <folder of the command>/../share/assay holds the package, in the build tree as after installation. */
static as_status find_share(char share[PATH_BYTES], char root[PATH_BYTES], as_error *e) {
    char exe[PATH_BYTES];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0)
        return as_fail_code(e, AS_EENV, errno, "cannot find the command's own folder");
    exe[n] = '\0';
    setenv("ASSAY_COMMAND", exe, 1); /* what the package measures with: `claims --run` */
    for (int up = 0; up < 2; up++)
        *strrchr(exe, '/') = '\0';
    if (snprintf(root, PATH_BYTES, "%s", exe) >= PATH_BYTES ||
        snprintf(share, PATH_BYTES, "%s/share/assay", exe) >= PATH_BYTES)
        return as_fail(e, AS_EENV, "the command's folder has too long a name");
    char probe[PATH_BYTES + 32];
    snprintf(probe, sizeof probe, "%s/reports/__main__.py", share);
    return access(probe, R_OK) == 0
               ? AS_OK
               : as_fail(e, AS_EENV, "the Python package is not at %s/reports; build or install again", share);
}

/* 0 if the interpreter imports all that the reports need. */
static bool imports(const char *python) {
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(1);
        execlp(python, python, "-c", "import numpy, scipy, matplotlib, jinja2", (char *)NULL);
        _exit(127);
    }
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && status == 0;
}

static bool try_python(const char *candidate, char *out) {
    return candidate && *candidate && imports(candidate) && snprintf(out, PATH_BYTES, "%s", candidate) < PATH_BYTES;
}

/* $ASSAY_PYTHON, the build's environment, then each python3 on PATH. */
static as_status find_python(const char *root, char *out, as_error *e) {
    char candidate[PATH_BYTES + 32];
    const char *asked = getenv("ASSAY_PYTHON");
    if (asked && *asked)
        return try_python(asked, out)
                   ? AS_OK
                   : as_fail(e, AS_EENV, "$ASSAY_PYTHON (%s) does not import numpy, scipy, matplotlib and jinja2",
                             asked);
    snprintf(candidate, sizeof candidate, "%s/../venv/bin/python3", root);
    if (access(candidate, X_OK) == 0 && try_python(candidate, out))
        return AS_OK;
    const char *path = getenv("PATH");
    for (const char *at = path ? path : ""; *at;) {
        const size_t n = strcspn(at, ":");
        snprintf(candidate, sizeof candidate, "%.*s/python3", (int)(n < PATH_BYTES ? n : PATH_BYTES), at);
        if (access(candidate, X_OK) == 0 && try_python(candidate, out))
            return AS_OK;
        at += n + (at[n] == ':');
    }
    return as_fail(e, AS_EENV,
                   "no python3 imports numpy, scipy, matplotlib and jinja2; run ci/setup, or set ASSAY_PYTHON");
}

as_status as_python_exec(int argc, char **argv, as_error *e) {
    char share[PATH_BYTES], root[PATH_BYTES], python[PATH_BYTES];
    AS_TRY(find_share(share, root, e));
    AS_TRY(find_python(root, python, e));
    const char *old = getenv("PYTHONPATH");
    char *path = NULL;
    if (asprintf(&path, "%s%s%s", share, old ? ":" : "", old ? old : "") < 0)
        return as_fail(e, AS_ENOMEM, "out of memory");
    setenv("PYTHONPATH", path, 1);
    free(path);
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (!words)
        return as_fail(e, AS_ENOMEM, "out of memory");
    words[0] = python;
    words[1] = "-m";
    words[2] = "reports";
    for (int i = 1; i < argc; i++)
        words[i + 2] = argv[i];
    fflush(NULL);
    execvp(python, words);
    free(words);
    return as_fail_code(e, AS_EENV, errno, "cannot start %s: %s", python, strerror(errno));
}
