/* NVIDIA's header of NCCL includes it, and takes nothing from it for C. */
