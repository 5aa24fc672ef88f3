"""Extraction without processes: workers of a pool that run where it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.spider.extractors.found import Document
from lcc.spider.worker import OutOfMemory, Worker


class _Died(Exception):
    """A document has ended the worker."""


class InlineWorker:
    """A worker as its pool sees it (``IProcessTransport``): it answers on a later turn of the reactor.

    :param clock: the reactor.
    :param doomed: whether a content ends it, instead of being looked at.
    :param takes: gives the seconds that the next message takes it.
    :param make: its kind.
    """

    def __init__(
        self,
        clock: Any,
        protocol: ProcessProtocol,
        limits: ExtractionLimits,
        extractors: Sequence[str] = (),
        doomed: Callable[[bytes], bool] = lambda _: False,
        takes: Callable[[], float] = lambda: 0.0,
        make: type[Worker] = Worker,
    ) -> None:
        class Doomed(make):  # type: ignore[valid-type, misc]
            def links(self, document: Document) -> PageLinks:
                if doomed(document.content):
                    raise _Died
                found: PageLinks = super().links(document)
                return found

        self._clock = clock
        self._takes = takes
        self._free_at = 0.0
        self._protocol = protocol
        self._worker: Worker = Doomed(limits, extractors)
        self._alive = True
        clock.callLater(0, self._say, self._worker.greeting())

    def write(self, data: bytes) -> None:
        """Answer this, behind what came before."""
        now = self._clock.seconds()
        self._free_at = max(now, self._free_at) + self._takes()
        self._clock.callLater(self._free_at - now, self._answer, data)

    def signalProcess(self, signal: str) -> None:
        """End, whatever the signal."""
        if not self._alive:
            raise ProcessExitedAlready
        self._end(ProcessTerminated(signal=9))

    def _say(self, data: bytes) -> None:
        if self._alive:
            self._protocol.outReceived(data)

    def _answer(self, data: bytes) -> None:
        if not self._alive:
            return
        try:
            for message in self._worker.receive(data):
                for answer in message:
                    self._say(answer)
        except OutOfMemory as error:
            self._say(error.answer)
            self._end(ProcessDone(0))
        except _Died:
            self._end(ProcessTerminated(signal=11))

    def _end(self, reason: Exception) -> None:
        self._alive = False
        self._clock.callLater(0, self._protocol.processEnded, Failure(reason))
