/* Ranks of one process that the system gives too few threads for, from none to enough. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "must.h"

enum { WORLD = 3, SOON = 30 };

static ncclComm_t comms[WORLD];
/* How many threads there are to be had. */
static atomic_int spare = INT_MAX;

/* Takes the place of the system's, also for the library. */
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*run)(void *),
                   void *restrict with) {
  if (atomic_fetch_sub(&spare, 1) <= 0) return EAGAIN;
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
  return create(thread, attributes, run, with);
}

static ncclResult_t all(void) { return ncclCommInitAll(comms, WORLD, NULL); }

/* The ranks of a group that each come by themselves. */
static ncclResult_t group(int blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  ncclUniqueId id;
  ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return result;
  MUST(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < WORLD; rank++) {
    result = ncclCommInitRankConfig(&comms[rank], WORLD, id, rank, &config);
    MUST(result == ncclSuccess || result == ncclInProgress);
  }
  return ncclGroupEnd();
}

static ncclResult_t waits(void) { return group(1); }

static ncclResult_t goes_on(void) {
  ncclResult_t result = group(0);
  for (int rank = 0; result == ncclInProgress && rank < WORLD; rank++) {
    do MUST(ncclCommGetAsyncError(comms[rank], &result) == ncclSuccess);
    while (result == ncclInProgress);
    if (result == ncclSuccess && rank + 1 < WORLD) result = ncclInProgress;
  }
  return result;
}

/* How many threads it takes. With fewer somebody is told so, and nobody waits. */
static int needs(ncclResult_t (*meet)(void)) {
  for (int threads = 0;; threads++) {
    memset(comms, 0, sizeof comms);
    time_t began = time(NULL);
    atomic_store(&spare, threads);
    ncclResult_t result = meet();
    atomic_store(&spare, INT_MAX);
    MUST(time(NULL) - began < SOON);
    MUST(result == ncclSuccess || result == ncclSystemError || result == ncclRemoteError);
    for (int rank = 0; rank < WORLD; rank++) {
      if (meet == all && result != ncclSuccess) MUST(comms[rank] == NULL);
      MUST(ncclCommDestroy(comms[rank]) == ncclSuccess);
    }
    if (result == ncclSuccess) return threads;
  }
}

int main(void) {
  MUST(needs(all) >= WORLD);
  MUST(needs(waits) >= WORLD);
  MUST(needs(goes_on) >= WORLD);
  printf("all results are right\n");
  return 0;
}
