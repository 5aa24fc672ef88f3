"""SWISH-E: what ``swish-e -S prog -i stdin`` reads.

It knows a page by its URL.  Debian's has no incremental mode: changes are indexed by themselves and merged into the
index, where of two documents of one name the one with the later date stays.  So each document gets a date that is
later than that of the one before, and what is gone becomes an empty document, which no word finds.

It cannot make an index without a word.  So each export ends with a document that has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcc.export.consumers import Sink
from lcc.export.contents import Document
from lcc.export.engines.streams import StreamEngine
from lcc.export.run import Job

MARK_NAME, MARK_WORD = "lcc:export", "lccexport"
"""The last document."""
_TYPES = {"html": "HTML*", "xml": "XML*", "text": "TXT*"}


class SwishE(StreamEngine):
    """SWISH-E's documents."""

    dated = True

    def name_of(self, row: Mapping[str, Any]) -> str:
        return str(row["curl"])

    def document(self, job: Job, name: str, document: Document, sink: Sink) -> None:
        with document.converted() as (file, size_bytes):
            sink.write(self._head(job, name, size_bytes, _TYPES.get(document.page.kind)))
            while piece := file.read(1 << 16):
                sink.write(piece)

    def gone(self, job: Job, name: str, sink: Sink) -> None:
        if not job.full:
            sink.write(self._head(job, name, 0, "TXT*"))

    def ending(self) -> bytes:
        return (
            f"Path-Name: {MARK_NAME}\nContent-Length: {len(MARK_WORD)}\nDocument-Type: TXT*\n\n{MARK_WORD}".encode()
        )

    def _head(self, job: Job, name: str, size_bytes: int, kind: str | None) -> bytes:
        lines = [f"Path-Name: {name}", f"Content-Length: {size_bytes}", f"Last-Mtime: {job.state.stamped(name) or 0}"]
        if kind is not None:
            lines.append(f"Document-Type: {kind}")
        return "\n".join([*lines, "", ""]).encode()
