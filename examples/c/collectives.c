/*
 * Every collective of NCCL's API, with results that are checked.
 *
 *   cargo build --release -p consort-nccl -p consort-cli
 *   cc -I crates/consort-nccl/include -o target/collectives examples/c/collectives.c -L target/release -lconsort_nccl
 *   LD_LIBRARY_PATH=target/release target/release/consort run -n 4 -- target/collectives "$(mktemp -d)/id"
 *
 * Rank 0 takes an id and leaves it in the file that is named on the command line, where the others find it: one that is
 * not there yet, since an id is good for one meeting. It ends with 0 if all results are right, and says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consort_nccl.h"

/* Odd, so that nothing divides it. */
#define COUNT 1013

#define CHECK(call)                                                                          \
  do {                                                                                       \
    ncclResult_t result_ = (call);                                                           \
    if (result_ != ncclSuccess) {                                                            \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,                      \
              ncclGetErrorString(result_), ncclGetLastError(NULL));                          \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

static int rank, world;
static ncclComm_t comm;
static cudaStream_t stream;

static int number_in_environment(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

/* Rank 0 writes it beside the file and renames it, so that nobody reads half of it. */
static void share_id(const char *path, ncclUniqueId *id) {
  char beside[4096];
  snprintf(beside, sizeof beside, "%s.new", path);
  if (rank == 0) {
    FILE *file = fopen(beside, "wb");
    EXPECT(file != NULL);
    EXPECT(fwrite(id, sizeof *id, 1, file) == 1);
    EXPECT(fclose(file) == 0);
    EXPECT(rename(beside, path) == 0);
    return;
  }
  for (int tries = 0; tries < 6000; tries++) {
    FILE *file = fopen(path, "rb");
    if (file != NULL) {
      EXPECT(fread(id, sizeof *id, 1, file) == 1);
      fclose(file);
      return;
    }
    usleep(10000);
  }
  fprintf(stderr, "rank 0 has left no id in %s\n", path);
  exit(1);
}

/* What a rank has at a place. */
static double value(int of, size_t at) { return of * 1000.0 + (double)(at % 251); }

static void fill(double *numbers, size_t count, int of) {
  for (size_t at = 0; at < count; at++) numbers[at] = value(of, at);
}

static double *room(size_t count) {
  void *memory = NULL;
  CHECK(ncclMemAlloc(&memory, count * sizeof(double)));
  return memory;
}

static double sum_at(size_t at) {
  double sum = 0;
  for (int of = 0; of < world; of++) sum += value(of, at);
  return sum;
}

static void reductions(void) {
  double *mine = room(COUNT), *result = room(COUNT);
  fill(mine, COUNT, rank);
  CHECK(ncclAllReduce(mine, result, COUNT, ncclDouble, ncclSum, comm, stream));
  CHECK(consortStreamSynchronize(stream));
  for (size_t at = 0; at < COUNT; at++) EXPECT(result[at] == sum_at(at));

  /* In place, and at once. */
  CHECK(ncclAllReduce(mine, mine, COUNT, ncclDouble, ncclMax, comm, NULL));
  for (size_t at = 0; at < COUNT; at++) EXPECT(mine[at] == value(world - 1, at));

  int root = world - 1;
  fill(mine, COUNT, rank);
  CHECK(ncclReduce(mine, rank == root ? result : NULL, COUNT, ncclDouble, ncclMin, root, comm, NULL));
  for (size_t at = 0; at < COUNT && rank == root; at++) EXPECT(result[at] == value(0, at));

  /* Each rank's numbers multiplied by a factor of its own. */
  double factor = rank + 1;
  ncclRedOp_t scaled;
  CHECK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclDouble, ncclScalarHostImmediate, comm));
  CHECK(ncclAllReduce(mine, result, COUNT, ncclDouble, scaled, comm, NULL));
  CHECK(ncclRedOpDestroy(scaled, comm));
  for (size_t at = 0; at < COUNT; at++) {
    double sum = 0;
    for (int of = 0; of < world; of++) sum += value(of, at) * (of + 1);
    EXPECT(result[at] == sum);
  }
  CHECK(ncclMemFree(mine));
  CHECK(ncclMemFree(result));
}

