"""Engines that read all they need from one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from lcc.export.consumers import Consumer, Sink
from lcc.export.contents import Document
from lcc.export.pages import Page
from lcc.export.run import CHANGES, Job

ConsumerFor = Callable[[str], Consumer]
"""Who gets an export; the argument is its mode."""


class StreamEngine(ABC):
    """Writes document after document.

    :param consumer_for: who gets them.
    :param all_types: also what is no text.
    :param batch_bytes: after about so many, the consumer succeeds or fails before it gets the rest as another stream;
        None: one stream.
    """

    dated = False

    def __init__(self, consumer_for: ConsumerFor, all_types: bool = False, batch_bytes: int | None = None) -> None:
        self._consumer_for = consumer_for
        self.all_types = all_types
        self._batch_bytes = batch_bytes

    def name_of(self, row: Mapping[str, Any]) -> str:
        """Each page by itself, by its key."""
        return str(row["key"])

    def wants(self, row: Mapping[str, Any]) -> bool:
        return self.all_types or Page.of(row).kind != "other"

    @abstractmethod
    def document(self, job: Job, name: str, document: Document, sink: Sink) -> None:
        """Write a document."""

    @abstractmethod
    def gone(self, job: Job, name: str, sink: Sink) -> None:
        """Write that a document is gone, or nothing, where a consumer that begins anew need not know."""

    def ending(self) -> bytes:
        """What a stream of documents ends with."""
        return b""

    def hand_over(self, job: Job) -> None:
        sink = _Counting(self._consumer_for, job.mode)
        try:
            for name in job.state.pending():
                page = job.state.shown(name)
                if page is None:
                    self.gone(job, name, sink)
                else:
                    with job.contents.document(name, page) as document:
                        if document is not None:
                            self.document(job, name, document, sink)
                        elif name not in job.contents.held_over:
                            self.gone(job, name, sink)
                if self._batch_bytes is not None and sink.size_bytes >= self._batch_bytes:
                    self._close(sink)
            self._close(sink)
        except BaseException:
            sink.abort()
            raise

    def _close(self, sink: _Counting) -> None:
        if sink.size_bytes:
            sink.write(self.ending())
            sink.close()


class _Counting:
    """Opens the consumer at the first byte, and counts.  After a first stream in full come changes to it."""

    def __init__(self, consumer_for: ConsumerFor, mode: str) -> None:
        self._consumer_for = consumer_for
        self._mode = mode
        self._consumer: Consumer | None = None
        self._sink: Sink | None = None
        self.size_bytes = 0

    def write(self, data: bytes) -> None:
        if self._sink is None:
            self._consumer = self._consumer_for(self._mode)
            self._sink = self._consumer.open()
        self._sink.write(data)
        self.size_bytes += len(data)

    def close(self) -> None:
        assert self._consumer is not None
        self._consumer.close()
        self._mode = CHANGES
        self._consumer, self._sink = None, None
        self.size_bytes = 0

    def abort(self) -> None:
        if self._consumer is not None:
            self._consumer.abort()
