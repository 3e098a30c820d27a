"""How a group is set up."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Options:
    """What ``pg_options`` may say. All ranks have to say the same, except for the port.

        dist.init_process_group("consort", pg_options=consort.torch.Options(transport="tcp"))

    They are for the first group, of all ranks; groups that ``new_group`` makes are part of it. What is
    ``None`` is as the environment says (``CONSORT_TRANSPORT`` and so on), or as it is best.

    transport
        What data travels over: ``"auto"``, ``"shm"`` or ``"tcp"``.
    interface
        The network interface to use, by its name or address.
    encrypt
        Whether data is encrypted between hosts.
    integrity
        Whether data has a checksum between hosts.
    verify_results
        Every how many calls ranks compare their results; 0: never.
    algorithm
        The algorithm to use between hosts, by its name in ``consort plan``.
    streams
        How many TCP connections two ranks have, up to 8; 0: found by measuring.
    port
        The port that this host listens on for data; 0: the system chooses.
    liveness
        How many seconds a host may be silent before it counts as gone.
    warn_after
        After how many seconds of waiting a warning names the ranks waited for; ``math.inf``: never.
    trace_dir
        The folder in which this rank leaves a record of its last calls, for ``consort trace``.
    debug
        How much this rank tells of what it does: ``"off"``, ``"info"`` or ``"detail"``. If nothing is
        said, as ``TORCH_DISTRIBUTED_DEBUG`` says.
    mode
        What PyTorch is given: a ``"group"``, or a ``"backend"``, which it can put beside those of other
        devices and check by itself, but which costs twice as much for each call and has no
        receive from any rank (PyTorch 2.14 and later).
    """

    transport: str | None = None
    interface: str | None = None
    encrypt: bool | None = None
    integrity: bool | None = None
    verify_results: int | None = None
    algorithm: str | None = None
    streams: int | None = None
    port: int | None = None
    liveness: float | None = None
    warn_after: float | None = None
    trace_dir: str | None = None
    debug: str | None = None
    mode: Literal["group", "backend"] = "group"
    # A group that there is already, which PyTorch is to be given.
    _given: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.mode not in ("group", "backend"):
            raise ValueError(f'there is no mode {self.mode!r}: choose "group" or "backend"')

    def replace(self, **changes: object) -> Options:
        """The same with some of it changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
