"""Files of an index, and whether they are as tantivy has written them: each ends with a checksum."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_FOOTER = struct.Struct("<II")
_PIECE_BYTES = 1 << 20


def index_files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Files of an index; one that goes meanwhile is left out."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_file() and entry.stat():
                    yield entry


def damage(folder: Path) -> str:
    """Which file of an index is not as it was written; empty: none.  It reads all of them."""
    for entry in index_files(folder):
        if entry.name.startswith(".t") or entry.name.endswith(".json"):
            continue
        try:
            with Path(entry.path).open("rb") as file:
                if not _is_whole(file, entry.stat().st_size):
                    return f"{entry.name} is damaged"
        except FileNotFoundError:
            continue  # it was merged into another one
    return ""


def _is_whole(file: Any, size_bytes: int) -> bool:
    """Whether a file ends with the checksum of what is before it, as tantivy writes it."""
    if size_bytes < _FOOTER.size:
        return False
    file.seek(size_bytes - _FOOTER.size)
    length, _ = _FOOTER.unpack(file.read(_FOOTER.size))
    left = size_bytes - _FOOTER.size - length
    if left < 0:
        return False
    file.seek(left)
    try:
        told = json.loads(file.read(length))["crc"]
    except (ValueError, KeyError, TypeError):
        return False
    file.seek(0)
    found = 0
    while left:
        piece = file.read(min(left, _PIECE_BYTES))
        if not piece:
            return False
        found = zlib.crc32(piece, found)
        left -= len(piece)
    return bool(found == told)
