"""What passes with Gloo passes with consort: the tests PyTorch ships for a backend, on both."""

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
    """Every test of the suite with both backends: the work of minutes, done once."""
    place = tmp_path_factory.mktemp("torch_suite")
    answer = place / "outcomes.json"
    runner = Path(__file__).with_name("run.py")
    words = ["--backend", "consort", "--against", "gloo", "--world", str(WORLD)]
    # Files of tests that are cut short go where pytest removes them.
    surroundings = os.environ | {"TMPDIR": str(place)}
    subprocess.run(
        [sys.executable, str(runner), *words, "--json", str(answer)],
        env=surroundings,
        timeout=LIMIT_SECONDS,
    )
    return json.loads(answer.read_text())


def test_the_suite_is_there_and_most_of_it_passes_with_gloo(outcomes: Outcomes) -> None:
    passed = [name for name, both in outcomes.items() if both["gloo"]["status"] == "passed"]
    assert len(passed) > 200, f"only {len(passed)} of {len(outcomes)} tests pass with Gloo"


def test_what_passes_with_gloo_passes_with_consort(outcomes: Outcomes) -> None:
    lost = {
        name: both["consort"]["detail"]
        for name, both in outcomes.items()
        if both["gloo"]["status"] == "passed" and both["consort"]["status"] != "passed"
    }
    unexpected = {name: detail for name, detail in lost.items() if name not in EXPECTED}
    assert not unexpected, "\n\n".join(f"{name}\n{text}" for name, text in unexpected.items())


def test_what_is_expected_to_fail_fails(outcomes: Outcomes) -> None:
    stale = [name for name in EXPECTED if outcomes[name]["consort"]["status"] != "failed"]
    assert not stale, f"these pass: take them out of expected.py: {stale}"


WORLD = int(os.environ.get("TORCH_SUITE_WORLD", "2"))
"""With 4 every test runs that can run at all, but that takes four times as long."""
LIMIT_SECONDS = 1800
