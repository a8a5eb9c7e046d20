/* Cases that kill, hang or starve their worker, and signals to the supervisor: the run ends, only the case at fault is
 * lost, no process stays behind. This binary is the supervisor and the worker too (fake_main). */
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *folder, result_path[256], journal_path[300];

static int make_folder(void **unused) {
    (void)unused;
    folder = fake_folder();
    snprintf(result_path, sizeof result_path, "%s/result.json", folder);
    snprintf(journal_path, sizeof journal_path, "%s.journal", result_path);
    return folder ? 0 : -1;
}

static int remove_folder(void **unused) {
    (void)unused;
    fake_remove_folder(folder);
    return 0;
}

static void wait_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

/* Orphans come to this process (it is their subreaper), so that whoever is left can be counted. */
static void assert_no_process_is_left(void) {
    for (int i = 0; i < 500; i++) {
        const pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return;
        if (pid == 0)
            wait_ms(10);
    }
    fail_msg("a process is left 5 s after the run");
}

static json_t *load_result(void) {
    json_error_t e;
    json_t *result = json_load_file(result_path, JSON_REJECT_DUPLICATES, &e);
    if (!result)
        fail_msg("%s: %s", result_path, e.text);
    return result;
}

static int in_launch(const json_t *row, int launch) {
    size_t i;
    json_t *round;
    int n = 0;
    json_array_foreach(json_object_get(row, "rounds"), i, round) n +=
        json_integer_value(json_object_get(round, "launch")) == launch;
    return n;
}

static int last_launch(const json_t *row) {
    const json_t *rounds = json_object_get(row, "rounds");
    const json_t *last = json_array_get(rounds, json_array_size(rounds) - 1);
    return last ? (int)json_integer_value(json_object_get(last, "launch")) : -1;
}

static void assert_ended(const json_t *result, const char *id, const char *status, const char *why) {
    const json_t *row = fake_case(result, "cases", id);
    if (strcmp(fake_text(row, "status"), status) != 0 || !strstr(fake_text(row, "reason"), why))
        fail_msg("%s: %s (%s) instead of %s (%s)", id, fake_text(row, "status"), fake_text(row, "reason"), status, why);
    assert_int_equal(json_array_size(json_object_get(row, "metrics")), 0);
    assert_true(json_is_null(json_object_get(row, "statistics")));
}

/* ---- cases at fault ---- */

static void only_the_case_at_fault_is_lost(void **unused) {
    (void)unused;
    char *output = NULL;
    const char *words[] = {"run",  "--suite",  "fault", "--device",  "cpu", "--ceilings",
                           "off",  "--rounds", "8",     "--timeout", "2s",  "--budget",
                           "120s", "--quiet",  "--out", result_path, NULL};
    assert_int_equal(fake_assay(words, &output), 1);
    assert_non_null(strstr(output, "2 done, 2 failed, 1 skipped, 6 lost, 0 not reached"));
    free(output);
    assert_no_process_is_left();
    json_t *result = load_result();
    assert_ended(result, "fault/aborts/dev:cpu", "lost", "signal 6");
    assert_ended(result, "fault/segfaults/dev:cpu", "lost", "signal 11");
    assert_ended(result, "fault/hangs/dev:cpu", "lost", "no answer in 2 s");
    assert_ended(result, "fault/exits/dev:cpu", "lost", "exit status 3");
    assert_ended(result, "fault/refuses/dev:cpu", "failed", "the kernel reported an error");
    assert_ended(result, "fault/hungry/dev:cpu", "failed", "1 TB for the workspace does not fit");
    assert_ended(result, "fault/absent/dev:cpu", "skipped", "this CPU has no such unit");
    assert_ended(result, "fault/killed/dev:cpu", "lost", "signal 9"); /* and what the kernel's counter says of it */
    assert_non_null(strstr(fake_text(fake_case(result, "cases", "fault/killed/dev:cpu"), "reason"), "memory"));
    assert_ended(result, "fault/late_abort/dev:cpu", "lost", "signal 6");
    const json_t *late = fake_case(result, "cases", "fault/late_abort/dev:cpu");
    assert_true(json_array_size(json_object_get(late, "rounds")) > 0); /* what it had measured is kept, and unused */
    static const char *const innocent[] = {"fault/first/dev:cpu", "fault/last/dev:cpu"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = fake_case(result, "cases", innocent[i]);
        assert_string_equal(fake_text(row, "status"), "done");
        const int launch = last_launch(row);
        assert_true(launch > last_launch(late)); /* a fresh worker, a new launch */
        assert_int_equal(in_launch(row, launch), 8);
        assert_true(json_array_size(json_object_get(row, "metrics")) > 0);
    }
    assert_int_equal(json_array_size(json_object_get(result, "cases")), 11);
    assert_int_equal(access(journal_path, F_OK), -1);
    json_decref(result);
}

