"""Pushed URLs on their way to the UNS.

They stand in an outbox (``pushset``), put there before the push was answered.  Here they are read in order, told over
the link to the port of notifiers, and marked once they are answered: told again after a crash, a set is applied once,
by its number.

A key speaks for all that lies below its folder.  Each URL belongs to the provider with the longest root there; a set
of several is parted.  What is nobody's becomes part of a watched provider of the folder, where sites register
themselves; else it is refused, in the report.  A set whose provider has gone, or whose order number was lost, gets
new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from twisted.internet.defer import CancelledError
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy, StoreUnavailable, code, entry_for
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.model.push.pushes import PushSet
from lcc.model.sources import Source
from lcc.roles.background import Background
from lcc.roles.notifier import NotifierRefused
from lcc.roles.push.counters import Counters
from lcc.roles.push.draws import Draws
from lcc.storage.database.database import Database
from lcc.storage.providers.watched import providers_of
from lcc.storage.push.store import Answer, PushStore

_log = Logger()

PAGE = 200
_TRY_LATER = code("try-later")
_AGAIN = frozenset({code("provider-gone"), code("bad-order")})


def _is_ready(item: tuple[PushSet, Mapping[int, object]]) -> bool:
    each, parts = item
    return parts.keys() == {each.pid} and each.order > 0


class Teller:
    """See :mod:`lcc.roles.push.teller`.

    :param main: the database of providers; only read.
    :param registers: what is nobody's becomes a watched provider's.
    :param freed: called with the number of URLs that have an answer.
    :param unproven: called with the number of URLs that wait for the proof of their key once more.
    """

    def __init__(
        self,
        store: PushStore,
        main: Database,
        draws: Draws,
        registers: bool,
        counters: Counters,
        freed: Callable[[int], None],
        unproven: Callable[[int], None],
    ) -> None:
        self._store = store
        self._main = main
        self._draws = draws
        self._registers = registers
        self._counters = counters
        self._freed = freed
        self._unproven = unproven
        self._work = Background("Cannot tell what was pushed", self._ended, self._failed)
        self._told = 0
        self._asked_again = False
        self._answered: list[Answer] = []
        self._again: list[int] = []

    def tick(self) -> None:
        """Each second, and when there is something new."""
        if self._work.busy:
            self._asked_again = True
        else:
            self._asked_again = False
            self._work.begin(self._do())

    def stop(self) -> None:
        """End what is under way."""
        self._asked_again = False
        self._work.cancel()

    async def _do(self) -> None:
        await self._forget()
        link = self._draws.link
        while link is not None and link.connected and link.has_room:
            page = await self._store.outbox(self._told, PAGE)
            if not page or not await self._tell_page(page):
                return
            await self._forget()

    async def _tell_page(self, page: Sequence[PushSet]) -> bool:
        """Tell some sets; False: the UNS cannot be asked now."""
        owners = await self._main.interact(providers_of, {url["c"] for each in page for url in each.urls})
        parted: list[tuple[PushSet, dict[int, list[Mapping[str, str]]]]] = []
        for each in page:
            parts: dict[int, list[Mapping[str, str]]] = {}
            for url in each.urls:
                parts.setdefault(owners.get(url["c"], 0), []).append(url)
            parted.append((each, parts))
        # Numbers rise: what is behind a set that is not ready waits for it.
        ready = [each for each, parts in takewhile(_is_ready, parted)]
        for each in ready:
            self._tell(each)
        if ready:
            return True
        each, parts = parted[0]
        if len(parts) == 1 and 0 not in parts:
            return await self._order(parted)
        return await self._prepare(each, parts)

    async def _order(self, parted: Sequence[tuple[PushSet, Mapping[int, object]]]) -> bool:
        """Give those of these sets that are of one provider its order number, drawn once for all of them."""
        orders: dict[int, tuple[int, int]] = {}
        drawn: dict[int, int] = {}
        for each, parts in parted:
            if len(parts) != 1 or 0 in parts:
                continue
            (pid,) = parts
            if pid == each.pid and each.order:
                continue
            if pid not in drawn:
                drawn[pid] = await self._draws.draw(pid)
            if drawn[pid]:
                orders[each.number] = (pid, drawn[pid])
        if orders:
            await self._store.set_order(orders)
        return parted[0][0].number in orders

    async def _prepare(self, each: PushSet, parts: dict[int, list[Mapping[str, str]]]) -> bool:
        """Give a set that is several providers', or nobody's, what it needs."""
        link = self._draws.link
        if link is None:
            return False
        if 0 in parts and self._registers:
            try:
                pid = await link.watch(each.folder)
            except NotifierRefused as refused:
                if refused.code == _TRY_LATER:
                    return False
                self._answered.append(Answer(each.number, False, str(refused)))
                self._told = each.number
                return True
            parts.setdefault(pid, []).extend(parts.pop(0))
        if len(parts) > 1:
            await self._store.part(each.number, parts)
            return True
        (pid,) = parts
        if pid:
            return await self._order([(each, parts)])
        # The provider was removed, or lost with a database that was restored: an operator has to know of it.
        count = await self._store.prove_again(each.key, each.number)
        if count:
            self._unproven(count)
            return True
        self._answered.append(Answer(each.number, False, "no provider has a root there"))
        self._told = each.number
        return True

    def _tell(self, each: PushSet) -> None:
        link = self._draws.link
        if link is not None:
            self._told = each.number
            told = SourcedSet(each.number, each.pid, Source.PUSHED, each.urls, each.order)
            link.tell(told).addCallback(self._outcome, each)

    def _outcome(self, outcome: NoticeOutcome, each: PushSet) -> None:
        if outcome.code in _AGAIN:
            self._again.append(each.number)
        elif outcome.code:
            self._counters.urls_refused += len(each.urls)
            self._answered.append(Answer(each.number, False, _said(outcome.code, outcome.text)))
        else:
            self._counters.told += len(each.urls)
            self._counters.urls_refused += len(outcome.refused)
            words = [f"{refused.url}: {_said(refused.code, refused.text)}" for refused in outcome.refused]
            self._answered.append(Answer(each.number, True, "; ".join(words)))
        self.tick()

    async def _forget(self) -> None:
        if self._answered:
            answers = list(self._answered)
            freed = await self._store.answer(answers)
            del self._answered[: len(answers)]
            self._freed(freed)
        while self._again:
            await self._store.again(self._again[0])
            del self._again[0]

    def _ended(self) -> None:
        if self._asked_again:
            self.tick()

    def _failed(self, failure: Failure) -> None:
        self._asked_again = False
        # The engine notices the first two by itself.
        if not failure.check(StoreUnavailable, Busy, CancelledError):
            _log.failure("Cannot tell what was pushed", failure=failure)


def _said(number: int, text: str) -> str:
    """An error, as people read it."""
    return f"{number} {text or entry_for(number).text}"
