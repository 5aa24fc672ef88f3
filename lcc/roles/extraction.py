"""Links and texts of pages, found in processes with limits.

What it owns
    Some workers (:mod:`lcc.spider.worker`), and the pages that wait for one.

Strategy
    A worker gets some pages at a time, the next ones before it has done these.

Failures
    *A page ends its worker, or takes too long* (then the worker is killed): which of its message that was, nobody
    knows, so these pages are sent again one by one.  The page that ends its worker then is tried once more, since it
    may have been somebody else's kill.  Then it is set aside: its answer is ``failed``, and the log names it.  All
    others have their links.  *A worker cannot be started*: tried again after a delay that
    grows; the pages wait.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.fetches.robots_rules import AGENT
from lcc.model.spider.links import ExtractionLimits, Page, PageLinks
from lcc.spider.messages import BadFrame, Frames, read_links, read_types, write_pages
from lcc.workers.launch import python_process

_log = Logger()

PAGES_AT_ONCE = 32
BYTES_AT_ONCE = 1 << 20
"""What a worker is sent in one message, about; it has two at a time."""
ATTEMPTS = 2
START_SECONDS = 60.0
"""A worker that has not begun by then is killed."""
RESTART_SECONDS = 1.0
RESTART_SECONDS_MAX = 60.0
_ERROR_LINE_BYTES_MAX = 2000

Spawn = Callable[[ProcessProtocol], Any]
"""Starts a worker with this protocol at its descriptors 0 to 2; gives its ``IProcessTransport``."""


def spawn_by(
    reactor: Any,
    limits: ExtractionLimits,
    extractors: Sequence[str] = (),
    robot: str = AGENT.lower(),
    module: str = "lcc.spider.worker",
) -> Spawn:
    """Starts real processes.

    :param extractors, robot: as :class:`lcc.spider.worker.Worker`.
    :param module: the worker's.
    """
    settings = {"limits": list(limits), "extractors": list(extractors), "robot": robot}
    command, environment = python_process(module, json.dumps(settings))
    environment["PATH"] = os.environ.get("PATH", os.defpath)  # of pdfinfo

    def spawn(protocol: ProcessProtocol) -> Any:
        return reactor.spawnProcess(protocol, command[0], command, environment, "/")

    return spawn


class _Asked:
    """Pages that were asked for together."""

    def __init__(self, count: int) -> None:
        self.results = [PageLinks()] * count
        self.left = count
        self.deferred: Deferred[list[PageLinks]] = Deferred(lambda _: None)

    def answer(self, index: int, links: PageLinks) -> None:
        self.results[index] = links
        self.left -= 1
        if not self.left and not self.deferred.called:
            self.deferred.callback(self.results)


class _Entry:
    """A page that waits for its links."""

    __slots__ = ("alone", "asked", "attempts", "index", "page")

    def __init__(self, page: Page, asked: _Asked, index: int) -> None:
        self.page = page
        self.asked = asked
        self.index = index
        self.attempts = 0
        self.alone = False


class ExtractionPool:
    """Extracts links.  ``start`` it, and ``stop`` it.

    :param clock: the reactor, for its timers.
    :param spawn: starts a worker (:func:`spawn_by`).
    :param limits: of a page; the worker has its own copy of them.
    :param workers: how many there are.
    :param section: of the configuration, where their limits are.
    :ivar pages: whose links were found.
    :ivar set_aside: pages whose links cannot be found, because they ended their worker.
    :ivar deaths: of workers that were not told to end.
    """

    def __init__(
        self, clock: Any, spawn: Spawn, limits: ExtractionLimits, workers: int, section: str = "spider"
    ) -> None:
        self.section = section
        self._clock = clock
        self._spawn = spawn
        self._limits = limits
        self._queue: deque[_Entry] = deque()
        self._slots = [_Slot(self) for _ in range(workers)]
        self._running = False
        self.pages = 0
        self.set_aside = 0
        self.deaths = 0

    @property
    def waiting(self) -> int:
        """Pages that no worker has yet."""
        return len(self._queue)

    def start(self) -> None:
        """Start the workers."""
        self._running = True
        for slot in self._slots:
            slot.start()

    def stop(self) -> Deferred[Any]:
        """End them; what was asked for is cancelled."""
        self._running = False
        for entry in self._queue:
            entry.asked.deferred.cancel()
        self._queue.clear()
        return DeferredList([slot.stop() for slot in self._slots])

    def extract(self, pages: Sequence[Page]) -> Deferred[list[PageLinks]]:
        """The links of each of these pages, in their order.  It may be cancelled."""
        asked = _Asked(len(pages))
        if not pages:
            asked.deferred.callback([])
        self._queue.extend(_Entry(page, asked, index) for index, page in enumerate(pages))
        self._distribute()
        return asked.deferred

    # Used by the slots.

    @property
    def clock(self) -> Any:
        return self._clock

    @property
    def limits(self) -> ExtractionLimits:
        return self._limits

    @property
    def is_running(self) -> bool:
        return self._running

    def spawn(self, protocol: ProcessProtocol) -> Any:
        return self._spawn(protocol)

    def found(self, entry: _Entry, links: PageLinks) -> None:
        self.pages += 1
        entry.asked.answer(entry.index, links)

    def blame(self, entry: _Entry, reason: str) -> None:
        """A worker has stopped at this page."""
        entry.attempts += 1
        entry.alone = True
        if entry.attempts < ATTEMPTS:
            self._queue.appendleft(entry)
            return
        self.set_aside += 1
        _log.warn(
            "Cannot read {url} (change {change}): {reason}; the page is set aside",
            url=entry.page.url,
            change=entry.page.row.change,
            reason=reason,
        )
        entry.asked.answer(entry.index, PageLinks(base=entry.page.url, failed=True, faults=(reason,)))

    def give_back(self, entries: Iterable[_Entry]) -> None:
        """Other workers are to have them, before all others."""
        self._queue.extendleft(reversed([*entries]))

    def distribute(self) -> None:
        self._distribute()

    def _distribute(self) -> None:
        while self._queue:
            ready = [slot for slot in self._slots if slot.takes_pages]
            if not ready:
                return
            slot = min(ready, key=lambda each: len(each.outstanding))
            slot.send(self._next_pages(slot.types, max(1, len(self._queue) // len(self._slots))))

    def _next_pages(self, types: frozenset[str], most: int) -> list[_Entry]:
        """As many as one message takes; what nobody would look at is answered at once."""
        chosen: list[_Entry] = []
        size = 0
        while self._queue and len(chosen) < min(most, PAGES_AT_ONCE) and size < BYTES_AT_ONCE:
            if self._queue[0].alone and chosen:
                break
            entry = self._queue.popleft()
            if entry.asked.deferred.called:
                continue  # cancelled
            row = entry.page.row
            if row.mimetype not in types and not row.headers:
                self.found(entry, PageLinks(base=entry.page.url))
                continue
            chosen.append(entry)
            if entry.alone:
                break
            size += len(entry.page.content)
        return chosen


class _Slot:
    """The place of one worker.

    :ivar outstanding: the pages that it has, in order.
    :ivar types: that it reads.
    """

    def __init__(self, pool: ExtractionPool) -> None:
        self._pool = pool
        self._process: Any = None
        self._ended: Deferred[None] | None = None
        self._call: Any = None
        self._failures = 0
        self._since = 0.0
        self._messages: deque[int] = deque()
        self._reason = ""
        self._ready = False
        self._answers = 0
        self._gave_up = False
        self._killed = False
        self.outstanding: deque[_Entry] = deque()
        self.types: frozenset[str] = frozenset()

    @property
    def takes_pages(self) -> bool:
        """It has at most one message to answer."""
        return self._ready and len(self._messages) < 2

    def start(self) -> None:
        self._call = None
        self._ready = False
        self._reason = ""
        self._answers = 0
        self._gave_up = False
        self._killed = False
        self._since = self._pool.clock.seconds()
        self._ended = Deferred()
        try:
            self._process = self._pool.spawn(_Protocol(self))
        except OSError as error:
            self._ended = None
            self._delay(f"cannot be started: {error.strerror or error}")
            return
        self._watch()

    def stop(self) -> Deferred[None]:
        for entry in self.outstanding:
            entry.asked.deferred.cancel()
        self.outstanding.clear()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._ended is None:
            done: Deferred[None] = Deferred()
            done.callback(None)
            return done
        self._kill("")
        return self._ended

    def send(self, entries: Sequence[_Entry]) -> None:
        if not entries:
            return
        if not self.outstanding:
            self._since = self._pool.clock.seconds()
        self.outstanding.extend(entries)
        self._messages.append(len(entries))
        self._process.write(write_pages([each.page for each in entries], self.types, self._pool.limits))

    # What the worker says.

    def answered(self, frame: bytes) -> None:
        """A frame has come.

        :raises ValueError: it is no answer.
        """
        if self._killed:
            return
        if not self._ready:
            self.types = read_types(frame)
            self._ready = True
            self._call.cancel()
            self._watch()
        else:
            if not self.outstanding:
                raise ValueError("an answer that nobody has asked for")
            links = read_links(frame)
            entry = self.outstanding.popleft()
            self._answers += 1
            self._since = self._pool.clock.seconds()
            self._messages[0] -= 1
            if not self._messages[0]:
                self._messages.popleft()
            self._gave_up = links.failed
            if links.failed:
                self._pool.blame(entry, links.faults[0] if links.faults else "it failed")
            else:
                self._failures = 0
                self._pool.found(entry, links)

    def read(self) -> None:
        """All that has come is read."""
        self._pool.distribute()

    def broken(self, error: Exception) -> None:
        self._kill(f"no answer: {error}")

    def ended(self, reason: Failure) -> None:
        done, self._ended = self._ended, None
        self._process = None
        self._ready = False
        suspects = self._messages[0] if self._messages else 0
        self._messages.clear()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        entries, self.outstanding = self.outstanding, deque()
        why = self._reason or reason.getErrorMessage()
        if self._pool.is_running:
            self._pool.deaths += 1
            if self._gave_up:
                suspects = 0  # it has said at which page it ends
            blamed = entries.popleft() if suspects == 1 else None
            for entry in islice(entries, suspects):
                entry.alone = True
            self._pool.give_back(entries)
            if blamed is not None:
                self._pool.blame(blamed, f"its worker ended: {why}")
            if self._answers:
                self.start()
            else:
                self._delay(why)
        if done is not None:
            done.callback(None)

    def _delay(self, why: str) -> None:
        """Start again later; once may have been somebody's kill."""
        delay = min(RESTART_SECONDS * 2**self._failures, RESTART_SECONDS_MAX)
        self._failures = min(self._failures + 1, 10)
        if self._failures == 2:
            _log.error(
                "Extraction workers end without an answer: {why}.  Pages wait.  Next: see the workers' own lines "
                "above; raise [{section}] worker_memory_bytes if they speak of memory",
                why=why,
                section=self._pool.section,
            )
        else:
            _log.warn("An extraction worker ended: {why}; starting another in {delay:g} s", why=why, delay=delay)
        self._call = self._pool.clock.callLater(delay, self.start)

    def _watch(self) -> None:
        """Look whether a page takes too long."""
        limit = self._pool.limits.page_seconds if self._ready else START_SECONDS
        waited = self._pool.clock.seconds() - self._since if self.outstanding or not self._ready else 0.0
        if waited >= limit:
            self._call = None
            self._kill(f"more than {limit:g} s")
            return
        self._call = self._pool.clock.callLater(limit - waited, self._watch)

    def _kill(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._ready = False
        self._killed = True
        with suppress(ProcessExitedAlready):
            self._process.signalProcess("KILL")


class _Protocol(ProcessProtocol):
    """A worker's descriptors."""

    def __init__(self, slot: _Slot) -> None:
        self._slot = slot
        self._frames = Frames()
        self._errors = b""
        self._broken = False

    def outReceived(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            for frame in self._frames.receive(data):
                self._slot.answered(frame)
        except (BadFrame, ValueError) as error:
            self._broken = True
            self._slot.broken(error)
        else:
            self._slot.read()

    def errReceived(self, data: bytes) -> None:
        *lines, self._errors = (self._errors + data).split(b"\n")
        self._errors = self._errors[:_ERROR_LINE_BYTES_MAX]
        for line in lines:
            _log.warn("Extraction worker: {line}", line=line[:_ERROR_LINE_BYTES_MAX].decode("utf-8", "replace"))

    def processEnded(self, reason: Failure) -> None:
        self._slot.ended(reason)