/* An error that spoils the device's context costs its case; the others go on in a fresh process. */
static void a_sticky_device_error(void **unused) {
    (void)unused;
    char *output = NULL;
    const char *words[] = {"run", "--suite",  "fault", "--device", "fake",  "--ceilings", "off", "--rounds",
                           "2",   "--budget", "60s",   "--quiet",  "--out", result_path,  NULL};
    assert_int_equal(fake_assay(words, &output), 1);
    assert_non_null(strstr(output, "2 done, 1 failed, 0 skipped, 0 lost, 0 not reached"));
    free(output);
    json_t *result = load_result();
    assert_ended(result, "fault/sticky/dev:fake0", "failed", "illegal memory access");
    const json_t *first = fake_case(result, "cases", "fault/first/dev:fake0"),
                 *last = fake_case(result, "cases", "fault/last/dev:fake0");
    assert_true(last_launch(first) >= 1 && last_launch(last) >= 1); /* the first process was given up */
    assert_int_equal(in_launch(first, last_launch(first)), 2);
    json_decref(result);
    assert_no_process_is_left();
}

static void everything_absent(void **unused) {
    (void)unused;
    const char *words[] = {"run",     "--filter", "^fault/absent", "--ceilings", "off",
                           "--quiet", "--out",    result_path,     NULL};
    assert_int_equal(fake_assay(words, NULL), 3);
    json_t *result = load_result();
    assert_ended(result, "fault/absent/dev:cpu", "skipped", "this CPU has no such unit");
    json_decref(result);
}

static void a_driver_that_kills_the_probe(void **unused) {
    (void)unused;
    char *output = NULL;
    setenv("FAKE_COUNT", "crash", 1);
    const char *words[] = {"run", "--suite", "copy", "--quiet", "--out", result_path, NULL};
    assert_int_equal(fake_assay(words, &output), 3);
    unsetenv("FAKE_COUNT");
    assert_non_null(strstr(output, "the device probe died"));
    free(output);
    assert_no_process_is_left();
    assert_int_equal(access(journal_path, F_OK), -1); /* nothing was begun */
}

static void a_device_in_a_worker_of_its_own(void **unused) {
    (void)unused;
    const char *words[] = {"run",      "--device",  "fake,cpu", "--filter", "^vector/(graph|other)/dev",
                           "--rounds", "2",         "--quiet",  "--budget", "60s",
                           "--out",    result_path, NULL};
    assert_int_equal(fake_assay(words, NULL), 0);
    json_t *result = load_result();
    const json_t *host = fake_case(result, "cases", "vector/other/dev:cpu"),
                 *device = fake_case(result, "cases", "vector/graph/dev:fake0");
    assert_string_equal(fake_text(host, "status"), "done");
    assert_string_equal(fake_text(device, "status"), "done");
    assert_int_not_equal(last_launch(host), last_launch(device));
    const json_t *time = json_array_get(json_object_get(device, "series"), 0);
    assert_string_equal(fake_text(time, "clock"), "device");
    assert_string_equal(fake_text(json_array_get(json_object_get(host, "series"), 0), "clock"), "host");
    assert_int_equal(json_array_size(json_object_get(result, "ceilings")), 4); /* cache and fma of each device */
    const json_t *placement = json_object_get(json_object_get(result, "plan"), "placement");
    static const char *const opened[] = {"cpu", "fake0"};
    for (size_t i = 0; i < 2; i++) { /* each worker says where it sits */
        const json_t *own = json_object_get(json_object_get(placement, "devices"), opened[i]);
        assert_true(json_array_size(json_object_get(own, "cpus")) > 0);
        assert_true(json_equal(json_object_get(own, "cpus"), json_object_get(own, "read_back")));
    }
    json_decref(result);
    assert_no_process_is_left();
}

