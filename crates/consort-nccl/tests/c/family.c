/* A process and a child of its are ranks of one communicator: each has its memory for itself. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

static void *memory;

/* What the rank has in its window the other finds by a pointer. */
static int be(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  ncclWindow_t window;
  void *place;
  float one = 1, sum = 0;
  MUST(ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess);
  *(int *)memory = 10 + rank;
  MUST(ncclCommWindowRegister(comm, memory, 4096, &window, 1) == ncclSuccess);
  MUST(ncclGetPeerDevicePointer(window, 0, 1 - rank, &place) == ncclSuccess);
  MUST(place != NULL && *(int *)place == 11 - rank);
  MUST(ncclAllReduce(&one, &sum, 1, ncclFloat, ncclSum, comm, NULL) == ncclSuccess && sum == 2);
  MUST(ncclCommWindowDeregister(comm, window) == ncclSuccess);
  MUST(ncclCommDestroy(comm) == ncclSuccess);
  return 0;
}

int main(void) {
  ncclUniqueId id;
  ncclComm_t own;
  ncclWindow_t window;
  /* With a window, so that this process has told itself from others. */
  MUST(ncclMemAlloc(&memory, 4096) == ncclSuccess && ncclCommInitAll(&own, 1, NULL) == ncclSuccess);
  MUST(ncclCommWindowRegister(own, memory, 4096, &window, 1) == ncclSuccess);
  MUST(ncclCommDestroy(own) == ncclSuccess && ncclMemFree(memory) == ncclSuccess);
  MUST(ncclGetUniqueId(&id) == ncclSuccess);
  pid_t process = fork();
  MUST(process >= 0);
  MUST(ncclMemAlloc(&memory, 4096) == ncclSuccess);
  if (process == 0) {
    alarm(30);
    _exit(be(1, id));
  }
  be(0, id);
  int status = -1;
  MUST(waitpid(process, &status, 0) == process);
  if (status != 0) {
    printf("the child has ended with %x\n", status);
    return 1;
  }
  printf("all results are right\n");
  return 0;
}
