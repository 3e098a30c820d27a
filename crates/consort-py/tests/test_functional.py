"""Functional collectives give with consort what they give with Gloo."""

from __future__ import annotations

import pytest
from programs import functional
from ranks import Program, programs_in
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(functional), ids=str)
def test_functional_collectives_are_as_with_gloo(program: Program, crews: Crews) -> None:
    crews.assert_same_as_gloo(program)
