"""The tests PyTorch ships for a backend pass with consort: all that Gloo passes, and those it does not.

`run.py --against gloo` shows both side by side.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from expected import EXPECTED

Outcomes = dict[str, dict[str, dict[str, str]]]
"""By test, then by backend: `status` and `detail`."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Every test of the suite: the work of minutes, done once."""
    place = tmp_path_factory.mktemp("torch_suite")
    answer = place / "outcomes.json"
    runner = Path(__file__).with_name("run.py")
    words = ["--backend", "consort", "--world", str(WORLD)]
    # Files of tests that are cut short go where pytest removes them.
    surroundings = os.environ | {"TMPDIR": str(place)}
    subprocess.run(
        [sys.executable, str(runner), *words, "--json", str(answer)],
        env=surroundings,
        timeout=LIMIT_SECONDS,
    )
    return json.loads(answer.read_text())


def test_the_suite_is_there_and_most_of_it_runs(outcomes: Outcomes) -> None:
    ran = [name for name, both in outcomes.items() if both["consort"]["status"] != "skipped"]
    assert len(ran) > 200, f"only {len(ran)} of {len(outcomes)} tests have run"


def test_nothing_fails_but_what_is_expected_to(outcomes: Outcomes) -> None:
    failed = {
        name: both["consort"]["detail"]
        for name, both in outcomes.items()
        if both["consort"]["status"] == "failed" and name not in EXPECTED
    }
    assert not failed, "\n\n".join(f"{name}\n{text}" for name, text in failed.items())


def test_what_is_expected_to_fail_fails(outcomes: Outcomes) -> None:
    stale = [name for name in EXPECTED if outcomes[name]["consort"]["status"] != "failed"]
    assert not stale, f"these pass: take them out of expected.py: {stale}"


WORLD = int(os.environ.get("TORCH_SUITE_WORLD", "2"))
"""With 4 every test runs that can run at all, but that takes four times as long."""
LIMIT_SECONDS = 1800
