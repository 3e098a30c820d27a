/* What NVIDIA's headers of NCCL take from CUDA's, so that they compile where there is no CUDA. */
#ifndef __CUDA_RUNTIME_API_H__
#define __CUDA_RUNTIME_API_H__

#include <stdbool.h>
#include <stddef.h>

typedef struct CUstream_st *cudaStream_t;

#endif
