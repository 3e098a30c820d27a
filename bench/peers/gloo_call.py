"""A point with its buffers: what they hold, the call, and what they have to hold afterwards.

Element i of rank r is a small number made from both, so that a wrong rank, a wrong place and a rank
counted twice all show, and every sum is exact in every type. mpi/elements.c holds the same.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
}
REDUCTIONS = {
    "sum": (dist.ReduceOp.SUM, torch.add),
    "product": (dist.ReduceOp.PRODUCT, torch.mul),
    "min": (dist.ReduceOp.MIN, torch.minimum),
    "max": (dist.ReduceOp.MAX, torch.maximum),
}
SHARED_OUT = ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")
WHOLE = ("all_reduce", "broadcast", "reduce", "send_recv")
VALUES, PERIOD, LOOKS = 5, 1021, 20_000


@dataclass
class Point:
    op: str
    dtype_name: str
    reduce: str
    bytes: int
    seconds: float

    @staticmethod
    def parse(line: str) -> "Point":
        """OP DTYPE REDUCE BYTES SECONDS in|out. torch has only one of the two places for each op."""
        words = line.split()
        if len(words) != 6:
            raise ValueError("a point is OP DTYPE REDUCE BYTES SECONDS in|out")
        point = Point(words[0], words[1], words[2], int(words[3]), float(words[4]))
        if point.op not in (*SHARED_OUT, *WHOLE, "barrier"):
            raise ValueError("this op is not measured here")
        if point.dtype_name not in DTYPES:
            raise ValueError("torch has no such dtype, or it is not measured here")
        if point.reduce not in REDUCTIONS:
            raise ValueError("Gloo has no such reduction, or it is not measured here")
        return point


def bus_factor(op: str, ranks: int) -> float:
    """Bus bandwidth as nccl-tests defines it, as a multiple of bytes per time."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in SHARED_OUT else 1.0


class Call:
    def __init__(self, point: Point, rank: int, ranks: int) -> None:
        self.point, self.rank, self.ranks = point, rank, ranks
        self.dtype = DTYPES[point.dtype_name]
        self.reduction, self.combine = REDUCTIONS[point.reduce]
        self.count = point.bytes // self.dtype.itemsize
        self.share = self.count // ranks if point.op in SHARED_OUT else self.count
        gathers = point.op in ("all_gather", "gather")
        scatters = point.op in ("reduce_scatter", "scatter")
        self.input = torch.zeros(self.share if gathers else self.count, dtype=self.dtype)
        self.output = torch.zeros(self.share if scatters else self.count, dtype=self.dtype)
        if point.op in ("all_reduce", "broadcast", "reduce"):
            self.input = self.output
        self.run = getattr(self, f"_{point.op}")

    def fill(self) -> None:
        self.output.fill_(77)
        if self.point.op in ("broadcast", "scatter") and self.rank != 0:
            return
        count = len(self.input)
        period = self._values(self.rank, torch.arange(min(count, PERIOD)))
        self.input.copy_(period.repeat(count // PERIOD + 1)[:count])

    def is_right(self) -> bool:
        """Looks at every element of a small result, and at tens of thousands of a large one."""
        if self.point.op == "barrier" or (self.point.op in ("reduce", "gather") and self.rank != 0):
            return True
        count = len(self.output)
        looks = torch.arange(0, count, count // LOOKS + 1)
        looks = torch.cat([looks, torch.tensor([count - 1])])
        return torch.equal(self.output[looks], self._expected(looks))

    def _expected(self, i: torch.Tensor) -> torch.Tensor:
        op, share, mine = self.point.op, self.share, self.rank * self.share
        if op in ("all_reduce", "reduce"):
            return self._combined(i)
        if op == "reduce_scatter":
            return self._combined(mine + i)
        if op == "broadcast":
            return self._values(0, i)
        if op == "scatter":
            return self._values(0, mine + i)
        if op == "send_recv":
            return self._values((self.rank - 1) % self.ranks, i)
        return self._values(i // share, i % share + (mine if op == "all_to_all" else 0))

    def _combined(self, i: torch.Tensor) -> torch.Tensor:
        result = self._values(0, i)
        for rank in range(1, self.ranks):
            result = self.combine(result, self._values(rank, i))
        return result

    def _values(self, rank, i: torch.Tensor) -> torch.Tensor:
        both = rank * 7 + i % PERIOD
        values = 1 + (both % 8 == 0) if self.point.reduce == "product" else both % VALUES
        return values.to(self.dtype)

    def _all_reduce(self) -> None:
        dist.all_reduce(self.output, op=self.reduction)

    def _broadcast(self) -> None:
        dist.broadcast(self.output, 0)

    def _reduce(self) -> None:
        dist.reduce(self.output, 0, op=self.reduction)

    def _all_gather(self) -> None:
        dist.all_gather_into_tensor(self.output, self.input)

    def _reduce_scatter(self) -> None:
        dist.reduce_scatter_tensor(self.output, self.input, op=self.reduction)

    def _gather(self) -> None:
        parts = list(self.output.chunk(self.ranks)) if self.rank == 0 else None
        dist.gather(self.input, parts, 0)

    def _scatter(self) -> None:
        parts = list(self.input.chunk(self.ranks)) if self.rank == 0 else None
        dist.scatter(self.output, parts, 0)

    def _all_to_all(self) -> None:
        dist.all_to_all_single(self.output, self.input)

    def _send_recv(self) -> None:
        sending = dist.isend(self.input, (self.rank + 1) % self.ranks)
        dist.recv(self.output, (self.rank - 1) % self.ranks)
        sending.wait()

    def _barrier(self) -> None:
        dist.barrier()
