"""Which content files survive a crash of the machine (promise P7).

Content is not fsynced file by file.  Instead the whole file system is synced at intervals, and ``synced``, a small
file in the content folder, records durably what is on the disk.  Its words:

``upto``
    All accepted files below this id are on the disk.
``state``
    ``running``: files from ``upto`` on may be lost if the machine crashes.  ``clean``: the BOT-M was stopped cleanly,
    all files are on the disk.  ``suspect``: the machine has crashed, and files from ``upto`` to before
    ``suspect_upto`` are not verified yet.  ``failed``: the disk reported a write error; the kernel does not say of
    which file, so ``upto`` stays where it is.
``suspect_upto``
    See ``suspect``; 0: no file is suspect.
``boot``
    The boot of the machine that wrote it.  A killed process loses nothing: its writes are in the kernel.  So
    ``running`` and ``failed`` make files suspect only under another boot.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from twisted.logger import Logger
from zope.interface import implementer

from lcc.interfaces import IContentSync
from lcc.storage.disk.durable import write_durably
from lcc.storage.disk.file_system import DISK, Disk

_log = Logger()

SYNCED = "synced"
RUNNING, CLEAN, SUSPECT, FAILED = "running", "clean", "suspect", "failed"
_STATES = frozenset([RUNNING, CLEAN, SUSPECT, FAILED])


@attrs.frozen
class SyncMark:
    """The content of ``synced``."""

    upto: int
    state: str
    boot: str
    suspect_upto: int = 0

    def to_bytes(self) -> bytes:
        """The file's content."""
        return f"{self.upto} {self.state} {self.boot or '-'} {self.suspect_upto}\n".encode()


def read_mark(text: bytes) -> SyncMark | None:
    """Parse the file; None: it is not valid."""
    words = text.decode("ascii", "replace").split()
    if len(words) != 4 or not (words[0].isdigit() and words[3].isdigit()) or words[1] not in _STATES:
        return None
    return SyncMark(int(words[0]), words[1], "" if words[2] == "-" else words[2], int(words[3]))


def mark_at_start(before: SyncMark | None, boot: str, names_upto: int) -> SyncMark:
    """The mark of a BOT-M that starts.

    :param before: the mark of the last run; None: unknown, so no file is known to be on the disk.
    :param boot: of the machine now; empty: unknown, so it counts as another one.
    :param names_upto: file ids from this one on were never given out.
    """
    if before is None:
        before = SyncMark(0, FAILED, "")
    same_boot = bool(boot) and before.boot == boot
    if before.state == CLEAN:
        return SyncMark(max(before.upto, names_upto), RUNNING, boot)
    if same_boot:
        return before
    if before.upto >= names_upto:
        return SyncMark(before.upto, RUNNING, boot)
    return SyncMark(before.upto, SUSPECT, boot, names_upto)


def boot_id() -> str:
    """The id of this boot of the machine; empty: unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@implementer(IContentSync)
class ContentSync:
    """Maintains ``synced``.  All methods block, and are called one at a time.

    :param boot: see :func:`boot_id`.
    """

    def __init__(self, folder: Path, boot: str, disk: Disk = DISK) -> None:
        self._folder = folder
        self._path = folder / SYNCED
        self._boot = boot
        self._disk = disk
        self._mark = SyncMark(0, RUNNING, boot)
        self._is_written = True

    def open(self, names_upto: int) -> None:
        """Find out what a crash may have lost.

        :raises OSError: the mark cannot be read or written.
        """
        try:
            before = read_mark(self._disk.read(self._path))
        except FileNotFoundError:
            # A folder of which no name was ever given out has lost nothing.
            before = SyncMark(names_upto, CLEAN, "") if names_upto <= 1 else None
        mark = mark_at_start(before, self._boot, names_upto)
        if mark == before:
            self._mark = mark  # it needs no room on the disk
        else:
            self._write(mark)
        if mark.state == SUSPECT:
            _log.warn(
                "The machine was not shut down cleanly: verifying content files {upto} to {last}",
                upto=mark.upto,
                last=mark.suspect_upto - 1,
            )
        elif mark.state == FAILED:
            _log.error("An earlier write to the disk failed: see the system log, then reboot the machine")

    @property
    def suspect(self) -> tuple[int, int]:
        """Files from the first to before the second are to be verified; (0, 0): none."""
        mark = self._mark
        return (mark.upto, mark.suspect_upto) if mark.suspect_upto else (0, 0)

    def advance(self, upto: int) -> None:
        """Sync.

        :param upto: all files below this one that will ever be accepted are accepted.
        :raises OSError: a write to the disk failed, now or earlier.
        """
        self._sync_all()
        if self._mark.state == RUNNING and upto > self._mark.upto:
            self._write(SyncMark(upto, RUNNING, self._boot))

    def intact(self, upto: int) -> None:
        """No file is suspect any longer; ``upto`` and what is raised as in :meth:`advance`."""
        if self._mark.state == FAILED and self._mark.suspect_upto:
            # Reading has shown that; what the failed write was of is suspect after the next boot.
            self._write(attrs.evolve(self._mark, suspect_upto=0))
        self._sync_all()
        if self._mark.state == SUSPECT:
            self._write(SyncMark(upto, RUNNING, self._boot))

    def close(self) -> None:
        """No file is accepted any longer.

        :raises OSError: as :meth:`advance`.
        """
        self._sync_all()
        if self._mark.state == RUNNING:
            self._write(attrs.evolve(self._mark, state=CLEAN))

    def _sync_all(self) -> None:
        if self._mark.state == FAILED:
            if not self._is_written:
                self._write(self._mark)
            raise OSError("an earlier write to the disk failed")
        try:
            self._disk.sync_all(self._folder)
        except OSError:
            # The kernel reports this once, and forgets what it was.
            self._write(attrs.evolve(self._mark, state=FAILED))
            raise

    def _write(self, mark: SyncMark) -> None:
        if mark.state == FAILED:
            self._mark, self._is_written = mark, False  # also if the disk does not take this; it is tried again
        write_durably(self._path, mark.to_bytes(), self._disk)
        self._mark, self._is_written = mark, True
