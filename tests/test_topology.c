/* Caches, counts and cgroup limits: from a recorded topology, from fake file trees, from the real machine. */
#include "fake_tree.h"
#include "place_internal.h"
#include "sysfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)

static int setup(void **state) {
    static fake_tree tree;
    fake_tree_init(&tree);
    *state = &tree;
    return 0;
}

static int teardown(void **state) {
    fake_tree_free(*state);
    return 0;
}

static void memory_of_8_gib(const fake_tree *t) {
    fake_tree_write(t, "/proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n");
}

/* ---- number parsing ---- */

static void small_files_are_parsed_strictly(void **state) {
    const fake_tree *t = *state;
    uint64_t n;
    char text[64];
    double d;
    int first = -1;
    fake_tree_write(t, "/n", "42\n");
    fake_tree_write(t, "/max", "max\n");
    fake_tree_write(t, "/tail", "42 kB\n");
    assert_true(as_sysfile_uint(t->root, "/n", &n));
    assert_int_equal(n, 42);
    assert_false(as_sysfile_uint(t->root, "/max", &n));
    assert_false(as_sysfile_uint(t->root, "/tail", &n));
    assert_false(as_sysfile_uint(t->root, "/missing", &n));
    assert_true(as_sysfile_field("a : 1\nb\t: two words \nc:3", "b", text, sizeof text));
    assert_string_equal(text, "two words");
    assert_true(as_sysfile_field("a : 1\nc:3", "c", text, sizeof text));
    assert_string_equal(text, "3");
    assert_false(as_sysfile_field("ab : 1\n", "a", text, sizeof text));
    assert_true(as_sysfile_decimal("12.5 x", NULL, &d));
    assert_true(d == 12.5);
    assert_false(as_sysfile_decimal("-1", NULL, &d));
    assert_int_equal(as_sysfile_list_count("4-7,2", &first), 5);
    assert_int_equal(first, 2);
    assert_int_equal(as_sysfile_list_count("3-1", NULL), 0);
    assert_int_equal(as_sysfile_list_count("", NULL), 0);
    assert_int_equal(as_sysfile_list_count("1,x", NULL), 0);
}

/* ---- caches and counts ---- */

static void recorded_topology_tells_caches(void **state) {
    const fake_tree *t = *state; /* empty: nothing can come from files */
    hwloc_topology_t h;
    as_topology_info info;
    assert_int_equal(hwloc_topology_init(&h), 0);
    assert_int_equal(hwloc_topology_set_xml(h, ASSAY_SOURCE_DIR "/tests/fixtures/topology/two_packages_smt.xml"), 0);
    assert_int_equal(hwloc_topology_load(h), 0);
    as_topology_fill(h, t->root, &info);
    hwloc_topology_destroy(h);
    assert_int_equal(info.l1d_bytes, 32000);
    assert_int_equal(info.l2_bytes, 1000000);
    assert_int_equal(info.l3_bytes, 32000000);
    assert_int_equal(info.l1d_shared_by, 2);
    assert_int_equal(info.l3_shared_by, 8);
    assert_int_equal(info.packages, 2);
    assert_int_equal(info.cores, 8);
    assert_int_equal(info.hardware_threads, 16);
    assert_int_equal(info.numa_nodes, 2);
}

