/* The kernel that cold_module and its like load from memory. The build makes PTX and machine code of it and embeds both
 * (kernels/cuda/embed.cmake); this file is linked into nothing. */
extern "C" __global__ void as_cold_kernel(unsigned *out) { out[threadIdx.x] = 3 * threadIdx.x + 1; }
