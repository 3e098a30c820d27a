"""Objects, messages, groups and meeting places are with consort as they are with Gloo."""

from __future__ import annotations

import pytest
from programs import basics
from ranks import Program, programs_in
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(basics), ids=str)
def test_torch_distributed_works_as_with_gloo(program: Program, crews: Crews) -> None:
    crews.assert_same_as_gloo(program)
