/* A child is forked while a stream is busy: it uses nothing of its parent's, and does not wait for it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

/* Of CUDA's driver. */
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, cudaStream_t stream);
int cuEventDestroy_v2(void *event);
int cuStreamWaitEvent(cudaStream_t stream, void *event, unsigned flags);
int cuCtxSynchronize(void);

static ncclComm_t comms[2];
static cudaStream_t streams[2], idle;
static void *event;
static float numbers[2] = {1, 2}, sums[2];

static ncclResult_t sum(int rank, cudaStream_t stream) {
  return ncclAllReduce(&numbers[rank], &sums[rank], 1, ncclFloat, ncclSum, comms[rank], stream);
}

static int child(void) {
  alarm(30);
  int count;
  FORKED(sum(0, NULL));
  FORKED(sum(0, streams[0]));
  FORKED(sum(1, idle));
  FORKED(ncclCommCount(comms[0], &count));
  FORKED(consortStreamQuery(streams[0]));
  FORKED(consortStreamSynchronize(streams[0]));
  FORKED(consortStreamSynchronize(idle));
  MUST(cuStreamWaitEvent(NULL, event, 0) != 0);
  MUST(cuCtxSynchronize() != 0);
  MUST(cuEventDestroy_v2(event) == 0);
  MUST(consortStreamDestroy(streams[0]) == ncclSuccess);
  MUST(consortStreamDestroy(idle) == ncclSuccess);
  MUST(consortStreamDestroy(idle) == ncclInvalidArgument);
  MUST(ncclCommDestroy(comms[0]) == ncclSuccess);
  MUST(ncclCommDestroy(comms[0]) == ncclInvalidArgument);
  MUST(ncclCommAbort(comms[1]) == ncclSuccess);
  /* What it makes itself is its own. */
  MUST(ncclCommInitAll(comms, 1, NULL) == ncclSuccess);
  MUST(consortStreamCreate(&streams[0]) == ncclSuccess);
  MUST(sum(0, streams[0]) == ncclSuccess);
  MUST(consortStreamSynchronize(streams[0]) == ncclSuccess && sums[0] == 1);
  MUST(consortStreamDestroy(streams[0]) == ncclSuccess);
  MUST(ncclCommDestroy(comms[0]) == ncclSuccess);
  return 0;
}

int main(void) {
  void *memory[2];
  ncclWindow_t windows[2];
  MUST(ncclCommInitAll(comms, 2, NULL) == ncclSuccess);
  MUST(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 2; rank++) {
    MUST(ncclMemAlloc(&memory[rank], 4096) == ncclSuccess);
    MUST(ncclCommWindowRegister(comms[rank], memory[rank], 4096, &windows[rank], 1) == ncclSuccess);
    MUST(consortStreamCreate(&streams[rank]) == ncclSuccess);
  }
  MUST(ncclGroupEnd() == ncclSuccess);
  MUST(consortStreamCreate(&idle) == ncclSuccess && cuEventCreate(&event, 0) == 0);
  /* Not done before the other rank makes the call, too. */
  MUST(sum(0, streams[0]) == ncclSuccess && cuEventRecord(event, streams[0]) == 0);
  pid_t process = fork();
  MUST(process >= 0);
  if (process == 0) exit(child());
  int status = -1;
  MUST(waitpid(process, &status, 0) == process);
  if (status != 0) {
    printf("the child has ended with %x\n", status);
    return 1;
  }
  MUST(sum(1, streams[1]) == ncclSuccess);
  for (int rank = 0; rank < 2; rank++) {
    MUST(consortStreamSynchronize(streams[rank]) == ncclSuccess && sums[rank] == 3);
  }
  for (int rank = 0; rank < 2; rank++) {
    MUST(consortStreamDestroy(streams[rank]) == ncclSuccess);
    MUST(ncclCommAbort(comms[rank]) == ncclSuccess);
    MUST(ncclMemFree(memory[rank]) == ncclSuccess);
  }
  printf("all results are right\n");
  return 0;
}