/* A profiler sees each stage of a case within a range of its id, and the work within both. */
static void ranges_carry_the_ids(void **unused) {
    (void)unused;
    char path[300], name[64], inner[64] = "";
    snprintf(path, sizeof path, "%s/ranges", folder);
    setenv("FAKE_RANGES", path, 1);
    const char *words[] = {
        "run",       "--filter", "^vector/graph/dev:fake0$", "--ceilings", "off", "--rounds", "2", "--quiet", "--out",
        result_path, NULL};
    assert_int_equal(fake_assay(words, NULL), 0);
    unsetenv("FAKE_RANGES");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    int depth = 0, operations, before = 0, verify = 0, warmup = 0, rounds = 0, check = 0;
    while (fscanf(f, "%63s %d", name, &operations) == 2) {
        depth += name[0] == '+' ? 1 : -1;
        assert_in_range(depth, 0, 2);
        if (name[0] == '+' && depth == 1)
            assert_string_equal(name, "+vector/graph/dev:fake0");
        if (name[0] == '+' && depth == 2) {
            assert_int_equal(operations, before); /* nothing ran between two ranges */
            snprintf(inner, sizeof inner, "%s", name);
        }
        if (name[0] == '-' && depth == 1) {
            assert_true(operations > before); /* every stage runs the kernel */
            verify += strcmp(inner, "+verify") == 0;
            warmup += strcmp(inner, "+warmup") == 0;
            rounds += strcmp(inner, "+round") == 0;
            check += strcmp(inner, "+check") == 0;
        }
        before = operations;
    }
    fclose(f);
    assert_int_equal(depth, 0);
    assert_true(verify == 1 && warmup == 1 && rounds == 2 && check == 1);
}

/* ---- signals to the supervisor ---- */

static int count_in_file(const char *path, const char *what) {
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    int n = 0;
    while (f && getline(&line, &capacity, f) > 0)
        n += strstr(line, what) != NULL;
    free(line);
    if (f)
        fclose(f);
    return n;
}

static void wait_for(pid_t pid, const char *what, int n) {
    for (int i = 0; i < 3000; i++) {
        if (count_in_file(journal_path, what) >= n)
            return;
        if (waitpid(pid, NULL, WNOHANG) == pid)
            fail_msg("the run ended before %d of %s", n, what);
        wait_ms(10);
    }
    fail_msg("no %d of %s in 30 s", n, what);
}

static pid_t start_two_cases(void) {
    const char *words[] = {"run",        "--device", "cpu",       "--filter", "^(fault/first|vector/other)/dev",
                           "--ceilings", "off",      "--rounds",  "25",       "--budget",
                           "120s",       "--out",    result_path, NULL};
    const pid_t pid = fake_start(words, -1);
    wait_for(pid, "\"kind\":\"round\"", 3);
    return pid;
}

/* Both cases done, 25 rounds in the last launch beside what came before. */
static void resume_finishes(void) {
    assert_int_equal(fake_assay((const char *[]){"run", "--resume", result_path, "--quiet", NULL}, NULL), 0);
    json_t *result = load_result();
    static const char *const ids[] = {"fault/first/dev:cpu", "vector/other/dev:cpu"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = fake_case(result, "cases", ids[i]);
        assert_string_equal(fake_text(row, "status"), "done");
        assert_int_equal(last_launch(row), 1);
        assert_int_equal(in_launch(row, 1), 25);
        assert_true(in_launch(row, 0) >= 1);
    }
    const json_t *plan = json_object_get(result, "plan");
    assert_int_equal(json_integer_value(json_object_get(plan, "resumed")), 1);
    assert_non_null(json_object_get(json_object_get(json_object_get(plan, "placement"), "devices"), "cpu"));
    json_decref(result);
    assert_int_equal(access(journal_path, F_OK), -1);
    assert_no_process_is_left();
}

static void interrupted(int number) {
    const pid_t pid = start_two_cases();
    int status = 0;
    assert_int_equal(kill(pid, number), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == number); /* a shell sees why it ended */
    assert_no_process_is_left();
    json_t *result = load_result();
    size_t i;
    json_t *row;
    assert_string_equal(fake_text(result, "schema"), "assay.result/1");
    assert_int_equal(json_array_size(json_object_get(result, "cases")), 2);
    json_array_foreach(json_object_get(result, "cases"), i, row) {
        static const char *const legal[] = {"done", "failed", "skipped", "lost", "not_reached"};
        bool found = false;
        for (size_t k = 0; k < 5; k++)
            found = found || strcmp(fake_text(row, "status"), legal[k]) == 0;
        if (!found)
            fail_msg("%s: status '%s' is not in the schema", fake_text(row, "id"), fake_text(row, "status"));
        assert_true(json_array_size(json_object_get(row, "rounds")) >= 1);
        assert_string_not_equal(fake_text(json_object_get(row, "validity"), "status"), "valid"); /* it is partial */
    }
    json_decref(result);
    assert_int_equal(access(journal_path, F_OK), 0); /* kept for --resume */
    resume_finishes();
}

