"""Rows of the cache with their content as a WARC 1.1 file (ISO 28500:2017), made by warcio.

Each content is a ``response`` record with the status and the headers of its fetch; if it came without (FTP, files),
it is a ``resource`` record.  A ``revisit`` record stands for content that the file has under another URL; such
content is looked for among the newest ones, so that memory is bounded.  ``WARC-Target-URI`` is the conceptual URL, by
which users know it; what belongs to the row is in further headers (``LCC-…``).  ``metadata`` records tell of what was
deleted or left out; the last one is the end mark, a JSON object.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from lcc.model import CachedUrl

CONTENTS_REMEMBERED = 50_000
"""To be found again under other URLs; some 400 bytes each."""
PIECE_BYTES = 1 << 18
_SPOOLED_BYTES = 2 << 20
"""A larger record is put together in a file."""
VERSION = "WARC/1.1"
_LEVEL = 6
_REBUILT = frozenset(
    ["content-length", "transfer-encoding", "content-encoding", "trailer", "connection", "keep-alive"]
)
"""Headers of the transfer: the content is stored decoded, its length is the only thing to be said of it."""
_ENCODING = "content-encoding"


class Body(Protocol):
    """The content of a row.

    :ivar size_bytes: its length.
    """

    size_bytes: int

    def file(self) -> BinaryIO:
        """The content as a file, at its beginning."""


class WarcWriter:
    """Writes a WARC (:class:`lcc.roles.cu.packages.packing.Writer`).

    :param compress: each record a gzip member, as a ``.warc.gz`` must be.
    :param time: now, seconds since 1970.
    :param temporary: a folder for temporary files: large records are put together there.
    :ivar record: that was written last.
    """

    def __init__(self, compress: bool, time: int, temporary: Path) -> None:
        self._compress = compress
        self._date = _date(time)
        self._spool = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES, dir=str(temporary))  # noqa: SIM115
        self._writer = WARCWriter(self._spool, gzip=False, warc_version=VERSION)
        self.record: Any = None
        self._seen: OrderedDict[tuple[str, int], tuple[str, str, str, str]] = OrderedDict()

    def begin(self) -> Iterator[bytes]:
        info = {
            "software": f"LCC/{version('lcc')}",
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        }
        record = self._writer.create_warcinfo_record(None, info)
        record.rec_headers.replace_header("WARC-Date", self._date)
        return self._write(record)

    def member(self, row: CachedUrl, body: Body) -> Iterator[bytes]:
        headers = self._about(row) | {"WARC-Date": _date(row.fetched_time or 0)}
        fetched = _http_headers(row, body.size_bytes)
        known = self._seen.get((row.md5, body.size_bytes)) if fetched is not None and body.size_bytes else None
        if known is not None:
            uri, date, record_id, digest = known
            headers |= {"WARC-Refers-To": record_id}
            record = self._writer.create_revisit_record(row.curl, digest, uri, date, fetched, headers)
            return self._write(record)
        if fetched is None:
            headers["Content-Type"] = _content_type(row)
        kind = "resource" if fetched is None else "response"
        record = self._writer.create_warc_record(
            row.curl, kind, body.file(), body.size_bytes, warc_headers_dict=headers, http_headers=fetched
        )
        found = record.rec_headers
        if fetched is not None and body.size_bytes:
            names = ("WARC-Target-URI", "WARC-Date", "WARC-Record-ID", "WARC-Payload-Digest")
            uri, date, record_id, digest = map(found.get_header, names)
            self._seen[row.md5, body.size_bytes] = uri, date, record_id, digest
            if len(self._seen) > CONTENTS_REMEMBERED:
                self._seen.popitem(last=False)
        return self._write(record)

    def left_out(self, row: CachedUrl, reason: str) -> Iterator[bytes]:
        return self._metadata(row, {"state": "left-out", "reason": reason})

    def deleted(self, row: CachedUrl) -> Iterator[bytes]:
        return self._metadata(row, {"state": "deleted"})

    def page(self) -> Iterator[bytes]:
        return iter(())

    def end(self, summary: dict[str, Any]) -> Iterator[bytes]:
        data = json.dumps(summary).encode()
        headers = {"WARC-Date": self._date, "Content-Type": "application/json"}
        yield from self._write(
            self._writer.create_warc_record("", "metadata", BytesIO(data), len(data), warc_headers_dict=headers)
        )

    def close(self) -> None:
        with suppress(OSError):  # of a full disk: what was not written yet is not wanted
            self._spool.close()

    def _metadata(self, row: CachedUrl, fields: dict[str, str]) -> Iterator[bytes]:
        data = "".join(f"{name}: {_line(value)}\r\n" for name, value in fields.items()).encode()
        headers = self._about(row) | {"WARC-Date": self._date, "Content-Type": "application/warc-fields"}
        return self._write(
            self._writer.create_warc_record(row.curl, "metadata", BytesIO(data), len(data), warc_headers_dict=headers)
        )

    def _about(self, row: CachedUrl) -> dict[str, str]:
        fields = {
            "LCC-Provider": str(row.pid),
            "LCC-Key": row.key.hex(),
            "LCC-Mime-Type": row.mimetype,
            "LCC-Change": str(row.change),
        }
        if row.subtype:
            fields["LCC-Subtype"] = _line(row.subtype)
        if row.furl and row.furl != row.curl:
            fields["LCC-Fetched-From"] = _line(row.furl)
        return fields

    def _write(self, record: Any) -> Iterator[bytes]:
        self.record = record
        self._writer.write_record(record)
        spool = self._spool
        spool.seek(0)
        squeezer = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS + 16) if self._compress else None
        while piece := spool.read(PIECE_BYTES):
            yield piece if squeezer is None else squeezer.compress(piece)
        if squeezer is not None:
            yield squeezer.flush()
        spool.seek(0)
        spool.truncate()


def _date(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _line(text: str) -> str:
    """The text as a part of a header's line."""
    return "".join(c if c.isprintable() else " " for c in text)


def _content_type(row: CachedUrl) -> str:
    return f"{row.mimetype}; charset={row.charset}" if row.charset else row.mimetype


def _http_headers(row: CachedUrl, size_bytes: int) -> Any:
    """What the web server said, for the content as it is stored; None: it came from no web server."""
    if not row.status or not (row.furl or row.curl).startswith(("http://", "https://")):
        return None
    flat = json.loads(row.headers) if row.headers else []
    fields = [(name, _line(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)]
    kept = [(name, value) for name, value in fields if name.lower() not in _REBUILT]
    # What the content was wrapped in on the way is told under another name, as other archives do.
    kept += [(f"X-Archive-Orig-{name}", value) for name, value in fields if name.lower() == _ENCODING]
    if "content-type" not in {name.lower() for name, _ in kept}:
        kept.append(("Content-Type", _content_type(row)))
    kept.append(("Content-Length", str(size_bytes)))
    return StatusAndHeaders(f"{row.status} {_reason(row.status)}".rstrip(), kept, protocol="HTTP/1.1")


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
