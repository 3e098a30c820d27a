"""An all_reduce between processes by NCCL's C API on CPU memory, through ctypes alone.

    consort run -n 4 -- python3 examples/python/collectives.py target/release/libconsort_nccl.so "$(mktemp -d)/id"

The first argument is the library, the second a file that is not there yet, in which rank 0 leaves the id for the others.
"""

import ctypes
import os
import sys
import time

library = ctypes.CDLL(sys.argv[1])
path = sys.argv[2]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


library.ncclGetErrorString.restype = ctypes.c_char_p
library.ncclGetLastError.restype = ctypes.c_char_p
library.ncclGetLastError.argtypes = [ctypes.c_void_p]
library.consortNcclIdentity.restype = ctypes.c_char_p
library.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
library.ncclAllReduce.argtypes = [
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
]
library.ncclCommDestroy.argtypes = [ctypes.c_void_p]


def check(result):
    assert result == 0, (library.ncclGetErrorString(result), library.ncclGetLastError(None))


version = ctypes.c_int()
check(library.ncclGetVersion(ctypes.byref(version)))
assert version.value == 23007, version.value
assert library.consortNcclIdentity().startswith(b"consort-nccl ")

unique_id = UniqueId()
if rank == 0:
    check(library.ncclGetUniqueId(ctypes.byref(unique_id)))
    with open(path + ".new", "wb") as file:
        file.write(bytes(unique_id))
    os.rename(path + ".new", path)
else:
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        unique_id = UniqueId.from_buffer_copy(file.read())

comm = ctypes.c_void_p()
check(library.ncclCommInitRank(ctypes.byref(comm), world, unique_id, rank))

COUNT, FLOAT, SUM = 1013, 7, 0
numbers = (ctypes.c_float * COUNT)(*[1000 * rank + at for at in range(COUNT)])
sums = (ctypes.c_float * COUNT)()
check(library.ncclAllReduce(numbers, sums, COUNT, FLOAT, SUM, comm, None))
expected = [sum(1000 * of + at for of in range(world)) for at in range(COUNT)]
assert list(sums) == expected

# What makes no sense says so.
assert library.ncclAllReduce(numbers, sums, COUNT, 99, SUM, comm, None) == 4
text = library.ncclGetLastError(None)
assert text.startswith(b"[consort-nccl ") and b"ncclAllReduce: datatype is 99" in text, text
assert library.ncclGetErrorString(8) == b"timeout"
assert library.ncclGroupEnd() == 5

check(library.ncclCommDestroy(comm))
print(f"rank {rank} of {world}: all results are right")
