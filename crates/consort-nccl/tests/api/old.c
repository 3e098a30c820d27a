/* An older NCCL: what LIBRARY has, but not what came after 2.27. If UNABLE, it makes no communicators. */
#include "forward.h"

#ifdef UNABLE
#define INIT(WITH)
int ncclCommInitRankConfig(void) { return 2; }
#else
#define INIT(WITH) WITH(ncclCommInitRankConfig)
#endif

#define ALL(WITH)                                                                                      \
    WITH(ncclGetUniqueId) WITH(ncclGetErrorString) WITH(ncclGetLastError) INIT(WITH)                   \
    WITH(ncclCommInitRank) WITH(ncclCommFinalize) WITH(ncclCommDestroy) WITH(ncclCommAbort)            \
    WITH(ncclCommGetAsyncError) WITH(ncclCommCount) WITH(ncclCommUserRank) WITH(ncclCommCuDevice)      \
    WITH(ncclCommSplit) WITH(ncclAllReduce) WITH(ncclBroadcast) WITH(ncclReduce) WITH(ncclAllGather)   \
    WITH(ncclReduceScatter) WITH(ncclSend) WITH(ncclRecv) WITH(ncclGroupStart) WITH(ncclGroupEnd)

ALL(FORWARD)

__attribute__((constructor)) static void begin(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        ALL(FIND)
    }
}
