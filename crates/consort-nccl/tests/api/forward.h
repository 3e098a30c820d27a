/* Another NCCL in front of LIBRARY: FORWARD passes calls on as they are, FIND looks up where to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

/* Jumps to where the library has it, with all arguments as they are. */
#define FORWARD(name)                                                    \
    void *name##_at;                                                     \
    __attribute__((naked)) void name(void) {                             \
        __asm__("mov " #name "_at@GOTPCREL(%rip), %r11\n\tjmp *(%r11)"); \
    }

#define FIND(name) name##_at = dlsym(library, #name);

int ncclGetVersion(int *version) {
    *version = VERSION;
    return 0;
}
