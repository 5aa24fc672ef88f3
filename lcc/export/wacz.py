"""A WACZ file (Web Archive Collection Zipped, 1.1.1): a WARC, its index, pages and digests in one ZIP file.

The WARC is indexed as it passes, so that it is read once, and memory is bounded.  The index is CDXJ in compressed
blocks with a list of them (ZipNum): a reader such as ReplayWeb.page fetches only the blocks that it needs.  See
https://specs.webrecorder.net/wacz/1.1.1/.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from lcc.export.texts import HEAD_BYTES, charset_of, title_of
from lcc.protocols.cdxj import INDEXED, in_order, index_line

WACZ_VERSION = "1.1.1"
BLOCK_LINES = 1024
"""Of the index, compressed together."""
MEMORY_BYTES = 1 << 20
"""A longer list waits on the disk until its turn."""
_WARC = "data.warc.gz"
_INDEX = "index.cdx.gz"
_UNIX_TIME = 0x5455
"""An extra field.  ReplayWeb.page looks for those of a file's own header (ZIP64) only where the directory has one."""
_HTML = frozenset(["text/html", "application/xhtml+xml"])


def write_wacz(warc: Iterator[bytes], output: IO[bytes], temporary: Path, title: str, now: datetime) -> None:
    """Write a WACZ.

    :param warc: a ``.warc.gz``, each record a member, as it comes.
    :param output: is written from its beginning to its end, and never read.
    :param temporary: a folder for temporary files.
    :param title: of the archive.
    :raises ImportError: warcio or surt is not installed.
    """
    with ExitStack() as stack:
        package = _Package(stack.enter_context(ZipFile(output, "w")), now)
        pages, blocks = (stack.enter_context(_temporary(temporary)) for _ in range(2))
        pages.write(_line({"format": "json-pages-1.0", "id": "pages", "title": "Pages"}))
        with package.file(f"archive/{_WARC}", ZIP_STORED) as file:
            lines = stack.enter_context(in_order(_indexed(_Passing(warc, file), pages), temporary))
        with package.file(f"indexes/{_INDEX}", ZIP_STORED) as file:
            blocks.write(b"!meta 0 " + _line({"format": "cdxj-gzip-1.0", "filename": _INDEX}))
            _write_blocks(lines, file, blocks)
        package.add("indexes/index.idx", blocks)
        package.add("pages/pages.jsonl", pages)
        package.end(title)


class _Member:
    """A file of the package that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.digest.update(data)
        self.size_bytes += len(data)


class _Package:
    """The ZIP file, and what its description says of the files in it."""

    def __init__(self, archive: ZipFile, now: datetime) -> None:
        self._archive = archive
        self._now = now.astimezone(UTC)
        self._resources: list[dict[str, Any]] = []

    @contextmanager
    def file(self, path: str, compression: int = ZIP_DEFLATED) -> Iterator[_Member]:
        info = ZipInfo(path, self._now.timetuple()[:6])
        info.compress_type = compression
        info.external_attr = 0o644 << 16
        info.extra = struct.pack("<HHBI", _UNIX_TIME, 5, 1, int(self._now.timestamp()))
        with self._archive.open(info, "w", force_zip64=True) as file:
            member = _Member(file)
            yield member
        self._resources.append(
            {
                "name": path.rpartition("/")[2],
                "path": path,
                "hash": _digest(member),
                "bytes": member.size_bytes,
            }
        )

    def add(self, path: str, content: IO[bytes]) -> str:
        """
        :returns: its digest.
        """
        content.seek(0)
        with self.file(path) as file:
            while piece := content.read(1 << 16):
                file.write(piece)
        return _digest(file)

    def end(self, title: str) -> None:
        about = {
            "profile": "data-package",
            "wacz_version": WACZ_VERSION,
            "title": title,
            "created": f"{self._now:%Y-%m-%dT%H:%M:%SZ}",
            "software": f"LCC/{version('lcc')}",
            "resources": self._resources.copy(),
        }
        digest = self.add("datapackage.json", BytesIO(json.dumps(about, indent=2).encode()))
        self.add("datapackage-digest.json", BytesIO(_line({"path": "datapackage.json", "hash": digest})))


class _Passing:
    """A WARC to read, of which all that is read is written, too."""

    def __init__(self, pieces: Iterator[bytes], file: _Member) -> None:
        self._pieces = pieces
        self._file = file
        self._held = b""

    def read(self, size: int) -> bytes:
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._file.write(piece)
            self._held = piece
        given, self._held = self._held[:size], self._held[size:]
        return given


def _indexed(warc: _Passing, pages: IO[bytes]) -> Iterator[bytes]:
    """The lines of the index; the pages are written as they come."""
    from warcio.archiveiterator import ArchiveIterator

    records = ArchiveIterator(warc)
    for record in records:
        if record.rec_type in INDEXED:
            page = _page(record)
            if page is not None:
                pages.write(_line(page))
            # The length is known once the record is read.
            length, offset = records.get_record_length(), records.get_record_offset()
            yield index_line(record, _WARC, offset, length)
    while warc.read(1 << 16):
        pass


def _page(record: Any) -> dict[str, str] | None:
    """What a reader may begin with; None: it is none that stands alone."""
    headers = record.http_headers
    if headers is None or headers.get_statuscode() != "200":
        return None
    mimetype, _, charset = (headers.get_header("Content-Type") or "").partition("charset=")
    if mimetype.partition(";")[0].strip().lower() not in _HTML:
        return None
    about = record.rec_headers
    page = {name: about.get_header(header) for name, header in _FIELDS.items()}
    head = record.content_stream().read(HEAD_BYTES) if record.rec_type == "response" else b""
    tags = BytesIO(head[: head.rfind(b">") + 1])  # no character is cut
    title = title_of(tags, charset_of(tags, charset.strip(' "'), markup=True))
    return page | {"title": title} if title else page


_FIELDS = {"id": "LCC-Key", "url": "WARC-Target-URI", "ts": "WARC-Date"}


def _write_blocks(lines: Iterator[bytes], index: _Member, blocks: IO[bytes]) -> None:
    while block := list(islice(lines, BLOCK_LINES)):
        packed = gzip.compress(b"".join(block), mtime=0)
        where = {
            "offset": index.size_bytes,
            "length": len(packed),
            "digest": f"sha256:{hashlib.sha256(packed).hexdigest()}",
            "filename": _INDEX,
        }
        surt, date, _ = block[0].split(b" ", 2)
        blocks.write(b"%s %s %s" % (surt, date, _line(where)))
        index.write(packed)


def _digest(member: _Member) -> str:
    return f"sha256:{member.digest.hexdigest()}"


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _temporary(folder: Path) -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(MEMORY_BYTES, "w+b", dir=str(folder))
