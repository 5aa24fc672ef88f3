"""The file that names the epoch of a spool.

Its first line is the current epoch.  Each further line is an epoch that ended because the spool was restored from a
backup, and the epoch that its sets belong to since: their files need not be rewritten.
"""

from __future__ import annotations

from pathlib import Path

from lcc.storage.disk.durable import write_durably
from lcc.storage.disk.file_system import DISK, Disk


class EpochFile:
    """The file, and its content as read last."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self._path = path
        self._disk = disk
        self._ended: dict[str, str] = {}

    def read(self) -> str:
        """The current epoch; empty: there is none yet."""
        try:
            lines = self._disk.read(self._path).decode("ascii", "replace").splitlines()
        except FileNotFoundError:
            lines = []
        self._ended = {words[0]: words[1] for words in map(str.split, lines[1:]) if len(words) == 2}
        return lines[0].strip() if lines else ""

    def write(self, epoch: str, ended: str = "") -> None:
        """Write the current epoch durably; changes nothing in memory.

        :param ended: the epoch that it replaces, with all its sets; empty: none.
        :raises OSError: the old content stays.
        """
        pairs = self._ended | ({ended: epoch} if ended else {})
        lines = [epoch, *(f"{old} {new}" for old, new in pairs.items())]
        write_durably(self._path, "".join(f"{line}\n" for line in lines).encode(), self._disk)

    def end(self, ended: str, epoch: str) -> None:
        """Sets of ``ended`` belong to ``epoch`` from now on."""
        self._ended[ended] = epoch

    def current(self, epoch: str) -> str:
        """The epoch that a set of this one belongs to."""
        for _ in range(len(self._ended)):
            epoch = self._ended.get(epoch, epoch)
        return epoch
