"""Folders of indexes: thrown away, or kept for who wants to know why one was damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

from lcc.search.checksums import index_files


def remove_index(folder: Path) -> None:
    """Throw an index away.

    :raises OSError: it cannot be.
    """
    if folder.exists():
        shutil.rmtree(folder)


def size_of(folder: Path) -> int:
    """Bytes of the files of an index.

    :raises OSError: it cannot be read, such as FileNotFoundError.
    """
    return sum(entry.stat().st_size for entry in index_files(folder))


def keep_index(folder: Path, kept: Path) -> str:
    """Keep a damaged index, in place of the one that was kept before; gives what is said of that.

    :raises OSError: it cannot be.
    """
    remove_index(kept)
    size_bytes = size_of(folder)
    size = mebibytes(size_bytes)
    if shutil.disk_usage(folder).free < size_bytes:
        remove_index(folder)
        return f"the damaged one ({size}) is removed: the new one needs the room"
    folder.rename(kept)
    return f"the damaged one is kept as {kept} ({size}): remove it when nobody needs it"


def room_in(folder: Path) -> str:
    """How much is free there, for people: tantivy does not say that a disk is full."""
    try:
        return f"{mebibytes(shutil.disk_usage(folder).free)} free"
    except OSError as error:
        return error.strerror or "unknown room"


def mebibytes(size_bytes: int) -> str:
    """For people."""
    return f"{size_bytes / (1 << 20):,.1f} MiB"
