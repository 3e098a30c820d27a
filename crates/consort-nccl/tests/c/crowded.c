/* Children are forked while threads make calls all the time: none of them finds a lock that nobody lets go of. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

/* Of CUDA's driver. */
int cuEventCreate(void **event, unsigned flags);
int cuEventQuery(void *event);

static ncclComm_t comm, busy;
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

/* Calls that the thread of all groups carries out. */
static void group_of_calls(ncclComm_t on, cudaStream_t stream) {
  float one = 1, sums[2] = {0}, sent = 7, received = 0;
  MUST(ncclGroupStart() == ncclSuccess);
  for (int at = 0; at < 2; at++) {
    MUST(ncclAllReduce(&one, &sums[at], 1, ncclFloat, ncclSum, on, stream) == ncclSuccess);
  }
  MUST(ncclSend(&sent, 1, ncclFloat, 0, on, stream) == ncclSuccess);
  MUST(ncclRecv(&received, 1, ncclFloat, 0, on, stream) == ncclSuccess);
  MUST(ncclGroupEnd() == ncclSuccess);
  MUST(stream == NULL || consortStreamSynchronize(stream) == ncclSuccess);
  MUST(sums[0] == 1 && sums[1] == 1 && received == 7);
}

static void *make_calls(void *nothing) {
  while (!over) group_of_calls(busy, NULL);
  return nothing;
}

/* A child that makes all for itself has nothing to do with its parent. */
static void begin_anew(void) {
  ncclComm_t own;
  cudaStream_t stream;
  ncclWindow_t window;
  void *memory, *place;
  MUST(ncclCommInitAll(&own, 1, NULL) == ncclSuccess && consortStreamCreate(&stream) == ncclSuccess);
  group_of_calls(own, stream);
  group_of_calls(own, NULL);
  MUST(ncclMemAlloc(&memory, 4096) == ncclSuccess);
  MUST(ncclCommWindowRegister(own, memory, 4096, &window, 1) == ncclSuccess);
  MUST(ncclGetPeerDevicePointer(window, 0, 0, &place) == ncclSuccess && place == memory);
  MUST(ncclCommWindowDeregister(own, window) == ncclSuccess && ncclMemFree(memory) == ncclSuccess);
  MUST(consortStreamDestroy(stream) == ncclSuccess && ncclCommDestroy(own) == ncclSuccess);
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
  begin_anew();
  return 0;
}

int main(void) {
  MUST(ncclCommInitAll(&comm, 1, NULL) == ncclSuccess && ncclMemAlloc(&memory, 4096) == ncclSuccess);
  MUST(ncclCommWindowRegister(comm, memory, 4096, &window, 1) == ncclSuccess);
  MUST(consortStreamCreate(&stream) == ncclSuccess && cuEventCreate(&event, 0) == 0);
  MUST(ncclCommInitAll(&busy, 1, NULL) == ncclSuccess);
  void *(*const roles[])(void *) = {look_up, take_and_fail, look_up, take_and_fail, make_calls};
  enum { THREADS = sizeof roles / sizeof *roles };
  pthread_t threads[THREADS];
  for (int at = 0; at < THREADS; at++) {
    MUST(pthread_create(&threads[at], NULL, roles[at], NULL) == 0);
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
  for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
  MUST(ncclCommDestroy(busy) == ncclSuccess);
  MUST(consortStreamDestroy(stream) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess);
  printf("all results are right\n");
  return 0;
}
