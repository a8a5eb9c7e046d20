/* The lock of a GPU: refusal, waiting, what is handed down, what a dead holder leaves. The device is the fake one with
 * a uuid; this binary is the command too. */
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UUID "GPU-0000aaaa-test"

static char *folder, self[4096], lock_file[300], result[300], journal[310];

static int make_folder(void **unused) {
    (void)unused;
    folder = fake_folder();
    snprintf(lock_file, sizeof lock_file, "%s/assay-gpu-" UUID ".lock", folder);
    snprintf(result, sizeof result, "%s/result.json", folder);
    snprintf(journal, sizeof journal, "%s.journal", result);
    setenv("ASSAY_LOCK_DIR", folder, 1);
    setenv("FAKE_UUID", UUID, 1);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    return folder ? 0 : -1;
}

static int remove_folder(void **unused) {
    (void)unused;
    unsetenv("ASSAY_LOCKS");
    fake_remove_folder(folder);
    return 0;
}

static void wait_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

/* A run of a second or less on the fake device. */
#define SHORT "--filter", "^vector/graph/dev:fake0$", "--ceilings", "off", "--rounds", "2", "--quiet"
static const char *const short_run[] = {"run", SHORT, "--out", result, NULL};

static bool is_free(void) {
    const int fd = open(lock_file, O_RDONLY);
    const bool free_now = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return free_now;
}

static void until(bool free_now) {
    for (int i = 0; i < 1000 && is_free() != free_now; i++)
        wait_ms(10);
    assert_int_equal(is_free(), free_now);
}

static pid_t start_holder(const char *seconds) {
    const pid_t pid = fake_start((const char *[]){"lock", "--device", "fake", "--", "sleep", seconds, NULL}, -1);
    until(false);
    return pid;
}

