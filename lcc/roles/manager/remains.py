"""What earlier runs of a manager may have left: processes of their jobs; and which runs there were."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from twisted.logger import Logger

from lcc.protocols.jobs import RUNS_MAX
from lcc.storage.disk.durable import write_durably
from lcc.storage.disk.file_system import Disk
from lcc.workers.linux import marked, send_signal

_log = Logger()


def enter_run(path: Path, place: str, run: str, disk: Disk) -> tuple[str, ...]:
    """Note a run in the file of all runs; gives those before it, of the same place.

    The others are forgotten: where the home was copied, the run that it was copied from may go on.  If the file
    cannot be read or written, no run is known: then their jobs are lost when their leases are over.

    :param place: names a machine, a boot of it, and a home there; empty: it has no name.
    """
    before: list[str] = []
    try:
        if path.name in {name for name, _ in disk.names(path.parent)}:
            lines = disk.read(path).decode("ascii", "replace").splitlines()
            before = lines[1:][-RUNS_MAX:] if place and lines[:1] == [place] else []
        write_durably(path, "".join(f"{line}\n" for line in (place, *before, run)).encode(), disk)
    except OSError as error:
        _log.warn("Cannot note that this run begins, in {path}: {error}", path=str(path), error=str(error))
    return tuple(before)


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

    @property
    def file(self) -> str:
        """Names its file, as no copy of it is named."""
        status = os.fstat(self._descriptor)
        return f"{status.st_dev}:{status.st_ino}"

    def release(self) -> None:
        """Keep it no longer; those that have inherited it do."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
