/* The CUDA driver behind harness/device.h. The first group needs no device and always runs. */
#include "gpu_test.h"

#include "kernels/cuda/chain.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

static as_device device;
static as_stream stream;
#define D (&device)
#define DRIVER as_cuda_driver

/* ---- without a device ---- */

static int hidden_by(const char *value, const char *want) {
    int n = -1;
    char reason[256] = "";
    as_error e = {0};
    setenv("CUDA_VISIBLE_DEVICES", value, 1);
    if (DRIVER.count(&n, reason, &e) != AS_OK || n != 0)
        return 1;
    /* Without a driver that is the reason, whatever the variable says. */
    return strstr(reason, want) || strstr(reason, "libcuda.so.1") ? 0 : 2;
}
static int hidden_empty(void) { return hidden_by("", "CUDA_VISIBLE_DEVICES=\"\""); }
static int hidden_unknown(void) { return hidden_by("GPU-00000000", "GPU-00000000"); }

static void test_hidden_devices(void **state) {
    (void)state;
    assert_int_equal(in_child(hidden_empty), 0);
    assert_int_equal(in_child(hidden_unknown), 0);
}

static int open_absent(void) {
    as_device d;
    as_error e = {0};
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    return DRIVER.open(0, &d, &e) == AS_EABSENT && strstr(e.message, "no CUDA device") ? 0 : 1;
}

static void test_open_names_the_reason(void **state) {
    (void)state;
    assert_int_equal(in_child(open_absent), 0);
}

typedef struct reading {
    double time_ns, clock_hz, power_held_ns;
    int mask, others;
    double max_clock_hz; /* 0 unknown */
} reading;

/* The flags of two readings, joined by "; ". */
static void assert_judged(reading before, reading after, const char *want) {
    const reading *r[2] = {&before, &after};
    json_t *o[2], *flags = json_array();
    char text[256] = "";
    for (int i = 0; i < 2; i++)
        o[i] = json_pack("{s:f, s:f, s:f, s:i, s:i}", "time_ns", r[i]->time_ns, "sm_clock_hz", r[i]->clock_hz,
                         "power_violation_ns", r[i]->power_held_ns, "throttle_mask", r[i]->mask, "other_processes",
                         r[i]->others);
    for (int i = 0; i < 2; i++)
        if (r[i]->max_clock_hz > 0)
            json_object_set_new(o[i], "sm_clock_max_hz", json_real(r[i]->max_clock_hz));
    as_cuda_judge(o[0], o[1], flags);
    size_t i;
    json_t *flag;
    json_array_foreach(flags, i, flag) {
        if (i)
            strcat(text, "; ");
        strncat(text, json_string_value(flag), 80);
    }
    json_decref(flags);
    json_decref(o[0]);
    json_decref(o[1]);
    assert_string_equal(text, want);
}

static void test_judge(void **state) {
    (void)state;
    const reading fast = {0, 1.98e9, 0, 0, 0, 0};
    assert_judged(fast, (reading){1e8, 1.98e9, 0, 0, 0, 0}, "");
    assert_judged(fast, (reading){1e8, 1.90e9, 0, 0, 0, 0}, "");
    assert_judged(fast, (reading){1e8, 1.40e9, 0, 0, 0, 0}, "clocks moved");
    assert_judged(fast, (reading){1e8, 0.345e9, 0, 1, 0, 0}, "");                             /* idle afterwards */
    assert_judged((reading){0, 0.345e9, 0, 1, 0, 0}, (reading){1e8, 1.98e9, 0, 0, 0, 0}, ""); /* idle before */
    assert_judged((reading){0, 1.2e9, 0, 0, 0, 0}, (reading){1e8, 1.2e9, 0, 0, 0, 0}, "");    /* slow and steady */
    assert_judged((reading){0, 1.4e9, 0, 4, 0, 0}, (reading){1e8, 1.4e9, 0, 0, 0, 0}, "");    /* the case before */
    assert_judged(fast, (reading){1e8, 1.40e9, 0, 4, 0, 0}, "throttled: power cap");
    assert_judged(fast, (reading){1e8, 1.98e9, 0, 0x20, 0, 0}, "throttled: thermal");
    assert_judged(fast, (reading){1e8, 1.98e9, 0, 0x48, 0, 0}, "throttled: thermal; throttled: hardware slowdown");
    assert_judged(fast, (reading){1e8, 1.98e9, 2e6, 0, 0, 0}, "throttled: power cap"); /* 2% of the time */
    assert_judged(fast, (reading){1e8, 1.98e9, 5e5, 0, 0, 0}, "");                     /* 0.5% */
    assert_judged(fast, (reading){1e8, 1.965e9, 2e6, 4, 0, 1.98e9}, ""); /* what the case before left behind */
    assert_judged(fast, (reading){1e8, 1.935e9, 2e6, 4, 0, 1.98e9}, "throttled: power cap");
    assert_judged(fast, (reading){1e8, 1.98e9, 0, 0, 1, 0}, "other processes on the GPU");
    json_t *nothing = json_object(), *flags = json_array();
    as_cuda_judge(nothing, nothing, flags);
    assert_int_equal(json_array_size(flags), 0);
    json_decref(nothing);
    json_decref(flags);
}

