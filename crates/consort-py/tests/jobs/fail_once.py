"""A job for torchrun with one restart: rank 1 fails the first time, the second time all is well.

torchrun --nproc-per-node 2 --max-restarts 1 fail_once.py BACKEND FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist


def main(backend: str, folder: Path) -> None:
    """Sums twice; between the sums rank 1 leaves, if this is the first start."""
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group(backend)
    rank = dist.get_rank()
    for turn in range(2):
        total = torch.tensor([rank + 1])
        dist.all_reduce(total)
        assert total.item() == 3
        (folder / f"sum-{attempt}-{turn}-{rank}").touch()
        if attempt == 0 and rank == 1:
            os._exit(3)
    # The group is not destroyed, as in many programs: Python ends with it.
    (folder / f"done-{attempt}-{rank}").touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
