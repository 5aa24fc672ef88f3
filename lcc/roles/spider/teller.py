"""Tells the UNS of URLs: for each host a window of those that wait, in the order of its crawl.

A host is told of once it has a provider (the UNS makes a watched one) and its robots.txt is known.  Where others have
a part of the host, the URLs that lie in that are told as theirs.  What its
robots.txt forbids is marked so instead.  URLs are marked as told before they are: after a crash some may never have
been, which shows when the cache is asked what became of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.fetches.robots_rules import NONE, is_allowed
from lcc.domain.urls import owner_of
from lcc.domain.wording import number
from lcc.errors import code
from lcc.interfaces import IFrontier
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.model.sources import Source
from lcc.model.spider.crawls import HostRef, Owners, ReadyHost, Telling, ToldUrl, UrlAnswer, Verdict
from lcc.model.states import SiteRobots
from lcc.roles.notifier import NotifierLink, NotifierRefused
from lcc.roles.spider.counters import Counters
from lcc.roles.spider.crawl_rules import CrawlRules
from lcc.roles.spider.private_hosts import PrivateHosts
from lcc.roles.spider.sites import FORBIDDEN_SECONDS, Sites

_log = Logger()

_HOSTS_AT_ONCE = 200
_ASKED_AT_ONCE = 50
_UNREAD_SECONDS_MAX = 3600.0
_UNREAD_MAX = 10_000
_WAITING_MANY = 1000
"""Where more hosts wait than these, it rests after it has looked through them: that takes its time."""
_REST_TIMES = 4
"""So many times as long as that took."""
_TRY_LATER = code("try-later")
_NOT_ITS_PROVIDER = frozenset(map(code, ("provider-gone", "outside-roots")))
"""The provider of a host has gone, or another one has its number (after a backup was put back)."""


class _Waiting:
    """Hosts that are not looked at for a while.  There may be very many: only their keys are kept."""

    def __init__(self) -> None:
        self._until: dict[int, dict[bytes, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._until.values()))

    def __contains__(self, host: ReadyHost) -> bool:
        return host.key in self._until.get(host.crawl, ())

    def add(self, host: ReadyHost, until: float) -> None:
        """It is not looked at until then."""
        self._until.setdefault(host.crawl, {})[host.key] = until

    def forget(self, now: float) -> None:
        """Those whose time is over are looked at again."""
        for crawl, hosts in list(self._until.items()):
            for key in [key for key, until in hosts.items() if until <= now]:
                del hosts[key]
            if not hosts:
                del self._until[crawl]


class Teller:
    """See :mod:`lcc.roles.spider.teller`.

    :param now: seconds since 1970.
    :param hosts_per_hour: that become watched providers; 0: any number.
    :param cached: gives those of the URLs in some sets that the cache has.
    :param saying: called with the number of each set that is told.
    :ivar link: to the UNS; None: not yet.
    :ivar answers: what became of URLs that were refused, to be saved with others.
    """

    def __init__(
        self,
        frontier: IFrontier,
        sites: Sites,
        private: PrivateHosts,
        clock: IReactorTime,
        now: Callable[[], float],
        counters: Counters,
        hosts_per_hour: int,
        cached: Callable[[Sequence[Telling]], Awaitable[set[tuple[int, bytes]]]],
        saying: Callable[[int], None],
    ) -> None:
        self.link: NotifierLink | None = None
        self.answers: list[UrlAnswer] = []
        self._frontier = frontier
        self._sites = sites
        self._private = private
        self._clock = clock
        self._now = now
        self._counters = counters
        self._hosts_per_hour = hosts_per_hour
        self._cached = cached
        self._saying = saying
        self._waiting = _Waiting()
        """Hosts without a provider, or whose robots.txt is not known."""
        self._rests_until = 0.0
        self._removed: set[HostRef] = set()
        """Hosts whose provider is not what it was."""
        self._unread: dict[HostRef, tuple[float, float]] = {}
        """Hosts whose robots.txt cannot be read, that may be on private addresses: until when their providers are not
        asked for again, and how long that was."""

    @property
    def has_room(self) -> bool:
        """The UNS takes more sets now."""
        return self.link is not None and self.link.connected and self.link.has_room

    @property
    def trouble(self) -> str:
        """Why nothing can be told, for people; empty: it can."""
        return "" if self.link is None or self.link.connected else "cannot reach the UNS's port of notifiers"

    def look_again(self) -> None:
        """Ask anew about the hosts of which nothing may be told: what their crawls allow may be another thing."""
        self._waiting.forget(inf)
        self._unread.clear()
        self._rests_until = 0.0
        self._sites.forget_unread()

    async def tell(self, crawls: Iterable[CrawlRules], buckets: Collection[int]) -> None:
        """Tell what there is room for.

        :param buckets: of the hosts that are this spider's.
        """
        if self._removed:
            removed = list(self._removed)
            await self._frontier.watched([(host, 0) for host in removed], int(self._now()))
            self._removed.difference_update(removed)
        now = self._clock.seconds()
        if now < self._rests_until:
            return
        self._waiting.forget(now)
        for rules in crawls:
            after: ReadyHost | None = None
            while self.has_room:
                ready = await self._frontier.ready_hosts(
                    rules.crawl.id, buckets, int(self._now()), _HOSTS_AT_ONCE, after
                )
                hosts = [host for host in ready if host not in self._waiting]
                if hosts:
                    await self._tell(rules, hosts)
                if len(ready) < _HOSTS_AT_ONCE:
                    break
                after = ready[-1]
        if len(self._waiting) > _WAITING_MANY:
            self._rests_until = self._clock.seconds() + _REST_TIMES * (self._clock.seconds() - now)

    async def _tell(self, rules: CrawlRules, hosts: Sequence[ReadyHost]) -> None:
        pids = await self._pids(rules, hosts)
        await self._sites.ask([host.root for host in hosts if _ref(host) in pids])
        settings = rules.crawl.settings
        may_be_private = settings.allow_private and not settings.pid
        if may_be_private:
            await self._allow_private_again(rules, pids)
        ready: dict[HostRef, Owners] = {}
        for host in hosts:
            ref = _ref(host)
            # A crawl that completes a provider is of that one alone.
            owners = None if rules.crawl.settings.pid else self._sites.providers(host.root)
            if ref in pids and owners is not None and owner_of(host.root, owners) != pids[ref]:
                self._ask_again(ref)
            elif may_be_private and self._private.is_to_ask(ref):
                pass  # the UNS could not be asked
            elif ref in pids and self._sites.may_tell(host.root):
                ready[ref] = owners or ()
                continue
            self._waiting.add(host, self._clock.seconds() + self._patience(host.root))
        if ready:
            # They may be forgotten meanwhile.
            said = {ref.root: self._sites.said(ref.root) for ref in ready}
            told = await self._frontier.tell(ready, int(self._now()))
            cached = await self._cached(told) if told else set()
            for each in told:
                self._say(rules, each, said[each.root], cached)

    def _patience(self, root: str) -> float:
        """Where very many hosts wait, each of them is looked at less often."""
        patience = self._sites.patience(root)
        return max(patience, min(FORBIDDEN_SECONDS, patience * len(self._waiting) / _WAITING_MANY))

    async def _pids(self, rules: CrawlRules, hosts: Sequence[ReadyHost]) -> Mapping[HostRef, int]:
        """The providers of hosts; without those that have none now."""
        pids = {_ref(host): host.pid for host in hosts if host.pid}
        new = [host for host in hosts if not host.pid]
        if new and self._hosts_per_hour:
            room = self._hosts_per_hour - await self._frontier.hosts_this_hour(int(self._now()))
            new = new[: max(0, room)]
        for start in range(0, len(new), _ASKED_AT_ONCE):
            asked = new[start : start + _ASKED_AT_ONCE]
            found = await self._watch([host.root for host in asked], rules)
            watched = []
            refused: dict[str, list[str]] = {}
            for host, answer in zip(asked, found, strict=True):
                if isinstance(answer, int):
                    watched.append((_ref(host), answer))
                    self._sites.forget(host.root)  # what was known may be of before
                elif answer.code != _TRY_LATER:
                    refused.setdefault(str(answer), []).append(host.root)
                    await self._frontier.fail_host(_ref(host), answer.code, int(self._now()))
            for why, roots in refused.items():  # whoever has wildcard DNS has many
                _log.warn(
                    "Crawl {crawl}: the UNS makes no provider of {root}{others}: {answer}",
                    crawl=rules.crawl.name,
                    root=roots[0],
                    others=f" and {number(len(roots) - 1, 'other host')}" if len(roots) > 1 else "",
                    answer=why,
                )
            if watched:
                await self._frontier.watched(watched, int(self._now()))
                self._counters.sites += len(watched)
                pids.update(watched)
        return pids

    async def _allow_private_again(self, rules: CrawlRules, pids: Mapping[HostRef, int]) -> None:
        """Of hosts whose robots.txt cannot be read, or of which pages were refused: a queue that was restored from a
        backup may have made their providers anew, without private addresses.  Each is asked for less and less often:
        it may just be down."""
        now = self._clock.seconds()
        hosts = []
        for host in pids:
            if self._private.is_to_ask(host):
                hosts.append(host)
            elif self._sites.said(host.root).allow != NONE:
                self._unread.pop(host, None)
            elif now >= self._unread.get(host, (0.0, 0.0))[0]:
                hosts.append(host)
        for start in range(0, len(hosts), _ASKED_AT_ONCE):
            asked = hosts[start : start + _ASKED_AT_ONCE]
            found = await self._watch([host.root for host in asked], rules)
            for host, answer in zip(asked, found, strict=True):
                if isinstance(answer, int) or answer.code != _TRY_LATER:
                    self._private.asked(host)  # what was refused is told again, which shows what is wrong
                pause = min(2 * self._unread.get(host, (0.0, FORBIDDEN_SECONDS))[1], _UNREAD_SECONDS_MAX)
                if len(self._unread) >= _UNREAD_MAX and host not in self._unread:
                    del self._unread[next(iter(self._unread))]
                self._unread[host] = now + pause, pause
                if isinstance(answer, int) and answer != pids[host]:
                    self._ask_again(host)

    def _ask_again(self, host: HostRef) -> None:
        """The provider of this host is another one by now, or gone."""
        self._removed.add(host)
        self._sites.forget(host.root)

    async def _watch(self, roots: Sequence[str], rules: CrawlRules) -> list[int | NotifierRefused]:
        link, private = self.link, rules.crawl.settings.allow_private
        assert link is not None
        asked = [_answer(link.watch(root, private=private)) for root in roots]
        try:
            return list(await gatherResults(asked, consumeErrors=True))
        except FirstError as error:
            error.subFailure.raiseException()  # it was cancelled
            raise

    def _say(
        self, rules: CrawlRules, told: Telling, robots: SiteRobots, cached: Collection[tuple[int, bytes]]
    ) -> None:
        """Tell what a robots.txt does not forbid.

        :param robots: what it says.
        :param cached: what the cache has, by crawl and key; it is not told.
        """
        allowed = []
        for each in told.urls:
            if not is_allowed(robots.rules, robots.allow, told.root + each.path):
                self.answers.append(UrlAnswer(told.crawl, each.key, Verdict.REFUSED, told.number))
            elif (told.crawl, each.key) not in cached:
                allowed.append(each)
        if not allowed or self.link is None:
            return
        self._counters.told += len(allowed)
        urls = tuple({"c": told.root + each.path, **({"op": "recheck"} if each.recheck else {})} for each in allowed)
        notice = SourcedSet(told.number, told.pid, Source.LINK, urls)
        self._saying(told.number)
        self.link.tell(notice).addCallback(self._outcome, rules, told, allowed)

    def _outcome(self, outcome: NoticeOutcome, rules: CrawlRules, told: Telling, urls: Sequence[ToldUrl]) -> None:
        """What the UNS says of a set; what becomes of what it accepts is asked later."""
        if outcome.code:
            refused = [(each, outcome.code) for each in urls]
            _log.warn(
                "The UNS refuses {count} URLs of {root}: {code} {text}",
                count=len(urls),
                root=told.root,
                code=outcome.code,
                text=outcome.text,
            )
        else:
            refused = [(urls[each.index - 1], each.code) for each in outcome.refused]
        self._counters.refused += len(refused)
        # Then the UNS is asked for its provider once more, unless the crawl is of that one alone.
        again = frozenset() if rules.crawl.settings.pid else _NOT_ITS_PROVIDER
        if any(fault in again for _, fault in refused):
            self._ask_again(HostRef(told.crawl, told.root))
        for each, fault in refused:
            verdict = Verdict.LOST if fault in again else Verdict.REFUSED
            self.answers.append(UrlAnswer(told.crawl, each.key, verdict, told.number, fault))


def _ref(host: ReadyHost) -> HostRef:
    return HostRef(host.crawl, host.root)


def _answer(asked: Deferred[int]) -> Deferred[Any]:
    """Its result, or how it was refused."""

    def refused(failure: Failure) -> Any:
        failure.trap(NotifierRefused)
        return failure.value

    return asked.addErrback(refused)
