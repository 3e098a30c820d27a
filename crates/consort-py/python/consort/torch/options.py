"""How a group is set up."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Options:
    """What ``pg_options`` may say. All ranks have to say the same, except for the port.

    What is ``None`` is as the environment says (``CONSORT_TRANSPORT`` and so on), or as it is best.

        dist.init_process_group("consort", pg_options=consort.torch.Options(transport="tcp"))

    They are for the first group, of all ranks; groups that ``new_group`` makes are part of it.
    """

    #: What data travels over: ``auto``, ``shm`` or ``tcp``.
    transport: str | None = None
    #: The network interface to use, by its name or address.
    interface: str | None = None
    #: Whether data is encrypted between hosts.
    encrypt: bool | None = None
    #: Whether data has a checksum between hosts.
    integrity: bool | None = None
    #: Every how many calls ranks compare their results.
    verify_results: int | None = None
    #: The algorithm to use between hosts, by its name in ``consort plan``.
    algorithm: str | None = None
    #: How many TCP connections two ranks have, up to 8.
    streams: int | None = None
    #: The port that this host listens on for data.
    port: int | None = None
    #: How many seconds a host may be silent.
    liveness: float | None = None
    #: After how many seconds of waiting a warning names the ranks waited for; ``math.inf``: never.
    warn_after: float | None = None
    #: The folder in which this rank leaves a record of its last calls, for ``consort trace``.
    trace_dir: str | None = None
    #: How much this rank tells of what it does: ``off``, ``info`` or ``detail``.
    debug: str | None = None
    #: What PyTorch is given: ``group``, or ``backend``, which it can put beside the backends of
    #: other devices and check by itself, but which costs three times as much for each call and has
    #: no receive from any rank (PyTorch 2.14 and later).
    mode: Literal["group", "backend"] = "group"
    # A group that there is already, which PyTorch is to be given.
    _given: Any = None

    def __post_init__(self) -> None:
        if self.mode not in ("group", "backend"):
            raise ValueError(f'there is no mode {self.mode!r}: choose "group" or "backend"')

    def replace(self, **changes: object) -> Options:
        """The same with some of it changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
