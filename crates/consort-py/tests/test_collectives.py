"""Every collective is right for every dtype, reduce operation and size."""

from __future__ import annotations

import pytest
from programs import collectives
from ranks import Program, programs_in
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(collectives), ids=str)
def test_collectives_give_what_the_oracle_says(program: Program, crews: Crews) -> None:
    crews.values(program)
