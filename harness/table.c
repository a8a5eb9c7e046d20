/* The closing table: what people read first. */
#include "progress.h"
#include "record.h"
#include "run.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

as_summary as_summarise(const as_run_state *s) {
    as_summary sum = {0};
    for (int i = 0; i < s->plan->count; i++) {
        const as_outcome *o = &s->outcome[i];
        switch (o->status) {
        case AS_DONE: sum.done += as_case_is_selected(&s->plan->cases[i]); break;
        case AS_FAILED: sum.failed++; break;
        case AS_SKIPPED: sum.skipped++; break;
        case AS_LOST: sum.lost++; break;
        case AS_PENDING:
        case AS_NOT_REACHED:
            sum.not_reached += !s->plan->cases[i].ceiling;
            sum.ceilings_out += s->plan->cases[i].ceiling;
            break;
        }
        if (o->status != AS_DONE || s->plan->cases[i].ceiling || o->n_rounds == 0)
            continue;
        const as_figures f = as_case_figures(s, i);
        sum.suspect += strcmp(as_case_validity(s, i, &f, NULL), "valid") != 0;
        sum.unconverged += !f.converged;
        sum.beside_suspect += f.ceiling_suspect;
        const as_advice advice = as_variance_advice(o);
        sum.one_launch += advice == AS_ADVICE_ONE_LAUNCH;
        sum.launches_differ += !f.converged && advice == AS_ADVICE_LAUNCHES_DIFFER;
    }
    return sum;
}

static void print_case(const as_run_state *s, int i, int width) {
    const as_outcome *o = &s->outcome[i];
    const as_case *k = &s->plan->cases[i];
    if (o->status != AS_DONE) {
        printf("%-*s  %s: %s\n", width, k->id, as_case_status_name(o->status), o->reason);
        return;
    }
    const as_figures f = as_case_figures(s, i);
    char time[32], rate[32] = "-", share[16] = "-", spread[16] = "-";
    as_format_time(time, f.time.value);
    const double best = k->ceiling ? f.time.value / f.fastest_ns : 1; /* a ceiling's rate is its fastest round's */
    if (isfinite(f.flop_rate))
        as_format_rate(rate, f.flop_rate * best, "flops_per_s");
    else if (isfinite(f.bandwidth))
        as_format_rate(rate, f.bandwidth * best, "bytes_per_s");
    else if (isfinite(f.per_item_ns) && k->work.item) {
        as_format_time(rate, f.per_item_ns / best);
        strncat(rate, "/", sizeof rate - strlen(rate) - 1);
        strncat(rate, k->work.item, sizeof rate - strlen(rate) - 1);
    }
    if (isfinite(f.fraction))
        snprintf(share, sizeof share, "%.0f%%%s", f.fraction * 100, f.ceiling_suspect ? "?" : "");
    json_t *reasons = json_array();
    const char *validity = as_case_validity(s, i, &f, reasons);
    const char *why = json_string_value(json_array_get(reasons, 0));
    if (isfinite(f.time.relative_half_width))
        snprintf(spread, sizeof spread, "+-%5.1f%%", f.time.relative_half_width * 100);
    printf("%-*s %10s %8s %16s %6s  %s%s%s\n", width, k->id, time, spread, rate, share, validity, why ? ": " : "",
           why ? why : "");
    json_decref(reasons);
}

static void print_verified(const as_run_state *s, int i, int width) {
    const as_outcome *o = &s->outcome[i];
    const json_t *v = o->verification;
    const double error = json_number_value(json_object_get(v, "max_error"));
    char note[64] = "";
    if (o->status == AS_DONE && json_is_number(json_object_get(v, "max_error")))
        snprintf(note, sizeof note, ", error %.3f of the tolerance", error);
    printf("%-*s  %s%s%s%s\n", width, s->plan->cases[i].id,
           o->status == AS_DONE ? "passed" : as_case_status_name(o->status), note, o->reason[0] ? ": " : "", o->reason);
}

static void print_notes(const as_run_state *s, const as_summary *sum) {
    if (s->clock_cost_ns > 0)
        printf("one reading of the host clock costs %.0f ns; samples of single operations hold it\n", s->clock_cost_ns);
    if (sum->one_launch)
        printf("%d interval%s of one process: how fresh processes differ is not in %s; --launches 6 adds it\n",
               sum->one_launch, sum->one_launch == 1 ? " speaks" : "s speak", sum->one_launch == 1 ? "it" : "them");
    if (sum->launches_differ)
        printf("%d open case%s most between launches: more --launches narrow the intervals, more time alone does not\n",
               sum->launches_differ, sum->launches_differ == 1 ? " differs" : "s differ");
}

