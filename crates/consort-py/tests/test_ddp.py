"""DistributedDataParallel trains with consort as it does with Gloo."""

from __future__ import annotations

import pytest
from programs import ddp
from ranks import Program, programs_in
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(ddp), ids=str)
def test_training_goes_as_with_gloo(program: Program, crews: Crews) -> None:
    crews.assert_same_as_gloo(program)
