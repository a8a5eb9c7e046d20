/* Placement on recorded and synthetic machines, then binding on the real one. */
#include "place.h"
#include "place_internal.h"

#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TWO_PACKAGES ASSAY_SOURCE_DIR "/tests/fixtures/topology/two_packages_smt.xml"

/* Two packages of four cores with two hardware threads: core c has CPUs c and c + 8; an accelerator at 65:00.0
 * hangs on the second package, one at 01:00.0 on the whole machine. */
static hwloc_topology_t recorded(void) {
    hwloc_topology_t t;
    assert_int_equal(hwloc_topology_init(&t), 0);
    assert_int_equal(hwloc_topology_set_xml(t, TWO_PACKAGES), 0);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
    assert_int_equal(hwloc_topology_load(t), 0);
    return t;
}

static hwloc_topology_t synthetic(const char *text) {
    hwloc_topology_t t;
    assert_int_equal(hwloc_topology_init(&t), 0);
    assert_int_equal(hwloc_topology_set_synthetic(t, text), 0);
    assert_int_equal(hwloc_topology_load(t), 0);
    return t;
}

/* Resolves on `t` with the CPUs of the list `allowed`, and destroys `t`. */
static as_status resolve(hwloc_topology_t t, const char *allowed, const char *cpus, const char *pci, as_placement *out,
                         as_error *e) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    as_place_request request = {.cpus = cpus, .near_pci = pci};
    assert_int_equal(hwloc_bitmap_list_sscanf(set, allowed), 0);
    as_status s = as_place_resolve_in(t, set, &request, out, e);
    hwloc_bitmap_free(set);
    if (t)
        hwloc_topology_destroy(t);
    return s;
}

static void expect_cpus(const as_placement *p, const int *cpu, int n) {
    assert_int_equal(p->cpus, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(p->cpu[i], cpu[i]);
}

static bool warned(const as_placement *p, const char *part) {
    for (int i = 0; i < p->warnings; i++)
        if (strstr(p->warning[i], part))
            return true;
    return false;
}

/* ---- lists ---- */

static void list_is_parsed(void **state) {
    (void)state;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    char text[64];
    as_error e;
    assert_int_equal(as_place_parse("8,0-3", set, &e), AS_OK);
    hwloc_bitmap_list_snprintf(text, sizeof text, set);
    assert_string_equal(text, "0-3,8");
    assert_int_equal(as_place_parse("7", set, &e), AS_OK);
    assert_int_equal(hwloc_bitmap_weight(set), 1);
    hwloc_bitmap_free(set);
}

static void malformed_list_is_usage(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",        " ",         "a",  "0,", ",0",  "0-",  "-1",    "3-1", "0,,1", "0-1-2",
        "0x1",     "1 ",        " 1", "+1", "1.0", "0,0", "0-3,2", "1;2", "all",  "99999999999999999999",
        "1000000", "0-99999999"};
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        as_error e = {0};
        if (as_place_parse(bad[i], set, &e) != AS_EUSAGE)
            fail_msg("'%s' was accepted", bad[i]);
        assert_non_null(strstr(e.message, bad[i]));
    }
    hwloc_bitmap_free(set);
}

/* ---- choosing ---- */

static void one_thread_of_each_core_comes_first(void **state) {
    (void)state;
    static const int expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    as_placement p;
    assert_int_equal(resolve(recorded(), "0-15", NULL, NULL, &p, NULL), AS_OK);
    expect_cpus(&p, expected, 16);
    assert_int_equal(p.cores, 8);
    assert_int_equal(p.numa_node, -1);
    assert_false(p.chosen_by_user);
    assert_true(warned(&p, "span 2 NUMA nodes"));
    assert_true(warned(&p, "recorded"));
}

static void device_locality_narrows_the_choice(void **state) {
    (void)state;
    static const int expected[] = {4, 5, 6, 7, 12, 13, 14, 15};
    as_placement p;
    assert_int_equal(resolve(recorded(), "0-15", NULL, "0000:65:00.0", &p, NULL), AS_OK);
    expect_cpus(&p, expected, 8);
    assert_int_equal(p.cores, 4);
    assert_int_equal(p.numa_node, 1);
    assert_false(warned(&p, "NUMA"));
}

