"""What a call costs when there is nobody to wait for."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from ranks import Ranks
from timing import medians


def measure(ranks: Ranks) -> list[dict[str, Any]]:
    """The time of an all_reduce of one number in a group of one, in each way of asking for it."""
    rows = []
    for way in WAYS:
        calls = {name: _caller(way, group) for name, group in ranks.backends().items()}
        found = medians(ranks, calls, 1.0)
        rows += [{"impl": name, "way": way, "p50_us": round(us, 3)} for name, us in found.items()]
    return rows


def _caller(way: str, group: Any) -> Any:
    number = torch.zeros(1)
    match way:
        case "blocking":
            return lambda: dist.all_reduce(number, group=group)
        case "wait":
            return lambda: dist.all_reduce(number, group=group, async_op=True).wait()
        case "future":
            return lambda: dist.all_reduce(number, group=group, async_op=True).get_future().wait()
        case _:
            return lambda: functional.wait_tensor(functional.all_reduce(number, "sum", group))


WAYS = ["blocking", "wait", "future", "functional"]
