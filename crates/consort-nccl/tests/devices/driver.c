/* CUDA's driver as LIBRARY has it, which writes to CHILDREN which of its functions are called by processes that were
 * forked from the one that has loaded it. */
#include "../api/forward.h"
#include "pass.h"

static pid_t home;

void look(const char *name) {
    if (getpid() != home) note(CHILDREN, name);
}

#define ALL(WITH)                                                                                 \
    WITH(cuInit) WITH(cuDeviceGetCount) WITH(cuDeviceGet) WITH(cuDeviceGetName)                   \
    WITH(cuDevicePrimaryCtxRetain) WITH(cuDevicePrimaryCtxRelease_v2) WITH(cuCtxSetCurrent)       \
    WITH(cuCtxPushCurrent_v2) WITH(cuCtxPopCurrent_v2) WITH(cuStreamCreate)                       \
    WITH(cuStreamDestroy_v2) WITH(cuStreamWaitEvent) WITH(cuEventCreate) WITH(cuEventRecord)      \
    WITH(cuEventQuery) WITH(cuEventDestroy_v2) WITH(cuMemAlloc_v2) WITH(cuMemFree_v2)             \
    WITH(cuMemcpyHtoD_v2) WITH(cuMemcpyDtoH_v2) WITH(cuMemcpyDtoD_v2) WITH(cuMemsetD8_v2)         \
    WITH(cuGetErrorString)

ALL(PASS)

__attribute__((constructor)) static void begin(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    home = getpid();
    if (library != NULL) {
        ALL(FIND)
    }
}
