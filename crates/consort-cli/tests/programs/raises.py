"""A PyTorch program in which one rank fails while the other waits for it in a collective."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    raise ValueError("the data has a hole")
dist.all_reduce(torch.zeros(4))
