"""Polls of feeds, sitemaps and robots.txt: through the queue, and a worker only where something has changed.

Each second: pages whose last change is newer than what was looked at get a job of their task (the cache's change
numbers are followed, so that news is read within seconds); then it is looked at what became of open polls, those that
began just now soon, those that wait more and more seldom: so an error is known within seconds, too.  Then what is due
is polled, and what became of the poll before it is noted: unchanged, failed, or still in the queue.  A poll costs one
row of the outbox, and an unchanged one next to nothing else.

What is its site's own word (a sitemap, a feed with ``--listed``) speaks as of the moment when it was asked for: when
such a poll begins, an order number of its provider is drawn, and stored with the poll.  The job gets it, and its
notices have it.  Content that was fetched for another reason is of an unknown moment: a poll confirms it first.

*Failures.*  The database of the queue is unreachable: nothing is polled, and nothing is lost.  It was put back from a
backup: the position follows it back.  No order number can be drawn: the poll waits.  A poll that has vanished (its
notice was refused) is an error of its task, and it is polled again when it is due again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.keys import url_key
from lcc.domain.urls import normalise
from lcc.errors import UrlError, code, entry_for
from lcc.model.feed_options import lists_its_site
from lcc.roles.background import Background
from lcc.roles.notifier import NotifierRefused
from lcc.roles.scheduler.engine import Scheduler
from lcc.storage.database.bisecting import NOT_OF_ONE, bisected
from lcc.storage.database.database import Database
from lcc.storage.database.key_ranges import all_views_key, provider_of
from lcc.storage.tasks.change_ranges import range_end
from lcc.storage.tasks.outbox import root_of
from lcc.storage.tasks.poll_results import (
    CHANGES_AT_ONCE,
    PAGES,
    Fault,
    Page,
    Results,
    changed_pages,
    last_change,
    providers_of,
    read_faults,
    read_results,
    removed_among,
)
from lcc.storage.tasks.polls import Asked, Found, Poll
from lcc.storage.tasks.robots import ROBOTS
from lcc.storage.tasks.store import TaskStore

_log = Logger()

_BATCH = 200
_GONE = 410
_TRY_LATER = code("try-later")
_VANISHED = "Its last poll was not answered"
_RETRACT_TICKS = 5
"""So often, in ticks, it is looked at what has gone from sitemaps."""
_POSITION_SAVED = 10_000
"""Changes without news after which the position is saved all the same."""


class Polls:
    """See :mod:`lcc.roles.scheduler.polls`.

    :param main: the database of the queue; only read.
    :param room: whether the UNS takes more notices now.
    :param watch: gives the id of the provider of a root; fails with NotifierRefused.
    :param draw: gives an order number of a provider; fails with NotifierRefused.
    """

    def __init__(
        self,
        engine: Scheduler,
        store: TaskStore,
        main: Database,
        room: Callable[[], bool],
        watch: Callable[[str], Awaitable[int]],
        draw: Callable[[int], Awaitable[int]],
    ) -> None:
        self._engine = engine
        self._store = store
        self._main = main
        self._room = room
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
        await self._follow()
        await self._look()
        await self._retract()
        while self._room() and self._engine.paused_since is None:
            due = await self._store.due_polls(int(self._engine.now()), _BATCH)
            handled = sum(await bisected(due, self._poll, self._suspend))
            if len(due) < _BATCH or not handled:
                return

    # Pages that have changed.

    async def _follow(self) -> None:
        last = await self._main.select(last_change)
        if self._position is None:
            saved = await self._store.polls_position()
            if saved is None:
                # What changes while the scheduler is down, before it has saved another one, is news then.
                await self._store.save_position(last, int(self._engine.now()))
            self._position = self._saved = last if saved is None else saved
        self._position = min(self._position, last)
        while self._position < last:
            upto = await self._main.select(range_end, PAGES, self._position, last, CHANGES_AT_ONCE)
            pages = [page for page in await self._main.select(changed_pages, self._position, upto) if page.content]
            found = await self._found({all_views_key(page.key): page for page in pages})
            if found or upto - self._saved >= _POSITION_SAVED:
                self._engine.add(await self._store.make_found_jobs(found, int(self._engine.now())))
                await self._store.save_position(upto, int(self._engine.now()))
                self._saved = upto
            self._position = upto

    async def _found(self, pages: dict[bytes, Page]) -> list[Found]:
        if not pages:
            return []
        polls = await self._store.polls_of_pages(list(pages))
        own = sorted({poll.key for poll in polls if lists_its_site(poll.task.spec)})
        queued = (await self._main.interact(read_results, own)).queued if own else set()
        untold = await self._store.outbox_since() if own else None
        return [
            found
            for poll in polls
            if (found := _news(poll, pages[poll.key], _answered(poll, poll.key, queued, untold))) is not None
        ]

    # Polls that are open.

    async def _look(self) -> None:
        polls = await self._store.polls_to_look_at(int(self._engine.now()), _BATCH)
        await bisected(polls, self._look_at, self._suspend)

    async def _look_at(self, polls: Sequence[Poll]) -> int:
        pages = {poll.task.id: Asked(poll, poll.pid, poll.key) for poll in polls}
        results = await self._main.interact(read_results, sorted({asks.key for asks in pages.values()}))
        faults = await self._faults(polls, pages, results)
        untold = await self._store.outbox_since()
        found: list[Found] = []
        looked: list[Asked] = []
        for asks in pages.values():
            answered = _answered(asks.poll, asks.key, results.queued, untold)
            news = _news(asks.poll, results.pages.get(asks.key), answered) if answered else None
            if news is not None:
                found.append(news)
            elif answered and (judged := _judge(asks, results, faults, untold)).fault != _VANISHED:
                looked.append(judged)
            else:
                looked.append(asks._replace(wait=True))
        if found:
            self._engine.add(await self._store.make_found_jobs(found, int(self._engine.now())))
        if looked:
            await self._store.look_at(looked, int(self._engine.now()))
        return len(polls)

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

    # Polls that are due.

    async def _suspend(self, poll: Poll, error: Exception) -> int:
        await self._store.suspend_task(poll.task.id, error, int(self._engine.now()))
        return 1

    async def _poll(self, due: Sequence[Poll]) -> int:
        """Polls these; returns for how many of them something was done: not while the UNS cannot be asked."""
        pages = await self._pages(due)
        keys = {page.key for page in pages.values() if page.key}
        results = await self._main.interact(read_results, sorted(keys))
        faults = await self._faults(due, pages, results)
        untold = await self._store.outbox_since()
        found: list[Found] = []
        asked: list[Asked] = []
        for poll in due:
            asks = pages.get(poll.task.id)
            if asks is None:
                continue  # the UNS cannot be asked now
            answered = _answered(poll, asks.key, results.queued, untold)
            news = _news(poll, results.pages.get(asks.key), answered)
            if news is None:
                asked.append(asks if asks.fault else _judge(asks, results, faults, untold))
            elif asks.key not in results.queued or poll.seen:
                found.append(news)
            else:
                asked.append(asks._replace(wait=True))
        asked = await self._drawn(asked)
        # Not before now is it asked what time it is: what is written after the clock was set back is of the new time.
        if found:
            self._engine.add(await self._store.make_found_jobs(found, int(self._engine.now())))
        self._engine.counters.polled += await self._store.ask(asked, int(self._engine.now()))
        return len(found) + len(asked)

    async def _pages(self, due: Sequence[Poll]) -> dict[int, Asked]:
        """The next poll of each task: whose its page is, and the key of that."""
        urls: dict[int, str] = {}
        for poll in due:
            try:
                urls[poll.task.id] = normalise(poll.url).partition("#")[0]
            except UrlError:
                urls[poll.task.id] = ""
        owners = await self._main.interact(providers_of, sorted({url for url in urls.values() if url}))
        nobodys = {poll.pid for poll in due if poll.pid and urls[poll.task.id] not in owners}
        removed = await self._main.select(removed_among, nobodys) if nobodys else set()
        pages: dict[int, Asked] = {}
        made: dict[str, int] = {}
        for poll in due:
            url = urls[poll.task.id]
            if poll.pid in removed and url not in owners:
                # To ask for it would make it again.
                pages[poll.task.id] = Asked(poll, fault=f"Provider {poll.pid} was removed", gone=True)
                continue
            try:
                pid = owners.get(url, 0)
                if not pid:
                    root = root_of(url)
                    pid = made[root] = made.get(root, 0) or await self._watch(root)
            except ValueError:
                pages[poll.task.id] = Asked(poll, fault="It is no http or https URL", gone=True)
            except NotifierRefused as refused:
                if refused.code != _TRY_LATER:
                    pages[poll.task.id] = Asked(poll, fault=f"{refused.code} {refused.text}")
            else:
                pages[poll.task.id] = Asked(poll, pid, url_key(pid, url, ""))
        return pages

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
            elif order.code != _TRY_LATER:
                found.append(each._replace(unchanged=False, fault=f"{order.code} {order.text}", moved=""))
        return found

    async def _faults(self, due: Sequence[Poll], pages: dict[int, Asked], results: Results) -> dict[bytes, Fault]:
        """Errors of the pages that were not seen since they were asked for."""
        wanted = []
        for poll in due:
            asks = pages.get(poll.task.id)
            if asks is not None and asks.key and poll.asked_time is not None and asks.key not in results.queued:
                page = results.pages.get(asks.key)
                if page is None or not page.cached or page.seen_time < poll.asked_time:
                    wanted.append((asks.key, poll.asked_time))
        return await self._main.select(read_faults, wanted) if wanted else {}

    def _failed(self, failure: Failure) -> None:
        # The engine notices both by itself.
        if not failure.check(*NOT_OF_ONE):
            _log.failure("Cannot poll", failure=failure)


def _answered(poll: Poll, key: bytes, queued: Collection[bytes], untold: int | None) -> bool:
    """Whether the open poll of a task has come to an end, so that its page is as of then, if it was seen since.

    :param queued: pages that wait to be fetched.
    :param untold: since when notices wait for the UNS; None: none does.
    """
    return poll.asked_time is not None and key not in queued and (untold is None or poll.asked_time < untold)


def _news(poll: Poll, page: Page | None, answered: bool) -> Found | None:
    """What a worker has to read; None: nothing.

    :param answered: as :func:`_answered` says.
    """
    if page is None or page.content is None or page.change <= poll.seen or not poll.url:
        return None
    order = 0
    if lists_its_site(poll.task.spec):
        if not answered or page.seen_time < (poll.asked_time or 0) or provider_of(page.key) != poll.pid:
            return None
        order = poll.order
        if not order:
            return None
    return Found(poll, page.change, attrs.evolve(page.content, url=poll.url).to_json(), order, _moved(poll, page))


def _moved(poll: Poll, page: Page) -> str:
    """Where the page has moved for good (301, 308), as its last poll has found; empty: nowhere."""
    if not page.moved or poll.task.spec.kind == ROBOTS:
        return ""
    if poll.asked_time is None or page.seen_time < poll.asked_time:
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


def _judge(asks: Asked, results: Results, faults: dict[bytes, Fault], untold: int | None) -> Asked:
    """The next poll, with what became of the last one.

    :param untold: since when notices wait for the UNS; None: none does.
    """
    asked_time = asks.poll.asked_time
    if asks.key in results.queued:
        return asks._replace(wait=True)
    if asked_time is None:
        return asks
    fault = faults.get(asks.key)
    if fault is not None:
        text = f"{fault.code} {fault.text or entry_for(fault.code).text}"
        gone = fault.code == _GONE and asks.poll.task.spec.kind != ROBOTS
        return asks._replace(fault=text, gone=gone, code=fault.code)
    page = results.pages.get(asks.key)
    if page is not None and page.seen_time >= asked_time:
        if not page.cached or page.content is None:
            return asks._replace(fault="Its site has deleted it")
        if page.change > asks.poll.seen:
            return asks  # it is its site's own word, and not known to be as of that poll
        return asks._replace(unchanged=True, max_age=page.content.max_age, moved=_moved(asks.poll, page))
    if untold is not None and asked_time >= untold:
        return asks._replace(wait=True)  # it may still be in the outbox
    return asks._replace(fault=_VANISHED)
