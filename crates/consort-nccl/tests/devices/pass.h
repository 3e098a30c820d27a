/* PASS is as FORWARD, and has `look` look at the name of each function that is called. */
__attribute__((used, visibility("hidden"))) void look(const char *name);

#define PASS(name)                                                                                \
    void *name##_at;                                                                              \
    __attribute__((naked)) void name(void) {                                                      \
        __asm__("push %rdi\n\tpush %rsi\n\tpush %rdx\n\tpush %rcx\n\tpush %r8\n\tpush %r9\n\t"    \
                "sub $8, %rsp\n\tlea 1f(%rip), %rdi\n\tcall look\n\tadd $8, %rsp\n\t"             \
                "pop %r9\n\tpop %r8\n\tpop %rcx\n\tpop %rdx\n\tpop %rsi\n\tpop %rdi\n\t"          \
                "mov " #name "_at@GOTPCREL(%rip), %r11\n\tjmp *(%r11)\n\t1: .asciz \"" #name "\""); \
    }

/* Adds the name to a file. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void note(const char *place, const char *name) {
    int file = open(place, O_WRONLY | O_APPEND | O_CREAT, 0600);
    dprintf(file, "%s\n", name);
    close(file);
}
