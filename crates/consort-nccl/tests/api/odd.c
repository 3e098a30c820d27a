/* A library that calls itself NCCL, and answers what no version has answered. */
#include <stddef.h>

int ncclGetVersion(int *version) {
    *version = VERSION;
    return 0;
}

int ncclGetUniqueId(char *id) {
    id[0] = 1;
    return 4711;
}

int ncclCommInitAll(void **comms, int count, const int *devices) {
    (void)devices;
    for (int at = 0; at < count; at++) comms[at] = NULL;
    return 0;
}

int ncclGroupStart(void) { return -3; }

const char *ncclGetErrorString(int code) {
    (void)code;
    return NULL;
}
