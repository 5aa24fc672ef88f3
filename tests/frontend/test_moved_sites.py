"""Sites of providers that have moved, and are to be watched where they were: none is doubled; on each database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from lcc.config import RsConfig, WatchedConfig
from lcc.errors import RegistrationRefused, code
from lcc.model import Proves, Provider, Registration
from lcc.model.frontend.moves import MoveState
from lcc.model.frontend.places import SubLcc
from lcc.model.notifiers import NOTIFIERS
from lcc.model.sources import Source
from lcc.roles.fe_rs import store as fe_rs_store
from lcc.roles.fe_rs.store import FrontRegistrationStore
from lcc.roles.fe_uns import sites as fe_sites
from lcc.roles.fe_uns.sites import SiteHomes
from lcc.roles.notifier import NotifierLink
from lcc.roles.uns.notifiers.connection import notifier_port
from lcc.storage.fe.sites import claim_site
from lcc.storage.fe.sublccs import change_sublcc, report_vitals
from lcc.storage.providers.providers import order_removal
from lcc.storage.providers.registrations import apply_registration
from lcc.storage.providers.watched import (
    SiteMoved,
    find_or_make_watched,
    left_provider,
    register_provider,
    watch_again,
    watch_site,
)
from lcc.transport.ports.connection_limits import ConnectionLimits
from tests.frontend.kit import NOW, vitals
from tests.frontend.moving import Front, MakeFront
from tests.frontend.test_notifiers import Relayed
from tests.support.databases import result_of
from tests.support.transports import Wire

ROOT = "http://site.example/"
CONFIG = WatchedConfig()


def watch(front: Front, number: int, root: str = ROOT) -> int:
    return front.sub(number).database.now(find_or_make_watched, root, CONFIG)


def moved(front: Front) -> int:
    """A watched site that has moved from a to b."""
    pid = watch(front, 1)
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    return pid


def homes(front: Front) -> SiteHomes:
    """Where sites are watched; the last sub-LCC has the most room."""
    for number in range(1, len(front.subs) + 1):
        name = front.sub(number).name
        front.database.now(lambda txn, name=name: change_sublcc(txn, name, notifiers="tcp:h:1", files_max=1000))
        front.database.now(report_vitals, name, vitals(0, files=600 - 200 * number))
    databases: Any = front  # as good as one
    return SiteHomes(front.database, databases, 60, lambda: NOW)


def watchers(front: Front, number: int) -> list[tuple[Any, ...]]:
    return front.sub(number).query("SELECT pid, root FROM proots")


def test_a_site_that_has_left_is_not_watched_anew(make_front: MakeFront) -> None:
    front = make_front()
    pid = moved(front)
    source = front.sub(1).database
    for root in (ROOT, "https://site.example/"):
        with pytest.raises(SiteMoved, match=f"moved to another sub-LCC: provider {pid}") as refused:
            watch(front, 1, root)
        assert refused.value.pid == pid
        with pytest.raises(SiteMoved):
            source.now(watch_site, root, CONFIG, 5.0)
    assert watchers(front, 1) == []
    assert watch(front, 2) == pid and watchers(front, 2) == [(pid, ROOT)]
    part = watch(front, 1, f"{ROOT}part/")
    assert watchers(front, 1) == [(part, f"{ROOT}part/")], "another site: one with a root of its own"
    front.order(pid, 1)
    front.go_until(MoveState.DONE, 2)
    assert watch(front, 1) == pid, "it is back"
    with pytest.raises(SiteMoved):
        watch(front, 2)


def test_what_lies_in_the_root_of_a_registered_one_has_left_with_it(make_front: MakeFront) -> None:
    front = make_front()
    pid = front.sub(1).world.provider()
    front.order(pid, 2)
    front.go_until(MoveState.DONE)
    with pytest.raises(SiteMoved):
        watch(front, 1, f"{ROOT}part/")
    # A second provider may be registered for a root, wherever that is.
    again = front.sub(1).database.now(register_provider, Provider(0, (ROOT,), "hash"))
    assert again != pid and watch(front, 1, f"{ROOT}part/") == again


def test_whoever_registers_it_where_it_was_makes_no_second_one(make_front: MakeFront) -> None:
    front = make_front()
    pid = moved(front)
    source = front.sub(1).database
    with pytest.raises(SiteMoved):
        source.now(register_provider, Provider(0, (ROOT,), "hash"))
    # The registration server of that LCC; and that of the front end, whose provider has left since it has looked.
    for number, kind, seconds in ((0, "changed", 0.0), (pid, "busy", 30.0)):
        asked = Registration(Proves.PROVIDER, "t", "s", "p", "lcc.txt", (ROOT,), NOW, NOW + 100, pid=number)
        with pytest.raises(RegistrationRefused, match="has moved") as refused:
            source.now(apply_registration, asked, RsConfig())
        assert (refused.value.kind, refused.value.retry_seconds) == (kind, seconds)
    assert watchers(front, 1) == []
    # The front end has looked everywhere before it draws an id.
    assert source.now(register_provider, Provider(50, (ROOT,), "hash")) == 50


def test_an_operator_may_have_it_watched_again(make_front: MakeFront) -> None:
    front = make_front()
    pid = moved(front)
    front.sub(1).database.now(watch_again, ["http://other.example/", ROOT])
    assert watch(front, 1) != pid


def test_a_site_is_looked_up_again_if_it_leaves_meanwhile(make_front: MakeFront, tmp_path: Path) -> None:
    """The front end's question is in transit to the sub-LCC that its provider is leaving."""
    front, relayed = make_front(), Relayed(tmp_path)
    pid = watch(front, 1)
    front.order(pid, 2)
    sites, asked = homes(front), []

    def choose(root: str) -> Deferred[SubLcc | None]:
        sub: SubLcc = result_of(sites.choose(root))
        asked.append(sub.subid)
        front.go_until(MoveState.DONE)  # before the sub-LCC hears of it
        found: Deferred[SubLcc | None] = Deferred()
        found.callback(relayed.proxy.sublccs[sub.subid - 1])
        return found

    relayed.relay._choose = choose
    _have_watched_in(front, relayed)
    assert relayed.ask(relayed.link.watch(ROOT)) == pid
    assert asked == [1, 2]
    assert watchers(front, 1) == [] and watchers(front, 2) == [(pid, ROOT)]