static void end(pid_t pid, int number) {
    int status;
    kill(pid, number);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void expect(int code, const char *const *words, const char *says) {
    char *output = NULL;
    const int rc = fake_assay(words, &output);
    if (rc != code || !strstr(output, says))
        fail_msg("exit %d instead of %d, or no '%s' in: %s", rc, code, says, output);
    free(output);
}

static void a_second_run_is_refused(void **unused) {
    (void)unused;
    const pid_t holder = start_holder("100");
    char who[32];
    snprintf(who, sizeof who, "pid %d since 2", (int)holder);
    expect(3, short_run, who);
    expect(3, short_run, "assay lock --device fake -- sleep 100; wait for it with --wait");
    expect(3, (const char *[]){"verify", "--filter", "^vector/graph/dev:fake0$", NULL}, who);
    expect(3, (const char *[]){"lock", "--", "true", NULL}, who);
    assert_int_equal(access(journal, F_OK), -1); /* nothing was begun */
    expect(0, (const char *[]){"run", SHORT, "--dry-run", NULL}, "1 of 1 cases fit");
    const char *elsewhere[] = {"run",        "--filter", "^vector/graph/dev:cpu$|^vector/good/dev:cpu$",
                               "--ceilings", "off",      "--quiet",
                               "--rounds",   "2",        "--out",
                               result,       NULL};
    expect(0, elsewhere, "0 failed"); /* the GPU is not used */
    end(holder, SIGTERM);
}

static void a_killed_holder_frees_it(void **unused) {
    (void)unused;
    end(start_holder("100"), SIGKILL);
    struct stat s;
    assert_int_equal(stat(lock_file, &s), 0);
    assert_true(s.st_size > 0); /* what it wrote is still there, and believed by nobody */
    expect(0, short_run, "1 done");
    assert_int_equal(stat(lock_file, &s), 0);
    assert_int_equal(s.st_size, 0); /* a run that ends well leaves no name */
}

/* Held by somebody who could not write the file, which names a process that has gone. */
static void a_stale_name_is_not_shown(void **unused) {
    (void)unused;
    end(start_holder("100"), SIGKILL);
    const int fd = open(lock_file, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    expect(3, short_run, "in use by a process without a name");
    /* The same number, another process: the start time tells. Control characters are not printed. */
    char text[128];
    const int n = snprintf(text, sizeof text, "pid %d ticks 1 since now command rm\033[2J\n", (int)getpid());
    assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
    expect(3, short_run, "in use by a process without a name");
    close(fd);
}

static void a_run_waits(void **unused) {
    (void)unused;
    const pid_t holder = start_holder("2");
    const char *words[] = {"run", SHORT, "--wait", "60s", "--out", result, NULL};
    char *output = NULL;
    assert_int_equal(fake_assay(words, &output), 0);
    assert_non_null(strstr(output, "waiting up to 60 s for fake0 (" UUID "), in use by pid"));
    assert_non_null(strstr(output, "1 done"));
    free(output);
    end(holder, SIGTERM);
    const pid_t longer = start_holder("100");
    words[9] = "1s";
    expect(3, words, "raise --wait");
    end(longer, SIGTERM);
}

static void a_run_under_lock_uses_it(void **unused) {
    (void)unused;
    const char *words[] = {"lock", "--device", "fake", "--", self, "run", SHORT, "--out", result, NULL};
    expect(0, words, "1 done");
    expect(0, (const char *[]){"lock", "--", self, "lock", "--", self, "run", SHORT, "--out", result, NULL}, "1 done");
    assert_true(is_free());
}

/* A daemon that a measured program leaves behind does not keep the GPU. */
static void a_leaked_grandchild_holds_nothing(void **unused) {
    (void)unused;
    const char *words[] = {"lock",   "--",   self,       "run", "--exec",  "sh -c 'sleep 20 >/dev/null 2>&1 &'",
                           "--name", "leak", "--rounds", "1",   "--quiet", "--out",
                           result,   NULL};
    expect(0, words, "1 done");
    assert_true(is_free());
}

static void a_wrong_descriptor_is_no_lock(void **unused) {
    (void)unused;
    setenv("ASSAY_LOCKS", UUID ":0", 1);
    expect(3, short_run, "descriptor 0 is not");
    setenv("ASSAY_LOCKS", UUID ":399", 1);
    expect(3, short_run, "descriptor 399 is not");
    setenv("ASSAY_LOCKS", UUID ":five", 1);
    expect(2, short_run, "malformed");
    setenv("ASSAY_LOCKS", "../x:0", 1);
    expect(2, short_run, "malformed");
    /* The right file, held by somebody else. */
    unsetenv("ASSAY_LOCKS");
    const pid_t holder = start_holder("100");
    const int fd = open(lock_file, O_RDWR);
    char text[64];
    snprintf(text, sizeof text, UUID ":%d", fd);
    setenv("ASSAY_LOCKS", text, 1);
    expect(3, short_run, "does not hold the lock");
    close(fd);
    end(holder, SIGTERM);
    assert_int_equal(access(journal, F_OK), -1);
}

static void files(void **unused) {
    (void)unused;
    const mode_t mask = umask(077);
    expect(0, short_run, "1 done");
    umask(mask);
    struct stat s;
    assert_int_equal(stat(lock_file, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0666); /* other users open it too */
    unlink(lock_file);
    assert_int_equal(symlink("/etc/passwd", lock_file), 0);
    expect(3, short_run, "remove what stands there");
    unlink(lock_file);
    assert_int_equal(mkfifo(lock_file, 0666), 0);
    expect(3, short_run, "no regular file");
    setenv("ASSAY_LOCK_DIR", "/nonexistent", 1);
    expect(3, short_run, "set ASSAY_LOCK_DIR");
    setenv("FAKE_UUID", "../../etc/x", 1);
    expect(3, short_run, "cannot be locked");
}

static void usage(void **unused) {
    (void)unused;
    expect(2, (const char *[]){"lock", NULL}, "lock needs a command");
    expect(2, (const char *[]){"lock", "--", NULL}, "lock needs a command");
    expect(2, (const char *[]){"lock", "true", NULL}, "'true' is not an option");
    expect(2, (const char *[]){"lock", "--seed", "3", "--", "true", NULL}, "not --seed");
    expect(2, (const char *[]){"lock", "--wait", "soon", "--", "true", NULL}, "is not a duration");
    expect(3, (const char *[]){"lock", "--device", "fake7", "--", "true", NULL}, "absent");
    expect(3, (const char *[]){"lock", "--", "/nonexistent", NULL}, "cannot start /nonexistent");
    expect(0, (const char *[]){"lock", "--help", NULL}, "usage: assay lock");
    expect(0, (const char *[]){"lock", "--device", "cpu", "--", "true", NULL}, "runs without one");
    expect(5, (const char *[]){"lock", "--", "sh", "-c", "exit 5", NULL}, "");
    assert_true(is_free());
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(int argc, char **argv) {
    const int rc = fake_main(argc, argv);
    if (rc >= 0)
        return rc;
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_second_run_is_refused),
        IN_FOLDER(a_killed_holder_frees_it),
        IN_FOLDER(a_stale_name_is_not_shown),
        IN_FOLDER(a_run_waits),
        IN_FOLDER(a_run_under_lock_uses_it),
        IN_FOLDER(a_leaked_grandchild_holds_nothing),
        IN_FOLDER(a_wrong_descriptor_is_no_lock),
        IN_FOLDER(files),
        IN_FOLDER(usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
