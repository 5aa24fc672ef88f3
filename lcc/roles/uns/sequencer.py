"""Gives sets their order numbers when they begin, and notes the unsolicited full sets that are under way.

*Owns* who waits for a number, and which full sets were noted here.

*Strategy.*  One transaction at a time: sets that begin while it is under way share the next one.  Nothing is kept for
later sets: a number that was drawn in advance would be older than what another UNS has given out meanwhile.

A set that needs a new number gets none where it is not certain that it began just now: its provider may have gone
meanwhile, and have told something newer elsewhere.  So none is given to sets that were read when this process had
stood still, or whose number took long; they are refused, "try again later".

*Failures.*  Without the database no set begins; that full sets are no longer under way is written as soon as it can
be.  What an earlier run had begun and is not in the spool is taken off before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import SetError, StoreUnavailable
from lcc.interfaces import ISessionStore
from lcc.model import FullSetKey, SetHeader, SetStart
from lcc.roles.standstills import Standstills

_log = Logger()

_RETRY_SECONDS = 10.0
_TOGETHER_MAX = 500


@attrs.define(eq=False)
class _Beginning:
    """A set that waits for its number.

    :ivar since: since when; None: that is not certain.
    :ivar given_up: nobody waits any longer.
    """

    start: SetStart
    number: Deferred[int]
    since: float | None
    given_up: bool = False


class Sequencer:
    """Draws order numbers; see :mod:`lcc.roles.uns.sequencer`.

    :param ask: limits how long an answer is waited for.
    :param now: the wall clock, whole seconds.
    """

    def __init__(
        self,
        store: ISessionStore,
        clock: IReactorTime,
        ask: Callable[[Deferred[int]], Deferred[int]],
        now: Callable[[], int],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ask = ask
        self._now = now
        self._beginning: list[_Beginning] = []
        self._noted: set[FullSetKey] = set()
        self._ended: list[FullSetKey] = []
        self._here: Collection[FullSetKey] | None = None
        self._unsure = False
        """The last transaction has failed: what it has written may have to be taken back."""
        self._working = False
        self._closed = False
        self._retry: IDelayedCall | None = None
        self._standstills = Standstills(clock)

    def load(self, spooled: Iterable[SetHeader]) -> None:
        """These are what an earlier run left in the spool."""
        self._here = {_key(header) for header in spooled if header.is_unsolicited}
        self._noted.update(self._here)
        self._work_on()

    def close(self) -> None:
        """Begin nothing any more."""
        self._closed = True
        self._cancel_retry()
        self._standstills.watch(False)

    def watch(self, providers: bool) -> None:
        """Look whether this process stands still; only while providers are connected."""
        self._standstills.watch(providers and not self._closed)

    def begin(self, start: SetStart) -> Deferred[int]:
        """The order number of a set that begins now.

        :returns: fails with SetError "full-set-not-allowed" if it is a full set too many, "try-later" if it is not
            certain when it began, or its provider is moving, with StoreUnavailable if the database does not answer,
            or not in time.
        """
        beginning = _Beginning(start, Deferred(), self._standstills.certain_time())
        self._beginning.append(beginning)
        answer = self._ask(beginning.number)

        def gave_up(failure: Failure) -> Failure:
            beginning.given_up = True
            if beginning in self._beginning:
                self._beginning.remove(beginning)
            return failure

        self._work_on()
        return answer.addErrback(gave_up)

    def give_up(self, pid: int, number: int) -> None:
        """Nothing will come of the set that this number was given to."""
        self._end(FullSetKey(pid, number))

    def ended(self, header: SetHeader) -> None:
        """This set is counted by the queue manager, or nothing will come of it."""
        if header.is_unsolicited:
            self._end(_key(header))

    # Inside.

    def _end(self, key: FullSetKey) -> None:
        if key in self._noted:
            self._noted.discard(key)
            self._ended.append(key)
            self._work_on()

    @property
    def _has_work(self) -> bool:
        return bool(self._beginning or self._ended) or self._here is not None or self._unsure

    def _work_on(self) -> None:
        if self._working or self._closed:
            return
        self._cancel_retry()
        self._working = True
        Deferred.fromCoroutine(self._work()).addErrback(
            lambda failure: _log.failure("Cannot draw order numbers", failure=failure)
        )

    async def _work(self) -> None:
        try:
            while self._has_work and not self._closed:
                beginning, self._beginning = self._beginning[:_TOGETHER_MAX], self._beginning[_TOGETHER_MAX:]
                try:
                    await self._turn(beginning)
                except Exception as error:
                    self._unsure = True
                    for each in beginning:
                        if not each.number.called:
                            each.number.errback(error)
                    if not isinstance(error, StoreUnavailable):  # which the store has logged
                        _log.failure("Cannot draw order numbers")
                    if not self._beginning and not self._closed:
                        self._retry = self._clock.callLater(_RETRY_SECONDS, self._try_again)
                        return
        finally:
            self._working = False

    async def _turn(self, beginning: list[_Beginning]) -> None:
        """One transaction for all that waits."""
        here = self._here
        if here is not None:
            await self._store.keep_full_sets(here, self._now())
            self._here = None
        ended, self._ended = self._ended, []
        if ended or self._unsure:
            await self._store.end_full_sets(ended)  # it keeps them if it fails
            self._unsure = False
        if not beginning:
            return
        numbers = await self._store.begin_sets([each.start for each in beginning], self._now())
        for each, number in zip(beginning, numbers, strict=True):
            self._answer(each, number)

    def _answer(self, beginning: _Beginning, number: int | None) -> None:
        start, since = beginning.start, beginning.since
        if number is None:
            beginning.number.errback(SetError("full-set-not-allowed"))
            return
        if not number:
            beginning.number.errback(SetError("try-later"))
            return
        certain = self._standstills.is_certain(since)
        taken = not beginning.given_up and (number == start.held or certain)
        if start.counts:
            self._noted.add(FullSetKey(start.pid, number))
            if not taken:
                self.give_up(start.pid, number)
        if taken:
            beginning.number.callback(number)
        elif not beginning.given_up:
            beginning.number.errback(SetError("try-later"))

    def _try_again(self) -> None:
        self._retry = None
        self._work_on()

    def _cancel_retry(self) -> None:
        retry, self._retry = self._retry, None
        if retry is not None:
            retry.cancel()


def _key(header: SetHeader) -> FullSetKey:
    return FullSetKey(header.pid, header.connseq)
