"""consort's own DistributedDataParallel trains as PyTorch's does, and does what it promises."""

from __future__ import annotations

from typing import Any

import consort
import pytest
import torch
from programs import data_parallel, data_parallel_alone
from ranks import Program, programs_in
from ranks.compare import assert_same
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(data_parallel), ids=str)
def test_it_trains_as_pytorchs_own_does_on_gloo(program: Program, crews: Crews) -> None:
    crews.assert_same_as_gloo(program)


@pytest.mark.parametrize("program", programs_in(data_parallel_alone), ids=str)
def test_it_keeps_its_promises(program: Program, crews: Crews) -> None:
    if program.function == "the_survivors_of_a_rank_go_on_with_the_same_model":
        outcomes = crews.outcomes(program)
        assert [outcome.kind for outcome in outcomes] == ["value", "died", "value"], outcomes
        values = [outcomes[0].value, outcomes[2].value]
    else:
        values = crews.values(program)
    check = CHECKS.get(program.function)
    if check is None:
        for rank, value in enumerate(values):
            assert_same(value, values[0], f"rank {rank}")
    else:
        check(values)


def survivors(values: list[Any]) -> None:
    """The two that are left have the same model and the same gradients."""
    assert values[0][0] == 2
    assert_same(values[1], values[0], "rank 2")


def layouts(values: list[Any]) -> None:
    """Gradients lie as their parameters do, and these are not in the plain order."""
    for gradient, parameter in values:
        assert gradient == parameter == (27, 1, 9, 3)


def models_differ(values: list[Any]) -> None:
    """Both ranks are told the same, by name, and the group goes on."""
    for (kind, words), _ in values:
        assert kind is consort.Mismatch
        assert words == values[0][0][1]
        assert "1.weight" in words and "rank 0 has" in words and "rank 1 has" in words
    assert torch.equal(values[0][1], values[1][1])


def not_sparse(values: list[Any]) -> None:
    """Whoever comes first says so, or is told that the other did."""
    assert any("sparse=False" in words for _, words in values)


def unused(values: list[Any]) -> None:
    """The parameters are named, and so is what can be done."""
    for kind, words in values:
        assert kind in (consort.Mistake, consort.Aborted)
        assert "right.weight" in words and "right.bias" in words and "left" not in words
    assert any("find_unused_parameters=True" in words for _, words in values)


def exceptions(values: list[Any]) -> None:
    """Whoever has failed gets its own exception, the other one an error that names the rank."""
    for seen in values:
        for step in range(9):
            assert seen[2 * step] == (ArithmeticError, "this layer cannot be differentiated")
            assert_same(seen[2 * step + 1], values[0][2 * step + 1], f"step {step}")
    kind, words = values[0][18]
    assert kind is consort.Aborted
    assert "rank 1" in words and "backward ended with an exception" in words
    assert values[1][18] == (ArithmeticError, "this layer cannot be differentiated")
    for seen in values:
        kind, words = seen[19]
        assert kind is consort.Aborted and "set_group" in words


def smaller(values: list[Any]) -> None:
    """All ranks have the same bits, unless nothing travels."""
    alone = [value.pop("none") for value in values]
    assert_same(values[1], values[0], "rank 1")
    assert not torch.equal(alone[0][0], alone[1][0])
    assert not torch.equal(alone[0][0], values[0]["bf16"][0])


def refused(values: list[Any]) -> None:
    """Each is told what is wrong."""
    for told in values:
        words = [
            "mixed_precision",
            "device_ids",
            "bucket_size",
            "gradient_as_bucket_view",
            "require a gradient",
            "one of backend gloo",
            "gzip",
            "level",
        ]
        for word, (_, text) in zip(words, told, strict=False):
            assert word in text, text
        assert told[8] is None
        kinds = [kind for kind, _ in told[:8]]
        assert kinds[:4] == [TypeError, TypeError, TypeError, ValueError]
        assert kinds[5:8] == [TypeError, consort.Mistake, TypeError]
        assert "it has no options" in told[7][1]
        assert told[9][0] is told[10][0] is TypeError
        assert "its options are error_feedback" in told[9][1]
        assert "no option 'ranks': its options are rank, after, min_comp" in told[10][1]


def unsent(values: list[Any]) -> None:
    """Each state that cannot be sent is named, and those that can be follow rank 0."""
    assert_same(values[1], values[0], "rank 1")
    words = ["buffer '1.rows'", "parameter '1.weight'", "buffer '1.later'"]
    for word, (kind, text) in zip(words, values[0][0], strict=True):
        assert kind is consort.Mistake and word in text, text
    assert torch.equal(values[0][2], torch.zeros(3, 3))


def shared(values: list[Any]) -> None:
    """Both times every rank is told, and nobody waits for the other."""
    for told in values:
        for kind, words in told:
            assert kind is RuntimeError and "another DistributedDataParallel's" in words


def unhooked(values: list[Any]) -> None:
    """Whoever dropped the model too early is told so."""
    assert_same(values[1], values[0], "rank 1")
    kind, words = values[0][0]
    assert kind is RuntimeError and "keep the DistributedDataParallel" in words


def views(values: list[Any]) -> None:
    """All ranks have the same gradients in every step, in memory that they share."""
    assert_same(values[1], values[0], "rank 1")
    assert values[0][1] is True


def losses_differ(values: list[Any]) -> None:
    """Every rank has its own losses and the parameters of all."""
    assert values[0][0] != values[1][0]
    assert_same(values[1][1], values[0][1], "rank 1")


CHECKS = {
    "the_survivors_of_a_rank_go_on_with_the_same_model": survivors,
    "channels_that_come_last_stay_last": layouts,
    "models_that_differ_are_refused_by_the_name_of_the_parameter": models_differ,
    "a_table_that_is_also_a_matrix_is_refused_if_it_is_sparse": not_sparse,
    "parameters_without_a_gradient_are_named": unused,
    "an_exception_in_backward_is_told_to_all": exceptions,
    "numbers_may_travel_smaller": smaller,
    "what_makes_no_sense_is_refused": refused,
    "states_that_cannot_be_sent_are_refused_by_name": unsent,
    "hooks_end_with_the_model": unhooked,
    "two_may_wrap_the_same_parameters_but_not_average_them_at_once": shared,
    "gradients_lie_in_buckets_and_have_the_same_bits_everywhere": views,
    "the_backend_may_be_a_plain_one": losses_differ,
    "ranks_that_do_not_share_memory_average": losses_differ,
}
