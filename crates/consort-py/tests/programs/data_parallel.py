"""Training with consort's own DistributedDataParallel, to be held against PyTorch's.

With Gloo a program trains with PyTorch's class, otherwise with consort's: what it returns has to be
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from ranks import Rank, program
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as Theirs
from torch.utils.checkpoint import checkpoint


@program()
def many_steps_give_the_same_parameters(me: Rank) -> Any:
    torch.manual_seed(me.rank)
    return train(me, wrapped(me, layers(), bucket_cap_mb=0.001), steps=10)


@program()
def sizes_that_are_found_by_measuring_change_nothing(me: Rank) -> Any:
    return train(me, wrapped(me, layers(), **({} if is_ours(me) else {"bucket_cap_mb": 0.001})), 10)


@program()
def buckets_are_made_anew_when_gradients_come_in_another_order(me: Rank) -> Any:
    model = wrapped(me, UpsideDown(), bucket_cap_mb=0.001)
    dropped = train(me, model, steps=9)
    return dropped, train(me, wrapped(me, UpsideDown(), bucket_cap_mb=0.001), 9, set_to_none=False)


@program()
def gradients_may_be_zeroed_instead_of_dropped(me: Rank) -> Any:
    model = wrapped(me, layers(), bucket_cap_mb=0.001)
    return train(me, model, steps=10, set_to_none=False)


@program()
def gradients_that_are_not_dropped_are_added_to(me: Rank) -> Any:
    model = wrapped(me, layers(), bucket_cap_mb=0.001)
    for step in range(9):
        model(data(me, step)).square().mean().backward()
    return gradients(model)


@program()
def gradients_add_up_without_sync(me: Rank) -> Any:
    model = wrapped(me, layers(), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(10):
        # Once with gradients that are dropped, once with zeros that are added to.
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        with model.no_sync():
            for part in range(step % 3):
                model(data(me, 10 * step + part)).square().mean().backward()
                seen += [gradients(model)]
        model(data(me, 10 * step + 5)).square().mean().backward()
        optimizer.step()
    return seen, weights(model)


@program()
def a_forward_without_sync_decides_for_its_backward(me: Rank) -> Any:
    model = wrapped(me, layers())
    with model.no_sync():
        loss = model(data(me, 0)).square().mean()
    loss.backward()
    alone = gradients(model)
    model(data(me, 1)).square().mean().backward()
    return alone, gradients(model)


@program()
def parameters_that_are_not_used_are_found(me: Rank) -> Any:
    model = wrapped(me, Crossroads(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(12):
        optimizer.zero_grad()
        # Sometimes the ranks take the same way, sometimes not.
        loss = model(data(me, step), left=(me.rank * step) % 2 == 0).square().mean()
        loss.backward()
        seen.append(gradients(model))
        optimizer.step()
    return seen, weights(model)


@program()
def what_adds_up_without_sync_counts_though_it_is_not_used_at_last(me: Rank) -> Any:
    model = wrapped(me, Crossroads(), find_unused_parameters=True)
    seen = []
    for step in range(9):
        model.zero_grad()
        with model.no_sync():
            model(data(me, step), left=True).square().mean().backward()
        model(data(me, 10 + step), left=False).square().mean().backward()
        seen.append(gradients(model))
    return seen


@program()
def parameters_that_do_not_learn_stay_as_they_are(me: Rank) -> Any:
    model = layers()
    model[2].weight.requires_grad_(False)
    return train(me, wrapped(me, model, bucket_cap_mb=0.001), steps=10)


@program()
def weights_that_are_tied_have_one_gradient(me: Rank) -> Any:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Linear(7, 9, bias=False), nn.Linear(9, 7)
            self.again = nn.Linear(7, 9, bias=False)
            self.again.weight = self.into.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.again(self.out(self.into(x)).tanh())

    return train(me, wrapped(me, Tied(), bucket_cap_mb=0.0001), steps=10)


@program()
def a_static_graph_may_leave_parameters_out_and_use_others_twice(me: Rank) -> Any:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(7, 7)
            self.unused = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            # Each checkpoint is differentiated by itself: the layer's gradient comes in two parts.
            x = checkpoint(self.layer, x, use_reentrant=True)
            return checkpoint(self.layer, torch.tanh(x), use_reentrant=True)

    model = wrapped(me, Twice(), static_graph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(10):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        model(data(me, step).requires_grad_()).square().mean().backward()
        optimizer.step()
        seen.append(gradients(model))
    return seen, weights(model)


@program()
def checkpoints_are_differentiated_within_backward(me: Rank) -> Any:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(7, 7), layers()

        def forward(self, x: Tensor) -> Tensor:
            # Backward begins with what the checkpoint differentiates by itself.
            return checkpoint(self.last, self.first(x), use_reentrant=True)

    model = wrapped(me, Checkpointed(), bucket_cap_mb=0.001)
    for step in range(9):
        model.zero_grad()
        model(data(me, step).requires_grad_()).square().mean().backward()
    return gradients(model)


@program()
def numbers_of_64_bits_are_averaged(me: Rank) -> Any:
    return train(me, wrapped(me, layers().double(), bucket_cap_mb=0.001), 9, dtype=torch.float64)


@program(exact=False)
def numbers_of_16_bits_are_averaged(me: Rank) -> Any:
    brain = train(me, wrapped(me, layers().bfloat16()), 9, dtype=torch.bfloat16)
    half = train(me, wrapped(me, layers().half(), bucket_cap_mb=0.001), 9, dtype=torch.float16)
    return brain, half


@program(exact=False)
def one_model_may_have_numbers_of_several_types(me: Rank) -> Any:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = nn.Linear(7, 11).double(), nn.Linear(11, 5).bfloat16()
            self.plain = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.plain(self.narrow(self.wide(x.double()).bfloat16()).float())

    return train(me, wrapped(me, Mixed()), steps=10)


@program(exact=False)
def gradients_may_be_some_rows_of_a_table(me: Rank) -> Any:
    # Dense ones for PyTorch, which divides sparse ones twice that share their numbers, as these do.
    model = wrapped(me, Reader(sparse=is_ours(me)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []
    for step in range(10):
        # Once they are added to what is there.
        if step != 3:
            optimizer.zero_grad()
        model(some_rows(me, step), True).square().sum().backward()
        seen.append([it.to_dense() for it in gradients(model)])
        optimizer.step()
    return seen, weights(model)


@program()
def buffers_follow_rank_zero(me: Rank) -> Any:
    torch.manual_seed(me.rank)
    model = wrapped(me, nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)))
    losses = train(me, model, steps=4)
    model.eval()
    with torch.no_grad():
        judged = model(data(me, 9))
    return losses, judged, [buffer.clone() for buffer in model.buffers()]


@program()
def buffers_that_are_replaced_follow_rank_zero(me: Rank) -> Any:
    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = nn.Linear(7, 5), nn.BatchNorm1d(5)
            self.register_buffer("seen", torch.zeros(5))
            self.register_buffer("later", None)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(self.layer(x))
            self.seen = self.seen + x.detach().sum(0)
            self.later = x.detach()[0] if self.later is None else self.later + 1
            return x + self.seen + self.later

    model = wrapped(me, Remembering())
    losses = train(me, model, steps=3)
    # Another type, and so another tensor.
    model.module.seen = model.module.seen.double() + me.rank
    with torch.no_grad():
        model.eval()(data(me, 7))
    return losses, [buffer.clone() for buffer in model.buffers()]


@program()
def what_is_to_be_ignored_is_not_sent(me: Rank) -> Any:
    torch.manual_seed(me.rank)
    model = nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    model[2].requires_grad_(False)
    model._ddp_params_and_buffers_to_ignore = ["0.bias", "1.running_mean", "2.weight"]
    model = wrapped(me, model)
    begun = [value.clone() for value in model.state_dict().values()]
    losses = train(me, model, steps=3)
    return begun, losses, [buffer.clone() for buffer in model.buffers()]


@program()
def several_outputs_may_be_used_or_not(me: Rank) -> Any:
    class Forked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(7, 3), nn.Linear(7, 2)

        def forward(self, x: Tensor) -> dict[str, Any]:
            return {"left": self.left(x), "more": [self.right(x), "a word", x]}

    model = wrapped(me, Forked(), find_unused_parameters=True)
    seen = []
    for step in range(9):
        model.zero_grad()
        found = model(data(me, step))
        (found["left"] if step % 2 else found["more"][0]).square().mean().backward()
        seen.append(gradients(model))
    return seen


@program()
def models_take_turns(me: Rank) -> Any:
    first = wrapped(me, layers(), bucket_cap_mb=0.001)
    second = wrapped(me, layers(), bucket_cap_mb=0.002)
    for step in range(9):
        (first(data(me, step)).sum() + second(data(me, step)).square().sum()).backward()
        second(first.module[0](data(me, step))[:, :7]).square().sum().backward()
    return gradients(first), gradients(second)


@program(world=3, exact=False)
def three_ranks_average(me: Rank) -> Any:
    torch.manual_seed(me.rank)
    model = wrapped(me, layers(), bucket_cap_mb=0.001)
    return [weights(model), *train_to_grads(me, model)]


@program()
def state_is_kept_under_pytorchs_names(me: Rank) -> Any:
    model = wrapped(me, nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)))
    train(me, model, steps=2)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    other = wrapped(me, nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)))
    other.load_state_dict(state)
    return state, train(me, other, steps=2)


def ours(module: nn.Module, **wishes: Any) -> nn.Module:
    """A model as consort wraps it."""
    from consort.torch import DistributedDataParallel

    return DistributedDataParallel(module, **wishes)


def is_ours(me: Rank) -> bool:
    """Whether a program runs with what is under test."""
    return me.backend != "gloo"


def wrapped(me: Rank, module: nn.Module, **wishes: Any) -> nn.Module:
    """A model as the backend's own class wraps it."""
    return ours(module, **wishes) if is_ours(me) else Theirs(module, **wishes)


