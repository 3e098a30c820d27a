// Sums of several types on streams and without, by a program in C++ that handles errors as programs in C++ do.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "consort_nccl.h"

namespace {

void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(nullptr));
}

template <typename T> struct Code;
template <> struct Code<std::int8_t> { static constexpr ncclDataType_t value = ncclInt8; };
template <> struct Code<std::uint64_t> { static constexpr ncclDataType_t value = ncclUint64; };
template <> struct Code<double> { static constexpr ncclDataType_t value = ncclDouble; };

int number_in_environment(const char *name) { return std::stoi(std::getenv(name)); }

// Rank 0 writes it beside the file and renames it, so that nobody reads half of it.
ncclUniqueId share_id(const std::string &path, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id));
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) throw std::runtime_error("no id is left");
    return id;
  }
  for (int tries = 0; tries < 6000; tries++) {
    if (std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal)) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error("rank 0 has left no id");
}

class Stream {
public:
  Stream() { check(consortStreamCreate(&handle)); }
  ~Stream() { consortStreamDestroy(handle); }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  void synchronize() { check(consortStreamSynchronize(handle)); }
  cudaStream_t handle;
};

class Communicator {
public:
  Communicator(const std::string &path, int rank, int world) : rank(rank), world(world) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    check(ncclCommInitRankConfig(&handle, world, share_id(path, rank), rank, &config));
  }
  ~Communicator() { ncclCommDestroy(handle); }
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  // Every rank has its number plus one everywhere.
  template <typename T> void sum(std::size_t count, Stream *stream) {
    std::vector<T> mine(count, static_cast<T>(rank + 1)), sums(count);
    check(ncclAllReduce(mine.data(), sums.data(), count, Code<T>::value, ncclSum, handle,
        stream ? stream->handle : nullptr));
    if (stream) stream->synchronize();
    const T expected = static_cast<T>(world * (world + 1) / 2);
    for (T sum : sums)
      if (sum != expected) throw std::runtime_error("a sum is wrong");
  }

  // What is wrong is told by an exception as by anything else.
  void refuse() {
    int number = 0;
    try {
      check(ncclBroadcast(&number, &number, 1, ncclInt, world, handle, nullptr));
    } catch (const std::runtime_error &error) {
      if (std::string(error.what()).find("invalid argument") == 0) return;
      throw;
    }
    throw std::runtime_error("a root that is no rank is taken for one");
  }

private:
  int rank, world;
  ncclComm_t handle = nullptr;
};

} // namespace

int main(int, char **arguments) try {
  const int rank = number_in_environment("RANK"), world = number_in_environment("WORLD_SIZE");
  Communicator comm(arguments[1], rank, world);
  Stream stream;
  for (std::size_t count : {1, 1013}) {
    comm.sum<std::int8_t>(count, nullptr);
    comm.sum<std::uint64_t>(count, &stream);
    comm.sum<double>(count, &stream);
  }
  comm.refuse();
  std::cout << "rank " << rank << " of " << world << ": all results are right" << std::endl;
  return 0;
} catch (const std::exception &error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