static void sysfs_stands_in_for_hwloc(void **state) {
    const fake_tree *t = *state;
    as_topology_info info;
    char path[96];
    /* two packages, each two cores with two threads; core ids repeat across packages */
    for (int cpu = 0; cpu < 8; cpu++) {
        char number[8];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
        fake_tree_write(t, path, cpu < 4 ? "0\n" : "1\n");
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        snprintf(number, sizeof number, "%d\n", cpu % 2);
        fake_tree_write(t, path, number);
    }
    static const char *const caches[][4] = {{"1", "Data", "48K", "0,4"},
                                            {"1", "Instruction", "32K", "0,4"},
                                            {"2", "Unified", "2048K", "0,4"},
                                            {"3", "Unified", "60M", "0-3"}};
    static const char *const names[] = {"level", "type", "size", "shared_cpu_list"};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", (i + 1) % 4, names[k]);
            fake_tree_write(t, path, caches[i][k]);
        }
    fake_tree_write(t, "/sys/devices/system/cpu/online", "0-7\n");
    fake_tree_write(t, "/sys/devices/system/node/online", "0-1\n");
    memory_of_8_gib(t);
    as_topology_fill(NULL, t->root, &info);
    assert_int_equal(info.packages, 2);
    assert_int_equal(info.cores, 4);
    assert_int_equal(info.hardware_threads, 8);
    assert_int_equal(info.numa_nodes, 2);
    assert_int_equal(info.l1d_bytes, 48 << 10);
    assert_int_equal(info.l1d_shared_by, 2);
    assert_int_equal(info.l2_bytes, 2048 << 10);
    assert_int_equal(info.l3_bytes, 60 << 20);
    assert_int_equal(info.l3_shared_by, 4);
    assert_int_equal(info.memory_bytes, 8 * GIB);
    assert_int_equal(info.memory_limit_bytes, 8 * GIB);
}

static void nothing_known_is_zero_not_a_guess(void **state) {
    const fake_tree *t = *state;
    as_topology_info info;
    as_topology_fill(NULL, t->root, &info);
    assert_int_equal(info.l1d_bytes + info.l2_bytes + info.l3_bytes, 0);
    assert_int_equal(info.memory_bytes, 0);
    assert_true(info.cpu_quota == 0);
    assert_int_equal(info.cores, 1);
    assert_int_equal(info.packages, 1);
}

static void real_machine_is_plausible(void **state) {
    (void)state;
    as_topology_info info;
    as_error e;
    assert_int_equal(as_topology_read(&info, &e), AS_OK);
    assert_true(info.cores >= 1 && info.hardware_threads >= info.cores && info.packages <= info.cores);
    assert_true(info.memory_bytes > 64 << 20);
    assert_true(info.memory_limit_bytes > 0 && info.memory_limit_bytes <= info.memory_bytes);
}

/* ---- cgroups ---- */

