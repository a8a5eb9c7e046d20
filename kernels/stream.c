/* The loops are written once over vectors of W bytes and made for each instruction set by macro; eight vectors an
 * iteration keep enough loads in flight and, for sums, enough independent accumulators (an integer add takes one
 * cycle and up to three start in it). Other machines than x86-64 get the base loops on 16-byte vectors. */
#include "stream.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Keeps the compiler from joining the passes of a sum: it must believe that memory changed in between. */
#define FORGET_MEMORY() __asm__ volatile("" ::: "memory")

#define DEFINE_SUM(name, target, width)                                                                                \
    typedef uint32_t name##_vector __attribute__((vector_size(width), aligned(4), may_alias));                         \
    target static uint32_t name(const void *from, size_t bytes, int64_t passes) {                                      \
        name##_vector sum[8];                                                                                          \
        uint32_t rest = 0;                                                                                             \
        memset(sum, 0, sizeof sum);                                                                                    \
        for (int64_t pass = 0; pass < passes; pass++) {                                                                \
            const unsigned char *p = from;                                                                             \
            size_t left = bytes;                                                                                       \
            for (; left >= 8 * (width); p += 8 * (width), left -= 8 * (width))                                         \
                for (int v = 0; v < 8; v++)                                                                            \
                    sum[v] += ((const name##_vector *)p)[v];                                                           \
            for (; left >= 4; p += 4, left -= 4) {                                                                     \
                uint32_t word;                                                                                         \
                memcpy(&word, p, 4);                                                                                   \
                rest += word;                                                                                          \
            }                                                                                                          \
            FORGET_MEMORY();                                                                                           \
        }                                                                                                              \
        for (int v = 0; v < 8; v++)                                                                                    \
            for (int lane = 0; lane < (width) / 4; lane++)                                                             \
                rest += sum[v][lane];                                                                                  \
        return rest;                                                                                                   \
    }

DEFINE_SUM(sum_base, , 16)
DEFINE_SUM(sum_avx2, AS_TARGET_AVX2, 32)
DEFINE_SUM(sum_avx512, AS_TARGET_AVX512, 64)

as_stream_sum_fn as_stream_sum(as_isa isa) {
    return isa == AS_ISA_AVX512 ? sum_avx512 : isa == AS_ISA_AVX2 ? sum_avx2 : sum_base;
}

/* The same over four quarters of the range side by side. Each is read in its order; more of the prefetchers have work.
 * Measured on one thread of an EPYC guest: 20 GB/s from memory, where one place gives 13 to 17. */
#define DEFINE_SUM_QUARTERS(name, plain, target, width)                                                                \
    target static uint32_t name(const void *from, size_t bytes, int64_t passes) {                                      \
        const size_t quarter = bytes / 4 / (2 * (width)) * (2 * (width));                                              \
        const unsigned char *p = from;                                                                                 \
        plain##_vector sum[8];                                                                                         \
        uint32_t rest = 0;                                                                                             \
        memset(sum, 0, sizeof sum);                                                                                    \
        for (int64_t pass = 0; pass < passes; pass++) {                                                                \
            for (size_t at = 0; at < quarter; at += 2 * (width))                                                       \
                for (int v = 0; v < 8; v++)                                                                            \
                    sum[v] += *(const plain##_vector *)(p + v / 2 * quarter + at + v % 2 * (width));                   \
            FORGET_MEMORY();                                                                                           \
        }                                                                                                              \
        for (int v = 0; v < 8; v++)                                                                                    \
            for (int lane = 0; lane < (width) / 4; lane++)                                                             \
                rest += sum[v][lane];                                                                                  \
        return rest + plain(p + 4 * quarter, bytes - 4 * quarter, passes);                                             \
    }

DEFINE_SUM_QUARTERS(quarters_base, sum_base, , 16)
DEFINE_SUM_QUARTERS(quarters_avx2, sum_avx2, AS_TARGET_AVX2, 32)
DEFINE_SUM_QUARTERS(quarters_avx512, sum_avx512, AS_TARGET_AVX512, 64)

as_stream_sum_fn as_stream_sum_quarters(as_isa isa) {
    return isa == AS_ISA_AVX512 ? quarters_avx512 : isa == AS_ISA_AVX2 ? quarters_avx2 : quarters_base;
}

/* Copies a head so that the stores that follow are aligned, then `width`-byte vectors, then the tail. */
#define DEFINE_COPY(name, target, width, load, store, fence)                                                           \
    target static void name(void *to, const void *from, size_t bytes) {                                                \
        unsigned char *d = to;                                                                                         \
        const unsigned char *s = from;                                                                                 \
        size_t head = (width) - ((uintptr_t)d & ((width)-1));                                                          \
        head = head == (width) ? 0 : head > bytes ? bytes : head;                                                      \
        memcpy(d, s, head);                                                                                            \
        d += head, s += head, bytes -= head;                                                                           \
        for (; bytes >= 4 * (width); d += 4 * (width), s += 4 * (width), bytes -= 4 * (width)) {                       \
            store(d, load(s));                                                                                         \
            store(d + (width), load(s + (width)));                                                                     \
            store(d + 2 * (width), load(s + 2 * (width)));                                                             \
            store(d + 3 * (width), load(s + 3 * (width)));                                                             \
        }                                                                                                              \
        fence;                                                                                                         \
        memcpy(d, s, bytes);                                                                                           \
    }

#if defined(__x86_64__)
#define LOAD16(p) _mm_loadu_si128((const void *)(p))
#define LOAD32(p) _mm256_loadu_si256((const void *)(p))
#define LOAD64(p) _mm512_loadu_si512((const void *)(p))
#define STORE16(p, v) _mm_store_si128((void *)(p), v)
#define STORE32(p, v) _mm256_store_si256((void *)(p), v)
#define STORE64(p, v) _mm512_store_si512((void *)(p), v)
#define STREAM16(p, v) _mm_stream_si128((void *)(p), v)
#define STREAM32(p, v) _mm256_stream_si256((void *)(p), v)
#define STREAM64(p, v) _mm512_stream_si512((void *)(p), v)

DEFINE_COPY(copy_base, , 16, LOAD16, STORE16, (void)0)
DEFINE_COPY(copy_avx2, AS_TARGET_AVX2, 32, LOAD32, STORE32, (void)0)
DEFINE_COPY(copy_avx512, AS_TARGET_AVX512, 64, LOAD64, STORE64, (void)0)
/* Non-temporal stores are weakly ordered: the fence makes them complete before the copy counts as done. */
DEFINE_COPY(stream_base, , 16, LOAD16, STREAM16, _mm_sfence())
DEFINE_COPY(stream_avx2, AS_TARGET_AVX2, 32, LOAD32, STREAM32, _mm_sfence())
DEFINE_COPY(stream_avx512, AS_TARGET_AVX512, 64, LOAD64, STREAM64, _mm_sfence())
#else
/* No portable non-temporal store: both copies are memcpy there, and the report of such a machine shows them equal. */
static void copy_base(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
#define copy_avx2 copy_base
#define copy_avx512 copy_base
#define stream_base copy_base
#define stream_avx2 copy_base
#define stream_avx512 copy_base
#endif

as_stream_copy_fn as_stream_copy_temporal(as_isa isa) {
    return isa == AS_ISA_AVX512 ? copy_avx512 : isa == AS_ISA_AVX2 ? copy_avx2 : copy_base;
}

as_stream_copy_fn as_stream_copy_nt(as_isa isa) {
    return isa == AS_ISA_AVX512 ? stream_avx512 : isa == AS_ISA_AVX2 ? stream_avx2 : stream_base;
}

/* The compiler sees plain loops; the asm keeps it from making a call of memset out of the first. */
#define DEFINE_FILL_TRIAD(suffix, target)                                                                              \
    target static void fill_##suffix(uint32_t *to, uint32_t value, size_t count) {                                     \
        __asm__ volatile("" : "+r"(value));                                                                            \
        for (size_t i = 0; i < count; i++)                                                                             \
            to[i] = value;                                                                                             \
    }                                                                                                                  \
    target static void triad_##suffix(float *restrict a, const float *restrict b, const float *restrict c,             \
                                      size_t count) {                                                                  \
        for (size_t i = 0; i < count; i++)                                                                             \
            a[i] = b[i] + 3 * c[i];                                                                                    \
    }

DEFINE_FILL_TRIAD(base, )
DEFINE_FILL_TRIAD(avx2, AS_TARGET_AVX2)
DEFINE_FILL_TRIAD(avx512, AS_TARGET_AVX512)

#if defined(__x86_64__)
/* The same around the caches: whole vectors from the first aligned one on, what lies before and behind by the loops
 * above. The fence as in a copy. */
#define DEFINE_FILL_TRIAD_NT(suffix, target, width, integers, stream)                                                  \
    typedef uint32_t words_##suffix __attribute__((vector_size(width)));                                               \
    typedef float floats_##suffix __attribute__((vector_size(width), aligned(4), may_alias));                          \
    target static void fill_nt_##suffix(uint32_t *to, uint32_t value, size_t count) {                                  \
        const size_t head = elements_before(to, width, count), whole = (count - head) / ((width) / 4) * ((width) / 4); \
        const words_##suffix v = (words_##suffix){0} + value;                                                          \
        fill_##suffix(to, value, head);                                                                                \
        for (size_t i = head; i < head + whole; i += (width) / 4)                                                      \
            stream(to + i, (integers)v);                                                                               \
        _mm_sfence();                                                                                                  \
        fill_##suffix(to + head + whole, value, count - head - whole);                                                 \
    }                                                                                                                  \
    target static void triad_nt_##suffix(float *restrict a, const float *restrict b, const float *restrict c,          \
                                         size_t count) {                                                               \
        const size_t head = elements_before(a, width, count), whole = (count - head) / ((width) / 4) * ((width) / 4);  \
        const size_t end = head + whole;                                                                               \
        triad_##suffix(a, b, c, head);                                                                                 \
        for (size_t i = head; i < end; i += (width) / 4)                                                               \
            stream(a + i, (integers)(*(const floats_##suffix *)(b + i) + 3 * *(const floats_##suffix *)(c + i)));      \
        _mm_sfence();                                                                                                  \
        triad_##suffix(a + end, b + end, c + end, count - end);                                                        \
    }

/* Elements of 4 bytes before the first one that is aligned to `width` bytes, at most `count`. */
static size_t elements_before(const void *p, size_t width, size_t count) {
    const size_t head = (width - ((uintptr_t)p & (width - 1))) % width / 4;
    return head < count ? head : count;
}

DEFINE_FILL_TRIAD_NT(base, , 16, __m128i, STREAM16)
DEFINE_FILL_TRIAD_NT(avx2, AS_TARGET_AVX2, 32, __m256i, STREAM32)
DEFINE_FILL_TRIAD_NT(avx512, AS_TARGET_AVX512, 64, __m512i, STREAM64)
#else
#define fill_nt_base fill_base
#define fill_nt_avx2 fill_avx2
#define fill_nt_avx512 fill_avx512
#define triad_nt_base triad_base
#define triad_nt_avx2 triad_avx2
#define triad_nt_avx512 triad_avx512
#endif

as_stream_fill_fn as_stream_fill(as_isa isa) {
    return isa == AS_ISA_AVX512 ? fill_avx512 : isa == AS_ISA_AVX2 ? fill_avx2 : fill_base;
}

as_stream_fill_fn as_stream_fill_nt(as_isa isa) {
    return isa == AS_ISA_AVX512 ? fill_nt_avx512 : isa == AS_ISA_AVX2 ? fill_nt_avx2 : fill_nt_base;
}

as_stream_triad_fn as_stream_triad(as_isa isa) {
    return isa == AS_ISA_AVX512 ? triad_avx512 : isa == AS_ISA_AVX2 ? triad_avx2 : triad_base;
}

as_stream_triad_fn as_stream_triad_nt(as_isa isa) {
    return isa == AS_ISA_AVX512 ? triad_nt_avx512 : isa == AS_ISA_AVX2 ? triad_nt_avx2 : triad_nt_base;
}
