/* Another NCCL in front of LIBRARY, of the same version. If STRAYS, it writes there which functions were called in
 * another context of CUDA's than that of device DEVICE; if PLACELESS, it does not know where memory of others is; if
 * HANGING, whoever aborts a communicator does not come back; if NAMELESS, it makes no ids; if
 * SILENT, it does not tell that communicators have failed; if FREED, it writes there that memory was given back. */
#include "../api/forward.h"

#ifdef STRAYS
#include "pass.h"

static int (*current)(void **);
static void *own;

void look(const char *name) {
    void *found = NULL;
    current(&found);
    if (found != own) note(STRAYS, name);
}
#elif defined(FREED)
#include "pass.h"
#include <string.h>

void look(const char *name) {
    if (strcmp(name, "ncclMemFree") == 0) note(FREED, name);
}
#else
#define PASS(name) FORWARD(name)
#endif

#ifdef NAMELESS
#define IDS(WITH)
int ncclGetUniqueId(void) { return 2; }
#else
#define IDS(WITH) WITH(ncclGetUniqueId)
#endif

#ifdef PLACELESS
#define PLACES(WITH)
int ncclGetPeerDevicePointer(void) { return 2; }
#else
#define PLACES(WITH) WITH(ncclGetPeerDevicePointer)
#endif

#ifdef HANGING
#include <unistd.h>

#define ABORT(WITH)
int ncclCommAbort(void) {
    for (;;) pause();
}
#else
#define ABORT(WITH) WITH(ncclCommAbort)
#endif

#ifdef SILENT
#define STATE(WITH)
static int (*state)(void *, int *);
int ncclCommGetAsyncError(void *comm, int *error) {
    int code = state(comm, error), in_progress = 7;
    if (*error != in_progress) *error = 0;
    return code;
}
#else
#define STATE(WITH) WITH(ncclCommGetAsyncError)
#endif

/* What only tells something. */
#define QUESTIONS(WITH) WITH(ncclGetErrorString) WITH(ncclGetLastError) STATE(WITH)

#define DEEDS(WITH)                                                                                \
    IDS(WITH) PLACES(WITH) ABORT(WITH) WITH(ncclCommInitRank) WITH(ncclCommInitRankConfig)         \
    WITH(ncclCommInitAll)                                                                          \
    WITH(ncclCommFinalize) WITH(ncclCommDestroy) WITH(ncclCommRevoke) WITH(ncclCommCount)          \
    WITH(ncclCommUserRank) WITH(ncclCommCuDevice) WITH(ncclMemAlloc) WITH(ncclMemFree)             \
    WITH(ncclCommRegister) WITH(ncclCommDeregister) WITH(ncclCommWindowRegister)                   \
    WITH(ncclCommWindowDeregister) WITH(ncclWinGetUserPtr) WITH(ncclGetLsaDevicePointer)           \
    WITH(ncclGetLsaMultimemDevicePointer)                                                          \
    WITH(ncclAllReduce) WITH(ncclBroadcast) WITH(ncclReduce) WITH(ncclAllGather)                   \
    WITH(ncclReduceScatter) WITH(ncclSend) WITH(ncclRecv) WITH(ncclPutSignal) WITH(ncclSignal)     \
    WITH(ncclWaitSignal) WITH(ncclGroupStart) WITH(ncclGroupEnd)

QUESTIONS(FORWARD)
DEEDS(PASS)

__attribute__((constructor)) static void begin(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    QUESTIONS(FIND)
    DEEDS(FIND)
#ifdef SILENT
    state = (int (*)(void *, int *))dlsym(library, "ncclCommGetAsyncError");
#endif
#ifdef STRAYS
    current = (int (*)(void **))dlsym(library, "cuCtxGetCurrent");
    int (*context_of)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    context_of(&own, DEVICE);
#endif
}
