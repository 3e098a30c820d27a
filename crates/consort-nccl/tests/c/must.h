/* What programs of these tests expect of calls. A program ends with the first surprise, and says where. */
#ifndef CONSORT_TESTS_MUST_H
#define CONSORT_TESTS_MUST_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "consort_nccl.h"

#define MUST(condition)                                                \
  do {                                                                 \
    if (!(condition)) {                                                \
      printf("line %d: %s\n", __LINE__, ncclGetLastError(NULL));       \
      fflush(stdout);                                                  \
      _exit(1);                                                        \
    }                                                                  \
  } while (0)

/* What is its parent's is refused in a forked child. */
#define FORKED(call) \
  MUST((call) == ncclInvalidUsage && strstr(ncclGetLastError(NULL), "was forked from") != NULL)

#endif
