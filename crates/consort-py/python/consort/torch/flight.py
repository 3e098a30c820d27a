"""What a rank has done last."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from consort.torch.group import ConsortGroup


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
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, ConsortGroup):
        raise TypeError("flight_record: the group is not of backend consort")
    return found.core.trace()
