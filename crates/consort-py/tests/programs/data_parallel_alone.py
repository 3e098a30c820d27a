"""What consort's own DistributedDataParallel does that PyTorch's does not, or does otherwise."""

from __future__ import annotations

import inspect
import os
import textwrap
import weakref
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program
from ranks.compare import assert_same
from ranks.stage import join
from torch import Tensor, nn

from programs.data_parallel import (
    Crossroads,
    Reader,
    UpsideDown,
    data,
    gradients,
    layers,
    ours,
    some_rows,
    train,
    weights,
)


@program()
def gradients_lie_in_buckets_and_have_the_same_bits_everywhere(me: Rank) -> Any:
    model = ours(UpsideDown(), bucket_cap_mb=0.001)
    seen, places = [], []
    for step in range(10):
        model.zero_grad(set_to_none=step % 2 == 0)
        model(data(me, step)).square().mean().backward()
        spans = [(each, each + size) for each, size in bucket_spans(model)]
        for parameter in model.parameters():
            start = parameter.grad.data_ptr()
            end = start + parameter.grad.nbytes
            assert any(first <= start and end <= last for first, last in spans)
            assert start % 64 == 0 and parameter.grad.stride() == parameter.stride()
        places.append([parameter.grad.data_ptr() for parameter in model.parameters()])
        seen.append(gradients(model))
    # Buckets were made anew once, and then stay where they are.
    assert places[0] != places[1]
    assert all(each == places[1] for each in places[2:])
    return seen, dist.group.WORLD.core.shares_memory()


@program()
def channels_that_come_last_stay_last(me: Rank) -> Any:
    convolution = nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)
    model = ours(convolution, bucket_cap_mb=0.001)
    plain = nn.Conv2d(3, 5, 3)
    state = convolution.state_dict()
    plain.load_state_dict({name: value.contiguous() for name, value in state.items()})
    generator = torch.Generator().manual_seed(7 + me.rank)
    images = torch.randn(2, 3, 8, 8, generator=generator)
    model(images).square().mean().backward()
    plain(images).square().mean().backward()
    expected = plain.weight.grad.clone()
    dist.all_reduce(expected, op=dist.ReduceOp.AVG)
    torch.testing.assert_close(convolution.weight.grad, expected)
    return convolution.weight.grad.stride(), convolution.weight.stride()


@program()
def rows_that_nobody_reads_have_no_gradient_and_those_that_some_read_have(me: Rank) -> Any:
    seen = []
    for sparse in (False, True):
        torch.manual_seed(1)
        model = ours(Reader(sparse), find_unused_parameters=True)
        found = []
        for step in range(4):
            model.zero_grad()
            # Nobody reads the other table, one rank, nobody, the other rank.
            model(some_rows(me, step), step == 1 + 2 * me.rank).square().sum().backward()
            found.append([None if it is None else it.to_dense() for it in gradients(model)])
        assert [each[1] is None for each in found] == [True, False, True, False]
        assert model.module.table.weight.grad.is_sparse == sparse
        seen.append(found)
    for step, (dense, by_rows) in enumerate(zip(*seen, strict=True)):
        for one, other in zip(dense, by_rows, strict=True):
            assert (one is None) == (other is None), step
            if one is not None:
                torch.testing.assert_close(one, other)
    return seen


@program()
def a_table_that_is_also_a_matrix_is_refused_if_it_is_sparse(me: Rank) -> Any:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, 5, sparse=True)

        def forward(self, rows: Tensor) -> Tensor:
            return self.table(rows) @ self.table.weight.T

    model = ours(Both())
    dist.barrier()
    return said(lambda: model(some_rows(me, 5) % 7).square().sum().backward())


@program()
def models_that_differ_are_refused_by_the_name_of_the_parameter(me: Rank) -> Any:
    odd = nn.Sequential(nn.Linear(7, 3), nn.Linear(3, 2 + me.rank))
    told = said(lambda: ours(odd))
    # The group goes on.
    return told, weights(ours(layers()))[0]


@program()
def parameters_without_a_gradient_are_named(me: Rank) -> Any:
    model = ours(Crossroads())
    dist.barrier()
    return said(lambda: model(data(me, 0), left=True).square().mean().backward())


