/* A peer that measures an MPI's collectives. See README.md one folder up for what it answers. */
#ifndef PEER_H
#define PEER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

enum op {
    ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER,
    GATHER, SCATTER, ALL_TO_ALL, SEND_RECV, BARRIER, OPS
};

enum kind { SIGNED, UNSIGNED, FLOAT, DOUBLE, F16, BF16 };

struct dtype {
    const char *name;
    size_t size;
    enum kind kind;
    MPI_Datatype mpi;
    MPI_Datatype native; /* a 16-bit float that the library itself knows, or MPI_DATATYPE_NULL */
};

enum reduce { SUM, PRODUCT, MIN, MAX, REDUCES };

/* One question: what to measure, and for how long. */
struct point {
    enum op op;
    const struct dtype *dtype;
    enum reduce reduce;
    size_t bytes;
    double seconds;
    bool in_place;
};

/* A point with its buffers, ready to be called again and again. */
struct call {
    struct point point;
    int rank, ranks;
    size_t count; /* elements of the larger buffer */
    size_t share; /* elements of one rank's part of it */
    int next, last; /* the neighbours in a ring */
    MPI_Datatype type;
    MPI_Op combine;
    char *input, *output;
};

struct figures {
    double p50_us, p99_us, min_us;
};

/* names.c */
extern const char *const op_names[OPS];
extern const char *const reduce_names[REDUCES];
const char *parse_point(const char *line, struct point *point); /* NULL, or what is wrong */
double bus_factor(enum op op, int ranks);
bool reduces(enum op op);

/* elements.c */
const struct dtype *find_dtype(const char *name);
void fill(const struct call *call);
bool is_right(const struct call *call);

/* half.c */
MPI_Op half_op(const struct dtype *dtype, enum reduce reduce);

/* call.c */
char *contribution(const struct call *call);
void prepare(struct call *call, const struct point *point);
void use_native(struct call *call, bool native);
bool has_native(const struct call *call);
void run(const struct call *call);
void finish(struct call *call);

/* timing.c */
struct figures measure(struct call *call);

#endif
