"""OpenSearch and Elasticsearch: what their ``_bulk`` reads.  They know a page by its key."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lcc.export.consumers import Sink
from lcc.export.contents import Document
from lcc.export.engines.streams import ConsumerFor, StreamEngine
from lcc.export.run import Job


class NdJson(StreamEngine):
    """Actions and documents, a line each.

    Text is in ``content`` as it is, HTML included; what is no text has no content, or with ``all_types`` is in
    ``data``, in base64, as the ingest pipeline "attachment" wants it.

    :param index: the name of the index; None: the address that the lines are sent to says it.
    """

    def __init__(
        self, consumer_for: ConsumerFor, all_types: bool, batch_bytes: int | None, index: str | None
    ) -> None:
        super().__init__(consumer_for, all_types, batch_bytes)
        self._index = index

    def wants(self, row: Mapping[str, Any]) -> bool:
        return True

    def document(self, job: Job, name: str, document: Document, sink: Sink) -> None:
        page = document.page
        sink.write(self._action("index", name))
        fields = {
            "url": page.burl or page.curl,
            "curl": page.curl,
            "provider": page.pid,
            "mimetype": page.mimetype,
            "subtype": page.subtype,
            "title": document.title,
            "modified": None if page.mtime is None else page.mtime * 1000,
            "fetched": None if page.fetched_time is None else page.fetched_time * 1000,
            "size": document.size_bytes,
        }
        said = {field: value for field, value in fields.items() if value is not None and value != ""}
        sink.write(json.dumps(said, ensure_ascii=False)[:-1].encode())
        if page.kind != "other":
            sink.write(b', "content": "')
            for piece in document.text():
                sink.write(json.dumps(piece)[1:-1].encode())
            sink.write(b'"')
        elif self.all_types:
            sink.write(b', "data": "')
            for data in _in_threes(document.raw()):
                sink.write(base64.b64encode(data))
            sink.write(b'"')
        sink.write(b"}\n")

    def gone(self, job: Job, name: str, sink: Sink) -> None:
        sink.write(self._action("delete", name))

    def _action(self, action: str, name: str) -> bytes:
        target = {"_id": name} if self._index is None else {"_index": self._index, "_id": name}
        return json.dumps({action: target}).encode() + b"\n"


def _in_threes(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces whose lengths are multiples of three, so that their base64 can be put together."""
    rest = b""
    for piece in pieces:
        piece = rest + piece
        whole = len(piece) - len(piece) % 3
        yield piece[:whole]
        rest = piece[whole:]
    yield rest