@program()
def an_exception_in_backward_is_told_to_all(me: Rank) -> Any:
    class Fragile(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, breaks: bool) -> Tensor:
            ctx.breaks = breaks
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            if ctx.breaks:
                raise ArithmeticError("this layer cannot be differentiated")
            return gradient, None

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(7, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor, breaks: str) -> Tensor:
            x = Fragile.apply(self.first(x), breaks == "in the middle")
            return Fragile.apply(self.last(x), breaks == "at once")

    model = ours(Model())
    seen = []
    for step in range(9):
        # Nothing has come, so that nothing has happened.
        seen.append(said(lambda: model(data(me, step), "at once").square().mean().backward()))  # noqa: B023
        model.zero_grad()
        model(data(me, step), "nowhere").square().mean().backward()
        seen.append(gradients(model))
    dist.barrier()
    breaks = "in the middle" if me.rank == 1 else "nowhere"
    seen.append(said(lambda: model(data(me, 14), breaks).square().mean().backward()))
    seen.append(said(lambda: model(data(me, 15), "nowhere").square().mean().backward()))
    return seen


@program()
def gradients_of_inputs_and_of_a_graph_that_is_kept(me: Rank) -> Any:
    model = ours(layers())
    train(me, model, steps=8)
    model.zero_grad()
    x = data(me, 0).requires_grad_()
    output = model(x)
    (slope,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
    assert all(parameter.grad is None for parameter in model.parameters())
    output.square().mean().backward(retain_graph=True)
    once = gradients(model)
    output.square().mean().backward()
    for first, both in zip(once, gradients(model), strict=True):
        torch.testing.assert_close(both, 2 * first)
    # A penalty on the slope is differentiated, too.
    model.zero_grad()
    x = data(me, 1).requires_grad_()
    (slope,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    slope.square().sum().backward()
    return once, gradients(model)


@program()
def what_is_computed_past_it_is_not_averaged(me: Rank) -> Any:
    model = ours(layers())
    train(me, model, steps=8)
    model.zero_grad()
    if me.rank == 0:
        model.module(data(me, 1)).sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        model.zero_grad()
    model(data(me, 2)).sum().backward()
    return gradients(model)


@program()
def outputs_that_hold_tensors_out_of_sight_are_averaged(me: Rank) -> Any:
    class Hidden:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor

    class Hiding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = layers()

        def forward(self, x: Tensor) -> Hidden:
            return Hidden(self.inner(x))

    model = ours(Hiding(), bucket_cap_mb=0.001)
    for step in range(9):
        model.zero_grad()
        model(data(me, step)).tensor.square().mean().backward()
    return gradients(model)


@program()
def a_loss_past_what_the_model_gave_is_averaged_or_told_of(me: Rank) -> Any:
    class Secretive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(7, 3), nn.Linear(7, 3)

        def forward(self, x: Tensor) -> Tensor:
            self.secrets = self.left(x), self.right(x)
            return self.secrets[0] + self.secrets[1]

    model = ours(Secretive(), find_unused_parameters=True)
    seen, told = [], []
    # As long as little is known of the model, any gradient begins a pass.
    for step in range(3):
        model.zero_grad()
        model(data(me, step))
        model.module.secrets[step % 2].square().sum().backward()
        seen.append(gradients(model))
    for half in (0, 1):
        for step in range(8):
            model.zero_grad()
            model(data(me, step)).square().sum().backward()
            seen.append(gradients(model))
        model.zero_grad()
        model(data(me, 9))
        model.module.secrets[half].square().sum().backward()
        told.append(said(lambda: model(data(me, 10))))
    # The gradient that comes last of all began a pass; the others were only noted.
    (only,) = [each for each in told if each is not None]
    assert only[0] is RuntimeError and "did not come from what the model had given" in only[1]
    # Nothing was sent then, and the ranks go on.
    model.zero_grad()
    model(data(me, 11)).square().sum().backward()
    return [*seen, gradients(model)]


@program()
def numbers_may_travel_smaller(me: Rank) -> Any:
    found = {}
    for hook, told in HOOKS:
        torch.manual_seed(0)
        model = ours(layers(), hook=hook, hook_options=told)
        for _ in range(2):
            model.zero_grad()
            model(data(me, 0)).square().mean().backward()
        found[hook] = gradients(model)
        assert hook in model.stats()["comm_hook"].lower() or hook in ("none", "powersgd")
    exact = found.pop("average")
    for hook, numbers in found.items():
        if hook != "none":
            for mine, theirs in zip(numbers, exact, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.03 * exact_size(exact))
    return found


@program()
def what_makes_no_sense_is_refused(me: Rank) -> Any:
    frozen = layers().requires_grad_(False)
    gloo = dist.new_group(backend="gloo")
    return [
        said(lambda: ours(layers(), mixed_precision=torch.float16)),
        said(lambda: ours(layers(), device_ids=[0])),
        said(lambda: ours(layers(), bucket_size=3)),
        said(lambda: ours(layers(), gradient_as_bucket_view=False)),
        said(lambda: ours(frozen)),
        said(lambda: ours(layers(), process_group=gloo)),
        said(lambda: ours(layers(), hook="gzip")),
        said(lambda: ours(layers(), hook_options={"level": 3})),
        said(lambda: ours(layers(), device_ids=None, dim=0)),
        said(lambda: ours(layers(), hook="int8", hook_options={"error_feedbak": True})),
        said(lambda: ours(layers(), hook="powersgd", hook_options={"ranks": 4, "after": 1})),
    ]


@program()
def states_that_cannot_be_sent_are_refused_by_name(me: Rank) -> Any:
    def odd(state: Tensor, name: str, **wishes: Any) -> nn.Module:
        model = nn.Sequential(layers(), nn.Identity())
        model[1].register_buffer(name, state)
        return ours(model, **wishes)

    frozen = nn.Sequential(layers(), nn.Linear(3, 3, device="meta").requires_grad_(False))
    rows = torch.eye(3).to_sparse()
    told = [said(lambda: odd(rows, "rows")), said(lambda: ours(frozen))]
    # What is not sent may be anything.
    assert said(lambda: odd(rows, "rows", broadcast_buffers=False, init_sync=False)) is None
    model = odd(torch.eye(3), "later")
    model.module[1].later = rows
    told.append(said(lambda: model(data(me, 0))))
    # Nothing was sent, and the ranks go on.
    model.module[1].later = torch.eye(3) * me.rank
    model(data(me, 0)).square().mean().backward()
    return told, gradients(model), model.module[1].later


@program()
def hooks_end_with_the_model(me: Rank) -> Any:
    module = layers()
    kept = []
    for _ in range(2):
        # So many steps that most hooks only put their parameter on a list.
        model = ours(module, bucket_cap_mb=0.001)
        train(me, model, steps=8)
        held = weakref.ref(model._gradients)
        assert all(len(it._post_accumulate_grad_hooks) == 1 for it in module.parameters())
        # A pass that is given up, though what the model has given is kept.
        kept.append(model(data(me, 20)))
        with model.no_sync():
            alone = model(data(me, 21))
        del model
        assert held() is None
        alone.sum().backward()
        assert all(not it._post_accumulate_grad_hooks for it in module.parameters())
    copy = ours(deepcopy(module), bucket_cap_mb=0.001)
    again = ours(module, bucket_cap_mb=0.001)
    again = ours(module, bucket_cap_mb=0.001)
    expected = train(me, copy, steps=8)
    assert_same(train(me, again, steps=8), expected, "the module that has been wrapped before")
    told = said(kept[0].sum().backward)
    return told, expected[1]


@program()
def a_default_device_changes_nothing(me: Rank) -> Any:
    model = Reader(sparse=True)
    rows = [some_rows(me, step) for step in range(3)]
    with torch.device("meta"):
        wrapped = ours(model, find_unused_parameters=True)
        for step in range(3):
            wrapped.zero_grad()
            # In the first step both tables are read, then the other one by one rank or nobody.
            other = step == 0 or (step == 1 and me.rank == 1)
            wrapped(rows[step], other).square().sum().backward()
            assert all(it is None or it.is_cpu for it in gradients(wrapped))
    return [None if it is None else it.to_dense() for it in gradients(wrapped)]


@program()
def two_may_wrap_the_same_parameters_but_not_average_them_at_once(me: Rank) -> Any:
    module = layers()
    first, second = ours(module, bucket_cap_mb=0.001), ours(module, bucket_cap_mb=0.002)
    copy = ours(deepcopy(module), bucket_cap_mb=0.001)
    x = data(me, 0)
    told = [said(lambda: (first(x).sum() + second(x).square().sum()).backward())]
    # Nothing had come, so that nothing has happened.
    for step in range(8):
        for model in (first, second):
            module.zero_grad()
            copy.zero_grad()
            model(data(me, step)).square().mean().backward()
            copy(data(me, step)).square().mean().backward()
            assert_same(gradients(module), gradients(copy), f"step {step}")
    dist.barrier()
    # The first one expects a backward pass when that of the second comes.
    first(x)
    told.append(said(second(x).square().sum().backward))
    return told


@program()
def what_was_done_can_be_asked_for(me: Rank) -> Any:
    model = ours(layers(), bucket_cap_mb=0.001)
    train(me, model, steps=4)
    stats, report = model.stats(), model.report()
    assert stats["iteration"] == 4 and stats["world_size"] == 2 and stats["rank"] == me.rank
    assert stats["has_rebuilt_buckets"] == 1 and "forward_compute_time" in stats
    assert "passes         4, 4 of them averaged" in report, report


@program()
def the_example_of_its_documentation_learns(me: Rank) -> Any:
    from consort.torch import DistributedDataParallel

    text = inspect.cleandoc(DistributedDataParallel.__doc__ or "")
    first = text.index("    import torch\n")
    example = textwrap.dedent(text[first : text.index("\nAll ranks begin")])
    met = 'dist.init_process_group("consort")\n'
    assert met in example
    names: dict[str, Any] = {}
    exec(example.replace(met, ""), names)
    assert names["loss"].item() < 0.1
    return weights(names["model"])


@program()
def gradients_outlive_the_model_and_the_group(me: Rank) -> Any:
    model = ours(layers())
    model(data(me, 0)).square().mean().backward()
    kept = [parameter.grad for parameter in model.parameters()]
    before = [each.clone() for each in kept]
    del model
    dist.destroy_process_group()
    for each, was in zip(kept, before, strict=True):
        assert torch.equal(each, was)
        each.zero_()
    return before


@program(meet=False)
def the_backend_may_be_a_plain_one(me: Rank) -> Any:
    from consort.torch import Options

    join(me, pg_options=Options(mode="backend"))
    return train(me, ours(layers(), bucket_cap_mb=0.001), steps=9)


@program(meet=False)
def ranks_that_do_not_share_memory_average(me: Rank) -> Any:
    from consort.torch import Options

    join(me, pg_options=Options(transport="tcp"))
    assert not dist.group.WORLD.core.shares_memory()
    model = ours(layers(), bucket_cap_mb=0.001)
    return train(me, model, steps=5)


@program(world=3, alone=True)
def the_survivors_of_a_rank_go_on_with_the_same_model(me: Rank) -> Any:
    import consort
    from consort.torch import shrink

    model = ours(layers(), bucket_cap_mb=0.001)
    train(me, model, steps=8)
    dist.barrier()
    if me.rank == 1:
        os._exit(0)
    told = said(lambda: train(me, model, steps=3))
    assert issubclass(told[0], consort.Error), told
    shrink()
    model.set_group()
    assert all(parameter.grad is None for parameter in model.parameters())
    result = train(me, model, steps=4)
    return dist.get_world_size(), result[1], gradients(model)


def bucket_spans(model: nn.Module) -> list[tuple[int, int]]:
    """Where the model's buckets begin, and how many bytes they have."""
    sizes = [int(size) for size in model.stats()["bucket_sizes"].split(", ")]
    starts: dict[int, int] = {}
    for bucket, address in model._reducer.places().all():
        starts[bucket] = min(address, starts.get(bucket, address))
    return [(starts[bucket], sizes[bucket]) for bucket in starts]


def said(call: Callable[[], Any]) -> Any:
    """The type and the words of what a call raises."""
    try:
        call()
    except Exception as error:
        return type_of(error), str(error)
    return None


def type_of(error: Exception) -> type:
    """The kind of an error: consort's own, which every process knows."""
    import consort

    for kind in (consort.Mistake, consort.Mismatch, consort.PeerGone, consort.Aborted):
        if isinstance(error, kind):
            return kind
    return type(error)


def exact_size(numbers: list[Tensor]) -> float:
    """How large the largest number is."""
    return max(float(each.abs().max()) for each in numbers)


HOOKS = [
    ("average", {}),
    ("bf16", {}),
    ("f16", {}),
    ("int8", {"error_feedback": False}),
    ("powersgd", {"rank": 4, "after": 0, "min_compression_rate": 0.5}),
    ("none", {}),
]
