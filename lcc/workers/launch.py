"""What the manager says to its launcher and to a job's shepherd, and what it hears from them.

To the launcher: a :class:`Launch` for each job, one datagram of JSON, with three descriptors: the worker's output,
its descriptor 3, and the socket of the shepherd.  On that one, lines: from the manager ``term``, ``kill`` and
``lease SECONDS``; from the shepherd one JSON object a line, :class:`Report`.

Only the standard library is imported here: the launcher is small.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NamedTuple

REQUEST_BYTES_MAX = 150_000
"""Of a :class:`Launch` on its way: what a datagram of the default buffers takes."""

TERM, KILL, LEASE = "term", "kill", "lease"


LEASE_WAS_OVER = "Not started: the lease of the job was over"


def python_process(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a process of our own: this Python, what it can import, and nothing else of ours."""
    command = [sys.executable, "-s", "-P", "-m", module, *arguments]
    return command, {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}


class Limits(NamedTuple):
    """What a job may use; 0: without limit.

    :ivar seconds: then TERM to all its processes, and KILL after ``grace_seconds``.
    :ivar memory_bytes: address space of each process.
    :ivar open_files: of each process.
    :ivar file_bytes: the longest file that a process may write.
    :ivar disk_bytes: all files together in the job's own folder, looked at every second.
    :ivar processes: of the job; threads count.
    :ivar nice: added to the niceness of the manager.
    """

    seconds: float = 300.0
    grace_seconds: float = 10.0
    memory_bytes: int = 0
    open_files: int = 0
    file_bytes: int = 0
    disk_bytes: int = 0
    processes: int = 0
    nice: int = 0


class Launch(NamedTuple):
    """One job to start.

    :ivar job: for messages.
    :ivar command: the executable, as it is called in one of ``folders``; empty: ``call`` is run in its place.
    :ivar args: the worker's arguments, those after its name.
    :ivar environment: all of it.
    :ivar folders: where executables may be.
    :ivar owners: ids of the users who may own these, besides root.
    :ivar call: ``module:function`` to call in a fork of the template, which has imported it.
    :ivar user: id that the worker gets; None: the manager's.
    :ivar group: likewise.
    :ivar scratch: the folder in which the job gets a folder of its own.
    :ivar lease_until: on the boot clock: all of the job's processes must have ended by then, unless more is granted;
        0: no lease.
    """

    job: str
    command: str
    args: tuple[str, ...]
    environment: dict[str, str]
    folders: tuple[str, ...] = ()
    owners: tuple[int, ...] = ()
    call: str = ""
    user: int | None = None
    group: int | None = None
    scratch: str = ""
    lease_until: float = 0.0
    limits: Limits = Limits()

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Launch:
        """What :meth:`to_bytes` has written.

        :raises ValueError: it was not.
        """
        values: dict[str, Any] = json.loads(data)
        values["limits"] = Limits(*values["limits"])
        for name in ("args", "folders", "owners"):
            values[name] = tuple(values[name])
        return cls(**values)


class Report(NamedTuple):
    """What a shepherd says, one field set at a time.

    :ivar pid: the worker has started.
    :ivar refused: it has not, and why; ``again``: another try might do.
    :ivar status: as ``wait4`` gives it: the worker, and whatever it has left behind, has ended.
    :ivar why: the shepherd has ended it: :data:`SECONDS`, :data:`DISK`, :data:`LEASE_OVER`, :data:`TOLD`; empty: it
        has not.
    :ivar left: processes that were still there when the worker itself had ended; they were killed.
    :ivar cpu_seconds: of the worker and its children that it waited for.
    :ivar memory_bytes: the most that one of them had resident.
    """

    pid: int = 0
    refused: str = ""
    again: bool = False
    status: int | None = None
    why: str = ""
    left: int = 0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0

    def to_line(self) -> bytes:
        """As it is sent."""
        return json.dumps(self._asdict()).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Report:
        """What :meth:`to_line` has written."""
        return cls(**json.loads(line))


SECONDS, DISK, TOLD, LEASE_OVER = "seconds", "disk", "told", "lease"
"""Reasons of :attr:`Report.why`."""
