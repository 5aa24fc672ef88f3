"""Questions to several sub-LCCs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, DeferredList

from lcc.errors import StoreUnavailable
from lcc.roles.cu.tokens import StartAgain


async def outcomes(asking: Sequence[Deferred[Any]]) -> list[Any]:
    """What all of these give; None: that sub-LCC cannot be reached."""
    found: list[tuple[bool, Any]] = await DeferredList(asking, consumeErrors=True)
    for good, outcome in found:
        if not good and not outcome.check(StoreUnavailable):
            outcome.raiseException()
    return [outcome if good else None for good, outcome in found]


async def all_of(asking: Sequence[Deferred[Any]]) -> list[Any]:
    """What all of these give.

    :raises StoreUnavailable: a sub-LCC cannot be reached.
    """
    found: list[tuple[bool, Any]] = await DeferredList(asking, consumeErrors=True)
    for good, outcome in found:
        if not good:
            outcome.raiseException()
    return [outcome for _, outcome in found]


def choose_home(own: Sequence[int], missing: Sequence[str]) -> None:
    """Make sure that the token of a single LCC is of one of these.

    :param own: numbers of the sub-LCCs that know it.
    :param missing: names of those that cannot be reached.
    :raises StartAgain, StoreUnavailable: it is not, as far as is known.
    """
    if not own and missing:
        raise StoreUnavailable(f"this token may be of sub-LCC {', '.join(missing)}, which cannot be reached")
    if len(own) != 1:
        raise StartAgain("this token is of another LCC")
