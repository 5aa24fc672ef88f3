"""What a stream may cost: what is logged, what expat reads, what stays in memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.parsers import expat

from twisted.logger import LogEvent, LogLevel, formatEvent

from lcc.protocols import xmlfeed


class ErrorLog:
    """A log observer: keeps what should not have been logged.

    :ivar allowed: texts of errors that are no failures of the program, but what it says of a peer.
    """

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        self._faults: list[str] = []

    def __call__(self, event: LogEvent) -> None:
        level = event.get("log_level")
        failure = event.get("log_failure")
        if failure is None and not event.get("isError") and (level is None or level < LogLevel.error):
            return
        text = formatEvent(event)
        if failure is None and any(allowed in text for allowed in self.allowed):
            return
        self._faults.append(f"{text}\n{failure.getTraceback() if failure is not None else ''}".strip())

    def take(self) -> list[str]:
        """What was logged since it was asked last."""
        faults, self._faults = self._faults, []
        return faults


class Work:
    """What expat has to read.

    :ivar scanned_bytes: all that was given to it, and all of an incomplete token that it has to look at again.
    :ivar documents: parsers made.
    """

    def __init__(self) -> None:
        self.scanned_bytes = 0
        self.documents = 0

    def reset(self) -> None:
        """Count from here on."""
        self.scanned_bytes = self.documents = 0


class _Parser:
    """A parser of expat's that counts.  Its own type cannot be derived from."""

    def __init__(self, work: Work, *arguments: Any) -> None:
        vars(self).update(_parser=expat.ParserCreate(*arguments), _work=work, _fed=0)
        work.documents += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._parser, name, value)

    def Parse(self, data: bytes, final: bool) -> int:
        pending = self._fed - max(0, self._parser.CurrentByteIndex) if self._fed else 0
        vars(self)["_fed"] += len(data)
        self._work.scanned_bytes += pending + len(data)
        return self._parser.Parse(data, final)  # type: ignore[no-any-return]


class _Expat:
    """In place of the module."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __getattr__(self, name: str) -> Any:
        return getattr(expat, name)

    def ParserCreate(self, *arguments: Any) -> _Parser:
        return _Parser(self._work, *arguments)


@contextmanager
def counted_work() -> Iterator[Work]:
    """All feeds that are made within count."""
    work = Work()
    real = xmlfeed.expat
    xmlfeed.expat = _Expat(work)  # type: ignore[assignment]
    try:
        yield work
    finally:
        xmlfeed.expat = real


class Memory:
    """What is held, as Python's allocator sees it.  Costs much time: for samples."""

    def __init__(self) -> None:
        tracemalloc.start()
        self._before = self._base = 0

    def warm(self) -> None:
        """What there is now will stay."""
        self._base = self._held()

    def begin(self) -> None:
        """A stream begins."""
        self._before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()

    def peak_bytes(self) -> int:
        """The most that was held beyond what there was when the stream began."""
        return tracemalloc.get_traced_memory()[1] - self._before

    def retained_bytes(self) -> int:
        """What has stayed since :meth:`warm`."""
        return self._held() - self._base

    def stop(self) -> None:
        """No longer."""
        tracemalloc.stop()

    @staticmethod
    def _held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
