/* The CUDA driver's `health`: every check once, and no context made. Without a device all but settings are unknown. */
#include "gpu_test.h"

#include "harness/finding.h"
#include "kernels/cuda/health.h"

#include <dlfcn.h>
#include <jansson.h>
#include <string.h>

static const char *text_of(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

/* 0 where the list holds every check once, in order, about cuda0, with a remedy unless it is ok. */
static int well_formed(const json_t *list, bool print) {
    size_t i = 0;
    for (const as_gpu_check *c = as_gpu_checks; c->rule.name; c++, i++) {
        const json_t *f = json_array_get(list, i);
        if (strcmp(text_of(f, "check"), c->rule.name) != 0 || strcmp(text_of(f, "subject"), "cuda0") != 0 ||
            !*text_of(f, "found"))
            return 1;
        if ((strcmp(text_of(f, "status"), "ok") == 0) != json_is_null(json_object_get(f, "remedy")))
            return 2;
        if (print)
            printf("%-8s %-16s %s\n", text_of(f, "status"), text_of(f, "check"), text_of(f, "found"));
    }
    fflush(stdout);
    return i == json_array_size(list) ? 0 : 3;
}

/* A binary with CUDA on a machine without driver, or with a device that is not there. */
static int no_such_device(void) {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    json_t *list = as_cuda_driver.health(0);
    size_t i;
    json_t *f;
    int rc = well_formed(list, false);
    json_array_foreach(list, i, f) if (strcmp(text_of(f, "check"), "persistence") == 0 && rc == 0) rc =
        strcmp(text_of(f, "status"), "unknown") == 0 ? 0 : 4;
    json_decref(list);
    return rc;
}

static void test_absent_device_is_unknown(void **state) {
    (void)state;
    assert_int_equal(in_child(no_such_device), 0);
}

/* The driver's own word on whether this process has a context: cuDevicePrimaryCtxGetState. */
static int has_context(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*state)(int device, unsigned *flags, int *active);
    unsigned flags = 0;
    int active = -1;
    if (!library)
        return -1;
    *(void **)&state = dlsym(library, "cuDevicePrimaryCtxGetState");
    return state && state(0, &flags, &active) == 0 ? active : -1;
}

static int looked_at(void) {
    int n = 0;
    char reason[256];
    as_error e;
    if (as_cuda_driver.count(&n, reason, &e) != AS_OK || n == 0)
        return 5;
    json_t *list = as_cuda_driver.health(0);
    const int rc = well_formed(list, true);
    const int context = has_context();
    json_decref(list);
    return rc ? rc : context == 0 ? 0 : 6;
}

static void test_health_makes_no_context(void **state) {
    (void)state;
    assert_int_equal(in_child(looked_at), 0);
}

int main(void) {
    const struct CMUnitTest always[] = {cmocka_unit_test(test_absent_device_is_unknown)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_health_makes_no_context)};
    if (cmocka_run_group_tests_name("health, no device needed", always, NULL, NULL) != 0)
        return 1;
    const int absent = without_device();
    return absent ? absent : cmocka_run_group_tests_name("health of a device", tests, NULL, NULL) != 0;
}
