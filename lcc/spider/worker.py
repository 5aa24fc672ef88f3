"""An extraction worker: a process that reads pages, within limits of memory and time.

It reads pages at descriptor 0 and writes what it finds to descriptor 1 (:mod:`lcc.spider.messages`): those of
a message together, before the next one is looked at.  It ends with its parent, at the end of its input, and behind a
page for which its memory did not suffice.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from lcc.domain.fetches.robots_rules import AGENT
from lcc.feeds.plain import plain_text
from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.spider.extractors.extraction import Extraction
from lcc.spider.extractors.found import Document
from lcc.spider.extractors.html import HtmlExtractor, in_utf8
from lcc.spider.extractors.registry import extractors_by_type
from lcc.spider.messages import Frames, read_pages, write_links, write_types
from lcc.workers import linux

READ_BYTES = 1 << 20
_HTML = frozenset(HtmlExtractor.mimetypes)
_OPEN_FILES = 64
_PIPE_BYTES = 1 << 20
_HELD_SECONDS = 0.05
_HELD_BYTES = 1 << 16
"""Answers are held back until there are as many, or the first of them is so old."""
_YOUNG_OBJECTS = 10_000
"""Made between looks for garbage: a page makes hundreds, and hardly any of them is garbage then."""


class OutOfMemory(Exception):
    """A page took more memory than there may be.

    :ivar answer: what is said of it.
    """

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


class Worker:
    """Answers messages; no process of its own is needed for that.

    :param extractors: names of those to use (:func:`lcc.spider.extractors.registry.extractors_by_type`).
    :param robot: as :class:`lcc.spider.extractors.extraction.Extraction`.
    """

    def __init__(self, limits: ExtractionLimits, extractors: Sequence[str] = (), robot: str = AGENT.lower()) -> None:
        by_type = extractors_by_type(extractors)
        self.limits = limits
        self.robot = robot
        self.types: Iterable[str] = by_type.keys() | ({"text/plain"} if limits.page_chars else ())
        self._extraction = Extraction(by_type, limits, robot)
        self._frames = Frames()
        self._heads: bytes | None = None

    def greeting(self) -> bytes:
        """What it says first."""
        return write_types(self.types)

    def receive(self, data: bytes) -> Iterator[Iterator[bytes]]:
        """For each message that is complete with this data its answers, page by page.

        :raises BadFrame, ValueError: it is no message; so do the answers.
        """
        for each in self._frames.receive(data):
            if self._heads is None:
                self._heads = each
            else:
                heads, self._heads = self._heads, None
                yield self._answers(heads, each)

    def _answers(self, heads: bytes, contents: bytes) -> Iterator[bytes]:
        """
        :raises OutOfMemory: a page took too much; no more can be read.
        """
        for document in read_pages(heads, contents):
            try:
                yield write_links(self.links(document))
            except MemoryError:
                reason = f"it takes more than {self.limits.memory_bytes >> 20} MiB of memory"
                raise OutOfMemory(write_links(PageLinks(base=document.url, failed=True, faults=(reason,)))) from None

    def links(self, document: Document) -> PageLinks:
        """What is found in a document."""
        found = self._extraction.links(document)
        if not self.limits.page_chars or not document.content:
            return found
        if document.mimetype in _HTML:
            markup = in_utf8(document.content, document.charset)[0].decode()
            plain = plain_text(markup, self.limits.page_chars, seconds=self.limits.parse_seconds)
            return found._replace(title=plain.title, text=plain.text)
        if document.mimetype == "text/plain":
            text = in_utf8(document.content, document.charset)[0].decode("utf-8", "replace")
            return found._replace(text=text[: self.limits.page_chars].strip())
        return found


def main(settings: str, make: type[Worker] = Worker) -> None:
    """Answer until there are no more messages."""
    linux.die_with_parent()
    linux.gain_nothing()
    told = json.loads(settings)
    limits = ExtractionLimits(*told["limits"])
    worker = make(limits, told["extractors"], told["robot"])
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_AS, limits.memory_bytes),
    ):
        limit(kind, value, for_good=True)
    for descriptor in (0, 1):
        with suppress(OSError):  # a user may have only so much of pipes
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
    _write(worker.greeting())
    answers = _Answers()
    while True:
        _limit_time(limits.cpu_seconds)
        data = os.read(0, READ_BYTES)
        if not data:
            return
        try:
            for message in worker.receive(data):
                for answer in message:
                    answers.add(answer)
                    _limit_time(limits.cpu_seconds)
                answers.write()
        except OutOfMemory as error:
            answers.add(error.answer)
            answers.write()
            return


class _Answers:
    """Writes many answers at once: each write wakes the spider."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._since = 0.0

    def add(self, answer: bytes) -> None:
        now = time.monotonic()
        if not self._held:
            self._since = now
        self._held.append(answer)
        self._size += len(answer)
        if self._size >= _HELD_BYTES or now - self._since >= _HELD_SECONDS:
            self.write()

    def write(self) -> None:
        _write(b"".join(self._held))
        self._held = []
        self._size = 0


def limit(kind: int, value: int, *, for_good: bool = False) -> None:
    """Set a limit of this process; one that it was started with is not exceeded.

    :param for_good: it cannot be raised again.
    """
    now, most = resource.getrlimit(kind)
    value = value if most == resource.RLIM_INFINITY else min(value, most)
    if for_good or now != value:
        resource.setrlimit(kind, (value, value if for_good else most))


def _limit_time(seconds: int) -> None:
    """Let the kernel end the process when the next page takes more of the processor's time."""
    limit(resource.RLIMIT_CPU, int(time.process_time()) + 1 + seconds)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main(sys.argv[1])
