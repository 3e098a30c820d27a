"""An ordinary PyTorch program that knows nothing of consort: sums, broadcasts, meets."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

# Each rank contributes values that tell where and from whom they come.
values = torch.arange(1000, dtype=torch.float64) * 1000 + rank
dist.all_reduce(values)
expected = torch.arange(1000, dtype=torch.float64) * 1000 * world + sum(range(world))
assert torch.equal(values, expected), values

word = torch.full((7,), rank)
dist.broadcast(word, src=world - 1)
assert word.tolist() == [world - 1] * 7, word

dist.barrier()
print(f"rank {rank} of {world}: sum {int(values.sum())}")
dist.destroy_process_group()
