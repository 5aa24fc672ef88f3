"""Notifiers at the front end: real links, the proxy and two UNSes in memory, under their queue managers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed

from lcc.config import WatchedConfig
from lcc.errors import StoreUnavailable, code
from lcc.model import Provider
from lcc.model.frontend.places import AtHome, SubLcc
from lcc.model.notifiers import NOTIFIERS, NoticeOutcome, SourcedSet
from lcc.model.sources import Source
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import Again, SetBegin
from lcc.protocols.uns_qm import Set
from lcc.roles.fe_uns.notifiers.connection import RelayedNotifier
from lcc.roles.fe_uns.notifiers.relay import NotifierRelay
from lcc.roles.fe_uns.sites import SiteHomes
from lcc.roles.notifier import NotifierLink, NotifierRefused
from lcc.roles.sub_databases import SubDatabases
from lcc.roles.uns.notifiers.connection import notifier_port
from lcc.storage.database.migrations import FE
from lcc.storage.fe.sites import KEPT_SECONDS, claim_site
from lcc.storage.fe.sublccs import add_sublcc, report_vitals
from lcc.storage.providers.providers import add_provider
from lcc.storage.providers.watched import SOMEBODY, find_or_make_watched
from lcc.transport.ports.connection_limits import ConnectionLimits, Place
from tests.frontend.kit import NOW, sublcc, vitals
from tests.support.databases import Backend, DirectDatabase, result_of
from tests.support.roles.front import Proxy
from tests.support.roles.uns import World, absorbed
from tests.support.transports import Wire

A, B = 7, 107
"""Providers of the first and of the second sub-LCC."""


class _Link(NotifierLink):
    """To a sub-LCC."""

    sub: SubLcc


class Relayed:
    """A notifier at a front end over two sub-LCCs.

    :ivar outcomes: of the notifier's sets, in the order in which they came.
    :ivar answering: by sub-LCC, whether its queue manager answers.
    """

    def __init__(self, folder: Path) -> None:
        self.proxy = Proxy()
        self.proxy.sublccs = [attrs.evolve(sub, notifiers=f"sim:{sub.name}") for sub in self.proxy.sublccs]
        self.worlds: dict[int, World] = {}
        self.taken: dict[int, list[Set]] = {1: [], 2: []}
        self.answering = {1: True, 2: True}
        for number in (1, 2):
            (folder / str(number)).mkdir()
            world = self.worlds[number] = World(folder / str(number))
            world.database.providers = {
                pid: Provider(pid, ("http://site.example/",), "") for pid in (A + 100 * number - 100, 8)
            }
            world.connect_qm(self._answers(number))
        self.chosen: list[str] = []
        self.choosing: Deferred[SubLcc | None] | None = None
        self.relay = NotifierRelay(self.proxy.uns, self._connect, self._choose, 20)
        self.wires: list[Wire] = []
        self.link = NotifierLink("spider", "s1", "e1", "r1", self.proxy.clock)
        self.outcomes: list[NoticeOutcome] = []
        self.answers: list[Any] = []
        self.pump(1.1)  # it reads the sub-LCCs again
        self.connect()

    def _answers(self, number: int) -> Callable[[Set], Any]:
        def answer(begin: Set) -> Any:
            self.taken[number].append(begin)
            return absorbed(begin) if self.answering[number] else None

        return answer

    def _connect(self, sub: SubLcc, hello: Hello) -> Any:
        link = _Link(hello.role, hello.name, hello.epoch, hello.run, self.proxy.clock)
        link.sub = sub
        there = notifier_port(self.worlds[sub.subid].uns.notifiers, frozenset(NOTIFIERS), ConnectionLimits(20))
        self.wires.append(Wire(link.factory().buildProtocol(None), there.buildProtocol(None)))  # type: ignore[arg-type]
        return link

    def _choose(self, root: str) -> Deferred[SubLcc | None]:
        self.chosen.append(root)
        return self.choosing or succeed(self.proxy.sublccs[1])

    def connect(self) -> None:
        place = Place(ConnectionLimits(9), "")
        self.there = RelayedNotifier(self.relay, frozenset(NOTIFIERS), place)
        here: Any = self.link.factory().buildProtocol(None)
        self.wires.append(Wire(here, self.there.build_stream()))
        self.pump()

    def pump(self, seconds: float = 0.0) -> None:
        for _ in range(max(1, round(10 * seconds))):
            self.proxy.clock.advance(0.1 if seconds else 0)
            for _ in range(20):
                for wire in list(self.wires):
                    wire.settle()
                for world in self.worlds.values():
                    world.pump()
                self.proxy.clock.advance(0)

    def tell(self, number: int, pid: int, *names: str, **more: Any) -> None:
        urls = tuple({"c": f"http://site.example/{name}"} for name in names or ("a",))
        told = SourcedSet(number, pid, more.pop("source", Source.POLLED), urls, **more)
        self.link.tell(told).addCallback(self.outcomes.append)

    def ask(self, question: Deferred[int]) -> Any:
        question.addBoth(self.answers.append)
        self.pump()
        return self.answers.pop()

    @property
    def numbers(self) -> dict[int, list[int]]:
        return {number: [begin.said for begin in taken] for number, taken in self.taken.items()}

    @property
    def results(self) -> list[tuple[int, int]]:
        return [(outcome.number, outcome.code) for outcome in self.outcomes]


@pytest.fixture
def relayed(tmp_path: Path) -> Relayed:
    return Relayed(tmp_path)


def test_sets_go_where_their_providers_are(relayed: Relayed) -> None:
    for number, pid in enumerate((A, B, A, B, B), 1):
        relayed.tell(number, pid)
    relayed.tell(6, 999)
    relayed.tell(7, A, source=Source.TOLD)
    relayed.pump()
    assert relayed.numbers == {1: [1, 3], 2: [2, 4, 5]}
    assert {begin.notifier for taken in relayed.taken.values() for begin in taken} == {"spider/s1"}
    gone, bad = code("provider-gone"), code("bad-set")
    assert relayed.results == [*((number, 0) for number in range(1, 6)), (6, gone), (7, bad)]


def test_answers_come_in_the_order_of_the_sets(relayed: Relayed) -> None:
    relayed.answering[1] = False
    relayed.tell(1, A)
    relayed.tell(2, B)
    relayed.pump()
    assert relayed.numbers == {1: [1], 2: [2]} and relayed.results == []
    qm = relayed.worlds[1].qm
    assert qm is not None
    qm.say(absorbed(relayed.taken[1][0]))
    relayed.pump()
    assert relayed.results == [(1, 0), (2, 0)]


def test_faults_are_told(relayed: Relayed) -> None:
    urls = (
        {"c": "http://site.example/a"},
        {"c": "http://elsewhere.example/"},
        {"c": "http://site.example/", "op": "x"},
    )
    relayed.link.tell(SourcedSet(1, B, Source.POLLED, urls)).addCallback(relayed.outcomes.append)
    relayed.pump()
    (outcome,) = relayed.outcomes
    assert (outcome.code, [(each.index, each.code) for each in outcome.refused]) == (0, [(2, 1204), (3, 1211)])
    assert outcome.refused[0].url == "http://elsewhere.example/"


def test_sets_of_a_provider_that_moves_wait_for_its_new_home(relayed: Relayed) -> None:
    relayed.proxy.place(8, 1, AtHome.FROZEN)
    relayed.tell(1, A)
    relayed.tell(2, 8)
    relayed.tell(3, B)
    relayed.pump(3)
    assert relayed.numbers == {1: [1], 2: []} and relayed.results == [(1, 0)]
    assert "provider 8 is moving" in relayed.there.describe()
    relayed.proxy.place(8, 2)
    relayed.pump(0.5)
    assert relayed.numbers == {1: [1], 2: [2, 3]} and relayed.results == [(1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("answering", [True, False])
def test_a_set_that_comes_after_its_provider_has_left_goes_to_its_new_home(relayed: Relayed, answering: bool) -> None:
    """Also behind later ones that its new home has been told already; each is taken once, answers come in order."""
    relayed.proxy.place(8, 1)
    relayed.answering[2] = answering
    del relayed.worlds[1].database.providers[8]
    find, looked = relayed.relay.homes, 0

    async def homes(pids: Any) -> Any:
        nonlocal looked
        found = await find(pids)
        looked += 8 in pids
        if looked == 2:  # both of its sets are on their way to its former home
            relayed.proxy.place(8, 2)
        return found

    relayed.relay.homes = homes  # type: ignore[method-assign]
    for number, pid in enumerate((B, 8, B, 8, A, B), 1):
        relayed.tell(number, pid)
    relayed.pump(1)
    if not answering:
        qm = relayed.worlds[2].qm
        assert qm is not None and relayed.results == []
        for begin in relayed.taken[2]:
            qm.say(absorbed(begin))
        relayed.pump(1)
    assert relayed.numbers == {1: [5], 2: [1, 3, 6, 2, 4]}
    assert relayed.results == [(number, 0) for number in range(1, 7)]


def test_a_provider_that_is_nowhere_is_not_looked_for_for_ever(relayed: Relayed) -> None:
    del relayed.worlds[1].database.providers[A]
    relayed.tell(1, B)
    relayed.tell(2, A)
    relayed.tell(3, B)
    relayed.pump(1)
    assert relayed.results == [(1, 0), (2, code("provider-gone")), (3, 0)]


def test_sub_lccs_hear_that_other_sets_went_elsewhere(relayed: Relayed) -> None:
    """These may come there yet."""
    for number, pid in enumerate((B, A, B, B), 1):
        relayed.tell(number, pid)
    relayed.pump()
    assert [(begin.said, begin.said_after) for begin in relayed.taken[2]] == [(1, 0), (3, 2), (4, 3)]


def test_while_nobody_knows_where_providers_are_sets_wait(relayed: Relayed) -> None:
    relayed.proxy.away = True
    relayed.tell(1, A)
    relayed.pump(2)
    assert relayed.results == [] and not relayed.taken[1]
    refused = relayed.ask(relayed.link.draw(A)).value
    assert isinstance(refused, NotifierRefused) and refused.code == code("try-later")
    relayed.proxy.away = False
    relayed.pump(0.5)
    assert relayed.results == [(1, 0)]


def test_a_sub_lcc_without_a_port_of_notifiers_is_waited_for(relayed: Relayed) -> None:
    _, second = relayed.proxy.sublccs
    relayed.proxy.sublccs[1] = attrs.evolve(second, notifiers="")
    relayed.pump(2)
    relayed.tell(1, B)
    relayed.pump(1)
    assert relayed.results == [] and "sub-LCC b takes no notifiers" in relayed.there.describe()
    relayed.proxy.sublccs[1] = second
    relayed.pump(2)
    assert relayed.results == [(1, 0)]


def test_a_lost_connection_loses_nothing(relayed: Relayed) -> None:
    relayed.answering = {1: False, 2: False}
    for number in range(1, 9):
        relayed.tell(number, (A, B)[number % 2])
    relayed.pump()
    relayed.there.drop()
    relayed.pump()
    assert not relayed.relay.open
    for number, world in relayed.worlds.items():
        relayed.answering[number] = True
        assert world.qm is not None
        for begin in relayed.taken[number]:
            world.qm.say(absorbed(begin))
    relayed.connect()
    relayed.tell(9, A)
    relayed.pump()
    assert relayed.results == [(number, 0) for number in range(1, 10)]
    assert relayed.numbers == {1: [2, 4, 6, 8, 9], 2: [1, 3, 5, 7]}, "none is passed on twice"


def test_the_same_notifier_again_drops_the_earlier_connection(relayed: Relayed) -> None:
    before = relayed.there
    relayed.connect()
    assert list(relayed.relay.open) == [relayed.there] and before is not relayed.there


def test_order_numbers_and_watched_providers_are_asked_for_where_they_are(relayed: Relayed) -> None:
    assert [relayed.ask(relayed.link.draw(B)), relayed.ask(relayed.link.draw(B))] == [1, 2]
    assert relayed.worlds[2].database.drawn == {B: 2} and not relayed.worlds[1].database.drawn
    relayed.tell(1, B, source=Source.LISTED, order=2)
    relayed.pump()
    assert relayed.results == [(1, 0)]
    assert relayed.ask(relayed.link.draw(999)).value.code == code("provider-gone")
    assert relayed.ask(relayed.link.watch("http://new.example/")) == 108
    assert relayed.chosen == ["http://new.example/"]
    assert relayed.ask(relayed.link.watch("no URL")).value.code == code("bad-url")
    for outcome, fault in ((fail(StoreUnavailable("away")), "try-later"), (succeed(None), "limit")):
        relayed.choosing = outcome
        assert relayed.ask(relayed.link.watch("http://other.example/")).value.code == code(fault)


def test_what_has_no_answer_is_bounded(relayed: Relayed) -> None:
    relayed.answering = {1: False, 2: False}
    for number in range(1, 101):
        relayed.tell(number, A)
    relayed.pump()
    assert "20 sets without an answer" in relayed.there.describe()
    # One that does not keep to the window is not read from.
    stream = relayed.there.stream
    for number in range(101, 300):
        relayed.there.elements_received([_start(SetBegin(number, A, "polled")), _end()])
        if not relayed.there._may_go_on():
            break
    assert number < 110 and stream is relayed.there.stream


def test_again_where_nothing_was_held_ends_the_connection(relayed: Relayed) -> None:
    peer: Any = relayed.link._peer
    peer.say(Again())
    relayed.pump()
    assert not relayed.relay.open


def _start(message: SetBegin) -> Any:
    return "set", {"number": str(message.number), "pid": str(message.pid), "source": message.source}, 2


def _end() -> Any:
    return "end", {"count": "0"}, 2


# Where a site is watched.


class Sites:
    """Two sub-LCCs of which the second has more room."""

    def __init__(self, backend: Backend, new_url: Callable[[str], str]) -> None:
        self.front = DirectDatabase(new_url("front"), backend.home, FE)
        self.subs: list[DirectDatabase] = []
        opened: dict[str, Any] = {}
        for number in (1, 2):
            url = new_url(f"sub{number}")
            self.subs.append(DirectDatabase(url, backend.home))
            opened[url] = self.subs[-1]
            self.subs[-1].start = lambda: None  # type: ignore[attr-defined]
            sub = sublcc(number, subid=0, database=url, files_max=1000, notifiers="tcp:h:1")
            self.front.now(add_sublcc, sub)
            self.report(number, 600 - 200 * number)
        self.homes = SiteHomes(
            self.front,  # type: ignore[arg-type]  # as good as one
            SubDatabases(lambda url: opened[url]),
            60,
            lambda: NOW,
        )

    def report(self, number: int, files: int) -> None:
        self.front.now(report_vitals, chr(96 + number), vitals(0, files=files))

    def choose(self, root: str) -> int:
        sub: SubLcc = result_of(self.homes.choose(root))
        return sub.subid

    def close(self) -> None:
        for database in (self.front, *self.subs):
            database.blocking.close()


@pytest.fixture
def sites(backend: Backend, request: pytest.FixtureRequest) -> Iterator[Sites]:
    def new_url(name: str) -> str:
        return (
            f"sqlite:{name}.db" if backend.kind == "sqlite" else request.getfixturevalue(backend.kind).new_database()
        )

    found = Sites(backend, new_url)
    yield found
    found.close()


def test_a_site_is_watched_where_it_is_already_or_where_there_is_room(sites: Sites) -> None:
    add = sites.subs[0].now
    add(add_provider, Provider(0, ("http://registered.example/",), "hash"))
    add(find_or_make_watched, "http://watched.example/", WatchedConfig(), SOMEBODY)
    assert sites.choose("http://registered.example/part/") == 1
    assert sites.choose("https://watched.example/") == 1
    assert sites.choose("http://watched.example/part/") == 2, "another site: one with a root of its own"
    assert sites.choose("http://new.example/") == 2
    sites.report(2, 900)
    assert sites.choose("http://new.example/") == sites.choose("https://new.example/") == 2, "as was said before"
    assert sites.choose("http://newer.example/") == 1
    # The registered one counts more than the one that watches.
    sites.subs[1].now(add_provider, Provider(0, ("http://watched.example/",), "hash"))
    assert sites.choose("http://watched.example/") == 2


def test_a_claim_is_forgotten_in_the_end(sites: Sites) -> None:
    assert sites.front.now(claim_site, "http://x.example/", 1, NOW) == 1
    assert sites.front.now(claim_site, "http://x.example/", 2, NOW + KEPT_SECONDS) == 1
    assert sites.front.now(claim_site, "http://x.example/", 2, NOW + KEPT_SECONDS + 1) == 2