static void sigint_leaves_a_partial_result(void **unused) {
    (void)unused;
    interrupted(SIGINT);
}

static void sigterm_too(void **unused) {
    (void)unused;
    interrupted(SIGTERM);
}

static void sigkill_leaves_no_worker(void **unused) {
    (void)unused;
    const pid_t pid = start_two_cases();
    int status = 0;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_no_process_is_left();
    assert_int_equal(access(result_path, F_OK), -1);
    assert_int_equal(access(journal_path, F_OK), 0);
    resume_finishes();
}

/* Names in the folder of the run, sorted: what a run leaves behind. */
static int left_behind(const char *const *names, int n) {
    DIR *d = opendir(folder);
    int found = 0, known = 0;
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        found++;
        for (int i = 0; i < n; i++)
            known += strcmp(entry->d_name, names[i]) == 0;
    }
    closedir(d);
    return found == n && known == n;
}

/* Journal and, where launches share them, references: --resume needs both, and its end removes both. */
static void sigkill_leaves_the_journal_only(void **unused) {
    (void)unused;
    const char *words[] = {"run",        "--device", "cpu",      "--filter", "^(fault/first|vector/other)/dev",
                           "--ceilings", "off",      "--rounds", "25",       "--launches",
                           "2",          "--budget", "120s",     "--out",    result_path,
                           NULL};
    const pid_t pid = fake_start(words, -1);
    int status = 0;
    wait_for(pid, "\"kind\":\"round\"", 3);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_no_process_is_left();
    assert_true(left_behind((const char *[]){"result.json.journal", "result.json.references"}, 2));
    assert_int_equal(fake_assay((const char *[]){"run", "--resume", result_path, "--quiet", NULL}, NULL), 0);
    assert_true(left_behind((const char *[]){"result.json"}, 1));
}

/* ---- resuming ---- */

/* Cuts the journal behind the last line that holds `what`. */
static void cut_behind(const char *what) {
    FILE *f = fopen(journal_path, "r");
    char *line = NULL;
    size_t capacity = 0;
    long keep = 0;
    assert_non_null(f);
    while (getline(&line, &capacity, f) > 0)
        if (strstr(line, what))
            keep = ftell(f);
    free(line);
    fclose(f);
    assert_true(keep > 0);
    assert_int_equal(truncate(journal_path, keep), 0);
}

/* The device's case had all its rounds and its check when the run was killed, though not yet its status; the host's case
 * hung. Only the latter is tried again. */
static void what_is_complete_is_not_measured_again(void **unused) {
    (void)unused;
    const char *words[] = {"run",        "--filter",  "^(vector/graph/dev|fault/hangs/)",
                           "--ceilings", "off",       "--rounds",
                           "2",          "--timeout", "5s",
                           "--budget",   "60s",       "--out",
                           result_path,  NULL};
    const pid_t pid = fake_start(words, -1);
    int status = 0;
    wait_for(pid, "\"kind\":\"prepared\"", 2);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    cut_behind("\"kind\":\"checked\"");
    assert_int_equal(count_in_file(journal_path, "\"kind\":\"status\""), 0);
    assert_int_equal(fake_assay((const char *[]){"run", "--resume", result_path, "--quiet", NULL}, NULL), 1);
    json_t *result = load_result();
    const json_t *graph = fake_case(result, "cases", "vector/graph/dev:fake0");
    assert_string_equal(fake_text(graph, "status"), "done");
    assert_int_equal(json_array_size(json_object_get(graph, "rounds")), 2);
    assert_int_equal(last_launch(graph), 0);
    assert_ended(result, "fault/hangs/dev:cpu", "lost", "no answer in 5 s");
    json_decref(result);
}

