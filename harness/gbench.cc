// C shim over Google Benchmark, 1.7.1 and 1.8.x (which has no version macro: features are detected by the
// members that exist). Google Benchmark aborts the process on misuse of its State (a loop left early, a pause
// twice, a batch of 0); as_gb_state keeps just enough flags to turn each of these into a failed row.
#include "gbench.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

// The library's version, where it tells (1.8.4 and later): unqualified lookup from inside its namespace
// finds its own function first, and this one only where it has none. The build names the version it found.
[[maybe_unused]] static std::string GetBenchmarkVersion() {
#ifdef AS_GOOGLE_BENCHMARK_VERSION
    return AS_GOOGLE_BENCHMARK_VERSION;
#else
    return "unknown";
#endif
}
namespace benchmark {
namespace as_probe {
static std::string version() { return GetBenchmarkVersion(); }
} // namespace as_probe
} // namespace benchmark

namespace {
enum : unsigned { NOT_STARTED = 1, PAUSED = 2, FAILED = 4, ENDED = 8 };
}

// The hot path hands out iterations from `left` and calls nothing: State gets all but one of its iterations as one
// batch at the start, and the last one when the loop takes it, so that its clock and its count stay exact.
struct as_gb_state {
    benchmark::State *state;
    int64_t left;   // iterations still to hand out; 0 where the hot path must not be taken
    int64_t paused; // `left` while the timing is paused
    unsigned flags;
};

namespace {

void copy_text(char (&to)[AS_GB_TEXT], const char *from) { std::snprintf(to, sizeof to, "%s", from ? from : ""); }

// The error of a row: `error_occurred` and `error_message` until 1.7, `skipped` and `skip_message` since 1.8.
template <class Run> auto row_failed(const Run &run, int) -> decltype(bool(run.error_occurred)) {
    return run.error_occurred;
}
template <class Run> auto row_failed(const Run &run, long) -> decltype(bool(run.skipped)) { return bool(run.skipped); }
template <class Run> auto row_message(const Run &run, int) -> decltype(run.error_message.c_str()) {
    return run.error_message.c_str();
}
template <class Run> auto row_message(const Run &run, long) -> decltype(run.skip_message.c_str()) {
    return run.skip_message.c_str();
}

// Stores the row; prints nothing: no context banner, no warning about Google Benchmark's own build.
class Reporter : public benchmark::BenchmarkReporter {
  public:
    explicit Reporter(as_gb_row *to) : row(to) {}
    bool ReportContext(const Context &) override { return true; }
    void ReportRuns(const std::vector<Run> &runs) override {
        for (const Run &run : runs)
            if (run.run_type == Run::RT_Iteration)
                store(run);
    }

    int rows = 0;
    bool too_many_counters = false;

  private:
    void store(const Run &run) {
        rows++;
        row->iterations = run.iterations;
        row->failed = row_failed(run, 0);
        copy_text(row->message, row_message(run, 0));
        copy_text(row->label, run.report_label.c_str());
        if (row->failed)
            return; // no time of a failed run may be taken for a result
        row->real_time_ns = run.GetAdjustedRealTime();
        row->cpu_time_ns = run.GetAdjustedCPUTime();
        for (const auto &counter : run.counters) {
            if (row->counters == AS_GB_COUNTERS) {
                too_many_counters = true;
                break;
            }
            as_gb_counter *to = &row->counter[row->counters++];
            std::snprintf(to->name, sizeof to->name, "%s", counter.first.c_str());
            to->value = counter.second.value;
        }
    }

    as_gb_row *row;
};

// The first error counts; one after the loop's end too (a check of the output). noexcept: a body in C cannot
// pass on an exception, so with no memory even for the message the process ends here.
void fail_state(as_gb_state *s, const char *message) noexcept {
    if (s->flags & FAILED)
        return;
    s->flags = (s->flags & ~unsigned(PAUSED)) | FAILED;
    s->left = 0;
    s->state->SkipWithError(message);
}

// Starts the clock, and takes all iterations but the last from State.
void start(as_gb_state *s) {
    s->flags &= ~unsigned(NOT_STARTED);
    if (s->flags & FAILED)
        return;
    s->left = s->state->max_iterations;
    if (s->left > 1)
        s->state->KeepRunningBatch(s->left - 1);
}

// Off the hot path: the first call, the last iteration, the end, a paused or failed state.
[[gnu::noinline]] bool keep_running_slow(as_gb_state *s, int64_t n) {
    if (s->flags & ENDED)
        return false;
    if (n < 1)
        fail_state(s, "a batch must count at least 1 iteration");
    else if (s->flags & PAUSED)
        fail_state(s, "the timing was left paused at the end of an iteration");
    if (s->flags & NOT_STARTED)
        start(s);
    if (!(s->flags & FAILED) && n < s->left) {
        s->left -= n;
        return true;
    }
    if (s->left > 0) { // State's last iteration, and what this batch counts beyond it
        const int64_t last = 1 + n - s->left;
        s->left = 0;
        return s->state->KeepRunningBatch(last);
    }
    s->flags |= ENDED;
    return s->state->KeepRunningBatch(1); // stops the clock; false
}

// Runs the body so that State is always left as Google Benchmark demands, whatever the body did.
void run_body(const as_gb_spec *spec, benchmark::State &state) {
    as_gb_state s = {&state, 0, 0, NOT_STARTED};
    try {
        spec->body(&s, spec->context);
    } catch (const std::exception &x) {
        fail_state(&s, x.what());
    } catch (...) {
        fail_state(&s, "the body threw something that is no std::exception");
    }
    if (!(s.flags & (ENDED | FAILED)))
        fail_state(&s, "the body returned before its loop ended");
}

// Flags that the environment (BENCHMARK_REPETITIONS and its like) may have set, put back: the harness decides
// about rounds, warm-up and output. The caller's argv is not touched.
void initialize_once() {
    static bool done = false;
    if (done)
        return;
    static char text[][48] = {"assay",
                              "--benchmark_min_warmup_time=0",
                              "--benchmark_repetitions=1",
                              "--benchmark_enable_random_interleaving=false",
                              "--benchmark_list_tests=false",
                              "--benchmark_report_aggregates_only=false",
                              "--benchmark_out=",
                              "--benchmark_perf_counters=",
                              "--v=0"};
    constexpr int texts = sizeof text / sizeof text[0];
    char *arguments[texts + 1] = {};
    for (int i = 0; i < texts; i++)
        arguments[i] = text[i];
    int count = texts;
    benchmark::Initialize(&count, arguments);
    done = true;
}

bool running = false; // Google Benchmark's registry is global: one call at a time

// Marks the registry as taken, and clears it on every way out.
struct Registry {
    Registry() { running = true; }
    ~Registry() {
        benchmark::ClearRegisteredBenchmarks();
        running = false;
    }
    Registry(const Registry &) = delete;
    Registry &operator=(const Registry &) = delete;
};

void run_registered(const as_gb_spec *spec, Reporter *reporter) {
    initialize_once();
    Registry registry;
    auto *b = benchmark::RegisterBenchmark(spec->name, [spec](benchmark::State &state) { run_body(spec, state); });
    // The process's CPU time, so that the threads of a team count.
    b->Unit(benchmark::kNanosecond)->Iterations(spec->iterations)->MeasureProcessCPUTime();
    if (spec->manual_time)
        b->UseManualTime();
    else
        b->UseRealTime();
    benchmark::RunSpecifiedBenchmarks(reporter, "all");
}

} // namespace

