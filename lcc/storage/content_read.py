"""Reading content files: for content users, and to see whether they are what they must be."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import md5
from pathlib import Path

from zope.interface import implementer

from lcc.interfaces import IContentReader
from lcc.storage.content_names import content_path

PIECE_BYTES = 1 << 18


@implementer(IContentReader)
class ContentReader:
    """An open content file.  It stays what it is, also when the file is removed meanwhile.

    :raises FileNotFoundError: there is no such file.
    :raises OSError: it cannot be opened.
    :ivar size_bytes: of the whole file.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from this place on, as many as there are, at most so many.

        :raises OSError: the disk reported a fault.
        """
        return os.pread(self._descriptor, length, offset)

    def close(self) -> None:
        """Close it; it must not be read any longer."""
        os.close(self._descriptor)


def fault_of(folder: Path, file: int, size_bytes: int, expected_md5: str, paced: Callable[[int], None]) -> str:
    """What is wrong with a content file: ``missing``, ``length``, ``hash``, ``unreadable``; empty: nothing.

    What is in memory is read from the disk again, as far as it has been written there.

    :param expected_md5: empty: the content is not read.
    :param paced: is told of each piece that was read, in bytes, and may wait.
    :raises PermissionError: this user may not read it, which says nothing of the file.
    """
    try:
        descriptor = os.open(folder / content_path(file), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except PermissionError:
        raise
    except OSError:
        return "unreadable"
    try:
        if os.fstat(descriptor).st_size != size_bytes:
            return "length"
        if not expected_md5:
            return ""
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        found = md5(usedforsecurity=False)
        while piece := os.read(descriptor, PIECE_BYTES):
            found.update(piece)
            paced(len(piece))
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # it shall not push out what is read often
        return "" if found.hexdigest() == expected_md5 else "hash"
    except OSError:
        return "unreadable"
    finally:
        os.close(descriptor)