class Crossroads(nn.Module):
    """A model of which each step uses one half."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(7, 3)
        self.right = nn.Linear(7, 3)

    def forward(self, x: Tensor, left: bool) -> Tensor:
        """Takes the left or the right way."""
        return self.left(x) if left else self.right(x)


class Reader(nn.Module):
    """A model that reads rows of one table or two."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.table, self.other = (nn.Embedding(rows, 5, sparse=sparse) for rows in (11, 3))
        self.out = nn.Linear(5, 3)

    def forward(self, rows: Tensor, other: bool) -> Tensor:
        """Reads these rows, of the other table as well if that is wanted."""
        read = self.table(rows)
        return self.out(read + self.other(rows % 3) if other else read)


def some_rows(me: Rank, step: int) -> Tensor:
    """Rows of which some are read twice, and some by both ranks."""
    return torch.tensor([me.rank, 3, (3 + me.rank * step) % 11, 10 - step])


class UpsideDown(nn.Module):
    """A model whose gradients come in the order in which it has its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.middle, self.first = nn.Linear(17, 3), nn.Linear(33, 17), nn.Linear(7, 33)

    def forward(self, x: Tensor) -> Tensor:
        """Goes from its last layer to its first."""
        return self.last(self.middle(self.first(x).relu()).tanh())


def layers() -> nn.Sequential:
    """A small model with odd sizes, of several buckets when these are small."""
    return nn.Sequential(
        nn.Linear(7, 33), nn.ReLU(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 3)
    )


def data(me: Rank, step: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The batch of a rank in a step; no two are the same."""
    generator = torch.Generator().manual_seed(1000 * me.rank + step)
    return torch.randn(5, 7, generator=generator).to(dtype)


def train(
    me: Rank,
    model: nn.Module,
    steps: int,
    set_to_none: bool = True,
    dtype: torch.dtype = torch.float32,
) -> tuple[list[float], list[Tensor]]:
    """Some steps of training; gives the losses and the parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    losses = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = model(data(me, step, dtype)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, weights(model)


def train_to_grads(me: Rank, model: nn.Module) -> Iterator[list[Tensor]]:
    """The gradients of each of some steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(9):
        optimizer.zero_grad()
        model(data(me, step)).square().mean().backward()
        yield gradients(model)
        optimizer.step()


def weights(model: nn.Module) -> list[Tensor]:
    """The model's parameters, as tensors that can be sent away."""
    return [each.detach().clone() for each in model.parameters()]


def gradients(model: nn.Module) -> list[Tensor | None]:
    """The parameters' gradients, as tensors that can be sent away."""
    return [None if it.grad is None else it.grad.detach().clone() for it in model.parameters()]
