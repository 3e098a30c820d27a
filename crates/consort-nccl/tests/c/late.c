/* Calls from where a program ends: destructors of threads and of the program, when what threads had is gone. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "must.h"

static ncclComm_t comms[2];

/* Something that works, something that fails, a group and a text. */
static void use(ncclComm_t comm) {
  float number = 3, sum = 0;
  MUST(ncclAllReduce(&number, &sum, 1, ncclFloat, ncclSum, comm, NULL) == ncclSuccess && sum == 3);
  MUST(ncclAllReduce(&number, &sum, 1, ncclFloat, ncclSum, NULL, NULL) == ncclInvalidArgument);
  MUST(ncclGetLastError(NULL)[0] != '\0');
  MUST(ncclGroupStart() == ncclSuccess && ncclGroupEnd() == ncclSuccess);
  const char *text;
  int length;
  MUST(ncclParamGetParameter("CONSORT_VERIFY", &text, &length) == ncclSuccess);
}

static void end(void *comm) {
  use(comm);
  MUST(ncclCommDestroy(comm) == ncclSuccess);
}

static void *run(void *key) {
  use(comms[0]);
  MUST(pthread_setspecific(*(pthread_key_t *)key, comms[0]) == 0);
  return NULL;
}

__attribute__((destructor)) static void last(void) {
  end(comms[1]);
  printf("all results are right\n");
  fflush(stdout);
  /* There is nobody to tell what parameters there are. */
  close(2);
  ncclParamDumpAll();
}

int main(void) {
  for (int at = 0; at < 2; at++) MUST(ncclCommInitAll(&comms[at], 1, NULL) == ncclSuccess);
  pthread_key_t key;
  pthread_t thread;
  MUST(pthread_key_create(&key, end) == 0);
  MUST(pthread_create(&thread, NULL, run, &key) == 0);
  MUST(pthread_join(thread, NULL) == 0);
  use(comms[1]);
  return 0;
}
