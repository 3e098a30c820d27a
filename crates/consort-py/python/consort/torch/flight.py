"""What a rank has done last, and what has become of its group."""

from __future__ import annotations

from typing import Any

from consort.errors import Error
from consort.torch.group import core_of


def flight_record(group: Any = None) -> dict[str, Any]:
    """The last calls of this rank, in all groups of the job that ``group`` is part of.

    Every rank keeps them, always. Under ``consort run``, and with ``Options(trace_dir=...)`` or
    ``CONSORT_TRACE_DIR``, they are in a file as well, which stays when the rank is killed:
    ``consort trace`` lays the files of all ranks side by side and says who is stuck, and why.

        record = consort.torch.flight_record()
        for group in record["groups"]:
            for call in group["calls"]:
                print(call["number"], call["call"], call["ended"] is not None)

    Times are nanoseconds since 1970, by the clock of the host.
    """
    return core_of(group, "flight_record").trace()


def failure(group: Any = None) -> Error | None:
    """What has ended the group, or ``None`` if it goes on.

    PyTorch's own DDP and the futures of its works raise a plain ``RuntimeError`` with the text of what
    happened; this is the exception itself.

        try:
            loss.backward()
        except RuntimeError:
            if not isinstance(consort.torch.failure(), consort.PeerGone):
                raise
            consort.torch.shrink()
    """
    return core_of(group, "failure").error()
