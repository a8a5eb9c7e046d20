/* A case that the kernel kills for want of memory, in a control group of the test's own: only that case is lost, and its
 * reason names the memory. Exit 77 where no memory group can be made (not root, or a group tree that is read-only). */
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT_BYTES = 512 << 20 }; /* what the supervisor and a worker need, a sanitizer's share included */

static char group[128], home[128], result_path[256];

static bool write_text(const char *folder, const char *file, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

/* A group below `tree` with the limit in `file`; swap, where the group counts it, would only delay the end. */
static bool make_group(const char *tree, const char *file, const char *swap_file, const char *swap) {
    char limit[32];
    snprintf(home, sizeof home, "%s", tree);
    snprintf(group, sizeof group, "%s/assay-test-%d", tree, (int)getpid());
    snprintf(limit, sizeof limit, "%d", LIMIT_BYTES);
    if (mkdir(group, 0755) != 0)
        return false;
    if (write_text(group, file, limit)) {
        (void)write_text(group, swap_file, swap ? swap : limit);
        return true;
    }
    rmdir(group);
    return false;
}

static void only_that_case_is_lost(void **unused) {
    (void)unused;
    char *folder = fake_folder(), *output = NULL;
    snprintf(result_path, sizeof result_path, "%s/result.json", folder);
    const char *words[] = {"run",        "--filter", "^fault/(first|killed|last)/dev:cpu",
                           "--ceilings", "off",      "--rounds",
                           "2",          "--quiet",  "--out",
                           result_path,  NULL};
    setenv("FAKE_EATS_BYTES", "2000000000", 1);
    assert_true(write_text(group, "cgroup.procs", "0"));
    const int code = fake_assay(words, &output);
    assert_true(write_text(home, "cgroup.procs", "0"));
    if (code != 1 || !strstr(output, "2 done, 0 failed, 0 skipped, 1 lost, 0 not reached"))
        fail_msg("exit %d: %s", code, output);
    free(output);
    json_t *result = json_load_file(result_path, JSON_REJECT_DUPLICATES, NULL);
    const char *reason = fake_text(fake_case(result, "cases", "fault/killed/dev:cpu"), "reason");
    if (!strstr(reason, "the kernel killed it for want of memory"))
        fail_msg("the reason is: %s", reason);
    json_decref(result);
    fake_remove_folder(folder);
}

int main(int argc, char **argv) {
    const int command = fake_main(argc, argv);
    if (command >= 0)
        return command;
    if (!make_group("/sys/fs/cgroup", "memory.max", "memory.swap.max", "0") &&
        !make_group("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", NULL)) {
        fprintf(stderr, "skipped: no memory control group can be made here; run as root on a machine of your own\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_that_case_is_lost)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(group);
    return failed;
}
