"""Whether a folder has room: looked at before it is needed, so that a full disk is no surprise.

A part of the disk is kept free (the *reserve*): what has begun when the disk fills up can end, state files can be
replaced, and what else lies on the disk (the database, say) has room when the folder takes nothing more.  All reasons
are for people: they name the folder, the fault and what to do.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lcc.storage.disk.file_system import DISK, Disk

AGAIN_SHARE = 1.1
"""After it was reached there is room again when so much of the reserve is free: else it would come and go."""
PROBE_BYTES = 4096
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The numbers of an OSError that says so."""


class Room:
    """Looks at the disk of one folder.

    :param folder: must exist when it is looked at.
    :param reserve_bytes: to be kept free; 0: nothing.
    :param setting: the setting that says so, for people.
    """

    def __init__(self, folder: Path, reserve_bytes: int, setting: str, disk: Disk = DISK) -> None:
        self._folder = folder
        self._setting = setting
        self._disk = disk
        self._reached = False
        self.reserve_bytes = reserve_bytes
        self.free_bytes: int | None = None
        """When it was looked at last; None: it was not."""

    def missing(self, probe: Path | None = None) -> str:
        """Why nothing more should be put there; empty: there is room.

        :param probe: try it: write this file, and remove it.
        """
        try:
            space = self._disk.space(self._folder)
        except OSError as error:
            return fault_text(self._folder, error)
        if not space.writable:
            return fault_text(self._folder, OSError(errno.EROFS, os.strerror(errno.EROFS)))
        if space.free_files == 0:
            return (
                f"{self._folder}: its disk takes no more files (it has no inodes left): remove files from that disk"
            )
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
    """What is wrong with a folder that cannot be written to, and what to do, for people."""
    what = error.strerror or str(error)
    if error.errno in DISK_FULL:
        return f"{folder}: {what}: make room on its disk, or raise the quota"
    if error.errno == errno.EROFS:
        return f"{folder}: {what}: see what the system's log says of that disk, then mount it for writing again"
    return f"{folder}: {what}: see what the system's log says of that disk"
