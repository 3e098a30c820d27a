"""What came of a program on one rank, as a file that the rank leaves for the test."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What came of a program on one rank.

    `kind` is "value", "raised" (`text` is the traceback), "died" or "missing" (`text` says how).
    `log` is what the rank wrote to its standard output and error meanwhile.
    """

    kind: str
    value: Any = None
    text: str = ""
    log: str = ""

    def write(self, path: Path) -> None:
        """Leaves the outcome in a file, which is there only when it is whole."""
        draft = path.with_suffix(".draft")
        draft.write_bytes(pickle.dumps(self))
        draft.rename(path)

    @staticmethod
    def read(path: Path) -> Outcome:
        """Reads what `write` has left."""
        return pickle.loads(path.read_bytes())


def outcome_path(folder: Path, rank: int, index: int) -> Path:
    """Where a rank leaves the outcome of the program with this index."""
    return folder / f"outcome-{index}-{rank}"


def log_path(folder: Path, rank: int) -> Path:
    """Where a rank's standard output and error go."""
    return folder / f"log-{rank}"
