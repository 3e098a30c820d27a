/* An NCCL that takes its time to know memory and to forget it, and counts what is given back too early, and
 * how communicators end. */
#include "forward.h"

#include <stdatomic.h>

enum { SUCCESS = 0, IN_PROGRESS = 7 };

#define ALL(WITH)                                                                                      \
    WITH(ncclGetUniqueId) WITH(ncclGetErrorString) WITH(ncclGetLastError) WITH(ncclCommInitRankConfig) \
    WITH(ncclCommFinalize) WITH(ncclCommCount) WITH(ncclCommUserRank) WITH(ncclCommCuDevice)           \
    WITH(ncclMemAlloc) WITH(ncclCommWindowRegister) WITH(ncclGroupStart) WITH(ncclGroupEnd)

/* Those that it does otherwise. */
#define OWN(WITH)                                                                                        \
    WITH(ncclCommRegister, (void *, void *, size_t, void **)) WITH(ncclCommDeregister, (void *, void *)) \
    WITH(ncclCommWindowDeregister, (void *, void *)) WITH(ncclCommGetAsyncError, (void *, int *))        \
    WITH(ncclCommDestroy, (void *)) WITH(ncclCommAbort, (void *)) WITH(ncclMemFree, (void *))

#define KEEP(name, types) static int (*real_##name) types;
#define FIND_OWN(name, types) real_##name = (int(*) types)dlsym(library, #name);

ALL(FORWARD)
OWN(KEEP)

__attribute__((constructor)) static void begin(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        ALL(FIND)
        OWN(FIND_OWN)
    }
}

/* How often it has to be asked until it is done with something, and how often it still has to. */
static atomic_int patience, left;
/* Memory that was given back, and of it what it was not done with. */
static atomic_int freed, early;
/* Communicators that were ended in good order, and those that were not. */
static atomic_int destroyed, aborted;
/* Where the name of memory goes, and which, when it is known at last. */
static _Atomic(void **) place;
static void *name;

void slowPatience(int looks) { patience = looks; }
int slowFreed(void) { return freed; }
int slowEarly(void) { return early; }
int slowDestroyed(void) { return destroyed; }
int slowAborted(void) { return aborted; }

static int later(int code) {
    left = patience;
    return code == SUCCESS && left > 0 ? IN_PROGRESS : code;
}

int ncclCommRegister(void *comm, void *start, size_t size, void **handle) {
    int code = real_ncclCommRegister(comm, start, size, &name);
    if (patience == 0) {
        *handle = name;
        return code;
    }
    place = handle;
    return later(code);
}

int ncclCommDeregister(void *comm, void *handle) { return later(real_ncclCommDeregister(comm, handle)); }

int ncclCommWindowDeregister(void *comm, void *window) {
    return later(real_ncclCommWindowDeregister(comm, window));
}

int ncclCommGetAsyncError(void *comm, int *state) {
    int code = real_ncclCommGetAsyncError(comm, state);
    if (code == SUCCESS && *state == SUCCESS && left > 0) {
        left--;
        *state = IN_PROGRESS;
    } else if (*state == SUCCESS && place != NULL) {
        *place = name;
        place = NULL;
    }
    return code;
}

int ncclCommDestroy(void *comm) {
    int code = real_ncclCommDestroy(comm);
    destroyed++;
    left = 0;
    return code;
}

int ncclCommAbort(void *comm) {
    int code = real_ncclCommAbort(comm);
    aborted++;
    left = 0;
    return code;
}

int ncclMemFree(void *start) {
    freed++;
    early += left > 0;
    return real_ncclMemFree(start);
}
