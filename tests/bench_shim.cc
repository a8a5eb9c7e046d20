// Cost of the shim beside Google Benchmark alone: the same empty loop through both, round by round in turn, in
// one process. Prints a table; exits 1 where the shim costs more than 2 ns an iteration. Also prints what timing
// every single operation costs (two clock reads and a store), which the harness states and does not subtract.
#include "gbench.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

namespace {

constexpr double LIMIT_NS = 2.0;
constexpr int ROUNDS = 41;

double median(std::vector<double> x) {
    std::nth_element(x.begin(), x.begin() + ptrdiff_t(x.size() / 2), x.end()); // ROUNDS is odd
    return x[x.size() / 2];
}

class Reporter : public benchmark::BenchmarkReporter {
  public:
    bool ReportContext(const Context &) override { return true; }
    void ReportRuns(const std::vector<Run> &runs) override { ns = runs.at(0).GetAdjustedRealTime(); }
    double ns = NAN;
};

double alone(int64_t iterations, int64_t batch) {
    Reporter reporter;
    benchmark::RegisterBenchmark("alone",
                                 [batch](benchmark::State &state) {
                                     while (state.KeepRunningBatch(batch))
                                         benchmark::ClobberMemory();
                                 })
        ->Unit(benchmark::kNanosecond)
        ->Iterations(iterations)
        ->MeasureProcessCPUTime()
        ->UseRealTime();
    benchmark::RunSpecifiedBenchmarks(&reporter, "all");
    benchmark::ClearRegisteredBenchmarks();
    return reporter.ns;
}

void batch_body(as_gb_state *s, void *context) {
    const int64_t batch = *static_cast<const int64_t *>(context);
    while (as_gb_keep_running_batch(s, batch))
        benchmark::ClobberMemory();
}

int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

volatile int64_t sample_ns; // one slot: the cost of a store without that of a growing array

void sampled_body(as_gb_state *s, void *) {
    while (as_gb_keep_running(s)) {
        const int64_t begin = now_ns();
        benchmark::ClobberMemory();
        sample_ns = now_ns() - begin;
    }
}

double through_shim(int64_t iterations, as_gb_body body, int64_t batch) {
    const as_gb_spec spec = {"shim", iterations, false, body, &batch};
    as_gb_row row;
    as_error e;
    if (as_gb_run(&spec, &row, &e) != AS_OK || row.failed) {
        std::fprintf(stderr, "bench_shim: the round through the shim failed\n");
        return NAN;
    }
    return row.real_time_ns;
}

// One comparison; prints its row. Returns the shim's cost an iteration, NaN where a round failed.
double compare(int64_t batch) {
    const int64_t iterations = 200000 * batch;
    std::vector<double> a, b, difference;
    for (int round = 0; round < ROUNDS; round++) {
        double x[2];
        for (int k = 0; k < 2; k++) // who goes first changes from round to round
            (k ^ (round & 1)) ? x[1] = through_shim(iterations, batch_body, batch) : x[0] = alone(iterations, batch);
        a.push_back(x[0]);
        b.push_back(x[1]);
        difference.push_back(x[1] - x[0]);
    }
    const double cost = median(difference);
    std::printf("%8lld %12.3f %12.3f %12.3f\n", static_cast<long long>(batch), median(a), median(b), cost);
    return cost;
}

// Another load on the machine only adds to the difference, so one quiet comparison of three is enough.
bool within_limit(int64_t batch) {
    for (int attempt = 0; attempt < 3; attempt++)
        if (compare(batch) <= LIMIT_NS)
            return true;
    return false;
}

} // namespace

int main() {
    std::printf("%8s %12s %12s %12s   (median of %d rounds, ns an iteration, limit %.1f)\n", "batch", "alone", "shim",
                "difference", ROUNDS, LIMIT_NS);
    bool good = true;
    through_shim(1000, batch_body, 1); // sets Google Benchmark's flags before the first round alone
    for (int64_t batch : {1, 10, 100})
        good = within_limit(batch) && good;
    std::vector<double> sampled;
    for (int round = 0; round < ROUNDS; round++)
        sampled.push_back(through_shim(20000, sampled_body, 1));
    std::printf("timing each operation costs %.1f ns\n", median(sampled));
    if (!good)
        std::printf("the shim costs more than %.1f ns an iteration\n", LIMIT_NS);
    return good ? 0 : 1;
}
