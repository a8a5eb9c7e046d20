/* The host as a device. */
#include "device.h"
#include "environment.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const as_device_driver *const cpu = &as_cpu_driver;

static int setup(void **state) {
    static as_device device;
    as_error e;
    *state = &device;
    return cpu->open(0, &device, &e) == AS_OK ? 0 : -1;
}

static int teardown(void **state) {
    cpu->close(*state);
    return 0;
}

static size_t resident_bytes(void) {
    unsigned long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &total, &resident), 2);
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void there_is_always_one(void **state) {
    (void)state;
    int n = 0;
    char reason[256] = "x";
    as_device d;
    as_error e = {0};
    assert_int_equal(cpu->count(&n, reason, &e), AS_OK);
    assert_int_equal(n, 1);
    assert_string_equal(reason, "");
    assert_int_equal(cpu->open(1, &d, &e), AS_EABSENT);
    assert_null(d.impl);
    cpu->close(&d); /* a device that did not open */
}

static void describes_itself(void **state) {
    as_device *d = *state;
    json_t *o = cpu->describe(d);
    assert_string_equal(d->name, "cpu");
    assert_string_equal(json_string_value(json_object_get(o, "name")), "cpu");
    assert_string_equal(json_string_value(json_object_get(o, "kind")), "cpu");
    assert_true(strlen(json_string_value(json_object_get(o, "model"))) > 0);
    assert_true(json_integer_value(json_object_get(o, "memory_bytes")) > 0);
    assert_true(d->last_level_cache_bytes == (size_t)json_integer_value(json_object_get(o, "l3_bytes")) ||
                json_integer_value(json_object_get(o, "l3_bytes")) == 0);
    json_decref(o);
}

static void memory_is_aligned_touched_and_given_back(void **state) {
    as_device *d = *state;
    const size_t bytes = ((size_t)64 << 20) + 1, page = (size_t)sysconf(_SC_PAGESIZE);
    void *p;
    as_error e;
    size_t at_start = resident_bytes();
    assert_int_equal(cpu->alloc(d, AS_MEM_DEVICE, bytes, &p, &e), AS_OK);
    assert_int_equal((uintptr_t)p % page, 0);
    assert_true(resident_bytes() >= at_start + bytes - ((size_t)4 << 20));
    ((unsigned char *)p)[bytes - 1] = 1;
    cpu->release(d, AS_MEM_DEVICE, p);
    assert_true(resident_bytes() <= at_start + ((size_t)4 << 20));
    cpu->release(d, AS_MEM_DEVICE, NULL);
}

static void many_blocks_of_every_kind(void **state) {
    as_device *d = *state;
    enum { BLOCKS = 200 };
    unsigned char *p[BLOCKS];
    as_error e;
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(cpu->alloc(d, (as_memory)(i % (AS_MEM_HUGE + 1)), (size_t)i, (void **)&p[i], &e),
                         AS_OK); /* 0 bytes too */
        assert_non_null(p[i]);
        memset(p[i], i, (size_t)i);
    }
    for (int i = 0; i < BLOCKS; i += 2)
        cpu->release(d, (as_memory)(i % 4), p[i]);
    for (int i = 1; i < BLOCKS; i += 2)
        assert_int_equal(p[i][i - 1], i); /* the rest is closed with the device */
}

static void what_does_not_fit_is_refused(void **state) {
    as_device *d = *state;
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 50};
    size_t free_bytes, total_bytes;
    void *p = d;
    as_error e = {0};
    assert_int_equal(cpu->memory(d, &free_bytes, &total_bytes, &e), AS_OK);
    assert_true(free_bytes > 0 && free_bytes <= total_bytes);
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        assert_int_equal(cpu->alloc(d, AS_MEM_DEVICE, huge[i], &p, &e), AS_ENOMEM);
        assert_null(p);
        assert_non_null(strstr(e.message, "do not fit"));
    }
    assert_int_equal(cpu->alloc(d, AS_MEM_PINNED, total_bytes, &p, &e), AS_ENOMEM);
}

static void fill_is_the_seeded_stream(void **state) {
    as_device *d = *state;
    enum { COUNT = 1001 };
    float *a, *b, expected[COUNT];
    as_error e;
    assert_int_equal(cpu->alloc(d, AS_MEM_DEVICE, sizeof expected, (void **)&a, &e), AS_OK);
    assert_int_equal(cpu->alloc(d, AS_MEM_DEVICE, sizeof expected, (void **)&b, &e), AS_OK);
    as_rng_fill(expected, AS_F32, AS_NORMAL, 0, COUNT, 42, 7);
    assert_int_equal(cpu->fill(d, AS_MEM_DEVICE, a, AS_F32, AS_NORMAL, COUNT, 42, 7, &e), AS_OK);
    assert_memory_equal(a, expected, sizeof expected);
    assert_int_equal(cpu->copy(d, b, a, sizeof expected, &e), AS_OK);
    assert_memory_equal(b, expected, sizeof expected);
    assert_int_equal(cpu->set(d, b, 0xa5, sizeof expected - 1, &e), AS_OK);
    assert_int_equal(((unsigned char *)b)[sizeof expected - 2], 0xa5);
    assert_int_equal(((unsigned char *)b)[sizeof expected - 1], ((unsigned char *)expected)[sizeof expected - 1]);
    assert_int_equal(cpu->copy(d, NULL, NULL, 0, &e), AS_OK);
}

static void events_tell_time(void **state) {
    as_device *d = *state;
    as_stream s = d;
    as_event a, b;
    double ns = 0;
    as_error e;
    assert_int_equal(cpu->stream_create(d, &s, &e), AS_OK);
    assert_null(s);
    assert_int_equal(cpu->event_create(d, &a, &e), AS_OK);
    assert_int_equal(cpu->event_create(d, &b, &e), AS_OK);
    assert_int_equal(cpu->event_record(d, a, s, &e), AS_OK);
    assert_int_equal(cpu->event_elapsed(d, a, b, &ns, &e), AS_EFAIL); /* b was never recorded */
    usleep(2000);
    assert_int_equal(cpu->event_record(d, b, s, &e), AS_OK);
    assert_int_equal(cpu->stream_sync(d, s, &e), AS_OK);
    assert_int_equal(cpu->event_elapsed(d, a, b, &ns, &e), AS_OK);
    assert_true(ns >= 1.9e6 && ns < 10e9); /* RAW and the sleep's clock differ by less than a per mille */
    cpu->event_destroy(d, a);
    cpu->event_destroy(d, b);
    cpu->stream_destroy(d, s);
}

static void has_no_graphs_but_counters(void **state) {
    as_device *d = *state;
    assert_null(cpu->capture_begin);
    assert_null(cpu->capture_end);
    assert_null(cpu->graph_launch);
    assert_null(cpu->graph_destroy);
    json_t *before = cpu->counters(d), *after, *flags = json_array();
    after = json_deep_copy(before);
    json_object_set_new(after, "major_faults",
                        json_integer(json_integer_value(json_object_get(before, "major_faults")) + 1));
    cpu->judge(before, after, flags);
    assert_int_equal(json_array_size(flags), 1);
    json_decref(before);
    json_decref(after);
    json_decref(flags);
}

#define ON_DEVICE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_always_one),
        ON_DEVICE(describes_itself),
        ON_DEVICE(memory_is_aligned_touched_and_given_back),
        ON_DEVICE(many_blocks_of_every_kind),
        ON_DEVICE(what_does_not_fit_is_refused),
        ON_DEVICE(fill_is_the_seeded_stream),
        ON_DEVICE(events_tell_time),
        ON_DEVICE(has_no_graphs_but_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
