"""Calls that are wrong by themselves: refused before anything is moved, and the group goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program

from programs.failures import Caught, catch


@dataclass(frozen=True)
class Mistake:
    """A wrong call, and words of its error."""

    call: Callable[[dist.ProcessGroup], Any]
    words: str


def options(kind: type, **fields: Any) -> Any:
    """An options object with some fields set."""
    made = kind()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def root(rank: int, tensor: int = 0) -> Any:
    """The options of a broadcast from a rank."""
    return options(dist.BroadcastOptions, rootRank=rank, rootTensor=tensor)


ONE, TWO = torch.ones(3), [torch.ones(3), torch.ones(3)]
LONG = torch.ones(3, dtype=torch.int64)

MISTAKES: dict[str, Mistake] = {
    "a_root_below_zero": Mistake(
        lambda group: group.broadcast([ONE], root(-1, tensor=0)),
        "invalid root rank",
    ),
    "a_root_beyond_the_world": Mistake(
        lambda group: group.broadcast([ONE], root(2, tensor=0)),
        "invalid root rank",
    ),
    "a_root_tensor_that_is_not_there": Mistake(
        lambda group: group.broadcast([ONE], root(0, tensor=1)),
        "invalid root tensor",
    ),
    "a_root_of_a_reduction_beyond_the_world": Mistake(
        lambda group: group.reduce([ONE], options(dist.ReduceOptions, rootRank=2, rootTensor=0)),
        "invalid root rank",
    ),
    "a_root_of_a_gathering_beyond_the_world": Mistake(
        lambda group: group.gather([], [ONE], options(dist.GatherOptions, rootRank=2)),
        "invalid root rank",
    ),
    "a_root_of_a_scattering_below_zero": Mistake(
        lambda group: group.scatter([ONE], [], options(dist.ScatterOptions, rootRank=-1)),
        "invalid root rank",
    ),
    "no_tensor_to_reduce": Mistake(
        lambda group: group.allreduce([], dist.AllreduceOptions()), "requires non-empty tensor list"
    ),
    "two_tensors_to_reduce": Mistake(
        lambda group: group.allreduce(TWO, dist.AllreduceOptions()),
        "requires a single-element tensor list",
    ),
    "no_input_to_gather": Mistake(
        lambda group: group.allgather([[ONE, ONE]], []), "requires non-empty input tensor list"
    ),
    "an_output_list_that_is_too_short": Mistake(
        lambda group: group.allgather([[ONE.clone()]], [ONE]), "invalid output tensor list"
    ),
    "outputs_of_another_dtype": Mistake(
        lambda group: group.allgather([[ONE.clone(), LONG.clone()]], [ONE]), "invalid tensor type"
    ),
    "an_output_of_another_size": Mistake(
        lambda group: dist.all_gather_into_tensor(torch.ones(5), ONE), "size"
    ),
    "an_output_of_another_dtype": Mistake(
        lambda group: dist.all_gather_into_tensor(torch.ones(6, dtype=torch.int64), ONE), "type"
    ),
    "a_part_of_another_size": Mistake(
        lambda group: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(6)), "size"
    ),
    "outputs_on_a_rank_that_is_not_the_root": Mistake(
        lambda group: group.gather(
            [[ONE.clone(), ONE.clone()]],
            [ONE],
            options(dist.GatherOptions, rootRank=1 - dist.get_rank()),
        ),
        "requires empty output on non-root",
    ),
    "inputs_on_a_rank_that_is_not_the_root": Mistake(
        lambda group: group.scatter(
            [ONE.clone()], [[ONE, ONE]], options(dist.ScatterOptions, rootRank=1 - dist.get_rank())
        ),
        "requires empty input on non-root",
    ),
    "splits_that_do_not_add_up": Mistake(
        lambda group: dist.all_to_all_single(torch.zeros(4), torch.ones(4), [1, 1], [2, 2]), "split"
    ),
    "rows_that_do_not_divide": Mistake(
        lambda group: dist.all_to_all_single(torch.zeros(3), torch.ones(3)), "evenly"
    ),
    "a_sparse_tensor": Mistake(
        lambda group: dist.broadcast(torch.eye(3).to_sparse(), 0), "unsupported layout"
    ),
    "a_tensor_elsewhere": Mistake(
        lambda group: dist.all_reduce(torch.ones(3, device="meta")), "meta"
    ),
    "bits_of_floating_point_numbers": Mistake(
        lambda group: dist.all_reduce(ONE.clone(), dist.ReduceOp.BAND), "bit"
    ),
    "an_average_of_truths": Mistake(
        lambda group: dist.all_reduce(torch.ones(3, dtype=torch.bool), dist.ReduceOp.AVG), "bool"
    ),
    "a_message_to_itself": Mistake(lambda group: dist.send(ONE, dist.get_rank()), "rank"),
    "a_message_to_nobody": Mistake(lambda group: group.send([ONE], 5, 0).wait(), "rank"),
    "a_message_with_a_tag_below_zero": Mistake(
        lambda group: group.send([ONE], 1 - dist.get_rank(), -1).wait(), "tag"
    ),
    "something_that_is_no_tensor": Mistake(lambda group: dist.all_reduce([1, 2]), "ensor"),
    "an_operation_that_is_none": Mistake(
        lambda group: dist.all_reduce(ONE.clone(), "sum"), "incompatible"
    ),
}


@program(cases=list(MISTAKES), timeout=20)
def a_call_with(me: Rank, mistake: str) -> tuple[Caught | None, torch.Tensor]:
    found = catch(lambda: MISTAKES[mistake].call(dist.group.WORLD))
    tensor = torch.tensor([me.rank + 1])
    dist.all_reduce(tensor)  # the group is as good as before
    return found, tensor
