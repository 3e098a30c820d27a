/* How a point is timed; gloo_peer.py and consort's own ranks do exactly the same.
 *
 * Blocks of back-to-back calls of about 2 ms, each after a barrier. A block's time is from the
 * earliest start to the latest end over ranks, by the number of calls. p50 and min are over blocks.
 * p99 is over single calls on all ranks: those of the blocks themselves where reading the clock
 * costs nothing beside a call, calls after each block where it does. */
#include "peer.h"

#include <stdlib.h>
#include <time.h>

static const double BLOCK_US = 2000, SLOW_US = 20;
enum { LEAST_BLOCKS = 5, MOST_BLOCKS = 2000, MOST_CALLS = 1000000, MOST_SINGLES = 500 };

struct samples {
    double *starts, *ends; /* of each block */
    float *singles;        /* how long single calls took */
    int blocks, singles_count;
};

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* The time of one call on the slowest rank, the same number on all ranks. Warms up as well. */
static double estimate(const struct call *call) {
    double slowest = 0;
    for (int calls = 1; calls <= MOST_CALLS; calls *= 4) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_us();
        for (int i = 0; i < calls; i++) run(call);
        double took = now_us() - start;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        /* The very first call may have had things to set up. */
        if (slowest > BLOCK_US / 2 && calls > 1) return slowest / calls;
        if (slowest > 100 * BLOCK_US) return slowest / calls;
    }
    return slowest / MOST_CALLS;
}

static int within(double value, int least, int most) {
    return value < least ? least : value > most ? most : (int)value;
}

static void time_singles(const struct call *call, int calls, struct samples *samples) {
    double before = now_us();
    for (int i = 0; i < calls; i++) {
        run(call);
        double after = now_us();
        samples->singles[samples->singles_count++] = (float)(after - before);
        before = after;
    }
}

static void take(const struct call *call, double call_us, int calls, struct samples *samples) {
    int singles = calls < MOST_SINGLES ? calls : MOST_SINGLES;
    samples->starts = malloc((size_t)samples->blocks * sizeof(double));
    samples->ends = malloc((size_t)samples->blocks * sizeof(double));
    samples->singles = malloc((size_t)samples->blocks * (size_t)singles * sizeof(float));
    samples->singles_count = 0;
    for (int block = 0; block < samples->blocks; block++) {
        MPI_Barrier(MPI_COMM_WORLD);
        samples->starts[block] = now_us();
        if (call_us >= SLOW_US)
            time_singles(call, calls, samples);
        else
            for (int i = 0; i < calls; i++) run(call);
        samples->ends[block] = now_us();
        if (call_us < SLOW_US) {
            MPI_Barrier(MPI_COMM_WORLD);
            time_singles(call, singles, samples);
        }
    }
}

static int by_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_float(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Puts all ranks' samples together; the figures are rank 0's. */
static struct figures merge(const struct call *call, int calls, struct samples *samples) {
    struct figures figures = {0};
    int blocks = samples->blocks;
    double *first = calloc((size_t)blocks, sizeof(double)), *last = calloc((size_t)blocks, sizeof(double));
    MPI_Reduce(samples->starts, first, blocks, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(samples->ends, last, blocks, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    size_t all = (size_t)samples->singles_count * (size_t)call->ranks;
    float *singles = malloc(call->rank == 0 ? all * sizeof(float) : 1);
    MPI_Gather(samples->singles, samples->singles_count, MPI_FLOAT, singles,
               samples->singles_count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    if (call->rank == 0) {
        for (int i = 0; i < blocks; i++) last[i] = (last[i] - first[i]) / calls;
        qsort(last, (size_t)blocks, sizeof(double), by_double);
        qsort(singles, all, sizeof(float), by_float);
        figures = (struct figures){last[blocks / 2], singles[all * 99 / 100], last[0]};
    }
    free(first), free(last), free(singles);
    return figures;
}

struct figures measure(struct call *call) {
    double call_us = estimate(call);
    if (has_native(call)) {
        use_native(call, true);
        double native_us = estimate(call);
        use_native(call, native_us < call_us);
        call_us = native_us < call_us ? native_us : call_us;
    }
    int calls = within(BLOCK_US / call_us, 1, MOST_CALLS);
    double blocks = call->point.seconds * 1e6 / (call_us * calls);
    struct samples samples = {.blocks = within(blocks, LEAST_BLOCKS, MOST_BLOCKS)};
    take(call, call_us, calls, &samples);
    struct figures figures = merge(call, calls, &samples);
    free(samples.starts), free(samples.ends), free(samples.singles);
    return figures;
}
