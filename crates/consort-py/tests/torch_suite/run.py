"""Runs the tests PyTorch ships for a distributed backend against two backends, and compares.

    python run.py --backend consort --against gloo --world 2

prints a line for every test that ends differently, and how many passed, failed and were skipped.
The exit code is 0 if no test that passes with the second backend fails with the first, but for
those that consort is expected to fail (`expected.py` says why).
"""

import argparse
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from expected import EXPECTED

if TYPE_CHECKING:
    from trial import Outcome

Results = dict[str, dict[str, "Outcome"]]
"""By test, then by backend."""


def main() -> int:
    asked = parse()
    os.environ |= _SURROUNDINGS
    # Some tests crash a rank on purpose.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    begun = time.monotonic()
    backends = [asked.backend] + ([asked.against] if asked.against else [])
    results = run_all(asked, backends)
    for line in report(results, backends):
        print(line)
    print(f"{len(results)} tests, world {asked.world}, {time.monotonic() - begun:.0f} s")
    if asked.json:
        asked.json.write_text(json.dumps(as_json(results), indent=1) + "\n")
    missed = {name for name, by_backend in results.items() if lost(by_backend, backends)}
    return 1 if missed - expected_of(asked.backend).keys() else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", required=True, help="the backend in question")
    parser.add_argument("--against", help="a backend to compare with, on the same tests")
    parser.add_argument("--world", type=int, default=2, help="ranks in a test's group (2)")
    parser.add_argument("-k", metavar="PATTERN", default="", help="only tests whose name has this")
    parser.add_argument("--limit", type=float, default=60, help="seconds a test may take (60)")
    parser.add_argument("--jobs", type=int, default=3, help="tests under way at a time (3)")
    parser.add_argument("--json", type=Path, help="write all outcomes, with errors, to this file")
    parser.add_argument("-v", action="store_true", help="say each outcome as it comes")
    return parser.parse_args()


def run_all(asked: argparse.Namespace, backends: list[str]) -> Results:
    """Runs every test with every backend: a few at a time, since most of a test is waiting."""
    import suite
    import trial

    trial.adopt()
    tests = [test for test in suite.load(asked.world) if asked.k in test.name]
    require_no_threads()
    results: Results = {test.name: {} for test in tests}
    # The longest first, beside which the others run.
    tests.sort(key=lambda test: test.patience)
    waiting = [(test, backend) for test in tests for backend in backends]
    under_way: list[trial.Trial] = []
    try:
        while waiting or under_way:
            while waiting and len(under_way) < asked.jobs:
                test, backend = waiting.pop()
                if test.skipped is None:
                    limit = max(asked.limit, test.patience)
                    under_way.append(trial.Trial(test, backend, asked.world, limit))
                else:
                    results[test.name][backend] = trial.Outcome("skipped", test.skipped)
            time.sleep(_A_LITTLE)
            for each in list(under_way):
                outcome = each.outcome()
                if outcome is not None:
                    under_way.remove(each)
                    results[each.test.name][each.backend] = outcome
                    if asked.v:
                        print(line_of(each.test.name, each.backend, outcome), flush=True)
    finally:
        for each in under_way:
            each.end()
    return results


def require_no_threads() -> None:
    """A fork takes only one thread along: locks the others held would stay locked for ever."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(
            f"importing the tests or a backend has started {threads - 1} threads; "
            "ranks cannot be forked from here: see that imports start none"
        )


def report(results: Results, backends: list[str]) -> Iterator[str]:
    """A line a backend for tests that differ (or fail, with a single backend), then the counts."""
    for name, by_backend in results.items():
        statuses = {outcome.status for outcome in by_backend.values()}
        if len(statuses) > 1 or statuses == {"failed"}:
            for backend in backends:
                yield line_of(name, backend, by_backend[backend])
    for backend in backends:
        counts = Counter(by_backend[backend].status for by_backend in results.values())
        yield f"{backend}: " + ", ".join(f"{counts[each]} {each}" for each in _STATUSES)


def line_of(name: str, backend: str, outcome: "Outcome") -> str:
    words = f"{name} {backend} {outcome.status} {outcome.seconds:.1f} s"
    if outcome.status == "failed" and name in expected_of(backend):
        return f"{words}, as expected: {expected_of(backend)[name]}"
    return f"{words}: {outcome.last_line()[:_COLUMNS]}" if outcome.detail else words


def expected_of(backend: str) -> dict[str, str]:
    return EXPECTED if backend == "consort" else {}


def lost(by_backend: dict[str, "Outcome"], backends: list[str]) -> bool:
    """Whether the first backend fails what the second passes, or fails at all if it is alone."""
    first, *others = (by_backend[backend].status for backend in backends)
    return first == "failed" and all(other == "passed" for other in others)


def as_json(results: Results) -> dict[str, dict[str, dict[str, object]]]:
    return {
        name: {backend: asdict(outcome) for backend, outcome in by_backend.items()}
        for name, by_backend in results.items()
    }


_SURROUNDINGS = {
    # One thread a rank, since many ranks share few cores.
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # Loopback, since no test may leave the machine.
    "GLOO_SOCKET_IFNAME": "lo",
    "TP_SOCKET_IFNAME": "lo",
}
_A_LITTLE = 0.02
_COLUMNS = 200
_STATUSES = ("passed", "failed", "skipped")

if __name__ == "__main__":
    sys.exit(main())
