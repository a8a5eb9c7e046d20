/* From points to cases, ceilings, groups and budget; devices that are there, absent or broken. */
#include "plan.h"
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

static as_options options;

static void parse(const char *words) {
    static char text[512];
    char *argv[32] = {(char *)"assay", (char *)"run"}, *save = NULL;
    int argc = 2;
    bool help;
    as_error e;
    snprintf(text, sizeof text, "%s", words);
    for (char *w = strtok_r(text, " ", &save); w && argc < 32; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    if (as_options_parse(&options, argc, argv, &help, &e) != AS_OK)
        fail_msg("%s: %s", words, e.message);
}

static void build(as_plan *plan, const char *words) {
    as_error e = {0};
    parse(words);
    if (as_plan_build(plan, &fake_registry, &options, &e) != AS_OK)
        fail_msg("%s: %s", words, e.message);
}

static void release(as_plan *plan) {
    as_plan_free(plan);
    as_options_free(&options);
}

static void refused(const as_registry *registry, const char *words, as_status status, const char *says) {
    as_plan plan;
    as_error e = {0};
    parse(words);
    const as_status s = as_plan_build(&plan, registry, &options, &e);
    if (s != status)
        fail_msg("%s: %s instead of %s (%s)", words, as_status_name(s), as_status_name(status), e.message);
    if (!strstr(e.message, says))
        fail_msg("%s: '%s' does not mention '%s'", words, e.message, says);
    release(&plan);
}

static const as_case *find(const as_plan *plan, const char *id) {
    for (int i = 0; i < plan->count; i++)
        if (strcmp(plan->cases[i].id, id) == 0)
            return &plan->cases[i];
    return NULL;
}

static int selected(const char *words) {
    as_plan plan;
    build(&plan, words);
    const int n = plan.count - plan.ceilings;
    release(&plan);
    return n;
}

/* ---- cases ---- */

static void cross_products(void **unused) {
    (void)unused;
    as_plan plan;
    build(&plan, "--suite vector --device cpu");
    static const char *const product[] = {
        "vector/good/n:64/dev:cpu",
        "vector/other/n:64/dev:cpu",
        "vector/good/n:64/cache:cold/dev:cpu",
        "vector/other/n:64/cache:cold/dev:cpu",
        "vector/good/dev:cpu",
        "vector/other/dev:cpu",
        "vector/good/cache:cold/dev:cpu",
        "vector/other/cache:cold/dev:cpu",
        "vector/good/n:8192/dev:cpu",
    };
    for (size_t i = 0; i < sizeof product / sizeof *product; i++)
        assert_string_equal(plan.cases[i].id, product[i]); /* leftmost axis outermost, then variants */
    assert_int_equal(plan.count - plan.ceilings, 9 + 8);
    for (int i = 0; i < plan.count; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(plan.cases[i].id, plan.cases[k].id);
    assert_null(find(&plan, "vector/good/us:900000/dev:cpu")); /* an operation too long for a quick run */
    release(&plan);
}

static void profiles_include_the_smaller_ones(void **unused) {
    (void)unused;
    const char *const good = "--suite vector --device cpu --filter /good/";
    char words[128];
    assert_int_equal(selected(good), 5);
    snprintf(words, sizeof words, "%s --profile standard", good);
    assert_int_equal(selected(words), 7); /* n:16384, and 0.9 s operations are allowed */
    snprintf(words, sizeof words, "%s --profile publish", good);
    assert_int_equal(selected(words), 8);
}

static void cold_copies_exceed_the_cache(void **unused) {
    (void)unused;
    as_plan plan;
    build(&plan, "--suite vector --device cpu --filter ^vector/good/(cache:cold/)?dev");
    const as_case *warm = find(&plan, "vector/good/dev:cpu"), *cold = find(&plan, "vector/good/cache:cold/dev:cpu");
    const double cache = (double)cold->device->last_level_cache_bytes, set = 12.0 * 4096;
    assert_int_equal(warm->copies, 1);
    assert_int_equal(warm->bytes, 12 * 4096);
    assert_int_equal(cold->copies, (int)fmax(1, ceil(3 * cache / set)));
    assert_int_equal(cold->bytes, (size_t)cold->copies * 12 * 4096);
    release(&plan);
}

/* ---- selection ---- */

static void filters(void **unused) {
    (void)unused;
    assert_int_equal(selected("--filter ^(copy|effect)/good/"), 2);
    refused(&fake_registry, "--filter no_such_case", AS_EUSAGE, "--filter 'no_such_case'");
    refused(&fake_registry, "--filter (", AS_EUSAGE, "--filter '(' does not compile");
    refused(&fake_registry, "--filter [z-a]", AS_EUSAGE, "does not compile");
    refused(&fake_registry, "--suite vectr", AS_EUSAGE,
            "--suite vectr: unknown; there are vector, copy, effect, fault");
    refused(&fake_registry, "--suite copy --device fake", AS_EUSAGE, "no case matches");
}

static void listed(const char *text, int expected, const char *complaint) {
    char *folder = fake_folder(), words[256];
    snprintf(words, sizeof words, "%s/ids", folder);
    FILE *f = fopen(words, "w");
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    snprintf(words, sizeof words, "--cases %s/ids", folder);
    if (complaint)
        refused(&fake_registry, words, AS_EUSAGE, complaint);
    else
        assert_int_equal(selected(words), expected);
    fake_remove_folder(folder);
}

static void case_files(void **unused) {
    (void)unused;
    listed("vector/good/dev:cpu\ncopy/good/dev:cpu\n", 2, NULL);
    listed("vector/good/dev:cpu\r\n\r\ncopy/good/dev:cpu", 2, NULL); /* from another system, no last line end */
    listed("vector/good/dev:cp\n", 0, "'vector/good/dev:cp' is no case of this plan"); /* a prefix is no match */
    listed("vector/good/dev:cpu\nvector/god/dev:cpu\n", 0, "'vector/god/dev:cpu' is no case of this plan");
    listed("", 0, "the file is empty");
    refused(&fake_registry, "--cases /nonexistent/ids", AS_EUSAGE, "--cases /nonexistent/ids: cannot be read: No such");
    refused(&fake_registry, "--cases /", AS_EUSAGE, "--cases /: cannot be read: Is a directory");
}

/* ---- devices ---- */

static void devices(void **unused) {
    (void)unused;
    assert_int_equal(selected("--suite vector --device fake"), 4);
    assert_int_equal(selected("--suite vector --device fake0"), 4);
    assert_int_equal(selected("--suite vector --device cpu,fake0"), 17 + 4);
    assert_int_equal(selected("--suite vector --gpu 0"), 17 + 4);
    refused(&fake_registry, "--device fake1", AS_EABSENT, "fewer devices");
    refused(&fake_registry, "--gpu 1", AS_EABSENT, "--gpu 1");
    refused(&fake_registry, "--device gpu", AS_EUSAGE, "--device gpu: unknown");
    refused(&fake_registry, "--device fakeish", AS_EUSAGE, "unknown");
    refused(&fake_registry, "--device cpu7", AS_EUSAGE, "unknown");
    refused(&fake_registry, "--device lamp0", AS_EABSENT,
            "--device lamp0: absent: this binary was built without lamps");
    setenv("FAKE_COUNT", "2", 1);
    assert_int_equal(selected("--suite vector --device fake"), 8);
    assert_int_equal(selected("--suite vector --device fake1"), 4);
    assert_int_equal(selected("--suite vector --device fake --gpu 1"), 4);
    unsetenv("FAKE_COUNT");
}

static void absent_and_broken_drivers(void **unused) {
    (void)unused;
    as_plan plan;
    setenv("FAKE_COUNT", "0", 1);
    refused(&fake_registry, "--device fake", AS_EABSENT, "no fake device in this machine");
    assert_int_equal(selected("--suite vector"), 17); /* what nobody asked for is not missed */
    setenv("FAKE_COUNT", "broken", 1);
    refused(&fake_registry, "--device fake0", AS_EENV, "the fake driver is broken; mend it");
    build(&plan, "--suite vector");
    assert_int_equal(plan.machine.devices, 1);
    assert_int_equal(json_array_size(plan.machine.absent), 2); /* the kind that was left out of the build too */
    const json_t *row = json_array_get(plan.machine.absent, 0);
    assert_string_equal(fake_text(row, "kind"), "fake");
    assert_true(json_is_true(json_object_get(row, "broken")));
    unsetenv("FAKE_COUNT");
    release(&plan);
}

/* ---- budget ---- */

static void a_short_budget_drops_by_priority(void **unused) {
    (void)unused;
    as_plan plan;
    build(&plan, "--suite vector --device cpu --budget 5s --ceilings off");
    int kept = 0, dropped = 0, highest_kept = 0, lowest_dropped = 99;
    double used = 2e9;
    for (int i = 0; i < plan.count; i++) {
        const as_case *c = &plan.cases[i];
        assert_true(c->cost_ns > 0);
        if (c->drop_reason && strstr(c->drop_reason, "too small for a cold run"))
            continue; /* depends on this machine's cache, not on the budget */
        if (c->drop_reason) {
            assert_non_null(strstr(c->drop_reason, "--budget"));
            lowest_dropped = c->priority < lowest_dropped ? c->priority : lowest_dropped;
            dropped++;
        } else {
            highest_kept = c->priority > highest_kept ? c->priority : highest_kept;
            used += c->cost_ns;
            kept++;
        }
    }
    assert_true(kept > 0 && dropped > 0 && used <= 5e9);
    assert_true(highest_kept <= lowest_dropped);
    assert_non_null(find(&plan, "vector/good/n:8192/dev:cpu")->drop_reason); /* priority 5 */
    assert_null(find(&plan, "vector/good/n:64/dev:cpu")->drop_reason);       /* priority 0 */
    release(&plan);
}

static void no_budget_at_all(void **unused) {
    (void)unused;
    as_plan plan;
    build(&plan, "--suite copy --device cpu --budget 1ms");
    for (int i = 0; i < plan.count; i++)
        assert_non_null(plan.cases[i].drop_reason); /* planned all the same: nothing vanishes */
    assert_int_equal(plan.count, 2);
    release(&plan);
}

static void quick_holds_95_cases(void **unused) {
    (void)unused;
    char axes[1024] = "bytes=";
    for (int i = 1; i <= 120; i++)
        snprintf(axes + strlen(axes), sizeof axes - strlen(axes), "%d%s", i, i < 120 ? "," : "");
    const as_point points[] = {{.from = AS_QUICK, .on = "cpu", .variants = "good", .axes = axes}, {0}};
    as_suite many = fake_copy_suite;
    many.points = points;
    const as_suite *const suites[] = {&many, NULL};
    const as_registry registry = {.suites = suites};
    as_plan plan;
    as_error e;
    parse("--budget 1h");
    assert_int_equal(as_plan_build(&plan, &registry, &options, &e), AS_OK);
    int dropped = 0;
    for (int i = 0; i < plan.count; i++)
        dropped += plan.cases[i].drop_reason && strstr(plan.cases[i].drop_reason, "95 cases");
    assert_int_equal(plan.count, 120);
    assert_int_equal(dropped, 25);
    release(&plan);
}

/* ---- groups ---- */

static void groups_fit_the_free_memory(void **unused) {
    (void)unused;
    as_plan plan;
    setenv("FAKE_FREE_BYTES", "1400000", 1); /* 60%: 840,000; cases of 49,152 and 786,432 bytes, two of each */
    build(&plan, "--suite vector --device fake --ceilings off");
    assert_int_equal(plan.count, 4);
    assert_int_equal(plan.groups, 3);
    for (int g = 0; g < plan.groups; g++) {
        size_t bytes = 0;
        for (int i = 0; i < plan.count; i++)
            bytes += plan.cases[i].group == g ? plan.cases[i].bytes : 0;
        assert_true(bytes > 0 && bytes <= 840000);
    }
    release(&plan);
    setenv("FAKE_FREE_BYTES", "1000000", 1);
    build(&plan, "--suite vector --device fake --ceilings off");
    for (int i = 0; i < plan.count; i++) {
        const bool large = plan.cases[i].bytes > 600000;
        assert_true(large == (plan.cases[i].drop_reason != NULL));
        if (large)
            assert_non_null(strstr(plan.cases[i].drop_reason, "free memory"));
    }
    assert_int_equal(plan.groups, 1);
    unsetenv("FAKE_FREE_BYTES");
    release(&plan);
}

/* ---- ceilings ---- */

static void ceilings_are_those_that_cases_name(void **unused) {
    (void)unused;
    as_plan plan;
    build(&plan, "--suite vector --device cpu");
    assert_int_equal(plan.ceilings, 3); /* seventeen cases share them */
    const as_case *memory = find(&plan, "ceiling/stream/dev:cpu"), *fma = find(&plan, "ceiling/fma/dev:cpu"),
                  *cache = find(&plan, "ceiling/stream/level:cache/dev:cpu");
    assert_true(memory && cache && fma && memory->ceiling && cache->ceiling && fma->ceiling);
    const as_case *warm = find(&plan, "vector/good/dev:cpu"), *cold = find(&plan, "vector/good/cache:cold/dev:cpu");
    /* The first reference is a unit that this machine lacks: it leaves no hole in front of the second. */
    assert_ptr_equal(&plan.cases[warm->ceiling_of[0][0]], cache);
    assert_ptr_equal(&plan.cases[cold->ceiling_of[0][0]], memory);
    assert_ptr_equal(&plan.cases[warm->ceiling_of[1][0]], fma);
    assert_int_equal(warm->ceiling_of[0][1], -1);
    assert_int_equal(warm->ceiling_of[1][1], -1);
    release(&plan);
    build(&plan, "--suite copy --device cpu"); /* names none */
    assert_int_equal(plan.ceilings, 0);
    release(&plan);
    build(&plan, "--suite vector --device cpu --ceilings off");
    assert_int_equal(plan.ceilings, 0);
    assert_int_equal(plan.cases[0].ceiling_of[0][0], -1);
    release(&plan);
}

/* By their suite's name or one by one; reserved like cases, beyond the share that other ceilings have. */
static void ceilings_may_be_asked_for(void **unused) {
    (void)unused;
    as_plan plan;
    build(&plan, "--suite ceiling --device cpu --budget 3s");
    assert_true(plan.ceilings == 2 && plan.count == 2);
    for (int i = 0; i < plan.count; i++)
        assert_true(plan.cases[i].ceiling && plan.cases[i].asked && !plan.cases[i].drop_reason);
    release(&plan);
    build(&plan, "--suite ceiling,vector --device cpu");
    const as_case *cache = find(&plan, "ceiling/stream/level:cache/dev:cpu"), *fma = find(&plan, "ceiling/fma/dev:cpu"),
                  *warm = find(&plan, "vector/good/dev:cpu");
    assert_true(plan.ceilings == 3 && cache->asked && fma->ceiling && !fma->asked);
    assert_ptr_equal(&plan.cases[warm->ceiling_of[0][0]], cache); /* one ceiling, for both */
    release(&plan);
    build(&plan, "--filter ^ceiling/ --suite ceiling,vector --device cpu");
    assert_int_equal(plan.count, 2);
    release(&plan);
    build(&plan, "--device cpu --filter dev:cpu"); /* a filter alone does not name them */
    for (int i = 0; i < plan.count; i++)
        assert_false(plan.cases[i].asked);
    release(&plan);
}

/* 5 s: 0.75 s for ceilings, which cost 0.34 s each. The first case takes its two; a third does not fit, so the cold
 * cases, which name it, have none. The caches are told: copies that fill three times a large one take all 5 s. */
static void ceilings_stay_within_their_share(void **unused) {
    (void)unused;
    as_plan plan;
    setenv("HWLOC_SYNTHETIC", "pack:1 l3:1(size=32MB) l2:2(size=1MB) l1d:1(size=32KB) core:1 pu:1", 1);
    build(&plan, "--suite vector --device cpu --budget 5s");
    double used = 0, all = 2e9;
    for (int i = 0; i < plan.count; i++) {
        used += plan.cases[i].ceiling && !plan.cases[i].drop_reason ? plan.cases[i].cost_ns : 0;
        all += plan.cases[i].drop_reason ? 0 : plan.cases[i].cost_ns;
    }
    assert_true(used > 0 && used <= 0.15 * 5e9 && all <= 5e9);
    assert_null(find(&plan, "ceiling/stream/level:cache/dev:cpu")->drop_reason);
    assert_null(find(&plan, "ceiling/fma/dev:cpu")->drop_reason);
    assert_non_null(strstr(find(&plan, "ceiling/stream/dev:cpu")->drop_reason, "at most 15% of the budget"));
    assert_null(find(&plan, "vector/good/n:64/dev:cpu")->drop_reason);
    release(&plan);
    build(&plan, "--suite vector --device cpu --budget 4s"); /* 0.6 s: not both of the first case, so none */
    for (int i = 0; i < plan.count; i++)
        assert_true(!plan.cases[i].ceiling || plan.cases[i].drop_reason);
    release(&plan);
    build(&plan, "--suite vector --device cpu --budget 1ms");
    for (int i = 0; i < plan.count; i++)
        if (plan.cases[i].ceiling)
            assert_non_null(strstr(plan.cases[i].drop_reason, "no case that fits the budget names it"));
    release(&plan);
    unsetenv("HWLOC_SYNTHETIC");
}

/* Ceilings of 32,768 bytes: 60% of 80,000 bytes hold one at a time. */
static void ceilings_fit_the_free_memory(void **unused) {
    (void)unused;
    as_plan plan;
    setenv("FAKE_FREE_BYTES", "3000000", 1);
    build(&plan, "--suite vector --device fake");
    int group_of_ceilings = -1;
    for (int i = 0; i < plan.count; i++)
        if (plan.cases[i].ceiling) {
            group_of_ceilings = plan.cases[i].group;
            for (int k = 0; k < plan.count; k++) /* they are prepared before the cases, never beside them */
                assert_true(plan.cases[k].ceiling || plan.cases[k].group != group_of_ceilings);
        }
    assert_true(group_of_ceilings >= 0);
    release(&plan);
    setenv("FAKE_FREE_BYTES", "80000", 1);
    build(&plan, "--suite vector --device fake");
    const as_case *memory = find(&plan, "ceiling/stream/dev:fake0"),
                  *cache = find(&plan, "ceiling/stream/level:cache/dev:fake0");
    assert_true(memory && cache && memory->group != cache->group);
    setenv("FAKE_FREE_BYTES", "50000", 1);
    release(&plan);
    build(&plan, "--suite vector --device fake");
    assert_non_null(strstr(find(&plan, "ceiling/stream/dev:fake0")->drop_reason, "free memory"));
    unsetenv("FAKE_FREE_BYTES");
    release(&plan);
}

/* ---- levels ---- */

static void publish_measures_six_processes(void **unused) {
    (void)unused;
    parse("--profile publish");
    assert_int_equal(options.launches, 6);
    as_options_free(&options);
    parse("--profile publish --launches 2");
    assert_int_equal(options.launches, 2);
    as_options_free(&options);
    parse("--profile standard");
    assert_int_equal(options.launches, 1);
    as_options_free(&options);
    as_plan plan;
    build(&plan, "--suite copy --device cpu --launches 6");
    assert_true(plan.min_rounds == 1 && plan.cases[0].visits == 6);
    assert_true(plan.cases[0].cost_ns >= 6 * plan.cases[0].visit_ns); /* every launch prepares anew */
    release(&plan);
}

/* ---- the hash that --resume compares ---- */

static uint64_t hash_of(const char *words) {
    as_plan plan;
    build(&plan, words);
    const uint64_t hash = plan.hash;
    release(&plan);
    return hash;
}

static void the_hash_tells_plans_apart(void **unused) {
    (void)unused;
    const uint64_t hash = hash_of("--suite copy --device cpu");
    assert_true(hash == hash_of("--suite copy --device cpu"));
    assert_true(hash == hash_of("--device cpu --filter ^copy/")); /* the same cases */
    assert_true(hash == hash_of("--suite copy --device cpu --quiet --out elsewhere.json"));
    assert_true(hash != hash_of("--suite copy --device cpu --seed 43"));
    assert_true(hash != hash_of("--suite copy --device cpu --filter good"));
    assert_true(hash != hash_of("--suite copy --device cpu --profile standard"));
}

/* ---- the rest ---- */

static void a_name_too_long_is_refused(void **unused) {
    (void)unused;
    static char name[AS_ID_MAX + 1];
    memset(name, 'x', AS_ID_MAX);
    as_suite suite = fake_copy_suite;
    suite.name = name;
    const as_suite *const suites[] = {&suite, NULL};
    refused(&(as_registry){.suites = suites}, "--device cpu", AS_EUSAGE, "the id is longer than 1023 characters");
}

static void senseless_parameters_name_the_case(void **unused) {
    (void)unused;
    const as_point points[] = {{.from = AS_QUICK, .on = "cpu", .variants = "good", .axes = "n=65"}, {0}};
    as_suite suite = fake_vector_suite;
    suite.points = points;
    const as_suite *const suites[] = {&suite, NULL};
    refused(&(as_registry){.suites = suites}, "--device cpu", AS_EUSAGE,
            "vector/good/n:65/dev:cpu: n:65 is not a multiple");
}

static void exec_is_a_suite_of_one(void **unused) {
    (void)unused;
    as_plan plan;
    build(&plan, "--exec true --name nothing");
    assert_int_equal(plan.count, 1);
    assert_string_equal(plan.cases[0].id, "exec/nothing/dev:cpu");
    release(&plan);
    refused(&fake_registry, "--exec true --name no/thing", AS_EUSAGE, "--name no/thing");
}

static json_t *further_keys(void) { return json_pack("{s:i, s:[i]}", "suites", 0, "models", 7); }

static void print_and_catalogue(void **unused) {
    (void)unused;
    as_plan plan;
    char *text = NULL;
    size_t size = 0;
    build(&plan, "--suite copy --device cpu --budget 1ms");
    FILE *to = open_memstream(&text, &size);
    as_plan_print(&plan, to);
    fclose(to);
    static const char *const said[] = {"profile quick",      "seed 42",       "CPUs ",
                                       "copy/short/dev:cpu", "not reached: ", "2 cases fit, with 0 ceilings"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(text, said[i]))
            fail_msg("the printed plan lacks '%s'", said[i]);
    free(text);
    release(&plan);
    json_t *catalogue = as_plan_catalogue(&fake_registry);
    const json_t *suites = json_object_get(catalogue, "suites"), *vector = json_array_get(suites, 0);
    assert_int_equal(json_array_size(suites), 5); /* the ceilings are the last */
    assert_string_equal(fake_text(vector, "name"), "vector");
    assert_int_equal(json_array_size(json_object_get(vector, "axes")), 4);
    assert_string_equal(fake_text(json_array_get(json_object_get(vector, "axes"), 0), "default"), "4096");
    assert_int_equal(json_array_size(json_object_get(vector, "variants")), 12);
    assert_int_equal(json_object_size(catalogue), 1);
    json_decref(catalogue);
    as_registry more = fake_registry;
    more.catalogue = further_keys;
    catalogue = as_plan_catalogue(&more);
    assert_int_equal(json_array_size(json_object_get(catalogue, "suites")), 5); /* the harness's own key stays */
    assert_int_equal(json_array_size(json_object_get(catalogue, "models")), 1);
    json_decref(catalogue);
}

int main(int argc, char **argv) {
    const int rc = fake_main(argc, argv);
    if (rc >= 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_products),
        cmocka_unit_test(profiles_include_the_smaller_ones),
        cmocka_unit_test(cold_copies_exceed_the_cache),
        cmocka_unit_test(filters),
        cmocka_unit_test(case_files),
        cmocka_unit_test(devices),
        cmocka_unit_test(absent_and_broken_drivers),
        cmocka_unit_test(a_short_budget_drops_by_priority),
        cmocka_unit_test(no_budget_at_all),
        cmocka_unit_test(quick_holds_95_cases),
        cmocka_unit_test(groups_fit_the_free_memory),
        cmocka_unit_test(ceilings_are_those_that_cases_name),
        cmocka_unit_test(ceilings_may_be_asked_for),
        cmocka_unit_test(ceilings_stay_within_their_share),
        cmocka_unit_test(ceilings_fit_the_free_memory),
        cmocka_unit_test(publish_measures_six_processes),
        cmocka_unit_test(the_hash_tells_plans_apart),
        cmocka_unit_test(a_name_too_long_is_refused),
        cmocka_unit_test(senseless_parameters_name_the_case),
        cmocka_unit_test(exec_is_a_suite_of_one),
        cmocka_unit_test(print_and_catalogue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