extern "C" {

as_status as_gb_run(const as_gb_spec *spec, as_gb_row *row, as_error *e) {
    std::memset(row, 0, sizeof *row);
    if (!spec->name || !spec->name[0])
        return as_fail(e, AS_EUSAGE, "a benchmark needs a name");
    if (!spec->body)
        return as_fail(e, AS_EUSAGE, "benchmark %s has no body", spec->name);
    if (spec->iterations < 1)
        return as_fail(e, AS_EUSAGE, "benchmark %s: iterations must be at least 1, not %lld", spec->name,
                       static_cast<long long>(spec->iterations));
    if (running)
        return as_fail(e, AS_EUSAGE, "benchmark %s: as_gb_run inside a benchmark's body", spec->name);
    try {
        Reporter reporter(row);
        run_registered(spec, &reporter);
        if (reporter.rows != 1)
            return as_fail(e, AS_EFAIL, "benchmark %s: Google Benchmark reported %d rows, not 1", spec->name,
                           reporter.rows);
        if (reporter.too_many_counters)
            return as_fail(e, AS_EUSAGE, "benchmark %s sets more than %d counters", spec->name, int(AS_GB_COUNTERS));
    } catch (const std::bad_alloc &) {
        return as_fail(e, AS_ENOMEM, "benchmark %s: out of memory in Google Benchmark", spec->name);
    } catch (const std::exception &x) {
        return as_fail(e, AS_EFAIL, "benchmark %s: %s", spec->name, x.what());
    } catch (...) {
        return as_fail(e, AS_EFAIL, "benchmark %s: unknown exception in Google Benchmark", spec->name);
    }
    return AS_OK;
}

bool as_gb_keep_running_batch(as_gb_state *s, int64_t n) {
    if (__builtin_expect(n < 1 || n >= s->left, 0))
        return keep_running_slow(s, n);
    s->left -= n;
    return true;
}

bool as_gb_keep_running(as_gb_state *s) { return as_gb_keep_running_batch(s, 1); }

void as_gb_set_iteration_time(as_gb_state *s, double seconds) { s->state->SetIterationTime(seconds); }

void as_gb_set_counter(as_gb_state *s, const char *name, double value) {
    try {
        s->state->counters[name ? name : ""] = value;
    } catch (...) {
        fail_state(s, "out of memory for a counter");
    }
}

void as_gb_set_label(as_gb_state *s, const char *label) {
    try {
        s->state->SetLabel(label ? label : "");
    } catch (...) {
        fail_state(s, "out of memory for the label");
    }
}

void as_gb_skip_with_error(as_gb_state *s, const char *message) {
    fail_state(s, message && message[0] ? message : "the body failed without a message");
}

void as_gb_pause_timing(as_gb_state *s) {
    if (s->flags != 0) {
        fail_state(s, "timing paused twice or outside of the loop");
        return;
    }
    s->state->PauseTiming();
    s->flags |= PAUSED;
    s->paused = s->left;
    s->left = 0;
}

void as_gb_resume_timing(as_gb_state *s) {
    if (s->flags != PAUSED) {
        fail_state(s, "timing resumed that was not paused");
        return;
    }
    s->flags = 0;
    s->left = s->paused;
    s->state->ResumeTiming();
}

const char *as_gb_version(void) {
    static char text[32];
    if (!text[0]) {
        try {
            std::snprintf(text, sizeof text, "%s", benchmark::as_probe::version().c_str());
        } catch (...) {
            return "unknown";
        }
    }
    return text;
}

} // extern "C"
