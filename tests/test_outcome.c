/* Records and what they make of the state; units; a replay equals what was live. */
#include "outcome.h"
#include "record.h"
#include "support/fake_plan.h"
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static as_run_state state;

static int init(void **unused) {
    (void)unused;
    return as_run_state_init(&state, fake_plan(), NULL) == AS_OK ? 0 : -1;
}

static int release(void **unused) {
    (void)unused;
    as_run_state_free(&state);
    return 0;
}

static void refused(json_t *record, const char *says) {
    as_error e = {0};
    assert_non_null(record);
    assert_int_equal(as_run_state_apply(&state, record, &e), AS_EUSAGE);
    if (!strstr(e.message, says))
        fail_msg("'%s' does not mention '%s'", e.message, says);
    json_decref(record);
}

static void the_beginning(void **unused) {
    (void)unused;
    for (int i = 0; i < FAKE_CASES; i++) {
        assert_int_equal(state.outcome[i].status, AS_PENDING);
        assert_string_equal(state.outcome[i].after_timing, "not_run");
        assert_int_equal(state.outcome[i].n_rounds, 0);
    }
    as_run_state_free(&state);
    as_plan dropped = *fake_plan();
    dropped.cases[FAKE_COPY].drop_reason = "no room";
    assert_int_equal(as_run_state_init(&state, &dropped, NULL), AS_OK);
    assert_int_equal(state.outcome[FAKE_COPY].status, AS_NOT_REACHED); /* it stands in the result, with its reason */
    assert_string_equal(state.outcome[FAKE_COPY].reason, "no room");
    as_run_state_free(&state);
    assert_int_equal(init(NULL), 0);
}

static void records_add_up(void **unused) {
    (void)unused;
    const as_outcome *o = &state.outcome[FAKE_VECTOR];
    fake_apply(&state, json_pack("{s:s, s:i, s:s}", "kind", "launch", "launch", 0, "device", "cpu"));
    assert_int_equal(state.launches, 1);
    fake_apply(&state, json_pack("{s:s, s:i, s:i}", "kind", "prepared", "case", FAKE_VECTOR, "ns", 500));
    fake_apply(&state, json_pack("{s:s, s:i, s:i}", "kind", "prepared", "case", FAKE_VECTOR, "ns", 300));
    assert_true(o->prepare_ns == 800);
    fake_apply(&state, fake_verified(FAKE_VECTOR, true));
    assert_true(o->verify_ns == 700);
    assert_string_equal(fake_text(o->verification, "after_timing"), "not_run");
    fake_apply(&state, fake_warm(FAKE_VECTOR, 4));
    fake_apply(&state, fake_warm(FAKE_VECTOR, 9)); /* another launch: the first batch stays */
    assert_int_equal(o->batch, 4);
    assert_true(o->warmup_ns == 10000 && o->warm);
    fake_apply(&state, fake_round(FAKE_VECTOR, 0, 0, 400, 3)); /* 400, 401, 402 for 4 operations */
    fake_apply(&state, fake_round(FAKE_VECTOR, 0, 1, 800, 2));
    assert_int_equal(o->n_rounds, 2);
    assert_true(o->median_ns[0] == 401 / 4.0 && o->median_ns[1] == 800.5 / 4);
    assert_int_equal(json_array_size(o->rounds), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(o->rounds, 0), "samples")), 3);
    assert_null(o->host);
    fake_apply(&state, fake_checked(FAKE_VECTOR, false));
    fake_apply(&state, fake_checked(FAKE_VECTOR, true)); /* a later launch does not clear a failure */
    assert_string_equal(o->after_timing, "failed");
    assert_string_equal(fake_text(o->verification, "detail"), "row 3 is wrong");
    fake_apply(&state, fake_status(FAKE_VECTOR, "failed", "wrong after timing"));
    assert_int_equal(o->status, AS_FAILED);
    assert_string_equal(o->reason, "wrong after timing");
    assert_int_equal(state.outcome[FAKE_COPY].n_rounds, 0); /* nobody else's business */
}

static void device_and_extra_series(void **unused) {
    (void)unused;
    const as_outcome *o = &state.outcome[FAKE_VECTOR];
    fake_apply(&state, fake_warm(FAKE_VECTOR, 1));
    json_t *round = fake_round(FAKE_VECTOR, 0, 0, 100, 2);
    json_object_set_new(round, "host", json_pack("[i, i]", 120, 121));
    json_object_set_new(round, "extra", json_pack("{s:[i, i]}", "ticks", 1, 2));
    fake_apply(&state, round);
    assert_int_equal(json_array_size(o->host), 1);
    assert_int_equal(json_array_size(json_array_get(json_object_get(o->extra, "ticks"), 0)), 2);
}