/* A kernel that faults must be reported at the next sync as a lost context. Returns 77 without a device. */
static int fault(void) {
    const as_cuda_link bad = {0, (uint64_t *)8};
    int n = 0;
    char reason[256];
    as_device d;
    as_stream s;
    as_error e = {0};
    if (DRIVER.count(&n, reason, &e) != AS_OK || n == 0)
        return 77;
    if (DRIVER.open(0, &d, &e) != AS_OK || DRIVER.stream_create(&d, &s, &e) != AS_OK)
        return 1;
    if (as_cuda_link_launch(&bad, (cudaStream_t)s, &e) != AS_OK)
        return 2;
    return DRIVER.stream_sync(&d, s, &e) == AS_ELOST && strstr(e.message, "cudaErrorIllegalAddress") ? 0 : 3;
}

static void test_fault_is_reported(void **state) {
    (void)state;
    const int code = in_child(fault);
    if (code == 77)
        skip();
    assert_int_equal(code, 0);
}

/* ---- with a device ---- */

static int open_device(void **state) {
    (void)state;
    as_error e = {0};
    if (DRIVER.open(0, D, &e) == AS_OK && DRIVER.stream_create(D, &stream, &e) == AS_OK)
        return 0;
    fprintf(stderr, "%s\n", e.message);
    return -1;
}

static int close_device(void **state) {
    (void)state;
    DRIVER.stream_destroy(D, stream);
    DRIVER.close(D);
    return 0;
}

static const as_dtype types[] = {AS_F32, AS_F64, AS_BF16, AS_F16, AS_F8E4M3, AS_I8, AS_U8, AS_U32, AS_I32, AS_TF32};
static const as_dist dists[] = {AS_NORMAL, AS_UNIFORM, AS_BITS, AS_ZEROS};
static const as_memory kinds[] = {AS_MEM_DEVICE, AS_MEM_MANAGED, AS_MEM_PINNED, AS_MEM_PAGEABLE};
enum { GUARD = 64, GUARD_BYTE = 0xA5 };

static void check_fill(as_memory kind, as_dtype type, as_dist dist, uint64_t count) {
    const uint64_t seed = 0x123456789ABCDEF0u;
    const size_t bytes = count * as_dtype_bytes(type);
    void *there;
    unsigned char *want = malloc(bytes + GUARD), *got = malloc(bytes + GUARD);
    assert_true(want && got);
    assert_ok(DRIVER.alloc(D, kind, bytes + GUARD, &there, e));
    assert_ok(DRIVER.set(D, there, GUARD_BYTE, bytes + GUARD, e));
    assert_ok(DRIVER.fill(D, kind, there, type, dist, count, seed, 7, e));
    assert_ok(DRIVER.copy(D, got, there, bytes + GUARD, e));
    memset(want, GUARD_BYTE, bytes + GUARD);
    as_rng_fill(want, type, dist, 0, count, seed, 7);
    if (memcmp(want, got, bytes + GUARD) != 0)
        fail_msg("%s, distribution %d, %llu elements, memory %d differ from the host's", as_dtype_name(type), (int)dist,
                 (unsigned long long)count, (int)kind);
    DRIVER.release(D, kind, there);
    free(want);
    free(got);
}

