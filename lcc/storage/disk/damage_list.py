"""The providers that have lost an accepted set, kept on disk until a queue manager has noted it."""

from __future__ import annotations

from pathlib import Path

from twisted.logger import Logger

from lcc.storage.disk.durable import write_durably
from lcc.storage.disk.file_system import DISK, Disk

_log = Logger()

UNKNOWN = 0
"""In place of a provider id: unknown provider."""


class DamageList:
    """A small set of provider ids in a file, one a line.

    It is written durably at each change, which is rare.  If the disk fails, the list in memory is reported all the
    same.
    """

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self._path = path
        self._disk = disk
        self._pids: set[int] = set()

    @property
    def pids(self) -> list[int]:
        """Those that no queue manager has noted yet."""
        return sorted(self._pids)

    def open(self) -> None:
        """Read what an earlier run left."""
        try:
            words = self._disk.read(self._path).decode("ascii", "replace").split()
        except FileNotFoundError:
            words = []
        except OSError as error:
            _log.error("Cannot read which providers have lost sets: {error}", error=str(error))
            words = ["?"]
        # An unreadable file is damage, too.
        self._pids = {int(word) if word.isdigit() else UNKNOWN for word in words}

    def add(self, pid: int) -> None:
        """This provider has lost a set."""
        if pid not in self._pids:
            self._pids.add(pid)
            self._write()

    def noted(self, pid: int) -> None:
        """A queue manager has noted it."""
        if pid in self._pids:
            self._pids.discard(pid)
            self._write()

    def _write(self) -> None:
        text = "".join(f"{pid}\n" for pid in sorted(self._pids))
        try:
            write_durably(self._path, text.encode(), self._disk)
        except OSError as error:
            _log.error("Cannot save which providers have lost sets: {error}", error=str(error))
