/* The table of nvbandwidth's cases: complete, legal, planned, and as the document shows it. */
#include "suites/nvbandwidth.h"

#include "suites/memcpy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 35, ON_ONE_GPU = 18 };

static const as_device_driver cuda_kind = {.kind = "cuda"};
static const as_device cuda = {.driver = &cuda_kind, .name = "cuda0", .last_level_cache_bytes = 60 << 20};

static void every_case_of_nvbandwidth_stands_once(void **state) {
    (void)state;
    int all = 0, on_one = 0;
    for (const as_nvbandwidth_case *c = as_nvbandwidth_cases; c->name; c++) {
        all++;
        on_one += !c->two_gpus;
        for (const as_nvbandwidth_case *other = as_nvbandwidth_cases; other < c; other++) {
            assert_string_not_equal(c->name, other->name);
            if (strcmp(c->variant, other->variant) == 0)
                assert_string_not_equal(c->axes, other->axes);
        }
    }
    assert_int_equal(all, CASES);
    assert_int_equal(on_one, ON_ONE_GPU);
}

/* One value of an axis in a point: "dir=h2d,d2h" has h2d. A point that leaves the axis out has its default. */
static bool point_has(const as_point *point, const as_param *v) {
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", point->axes);
    for (char *axis; (axis = strsep(&rest, ";"));) {
        char *values = axis;
        if (strcmp(strsep(&values, "="), v->axis->name) != 0)
            continue;
        for (char *value; (value = strsep(&values, ","));)
            if (strcmp(value, v->text) == 0)
                return true;
        return false;
    }
    return as_param_is_default(v);
}

static bool lists(const char *variants, const char *name) {
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", variants);
    for (char *one; (one = strsep(&rest, ","));)
        if (strcmp(one, name) == 0)
            return true;
    return false;
}

static bool planned(const char *variant, const as_params *p) {
    for (const as_point *point = as_memcpy_suite.points; point->variants; point++) {
        bool has = strcmp(point->on, "cuda") == 0 && lists(point->variants, variant);
        for (int i = 0; i < p->count && has; i++)
            has = point_has(point, &p->value[i]);
        if (has)
            return true;
    }
    return false;
}

static void every_case_is_legal_and_planned(void **state) {
    (void)state;
    for (const as_nvbandwidth_case *c = as_nvbandwidth_cases; c->name; c++) {
        const as_variant v = {.name = c->variant, .on = "cuda"};
        char text[128], *rest = text;
        as_params p;
        as_work w;
        as_error e = {0};
        assert_int_equal(as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, &e), AS_OK);
        snprintf(text, sizeof text, "%s", c->axes);
        for (char *pair; (pair = strsep(&rest, ";"));) {
            char *value = pair;
            const char *axis = strsep(&value, "=");
            if (as_params_set(&p, axis, value, &e) != AS_OK)
                fail_msg("%s: %s", c->name, e.message);
        }
        if (as_memcpy_suite.describe(&p, &v, &cuda, &w, &e) != AS_OK)
            fail_msg("%s: %s", c->name, e.message);
        if (!planned(c->variant, &p))
            fail_msg("%s: no profile has %s %s", c->name, c->variant, c->axes);
        const as_memcpy_dir dir = as_memcpy_dir_of(&p);
        assert_int_equal(c->two_gpus, dir == AS_P2D || dir == AS_D2P);
        /* nvbandwidth's buffer: 512 MiB, of which one kernel for both directions moves half each way */
        const double n = w.bytes_read;
        if (strcmp(c->variant, "latency") != 0)
            assert_true(n == 536870912 ||
                        (n == 268435456 && strstr(c->name, "bidirectional") && strstr(c->name, "_sm")));
    }
}

static void document_shows_the_table(void **state) {
    (void)state;
    char *table = NULL, *document = calloc(1, 1 << 16);
    size_t size = 0;
    FILE *to = open_memstream(&table, &size), *from = fopen(ASSAY_SOURCE_DIR "/docs/nvbandwidth.md", "r");
    assert_non_null(to);
    assert_non_null(from);
    assert_non_null(document);
    as_nvbandwidth_print(to);
    fclose(to);
    assert_true(fread(document, 1, (1 << 16) - 1, from) > size);
    fclose(from);
    if (!strstr(document, table))
        fail_msg("docs/nvbandwidth.md lacks this table:\n%s", table);
    free(table);
    free(document);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_nvbandwidth_stands_once),
        cmocka_unit_test(every_case_is_legal_and_planned),
        cmocka_unit_test(document_shows_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
