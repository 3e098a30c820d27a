/* The calls themselves. */
#include "peer.h"

#include <stdlib.h>

static bool is_in_place(const struct point *point) {
    return point->op == BROADCAST || (point->in_place && point->op != SEND_RECV);
}

static bool is_shared_out(enum op op) {
    switch (op) {
    case ALL_GATHER: case REDUCE_SCATTER: case GATHER: case SCATTER: case ALL_TO_ALL: return true;
    default: return false;
    }
}

static MPI_Op built_in(enum reduce reduce) {
    switch (reduce) {
    case SUM: return MPI_SUM;
    case PRODUCT: return MPI_PROD;
    case MIN: return MPI_MIN;
    default: return MPI_MAX;
    }
}

void prepare(struct call *call, const struct point *point) {
    call->point = *point;
    MPI_Comm_rank(MPI_COMM_WORLD, &call->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &call->ranks);
    call->next = (call->rank + 1) % call->ranks;
    call->last = (call->rank + call->ranks - 1) % call->ranks;
    call->count = point->bytes / point->dtype->size;
    call->share = is_shared_out(point->op) ? call->count / (size_t)call->ranks : call->count;
    call->output = malloc(point->bytes + 1);
    call->input = is_in_place(point) ? call->output : malloc(point->bytes + 1);
    if (!call->output || !call->input) MPI_Abort(MPI_COMM_WORLD, 1);
    use_native(call, false);
}

/* A 16-bit float is reduced by an operation of our own, as programs on plain MPI do it, or by the
 * library if it knows the type. */
void use_native(struct call *call, bool native) {
    const struct dtype *dtype = call->point.dtype;
    bool half = dtype->kind == F16 || dtype->kind == BF16;
    call->type = native ? dtype->native : dtype->mpi;
    call->combine = half && !native ? half_op(dtype, call->point.reduce)
                                    : built_in(call->point.reduce);
}

/* MPICH knows no other reduction of its 16-bit types, and ends the program over it. */
bool has_native(const struct call *call) {
    return reduces(call->point.op) && call->point.reduce == SUM
        && call->point.dtype->native != MPI_DATATYPE_NULL;
}

/* Where this rank's contribution lies: in place it is already where the result will be. */
char *contribution(const struct call *call) {
    bool has_its_place = call->point.op == ALL_GATHER || call->point.op == GATHER;
    if (call->input != call->output || !has_its_place) return call->input;
    return call->output + (size_t)call->rank * call->share * call->point.dtype->size;
}

void run(const struct call *call) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype type = call->type;
    bool same = call->input == call->output, root = call->rank == 0;
    int count = (int)call->count, share = (int)call->share;
    void *in = same ? MPI_IN_PLACE : call->input;
    void *root_in = same && root ? MPI_IN_PLACE : contribution(call);
    void *out = call->output;
    switch (call->point.op) {
    case ALL_REDUCE: MPI_Allreduce(in, out, count, type, call->combine, world); break;
    case BROADCAST: MPI_Bcast(out, count, type, 0, world); break;
    case REDUCE: MPI_Reduce(root_in, out, count, type, call->combine, 0, world); break;
    case ALL_GATHER: MPI_Allgather(in, share, type, out, share, type, world); break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(in, out, share, type, call->combine, world);
        break;
    case GATHER: MPI_Gather(root_in, share, type, out, share, type, 0, world); break;
    case SCATTER:
        MPI_Scatter(call->input, share, type, same && root ? MPI_IN_PLACE : out, share, type, 0,
                    world);
        break;
    case ALL_TO_ALL: MPI_Alltoall(in, share, type, out, share, type, world); break;
    case SEND_RECV:
        MPI_Sendrecv(in, count, type, call->next, 0, out, count, type, call->last, 0, world,
                     MPI_STATUS_IGNORE);
        break;
    default: MPI_Barrier(world); break;
    }
}

void finish(struct call *call) {
    if (call->input != call->output) free(call->input);
    free(call->output);
}
