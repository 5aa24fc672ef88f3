"""Verifies content files."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5
from pathlib import Path

from lcc.storage.disk.content_paths import content_path
from lcc.storage.disk.file_system import DISK, Disk

PIECE_BYTES = 1 << 18


def fault_of(
    folder: Path, file: int, size_bytes: int, expected_md5: str, paced: Callable[[int], None], disk: Disk = DISK
) -> str:
    """What is wrong with a content file: ``missing``, ``length``, ``hash``, ``unreadable``; empty: nothing.

    Reads from the disk, not from the page cache, as far as the file has been written to the disk.

    :param expected_md5: empty: the content is not read.
    :param paced: called with the bytes of each piece that was read; may sleep.
    :raises PermissionError: this user may not read the file.
    """
    try:
        reader = disk.reader(folder / content_path(file))
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except PermissionError:
        raise
    except OSError:
        return "unreadable"
    try:
        if reader.size_bytes != size_bytes:
            return "length"
        if not expected_md5:
            return ""
        reader.forget()
        found = md5(usedforsecurity=False)
        offset = 0
        while piece := reader.read(offset, PIECE_BYTES):
            found.update(piece)
            offset += len(piece)
            paced(len(piece))
        reader.forget()  # it shall not push out what is read often
        return "" if found.hexdigest() == expected_md5 else "hash"
    except OSError:
        return "unreadable"
    finally:
        reader.close()
