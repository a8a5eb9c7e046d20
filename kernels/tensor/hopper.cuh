/* What Hopper alone has, as thin functions over PTX (PTX ISA 8.x, sections on mbarrier, cp.async.bulk.tensor and
 * wgmma): transaction barriers, bulk tensor copies, warpgroup products. Usable where AS_HAVE_WGMMA is 1: device code
 * for sm_90a. Everything takes 32-bit shared addresses. */
#pragma once

#include <cuda.h>
#include <stdint.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define AS_HAVE_WGMMA 1
#else
#define AS_HAVE_WGMMA 0
#endif

#if AS_HAVE_WGMMA

static __device__ __forceinline__ uint32_t as_shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- barriers ---- */

static __device__ __forceinline__ void as_barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes the initialised barriers visible to the copy engine and to the cluster. */
static __device__ __forceinline__ void as_barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Waits until the phase of this parity has completed. */
static __device__ __forceinline__ void as_barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Arrives, and tells the barrier how many bytes will come in this phase. */
static __device__ __forceinline__ void as_barrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void as_barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* At the barrier of the same offset in block `rank` of the cluster. Orders nothing beyond this block: who arrives has only
 * read, by products that have finished. (A release to the cluster would cost a fence of the whole GPU each time.) */
static __device__ __forceinline__ void as_barrier_arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

static __device__ __forceinline__ uint32_t as_cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* All threads of all blocks of the cluster. */
static __device__ __forceinline__ void as_cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* `threads` threads, a number of whole warps; `id` 1 to 15 (0 is __syncthreads). */
static __device__ __forceinline__ void as_named_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* ---- registers of a warpgroup's role; all its warps call it ---- */

template <int REGISTERS> static __device__ __forceinline__ void as_registers_grow() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> static __device__ __forceinline__ void as_registers_shrink() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* ---- bulk tensor copies: boxes of a 2-D matrix, x counts elements of a row ---- */

static __device__ __forceinline__ void as_tensor_prefetch_map(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

static __device__ __forceinline__ void as_tensor_load(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x,
                                                      int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
                 "[%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y)
                 : "memory");
}

/* Into the same offset of every block of `mask`, each of whose barriers at the same offset counts the bytes. */
static __device__ __forceinline__ void as_tensor_load_multicast(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                                                int x, int y, uint16_t mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(mask), "r"(x), "r"(y)
                 : "memory");
}

static __device__ __forceinline__ void as_tensor_store(const CUtensorMap *map, uint32_t from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
                 "r"(x), "r"(y)
                 : "memory");
}
static __device__ __forceinline__ void as_stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/* All but the newest PENDING groups of this thread have read their shared memory. */
template <int PENDING> static __device__ __forceinline__ void as_stores_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING> static __device__ __forceinline__ void as_stores_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
/* Ordinary stores to shared memory before, the copy engine's or tensor cores' reads after. */
static __device__ __forceinline__ void as_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- warpgroup products ---- */

/* A tile of rows of 128 bytes, swizzled as CU_TENSOR_MAP_SWIZZLE_128B does, aligned to 1024 bytes: groups of 8 rows lie
 * 1024 bytes apart. PTX ISA, "Matrix descriptor": address, leading offset (unused here) and stride in units of 16
 * bytes, mode 1 in the top bits. A step of 32 bytes along k adds 2. */
static __device__ __forceinline__ uint64_t as_tile_descriptor(uint32_t address) {
    return (uint64_t)((address & 0x3FFFFu) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Before the first product that touches registers which ordinary code wrote. */
static __device__ __forceinline__ void as_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void as_wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING> static __device__ __forceinline__ void as_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* d = a b + (more ? d : 0) for 64 x N sums and 32 bytes along k. A thread's sums: d[4 j + 2 h + i] is row 16 warp +
 * lane / 4 + 8 h, column 8 j + lane % 4 * 2 + i. */
// clang-format off
#define AS_WGMMA_NAMES_64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define AS_WGMMA_SUMS_64(c, d) \
    c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7]), \
    c(d[8]), c(d[9]), c(d[10]), c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15]), \
    c(d[16]), c(d[17]), c(d[18]), c(d[19]), c(d[20]), c(d[21]), c(d[22]), c(d[23]), \
    c(d[24]), c(d[25]), c(d[26]), c(d[27]), c(d[28]), c(d[29]), c(d[30]), c(d[31]), \
    c(d[32]), c(d[33]), c(d[34]), c(d[35]), c(d[36]), c(d[37]), c(d[38]), c(d[39]), \
    c(d[40]), c(d[41]), c(d[42]), c(d[43]), c(d[44]), c(d[45]), c(d[46]), c(d[47]), \
    c(d[48]), c(d[49]), c(d[50]), c(d[51]), c(d[52]), c(d[53]), c(d[54]), c(d[55]), \
    c(d[56]), c(d[57]), c(d[58]), c(d[59]), c(d[60]), c(d[61]), c(d[62]), c(d[63])

