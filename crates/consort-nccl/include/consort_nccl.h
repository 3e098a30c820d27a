/*
 * What libconsort_nccl has and NCCL has not.
 */
#ifndef CONSORT_NCCL_H_
#define CONSORT_NCCL_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who this is: "consort-nccl 0.1.0 ...". A program that looks this up, and finds it, is not linked with NCCL. */
const char *consortNcclIdentity(void);

/* A queue of calls, with a thread of its own: what a program without CUDA has for streams. */
ncclResult_t consortStreamCreate(cudaStream_t *stream);

/* What is still to be done on the stream is done. */
ncclResult_t consortStreamDestroy(cudaStream_t stream);

/* Waits until the stream has nothing to do, and says what went wrong on it first since the last time. */
ncclResult_t consortStreamSynchronize(cudaStream_t stream);

/* ncclSuccess if the stream has nothing to do, ncclInProgress if it has. */
ncclResult_t consortStreamQuery(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
