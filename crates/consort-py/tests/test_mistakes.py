"""Wrong arguments are refused with an error that says what is wrong, and the group goes on."""

from __future__ import annotations

import pytest
from programs import mistakes
from ranks import Program, programs_in
from ranks.crews import Crews


@pytest.mark.parametrize("program", programs_in(mistakes), ids=str)
def test_wrong_arguments_are_refused(program: Program, crews: Crews) -> None:
    assert program.case is not None
    words = mistakes.MISTAKES[program.case].words
    for caught, tensor in crews.values(program):
        assert caught is not None, "nothing was raised"
        assert {"RuntimeError", "ValueError", "TypeError"} & set(caught.kinds), caught
        assert words in caught.text, caught
        assert tensor.item() == 3
