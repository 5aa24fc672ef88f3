"""Xapian Omega: what ``scriptindex`` reads.  It knows a page by its key; a record of nothing but the key deletes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lcc.export.consumers import Sink
from lcc.export.contents import Document
from lcc.export.engines.streams import StreamEngine
from lcc.export.run import Job
from lcc.export.texts import as_references


class Omega(StreamEngine):
    """Omega's records.  What is no text is there with its URL and type."""

    def wants(self, row: Mapping[str, Any]) -> bool:
        return True

    def document(self, job: Job, name: str, document: Document, sink: Sink) -> None:
        page = document.page
        fields = {
            "id": name,
            "url": page.burl or page.curl,
            "curl": page.curl,
            "pid": page.pid,
            "type": page.mimetype,
            "subtype": page.subtype,
            "title": document.title,
            "modtime": page.mtime if page.mtime is not None else page.fetched_time,
            "size": document.size_bytes,
        }
        for field, value in fields.items():
            if value is not None and value != "":
                sink.write(f"{field}={_one_line(str(value))}\n".encode())
        if page.kind == "text":
            sink.write(b"text=")
            for piece in _continued(document.text()):
                sink.write(piece.encode())
            sink.write(b"\n")
        elif page.kind != "other":
            sink.write(b"html=")
            for piece in _continued(document.text()):
                sink.write(as_references(piece))
            sink.write(b"\n")
        sink.write(b"\n")

    def gone(self, job: Job, name: str, sink: Sink) -> None:
        sink.write(f"id={name}\n\n".encode())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _continued(pieces: Iterator[str]) -> Iterator[str]:
    for piece in pieces:
        yield piece.replace("\r", " ").replace("\n", "\n=")
