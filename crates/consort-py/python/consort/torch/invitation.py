"""What rank 0 leaves in PyTorch's store for the others."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from consort.errors import Error, _make


@dataclass(frozen=True)
class Invitation:
    """Where to meet, and what opens the door; neither if the launcher has said so."""

    job: str
    timeout: float
    address: str | None = None
    secret: str | None = None

    def write(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @staticmethod
    def refusal(reason: str) -> str:
        """What is left in its place if rank 0 cannot invite anybody."""
        return json.dumps({"error": reason[: _LONGEST // 2]})

    @staticmethod
    def read(text: bytes) -> Invitation:
        """What rank 0 has written. Anybody may have: nothing is believed that it would not write."""
        found = _parsed(text)
        if set(found) == {"error"} and isinstance(found["error"], str):
            raise _make("Aborted", f"rank 0 could not open the meeting: {found['error']}", [0])
        if set(found) != {"job", "timeout", "address", "secret"}:
            raise _strange()
        job, timeout = found["job"], found["timeout"]
        address, secret = found["address"], found["secret"]
        is_door = isinstance(address, str) and isinstance(secret, str)
        if not (isinstance(job, str) and 0 < len(job) <= _LONGEST_JOB and job.isprintable()):
            raise _strange()
        if not (isinstance(timeout, float) and 0 <= timeout < _LONGEST_TIME):
            raise _strange()
        if not (address is None and secret is None) and not (
            is_door and address.startswith("tcp://")
        ):
            raise _strange()
        return Invitation(job, timeout, address, secret)


def _parsed(text: bytes) -> dict[str, Any]:
    if len(text) > _LONGEST:
        raise _strange()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _strange() from None
    if not isinstance(found, dict):
        raise _strange()
    return found


def _strange() -> Error:
    text = (
        "what is in PyTorch's store in place of rank 0's invitation is not consort's: does something "
        "else write to it?"
    )
    return _make("Mismatch", text, [0])


_LONGEST = 4096
_LONGEST_JOB = 128
# A hundred years.
_LONGEST_TIME = 3.2e9
