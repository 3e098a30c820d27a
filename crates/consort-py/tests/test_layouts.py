"""Tensors may lie in memory in any way."""

from __future__ import annotations

import pytest
from programs import layouts
from ranks import Program, programs_in
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(layouts), ids=str)
def test_tensors_may_lie_in_memory_in_any_way(program: Program, crews: Crews) -> None:
    crews.values(program)