static void shares(void) {
  double *mine = room(COUNT), *all = room((size_t)world * COUNT);
  fill(mine, COUNT, rank);
  CHECK(ncclAllGather(mine, all, COUNT, ncclDouble, comm, NULL));
  for (int of = 0; of < world; of++)
    for (size_t at = 0; at < COUNT; at++) EXPECT(all[of * COUNT + at] == value(of, at));

  fill(all, (size_t)world * COUNT, rank);
  CHECK(ncclReduceScatter(all, mine, COUNT, ncclDouble, ncclAvg, comm, NULL));
  for (size_t at = 0; at < COUNT; at++) {
    double mean = sum_at(rank * COUNT + at) / world;
    EXPECT(mine[at] - mean < 1e-9 && mean - mine[at] < 1e-9);
  }

  fill(mine, COUNT, rank);
  CHECK(ncclGather(mine, rank == 0 ? all : NULL, COUNT, ncclDouble, 0, comm, NULL));
  for (int of = 0; of < world && rank == 0; of++)
    for (size_t at = 0; at < COUNT; at++) EXPECT(all[of * COUNT + at] == value(of, at));

  fill(all, (size_t)world * COUNT, 7);
  CHECK(ncclScatter(rank == 0 ? all : NULL, mine, COUNT, ncclDouble, 0, comm, NULL));
  for (size_t at = 0; at < COUNT; at++) EXPECT(mine[at] == value(7, rank * COUNT + at));
  CHECK(ncclMemFree(mine));
  CHECK(ncclMemFree(all));
}

static void copies(void) {
  double *mine = room(COUNT), *theirs = room(COUNT);
  int root = world / 2;
  fill(mine, COUNT, rank);
  CHECK(ncclBroadcast(mine, theirs, COUNT, ncclDouble, root, comm, stream));
  CHECK(consortStreamSynchronize(stream));
  for (size_t at = 0; at < COUNT; at++) EXPECT(theirs[at] == value(root, at));
  CHECK(ncclBcast(mine, COUNT, ncclDouble, root, comm, NULL));
  for (size_t at = 0; at < COUNT; at++) EXPECT(mine[at] == value(root, at));
  CHECK(ncclMemFree(mine));
  CHECK(ncclMemFree(theirs));
}

static void exchanges(void) {
  size_t all = (size_t)world * COUNT;
  double *to = room(all), *from = room(all);
  for (int of = 0; of < world; of++) fill(to + of * COUNT, COUNT, rank * world + of);
  CHECK(ncclAlltoAll(to, from, COUNT, ncclDouble, comm, NULL));
  for (int of = 0; of < world; of++)
    for (size_t at = 0; at < COUNT; at++)
      EXPECT(from[of * COUNT + at] == value(of * world + rank, at));

  /* The same with messages, which go on at once because they are in one group. */
  memset(from, 0, all * sizeof(double));
  CHECK(ncclGroupStart());
  for (int of = 0; of < world; of++) {
    CHECK(ncclSend(to + of * COUNT, COUNT, ncclDouble, of, comm, stream));
    CHECK(ncclRecv(from + of * COUNT, COUNT, ncclDouble, of, comm, stream));
  }
  CHECK(ncclGroupEnd());
  CHECK(consortStreamSynchronize(stream));
  for (int of = 0; of < world; of++)
    for (size_t at = 0; at < COUNT; at++)
      EXPECT(from[of * COUNT + at] == value(of * world + rank, at));
  CHECK(ncclMemFree(to));
  CHECK(ncclMemFree(from));
}

static void halves(void) {
  ncclComm_t half;
  int count, mine;
  CHECK(ncclCommSplit(comm, rank % 2, -rank, &half, NULL));
  CHECK(ncclCommCount(half, &count));
  CHECK(ncclCommUserRank(half, &mine));
  EXPECT(count == (world + 1 - rank % 2) / 2);
  /* The last has the least key. */
  EXPECT(mine == count - 1 - rank / 2);
  int ones = 1;
  CHECK(ncclAllReduce(&ones, &ones, 1, ncclInt, ncclSum, half, NULL));
  EXPECT(ones == count);
  CHECK(ncclCommDestroy(half));
  CHECK(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &half, NULL));
  EXPECT(half == NCCL_COMM_NULL);
}

int main(int argc, char **argv) {
  rank = number_in_environment("RANK", 0);
  world = number_in_environment("WORLD_SIZE", 1);
  if (argc != 2) {
    fprintf(stderr, "usage: %s FILE, where rank 0 leaves the id\n", argv[0]);
    return 2;
  }
  ncclUniqueId id;
  if (rank == 0) CHECK(ncclGetUniqueId(&id));
  share_id(argv[1], &id);
  CHECK(ncclCommInitRank(&comm, world, id, rank));
  CHECK(consortStreamCreate(&stream));

  reductions();
  shares();
  copies();
  exchanges();
  halves();

  ncclResult_t state;
  CHECK(ncclCommGetAsyncError(comm, &state));
  EXPECT(state == ncclSuccess);
  CHECK(consortStreamDestroy(stream));
  CHECK(ncclCommFinalize(comm));
  CHECK(ncclCommDestroy(comm));
  printf("rank %d of %d: all results are right (%s)\n", rank, world, consortNcclIdentity());
  return 0;
}
