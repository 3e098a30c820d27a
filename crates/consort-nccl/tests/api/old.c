/* An older NCCL: what LIBRARY has, but not what came after 2.27. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

/* Jumps to where the library has it, with all arguments as they are. */
#define FORWARD(name)                                                    \
    void *name##_at;                                                     \
    __attribute__((naked)) void name(void) {                             \
        __asm__("mov " #name "_at@GOTPCREL(%rip), %r11\n\tjmp *(%r11)"); \
    }

#define ALL(WITH)                                                                                      \
    WITH(ncclGetUniqueId) WITH(ncclGetErrorString) WITH(ncclGetLastError) WITH(ncclCommInitRankConfig) \
    WITH(ncclCommInitRank) WITH(ncclCommFinalize) WITH(ncclCommDestroy) WITH(ncclCommAbort)            \
    WITH(ncclCommGetAsyncError) WITH(ncclCommCount) WITH(ncclCommUserRank) WITH(ncclCommCuDevice)      \
    WITH(ncclCommSplit) WITH(ncclAllReduce) WITH(ncclBroadcast) WITH(ncclReduce) WITH(ncclAllGather)   \
    WITH(ncclReduceScatter) WITH(ncclSend) WITH(ncclRecv) WITH(ncclGroupStart) WITH(ncclGroupEnd)

ALL(FORWARD)

#define FIND(name) name##_at = dlsym(library, #name);

__attribute__((constructor)) static void begin(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        ALL(FIND)
    }
}

int ncclGetVersion(int *version) {
    *version = VERSION;
    return 0;
}
