/* The journal on disk: torn, damaged, foreign, unfinished; places that cannot be written. */
#include "journal.h"
#include "support/fake_plan.h"
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

static char *folder, result_path[256], journal_path[300];
static as_run_state state;
static as_journal journal;
static as_error error;

static int init(void **unused) {
    (void)unused;
    folder = fake_folder();
    snprintf(result_path, sizeof result_path, "%s/result.json", folder);
    snprintf(journal_path, sizeof journal_path, "%s.journal", result_path);
    journal = (as_journal){.fd = -1};
    return as_run_state_init(&state, fake_plan(), &error) == AS_OK ? 0 : -1;
}

static int release(void **unused) {
    (void)unused;
    as_run_state_free(&state);
    as_journal_free(&journal);
    fake_remove_folder(folder);
    return 0;
}

static json_t *header_of(const char *plan) {
    return json_pack("{s:s, s:s, s:s, s:[s, s], s:{s:s}}", "schema", "assay.journal/2", "plan", plan, "date",
                     "2026-01-02", "argv", "assay", "run", "context", "host_name", "here");
}

static as_status create(const char *path) {
    json_t *header = header_of("0000000000001234");
    as_journal_free(&journal);
    const as_status s = as_journal_create(&journal, path, header, &error);
    json_decref(header);
    return s;
}

static void record(json_t *r) {
    assert_int_equal(as_journal_record(&journal, &state, r, &error), AS_OK);
    json_decref(r);
}

/* A journal of a header and three records, closed; the state is as it was before. */
static void leave_a_journal(void) {
    assert_int_equal(create(result_path), AS_OK);
    record(fake_warm(FAKE_VECTOR, 1));
    record(fake_round(FAKE_VECTOR, 0, 0, 100, 3));
    record(fake_round(FAKE_VECTOR, 0, 1, 110, 3));
    as_journal_free(&journal);
    as_run_state_free(&state);
    assert_int_equal(as_run_state_init(&state, fake_plan(), &error), AS_OK);
}

static char *read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = calloc(1, 65536);
    *size = fread(text, 1, 65535, f);
    fclose(f);
    return text;
}

static void write_file(const char *path, const char *text, size_t size) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    fclose(f);
}

static void resume_refused(as_status status, const char *says) {
    assert_int_equal(as_journal_resume(&journal, result_path, &state, &error), status);
    if (!strstr(error.message, says))
        fail_msg("'%s' does not mention '%s'", error.message, says);
}

/* ---- writing ---- */

static void a_record_is_on_disk_at_once(void **unused) {
    (void)unused;
    size_t size;
    assert_int_equal(create(result_path), AS_OK);
    record(fake_warm(FAKE_VECTOR, 1));
    char *text = read_file(journal_path, &size); /* while the journal is open */
    assert_non_null(strstr(text, "{\"schema\":\"assay.journal/2\""));
    assert_non_null(strstr(text, "\"kind\":\"warm\""));
    assert_int_equal(text[size - 1], '\n');
    free(text);
    assert_int_equal(access(result_path, F_OK), -1); /* nothing that looks like a result */
}

static void the_end_leaves_the_result_alone(void **unused) {
    (void)unused;
    size_t size;
    json_t *document = json_pack("{s:f, s:s}", "a", 0.1, "b", "c");
    assert_int_equal(create(result_path), AS_OK);
    assert_int_equal(as_journal_finish(&journal, document, true, &error), AS_OK);
    assert_int_equal(access(journal_path, F_OK), 0); /* kept where the run was interrupted */
    assert_int_equal(as_journal_finish(&journal, document, false, &error), AS_OK);
    assert_int_equal(access(journal_path, F_OK), -1);
    char *text = read_file(result_path, &size);
    assert_string_equal(text, "{\"a\":0.1,\"b\":\"c\"}\n");
    free(text);
    snprintf(journal_path, sizeof journal_path, "%s.tmp", result_path);
    assert_int_equal(access(journal_path, F_OK), -1);
    json_decref(document);
}

static void an_unfinished_run_is_not_overwritten(void **unused) {
    (void)unused;
    size_t before, after;
    leave_a_journal();
    free(read_file(journal_path, &before));
    assert_int_equal(create(result_path), AS_EUSAGE);
    assert_non_null(strstr(error.message, "--resume"));
    as_journal_free(&journal);
    free(read_file(journal_path, &after));
    assert_int_equal(before, after);
}

static void places_that_cannot_be_written(void **unused) {
    (void)unused;
    char path[400];
    assert_int_equal(create("/nonexistent/folder/result.json"), AS_EENV);
    assert_non_null(strstr(error.message, "/nonexistent/folder/result.json"));
    assert_int_equal(create("/dev/full"), AS_EENV);
    assert_non_null(strstr(error.message, "not a regular file"));
    assert_int_equal(create(folder), AS_EENV); /* a folder */
    assert_int_equal(create("/proc/result.json"), AS_EENV);
    write_file(result_path, "{}", 2);
    snprintf(path, sizeof path, "%s/below.json", result_path);
    assert_int_equal(create(path), AS_EENV);
    if (geteuid() != 0) { /* root may write everywhere */
        chmod(result_path, 0400);
        assert_int_equal(create(result_path), AS_EENV);
        unlink(result_path);
        chmod(folder, 0500);
        assert_int_equal(create(result_path), AS_EENV);
        chmod(folder, 0700);
    }
    assert_int_equal(access(journal_path, F_OK), -1); /* no attempt leaves a journal */
}

