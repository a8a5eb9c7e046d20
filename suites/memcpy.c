/* Suite memcpy: copies inside a memory, over the link between host and device, and between devices. */
#include "memcpy.h"

static const as_axis axes[] = {
    {"bytes", "0", true, false, "bytes", "length of the copy; must be given"},
    {"dir", "h2h", false, false, "",
     "h2h on the cpu; h2d, d2h, d2d on a GPU (h host, d device); p2d, d2p (p peer GPU)"},
    {"memory", "pinned", false, false, "", "host side of h2d and d2h: pinned, pageable, write_combined or registered"},
    {"pieces", "1", true, false, "copies", "many, batch: copies that the bytes are split into"},
    {"uses", "1", true, false, "uses", "resident, resend: uses of the bytes on the device"},
    {"copies", "3", true, false, "copies", "request_copy: copies by the CPU, the read included, 2 or 3"},
    {"by", "ce", false, false, "", "copies of several streams: ce by copy engines, sm by kernels"},
    {"peer", "next", false, false, "", "the other GPU: its number, or next: the first after this one that it reaches"},
    {"node", "near", false, false, "", "libc, async: NUMA node of the host's buffers: near, or far (the farthest)"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_MEMCPY_CPU_STATE(AS_ROW_CPU_STATE)         //
    AS_MEMCPY_CPU(AS_ROW_CPU)                     //
    AS_MEMCPY_CPU_AVAILABLE(AS_ROW_CPU_AVAILABLE) //
    AS_MEMCPY_CPU_EXTRA(AS_ROW_CPU_EXTRA)         //
#ifdef ASSAY_CUDA
    AS_MEMCPY_CUDA(AS_ROW_CUDA)                 //
    AS_MEMCPY_CUDA_STATE(AS_ROW_CUDA_STATE)     //
    AS_MEMCPY_CUDA_LIBRARY(AS_ROW_CUDA_LIBRARY) //
    AS_MEMCPY_CUDA_EXTRA(AS_ROW_CUDA_EXTRA)     //
#endif
    {.name = NULL},
};

/* Sizes in bytes: 4096 = 4 KiB, 65536, 1048576 = 1 MiB, 16777216, 67108864, 536870912 = 512 MiB, 1073741824 = 1 GiB on
 * a GPU; on the cpu one for each cache level that is common and two beyond. 602112: a ResNet-50 input, 224 x 224 x 3 x
 * 4 bytes. */
#define PAIR "libc,nt"
#define VECTORS "rep_movsb,avx2,avx512"
#define REQUESTS "request_copy,request_straight,request_register,request_mapped"
#define MANAGED "managed_fault,managed_prefetch,managed_advise"
#define PEERS "peer,peer_bidirectional,all_to_one,one_to_all"

static const as_point points[] = {
    {AS_QUICK, "cpu", PAIR, "bytes=4096,524288,4194304,33554432,268435456", 0},
    {AS_QUICK, "cpu", PAIR, "bytes=524288,4194304,33554432,268435456;threads=all", 0},
    {AS_QUICK, "cpu", "libc", "bytes=4194304;cache=cold", 2},
    {AS_QUICK, "cpu", "huge", "bytes=268435456", 2},
    {AS_QUICK, "cpu", "request_copy,request_straight", "bytes=1048576", 1},
    {AS_QUICK, "cuda", "async", "bytes=4096,1048576,536870912;dir=h2d,d2h", 0},
    {AS_QUICK, "cuda", "sync", "bytes=536870912;dir=h2d,d2h", 1},
    {AS_QUICK, "cuda", "sync", "bytes=4096;dir=h2d", 1},
    {AS_QUICK, "cuda", "sync", "bytes=4096,536870912;dir=h2d,d2h;memory=pageable", 0},
    {AS_QUICK, "cuda", "async", "bytes=67108864,536870912;dir=d2d", 0},
    {AS_QUICK, "cuda", "kernel", "bytes=67108864,536870912;dir=d2d", 1},
    {AS_QUICK, "cuda", "kernel", "bytes=536870912;dir=h2d,d2h", 0},
    {AS_QUICK, "cuda", "bidirectional", "bytes=536870912;dir=h2d,d2h", 0},
    {AS_QUICK, "cuda", "latency", "bytes=2097152;dir=h2d", 0},
    {AS_QUICK, "cuda", "request_copy,request_straight", "bytes=1048576;dir=h2d", 1},
    {AS_QUICK, "cuda", "overlap", "bytes=67108864;dir=h2d", 1},
    {AS_QUICK, "cuda", "many", "bytes=67108864;dir=h2d;pieces=1024", 1},

    {AS_STANDARD, "cpu", "rep_movsb", "bytes=4194304", 2},
    {AS_STANDARD, "cpu", PAIR, "bytes=4096,65536;threads=all", 2},
    {AS_STANDARD, "cpu", PAIR, "bytes=65536", 2},
    {AS_STANDARD, "cpu", PAIR, "bytes=16384,262144,1048576,16777216,134217728;threads=1,all", 2},
    {AS_STANDARD, "cpu", PAIR, "bytes=65536,4194304;threads=all;cache=cold", 3},
    {AS_STANDARD, "cpu", VECTORS, "bytes=4096,65536,524288,33554432,268435456", 3},
    {AS_STANDARD, "cpu", "avx2,avx512", "bytes=4194304", 3},
    {AS_STANDARD, "cpu", VECTORS, "bytes=268435456;threads=all", 3},
    {AS_STANDARD, "cpu", "huge", "bytes=4194304,33554432;threads=1,all", 3},
    {AS_STANDARD, "cpu", "huge", "bytes=268435456;threads=all", 3},
    {AS_STANDARD, "cpu", "libc", "bytes=4194304,268435456;threads=1,all;node=far", 3},
    {AS_STANDARD, "cpu", "request_copy,request_straight", "bytes=65536,602112", 3},
    {AS_STANDARD, "cpu", "request_copy", "bytes=602112,1048576;copies=2", 3},
    {AS_STANDARD, "cuda", "sync", "bytes=4096;dir=d2h", 1},
    {AS_STANDARD, "cuda", "async", "bytes=65536,16777216;dir=h2d,d2h,d2d", 2},
    {AS_STANDARD, "cuda", "async", "bytes=67108864;dir=h2d,d2h", 2},
    {AS_STANDARD, "cuda", "async", "bytes=4096,1048576;dir=d2d", 2},
    {AS_STANDARD, "cuda", "sync", "bytes=65536,1048576,16777216,67108864;dir=h2d,d2h", 2},
    {AS_STANDARD, "cuda", "sync", "bytes=65536,1048576,16777216,67108864;dir=h2d,d2h;memory=pageable", 2},
    {AS_STANDARD, "cuda", "async", "bytes=4096,65536,1048576,16777216,67108864,536870912;dir=h2d,d2h;memory=pageable",
     2},
    {AS_STANDARD, "cuda", "kernel", "bytes=4096,65536,1048576,16777216;dir=d2d", 2},
    {AS_STANDARD, "cuda", "async,kernel", "bytes=16777216;dir=d2d;cache=cold", 3},
    {AS_STANDARD, "cuda", "sync", "bytes=4096,536870912;dir=d2d", 2},
    {AS_STANDARD, "cuda", "async", "bytes=4096,1048576,67108864,536870912;dir=h2d;memory=write_combined,registered", 3},
    {AS_STANDARD, "cuda", "async", "bytes=4096,1048576,67108864,536870912;dir=d2h;memory=registered", 3},
    {AS_STANDARD, "cuda", "async", "bytes=1048576,16777216;dir=d2h;memory=write_combined", 3},
    {AS_STANDARD, "cuda", "kernel", "bytes=4096,1048576,67108864;dir=h2d,d2h", 3},
    {AS_STANDARD, "cuda", "kernel", "bytes=67108864;dir=h2d;memory=write_combined", 3},
    {AS_STANDARD, "cuda", "async", "bytes=1048576,536870912;dir=h2d,d2h;node=far", 3},
    {AS_STANDARD, "cuda", "bidirectional", "bytes=268435456;dir=h2d,d2h;by=sm", 2},
    {AS_STANDARD, "cuda", "all,all_bidirectional", "bytes=536870912;dir=h2d,d2h", 3},
    {AS_STANDARD, "cuda", "all", "bytes=536870912;dir=h2d,d2h;by=sm", 3},
    {AS_STANDARD, "cuda", "all_bidirectional", "bytes=268435456;dir=h2d,d2h;by=sm", 3},
    {AS_STANDARD, "cuda", PEERS, "bytes=536870912;dir=p2d,d2p;by=ce,sm", 3},
    {AS_STANDARD, "cuda", "latency", "bytes=2097152;dir=p2d", 3},
    {AS_STANDARD, "cuda", "many,batch", "bytes=67108864;dir=h2d,d2h;pieces=16,128", 3},
    {AS_STANDARD, "cuda", "many", "bytes=67108864;dir=d2h;pieces=1024", 3},
    {AS_STANDARD, "cuda", "batch", "bytes=67108864;dir=h2d,d2h;pieces=1024", 3},
    {AS_STANDARD, "cuda", "many,batch", "bytes=67108864;dir=h2d;pieces=16384", 3},
    {AS_STANDARD, "cuda", "resident,resend", "bytes=16777216;dir=h2d;uses=2,10,100", 2},
    {AS_STANDARD, "cuda", "overlap", "bytes=67108864;dir=d2h", 3},
    {AS_STANDARD, "cuda", "overlap", "bytes=67108864;dir=h2d,d2h;memory=pageable,registered", 3},
    {AS_STANDARD, "cuda", MANAGED, "bytes=1048576,67108864;dir=h2d", 3},
    {AS_STANDARD, "cuda", "request_register,request_mapped", "bytes=1048576;dir=h2d", 2},
    {AS_STANDARD, "cuda", REQUESTS, "bytes=602112;dir=h2d", 2},
    {AS_STANDARD, "cuda", "request_copy", "bytes=602112,1048576;dir=h2d;copies=2", 3},

    {AS_PUBLISH, "cpu", PAIR "," VECTORS ",huge", "bytes=1,63,4097,1000003;threads=1,all", 4},
    {AS_PUBLISH, "cpu", PAIR, "bytes=536870912,1073741824;threads=1,all", 4},
    {AS_PUBLISH, "cuda", "sync", "bytes=65536,1048576,16777216,67108864;dir=d2d", 4},
    {AS_PUBLISH, "cuda", "sync,async", "bytes=1,4097,1000003;dir=h2d,d2h,d2d", 4},
    {AS_PUBLISH, "cuda", "sync,async", "bytes=4,64,1024,1073741824;dir=h2d,d2h", 4},
    {AS_PUBLISH, "cuda", "sync", "bytes=4,64,1024,65536,16777216;dir=h2d;memory=write_combined,registered", 5},
    {AS_PUBLISH, "cuda", "sync", "bytes=4,64,1024,1073741824;dir=h2d,d2h;memory=pageable", 5},
    {AS_PUBLISH, "cuda", "async", "bytes=4,65536,16777216,1073741824;dir=h2d;memory=write_combined,registered", 5},
    {AS_PUBLISH, "cuda", "async", "bytes=4,65536,16777216,1073741824;dir=d2h;memory=registered", 5},
    {AS_PUBLISH, "cuda", "kernel", "bytes=4,1073741824;dir=h2d,d2h", 4},
    {AS_PUBLISH, "cuda", "kernel", "bytes=1,4097,1000003;dir=h2d,d2h,d2d", 4},
    {AS_PUBLISH, "cuda", MANAGED, "bytes=536870912;dir=h2d", 5},
    {.variants = NULL},
};

const as_suite as_memcpy_suite = {
    .name = "memcpy",
    .summary = "copies on the host, on the device and between them",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = as_memcpy_describe,
    .reference = as_memcpy_reference,
};
