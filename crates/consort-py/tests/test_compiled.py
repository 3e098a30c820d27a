"""Collectives under torch.compile give what they give eagerly."""

from __future__ import annotations

import shutil

import pytest
from programs import compiled
from ranks import Program, programs_in
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(compiled), ids=str)
def test_compiled_code_communicates(program: Program, crews: Crews) -> None:
    if "inductor" in program.name and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler, and there is no g++ here")
    crews.values(program)