/* A full disk: the record fails, names the remedy, and the state does not claim what the disk does not hold. */
static void a_full_disk(void **unused) {
    (void)unused;
    journal = (as_journal){
        .fd = open("/dev/full", O_WRONLY | O_CLOEXEC), .path = strdup("/dev/full"), .result_path = strdup(result_path)};
    assert_true(journal.fd >= 0);
    json_t *r = fake_warm(FAKE_VECTOR, 5);
    assert_int_equal(as_journal_record(&journal, &state, r, &error), AS_EENV);
    assert_non_null(strstr(error.message, "free some space"));
    assert_int_equal(state.outcome[FAKE_VECTOR].batch, 0);
    json_decref(r);
}

/* ---- reading ---- */

static void resume_goes_on_where_it_ended(void **unused) {
    (void)unused;
    size_t before, after;
    leave_a_journal();
    free(read_file(journal_path, &before));
    assert_int_equal(as_journal_resume(&journal, result_path, &state, &error), AS_OK);
    assert_int_equal(state.outcome[FAKE_VECTOR].n_rounds, 2);
    assert_string_equal(fake_text(state.context, "host_name"), "here");
    record(fake_round(FAKE_VECTOR, 1, 0, 120, 3));
    free(read_file(journal_path, &after));
    assert_true(after > before); /* appended */
    as_journal_free(&journal);
    as_run_state_free(&state);
    assert_int_equal(as_run_state_init(&state, fake_plan(), &error), AS_OK);
    assert_int_equal(as_journal_resume(&journal, journal_path, &state, &error), AS_OK); /* by its own name too */
    assert_int_equal(state.outcome[FAKE_VECTOR].n_rounds, 3);
    assert_string_equal(journal.result_path, result_path);
}

/* Whatever the last bytes lost: the whole records before count, the rest is cut off, and writing goes on behind. */
static void a_torn_last_line_is_cut(void **unused) {
    (void)unused;
    size_t size;
    leave_a_journal();
    char *text = read_file(journal_path, &size);
    size_t third = size - 1; /* where the last line begins */
    while (text[third - 1] != '\n')
        third--;
    const size_t cuts[] = {size - 1, size - 7, third + 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        size_t now;
        write_file(journal_path, text, cuts[i]);
        as_run_state_free(&state);
        assert_int_equal(as_run_state_init(&state, fake_plan(), &error), AS_OK);
        assert_int_equal(as_journal_resume(&journal, result_path, &state, &error), AS_OK);
        assert_int_equal(state.outcome[FAKE_VECTOR].n_rounds, 1);
        free(read_file(journal_path, &now));
        assert_int_equal(now, third);
        record(fake_round(FAKE_VECTOR, 1, 0, 120, 3));
        as_journal_free(&journal);
        as_run_state_free(&state);
        assert_int_equal(as_run_state_init(&state, fake_plan(), &error), AS_OK);
        assert_int_equal(as_journal_resume(&journal, result_path, &state, &error), AS_OK);
        assert_int_equal(state.outcome[FAKE_VECTOR].n_rounds, 2);
        as_journal_free(&journal);
    }
    free(text);
}

static void a_damaged_line_is_named(void **unused) {
    (void)unused;
    size_t size, now;
    leave_a_journal();
    char *text = read_file(journal_path, &size);
    char *second = strchr(strchr(text, '\n') + 1, '\n') + 1; /* line 3 */
    *second = 'X';
    write_file(journal_path, text, size);
    resume_refused(AS_EUSAGE, "line 3 is damaged");
    as_journal_free(&journal);
    free(read_file(journal_path, &now));
    assert_int_equal(now, size); /* nothing was cut from it */
    *second = '{';
    memcpy(strstr(second, "\"case\":0"), "\"case\":1", 8); /* valid JSON of this plan, and not what was measured */
    write_file(journal_path, text, size);
    resume_refused(AS_EUSAGE, "line 3 is damaged or was edited: its checksum does not fit");
    as_journal_free(&journal);
    memcpy(strstr(text, "2026"), "2025", 4); /* the header too */
    write_file(journal_path, text, size);
    resume_refused(AS_EUSAGE, "line 1 is damaged or was edited");
    free(text);
}

