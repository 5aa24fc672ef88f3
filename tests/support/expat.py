"""What expat has to read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.parsers import expat

from lcc.protocols import xmlfeed


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
