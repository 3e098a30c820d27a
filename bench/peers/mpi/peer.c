/* Reads points from a file and answers each with one line of JSON.
 *
 *   peer IMPL TRANSPORT POINTS
 *
 * POINTS is a pipe: not every mpirun tells its ranks when standard input has ended, so rank 0 opens
 * its starter's. Between points every rank sleeps in the kernel: rank 0 reads the pipe, the others
 * read from a socket on which rank 0 passes the line on. So several peers can stay alive side by
 * side and none disturbs the one that is measured. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LINE = 256, PATIENCE_SECONDS = 300 };

static void give_up(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Rank 0: one socket to each other rank. Others: one to rank 0. The name is in no file system. */
static void connect_ranks(int rank, int ranks, int *sockets) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int number = (int)getpid();
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "consort-peer-%d", number);
    const struct sockaddr *address = (const struct sockaddr *)&name;
    if (rank == 0 && (bind(listener, address, sizeof name) || listen(listener, ranks)))
        give_up("cannot listen for the other ranks");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        if (connect(listener, address, sizeof name)) give_up("cannot reach rank 0");
        sockets[0] = listener;
        return;
    }
    for (int other = 1; other < ranks; other++)
        if ((sockets[other] = accept(listener, NULL, NULL)) < 0) give_up("cannot meet a rank");
    close(listener);
}

/* The next line, the same on every rank; false when there are no more. */
static bool next_line(FILE *points, int rank, int ranks, const int *sockets, char *line) {
    memset(line, 0, LINE);
    if (rank != 0) return recv(sockets[0], line, LINE, MSG_WAITALL) == LINE;
    if (!fgets(line, LINE, points)) return false;
    for (int other = 1; other < ranks; other++)
        if (send(sockets[other], line, LINE, MSG_NOSIGNAL) != LINE) give_up("a rank is gone");
    return true;
}

static bool right_everywhere(const struct call *call) {
    int mine = is_right(call), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all;
}

static void print_record(const struct call *call, const struct figures *figures,
                         const char *impl, const char *transport) {
    const struct point *point = &call->point;
    double alg = (double)point->bytes / figures->p50_us * 1e-3;
    printf("{\"impl\":\"%s\",\"transport\":\"%s\",\"op\":\"%s\",\"dtype\":\"%s\",\"ranks\":%d,"
           "\"bytes\":%zu,\"p50_us\":%.4f,\"p99_us\":%.4f,\"min_us\":%.4f,"
           "\"algbw_GBs\":%.4f,\"busbw_GBs\":%.4f}\n",
           impl, transport, op_names[point->op], point->dtype->name, call->ranks, point->bytes,
           figures->p50_us, figures->p99_us, figures->min_us, alg,
           alg * bus_factor(point->op, call->ranks));
}

static void answer(const char *line, int rank, const char *impl, const char *transport) {
    struct point point;
    const char *wrong = parse_point(line, &point);
    if (wrong) {
        if (rank == 0) printf("{\"error\":\"%s\"}\n", wrong);
        return;
    }
    struct call call;
    prepare(&call, &point);
    fill(&call);
    run(&call);
    bool right = right_everywhere(&call);
    struct figures figures = measure(&call);
    /* A result in place has been combined with itself many times. */
    fill(&call);
    run(&call);
    right = right_everywhere(&call) && right;
    if (rank == 0 && right) print_record(&call, &figures, impl, transport);
    if (rank == 0 && !right) printf("{\"error\":\"the result is wrong\"}\n");
    finish(&call);
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: peer IMPL TRANSPORT POINTS\n");
        return 2;
    }
    int rank, ranks, length;
    char line[LINE], version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *points = rank == 0 ? fopen(arguments[3], "r") : NULL;
    if (rank == 0 && !points) give_up(arguments[3]);
    int *sockets = calloc((size_t)ranks, sizeof(int));
    connect_ranks(rank, ranks, sockets);
    MPI_Get_library_version(version, &length);
    for (char *at = version; *at; at++)
        if (*at == '\t') *at = ' ';
    version[strcspn(version, ",\n\"")] = 0;
    if (rank == 0) printf("{\"ready\":\"%s\"}\n", version), fflush(stdout);
    while (next_line(points, rank, ranks, sockets, line)) {
        /* Whoever asked may be gone, and a rank that hangs must not stay behind. */
        alarm(PATIENCE_SECONDS);
        answer(line, rank, arguments[1], arguments[2]);
        fflush(stdout);
        alarm(0);
    }
    /* The others read on until rank 0 hangs up, and without them it cannot finish. */
    for (int other = 1; rank == 0 && other < ranks; other++) close(sockets[other]);
    MPI_Finalize();
    return 0;
}
