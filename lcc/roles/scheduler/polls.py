"""Polls of feeds, sitemaps and robots.txt: through the queue, and a worker only where something has changed.

Each second it is looked at what became of open polls, those that began just now soon, those that wait more and more
seldom: so an error is known within seconds.  What is due is polled, and what became of the poll before it is noted:
unchanged, failed, or still in the queue.  Then pages whose last change is newer than what was looked at get a job of
their task (the cache's change numbers are followed, so that news is read within seconds).  A poll costs one row of
the outbox, and an unchanged one next to nothing else: all of a second are read, judged by one look at the tables of
the queue, and written together, as each of these wakes a thread.

What is its site's own word (a sitemap, a feed with ``--listed``) speaks as of the moment when it was asked for: when
such a poll begins, an order number of its provider is drawn, and stored with the poll.  The job gets it, and its
notices have it.  Content that was fetched for another reason is of an unknown moment: a poll confirms it first.

*Failures.*  The database of the queue is unreachable: nothing is polled, and nothing is lost.  It was put back from a
backup: the position follows it back.  No order number can be drawn: the poll waits.  A poll that has vanished (its
notice was refused) is an error of its task, and it is polled again when it is due again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.keys import url_key
from lcc.domain.urls import normalise
from lcc.errors import UrlError, code, entry_for
from lcc.model.feed_options import lists_its_site
from lcc.model.polled import PolledContent
from lcc.roles.background import Background
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler.engine import Scheduler
from lcc.storage.database.bisecting import NOT_OF_ONE, bisected
from lcc.storage.database.database import Database
from lcc.storage.database.tables.key_ranges import all_views_key, provider_of
from lcc.storage.database.tables.status import newest_generation
from lcc.storage.providers.watched import providers_of
from lcc.storage.tasks.outbox import OutboxSet, root_of
from lcc.storage.tasks.polling.poll_results import (
    Page,
    PolledPage,
    PollRound,
    changed_pages,
    last_change,
    read_results,
    read_round,
)
from lcc.storage.tasks.polling.polls import Asked, Found, Poll
from lcc.storage.tasks.polling.robots import ROBOTS
from lcc.storage.tasks.store import TaskStore

_log = Logger()

_BATCH = 200
_GONE = 410
_TRY_LATER = code("try-later")
_VANISHED = "Its last poll was not answered"
_DELETED = "Its site has deleted it"
_ELSEWHERE = (
    "It has moved for good to {}, which is another site's: it is still polled where it was. Next: if both are one"
    " site, give the new URL (lcc-admin feed set --url, sitemap add)"
)
_RETRACT_TICKS = 5
"""So often, in ticks, it is looked at what has gone from sitemaps."""
_POSITION_SAVED = 10_000
"""Changes without news after which the position is saved all the same."""


class Polls:
    """See :mod:`lcc.roles.scheduler.polls`.

    :param main: the database of the queue; only read.
    :param room: whether the UNS takes more notices now.
    :param made: is given the sets that were put into the outbox.
    :param watch: gives the id of the provider of a root; fails with NotifierRefused.
    :param draw: gives an order number of a provider; fails with NotifierRefused.
    """

    def __init__(
        self,
        engine: Scheduler,
        store: TaskStore,
        main: Database,
        room: Callable[[], bool],
        made: Callable[[Sequence[OutboxSet]], object],
        watch: Callable[[str], Awaitable[int]],
        draw: Callable[[int], Awaitable[int]],
    ) -> None:
        self._engine = engine
        self._store = store
        self._main = main
        self._room = room
        self._made = made
        self._watch = watch
        self._draw = draw
        self._work = Background("Cannot poll", failed=self._failed)
        self._position: int | None = None
        self._saved = 0
        self._ticks = 0

    def tick(self) -> None:
        """Each second."""
        if not self._work.busy:
            self._work.begin(self._do())

    def stop(self) -> None:
        """Begin nothing any more."""
        self._work.cancel()

    async def _do(self) -> None:
        await self._retract()
        done = await self._round()
        while done.may_be_more:
            done = await self._round()
        await self._follow(done.change)

    # Pages that have changed.

    async def _follow(self, last: int | None) -> None:
        """
        :param last: the number of the cache's last change; None: it was not read yet.
        """
        if last is None:
            last = await self._main.select(last_change)
        if self._position is None:
            saved = await self._store.polls_position()
            if saved is None:
                # What changes while the scheduler is down, before it has saved another one, is news then.
                await self._store.save_position(last, int(self._engine.now()))
            self._position = self._saved = last if saved is None else saved
        self._position = min(self._position, last)
        while self._position < last:
            upto, changed = await self._main.interact(changed_pages, self._position, last)
            found = await self._found({all_views_key(page.key): page for page in changed if page.has_content})
            if found or upto - self._saved >= _POSITION_SAVED:
                found, _ = await self._where_moved(found, [])
                self._engine.add(await self._store.make_found_jobs(found, int(self._engine.now())))
                await self._store.save_position(upto, int(self._engine.now()))
                self._saved = upto
            self._position = upto

    async def _found(self, pages: dict[bytes, Page]) -> list[Found]:
        if not pages:
            return []
        polls = await self._store.polls_of_pages(list(pages))
        own = sorted({poll.key for poll in polls if lists_its_site(poll.task.spec)})
        untold = await self._store.outbox_since() if own else None
        queued = (await self._main.interact(read_results, own)).queued if own else set()
        return [
            found
            for poll in polls
            if (found := _news(poll, pages[poll.key], _answered(poll, poll.key, queued, untold))) is not None
        ]

    # Polls that are open, or due.

    async def _round(self) -> _Round:
        """See to the next ones."""
        due_max = _BATCH if self._room() and self._engine.paused_since is None else 0
        todo = await self._store.polls_to_do(int(self._engine.now()), _BATCH, due_max)
        due = {poll.task.id for poll in todo.due}
        polls = [_Open(poll, False) for poll in todo.looks if poll.task.id not in due]
        polls += [_Open(poll, True) for poll in todo.due]

        async def suspend(each: _Open, error: Exception) -> _Done:
            await self._store.suspend_task(each.poll.task.id, error, int(self._engine.now()))
            return _Done(True)

        done = await bisected(polls, lambda some: self._see_to(some, todo.untold), suspend)
        full = max(len(todo.looks), len(todo.due)) >= _BATCH
        changes = [each.change for each in done if each.change is not None]
        return _Round(full and any(each.handled for each in done), max(changes, default=None))

    async def _see_to(self, some: Sequence[_Open], untold: int | None) -> _Done:
        """Look at these, and poll those that are due.

        :param untold: since when notices wait for the UNS; None: none does.  As of before the queue is looked at:
            what does not wait any more is in the queue, or was.
        """
        seen, pages = await self._pages(some)
        found: list[Found] = []
        looked: list[Asked] = []
        asked: list[Asked] = []
        for each in some:
            asks = pages.get(each.poll.task.id)
            if asks is None:
                continue  # the UNS cannot be asked now
            end = _end_of(each, asks, seen, untold)
            if isinstance(end, Found):
                found.append(end)
            else:
                (asked if each.is_due else looked).append(end)
        found, asked = await self._where_moved(found, asked)
        asked = await self._drawn(asked)
        generation = seen.generation
        if any(each.order for each in asked):
            # Behind the order number: what is fetched before this is not of that asking.
            generation = await self._main.select(newest_generation)
        asked = [each._replace(generation=generation) for each in asked]
        if found or looked or asked:
            # Not before now is it asked what time it is: what is written after the clock was set back is of the new
            # time.
            noted = await self._store.note_polls(found, looked, asked, int(self._engine.now()))
            self._engine.add(noted.jobs)
            self._engine.counters.polled += len(noted.sets)
            self._made(noted.sets)
        return _Done(bool(found or looked or asked), seen.change)

    async def _pages(self, some: Sequence[_Open]) -> tuple[PollRound, dict[int, Asked]]:
        """What is known of the pages of these polls; and the next poll of each task: whose its page is, and the key
        of that.  Of an open one that is as it was."""
        urls: dict[int, str] = {}
        wanted: list[PolledPage] = []
        for poll, is_due in some:
            if is_due:
                try:
                    urls[poll.task.id] = normalise(poll.url).partition("#")[0]
                except UrlError:
                    continue
            after = None if poll.asked_time is None else poll.generation
            wanted.append(PolledPage(urls.get(poll.task.id, ""), poll.pid, poll.key, after))
        seen = await self._main.interact(read_round, wanted, _key_of)
        pages: dict[int, Asked] = {}
        made: dict[str, int | NotifierRefused] = {}
        for poll, is_due in some:
            asks = Asked(poll, poll.pid, poll.key)
            if is_due:
                url = urls.get(poll.task.id, "")
                pid = seen.owners.get(url) or await self._provider_for(poll, url, seen.removed, made)
                if not isinstance(pid, int):
                    asks = pid
                elif pid:
                    asks = Asked(poll, pid, _key_of(pid, url))
                else:
                    continue
            pages[poll.task.id] = asks
        return seen, pages

    async def _provider_for(
        self, poll: Poll, url: str, removed: Collection[int], made: dict[str, int | NotifierRefused]
    ) -> int | Asked:
        """The provider that watches a page of nobody's; 0: the UNS cannot be asked now; or why there can be none.

        :param made: what the UNS has answered so far, by root.
        """
        if poll.pid in removed:
            # To ask for it would make it again.
            return Asked(poll, fault=f"Provider {poll.pid} was removed", gone=True)
        try:
            root = root_of(url)
        except ValueError:
            return Asked(poll, fault="It is no http or https URL", gone=True)
        # A UNS that has not answered once is not waited for as many times as there are sites.
        if root not in made and not any(_is_later(each) for each in made.values()):
            try:
                made[root] = await self._watch(root)
            except NotifierRefused as refused:
                made[root] = refused
        answer = made.get(root, 0)
        if isinstance(answer, int):
            return answer
        return 0 if _is_later(answer) else Asked(poll, fault=_said(answer), code=answer.code)

    async def _where_moved(self, found: list[Found], asked: list[Asked]) -> tuple[list[Found], list[Asked]]:
        """The same; those that have moved to another provider stay, and their tasks say so."""
        others = await self._others([*found, *asked])
        found = [each._replace(moved="") if each.poll.task.id in others else each for each in found]
        asked = [
            each._replace(moved="", note=_ELSEWHERE.format(each.moved)) if each.poll.task.id in others else each
            for each in asked
        ]
        return found, asked

    async def _others(self, moved: Iterable[Found | Asked]) -> set[int]:
        """The tasks whose pages are their sites' own words, and have moved to another provider's: what an operator
        has said of one site's document is not said of any other's, to which that site chooses to send."""
        there = [each for each in moved if each.moved and lists_its_site(each.poll.task.spec)]
        urls = {url for each in there for url in (each.moved, root_of(each.moved), root_of(each.poll.url))}
        owners = await self._main.interact(providers_of, sorted(urls)) if urls else {}
        return {each.poll.task.id for each in there if not _stays_its_own(each.poll, each.moved, owners)}

    # What sitemaps list no longer.

    async def _retract(self) -> None:
        self._ticks += 1
        if self._ticks % _RETRACT_TICKS or not self._room():
            return
        counters = self._engine.counters
        if await self._store.gone_sites():
            counters.retracted += await self._store.retract_gone(int(self._engine.now()))
            _, counters.sitemap_urls_held = await self._store.held_sitemaps()
        else:
            counters.sitemap_urls_held = 0

    async def _drawn(self, asked: Sequence[Asked]) -> list[Asked]:
        """These polls, those of a site's own words with an order number; those for which none can be drawn now are
        left out."""
        own = {
            each.poll.task.id
            for each in asked
            if each.pid and not (each.wait or each.gone) and lists_its_site(each.poll.task.spec)
        }
        drawing = {pid: self._draw(pid) for pid in {each.pid for each in asked if each.poll.task.id in own}}
        drawn: dict[int, int | NotifierRefused] = {}
        for pid, number in drawing.items():
            try:
                drawn[pid] = await number
            except NotifierRefused as refused:
                drawn[pid] = refused
        found: list[Asked] = []
        for each in asked:
            order = drawn[each.pid] if each.poll.task.id in own else 0
            if not isinstance(order, NotifierRefused):
                found.append(each._replace(order=order))
            elif not _is_later(order):
                found.append(each._replace(unchanged=False, fault=_said(order), moved=""))
        return found

    def _failed(self, failure: Failure) -> None:
        # The engine notices both by itself.
        if not failure.check(*NOT_OF_ONE):
            _log.failure("Cannot poll", failure=failure)


class _Open(NamedTuple):
    """A poll to be seen to: that is due, or else of which it is to be seen what became of it."""

    poll: Poll
    is_due: bool


class _Done(NamedTuple):
    """
    :ivar handled: something was done for a poll: not where the UNS cannot be asked now.
    :ivar change: number of the cache's last change, as was read then; None: it was not.
    """

    handled: bool
    change: int | None = None


class _Round(NamedTuple):
    """
    :ivar change: as :attr:`_Done.change`.
    """

    may_be_more: bool
    change: int | None


def _is_later(answer: int | NotifierRefused) -> bool:
    """The UNS cannot be asked now."""
    return isinstance(answer, NotifierRefused) and answer.code == _TRY_LATER


def _said(refused: NotifierRefused) -> str:
    return f"{refused.code} {refused.text}"


def _key_of(pid: int, url: str) -> bytes:
    return url_key(pid, url, "")


def _answered(poll: Poll, key: bytes, queued: Collection[bytes], untold: int | None) -> bool:
    """Whether the open poll of a task has come to an end, so that its page is as of then, if it was seen since.

    :param queued: pages that wait to be fetched.
    :param untold: since when notices wait for the UNS; None: none does.
    """
    return poll.asked_time is not None and key not in queued and (untold is None or poll.asked_time < untold)


def _end_of(each: _Open, asks: Asked, seen: PollRound, untold: int | None) -> Found | Asked:
    """What has become of a poll: it has found something; or what is to be noted, with the next poll if that is due.

    :param asks: the next one.
    :param untold: as :func:`_answered` says.
    """
    poll, queued = each.poll, seen.results.queued
    answered = _answered(poll, asks.key, queued, untold)
    if not (each.is_due or answered):
        return asks._replace(wait=True)
    news = _news(poll, seen.results.pages.get(asks.key), answered)
    if news is not None:
        # What was fetched for others is read at once, unless the first poll is about to fetch it.
        return asks._replace(wait=True) if asks.key in queued and not poll.seen else news
    if asks.fault:
        return asks
    judged = _judge(asks, seen, untold)
    # The queue manager may not have heard of it yet: that is for certain only when the next one is due.
    return judged if each.is_due or judged.fault not in (_VANISHED, _DELETED) else asks._replace(wait=True)


def _is_unread(poll: Poll, page: Page) -> bool:
    """Whether a page has changed since a worker got it.  One that was lost, and fetched again, has another number
    and is the same.  (What a robots.txt says is not kept where it was not there meanwhile.)"""
    if page.change <= poll.seen:
        return False
    return not poll.seen or poll.task.spec.kind == ROBOTS or _content(poll, page).digest != poll.seen_digest


def _content(poll: Poll, page: Page) -> PolledContent:
    return attrs.evolve(page.content, url=poll.url)


def _news(poll: Poll, page: Page | None, answered: bool) -> Found | None:
    """What a worker has to read; None: nothing.

    :param answered: as :func:`_answered` says.
    """
    if page is None or not page.has_content or not poll.url or not _is_unread(poll, page):
        return None
    order = 0
    if lists_its_site(poll.task.spec):
        if not answered or page.generation <= poll.generation or provider_of(page.key) != poll.pid:
            return None
        order = poll.order
        if not order:
            return None
    return Found(poll, page.change, _content(poll, page), order, _moved(poll, page))


def _stays_its_own(poll: Poll, moved: str, owners: Mapping[str, int]) -> bool:
    """Whether what has moved there is still the word of the same site.

    :param owners: providers of that URL, and of both sites.
    """
    if owners.get(moved) == poll.pid:
        return True
    here, there = root_of(poll.url), root_of(moved)
    # Who has a whole host has it by https, too.
    is_upgraded = there == f"https{here.removeprefix('http')}"
    return is_upgraded and owners.get(here) == poll.pid and owners.get(moved) == owners.get(there)


def _moved(poll: Poll, page: Page) -> str:
    """Where the page has moved for good (301, 308), as its last poll has found; empty: nowhere."""
    if not page.moved or poll.task.spec.kind == ROBOTS:
        return ""
    if poll.asked_time is None or page.generation <= poll.generation:
        return ""  # it was fetched long ago perhaps: two pages that have moved to each other would never be again
    try:
        root_of(page.moved)
        there = normalise(page.moved).partition("#")[0]
        moved = there != normalise(poll.url).partition("#")[0]
    except ValueError:
        return ""
    if moved:
        _log.info("Task {task}: {url} has moved to {moved}", task=poll.task.id, url=poll.url, moved=there)
    return there if moved else ""


def _judge(asks: Asked, seen: PollRound, untold: int | None) -> Asked:
    """The next poll, with what became of the last one.

    :param untold: since when notices wait for the UNS; None: none does.
    """
    task, asked_time = asks.poll.task, asks.poll.asked_time
    if asks.key in seen.results.queued:
        return asks._replace(wait=True)
    if asked_time is None:
        return asks
    fault = seen.faults.get(asks.key)
    if fault is not None:
        text = f"{fault.code} {fault.text or entry_for(fault.code).text}"
        gone = fault.code == _GONE and task.spec.kind != ROBOTS
        return asks._replace(fault=text, gone=gone, code=fault.code)
    page = seen.results.pages.get(asks.key)
    if page is not None and page.has_content and page.generation > asks.poll.generation:
        if _is_unread(asks.poll, page):
            return asks  # it is its site's own word, and not known to be as of that poll
        max_age = page.max_age if task.auto else 0
        return asks._replace(unchanged=True, max_age=max_age, moved=_moved(asks.poll, page))
    if untold is not None and asked_time >= untold:
        return asks._replace(wait=True)  # it may still be in the outbox
    return asks._replace(fault=_VANISHED if page is None or page.has_content else _DELETED)
