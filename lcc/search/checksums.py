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
    """Which file of an index is not as it was written; empty: none.  It reads all that were committed."""
    try:
        committed = _committed(folder)
    except FileNotFoundError:
        return ""  # nothing was
    except (ValueError, KeyError, TypeError):
        return "meta.json is damaged"
    for entry in index_files(folder):
        segment, _, ending = entry.name.partition(".")
        if segment not in committed or (ending.endswith(".del") and ending != committed[segment]):
            continue  # it may be being written
        try:
            with Path(entry.path).open("rb") as file:
                if not _is_whole(file, entry.stat().st_size):
                    return f"{entry.name} is damaged"
        except FileNotFoundError:
            continue  # it was merged into another one
    return ""


def _committed(folder: Path) -> dict[str, str]:
    """How files of the segments that were committed begin, and how the one with what was deleted of it ends."""
    found = {}
    for segment in json.loads((folder / "meta.json").read_bytes())["segments"]:
        deletes = segment["deletes"]
        name = str(segment["segment_id"]).replace("-", "")
        found[name] = f"{deletes['opstamp']}.del" if deletes else ""
    return found


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