static void print_warnings(const as_summary *sum) {
    if (sum->ceilings_out)
        fprintf(stderr,
                "warning: %d ceiling%s not measured, and the cases that need %s have no percentage; give more "
                "time with --budget (ceilings take at most 15%%), or look at the reasons above\n",
                sum->ceilings_out, sum->ceilings_out == 1 ? " was" : "s were", sum->ceilings_out == 1 ? "it" : "them");
    if (sum->beside_suspect)
        fprintf(stderr,
                "warning: %d percentage%s beside a suspect ceiling (marked ?); measure it alone, or on a quieter "
                "machine\n",
                sum->beside_suspect, sum->beside_suspect == 1 ? " stands" : "s stand");
    if (sum->suspect)
        fprintf(stderr,
                "warning: %d case%s suspect (not converged: %d); give more time with --budget, or look at the "
                "reasons above; `assay doctor` tells what disturbs this machine\n",
                sum->suspect, sum->suspect == 1 ? " is" : "s are", sum->unconverged);
}

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void print_part(const json_t *p, double operations) {
    char time[32], floor[16] = "-";
    const json_t *percent = json_object_get(p, "percent_of_floor");
    as_format_time(time, number(p, "total_ns") / operations);
    if (json_is_number(percent))
        snprintf(floor, sizeof floor, "%.0f%%", json_number_value(percent));
    printf("  %-8s %-20s %-6s %10s %6.1f%% %9s\n", json_string_value(json_object_get(p, "phase")),
           json_string_value(json_object_get(p, "path")), json_string_value(json_object_get(p, "where")), time,
           100 * number(p, "share"), floor);
}

/* Where the time of one operation goes, in the order of the operation; of its layers the sums. */
static void print_breakdown(const as_run_state *s, int c) {
    json_t *parts = as_record_parts(s, c), *closure = as_record_breakdown(s, c, as_sample_median(&s->outcome[c])), *p;
    size_t i;
    char left[32], whole[32], cost[32];
    const double operations = number(closure, "operations"), instrumented = number(closure, "instrumented_ns");
    printf("\nparts of %s, %lld instrumented operations\n  %-8s %-20s %-6s %10s %7s %9s\n", s->plan->cases[c].id,
           (long long)operations, "phase", "part", "where", "time", "share", "of floor");
    json_array_foreach(parts, i, p) if (json_is_null(json_object_get(p, "layer"))) print_part(p, operations);
    as_format_time(left, fabs(number(closure, "unattributed_ns")));
    as_format_time(whole, instrumented);
    as_format_time(cost, fabs(number(closure, "instrumentation_ns")));
    printf("  unattributed %s (%.1f%%) of %s; the instruments cost %s%s (%.1f%%)\n", left,
           100 * number(closure, "unattributed_ns") / instrumented, whole,
           number(closure, "instrumentation_ns") < 0 ? "-" : "", cost,
           100 * number(closure, "instrumentation_ns") / instrumented);
    json_decref(parts);
    json_decref(closure);
}

/* Of a run of one case: more would bury the table. */
static void print_only_breakdown(const as_run_state *s) {
    if (s->plan->count - s->plan->ceilings == 1 && s->outcome[0].status == AS_DONE && s->outcome[0].parts)
        print_breakdown(s, 0);
}

void as_print_table(const as_run_state *s, bool verify_only) {
    const int width = as_plan_widest_id(s->plan);
    if (!verify_only)
        printf("\n%-*s %10s %8s %16s %6s\n", width, "case", "time", "95%", "rate", "limit");
    for (int i = 0; i < s->plan->count; i++) {
        if (!verify_only && i == s->plan->count - s->plan->ceilings)
            printf("\nceilings of this machine, measured in this run: mean time, best rate\n");
        if (verify_only)
            print_verified(s, i, width);
        else
            print_case(s, i, width);
    }
    if (!verify_only)
        print_only_breakdown(s);
    const as_summary sum = as_summarise(s);
    printf("\n%d done, %d failed, %d skipped, %d lost, %d not reached\n", sum.done, sum.failed, sum.skipped, sum.lost,
           sum.not_reached);
    if (!verify_only)
        print_notes(s, &sum);
    fflush(stdout);
    if (!verify_only)
        print_warnings(&sum);
}
