"""What is fuzzed without a connection: readers that are given a whole document, header, query or token."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import attrs
from twisted.internet.task import Clock

from tests.fuzz.target import Target, check, joined
from tests.support.transports import Line

CPU_SECONDS_MAX = 10.0
"""What the longest stream may cost; a reader whose time grows with the square of the length takes minutes."""
_HALVES = re.compile("[\ud800-\udfff]").search


class DocumentTarget(Target):
    """A reader; each stream is a document of its own.

    :cvar sample: what an honest document is.
    """

    share = 4
    streams = 50
    sample: ClassVar[bytes]

    def __init__(self, home: Path) -> None:
        self.clock = Clock()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        raise NotImplementedError

    def play(self, random: Random, pieces: Sequence[bytes]) -> Line | None:
        begun = time.thread_time()
        self.read(random, joined(pieces), pieces)
        spent = time.thread_time() - begun
        check(spent < CPU_SECONDS_MAX, f"it took {spent:.0f} seconds of the processor")
        return None

    @abstractmethod
    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        """Read it, and look at what comes out.

        :param pieces: the same, as it might be cut.
        :raises AssertionError: what comes out is not what may.
        """


def check_texts(value: Any) -> None:
    """All texts of a value can be stored and sent: they have no halves of characters.

    :raises AssertionError: one has.
    """
    if isinstance(value, str):
        check(not _HALVES(value), f"a text that is no Unicode came out: {value[:200]!r}")
    elif attrs.has(type(value)):
        for each in attrs.astuple(value, recurse=False):
            check_texts(each)
    elif isinstance(value, Mapping):
        for item in value.items():
            check_texts(item)
    elif isinstance(value, list | tuple):
        for each in value:
            check_texts(each)
