/* Put before MPI's own library: a rank, or each whose digit is in ALTERED_RANK, does not do what MPI's launcher and the
 * others expect of it at a moment that a test cannot hit from outside. ALTERED says what. */
#define _DEFAULT_SOURCE
#include <mpi_abi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is(const char *what)
{
    const char *how = getenv("ALTERED"), *who = getenv("ALTERED_RANK"), *me = getenv("PMI_RANK");
    return how && who && me && !strcmp(how, what) && strstr(who, me);
}

/* Dies, or does not come back. */
static void fail(const char *dies, const char *hangs)
{
    if (is(dies))
        _exit(3);
    while (is(hangs))
        pause();
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    /* MPICH's launcher tells by this signal that a process has ended, and kills with it those who know nothing of MPI. Those
     * who do ask it who that was, and if they end before they have heard, it ends everyone. */
    signal(SIGUSR1, SIG_IGN);
    fail("dies when it begins", "never begins");
    int code = PMPI_Init_thread(argc, argv, required, provided);
    signal(SIGUSR1, SIG_IGN);
    return code;
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    fail("dies when it makes a group", "never makes a group");
    return PMPI_Comm_create_group(comm, group, tag, newcomm);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    fail("", "never lets go of a group");
    return PMPI_Comm_free(comm);
}

int MPI_Iallgather_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    fail("dies in a call", "");
    return PMPI_Iallgather_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Whether something that is there now, and not before, has been on its way for long enough. */
static int has_come(double *since)
{
    if (*since == 0)
        *since = now();
    if (now() - *since < 1.5)
        return 0;
    *since = 0;
    return 1;
}

/* What fails when it is asked about, and of which kind the last message was that has come. */
static MPI_Request lost;
static int kind;
enum { MESSAGE = 1, GOODBYE = 2 };

/* The first message goes nowhere: the request is of something that nobody sends. */
int MPI_Isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    static int sent;
    if (is("loses what it sends") && comm != MPI_COMM_WORLD && tag == MESSAGE && !sent++) {
        int code = PMPI_Irecv_c(NULL, 0, MPI_BYTE, dest, 77, comm, request);
        lost = *request;
        return code;
    }
    return PMPI_Isend_c(buf, count, datatype, dest, tag, comm, request);
}

int MPI_Imrecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request)
{
    int code = PMPI_Imrecv_c(buf, count, datatype, message, request);
    if ((is("loses what comes") && kind == MESSAGE) || (is("loses goodbyes") && kind == GOODBYE))
        lost = *request;
    return code;
}

/* MPI forgets requests of what has failed. */
static int lose(MPI_Request *request)
{
    PMPI_Cancel(request);
    PMPI_Request_free(request);
    lost = NULL;
    return MPI_ERR_OTHER;
}

/* Messages that have come are there only after a while, as if the way were long. */
int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    static double since[64];
    if (is("hears late") && comm != MPI_COMM_WORLD) {
        int there = 0;
        int code = PMPI_Iprobe(source, tag, comm, &there, MPI_STATUS_IGNORE);
        *flag = 0;
        if (code || !there || !has_come(&since[source % 64]))
            return code;
    }
    kind = comm == MPI_COMM_WORLD ? 0 : tag;
    return PMPI_Improbe(source, tag, comm, flag, message, status);
}

/* Whoever asks about an operation for the first time hears that it is done, though it may take a while until the others
 * have come to it. So nobody has to wait who asks. */
static int be_done(MPI_Request *request, int *flag, MPI_Status *status)
{
    static MPI_Request asked;
    double began = now();
    int is_first = *request != asked, code;
    asked = *request;
    do
        code = PMPI_Test(request, flag, status);
    while (is_first && !code && !*flag && now() - began < 0.05);
    if (*flag) {
        asked = MPI_REQUEST_NULL;
        usleep(3000);
    }
    return code;
}

/* Word that an operation is done comes as late as messages, of those that are asked about in turn. */
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    enum { MOST = 64 };
    static MPI_Request held[MOST];
    static double since[MOST];
    if (lost && *request == lost)
        return lose(request);
    if (is("is done when asked"))
        return be_done(request, flag, status);
    if (is("hears late") && *request != MPI_REQUEST_NULL) {
        int there = 0, place = 0;
        int code = PMPI_Request_get_status(*request, &there, MPI_STATUS_IGNORE);
        *flag = 0;
        if (code || !there)
            return code;
        while (place < MOST && held[place] != *request)
            place++;
        if (place == MOST) {
            for (place = 0; held[place] && place < MOST - 1; place++)
                ;
            held[place] = *request;
            since[place] = 0;
        }
        if (!has_come(&since[place]))
            return code;
        held[place] = NULL;
    }
    return PMPI_Test(request, flag, status);
}
