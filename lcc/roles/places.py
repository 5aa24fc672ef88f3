"""What is done at servers of strangers, so much at once: asking callbacks, hubs, key files, delivering.

A slow or dead server does not keep others waiting: what failed last has places of its own, and of one share (a site,
a hub, who asked) so much is done at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy, StoreUnavailable
from lcc.roles.background import Background

_log = Logger()


class _Work(Protocol):
    """A row of something to do."""

    @property
    def id(self) -> Hashable:
        """What it is known by."""

    @property
    def failures(self) -> int:
        """In succession."""


W = TypeVar("W", bound=_Work)


class Places(Generic[W]):
    """Does what is due.

    :param what: is done, as in "Cannot …".
    :param places: for so much at once, at least two; a quarter of them are for what has failed.
    :param due: ``due(failing, without, limit)`` reads what is due, the longest waiting first: of what has failed, or
        of the rest, and nothing of some shares.
    :param work: does it, and notes that it is done; what it raises is done again with a later tick.
    :param share: which share it is of; empty: it is of none.
    :param share_max: so much of one is done at once.
    :param lost: called with Busy where another process has claimed the tables.
    """

    def __init__(
        self,
        what: str,
        places: int,
        due: Callable[[bool, list[str], int], Deferred[list[W]]],
        work: Callable[[W], Coroutine[Any, Any, None]],
        share: Callable[[W], str],
        share_max: int,
        lost: Callable[[Failure], object] = lambda failure: None,
    ) -> None:
        self._what = what
        self._spare = max(1, places // 4)
        self._places = max(1, places - self._spare)
        self._due = due
        self._work = work
        self._share = share
        self._share_max = max(1, share_max)
        self._lost = lost
        self._running: dict[Hashable, tuple[W, Deferred[None]]] = {}
        self._shares: Counter[str] = Counter()
        self._ended: set[Hashable] = set()
        """What has ended since what is due is being read: it was read before that."""
        self._reading = Background(f"Cannot {what}", self._read_again, self._failed)
        self._asked_again = False
        self._stopped = False

    def tick(self) -> None:
        """Each second, and when something may be due."""
        if self._reading.busy:
            self._asked_again = True
        elif not self._stopped:
            self._asked_again = False
            self._reading.begin(self._begin_some())

    def stop(self) -> None:
        """End what is under way; it is done again."""
        self._stopped = True
        self._reading.cancel()
        for _, running in list(self._running.values()):
            running.cancel()

    async def _begin_some(self) -> None:
        self._ended.clear()
        for failing, places in ((False, self._places), (True, self._spare)):
            begun = True
            while begun and self._has_free(failing, places):
                begun = False
                full = sorted(share for share in self._shares if self._is_full(share))
                # What is under way is still due: as much more is asked for.
                for each in await self._due(failing, full, places + len(self._running)):
                    is_new = each.id not in self._running and each.id not in self._ended
                    if is_new and self._has_free(failing, places) and not self._is_full(self._share(each)):
                        begun = True
                        self._begin(each)

    def _has_free(self, failing: bool, places: int) -> bool:
        return sum((each.failures > 0) == failing for each, _ in self._running.values()) < places

    def _is_full(self, share: str) -> bool:
        return bool(share) and self._shares[share] >= self._share_max

    def _begin(self, each: W) -> None:
        share = self._share(each)
        work = Deferred.fromCoroutine(self._work(each))
        self._running[each.id] = each, work
        self._shares[share] += 1

        def over(result: Any) -> None:
            del self._running[each.id]
            self._ended.add(each.id)
            self._shares[share] -= 1
            if not self._shares[share]:
                del self._shares[share]
            if isinstance(result, Failure):
                self._has_failed(result, share)
            else:
                self.tick()

        work.addBoth(over)

    def _has_failed(self, failure: Failure, share: str) -> None:
        if failure.check(Busy):
            self._lost(failure)
        elif not failure.check(StoreUnavailable, CancelledError):
            _log.failure("Cannot {what} ({share})", failure, what=self._what, share=share)

    def _read_again(self) -> None:
        if self._asked_again and not self._stopped:
            self.tick()

    def _failed(self, failure: Failure) -> None:
        self._asked_again = False
        self._has_failed(failure, "reading what is due")