static void unknown_locality_is_recorded(void **state) {
    (void)state;
    as_placement p;
    assert_int_equal(resolve(recorded(), "0-15", NULL, "0000:01:00.0", &p, NULL), AS_OK);
    assert_int_equal(p.cpus, 16);
    assert_true(warned(&p, "unknown (-1)"));
    assert_int_equal(resolve(recorded(), "0-15", NULL, "0000:99:00.0", &p, NULL), AS_OK);
    assert_int_equal(p.cpus, 16);
    assert_true(warned(&p, "not visible"));
    assert_int_equal(resolve(recorded(), "0-3", NULL, "0000:65:00.0", &p, NULL), AS_OK);
    assert_int_equal(p.cpus, 4);
    assert_true(warned(&p, "no allowed CPU is near"));
}

static void user_list_wins_over_locality(void **state) {
    (void)state;
    static const int expected[] = {0, 1, 8};
    as_placement p;
    assert_int_equal(resolve(recorded(), "0-15", "8,0-1", "0000:65:00.0", &p, NULL), AS_OK);
    expect_cpus(&p, expected, 3);
    assert_int_equal(p.cores, 2);
    assert_int_equal(p.numa_node, 0);
    assert_true(p.chosen_by_user);
    assert_int_equal(resolve(recorded(), "0-15", "12", NULL, &p, NULL), AS_OK);
    assert_int_equal(p.cpu[0], 12);
    assert_int_equal(p.cores, 1);
}

static void forbidden_cpus_are_named(void **state) {
    (void)state;
    as_placement p;
    as_error e = {0};
    assert_int_equal(resolve(recorded(), "0-3", "2-5", NULL, &p, &e), AS_EENV);
    assert_non_null(strstr(e.message, ": 0-3 "));
    assert_int_equal(resolve(recorded(), "0-15", "8000", NULL, &p, &e), AS_EENV);
    assert_non_null(strstr(e.message, "0-15"));
    assert_int_equal(resolve(recorded(), "0-15", "0-", NULL, &p, &e), AS_EUSAGE);
}

static void cpuset_of_one_core(void **state) {
    (void)state;
    static const int one[] = {3}, siblings[] = {3, 11};
    as_placement p;
    assert_int_equal(resolve(recorded(), "3", NULL, NULL, &p, NULL), AS_OK);
    expect_cpus(&p, one, 1);
    assert_int_equal(p.cores, 1);
    assert_int_equal(p.numa_node, 0);
    assert_int_equal(resolve(recorded(), "3,11", NULL, NULL, &p, NULL), AS_OK);
    expect_cpus(&p, siblings, 2);
    assert_int_equal(p.cores, 1);
}

static void hidden_topology_degrades(void **state) {
    (void)state;
    static const int expected[] = {0, 2, 5};
    as_placement p;
    assert_int_equal(resolve(NULL, "0,2,5", NULL, "0000:65:00.0", &p, NULL), AS_OK);
    expect_cpus(&p, expected, 3);
    assert_int_equal(p.cores, 3);
    assert_int_equal(p.numa_node, -1);
    assert_true(warned(&p, "core topology is hidden"));
    assert_int_equal(resolve(synthetic("pu:4"), "0-3", NULL, NULL, &p, NULL), AS_OK);
    assert_int_equal(p.cpus, 4);
    assert_int_equal(p.cores, 4);
    assert_true(warned(&p, "core topology is hidden"));
}

static void too_many_cpus_are_cut_with_a_warning(void **state) {
    (void)state;
    as_placement p;
    assert_int_equal(resolve(synthetic("core:1100 pu:1"), "0-1099", NULL, NULL, &p, NULL), AS_OK);
    assert_int_equal(p.cpus, AS_MAX_CPUS);
    assert_true(warned(&p, "1024 of 1100"));
}

/* ---- the real machine ---- */

static cpu_set_t before;

static int save_affinity(void **state) {
    (void)state;
    return sched_getaffinity(0, sizeof before, &before);
}

static int restore_affinity(void **state) {
    (void)state;
    return sched_setaffinity(0, sizeof before, &before);
}

