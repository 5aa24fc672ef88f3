"""What earlier runs of a manager may have left: processes of their jobs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from lcc.workers.linux import marked, send_signal


def sweep(mark: str, rounds_max: int = 1000) -> None:
    """Kill all processes whose environment has something that begins like this, until there are none.  It blocks."""
    for _ in range(rounds_max):
        found = [pid for pid in marked(mark.encode()) if send_signal(pid, 9)]
        if not found:
            return


class WorkersLock:
    """The lock that launchers and shepherds inherit: as long as one of an earlier run of this manager has it, a job
    of that run may have processes.

    :param path: of its file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """To be inherited."""
        return self._descriptor

    def acquire(self) -> bool:
        """Get it, unless somebody has it; then False.

        :raises OSError: its file cannot be made.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Keep it no longer; those that have inherited it do."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
