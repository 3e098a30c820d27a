"""Asynchronous calls may be waited for in any order, forgotten, and followed by callbacks."""

from __future__ import annotations

import pytest
from programs import asynchronous
from ranks import Program, programs_in
from ranks.compare import assert_same
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(asynchronous), ids=str)
def test_calls_go_on_by_themselves(program: Program, crews: Crews) -> None:
    first, *others = crews.values(program)
    for rank, other in enumerate(others, start=1):
        assert_same(other, first, f"rank {rank} against rank 0")