#define AS_WGMMA_NAMES_128 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define AS_WGMMA_SUMS_128(c, d) \
    c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7]), \
    c(d[8]), c(d[9]), c(d[10]), c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15]), \
    c(d[16]), c(d[17]), c(d[18]), c(d[19]), c(d[20]), c(d[21]), c(d[22]), c(d[23]), \
    c(d[24]), c(d[25]), c(d[26]), c(d[27]), c(d[28]), c(d[29]), c(d[30]), c(d[31]), \
    c(d[32]), c(d[33]), c(d[34]), c(d[35]), c(d[36]), c(d[37]), c(d[38]), c(d[39]), \
    c(d[40]), c(d[41]), c(d[42]), c(d[43]), c(d[44]), c(d[45]), c(d[46]), c(d[47]), \
    c(d[48]), c(d[49]), c(d[50]), c(d[51]), c(d[52]), c(d[53]), c(d[54]), c(d[55]), \
    c(d[56]), c(d[57]), c(d[58]), c(d[59]), c(d[60]), c(d[61]), c(d[62]), c(d[63]), \
    c(d[64]), c(d[65]), c(d[66]), c(d[67]), c(d[68]), c(d[69]), c(d[70]), c(d[71]), \
    c(d[72]), c(d[73]), c(d[74]), c(d[75]), c(d[76]), c(d[77]), c(d[78]), c(d[79]), \
    c(d[80]), c(d[81]), c(d[82]), c(d[83]), c(d[84]), c(d[85]), c(d[86]), c(d[87]), \
    c(d[88]), c(d[89]), c(d[90]), c(d[91]), c(d[92]), c(d[93]), c(d[94]), c(d[95]), \
    c(d[96]), c(d[97]), c(d[98]), c(d[99]), c(d[100]), c(d[101]), c(d[102]), c(d[103]), \
    c(d[104]), c(d[105]), c(d[106]), c(d[107]), c(d[108]), c(d[109]), c(d[110]), c(d[111]), \
    c(d[112]), c(d[113]), c(d[114]), c(d[115]), c(d[116]), c(d[117]), c(d[118]), c(d[119]), \
    c(d[120]), c(d[121]), c(d[122]), c(d[123]), c(d[124]), c(d[125]), c(d[126]), c(d[127])
// clang-format on
#define AS_WGMMA_FLOAT(d) "+f"(d)
#define AS_WGMMA_WHOLE(d) "+r"(d)
/* COUNT sums a thread, %COUNT and on: descriptors of a and b, `more`. */
#define AS_WGMMA(NAME, COUNT, A, B, MORE, TYPE, CONSTRAINT, INSTRUCTION, TAIL)                                         \
    static __device__ __forceinline__ void NAME(TYPE(&d)[COUNT], uint64_t a, uint64_t b, int more) {                   \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" MORE ", 0;\n"                                                \
                     "wgmma.mma_async.sync.aligned." INSTRUCTION " {" AS_WGMMA_NAMES_##COUNT "}, %" A ", %" B          \
                                                                                             ", p" TAIL ";\n}"         \
                     : AS_WGMMA_SUMS_##COUNT(CONSTRAINT, d)                                                            \
                     : "l"(a), "l"(b), "r"(more));                                                                     \
    }
#define AS_WGMMA_BOTH(NAME, TYPE, CONSTRAINT, K, TYPES, TAIL)                                                          \
    AS_WGMMA(NAME, 64, "64", "65", "66", TYPE, CONSTRAINT, "m64n128k" K "." TYPES, TAIL)                               \
    AS_WGMMA(NAME, 128, "128", "129", "130", TYPE, CONSTRAINT, "m64n256k" K "." TYPES, TAIL)
AS_WGMMA_BOTH(as_wgmma_tf32, float, AS_WGMMA_FLOAT, "8", "f32.tf32.tf32", ", 1, 1")
AS_WGMMA_BOTH(as_wgmma_bf16, float, AS_WGMMA_FLOAT, "16", "f32.bf16.bf16", ", 1, 1, 0, 0")
AS_WGMMA_BOTH(as_wgmma_f16, float, AS_WGMMA_FLOAT, "16", "f32.f16.f16", ", 1, 1, 0, 0")
AS_WGMMA_BOTH(as_wgmma_e4m3, float, AS_WGMMA_FLOAT, "32", "f32.e4m3.e4m3", ", 1, 1")
AS_WGMMA_BOTH(as_wgmma_s8, int, AS_WGMMA_WHOLE, "32", "s32.s8.s8", "")

#endif /* AS_HAVE_WGMMA */
