/* A rank of Open MPI that does what it is told; README.md has the orders.
 *
 *   mpi_rank SOCKET fatal|ft
 *
 * With `ft` (under mpirun --with-ft ulfm) calls return errors, and whoever gets one asks who has failed
 * and revokes the communicator, as programs for that mode do: others may still wait in it. With `fatal` an
 * error is that, as in every program that does not say otherwise. */
#include <mpi.h>
#include <mpi-ext.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 2048, PATIENCE_SECONDS = 120, MOST_PENDING = 64 };

static int harness;
static bool tolerant;
static MPI_Comm comm;

struct call {
    char op[16], dtype[8], how[8];
    int count, value;
    void *data;
};

static long long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    /* If the harness is gone, so are orders, which ends this rank. */
    (void)!send(harness, line, strlen(line), MSG_NOSIGNAL);
}

static void listen_to(const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    harness = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (harness < 0 || connect(harness, (struct sockaddr *)&name, sizeof name)) {
        perror("cannot reach the harness");
        exit(1);
    }
}

/* Reads a call and makes its operand. */
static bool parse(const char *words, struct call *call) {
    memset(call, 0, sizeof *call);
    int found = sscanf(words, "%15s %7s %d %7s %d", call->op, call->dtype, &call->count, call->how,
                       &call->value);
    if (!strcmp(call->op, "barrier")) return true;
    if (found != 5 || call->count < 1) return false;
    call->data = malloc((size_t)call->count * sizeof(int));
    if (!call->data) return false;
    bool is_float = !strcmp(call->dtype, "f32");
    for (int at = 0; at < call->count; at++)
        if (is_float) ((float *)call->data)[at] = (float)call->value;
        else ((int *)call->data)[at] = call->value;
    return true;
}

static MPI_Datatype dtype_of(const struct call *call) {
    return strcmp(call->dtype, "f32") ? MPI_INT : MPI_FLOAT;
}

static MPI_Op op_of(const struct call *call) {
    return strcmp(call->how, "sum") ? MPI_MAX : MPI_SUM;
}

static int make(const struct call *call) {
    if (!strcmp(call->op, "barrier")) return MPI_Barrier(comm);
    if (!strcmp(call->op, "broadcast"))
        return MPI_Bcast(call->data, call->count, dtype_of(call), atoi(call->how), comm);
    return MPI_Allreduce(MPI_IN_PLACE, call->data, call->count, dtype_of(call), op_of(call), comm);
}

/* Begins an all_reduce so many times, on copies of its operand, and waits for all. */
static int begin(const struct call *call, int count) {
    MPI_Request requests[MOST_PENDING];
    MPI_Status statuses[MOST_PENDING];
    size_t bytes = (size_t)call->count * sizeof(int);
    char *copies = malloc(bytes * (size_t)count);
    int code = copies ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    int begun = 0;
    for (; begun < count && code == MPI_SUCCESS; begun++) {
        char *copy = memcpy(copies + bytes * (size_t)begun, call->data, bytes);
        code = MPI_Iallreduce(MPI_IN_PLACE, copy, call->count, dtype_of(call), op_of(call), comm,
                              &requests[begun]);
    }
    if (code != MPI_SUCCESS) return code;
    code = MPI_Waitall(begun, requests, statuses);
    for (int at = 0; code == MPI_ERR_IN_STATUS && at < begun; at++)
        if (statuses[at].MPI_ERROR != MPI_SUCCESS && statuses[at].MPI_ERROR != MPI_ERR_PENDING)
            code = statuses[at].MPI_ERROR;
    if (code == MPI_SUCCESS) free(copies);
    return code;
}

/* The ranks that this one knows to have failed, as text. */
static void name_failed(char *text, size_t room) {
    MPI_Group failed, all;
    int count = 0;
    text[0] = 0;
    if (MPIX_Comm_get_failed(comm, &failed) != MPI_SUCCESS) return;
    MPI_Group_size(failed, &count);
    MPI_Comm_group(comm, &all);
    for (int at = 0; at < count; at++) {
        int rank;
        MPI_Group_translate_ranks(failed, 1, &at, all, &rank);
        size_t used = strlen(text);
        snprintf(text + used, room - used, "; MPIX_Comm_get_failed: rank %d", rank);
    }
    MPI_Group_free(&failed);
    MPI_Group_free(&all);
}

/* Moves what the library has to say to others. A program would go on with MPIX_Comm_shrink, which does
 * that, too; the harness waits for everyone before it asks for that. */
static void let_others_know(void) {
    long long until = nanoseconds() + 100000000LL;
    int flag;
    while (nanoseconds() < until)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void report(int code, const struct call *call) {
    long long at = nanoseconds();
    if (code == MPI_SUCCESS) {
        double value = !call->data ? 0
                       : strcmp(call->dtype, "f32") ? *(int *)call->data
                                                    : *(float *)call->data;
        say("did %lld good %g", at, value);
        return;
    }
    char text[MPI_MAX_ERROR_STRING], failed[256];
    int length;
    MPI_Error_string(code, text, &length);
    char *end = strchr(text, ':');
    if (end) *end = 0;
    name_failed(failed, sizeof failed);
    say("did %lld failed %s %s%s", at, text, end ? end + 1 : "", failed);
    MPIX_Comm_revoke(comm);
    let_others_know();
}

static void *abort_later(void *milliseconds) {
    usleep((useconds_t)(long)milliseconds * 1000);
    say("aborts %lld", nanoseconds());
    if (tolerant) MPIX_Comm_revoke(comm);
    else MPI_Abort(comm, 1);
    return NULL;
}

static int regroup(struct call *call) {
    MPI_Comm smaller;
    int code = MPIX_Comm_shrink(comm, &smaller);
    if (code != MPI_SUCCESS) return code;
    comm = smaller;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return parse("all_reduce f32 1024 sum 1", call) ? make(call) : MPI_ERR_NO_MEM;
}

static void obey(const char *line) {
    struct call call = {.data = NULL};
    char verb[16];
    int used = 0, number = 0, code = MPI_ERR_ARG;
    sscanf(line, "%15s %n", verb, &used);
    const char *rest = line + used;
    if (!strcmp(verb, "abort")) {
        pthread_t thread;
        pthread_create(&thread, NULL, abort_later, (void *)atol(rest));
        pthread_detach(thread);
        return;
    }
    say("begins %lld", nanoseconds());
    if (!strcmp(verb, "exit")) exit(atoi(rest));
    if (!strcmp(verb, "regroup")) {
        code = regroup(&call);
    } else if (!strcmp(verb, "pending")) {
        if (sscanf(rest, "%d %n", &number, &used) == 1 && number <= MOST_PENDING
            && parse(rest + used, &call))
            code = begin(&call, number);
    } else if (parse(rest, &call)) {
        do code = make(&call);
        while (code == MPI_SUCCESS && !strcmp(verb, "loop"));
    }
    report(code, &call);
    /* What has failed may still use its memory, which then ends with this process. */
    if (code == MPI_SUCCESS) free(call.data);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    tolerant = !strcmp(argv[2], "ft");
    /* The harness may be gone, and a rank that hangs must not stay behind. */
    alarm(PATIENCE_SECONDS);
    listen_to(argv[1]);
    int provided, rank, length;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (tolerant) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    MPI_Comm_rank(comm, &rank);
    char version[MPI_MAX_LIBRARY_VERSION_STRING], line[LINE];
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    say("here %d %d %s", rank, (int)getpid(), version);
    FILE *orders = fdopen(harness, "r");
    while (orders && fgets(line, sizeof line, orders)) obey(line);
    return 0;
}