def test_a_site_that_leaves_each_time_is_asked_for_later(make_front: MakeFront, tmp_path: Path) -> None:
    front, relayed = make_front(), Relayed(tmp_path)
    moved(front)
    chosen: list[str] = []

    def choose(root: str) -> Deferred[SubLcc | None]:
        chosen.append(root)
        found: Deferred[SubLcc | None] = Deferred()
        found.callback(relayed.proxy.sublccs[0])
        return found

    relayed.relay._choose = choose
    _have_watched_in(front, relayed)
    assert relayed.ask(relayed.link.watch(ROOT)).value.code == code("try-later")
    assert chosen == [ROOT] * 3
    assert watchers(front, 1) == []


def test_a_site_whose_provider_was_removed_elsewhere_is_watched_where_it_never_was(make_front: MakeFront) -> None:
    """The sub-LCC that it has left remembers it: another one is chosen, though it was claimed for the former."""
    front = make_front()
    sites = homes(front)
    pid = watch(front, 2)
    front.database.now(claim_site, ROOT, 2, NOW)
    front.order(pid, 1)
    front.go_until(MoveState.DONE)
    found: Any = result_of(sites.choose(ROOT))
    assert found.subid == 1
    front.sub(1).database.now(order_removal, pid)
    for _ in range(2):
        found = result_of(sites.choose(ROOT))
        assert found.subid == 1, "b has more room"
    assert watch(front, 1) != pid


def test_of_two_that_claim_a_site_anew_the_first_counts(make_front: MakeFront) -> None:
    front = make_front(subs=3)
    assert front.database.now(claim_site, ROOT, 1, NOW) == 1
    assert front.database.now(claim_site, ROOT, 2, NOW, [1]) == 2
    assert front.database.now(claim_site, ROOT, 3, NOW, [1]) == 2


