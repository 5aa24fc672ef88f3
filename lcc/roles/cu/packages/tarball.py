"""A package as a tar: each content a file, after each page of rows a file of JSON lines about them.

``manifest/000001.jsonl`` holds rows as in ``/urls``, with ``file``, the path in the tar, or None and ``missing``, the
reason; ``manifest/end.json`` is the last member, the end mark.  There is a manifest at the latest behind so much
content that whoever reads the tar as it comes can hold it until then.

Headers are put together here: :mod:`tarfile` takes longer for one than zlib for the page behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lcc.insight.records import user_record
from lcc.model import CachedUrl
from lcc.roles.cu.packages.bodies import Body
from lcc.roles.cu.packages.names import package_name

BLOCK_BYTES = 512
OCTAL_MAX = 8**11 - 1
MANIFEST = "manifest"
CONTENT_BYTES_MAX = 4 << 20
"""In front of a manifest, but for the last content."""
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode

# Mode, owner and group; then, behind size, time and checksum: a plain file, no link, POSIX, no names, no device.
_OWNER = b"0000644\0" + b"0000000\0" * 2
_KIND = b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2
_SUM = sum(_OWNER) + sum(_KIND) + 8 * ord(" ")


def tar_header(folder: str, name: str, size_bytes: int, time: int) -> bytes:
    """The header of a member.

    :param folder: at most 155 bytes, ASCII.
    :param name: at most 100 bytes, ASCII.
    :param time: seconds since 1970.
    """
    # A size that has no place as text is a number of 11 bytes behind a mark, as GNU tar and others have it.
    size = b"%011o\0" % size_bytes if size_bytes <= OCTAL_MAX else b"\x80" + size_bytes.to_bytes(11, "big")
    numbers = size + b"%011o\0" % min(max(0, time), OCTAL_MAX)
    first, last = name.encode("ascii"), folder.encode("ascii")
    checksum = b"%06o\0 " % (_SUM + sum(first) + sum(numbers) + sum(last))
    return b"".join((first.ljust(100, b"\0"), _OWNER, numbers, checksum, _KIND, last.ljust(167, b"\0")))


class TarWriter:
    """Writes a tar (:class:`lcc.roles.cu.packages.packing.Writer`).

    :param time: of the manifest, seconds since 1970.
    """

    def __init__(self, time: int) -> None:
        self._time = time
        self._lines: list[str] = []
        self._content_bytes = 0
        self._pages = 0

    def begin(self) -> Iterator[bytes]:
        return iter(())

    def member(self, row: CachedUrl, body: Body) -> Iterator[bytes]:
        folder, name = package_name(row.pid, row.key, row.curl, row.mimetype)
        time = row.fetched_time if row.mtime is None else row.mtime
        header = tar_header(folder, name, body.size_bytes, time or 0)
        padding = bytes(-body.size_bytes % BLOCK_BYTES)
        if body.data is not None:
            yield b"".join((header, body.data, padding))
        else:
            yield header
            yield from body.pieces()
            yield padding
        self._lines.append(_encode(user_record(row) | {"file": f"{folder}/{name}"}))
        self._content_bytes += body.size_bytes
        if self._content_bytes >= CONTENT_BYTES_MAX:
            yield from self.page()

    def left_out(self, row: CachedUrl, reason: str) -> Iterator[bytes]:
        self._lines.append(_encode(user_record(row) | {"file": None, "missing": reason}))
        return iter(())

    def deleted(self, row: CachedUrl) -> Iterator[bytes]:
        self._lines.append(_encode(user_record(row) | {"file": None}))
        return iter(())

    def page(self) -> Iterator[bytes]:
        if self._lines:
            self._pages += 1
            yield self._text(f"{self._pages:06}.jsonl", [*self._lines, ""])
            self._lines.clear()
            self._content_bytes = 0

    def end(self, summary: dict[str, Any]) -> Iterator[bytes]:
        yield self._text("end.json", [_encode(summary), ""])
        yield bytes(2 * BLOCK_BYTES)

    def close(self) -> None:
        pass

    def _text(self, name: str, lines: list[str]) -> bytes:
        data = "\n".join(lines).encode("utf-8", "replace")
        return tar_header(MANIFEST, name, len(data), self._time) + data + bytes(-len(data) % BLOCK_BYTES)