static void senseless_records(void **unused) {
    (void)unused;
    refused(json_object(), "without a kind");
    refused(json_pack("{s:s, s:i}", "kind", "dance", "case", 0), "unknown kind 'dance'");
    refused(fake_warm(FAKE_CASES, 1), "names no case");
    refused(fake_warm(-1, 1), "names no case");
    refused(json_pack("{s:s, s:s}", "kind", "warm", "case", "0"), "names no case");
    refused(fake_status(0, "splendid", ""), "unknown status");
    refused(fake_status(0, "pending", ""), "unknown status");
    refused(fake_round(FAKE_VECTOR, 0, 0, 100, 3), "before its warm-up");
    fake_apply(&state, fake_warm(FAKE_VECTOR, 1));
    refused(fake_round(FAKE_VECTOR, 0, 0, 100, 0), "no samples");
    refused(fake_round(FAKE_VECTOR, 0, 0, 100, 1001), "more than 1000");
    fake_apply(&state, fake_round(FAKE_VECTOR, 0, 0, 100, 1000));
    assert_int_equal(state.outcome[FAKE_VECTOR].n_rounds, 1); /* the refused ones left no trace */
}

static void units_are_launches_when_there_are_enough(void **unused) {
    (void)unused;
    const as_stop_rule *rule = &state.plan->rule;
    const as_outcome *o = &state.outcome[FAKE_VECTOR];
    double units[32];
    const char *scope;
    assert_int_equal(as_outcome_units(o, rule, units, &scope), 0);
    fake_apply(&state, fake_warm(FAKE_VECTOR, 1));
    for (int launch = 0; launch < 5; launch++)
        for (int k = 0; k < 3; k++)
            fake_apply(&state, fake_round(FAKE_VECTOR, launch, k, 100 * (launch + 1) + 10 * k, 1));
    assert_int_equal(as_outcome_units(o, rule, units, &scope), 15); /* five launches: the rounds */
    assert_string_equal(scope, "within-launch");
    fake_apply(&state, fake_round(FAKE_VECTOR, 5, 0, 600, 1));
    assert_int_equal(as_outcome_units(o, rule, units, &scope), 6); /* six: the median of each launch's rounds */
    assert_string_equal(scope, "launches");
    assert_true(units[0] == 110 && units[4] == 510 && units[5] == 600);
}

/* The same records, applied as they come and read back from the journal, give the same document. */
static void a_replay_equals_what_was_live(void **unused) {
    (void)unused;
    char *folder = fake_folder(), path[256];
    snprintf(path, sizeof path, "%s/result.json", folder);
    as_journal j, again;
    as_run_state replayed;
    as_error e = {0};
    json_t *header = json_pack("{s:s, s:s, s:s, s:{}}", "schema", "assay.journal/2", "plan", "0000000000001234", "date",
                               "2026-01-02T03:04:05+00:00", "context");
    assert_int_equal(as_journal_create(&j, path, header, &e), AS_OK);
    json_t *records[] = {json_pack("{s:s, s:i}", "kind", "launch", "launch", 0),
                         fake_verified(FAKE_VECTOR, true),
                         fake_warm(FAKE_VECTOR, 3),
                         fake_round(FAKE_VECTOR, 0, 0, 123456789, 50),
                         fake_round(FAKE_VECTOR, 0, 1, 123456999, 50),
                         fake_status(FAKE_COPY, "skipped", "a \"reason\" with\nlines"),
                         fake_checked(FAKE_VECTOR, true),
                         fake_status(FAKE_VECTOR, "done", "")};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        assert_int_equal(as_journal_record(&j, &state, records[i], &e), AS_OK);
        json_decref(records[i]);
    }
    as_journal_free(&j);
    assert_int_equal(as_run_state_init(&replayed, state.plan, &e), AS_OK);
    if (as_journal_resume(&again, path, &replayed, &e) != AS_OK)
        fail_msg("%s", e.message);
    assert_int_equal(replayed.launches, state.launches);
    assert_int_equal(replayed.resumed, 1);
    assert_string_equal(replayed.date, "2026-01-02T03:04:05+00:00");
    for (int c = 0; c < FAKE_CASES; c++) {
        json_t *live = as_record_case(&state, c), *read = as_record_case(&replayed, c);
        assert_non_null(live);
        assert_true(json_equal(live, read));
        json_decref(live);
        json_decref(read);
    }
    as_journal_free(&again);
    as_run_state_free(&replayed);
    json_decref(header);
    fake_remove_folder(folder);
}

#define WITH_STATE(test) cmocka_unit_test_setup_teardown(test, init, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_STATE(the_beginning),
        WITH_STATE(records_add_up),
        WITH_STATE(device_and_extra_series),
        WITH_STATE(senseless_records),
        WITH_STATE(units_are_launches_when_there_are_enough),
        WITH_STATE(a_replay_equals_what_was_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
