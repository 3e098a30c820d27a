/* What the buffers hold, and what they have to hold afterwards.
 *
 * Element i of rank r is a small number made from both, so that a wrong rank, a wrong place and a
 * rank counted twice all show, and every sum is exact in every type. */
#include "peer.h"

#include <stdint.h>
#include <string.h>

enum { VALUES = 5, PERIOD = 1021, LOOKS = 20000 };

static struct dtype dtypes[13]; /* the last one has no name */

static void add(int at, const char *name, size_t size, enum kind kind, MPI_Datatype mpi,
                MPI_Datatype native) {
    dtypes[at] = (struct dtype){name, size, kind, mpi, native};
}

/* MPI's handles need not be constants, so the table is made at run time. */
static void make_table(void) {
    MPI_Datatype f16 = MPI_DATATYPE_NULL, bf16 = MPI_DATATYPE_NULL;
#ifdef MPIX_C_FLOAT16
    f16 = MPIX_C_FLOAT16;
#endif
#ifdef MPIX_BFLOAT16
    bf16 = MPIX_BFLOAT16;
#endif
    add(0, "f32", 4, FLOAT, MPI_FLOAT, MPI_DATATYPE_NULL);
    add(1, "f64", 8, DOUBLE, MPI_DOUBLE, MPI_DATATYPE_NULL);
    add(2, "f16", 2, F16, MPI_UINT16_T, f16);
    add(3, "bf16", 2, BF16, MPI_UINT16_T, bf16);
    add(4, "i8", 1, SIGNED, MPI_INT8_T, MPI_DATATYPE_NULL);
    add(5, "i16", 2, SIGNED, MPI_INT16_T, MPI_DATATYPE_NULL);
    add(6, "i32", 4, SIGNED, MPI_INT32_T, MPI_DATATYPE_NULL);
    add(7, "i64", 8, SIGNED, MPI_INT64_T, MPI_DATATYPE_NULL);
    add(8, "u8", 1, UNSIGNED, MPI_UINT8_T, MPI_DATATYPE_NULL);
    add(9, "u16", 2, UNSIGNED, MPI_UINT16_T, MPI_DATATYPE_NULL);
    add(10, "u32", 4, UNSIGNED, MPI_UINT32_T, MPI_DATATYPE_NULL);
    add(11, "u64", 8, UNSIGNED, MPI_UINT64_T, MPI_DATATYPE_NULL);
}

const struct dtype *find_dtype(const char *name) {
    if (!dtypes[0].name) make_table();
    for (const struct dtype *it = dtypes; it->name; it++)
        if (strcmp(name, it->name) == 0) return it;
    return NULL;
}

static int value(enum reduce reduce, int rank, size_t i) {
    size_t both = (size_t)rank * 7 + i % PERIOD;
    return reduce == PRODUCT ? 1 + (both % 8 == 0) : (int)(both % VALUES);
}

static int combined(const struct call *call, size_t i) {
    enum reduce reduce = call->point.reduce;
    int all = value(reduce, 0, i);
    for (int rank = 1; rank < call->ranks; rank++) {
        int one = value(reduce, rank, i);
        switch (reduce) {
        case SUM: all += one; break;
        case PRODUCT: all *= one; break;
        case MIN: all = one < all ? one : all; break;
        default: all = one > all ? one : all; break;
        }
    }
    return all;
}

/* What element i of the output must be on this rank. */
static int expected(const struct call *call, size_t i) {
    enum reduce reduce = call->point.reduce;
    size_t share = call->share, mine = (size_t)call->rank * share;
    switch (call->point.op) {
    case ALL_REDUCE: case REDUCE: return combined(call, i);
    case REDUCE_SCATTER: return combined(call, mine + i);
    case BROADCAST: return value(reduce, 0, i);
    case SCATTER: return value(reduce, 0, mine + i);
    case ALL_TO_ALL: return value(reduce, (int)(i / share), mine + i % share);
    case SEND_RECV: return value(reduce, call->last, i);
    default: return value(reduce, (int)(i / share), i % share);
    }
}

/* A small number as an element; small ones are exact in all types. */
static void put(const struct dtype *dtype, char *at, int number) {
    float f = (float)number;
    double d = number;
    int64_t i = number;
    uint16_t half;
    switch (dtype->kind) {
    case FLOAT: memcpy(at, &f, 4); return;
    case DOUBLE: memcpy(at, &d, 8); return;
    case BF16: memcpy(at, (char *)&f + 2, 2); return;
    case F16: {
        uint32_t bits;
        memcpy(&bits, &f, 4);
        half = number == 0 ? 0 : (uint16_t)((bits >> 13) - (112 << 10));
        memcpy(at, &half, 2);
        return;
    }
    default: memcpy(at, &i, dtype->size); return; /* little-endian, as the halves above */
    }
}

/* How many elements this rank contributes. */
static size_t contributed(const struct call *call) {
    switch (call->point.op) {
    case ALL_GATHER: case GATHER: return call->share;
    case BROADCAST: case SCATTER: return call->rank == 0 ? call->count : 0;
    default: return call->count;
    }
}

void fill(const struct call *call) {
    const struct dtype *dtype = call->point.dtype;
    memset(call->output, 0xff, call->count * dtype->size);
    char *to = contribution(call);
    size_t count = contributed(call), whole = count * dtype->size;
    size_t first = count < PERIOD ? count : PERIOD;
    for (size_t i = 0; i < first; i++)
        put(dtype, to + i * dtype->size, value(call->point.reduce, call->rank, i));
    for (size_t done = first * dtype->size; done < whole;) {
        size_t more = done < whole - done ? done : whole - done;
        memcpy(to + done, to, more);
        done += more;
    }
}

/* Looks at every element of a small result, and at tens of thousands of a large one. */
bool is_right(const struct call *call) {
    enum op op = call->point.op;
    if (op == BARRIER || ((op == REDUCE || op == GATHER) && call->rank != 0)) return true;
    size_t count = op == REDUCE_SCATTER || op == SCATTER ? call->share : call->count;
    size_t size = call->point.dtype->size, stride = count / LOOKS + 1;
    for (size_t i = 0; i < count; i += stride) {
        size_t at = i + stride < count ? i : count - 1;
        char want[8];
        put(call->point.dtype, want, expected(call, at));
        if (memcmp(want, call->output + at * size, size) != 0) return false;
    }
    return true;
}