static void allowed_set_is_respected(void **state) {
    (void)state;
    as_placement all, p;
    as_error e;
    char text[16];
    assert_int_equal(as_place_resolve(NULL, &all, &e), AS_OK);
    assert_int_equal(all.cpus, CPU_COUNT(&before));
    assert_true(all.cores >= 1 && all.cores <= all.cpus);
    if (all.cpus < 2)
        skip();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(all.cpu[1], &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(as_place_resolve(NULL, &p, &e), AS_OK);
    expect_cpus(&p, &all.cpu[1], 1);
    snprintf(text, sizeof text, "%d", all.cpu[0]);
    assert_int_equal(as_place_resolve(&(as_place_request){.cpus = text}, &p, &e), AS_EENV);
    snprintf(text, sizeof text, ": %d ", all.cpu[1]);
    assert_non_null(strstr(e.message, text));
}

static void binding_takes_effect_and_is_seen(void **state) {
    (void)state;
    as_placement p;
    as_error e;
    assert_int_equal(as_place_resolve(NULL, &p, &e), AS_OK);
    for (int k = 0; k < p.cpus; k++) {
        assert_int_equal(as_place_bind(&p, k, &e), AS_OK);
        assert_int_equal(sched_getcpu(), p.cpu[k]);
        assert_true(as_place_holds(&p, k));
        assert_int_equal(as_place_holds(&p, (k + 1) % p.cpus), p.cpus == 1);
    }
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(as_place_holds(&p, 0), p.cpus == 1); /* a lost placement is noticed */
    assert_false(as_place_holds(&p, -1));
    assert_false(as_place_holds(&p, p.cpus));
}

static void impossible_binding_is_refused(void **state) {
    (void)state;
    as_error e;
    as_placement p = {.cpus = 2, .cpu = {8191, -1}, .cores = 2, .numa_node = -1};
    assert_int_equal(as_place_bind(&p, 0, &e), AS_EENV);
    assert_int_equal(as_place_bind(&p, 1, &e), AS_EENV);
    assert_int_equal(as_place_bind(&p, 2, &e), AS_EENV);
    assert_int_equal(as_place_bind_process(&p, &e), AS_EENV);
}

static void *idle(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE))
        usleep(200);
    return NULL;
}

static void whole_process_is_bound_and_read_back(void **state) {
    (void)state;
    as_placement p, first;
    as_error e;
    int stop = 0;
    pthread_t other;
    cpu_set_t set;
    assert_int_equal(as_place_resolve(NULL, &p, &e), AS_OK);
    assert_int_equal(pthread_create(&other, NULL, idle, &stop), 0);
    first = p;
    first.cpus = first.cores = 1;
    assert_int_equal(as_place_bind_process(&first, &e), AS_OK);
    assert_int_equal(pthread_getaffinity_np(other, sizeof set, &set), 0);
    assert_int_equal(CPU_COUNT(&set), 1);
    assert_true(CPU_ISSET(p.cpu[0], &set));

    json_t *o = as_place_json(&first);
    assert_non_null(o);
    json_t *back = json_object_get(o, "read_back");
    assert_int_equal(json_array_size(back), 1);
    assert_int_equal(json_integer_value(json_array_get(back, 0)), p.cpu[0]);
    assert_string_equal(json_string_value(json_object_get(o, "chosen_by")), "default");
    assert_int_equal(json_array_size(json_object_get(o, "cpus")), 1);
    assert_non_null(json_object_get(o, "numa_node"));
    assert_non_null(json_object_get(o, "memory_policy"));
    json_decref(o);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_is_parsed),
        cmocka_unit_test(malformed_list_is_usage),
        cmocka_unit_test(one_thread_of_each_core_comes_first),
        cmocka_unit_test(device_locality_narrows_the_choice),
        cmocka_unit_test(unknown_locality_is_recorded),
        cmocka_unit_test(user_list_wins_over_locality),
        cmocka_unit_test(forbidden_cpus_are_named),
        cmocka_unit_test(cpuset_of_one_core),
        cmocka_unit_test(hidden_topology_degrades),
        cmocka_unit_test(too_many_cpus_are_cut_with_a_warning),
        cmocka_unit_test_setup_teardown(allowed_set_is_respected, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(binding_takes_effect_and_is_seen, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(impossible_binding_is_refused, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(whole_process_is_bound_and_read_back, save_affinity, restore_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
