/* An older NCCL: what LIBRARY has, but not what came after 2.27. If UNABLE, it makes no communicators; if STILL,
 * the process stands still when it is to make one; if FAILING, they have failed as soon as there is a file of that
 * name; if HANGING, whoever aborts one does not come back. */
#include "forward.h"
#include <signal.h>
#include <unistd.h>

#ifdef UNABLE
#define INIT(WITH)
int ncclCommInitRankConfig(void) { return 2; }
#elif defined(STILL)
#define INIT(WITH)
int ncclCommInitRankConfig(void) { return raise(SIGSTOP) + 2; }
#else
#define INIT(WITH) WITH(ncclCommInitRankConfig)
#endif

#ifdef HANGING
#define ABORT(WITH)
int ncclCommAbort(void) {
    for (;;) pause();
}
#else
#define ABORT(WITH) WITH(ncclCommAbort)
#endif

#ifdef FAILING
#define STATE(WITH)
static int (*state)(void *, int *);
int ncclCommGetAsyncError(void *comm, int *error) {
    int code = state(comm, error);
    if (code == 0 && access(FAILING, F_OK) == 0) *error = 6;
    return code;
}
#else
#define STATE(WITH) WITH(ncclCommGetAsyncError)
#endif

#define ALL(WITH)                                                                                      \
    WITH(ncclGetUniqueId) WITH(ncclGetErrorString) WITH(ncclGetLastError) INIT(WITH)                   \
    WITH(ncclCommInitRank) WITH(ncclCommFinalize) WITH(ncclCommDestroy) ABORT(WITH) STATE(WITH)        \
    WITH(ncclCommInitAll) WITH(ncclCommCount) WITH(ncclCommUserRank) WITH(ncclCommCuDevice)            \
    WITH(ncclCommSplit) WITH(ncclAllReduce) WITH(ncclBroadcast) WITH(ncclReduce) WITH(ncclAllGather)   \
    WITH(ncclReduceScatter) WITH(ncclSend) WITH(ncclRecv) WITH(ncclGroupStart) WITH(ncclGroupEnd)

ALL(FORWARD)

__attribute__((constructor)) static void begin(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        ALL(FIND)
#ifdef FAILING
        state = (int (*)(void *, int *))dlsym(library, "ncclCommGetAsyncError");
#endif
    }
}
