"""What a group is asked to do, by PyTorch's names for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._autograd import _profiler_enabled
from torch._C._distributed_c10d import Work

from consort._core import Group
from consort.errors import Deadline, mistake
from consort.torch import arguments, sparse
from consort.torch.arguments import Tensors, Terms
from consort.torch.detail import Fingerprints
from consort.torch.profiling import profiled
from consort.torch.tensors import (
    Region,
    Staging,
    bring_back,
    check,
    code,
    code_to_move,
    region,
    storages,
    to_read,
)
from consort.torch.work import Begun, Done, Several

# A call that was checked: what carries it out, with what, the tensors whose memory it is made on, what
# it gives, and what has to be copied to where it belongs when it is done.
Prepared = tuple[Callable[..., Any], tuple[Any, ...], Any, Any, Sequence[tuple[Tensor, Tensor]]]


class Operations:
    """The collectives and messages of a group: what PyTorch's group and its backend share."""

    _core: Group
    _fingerprints: Fingerprints | None

    # Collectives that combine

    def allreduce(self, tensors: Tensors, opts: Any = None, timeout: Any = None) -> Work:
        """Everyone gets the combination of everyone's tensor."""
        terms = arguments.terms_with_op(opts, timeout)
        tensor = arguments.single(tensors, "allreduce")
        if tensor.layout == torch.sparse_coo:
            sparse.all_reduce(self._core, tensor, arguments.combination(terms.op), terms.seconds)
            return Done([tensor])
        return self._make(self._allreduce(tensor, terms), terms)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """As `allreduce`, for each of several tensors."""
        terms = arguments.terms_with_op(opts)
        tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        if not tensors:
            raise mistake("allreduce_coalesced: requires non-empty tensor list")
        return self._several([self._allreduce(tensor, terms) for tensor in tensors], tensors, terms)

    def reduce(
        self, tensors: Tensors, opts: Any = None, op: Any = None, timeout: Any = None
    ) -> Work:
        """The root gets the combination of everyone's tensor; the others keep theirs."""
        terms = arguments.terms_with_root(opts, timeout)
        terms.op = terms.op if op is None else op
        tensor = arguments.single(tensors, "reduce")
        check(tensor, "reduce")
        root = arguments.check_root(terms.root, self._core.world, "reduce")
        arguments.check_root_tensor(opts, "reduce")
        is_root = root == self._core.rank
        staging = Staging()
        plain = staging.to_change(tensor) if is_root else to_read(tensor)
        here = region(plain)
        there = here if is_root else None
        call = (code(tensor, "reduce"), arguments.combination(terms.op), root, here, there)
        return self._make((self._core.reduce, call, plain, [tensor], staging.copies), terms)

    def reduce_scatter(
        self, outputs: Tensors, inputs: Any, opts: Any = None, timeout: Any = None
    ) -> Work:
        """Everyone gets the combination of everyone's tensor for it."""
        terms = arguments.terms_with_op(opts, timeout)
        output = arguments.single(outputs, "reduce_scatter", "output tensor")
        parts = arguments.single_list(inputs, "reduce_scatter", "input")
        world, rank = self._core.world, self._core.rank
        for tensor in (output, *parts):
            check(tensor, "reduce_scatter")
        arguments.check_list(parts, output, world, "reduce_scatter", "input")
        arguments.check_size(output, parts[rank].numel(), "reduce_scatter", "output")
        staging = Staging()
        plain, plains = staging.to_write(output), [to_read(part) for part in parts]
        regions = [region(part) for part in plains]
        op = arguments.combination(terms.op)
        call = (code(output, "reduce_scatter"), op, regions, region(plain))
        keep = (plains, plain)
        return self._make((self._core.reduce_scatter, call, keep, [output], staging.copies), terms)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Everyone gets the combination of everyone's part of a tensor for it."""
        terms = arguments.terms_with_op(opts)
        return self._make(self._reduce_scatter_single(output, input, terms), terms)

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """As `reduce_scatter_single`, for each of several tensors."""
        terms = arguments.terms_with_op(opts)
        arguments.check_pairs(outputs, inputs, "reduce_scatter_single_coalesced")
        calls = [
            self._reduce_scatter_single(output, input, terms)
            for output, input in zip(outputs, inputs, strict=True)
        ]
        return self._several(calls, list(outputs), terms)

    # Collectives that move

    def broadcast(self, tensors: Tensors, opts: Any = None, timeout: Any = None) -> Work:
        """Everyone gets the root's tensor."""
        terms = arguments.terms_with_root(opts, timeout)
        tensor = arguments.single(tensors, "broadcast")
        check(tensor, "broadcast")
        root = arguments.check_root(terms.root, self._core.world, "broadcast")
        arguments.check_root_tensor(opts, "broadcast")
        staging = Staging()
        is_root = root == self._core.rank
        plain = to_read(tensor) if is_root else staging.to_write(tensor)
        call = (code_to_move(tensor), root, region(plain))
        return self._make((self._core.broadcast, call, plain, [tensor], staging.copies), terms)

    def allgather(
        self, outputs: Any, inputs: Tensors, opts: Any = None, timeout: Any = None
    ) -> Work:
        """Everyone gets everyone's tensor, which may differ in size."""
        terms = arguments.terms(opts, timeout)
        output_list = arguments.single_list(outputs, "allgather", "output tensor")
        input = arguments.single(inputs, "allgather", "input tensor")
        return self._make(self._allgather(output_list, input), terms)

    def allgather_coalesced(
        self, output_lists: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """As `allgather`, for each of several tensors: rank `r`'s `i`-th goes to `[r][i]`."""
        terms = arguments.terms(opts)
        for outputs in output_lists:
            arguments.check_pairs(outputs, inputs, "allgather_coalesced")
        calls = [
            self._allgather([outputs[index] for outputs in output_lists], input)
            for index, input in enumerate(inputs)
        ]
        return self._several(calls, [list(outputs) for outputs in output_lists], terms)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Everyone gets everyone's tensor, one behind the other in one."""
        return self._make(self._all_gather_single(output, input), arguments.terms(opts))

    def all_gather_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """As `all_gather_single`, for each of several tensors."""
        terms = arguments.terms(opts)
        arguments.check_pairs(outputs, inputs, "all_gather_single_coalesced")
        calls = [
            self._all_gather_single(output, input)
            for output, input in zip(outputs, inputs, strict=True)
        ]
        return self._several(calls, list(outputs), terms)

    def gather(self, outputs: Any, inputs: Tensors, opts: Any = None, timeout: Any = None) -> Work:
        """The root gets everyone's tensor, which may differ in size."""
        terms = arguments.terms_with_root(opts, timeout)
        input = arguments.single(inputs, "gather", "input tensor")
        world, rank = self._core.world, self._core.rank
        root = arguments.check_root(terms.root, world, "gather")
        check(input, "gather")
        staging, plain, parts, result = Staging(), to_read(input), None, []
        if rank == root:
            result = arguments.single_list(outputs, "gather", "output")
            arguments.check_list(result, input, world, "gather", "output")
            arguments.check_size(result[rank], input.numel(), "gather", "output")
            parts = [staging.to_write(output) for output in result]
        elif len(outputs) > 0 and not arguments.is_empty_list(outputs):
            raise mistake("gather: requires empty output on non-root")
        regions = None if parts is None else [region(part) for part in parts]
        call = (code_to_move(input), root, region(plain), regions)
        keep = (plain, parts)
        return self._make((self._core.gather, call, keep, result, staging.copies), terms)

    def scatter(self, outputs: Tensors, inputs: Any, opts: Any = None, timeout: Any = None) -> Work:
        """Everyone gets its tensor of the root's list, which may differ in size."""
        terms = arguments.terms_with_root(opts, timeout)
        output = arguments.single(outputs, "scatter", "output tensor")
        world, rank = self._core.world, self._core.rank
        root = arguments.check_root(terms.root, world, "scatter")
        check(output, "scatter")
        staging, parts = Staging(), None
        if rank == root:
            given = arguments.single_list(inputs, "scatter", "input")
            arguments.check_list(given, output, world, "scatter", "input")
            arguments.check_size(output, given[rank].numel(), "scatter", "output")
            parts = [to_read(input) for input in given]
        elif len(inputs) > 0 and not arguments.is_empty_list(inputs):
            raise mistake("scatter: requires empty input on non-root")
        plain = staging.to_write(output)
        regions = None if parts is None else [region(part) for part in parts]
        call = (code_to_move(output), root, regions, region(plain))
        keep = (plain, parts)
        return self._make((self._core.scatter, call, keep, [output], staging.copies), terms)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
    ) -> Work:
        """Everyone gets some rows of everyone's tensor."""
        terms = arguments.terms(opts)
        for tensor in (output, input):
            check(tensor, "all_to_all_single")
        arguments.check_type(output, input, "all_to_all_single")
        staging = Staging()
        read, written = to_read(input), staging.to_write(output)
        uneven = len(output_split_sizes) > 0 or len(input_split_sizes) > 0
        inputs = self._rows(read, input_split_sizes, "input") if uneven else region(read)
        outputs = self._rows(written, output_split_sizes, "output") if uneven else region(written)
        if not uneven:
            self._check_even(read, written)
        call = (code_to_move(input), uneven, inputs, outputs)
        keep = (read, written)
        return self._make((self._core.all_to_all, call, keep, [output], staging.copies), terms)

    def alltoall(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """Everyone gets a tensor from everyone."""
        terms, world = arguments.terms(opts), self._core.world
        for tensor in (*outputs, *inputs):
            check(tensor, "alltoall")
        if len(inputs) == 0:
            raise mistake("alltoall: requires non-empty input tensor list")
        arguments.check_list(inputs, inputs[0], world, "alltoall", "input")
        arguments.check_list(outputs, inputs[0], world, "alltoall", "output")
        staging = Staging()
        read = [to_read(tensor) for tensor in inputs]
        written = [staging.to_write(tensor) for tensor in outputs]
        here, there = [region(tensor) for tensor in read], [region(tensor) for tensor in written]
        call = (code_to_move(inputs[0]), True, here, there)
        keep = (read, written)
        return self._make((self._core.all_to_all, call, keep, list(outputs), staging.copies), terms)

    # Messages

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Work:
        """Sends a tensor to a rank."""
        tensor = arguments.single(tensors, "send")
        check(tensor, "send")
        plain = to_read(tensor)
        to = arguments.check_peer(dst, self._core.world, "send")
        here, manner = region(plain), (storages(plain), False, None)
        op = self._core.send(code_to_move(tensor), here, to, arguments.check_tag(tag), manner)
        return Begun(op, [tensor])

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> Work:
        """Receives a tensor from a rank."""
        return self._receive(tensors, src, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        """Receives a tensor from whoever sends one; the work knows from whom it came."""
        return self._receive(tensors, None, tag)

    # Meeting

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:
        """Nobody leaves before everyone has come."""
        return self._make((self._core.barrier, (), None, [], ()), arguments.terms(opts, timeout))

    def _monitored_barrier(self, timeout: timedelta | None, wait_all_ranks: bool) -> None:
        seconds = None if timeout is None else timeout.total_seconds()
        try:
            self._core.monitored_barrier(seconds if seconds is not None and seconds >= 0 else None)
        except Deadline as error:
            missing = error.ranks if wait_all_ranks else error.ranks[:1]
            named = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {_list(missing)}"
            # PyTorch's words first, which logs are searched for.
            mine = f"Rank {self._core.rank} "
            if self._core.rank == 0:
                mine += "timed out in monitoredBarrier"
            else:
                mine += (
                    "successfully reached monitoredBarrier, but received errors while waiting for "
                    "send/recv from rank 0"
                )
            told = f"{mine}: {named} failed to pass monitoredBarrier: {error}"
            again = type(error)(told)
            again.ranks = error.ranks
            raise again from None

    # What they are made of

    def _allreduce(self, tensor: Tensor, terms: Terms) -> Prepared:
        check(tensor, "allreduce")
        staging = Staging()
        plain = staging.to_change(tensor)
        here = region(plain)
        call = (code(tensor, "allreduce"), arguments.combination(terms.op), here, here)
        return (self._core.all_reduce, call, plain, [tensor], staging.copies)

    def _reduce_scatter_single(self, output: Tensor, input: Tensor, terms: Terms) -> Prepared:
        for tensor in (output, input):
            check(tensor, "reduce_scatter_single")
        arguments.check_type(output, input, "reduce_scatter_single")
        elements = output.numel() * self._core.world
        arguments.check_size(input, elements, "reduce_scatter_single", "input")
        staging = Staging()
        read, written = to_read(input), staging.to_write(output)
        op = arguments.combination(terms.op)
        call = (code(output, "reduce_scatter_single"), op, region(read), region(written))
        keep = (read, written)
        return (self._core.reduce_scatter, call, keep, [output], staging.copies)

    def _allgather(self, outputs: list[Tensor], input: Tensor) -> Prepared:
        for tensor in (input, *outputs):
            check(tensor, "allgather")
        arguments.check_list(outputs, input, self._core.world, "allgather", "output")
        arguments.check_size(outputs[self._core.rank], input.numel(), "allgather", "output")
        staging = Staging()
        read, written = to_read(input), [staging.to_write(output) for output in outputs]
        call = (code_to_move(input), region(read), [region(output) for output in written])
        keep = (written, read)
        return (self._core.all_gather, call, keep, outputs, staging.copies)

    def _all_gather_single(self, output: Tensor, input: Tensor) -> Prepared:
        for tensor in (output, input):
            check(tensor, "all_gather_single")
        arguments.check_type(output, input, "all_gather_single")
        elements = input.numel() * self._core.world
        arguments.check_size(output, elements, "all_gather_single", "output")
        staging = Staging()
        read, written = to_read(input), staging.to_write(output)
        call = (code_to_move(input), region(read), region(written))
        keep = (written, read)
        return (self._core.all_gather, call, keep, [output], staging.copies)

    def _receive(self, tensors: Tensors, src: int | None, tag: int) -> Work:
        tensor = arguments.single(tensors, "recv")
        check(tensor, "recv")
        staging = Staging()
        plain = staging.to_write(tensor)
        if src is not None:
            arguments.check_peer(src, self._core.world, "recv")
        here, manner = region(plain), (storages(plain), False, None)
        op = self._core.recv(code_to_move(tensor), here, src, arguments.check_tag(tag), manner)
        return Begun(op, [tensor], staging.copies)

    def _rows(self, tensor: Tensor, sizes: Sequence[int], what: str) -> list[Region]:
        """Where each rank's rows of a tensor are: as many as are said, or as many for each."""
        world, rows = self._core.world, tensor.shape[0] if tensor.dim() > 0 else 0
        if len(sizes) == 0:
            sizes = [rows // world] * world
        if len(sizes) != world or sum(sizes) != rows or min(sizes) < 0:
            raise mistake(
                f"all_to_all_single: the {what} has {rows} rows, which its split sizes "
                f"{list(sizes)} do not part among {world} ranks"
            )
        bytes_per_row = tensor.nbytes // rows if rows else 0
        address, regions = tensor.data_ptr(), []
        for size in sizes:
            regions.append((address, size * bytes_per_row))
            address += size * bytes_per_row
        return regions

    def _check_even(self, read: Tensor, written: Tensor) -> None:
        world = self._core.world
        for tensor, what in ((read, "input"), (written, "output")):
            rows = tensor.shape[0] if tensor.dim() > 0 else 0
            if rows % world != 0:
                raise mistake(
                    f"all_to_all_single: the {what} has {rows} rows, which do not divide "
                    f"evenly among {world} ranks: give split sizes"
                )

    def _several(self, calls: Sequence[Prepared], result: Any, terms: Terms) -> Work:
        """Makes calls that were all checked before the first of them."""
        return Several([self._make(call, terms) for call in calls], result)

    def _make(self, prepared: Prepared, terms: Terms) -> Work:
        """Makes a call of the compiled part: at once if somebody waits for it, else on its way."""
        if self._fingerprints is not None:
            self._fingerprints.compare(prepared[0].__name__, prepared[2], terms.seconds)
        if _profiler_enabled():
            return profiled(prepared[0].__name__, self._carry_out, prepared, terms)
        return self._carry_out(prepared, terms)

    def _carry_out(self, prepared: Prepared, terms: Terms) -> Work:
        function, call, keep, result, copies = prepared
        # In a group of one there is nobody to wait for.
        if terms.now or self._core.world == 1:
            function(*call, (keep, True, terms.seconds))
            if copies:
                bring_back(copies)
            return Done(result)
        op = function(*call, (storages(keep), False, terms.seconds))
        return Begun(op, result, copies)

    # The names that PyTorch had before 2.13

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def _list(ranks: Sequence[int]) -> str:
    return ", ".join(str(rank) for rank in ranks)