static void test_fill_equals_host(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 3, 5, 17, 1001, 70001};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t d = 0; d < sizeof dists / sizeof *dists; d++) {
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check_fill(AS_MEM_DEVICE, types[t], dists[d], counts[c]);
            check_fill(AS_MEM_DEVICE, types[t], dists[d], 3000017); /* over one grid */
        }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        check_fill(kinds[k], AS_BF16, AS_NORMAL, 4099);
}

/* Elements around index 2^32 come from another counter word. */
static void test_fill_across_2_32(void **state) {
    (void)state;
    enum { WINDOW = 4099 };
    const uint64_t count = ((uint64_t)1 << 32) + 2050;
    size_t free_bytes, total_bytes;
    assert_ok(DRIVER.memory(D, &free_bytes, &total_bytes, e));
    if (free_bytes < count + ((size_t)1 << 30))
        skip();
    unsigned char want[WINDOW], got[WINDOW];
    void *there;
    assert_ok(DRIVER.alloc(D, AS_MEM_DEVICE, count, &there, e));
    for (size_t d = 0; d < 3; d++) {
        assert_ok(DRIVER.fill(D, AS_MEM_DEVICE, there, AS_F8E4M3, dists[d], count, 42, 3, e));
        assert_ok(DRIVER.copy(D, got, (unsigned char *)there + count - WINDOW, WINDOW, e));
        as_rng_fill(want, AS_F8E4M3, dists[d], count - WINDOW, WINDOW, 42, 3);
        assert_memory_equal(want, got, WINDOW);
    }
    DRIVER.release(D, AS_MEM_DEVICE, there);
}

static void test_copy_between_all_kinds(void **state) {
    (void)state;
    enum { N = 100003 };
    unsigned char *want = malloc(N), *got = malloc(N);
    as_rng_fill(want, AS_U8, AS_BITS, 0, N, 1, 1);
    for (size_t a = 0; a < sizeof kinds / sizeof *kinds; a++)
        for (size_t b = 0; b < sizeof kinds / sizeof *kinds; b++) {
            void *from, *to;
            assert_ok(DRIVER.alloc(D, kinds[a], N, &from, e));
            assert_ok(DRIVER.alloc(D, kinds[b], N, &to, e));
            assert_ok(DRIVER.copy(D, from, want, N, e));
            assert_ok(DRIVER.set(D, to, 0, N, e));
            assert_ok(DRIVER.copy(D, (char *)to + 1, (char *)from + 3, N - 5, e));
            assert_ok(DRIVER.copy(D, got, to, N, e));
            assert_int_equal(got[0], 0);
            assert_memory_equal(got + 1, want + 3, N - 5);
            assert_int_equal(got[N - 4], 0);
            DRIVER.release(D, kinds[a], from);
            DRIVER.release(D, kinds[b], to);
        }
    free(want);
    free(got);
}

static void test_events_time_the_device(void **state) {
    (void)state;
    const as_cuda_link spin = {1000000, NULL};
    as_event from, to;
    double ns = -1;
    assert_ok(DRIVER.event_create(D, &from, e));
    assert_ok(DRIVER.event_create(D, &to, e));
    for (int i = 0; i < 3; i++) {
        assert_ok(DRIVER.event_record(D, from, stream, e));
        assert_ok(as_cuda_link_launch(&spin, (cudaStream_t)stream, e));
        assert_ok(DRIVER.event_record(D, to, stream, e));
        assert_ok(DRIVER.stream_sync(D, stream, e));
        assert_ok(DRIVER.event_elapsed(D, from, to, &ns, e));
    }
    assert_true(ns > 0.99e6 && ns < 1.2e6);
    DRIVER.event_destroy(D, from);
    DRIVER.event_destroy(D, to);
}

static uint64_t read_counter(void *counter) {
    uint64_t value = 0;
    assert_ok(DRIVER.copy(D, &value, counter, sizeof value, e));
    return value;
}

