/* What NVIDIA's headers for GPUs take from CUDA's driver. Nothing that is compared depends on it. */
typedef int CUmemLocationType;
