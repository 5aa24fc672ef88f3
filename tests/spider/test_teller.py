"""The teller with very many hosts that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from lcc.model.spider.crawls import Crawl, CrawlSettings, CrawlState, HostRef, Owners, ReadyHost, Telling
from lcc.model.states import SiteRobots
from lcc.roles.spider.counters import Counters
from lcc.roles.spider.private_hosts import PrivateHosts
from lcc.roles.spider.sites import FORBIDDEN_SECONDS, KEPT_SECONDS, UNKNOWN_SECONDS, Sites
from lcc.roles.spider.teller import Teller


@attrs.define
class Rules:
    crawl: Crawl = attrs.field(
        factory=lambda: Crawl(1, "a", CrawlSettings(), CrawlState.ACTIVE, 0, frozenset(), 1), kw_only=True
    )


class Frontier:
    """Hosts that are all ready.

    :ivar read: how many were read.
    """

    def __init__(self, hosts: int) -> None:
        self.hosts = [
            ReadyHost(1, f"http://www{number}.example/", 7, number, 0, number.to_bytes(8)) for number in range(hosts)
        ]
        self.read = 0
        self.told: list[HostRef] = []

    def ready_hosts(
        self, crawl: int, buckets: Any, now: int, limit: int, after: ReadyHost | None = None
    ) -> Deferred[list[ReadyHost]]:
        behind = self.hosts if after is None else self.hosts[after.time + 1 :]
        found = [host for host in behind[: limit + len(self.told)] if HostRef(1, host.root) not in self.told][:limit]
        self.read += len(found)
        return succeed(found)

    def tell(self, hosts: Mapping[HostRef, Owners], now: int) -> Deferred[list[Telling]]:
        self.told += hosts
        return succeed([])


class Link:
    connected = has_room = True


class Unknown(Sites):
    """robots.txt of all hosts but one is not known.

    :ivar asked: how often they were asked for.
    """

    known = ""
    asked = 0

    async def ask(self, roots: Any) -> None:
        self.asked += len(roots)

    def may_tell(self, root: str) -> bool:
        return root == self.known


async def test_very_many_hosts_that_wait_are_read_once() -> None:
    clock, frontier, hosts = Clock(), Frontier(20_000), 20_000
    client: Any = None
    sites = Unknown(client, clock)
    given: Any = frontier
    teller = Teller(
        given, sites, PrivateHosts(clock), clock, clock.seconds, Counters(), 0, _nothing, lambda number: None
    )
    link: Any = Link()
    teller.link = link
    rules: Any = [Rules()]
    sites.known = frontier.hosts[-1].root
    await teller.tell(rules, range(64))
    assert frontier.told == [HostRef(1, sites.known)], "the last one has its turn, too"
    assert sites.asked == hosts
    assert frontier.read == hosts, "each page begins behind the last one"
    for _ in range(round(FORBIDDEN_SECONDS / UNKNOWN_SECONDS) - 1):
        clock.advance(UNKNOWN_SECONDS)
        await teller.tell(rules, range(64))
    assert sites.asked <= 5 * hosts, "the more wait, the less often each is looked at"
    clock.advance(FORBIDDEN_SECONDS)
    sites.known = frontier.hosts[0].root
    await teller.tell(rules, range(64))
    assert frontier.told[1:] == [HostRef(1, sites.known)]


async def test_sites_whose_robots_txt_is_not_known_are_not_kept() -> None:
    clock, asked = Clock(), []

    class Client:
        answers = {"http://a.example/": "all"}

        async def robots(self, roots: Sequence[str]) -> list[SiteRobots]:
            asked.extend(roots)
            return [SiteRobots(root, self.answers.get(root, ""), providers=((root, 1),)) for root in roots]

    client: Any = Client()
    sites = Sites(client, clock)
    roots = ["http://a.example/", *(f"http://www{number}.example/" for number in range(1000))]
    await sites.ask(roots)
    assert len(sites._known) == 1 and sites.may_tell(roots[0]) and not sites.may_tell(roots[1])
    await sites.ask(roots)
    assert asked == [*roots, *roots[1:]]
    # What was known, and is not any longer, is forgotten.
    clock.advance(KEPT_SECONDS + 1)
    Client.answers.clear()
    await sites.ask(roots[:1])
    assert not sites.may_tell(roots[0]) and not sites._known and not sites._chars


async def _nothing(told: Any) -> set[Any]:
    return set()