/* 40 rounds of 720 ms, planned as 32 ms: they would fit the 30 s of a fresh run, and do not fit what is left after the
 * 1.3 s and more that the device's case took before the kill. */
static void the_budget_goes_on_with_what_was_left(void **unused) {
    (void)unused;
    const char *words[] = {"run",        "--filter",  "^(vector/graph/dev|effect/good/)",
                           "--ceilings", "off",       "--rounds",
                           "40",         "--budget",  "30s",
                           "--out",      result_path, NULL};
    setenv("FAKE_SLOW_MS", "720", 1);
    const pid_t pid = fake_start(words, -1);
    int status = 0;
    wait_for(pid, "\"kind\":\"prepared\"", 2);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(fake_assay((const char *[]){"run", "--resume", result_path, "--quiet", NULL}, NULL), 0);
    unsetenv("FAKE_SLOW_MS");
    json_t *result = load_result();
    const json_t *graph = fake_case(result, "cases", "vector/graph/dev:fake0");
    assert_int_equal(json_array_size(json_object_get(graph, "rounds")), 40);
    /* The chain took what was left, or more of it than was left: found before warm-up or after, it is the budget. */
    assert_ended(result, "effect/good/dev:cpu", "not_reached", "raise --budget");
    json_decref(result);
}

/* Long before the case's own time limit of 60 s. */
static void ended_while_a_case_hangs(int number) {
    const char *words[] = {"run", "--filter", "^fault/hangs/", "--ceilings", "off", "--out", result_path, NULL};
    const pid_t pid = fake_start(words, -1);
    int status = 0;
    wait_for(pid, "\"kind\":\"prepared\"", 1);
    wait_ms(50); /* it hangs by now, or will */
    kill(pid, number);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == number);
    assert_no_process_is_left();
}

static void sigint_while_a_case_hangs(void **unused) {
    (void)unused;
    ended_while_a_case_hangs(SIGINT);
    json_t *result = load_result();
    assert_ended(result, "fault/hangs/dev:cpu", "not_reached", "interrupted");
    json_decref(result);
}

static void sigkill_while_a_case_hangs(void **unused) {
    (void)unused;
    ended_while_a_case_hangs(SIGKILL); /* the worker cannot see that its line is cut: the kernel ends it */
}

/* A program under --exec must not outlive its worker. */
static void a_hanging_program_is_ended(void **unused) {
    (void)unused;
    const char *words[] = {"run", "--exec",  "sleep 100", "--name",    "nap", "--timeout",
                           "1s",  "--quiet", "--out",     result_path, NULL};
    const pid_t pid = fake_start(words, -1);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_no_process_is_left();
    json_t *result = load_result();
    assert_ended(result, "exec/nap/dev:cpu", "lost", "no answer in 1 s");
    json_decref(result);
}

/* Nor the supervisor: its worker ends with it, and the program with the worker. */
static void sigkill_ends_a_program_too(void **unused) {
    (void)unused;
    const char *words[] = {"run", "--exec", "sleep 100", "--name", "nap", "--out", result_path, NULL};
    const pid_t pid = fake_start(words, -1);
    int status = 0;
    wait_for(pid, "\"kind\":\"prepared\"", 1);
    wait_ms(50); /* it sleeps by now, or will */
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_no_process_is_left();
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(int argc, char **argv) {
    const int rc = fake_main(argc, argv);
    if (rc >= 0)
        return rc;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const struct CMUnitTest tests[] = {
        IN_FOLDER(only_the_case_at_fault_is_lost),
        IN_FOLDER(everything_absent),
        IN_FOLDER(a_driver_that_kills_the_probe),
        IN_FOLDER(a_device_in_a_worker_of_its_own),
        IN_FOLDER(ranges_carry_the_ids),
        IN_FOLDER(sigint_leaves_a_partial_result),
        IN_FOLDER(sigterm_too),
        IN_FOLDER(a_sticky_device_error),
        IN_FOLDER(sigkill_leaves_the_journal_only),
        IN_FOLDER(what_is_complete_is_not_measured_again),
        IN_FOLDER(the_budget_goes_on_with_what_was_left),
        IN_FOLDER(sigkill_leaves_no_worker),
        IN_FOLDER(sigint_while_a_case_hangs),
        IN_FOLDER(sigkill_while_a_case_hangs),
        IN_FOLDER(a_hanging_program_is_ended),
        IN_FOLDER(sigkill_ends_a_program_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
