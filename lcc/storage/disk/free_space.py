"""Checks the free space of a folder's disk before it is needed.

A part of the disk is kept free (the *reserve*): when the disk fills up, work in progress can end, state files can be
replaced, and other users of the disk (a database, say) have room.  All reasons are for operators: they name the
folder, the fault and what to do.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lcc.storage.disk.file_system import DISK, Disk

AGAIN_SHARE = 1.1
"""Hysteresis: once the reserve was reached, this multiple of it must be free."""
PROBE_BYTES = 4096
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk."""


class Room:
    """Checks the disk of one folder.

    :param folder: must exist when it is checked.
    :param reserve_bytes: to be kept free; 0: nothing.
    :param setting: the name of that setting, for messages.
    """

    def __init__(self, folder: Path, reserve_bytes: int, setting: str, disk: Disk = DISK) -> None:
        self._folder = folder
        self._setting = setting
        self._disk = disk
        self._reached = False
        self.reserve_bytes = reserve_bytes
        self.free_bytes: int | None = None
        """At the last check; None: not checked yet."""

    def missing(self, probe: Path | None = None) -> str:
        """Why nothing more should be written there; empty: there is room.

        :param probe: also try to write this file, and remove it.
        """
        try:
            space = self._disk.space(self._folder)
        except OSError as error:
            return fault_text(self._folder, error)
        if not space.writable:
            return fault_text(self._folder, OSError(errno.EROFS, os.strerror(errno.EROFS)))
        if space.free_files == 0:
            return f"{self._folder}: no inodes left on its disk: remove files"
        self.free_bytes = space.free_bytes
        wanted = self.reserve_bytes * (AGAIN_SHARE if self._reached else 1)
        self._reached = space.free_bytes < wanted
        if self._reached:
            return (
                f"{self._folder}: {space.free_bytes:,} bytes are free on its disk, and {self.reserve_bytes:,} are "
                f"kept free ({self._setting}): make room on that disk"
            )
        return "" if probe is None else self._try(probe)

    def _try(self, probe: Path) -> str:
        disk = self._disk
        try:
            with disk.create(probe) as file:
                disk.write(file, bytes(PROBE_BYTES))
        except OSError as error:
            return fault_text(self._folder, error)
        finally:
            try:
                disk.remove(probe)
            except OSError:
                pass  # it is small, and tried again
        return ""


def fault_text(folder: Path | str, error: OSError) -> str:
    """Why a folder cannot be written to, and what to do, for operators."""
    what = error.strerror or str(error)
    if error.errno in DISK_FULL:
        return f"{folder}: {what}: make room on its disk, or raise the quota"
    if error.errno == errno.EROFS:
        return f"{folder}: {what}: see the system log, then remount it read-write"
    return f"{folder}: {what}: see the system log"