def moves_while_looked_for(
    front: Front, pid: int, module: Any, monkeypatch: pytest.MonkeyPatch, looks: list[int]
) -> None:
    """b is read before the provider comes there, a when it has left.

    :param module: that looks.
    :param looks: counts how often.
    """
    dest = front.sub(2).database
    interact, look = dest.interact, module._site

    def moves_then(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        seen = interact(function, *args)
        looks[0] += function is look
        if function is look and looks[0] == 1:
            front.order(pid, 2)
            front.go_until(MoveState.DONE)
        return seen

    monkeypatch.setattr(dest, "interact", moves_then)
    b_first = [front.sublcc(number) for number in (2, 1, 3)]
    monkeypatch.setattr(module, "list_sublccs", lambda txn: b_first)


def test_a_provider_between_two_sub_lccs_is_looked_for_twice(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = make_front(subs=3)
    pid, looks = watch(front, 1), [0]
    sites = homes(front)
    moves_while_looked_for(front, pid, fe_sites, monkeypatch, looks)
    found: Any = result_of(sites.choose(ROOT))
    assert found.subid == 2 and looks == [2]


def test_a_watched_site_that_is_registered_while_it_moves_keeps_its_provider(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = make_front(subs=3)
    pid, looks = watch(front, 1), [0]
    homes(front)
    databases: Any = front  # as good as one
    store = FrontRegistrationStore(front.database, databases, RsConfig(), 60, lambda: NOW)
    asked = Registration(Proves.PROVIDER, "t", "s", "p", "lcc.txt", (ROOT,), NOW, NOW + 100, contact="me@example.org")
    number = result_of(store.open(asked))
    moves_while_looked_for(front, pid, fe_rs_store, monkeypatch, looks)
    assert result_of(store.prove(number, False, NOW)).pid == pid and looks == [2]
    assert [sub.query("SELECT pid, watched FROM pidb WHERE removed = 0") for sub in front.subs] == [
        [],
        [(pid, 0)],
        [],
    ]


def test_a_notifier_of_the_former_sub_lcc_hears_that_it_has_moved(make_front: MakeFront, tmp_path: Path) -> None:
    """A scheduler or spider that is connected to it directly; what it tells of others goes on."""
    front, relayed = make_front(), Relayed(tmp_path)
    pid = moved(front)
    _have_watched_in(front, relayed)
    world = relayed.worlds[1]
    link = NotifierLink("spider", "own", "e1", "r1", relayed.proxy.clock)
    port = notifier_port(world.uns.notifiers, frozenset(NOTIFIERS), ConnectionLimits(20))
    here: Any = link.factory().buildProtocol(None)
    there: Any = port.buildProtocol(None)
    relayed.wires.append(Wire(here, there))
    relayed.link = link
    relayed.pump()
    refused = relayed.ask(link.watch(ROOT)).value
    assert (refused.code, refused.text) == (1108, f"the site has moved to another sub-LCC: provider {pid}")
    assert relayed.ask(link.watch("http://new.example/")) > 0
    relayed.tell(1, 7, source=Source.LINK)
    relayed.pump()
    assert relayed.results == [(1, 0)] and watchers(front, 1)[0][1] == "http://new.example/"


def test_roots_are_kept_by_the_transaction_that_removes_them(make_front: MakeFront) -> None:
    """Whatever is killed, the site is here or is remembered; and a source that begins anew forgets nothing."""
    front = make_front()
    pid = watch(front, 1)
    front.order(pid, 2)
    source = front.sub(1)
    states: set[tuple[bool, bool]] = set()

    def look() -> None:
        there = bool(source.query("SELECT 1 FROM pidb WHERE pid = ?", pid))
        states.add((there, source.database.now(left_provider, ROOT) == pid))

    while front.move().state is not MoveState.DONE:
        if not source.killed.at:
            source.killed.count, source.killed.at = 0, -1
        front.go(0.5, look)
    assert states == {(True, False), (False, True)}
    front.go(3, look)
    assert states == {(True, False), (False, True)}


def _have_watched_in(front: Front, relayed: Relayed) -> None:
    """The sub-LCCs' UNSes look in their databases, as the service has it."""
    for number, world in relayed.worlds.items():

        def in_database(database: Any, root: str, *_: Any) -> Deferred[int]:
            found: Deferred[int] = database.write(find_or_make_watched, root, CONFIG)
            return found

        world.uns.notifiers._watch = partial(in_database, front.sub(number).database)
