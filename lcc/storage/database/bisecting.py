"""Work on many things, of which one may be such that it fails: it is found and set aside, the others are done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from twisted.internet.defer import CancelledError

from lcc.errors import Busy, StoreUnavailable

T = TypeVar("T")
A = TypeVar("A")

NOT_OF_ONE = (StoreUnavailable, Busy, CancelledError)
"""No fault of what was to be done: the database is away, another process owns it, this one ends."""


async def bisected(
    things: Sequence[T],
    work: Callable[[Sequence[T]], Awaitable[A]],
    alone: Callable[[T, Exception], Awaitable[A]],
) -> list[A]:
    """Do some work on these things; where it fails, on each half of them.

    :param work: is done on all of them that it is given, or on none; it may be done again.
    :param alone: is done instead with one on which it fails, and why.
    :raises StoreUnavailable, Busy: as ``work`` and ``alone`` do.
    """
    if not things:
        return []
    try:
        return [await work(things)]
    except NOT_OF_ONE:
        raise
    except Exception as error:
        if len(things) == 1:
            return [await alone(things[0], error)]
    middle = len(things) // 2
    return [*await bisected(things[:middle], work, alone), *await bisected(things[middle:], work, alone)]


def in_words(error: Exception) -> str:
    """What is wrong, for people; of a ValueError its text alone, which is made for them."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