static void a_lost_or_moved_line_is_named(void **unused) {
    (void)unused;
    size_t size;
    leave_a_journal();
    char *text = read_file(journal_path, &size);
    char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1, *fourth = strchr(third, '\n') + 1;
    char *spoilt = malloc(2 * size);
    const size_t head = (size_t)(third - text), lost = (size_t)(fourth - third), rest = size - head - lost;
    memcpy(spoilt, text, head); /* line 3 is gone */
    memcpy(spoilt + head, fourth, rest);
    write_file(journal_path, spoilt, head + rest);
    resume_refused(AS_EUSAGE, "line 3 holds record 4: records are missing or moved");
    as_journal_free(&journal);
    memcpy(spoilt, text, head + lost); /* line 3 stands twice */
    memcpy(spoilt + head + lost, third, lost + rest);
    write_file(journal_path, spoilt, size + lost);
    resume_refused(AS_EUSAGE, "line 4 holds record 3");
    free(spoilt);
    free(text);
}

/* A whole record that makes no sense for this plan is an error of its own, with its line. */
static void a_record_of_no_case_is_named(void **unused) {
    (void)unused;
    assert_int_equal(create(result_path), AS_OK);
    json_t *r = fake_warm(99, 1);
    assert_int_equal(as_journal_record(&journal, &state, r, &error), AS_EUSAGE); /* written, then refused */
    json_decref(r);
    as_journal_free(&journal);
    resume_refused(AS_EUSAGE, "line 2: a record names no case of this plan");
}

static void what_was_spent_goes_on(void **unused) {
    (void)unused;
    assert_int_equal(create(result_path), AS_OK);
    journal.opened_ns -= 5000000000; /* as if it had run for 5 s */
    record(fake_warm(FAKE_VECTOR, 1));
    as_journal_free(&journal);
    assert_int_equal(as_journal_resume(&journal, result_path, &state, &error), AS_OK);
    assert_true(journal.spent_ns >= 5000000000 && journal.spent_ns < 65000000000);
    const int64_t first = journal.spent_ns;
    journal.opened_ns -= 2000000000;
    record(fake_round(FAKE_VECTOR, 0, 0, 100, 3));
    as_journal_free(&journal);
    as_run_state_free(&state);
    assert_int_equal(as_run_state_init(&state, fake_plan(), &error), AS_OK);
    assert_int_equal(as_journal_resume(&journal, result_path, &state, &error), AS_OK);
    assert_true(journal.spent_ns >= first + 2000000000 && journal.lines == 3); /* the time between is nobody's */
}

static void an_older_builds_journal(void **unused) {
    (void)unused;
    static const char old[] = "{\"schema\":\"assay.journal/1\",\"plan\":\"0000000000001234\"}\n";
    write_file(journal_path, old, sizeof old - 1);
    resume_refused(AS_EUSAGE, "was written by an older build");
}

static void another_plans_journal(void **unused) {
    (void)unused;
    json_t *header = header_of("00000000000abcde");
    assert_int_equal(as_journal_create(&journal, result_path, header, &error), AS_OK);
    as_journal_free(&journal);
    json_decref(header);
    resume_refused(AS_EUSAGE, "belongs to another plan");
}

static void files_that_are_no_journal(void **unused) {
    (void)unused;
    static const char *const contents[] = {
        "",
        "\n",
        "{}\n",
        "hello\n",
        "{\"schema\":\"assay.result/1\"}\n",
        "[1]\n",
        "{\"schema\":\"assay.journal/2\",\"plan\":\"0000000000001234\"}"}; /* no line end */
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        json_t *header = NULL;
        write_file(journal_path, contents[i], strlen(contents[i]));
        resume_refused(AS_EUSAGE, "is no journal of assay");
        as_journal_free(&journal);
        assert_int_equal(as_journal_header(result_path, &header, &error), AS_EUSAGE);
        assert_null(header);
    }
    unlink(journal_path);
    resume_refused(AS_EUSAGE, "there is no unfinished run");
}

static void the_header_keeps_the_command_line(void **unused) {
    (void)unused;
    json_t *header = NULL;
    leave_a_journal();
    assert_int_equal(as_journal_header(journal_path, &header, &error), AS_OK);
    assert_string_equal(json_string_value(json_array_get(json_object_get(header, "argv"), 1)), "run");
    json_decref(header);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, init, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_record_is_on_disk_at_once),
        IN_FOLDER(the_end_leaves_the_result_alone),
        IN_FOLDER(an_unfinished_run_is_not_overwritten),
        IN_FOLDER(places_that_cannot_be_written),
        IN_FOLDER(a_full_disk),
        IN_FOLDER(resume_goes_on_where_it_ended),
        IN_FOLDER(a_torn_last_line_is_cut),
        IN_FOLDER(a_damaged_line_is_named),
        IN_FOLDER(a_lost_or_moved_line_is_named),
        IN_FOLDER(a_record_of_no_case_is_named),
        IN_FOLDER(what_was_spent_goes_on),
        IN_FOLDER(an_older_builds_journal),
        IN_FOLDER(another_plans_journal),
        IN_FOLDER(files_that_are_no_journal),
        IN_FOLDER(the_header_keeps_the_command_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