static void v2_tightest_ancestor_counts(void **state) {
    const fake_tree *t = *state;
    as_cgroup g;
    as_topology_info info;
    fake_tree_write(t, "/proc/self/cgroup", "0::/a/b/c\n");
    fake_tree_write(t, "/proc/self/mountinfo",
                    "24 23 0:22 / /proc rw - proc proc rw\n"
                    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/b/memory.max", "2147483648\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/b/memory.current", "1610612736\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_file 536870912\nactive_file 7\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/memory.max", "4294967296\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/cpuset.cpus.effective", "0-3\n");
    memory_of_8_gib(t);
    as_cgroup_read(t->root, &g);
    assert_int_equal(g.memory_limit_bytes, 2 * GIB);
    assert_int_equal(g.memory_free_bytes, GIB); /* 2 GiB - (1.5 GiB - 0.5 GiB of page cache) */
    assert_true(g.cpu_quota == 1.5);
    assert_string_equal(g.cpuset, "0-3");
    as_topology_fill(NULL, t->root, &info);
    assert_int_equal(info.memory_limit_bytes, 2 * GIB);
    assert_int_equal(info.memory_bytes, 8 * GIB);
    assert_true(info.cpu_quota == 1.5);
}

static void processes_killed_for_memory(void **state) {
    const fake_tree *t = *state;
    assert_int_equal(as_cgroup_oom_kills(t->root), -1); /* no cgroup: nobody tells */
    fake_tree_write(t, "/proc/self/cgroup", "0::/a\n");
    fake_tree_write(t, "/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    fake_tree_write(t, "/sys/fs/cgroup/a/memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n");
    assert_int_equal(as_cgroup_oom_kills(t->root), 2);
    fake_tree_write(t, "/sys/fs/cgroup/a/memory.events", "low 0\n"); /* older kernels */
    assert_int_equal(as_cgroup_oom_kills(t->root), -1);
    fake_tree_write(t, "/proc/self/cgroup", "4:memory:/x\n");
    fake_tree_write(t, "/proc/self/mountinfo", "32 30 0:30 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    fake_tree_write(t, "/sys/fs/cgroup/memory/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    assert_int_equal(as_cgroup_oom_kills(t->root), 5);
}

static void v2_inside_a_cgroup_namespace(void **state) {
    const fake_tree *t = *state;
    as_cgroup g;
    fake_tree_write(t, "/proc/self/cgroup", "0::/\n");
    fake_tree_write(t, "/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    fake_tree_write(t, "/sys/fs/cgroup/memory.max", "1073741824\n");
    fake_tree_write(t, "/sys/fs/cgroup/memory.current", "2073741824\n"); /* above its limit: nothing is left */
    fake_tree_write(t, "/sys/fs/cgroup/cpu.max", "50000 100000\n");
    as_cgroup_read(t->root, &g);
    assert_int_equal(g.memory_limit_bytes, GIB);
    assert_int_equal(g.memory_free_bytes, 0);
    assert_true(g.cpu_quota == 0.5);
}

static void v1_container_sees_its_own_part(void **state) {
    const fake_tree *t = *state;
    as_cgroup g;
    fake_tree_write(t, "/proc/self/cgroup", "9:cpuset:/docker/x\n5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n");
    fake_tree_write(t, "/proc/self/mountinfo",
                    "31 30 0:29 /docker/x /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
                    "32 30 0:30 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
                    "33 30 0:31 /docker/x /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
                    "34 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    fake_tree_write(t, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
    fake_tree_write(t, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
    fake_tree_write(t, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    fake_tree_write(t, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    fake_tree_write(t, "/sys/fs/cgroup/cpuset/cpuset.cpus", "2\n");
    as_cgroup_read(t->root, &g);
    assert_int_equal(g.memory_limit_bytes, 3 * GIB);
    assert_int_equal(g.memory_free_bytes, 2 * GIB);
    assert_true(g.cpu_quota == 2);
    assert_string_equal(g.cpuset, "2");
}

static void v1_none_is_no_limit(void **state) {
    const fake_tree *t = *state;
    as_cgroup g;
    fake_tree_write(t, "/proc/self/cgroup", "5:cpu:/\n4:memory:/\n");
    fake_tree_write(t, "/proc/self/mountinfo",
                    "31 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                    "32 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    fake_tree_write(t, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    fake_tree_write(t, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    fake_tree_write(t, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    as_cgroup_read(t->root, &g);
    assert_int_equal(g.memory_limit_bytes, 0);
    assert_true(g.memory_free_bytes == UINT64_MAX);
    assert_true(g.cpu_quota == 0);
}

static void odd_cgroup_files_do_no_harm(void **state) {
    const fake_tree *t = *state;
    as_cgroup g;
    as_cgroup_read(t->root, &g); /* nothing there at all */
    assert_int_equal(g.memory_limit_bytes, 0);
    assert_string_equal(g.cpuset, "");
    fake_tree_write(t, "/proc/self/cgroup", "nonsense\n0::/../../other\n");
    fake_tree_write(t, "/proc/self/mountinfo", "short - line\n30 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 c rw\n");
    fake_tree_write(t, "/sys/fs/cgroup/memory.max", "1073741824\n");
    fake_tree_write(t, "/sys/fs/cgroup/cpu.max", "garbage\n");
    as_cgroup_read(t->root, &g);
    assert_int_equal(g.memory_limit_bytes, GIB);
    assert_true(g.cpu_quota == 0);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_TREE(small_files_are_parsed_strictly),    ON_TREE(recorded_topology_tells_caches),
        ON_TREE(sysfs_stands_in_for_hwloc),          ON_TREE(nothing_known_is_zero_not_a_guess),
        cmocka_unit_test(real_machine_is_plausible), ON_TREE(v2_tightest_ancestor_counts),
        ON_TREE(processes_killed_for_memory),        ON_TREE(v2_inside_a_cgroup_namespace),
        ON_TREE(v1_container_sees_its_own_part),     ON_TREE(v1_none_is_no_limit),
        ON_TREE(odd_cgroup_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
