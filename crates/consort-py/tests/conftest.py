"""Options and fixtures of the Python tests. `ranks` tells how programs are run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from ranks.crews import QUIET, Crews

os.environ.update(QUIET)  # what tests start themselves shall be as quiet as the nursery's ranks


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--backend gloo` runs programs with Gloo on both sides, to see that they are right."""
    parser.addoption("--backend", default="consort", help="the backend under test")


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> str:
    """The backend under test."""
    return request.config.getoption("--backend")


@pytest.fixture(scope="session")
def crews(request: pytest.FixtureRequest, backend: str) -> Iterator[Crews]:
    """Runs the programs of all tests that were selected."""
    callspecs = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = [each.params["program"] for each in callspecs if each and "program" in each.params]
    made = Crews(wanted, backend)
    yield made
    made.close()
