/* Children are forked while threads make calls all the time: none of them finds a lock that nobody lets go of. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consort_nccl.h"

/* Of CUDA's driver. */
int cuEventCreate(void **event, unsigned flags);
int cuEventQuery(void *event);

#define MUST(condition)                                                \
  do {                                                                 \
    if (!(condition)) {                                                \
      printf("line %d: %s\n", __LINE__, ncclGetLastError(NULL));       \
      fflush(stdout);                                                  \
      _exit(1);                                                        \
    }                                                                  \
  } while (0)
#define FORKED(call) \
  MUST((call) == ncclInvalidUsage && strstr(ncclGetLastError(NULL), "was forked from") != NULL)

static ncclComm_t comm;
static cudaStream_t stream;
static ncclWindow_t window;
static void *memory, *event;
static volatile int over;

static void *look_up(void *nothing) {
  int count;
  void *place;
  while (!over) {
    MUST(ncclCommCount(comm, &count) == ncclSuccess);
    MUST(consortStreamQuery(stream) == ncclSuccess);
    MUST(cuEventQuery(event) == 0);
    MUST(ncclWinGetUserPtr(comm, window, &place) == ncclSuccess);
  }
  return nothing;
}

static void *take_and_fail(void *nothing) {
  void *place;
  while (!over) {
    MUST(ncclMemAlloc(&place, 1) == ncclSuccess && ncclMemFree(place) == ncclSuccess);
    MUST(ncclCommCount(comm, NULL) == ncclInvalidArgument);
  }
  return nothing;
}

static int child(void) {
  alarm(20);
  int count;
  void *place;
  cudaStream_t own;
  FORKED(ncclCommCount(comm, &count));
  FORKED(consortStreamQuery(stream));
  MUST(cuEventQuery(event) != 0);
  FORKED(ncclWinGetUserPtr(comm, window, &place));
  MUST(ncclGetPeerDevicePointer(window, 0, 0, &place) == ncclSuccess && place == memory);
  MUST(ncclMemAlloc(&place, 1) == ncclSuccess && ncclMemFree(place) == ncclSuccess);
  MUST(consortStreamCreate(&own) == ncclSuccess && consortStreamDestroy(own) == ncclSuccess);
  MUST(consortStreamDestroy(stream) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess);
  return 0;
}

int main(void) {
  MUST(ncclCommInitAll(&comm, 1, NULL) == ncclSuccess && ncclMemAlloc(&memory, 4096) == ncclSuccess);
  MUST(ncclCommWindowRegister(comm, memory, 4096, &window, 1) == ncclSuccess);
  MUST(consortStreamCreate(&stream) == ncclSuccess && cuEventCreate(&event, 0) == 0);
  pthread_t threads[4];
  for (int at = 0; at < 4; at++) {
    MUST(pthread_create(&threads[at], NULL, at % 2 ? look_up : take_and_fail, NULL) == 0);
  }
  for (int round = 0; round < 60; round++) {
    int status = -1;
    pid_t process = fork();
    MUST(process >= 0);
    if (process == 0) _exit(child());
    MUST(waitpid(process, &status, 0) == process);
    if (status != 0) {
      printf("child %d has ended with %x\n", round, status);
      return 1;
    }
  }
  over = 1;
  for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
  MUST(consortStreamDestroy(stream) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess);
  printf("all results are right\n");
  return 0;
}
