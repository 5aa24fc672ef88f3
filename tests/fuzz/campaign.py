"""One world of streams: plays them, and looks at what must hold for each.

* No exception reaches the transport, and none the log.
* What the end keeps is bounded: for a peer that does not read (each stream), as a whole (samples).
* What expat reads is bounded by what the peer sends (samples).
* When the connection is gone, so are its timers.
* Honest peers are served by the same end afterwards (after every few streams, and at the world's end).
"""

from __future__ import annotations

import gc
import hashlib
import traceback
from pathlib import Path
from random import Random

import attrs

from tests.fuzz.mutation import mutate, segment
from tests.fuzz.target import Target
from tests.support.expat import Work, counted_work

from .watching import ErrorLog, Memory

HONEST_EVERY = 8
"""Streams after which an honest peer comes."""
UNREAD_BYTES_MAX = 8 << 20
"""Held for a peer that does not read."""
PEAK_BYTES_MAX = 24 << 20
"""Beyond what there was before a stream, while it is played."""
RETAINED_BYTES_MAX = 1 << 20
"""Beyond what there was before the streams of a world, after them."""
SCANNED_PER_BYTE = 66
SCANNED_BYTES = 1 << 18
"""That expat reads for each byte of a stream, and besides: a token of the longest once."""
SCANNED_BYTES_PER_DOCUMENT = 65536 + 16384
"""The longest piece (what of it stands behind a document's end is given to each next document's parser), and what may
be read again of each (see xmlfeed)."""


@attrs.frozen
class Fault:
    """What must not be.

    :ivar number: of the stream.
    """

    target: str
    number: int
    what: str
    data: bytes = attrs.field(repr=False, default=b"")


@attrs.define
class Report:
    """What a world of streams came to.

    :ivar digest: of all that was sent and heard: the same streams give the same.
    :ivar peak_bytes, retained_bytes, scanned_ratio: of samples; the most that was seen.
    """

    target: str
    streams: int = 0
    sent_bytes: int = 0
    pieces: int = 0
    honest: int = 0
    faults: list[Fault] = attrs.field(factory=list)
    digest: str = ""
    sampled: int = 0
    peak_bytes: int = 0
    retained_bytes: int = 0
    scanned_ratio: float = 0.0


def play_world(
    kind: type[Target], home: Path, seed: str, first: int, count: int, errors: ErrorLog, sample: bool
) -> Report:
    """Make a world, and play these streams in it.

    :param first: number of the first stream.
    :param errors: observes the log.
    :param sample: also measure memory and work, which takes long.
    """
    report = Report(kind.name)
    errors.allowed = kind.allowed
    errors.flush()
    if not sample:
        _World(kind, home, seed, report, errors, None, None).play(first, count)
        return report
    with counted_work() as work:
        memory = Memory()
        try:
            _World(kind, home, seed, report, errors, memory, work).play(first, count)
        finally:
            memory.stop()
    return report


class _World:
    def __init__(
        self,
        kind: type[Target],
        home: Path,
        seed: str,
        report: Report,
        errors: ErrorLog,
        memory: Memory | None,
        work: Work | None,
    ) -> None:
        self._kind = kind
        self._home = home
        self._seed = seed
        self._report = report
        self._errors = errors
        self._memory = memory
        self._work = work
        self._hash = hashlib.sha256()
        self._seeds = kind.seeds()
        self._timers = 0

    def play(self, first: int, count: int) -> None:
        target = self._kind(self._home)
        self._timers = target.timers()
        self._honest(target, first)
        if self._memory is not None:
            # What is made once, and stays.
            for number in range(first, first + min(count, 10)):
                self._stream(target, number)
            self._memory.warm()
        for number in range(first, first + count):
            if self._memory is not None:
                self._measured(target, number)
            else:
                self._stream(target, number)
                self._report.streams += 1
            if (number + 1) % HONEST_EVERY == 0:
                self._honest(target, number)
        last = first + count - 1
        self._honest(target, last)
        try:
            target.close()
        except Exception:
            self._fault(last, f"the end does not end:\n{traceback.format_exc()}")
        left = target.timers()
        if left:
            self._fault(last, f"{left} timers are left at the end")
        del target
        gc.collect()  # a Deferred whose failure nobody took says so now
        self._logged(last, b"")
        self._report.digest = self._hash.hexdigest()

    def _measured(self, target: Target, number: int) -> None:
        report, memory, work = self._report, self._memory, self._work
        assert memory is not None and work is not None
        memory.begin()
        work.reset()
        data = self._stream(target, number)
        peak = memory.peak_bytes()
        report.peak_bytes = max(report.peak_bytes, peak)
        if peak > PEAK_BYTES_MAX:
            self._fault(number, f"{peak} bytes were held at once", data)
        allowed = SCANNED_PER_BYTE * len(data) + SCANNED_BYTES + work.documents * SCANNED_BYTES_PER_DOCUMENT
        report.scanned_ratio = max(report.scanned_ratio, work.scanned_bytes / allowed)
        if work.scanned_bytes > allowed:
            self._fault(number, f"expat read {work.scanned_bytes} bytes of {len(data)}", data)
        if (number + 1) % HONEST_EVERY == 0:
            retained = memory.retained_bytes()
            report.retained_bytes = max(report.retained_bytes, retained)
            if retained > RETAINED_BYTES_MAX:
                self._fault(number, f"{retained} bytes stay", data)
        report.sampled += 1
        report.streams += 1

    def _stream(self, target: Target, number: int) -> bytes:
        random = Random(f"{self._seed}/{self._kind.name}/{number}")
        data = mutate(random, self._seeds, self._kind.tokens)
        pieces = segment(random, data)
        try:
            line = target.play(random, pieces)
        except Exception:
            self._fault(number, f"an exception reached the transport:\n{traceback.format_exc()}", data)
        else:
            if line is not None:
                self._hash.update(line.heard)
                if not line.gone:
                    self._fault(number, "the connection is not closed", data)
                if line.unread_max > UNREAD_BYTES_MAX:
                    self._fault(number, f"{line.unread_max} bytes were held for a peer that does not read", data)
        target.rest()
        left = target.timers() - self._timers - target.engine_timers
        if left > 0:
            self._fault(number, f"{left} timers are left of the connection", data)
            self._timers += left
        self._logged(number, data)
        self._hash.update(data)
        self._report.sent_bytes += len(data)
        self._report.pieces += len(pieces)
        return data

    def _honest(self, target: Target, number: int) -> None:
        try:
            target.honest()
        except Exception:
            self._fault(number, f"an honest peer is not served:\n{traceback.format_exc()}")
        self._logged(number, b"")
        self._report.honest += 1

    def _logged(self, number: int, data: bytes) -> None:
        for text in self._errors.flush():
            self._fault(number, f"an error was logged: {text}", data)

    def _fault(self, number: int, what: str, data: bytes = b"") -> None:
        self._report.faults.append(Fault(self._kind.name, number, what, data))
