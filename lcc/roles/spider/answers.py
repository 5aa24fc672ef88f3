"""Asks the cache what became of the URLs that were told, some time after they were.

Most of them need no asking: their pages come with the changes of the cache.  The others were cached before, could not
be fetched, were refused, are still queued, or were lost with a process.  What redirects to another host was not
followed there: where it leads is offered to the frontier, as a link would be.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence

from twisted.logger import Logger

from lcc.client.cache import CacheClient
from lcc.domain.urls import owner_of, redirected_to, site_of
from lcc.errors import GONE_STATUSES, code
from lcc.interfaces import IFrontier
from lcc.model.spider.crawls import HostRef, KnownUrl, ReadyHost, Telling, ToldUrl, UrlAnswer, UrlState, Verdict
from lcc.model.states import CACHED, DELETED, UNKNOWN, AnsweredUrl, AskedUrl
from lcc.roles.spider.counters import Counters
from lcc.roles.spider.crawl_rules import CrawlRules
from lcc.roles.spider.private_hosts import PrivateHosts
from lcc.roles.spider.reading import Reading
from lcc.roles.spider.sites import Sites

_log = Logger()

_HOSTS_AT_ONCE = 100
_PAGES_AT_ONCE = 1000
_HOSTS_REMEMBERED = 10_000
_WAITS_MAX = 100
"""After so many waits, a set that has not arrived was lost with the spool of a UNS: it is waited for no longer.  Nor
is content that cannot be had, where an earlier version was read: the page is looked at again when that is due."""
_FORBIDDEN = code("address-forbidden")
_REFUSED = frozenset({_FORBIDDEN, *map(code, ("redirect-outside", "scheme-unsupported"))})
_QUOTAS = frozenset(map(code, ("quota-files", "quota-space")))
_REDIRECT_OUTSIDE = code("redirect-outside")
_ELEMENT_CODES = range(1201, 1300)
"""Why a UNS refuses an element."""


class Answers:
    """See :mod:`lcc.roles.spider.answers`.

    Before the first URLs of a host are told, too, and for as long as the cache turns out to have what is to be told:
    a crawl of what is cached already need not wait.

    :param now: seconds since 1970.
    :param told_wait_seconds: how long nobody asks after a URL was told.
    :param window: URLs of a host that may be told at once.
    :param unread: called with what the cache has, was not read, and need not come with its changes.
    :param reading: judges where redirects lead.
    :param sites: knows whose the URLs of a host are.
    :param private: hosts whose providers may have lost their private addresses.
    :ivar notifier: role and name of this spider as a notifier; ``epoch``: of its sets' numbers.
    :ivar newest_set: that was told in this epoch.  A higher number is that of a set of an earlier epoch: it is asked
        for without it, for in this epoch the cache would wait for that set.  So it is with sets that may be lost with
        what the cache had.
    """

    def __init__(
        self,
        frontier: IFrontier,
        client: CacheClient,
        now: Callable[[], float],
        told_wait_seconds: float,
        window: int,
        unread: Callable[[Sequence[AnsweredUrl]], None],
        reading: Reading,
        sites: Sites,
        private: PrivateHosts,
        counters: Counters,
    ) -> None:
        self.notifier = self.epoch = ""
        self.newest_set = self._lost_upto = 0
        self._frontier = frontier
        self._client = client
        self._now = now
        self._told_wait_seconds = told_wait_seconds
        self._window = window
        self._unread = unread
        self._reading = reading
        self._sites = sites
        self._private = private
        self._counters = counters
        self._strange: OrderedDict[HostRef, bool] = OrderedDict()
        """Hosts of which URLs were told: whether the cache had some of the last ones."""

    def begin(self, notifier: str, epoch: str) -> None:
        """The frontier was claimed: sets are of this epoch from now on."""
        self.notifier, self.epoch = notifier, epoch
        self.newest_set = self._lost_upto = 0
        self._private.begin()

    def note_told(self, number: int) -> None:
        """This set is told."""
        self.newest_set = self._private.newest_set = max(self.newest_set, number)

    async def already_cached(self, told: Sequence[Telling]) -> set[tuple[int, bytes]]:
        """Those URLs (crawl, key) of these sets that the cache has: they are to be read instead of told.

        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        asked = [
            (each, url)
            for each in told
            if self._strange.get(HostRef(each.crawl, each.root), True)
            for url in each.urls
            if not url.recheck
        ]
        states = await self._states([AskedUrl(each.pid, each.root + url.path) for each, url in asked])
        found: set[tuple[int, bytes]] = set()
        unread: list[AnsweredUrl] = []
        had: dict[HostRef, bool] = {}
        for (each, url), state in zip(asked, states, strict=True):
            is_cached = state.state == CACHED
            had[HostRef(each.crawl, each.root)] = had.get(HostRef(each.crawl, each.root), False) or is_cached
            if is_cached:
                found.add((each.crawl, url.key))
                unread.append(state)
        for host, has in had.items():
            self._strange[host] = has
            self._strange.move_to_end(host)
            if len(self._strange) > _HOSTS_REMEMBERED:
                self._strange.popitem(last=False)
        if unread:
            self._unread(unread)
        return found

    async def find_lost(self, crawls: Iterable[CrawlRules], buckets: Collection[int]) -> None:
        """The cache was put back from a backup: what it has not as it was read is told again, and so asked for until
        it was read as it is (its page comes with the changes) or fetched.  So it is where it was deleted: that may
        have been before it was read.  Providers are asked for again: they may be those of other hosts by now, or may
        not have private addresses any longer.

        :param buckets: of the hosts that are looked at.
        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        self._lost_upto = self.newest_set
        self._sites.forget_all()
        count = 0
        for rules in crawls:
            crawl, after = rules.crawl.id, b""
            while rows := await self._frontier.read_urls(crawl, after, _PAGES_AT_ONCE):
                after = rows[-1].key
                own = [row for row in rows if row.bucket in buckets]
                pids = await self._owners(rules, [(site_of(row.url), row.pid, row.url) for row in own])
                states = await self._states([AskedUrl(pid, row.url) for pid, row in zip(pids, own, strict=True)])
                lost = [
                    UrlAnswer(crawl, row.key, Verdict.LOST)
                    for row, state in zip(own, states, strict=True)
                    if row.state is UrlState.CACHED and (state.change, state.md5) != (row.change, row.md5)
                ]
                if lost:
                    await self._frontier.answer(lost, [], int(self._now()))
                count += len(lost)
            # What was told meanwhile was told to providers of before.
            self._lost_upto = await self._frontier.forget_providers(crawl, buckets, int(self._now()))
        if count:
            _log.warn("{count} pages in the cache differ from those read: it was restored from a backup", count=count)

    async def ask(self, crawls: Iterable[CrawlRules], buckets: Collection[int]) -> None:
        """Ask for the URLs that were told long enough ago.

        :param buckets: of the hosts that are this spider's.
        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        for rules in crawls:
            while True:
                now = int(self._now())
                hosts = await self._frontier.told_hosts(rules.crawl.id, buckets, now, _HOSTS_AT_ONCE)
                if hosts:
                    await self._ask(rules, hosts, now)
                if len(hosts) < _HOSTS_AT_ONCE:
                    break

    async def _ask(self, rules: CrawlRules, hosts: Sequence[ReadyHost], now: int) -> None:
        told: list[tuple[ReadyHost, ToldUrl]] = []
        for host in hosts:
            ref = HostRef(host.crawl, host.root)
            before = now - int(self._told_wait_seconds)
            told += [(host, url) for url in await self._frontier.told_urls(ref, before, self._window)]
        settings, lost = rules.crawl.settings, now - _WAITS_MAX * self._told_wait_seconds
        pids = await self._owners(rules, [(host.root, host.pid, host.root + url.path) for host, url in told])
        asked = [
            AskedUrl(
                pid,
                host.root + url.path,
                url.told_set if self._is_of_now(url) and url.told_time > lost else 0,
            )
            for pid, (host, url) in zip(pids, told, strict=True)
        ]
        states = await self._states(asked)
        cached = {url.key for (_, url), state in zip(told, states, strict=True) if state.state == CACHED}
        moved = {
            url.key: target
            for (_, url), state in zip(told, states, strict=True)
            if state.code == _REDIRECT_OUTSIDE and (target := redirected_to(state.error)) is not None
        }
        asked_for = cached | moved.keys()
        known = await self._frontier.known(rules.crawl.id, asked_for) if asked_for else {}
        if moved:
            # Before what became of the URLs: a crawl is not done while it has not followed them.
            redirects = [(known[key], target) for key, target in moved.items() if key in known]
            await self._frontier.commit(await self._reading.redirects(rules, redirects), now)
        answers: list[UrlAnswer] = []
        unread: list[AnsweredUrl] = []
        for (host, url), state in zip(told, states, strict=True):
            row = known.get(url.key)
            found = _verdict(state, row)
            if (
                state.state == CACHED
                and found is None
                and url.told_time <= lost
                and row
                and row.change
                and settings.revisit_seconds
            ):
                found = Verdict.UNCHANGED
            elif found is not None and state.code == _FORBIDDEN and settings.allow_private and not settings.pid:
                # Its provider may have been made again, and not have had private addresses yet.
                ref = HostRef(host.crawl, host.root)
                if not self._is_of_now(url) or self._private.refused(ref, url.told_set):
                    found = Verdict.LOST
            if found is not None:
                respelled = _respelled(rules, host.root, url) if found is Verdict.GONE else None
                answers.append(UrlAnswer(host.crawl, url.key, found, url.told_set, state.code, respelled))
            elif state.state == CACHED:
                unread.append(state)
        self._counters.asked += len(asked)
        self._counters.answered.update(answer.verdict.value for answer in answers)
        await self._frontier.answer(answers, [HostRef(host.crawl, host.root) for host in hosts], int(self._now()))
        if unread:
            self._unread(unread)

    def _is_of_now(self, url: ToldUrl) -> bool:
        """Whether it was told in this epoch, and since the cache was put back."""
        return self._lost_upto < url.told_set <= self.newest_set

    async def _owners(self, rules: CrawlRules, urls: Sequence[tuple[str, int, str]]) -> list[int]:
        """Whose some URLs are.

        :param urls: with the roots of their hosts, and the providers of these.
        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        if rules.crawl.settings.pid:
            return [pid for _, pid, _ in urls]
        await self._sites.ask(dict.fromkeys(root for root, _, _ in urls))
        return [owner_of(url, self._sites.providers(root) or ()) or pid for root, pid, url in urls]

    async def _states(self, asked: Sequence[AskedUrl]) -> list[AnsweredUrl]:
        """What became of these URLs.  Of a host that has no provider (any longer) nobody can say it; what was told of
        it is told again, once it has one, and the cache is asked then.

        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        known = [each for each in asked if each.pid]
        found = iter(await self._client.states(known, self.notifier, self.epoch) if known else ())
        return [next(found) if each.pid else AnsweredUrl(0, each.curl, UNKNOWN) for each in asked]


def _respelled(rules: CrawlRules, root: str, url: ToldUrl) -> str | None:
    """The path that compares, of a URL that is not there as it was linked: pages with one name are one, and that of
    another link to it may be there (``/a//b.html``, ``/a/b.html``).  None: it was that one, or is on another host."""
    curl = rules.link(root + url.path, 0, nofollow=False).names.curl
    return curl[len(root) :] if curl.startswith(root) and curl != root + url.path and not url.recheck else None


def _verdict(state: AnsweredUrl, row: KnownUrl | None) -> Verdict | None:
    """What became of a URL; None: that is not known yet.

    :param row: what the frontier has of it, if it is cached.
    """
    if state.state == DELETED:
        return Verdict.GONE
    if state.state == CACHED:
        if row is None or not row.is_version(state.change, state.md5):
            return None
        return Verdict.FAILED if state.code else Verdict.UNCHANGED
    if state.state != UNKNOWN:
        return None
    if not state.code:
        return Verdict.LOST
    if state.code in GONE_STATUSES:
        return Verdict.GONE
    if state.code in _QUOTAS:
        return Verdict.FULL
    return Verdict.REFUSED if state.code in _REFUSED or state.code in _ELEMENT_CODES else Verdict.FAILED