static void test_graph_replays(void **state) {
    (void)state;
    void *counter;
    as_graph graph;
    assert_ok(DRIVER.alloc(D, AS_MEM_DEVICE, sizeof(uint64_t), &counter, e));
    assert_ok(DRIVER.set(D, counter, 0, sizeof(uint64_t), e));
    const as_cuda_link link = {0, counter};
    assert_ok(DRIVER.capture_begin(D, stream, e));
    for (int i = 0; i < 7; i++)
        assert_ok(as_cuda_link_launch(&link, (cudaStream_t)stream, e));
    assert_ok(DRIVER.capture_end(D, stream, &graph, e));
    assert_int_equal(read_counter(counter), 0); /* capture runs nothing */
    for (int i = 0; i < 5; i++)
        assert_ok(DRIVER.graph_launch(D, graph, stream, e));
    assert_ok(DRIVER.stream_sync(D, stream, e));
    assert_int_equal(read_counter(counter), 35);
    DRIVER.graph_destroy(D, graph);
    DRIVER.release(D, AS_MEM_DEVICE, counter);
}

static void test_out_of_memory_is_survived(void **state) {
    (void)state;
    size_t free_bytes, total_bytes;
    as_error e = {0};
    void *p = &e;
    assert_ok(DRIVER.memory(D, &free_bytes, &total_bytes, e));
    assert_int_equal(DRIVER.alloc(D, AS_MEM_DEVICE, 2 * total_bytes, &p, &e), AS_ENOMEM);
    assert_null(p);
    assert_non_null(strstr(e.message, "cudaErrorMemoryAllocation"));
    check_fill(AS_MEM_DEVICE, AS_F32, AS_NORMAL, 1001); /* launches and checks the last error: nothing is left over */
}

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    assert_non_null(s);
    return s;
}

static void test_describe(void **state) {
    (void)state;
    json_t *o = DRIVER.describe(D);
    static const char *const keys[] = {"name",
                                       "kind",
                                       "model",
                                       "uuid",
                                       "pci_bus_id",
                                       "compute_capability",
                                       "multiprocessors",
                                       "memory_bytes",
                                       "l2_bytes",
                                       "driver",
                                       "driver_api",
                                       "runtime",
                                       "clock_max_hz",
                                       "memory_clock_max_hz",
                                       "memory_bus_bits",
                                       "power_limit_watts",
                                       "ecc",
                                       "mig",
                                       "persistence",
                                       "compute_mode",
                                       "pcie"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_non_null(json_object_get(o, keys[i]));
    assert_int_equal(json_object_size(o), sizeof keys / sizeof *keys);
    assert_string_equal(text_of(o, "name"), "cuda0");
    assert_int_equal(strlen(text_of(o, "uuid")), 40);
    unsigned domain, bus, slot, function;
    assert_int_equal(sscanf(text_of(o, "pci_bus_id"), "%4x:%2x:%2x.%1x", &domain, &bus, &slot, &function), 4);
    assert_true(json_integer_value(json_object_get(o, "multiprocessors")) > 0);
    assert_true(json_number_value(json_object_get(o, "clock_max_hz")) > 1e8);
    char *line = json_dumps(o, JSON_COMPACT);
    print_message("%s\n", line);
    free(line);
    json_decref(o);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void test_counters_are_quick(void **state) {
    (void)state;
    enum { READINGS = 50, MOST_SLOW = 5 };
    json_decref(DRIVER.counters(D)); /* the first asks everything */
    int slow = 0;
    for (int i = 0; i < READINGS; i++) {
        const double begin = now_ns();
        json_t *o = DRIVER.counters(D);
        slow += now_ns() - begin > 2e6;
        assert_true(json_is_object(o));
        if (i == READINGS - 1) {
            char *line = json_dumps(o, JSON_COMPACT);
            print_message("%s\n", line);
            free(line);
        }
        json_decref(o);
    }
    print_message("%d of %d readings over 2 ms\n", slow, READINGS);
    assert_true(slow <= MOST_SLOW);
}

int main(void) {
    const struct CMUnitTest always[] = {
        cmocka_unit_test(test_hidden_devices),
        cmocka_unit_test(test_open_names_the_reason),
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_fault_is_reported),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_equals_host),
        cmocka_unit_test(test_fill_across_2_32),
        cmocka_unit_test(test_copy_between_all_kinds),
        cmocka_unit_test(test_events_time_the_device),
        cmocka_unit_test(test_graph_replays),
        cmocka_unit_test(test_out_of_memory_is_survived),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_counters_are_quick),
    };
    if (cmocka_run_group_tests_name("cuda, no device needed", always, NULL, NULL) != 0)
        return 1;
    const int absent = without_device();
    return absent ? absent : cmocka_run_group_tests_name("cuda device", tests, open_device, close_device) != 0;
}
