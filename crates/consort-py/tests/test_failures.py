"""Failures end calls on all ranks, promptly, with an error that says who and why."""

from __future__ import annotations

import re

import pytest
from programs import failures
from programs.failures import Caught
from ranks import Program, programs_in
from ranks.crews import Crews
from ranks.outcome import Outcome

PROMPTLY = 20.0  # seconds; a bound on a busy machine, not a measure


def named(function: object) -> list[Program]:
    """The programs of one function."""
    return [each for each in programs_in(failures) if each.function == function.__name__]


def assert_told(caught: Caught | None, *words: str) -> None:
    """A rank got the backend's error, soon enough, and it has these words (patterns)."""
    assert caught is not None, "nothing was raised"
    assert caught.is_backend_error, caught
    assert caught.seconds < PROMPTLY, caught
    for word in words:
        assert re.search(word, caught.text), f"{word!r} is not in: {caught.text}"


def values_of(outcomes: list[Outcome], *ranks: int) -> list[object]:
    """What these ranks returned; the test fails if they did not."""
    for rank in ranks:
        assert outcomes[rank].kind == "value", f"rank {rank}: {outcomes[rank]}"
    return [outcomes[rank].value for rank in ranks]


@pytest.mark.parametrize("program", named(failures.a_rank_is_killed_during), ids=str)
def test_a_killed_rank_is_named_to_all_others(program: Program, crews: Crews) -> None:
    outcomes = crews.outcomes(program)
    assert outcomes[1].kind == "died" and "SIGKILL" in outcomes[1].text, outcomes[1]
    for caught in values_of(outcomes, 0, 2):
        assert_told(caught, r"\brank 1\b", "gone")


@pytest.mark.parametrize(
    "program", named(failures.a_rank_is_killed_while_torch_waits_in_a), ids=str
)
def test_a_killed_rank_is_named_through_torch_itself(program: Program, crews: Crews) -> None:
    # What passes through PyTorch's compiled part keeps only its text, so it is a RuntimeError;
    # the group knows the rest.
    outcomes = crews.outcomes(program)
    assert outcomes[1].kind == "died" and "SIGKILL" in outcomes[1].text, outcomes[1]
    for caught, ended_by in values_of(outcomes, 0, 2):
        assert ended_by == (True, (1,))
        assert caught is not None, "nothing was raised"
        assert "RuntimeError" in caught.kinds and caught.seconds < PROMPTLY, caught
        assert re.search(r"\brank 1\b.*gone", caught.text), caught


@pytest.mark.parametrize(
    "program",
    named(failures.after_a_death_every_call_tells_of_it_and_survivors_meet_again),
    ids=str,
)
def test_survivors_go_on_in_a_new_group(program: Program, crews: Crews) -> None:
    outcomes = crews.outcomes(program)
    for first, second, tensor in values_of(outcomes, 0, 2):
        assert_told(first, r"\brank 1\b")
        assert_told(second, r"\brank 1\b")
        assert tensor.item() == 101


@pytest.mark.parametrize("program", named(failures.a_rank_that_exits_is_named), ids=str)
def test_a_rank_that_exits_is_named_to_all_others(program: Program, crews: Crews) -> None:
    outcomes = crews.outcomes(program)
    assert outcomes[2].kind == "died" and "7" in outcomes[2].text, outcomes[2]
    for caught in values_of(outcomes, 0, 1):
        assert_told(caught, r"\brank 2\b")


# What the error says of the two calls.
BOTH = {
    "reduce_operations": (r"all_reduce\(sum\) of 7", r"all_reduce\(max\) of 7"),
    "counts": (r"all_reduce\(sum\) of 7", r"all_reduce\(sum\) of 8"),
    "dtypes": ("of 8 f32", "of 4 f64"),
    "calls": (r"all_reduce\(sum\) of 7", "broadcast of 7"),
    "roots": ("root 0", "root 2"),
    "asynchronous_counts": (r"all_reduce\(sum\) of 7", r"all_reduce\(sum\) of 8"),
    "gathered_counts": ("all_gather of 7", "all_gather of 8"),
}


@pytest.mark.parametrize("program", named(failures.ranks_call_with_different), ids=str)
def test_different_calls_are_shown_to_all(program: Program, crews: Crews) -> None:
    assert program.case is not None
    for caught in crews.values(program):
        assert_told(caught, r"\brank 2\b", r"\brank [01]\b", *BOTH[program.case])


@pytest.mark.parametrize(
    "program",
    named(failures.the_group_has_a_time_limit) + named(failures.a_call_has_a_time_limit),
    ids=str,
)
def test_a_time_limit_names_who_is_missing(program: Program, crews: Crews) -> None:
    for caught in crews.values(program)[:2]:
        assert_told(caught, r"ranks? \[?2\b", "waited", "all_reduce")
        assert "TimeoutError" in caught.kinds


@pytest.mark.parametrize("program", named(failures.waiting_has_a_time_limit_and_can_go_on), ids=str)
def test_waiting_may_end_before_the_call_does(program: Program, crews: Crews) -> None:
    values = crews.values(program)
    for caught, _ in values[:2]:
        assert caught is not None and "RuntimeError" in caught.kinds, caught
        assert caught.seconds < PROMPTLY
    assert all(tensor.tolist() == [6, 6, 6] for _, tensor in values)


@pytest.mark.parametrize(
    "program", named(failures.a_monitored_barrier_names_who_is_missing), ids=str
)
def test_a_monitored_barrier_names_who_is_missing(program: Program, crews: Crews) -> None:
    first, missing, third = crews.values(program)
    assert missing is None
    for caught in (first, third):
        assert_told(caught, r"ranks? \[?1\b")


@pytest.mark.parametrize(
    "program", named(failures.an_abort_fails_what_is_pending_on_all_ranks), ids=str
)
def test_an_abort_reaches_all_ranks(program: Program, crews: Crews) -> None:
    for caught in crews.values(program):
        assert_told(caught, r"\brank 0\b", "abort")
