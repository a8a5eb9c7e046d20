/* The next token of each row, and what has to move on between the steps of a generation. */
#pragma once

#include "numbers.cuh"

enum { AS_CHOOSE_THREADS = 1024 };

/* next[row] = chosen[row][at] = lowest id of those with the largest logit; `at` is the number of decode steps so far:
 * 0, or from the position of the step that made the logits. One block a row. */
static __global__ void __launch_bounds__(AS_CHOOSE_THREADS)
    as_choose_kernel(const float *logits, int vocab, const int *position, int prompt, int tokens, uint32_t *next,
                     uint32_t *chosen) {
    float *const best = (float *)as_shared();
    int *const id = (int *)(best + 32);
    const float *const row = logits + (int64_t)blockIdx.x * vocab;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, at = position ? *position - prompt + 1 : 0;
    float most = -INFINITY;
    int where = vocab;
    auto take = [&](float value, int i) {
        if (value > most || (value == most && i < where))
            most = value, where = i;
    };
    for (int i = (int)threadIdx.x; i < vocab; i += AS_CHOOSE_THREADS)
        take(row[i], i);
    for (int mask = 16; mask; mask /= 2) {
        const float value = __shfl_xor_sync(~0u, most, mask);
        const int i = __shfl_xor_sync(~0u, where, mask);
        take(value, i);
    }
    if (lane == 0)
        best[warp] = most, id[warp] = where;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int w = 1; w < AS_CHOOSE_THREADS / 32; w++)
        take(best[w], id[w]);
    next[blockIdx.x] = (uint32_t)where;
    chosen[(int64_t)blockIdx.x * tokens + at] = (uint32_t)where;
}

/* Times of a generation, in ns: begin, first token, last token. */
typedef struct as_generation_clock {
    uint64_t begin, first;
} as_generation_clock;

/* Before the prefill: `clock` starts. */
static __global__ void as_generation_begin_kernel(as_generation_clock *clock) { clock->begin = as_global_ns(); }

/* After the prefill: decoding starts at `prompt`. */
static __global__ void as_generation_first_kernel(as_generation_clock *clock, int *position, int prompt,
                                                  double *ttft_ns) {
    clock->first = as_global_ns();
    *position = prompt;
    *ttft_ns = (double)(clock->first - clock->begin);
}

/* After each decode step; the mean time between tokens so far. */
static __global__ void as_generation_next_kernel(const as_generation_clock *clock, int *position, int prompt,
                                                 double *itl_ns) {
    *position += 1;
    *itl_ns = (double)(as_global_ns() - clock->first) / (double)(*position - prompt);
}
