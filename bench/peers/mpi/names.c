/* The words of the protocol. */
#include "peer.h"

#include <stdio.h>
#include <string.h>

const char *const op_names[OPS] = {
    "all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter",
    "gather", "scatter", "all_to_all", "send_recv", "barrier",
};

const char *const reduce_names[REDUCES] = {"sum", "product", "min", "max"};

static int find(const char *word, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0) return i;
    return -1;
}

/* OP DTYPE REDUCE BYTES SECONDS in|out */
const char *parse_point(const char *line, struct point *point) {
    char op[32], dtype[16], reduce[16], place[8];
    int read = sscanf(line, "%31s %15s %15s %zu %lf %7s", op, dtype, reduce, &point->bytes,
                      &point->seconds, place);
    if (read != 6) return "a point is OP DTYPE REDUCE BYTES SECONDS in|out";
    int found = find(op, op_names, OPS);
    if (found < 0) return "this op is not measured here";
    point->op = (enum op)found;
    point->dtype = find_dtype(dtype);
    if (!point->dtype) return "this dtype is not measured here";
    found = find(reduce, reduce_names, REDUCES);
    if (found < 0) return "MPI has no such reduction, or it is not measured here";
    point->reduce = (enum reduce)found;
    point->in_place = strcmp(place, "in") == 0;
    return NULL;
}

bool reduces(enum op op) {
    return op == ALL_REDUCE || op == REDUCE || op == REDUCE_SCATTER;
}

/* Bus bandwidth as nccl-tests defines it, as a multiple of bytes per time. */
double bus_factor(enum op op, int ranks) {
    double n = ranks;
    switch (op) {
    case ALL_REDUCE: return 2 * (n - 1) / n;
    case ALL_GATHER: case REDUCE_SCATTER: case GATHER: case SCATTER: case ALL_TO_ALL:
        return (n - 1) / n;
    default: return 1;
    }
}
