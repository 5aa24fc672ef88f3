"""What is fuzzed: one end of one wire, in a world that serves many streams, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from twisted.internet.task import Clock

from tests.fuzz.mutation import TOKENS
from tests.support.transports import Line

HOSTILE = "192.0.2.66"
"""Where the hostile peers are."""
_ROOMS = (None, None, None, 0, 4096)


class Target(ABC):
    """One end of one wire.

    :cvar name: as it stands in the results.
    :cvar share: of all streams, as a weight.
    :cvar streams: how many one world serves.
    :cvar allowed: texts of logged errors that are meant for the operator.
    :cvar engine_timers: timers that the end may have without any connection, beyond those that it began with.
    :cvar patience_seconds: a silent peer is left alone with the end for this long.
    :cvar tokens: what is put into its streams.
    """

    name: ClassVar[str]
    share: ClassVar[int] = 4
    streams: ClassVar[int] = 100
    allowed: ClassVar[tuple[str, ...]] = ()
    engine_timers: ClassVar[int] = 0
    patience_seconds: ClassVar[float] = 40.0
    tokens: ClassVar[Sequence[bytes]] = TOKENS
    clock: Clock

    @classmethod
    @abstractmethod
    def seeds(cls) -> list[bytes]:
        """What honest peers say."""

    @abstractmethod
    def __init__(self, home: Path) -> None:
        """Make the world.

        :param home: an empty folder.
        """

    def settle(self) -> None:
        """Let happen what is due now."""
        self.clock.advance(0)

    @abstractmethod
    def connect(self, room: int | None = None, late: bool = False) -> Line:
        """A hostile peer's connection."""

    @abstractmethod
    def honest(self) -> None:
        """An honest peer is served.

        :raises AssertionError: it is not.
        """

    def close(self) -> None:
        """The end of the world; nothing may be left but on the disk."""
        self.settle()

    def rest(self) -> None:
        """A connection is gone: what the end still does because of it is soon over."""
        self.settle()

    def timers(self) -> int:
        """Timers that are running."""
        return len(self.clock.getDelayedCalls())

    def play(self, random: Random, pieces: Sequence[bytes]) -> Line | None:
        """A hostile stream from its beginning to its end.

        :returns: the connection, which is closed.
        """
        line = self.connect(random.choice(_ROOMS), random.random() < 0.3)
        self.talk(random, line, pieces)
        how = random.random()
        if how < 0.4:
            line.half_close()
        elif how < 0.5:
            self.pass_time(self.patience_seconds)
        elif how < 0.6:
            line.read()
        line.turn()
        line.lose()
        return line

    def talk(self, random: Random, line: Line, pieces: Sequence[bytes]) -> None:
        """The peer says this."""
        line.say(pieces)

    def pass_time(self, seconds: float) -> None:
        """Let time go by."""
        step = seconds / 8
        for _ in range(8):
            self.clock.advance(step)
            self.settle()


def joined(pieces: Sequence[bytes]) -> bytes:
    """A stream as a whole.  (``b"".join`` takes 80 bytes for each piece: of many, more than an end may hold.)"""
    whole = bytearray()
    for piece in pieces:
        whole += piece
    return bytes(whole)


def check(condition: Any, what: str) -> None:
    """For :meth:`Target.honest`.

    :raises AssertionError: the condition does not hold.
    """
    if not condition:
        raise AssertionError(what)
