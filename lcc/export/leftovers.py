"""Temporary files and folders of a killed ``lcc-export``, which the next run removes.

Who uses one holds a lock on it, which the system takes away when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GRACE_SECONDS = 60.0
"""Younger ones may be about to be locked."""


def hold(descriptor: int) -> None:
    """This file or folder is in use, for as long as it is open here."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Remove those of ours that nobody uses; what cannot be removed stays."""
    for path in folder.glob(pattern):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                found = os.fstat(descriptor)
                if found.st_uid == os.geteuid() and time.time() - found.st_mtime > GRACE_SECONDS:
                    hold(descriptor)
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(descriptor)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder for a while; those that killed processes have left are removed first."""
    remove_leftovers(Path(tempfile.gettempdir()), f"{prefix}*")
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            hold(descriptor)
            yield Path(name)
        finally:
            os.close(descriptor)
