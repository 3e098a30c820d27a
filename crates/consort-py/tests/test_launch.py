"""Jobs are started as users start them: by torchrun, again after a failure, by multiprocessing."""

from __future__ import annotations

from pathlib import Path

import jobs
import pytest


def left_in(folder: Path, kind: str) -> list[str]:
    """The files of a kind that ranks have left."""
    return sorted(path.name for path in folder.glob(f"{kind}-*"))


def test_torchrun_starts_a_job_that_imports_nothing(backend: str, tmp_path: Path) -> None:
    jobs.torchrun([], "train.py", backend, str(tmp_path), "1")
    assert left_in(tmp_path, "done") == ["done-0", "done-1"]


def test_groups_follow_each_other_in_a_job_and_are_checked_in_detail(
    backend: str, tmp_path: Path
) -> None:
    if backend == "gloo":
        pytest.skip("Gloo finds the old group in the launcher's store, and crashes in detail mode")
    jobs.torchrun([], "train.py", backend, str(tmp_path), "2", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert left_in(tmp_path, "done") == ["done-0", "done-1"]


def test_torchrun_starts_a_failed_job_again(backend: str, tmp_path: Path) -> None:
    jobs.torchrun(["--max-restarts", "1"], "fail_once.py", backend, str(tmp_path))
    assert left_in(tmp_path, "done") == ["done-1-0", "done-1-1"]
    assert "sum-0-0-1" in left_in(tmp_path, "sum"), "rank 1 was to fail after its first sum"


@pytest.mark.parametrize("method, turns", [("fork", 2), ("spawn", 1)])
def test_multiprocessing_starts_ranks(
    method: str, turns: int, backend: str, tmp_path: Path
) -> None:
    jobs.python("start_processes.py", method, backend, str(tmp_path), str(turns))
    everyone = [f"done-{turn}-{rank}" for turn in range(turns) for rank in range(2)]
    assert left_in(tmp_path, "done") == everyone
