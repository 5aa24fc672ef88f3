"""Notices of jobs on their way to the UNS.

They stand in an outbox (``tasknotices``), put there by the transaction that made them.  Here they are read in order,
told over the link to the port of notifiers, and taken out once they are answered: told again after a crash, a set is
applied once, by its number.

A set names a site.  Its URLs belong to the providers with the longest roots, as in the tables of the queue; a set of
several is parted.  For what is nobody's the UNS is asked, which makes a watched provider.  Where the provider has
gone before the set was taken, it is looked up once more.  What the UNS refuses stands in the log of its job.

A set of a site's own words (``listed``) has the provider whose document has named them, and the order number of that
asking, however often it is told.  What of it is not that provider's, as the tables are now, is a hint: else the feed
of one site would speak for another.  So is all of it where the provider has gone, or its numbers were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twisted.internet.defer import CancelledError
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.urls import normalise
from lcc.errors import Busy, StoreUnavailable, UrlError, code, entry_for
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.model.sources import parse_source
from lcc.model.tasks import MESSAGE_CHARS_MAX
from lcc.roles.background import Background
from lcc.roles.notifier import NotifierLink, NotifierRefused
from lcc.roles.scheduler.counters import Counters
from lcc.storage.database.database import Database
from lcc.storage.providers.watched import providers_of
from lcc.storage.tasks.outbox import Answer, OutboxSet
from lcc.storage.tasks.store import TaskStore

_log = Logger()

_PAGE = 200
_TRY_LATER = code("try-later")
_PROVIDER_GONE = code("provider-gone")
_SPEAKS_FOR_NOBODY = frozenset({_PROVIDER_GONE, code("bad-order")})


class Notices:
    """See :mod:`lcc.roles.scheduler.notices`.

    :param main: the database of the queue; only read.
    :ivar link: to the UNS.
    :ivar waiting: sets that were read and have no answer yet.
    """

    def __init__(
        self,
        link: NotifierLink,
        store: TaskStore,
        main: Database,
        now: Callable[[], float],
        counters: Counters,
    ) -> None:
        self.link = link
        self._store = store
        self._main = main
        self._now = now
        self._counters = counters
        self._work = Background("Cannot notify", failed=self._failed)
        self._told = 0
        """Sets with greater numbers are still to be read."""
        self._earlier = store.newest_notice
        """Number of the newest set of earlier runs."""
        self._answered: list[Answer] = []
        self._hints: list[tuple[int, str]] = []
        """Sets that are nobody's own words, and why."""

    @property
    def waiting(self) -> int:
        """Sets without an answer that were told."""
        return self.link.waiting_count

    def has_room(self) -> bool:
        """More may be notified now."""
        return self.link.connected and self.link.has_room

    def tick(self) -> None:
        """Each second."""
        if not self._work.busy:
            self._work.begin(self._do())

    def made(self, sets: Sequence[OutboxSet]) -> None:
        """These were put into the outbox just now.  They are told without being read there, unless others come
        first, or they cannot be told now."""
        waits = self._work.busy or not self.has_room()
        if waits or not sets or sets[0].number != self._told + 1 or any(not each.pid or each.order for each in sets):
            return  # the next tick reads them
        for each in sets:
            self._pass_on(each, each.pid)

    def stop(self) -> None:
        """Drop the link."""
        self._work.cancel()
        self.link.close()

    async def _do(self) -> None:
        await self._forget()
        while self.has_room() and self._told < self._store.newest_notice:
            page = await self._store.outbox(self._told, _PAGE)
            owners = await self._owners(page)
            made: dict[str, int] = {}
            for each in page:
                if not await self._tell(each, owners, made):
                    return
            await self._forget()
            if len(page) < _PAGE:
                self._told = max(self._told, self._earlier)
                return

    async def _owners(self, page: Sequence[OutboxSet]) -> dict[str, int]:
        """Whose the URLs of these sets are; those of nobody are left out."""
        urls = {url["c"] for each in page if not each.pid or each.order for url in each.urls}
        normal = {url: _normal(url) for url in urls}
        owners = await self._main.interact(providers_of, sorted({*normal.values()} - {""})) if urls else {}
        return {url: owners[name] for url, name in normal.items() if name in owners}

    async def _tell(self, each: OutboxSet, owners: Mapping[str, int], made: dict[str, int]) -> bool:
        """Tell a set; False: the UNS cannot be asked now.

        :param made: the providers that were asked for, by root.
        """
        pid = each.pid
        if not pid:
            parts: dict[int, list[Mapping[str, str]]] = {}
            for url in each.urls:
                parts.setdefault(owners.get(url["c"], 0), []).append(url)
            if len(parts) > 1:
                # Each gets a number of its own, and comes behind the others.
                await self._store.part_set(each.number, list(parts.values()), int(self._now()))
                self._told = each.number
                return True
            pid = next(iter(parts), 0) or made.get(each.root, 0)
        elif each.order:
            own = {url["c"] for url in each.urls if owners.get(url["c"]) == pid}
            if any(url["c"] not in own for url in each.urls):
                why = f"they are not those of provider {pid}, whose document names them"
                await self._store.part_listed(each.number, own, why, int(self._now()))
                self._told = each.number
                return True
        known = pid != 0
        if not pid:
            try:
                pid = made[each.root] = await self.link.watch(each.root)
            except NotifierRefused as refused:
                if refused.code == _TRY_LATER:
                    return False
                self._refuse(each, refused.code, refused.text)
                return True
        self._pass_on(each, pid, known and not each.pid)
        return True

    def _pass_on(self, each: OutboxSet, pid: int, looked_up: bool = False) -> None:
        told = SourcedSet(each.number, pid, parse_source(each.source), each.urls, each.order)
        self._told = each.number
        self.link.tell(told).addCallback(self._outcome, each, looked_up)

    def _outcome(self, outcome: NoticeOutcome, each: OutboxSet, looked_up: bool) -> None:
        """
        :param looked_up: its provider was, and may have been removed meanwhile.
        """
        if outcome.code:
            if looked_up and outcome.code == _PROVIDER_GONE:
                self._answered.append(Answer(each.number, again=True))
            elif each.order and outcome.code in _SPEAKS_FOR_NOBODY:
                said = _said(outcome.code, outcome.text)
                self._hints.append((each.number, f"not the own words of provider {each.pid} any longer ({said})"))
            else:
                self._refuse(each, outcome.code, outcome.text)
            return
        self._counters.notified += 1
        words = [f"{refused.url}: {_said(refused.code, refused.text)}" for refused in outcome.refused]
        text = f"The UNS refuses {len(words)} of {len(each.urls)} URLs: {'; '.join(words)}" if words else ""
        self._answered.append(Answer(each.number, text))
        if text:
            _log.warn("Job {job}: {text}", job=each.job, text=text[:MESSAGE_CHARS_MAX])

    def _refuse(self, each: OutboxSet, number: int, text: str) -> None:
        self._counters.refused += 1
        self._told = max(self._told, each.number)
        text = f"The UNS refuses {len(each.urls)} URLs of {each.root}: {_said(number, text)}"
        self._answered.append(Answer(each.number, text))
        _log.warn("Job {job}: {text}", job=each.job, text=text)

    async def _forget(self) -> None:
        if self._answered:
            answers = list(self._answered)
            await self._store.answer_sets(answers, int(self._now()))
            del self._answered[: len(answers)]
        while self._hints:
            number, why = self._hints[0]
            await self._store.part_listed(number, (), why, int(self._now()))
            del self._hints[0]

    def _failed(self, failure: Failure) -> None:
        # The engine notices both by itself.
        if not failure.check(StoreUnavailable, Busy, CancelledError):
            _log.failure("Cannot notify", failure=failure)


def _normal(url: str) -> str:
    """The URL, normalised; empty: it is none."""
    try:
        return normalise(url)
    except UrlError:
        return ""


def _said(number: int, text: str) -> str:
    """An error, as people read it."""
    return f"{number} {text or entry_for(number).text}"
