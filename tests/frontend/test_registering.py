"""Registrations of a front end: where a provider is made, and that there is one, whatever fails in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail

from lcc.config import RsConfig, WatchedConfig
from lcc.errors import RegistrationRefused, StoreUnavailable
from lcc.model import Progress, Proves, Provider, Registration
from lcc.model.frontend.places import AtHome, Placement, SubLcc, SubState
from lcc.roles.fe_rs.store import FrontRegistrationStore
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.migrations import FE, MAIN
from lcc.storage.fe.placements import placements
from lcc.storage.fe.sublccs import add_sublcc, change_sublcc, report_vitals
from lcc.storage.providers.pid_range import limit_pids
from lcc.storage.providers.providers import add_provider, get_provider, list_providers
from lcc.storage.providers.watched import find_or_make_watched
from tests.frontend.kit import NOW, sublcc, vitals
from tests.support.databases import Backend, DirectDatabase, result_of

SITE = "http://www.example.org/"
WEEK = 7 * 86400


class Failing(DirectDatabase):
    """A database whose writes can be made to fail.

    :ivar plan: shared by all: at which write, and whether it is done all the same.
    """

    plan: dict[str, Any]

    def start(self) -> None:
        pass

    def stop(self) -> Deferred[None]:
        self.blocking.close()
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def write(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        plan = self.plan
        plan["writes"] += 1
        if plan["at"] == plan["writes"]:
            if plan["done"]:
                super().write(function, *args)
            return fail(StoreUnavailable("killed here"))
        return super().write(function, *args)

    def interact(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        return fail(StoreUnavailable("away")) if self.plan.get("away") is self else super().interact(function, *args)


class World:
    """A front end with two sub-LCCs."""

    def __init__(self, backend: Backend, new_url: Callable[[str], str]) -> None:
        self.plan: dict[str, Any] = {"writes": 0, "at": 0, "done": False}
        self.front = self._open(new_url("front"), backend, FE)
        self.subs: list[DirectDatabase] = []
        self.now = NOW
        for number in (1, 2):
            url = new_url(f"sub{number}")
            self.subs.append(self._open(url, backend, MAIN))
            ranges = {"first_pid": 100 * number - 99, "last_pid": 100 * number}
            sub = sublcc(number, subid=0, database=url, files_max=1000, **ranges)
            self.front.now(add_sublcc, sub)
            self.subs[-1].now(limit_pids, sub.first_pid, sub.last_pid)
            self.report(number, files=0)
        self.open_databases = {str(database.url): database for database in self.subs}
        self.databases = SubDatabases(lambda url: self.open_databases[url])  # type: ignore[arg-type, return-value]
        self.settings = RsConfig()
        self.restart()

    def restart(self, **settings: Any) -> None:
        self.settings = attrs.evolve(self.settings, **settings)
        self.store = FrontRegistrationStore(
            self.front,  # type: ignore[arg-type]  # as good as one
            self.databases,
            self.settings,
            60,
            lambda: self.now,
        )

    def _open(self, url: str, backend: Backend, series: str) -> Any:
        database = Failing(url, backend.home, series)
        database.plan = self.plan
        database.url = url  # type: ignore[attr-defined]
        return database

    def report(self, number: int, files: int) -> None:
        self.front.now(report_vitals, chr(96 + number), vitals(0, files=files, time=self.now))

    def ask(self, **values: Any) -> int:
        registration = Registration(
            kind=Proves.PROVIDER,
            ticket_hash="ticket",
            secret_hash="secret",
            password_hash="password",
            file="lcc.txt",
            folders=(SITE,),
            created=self.now,
            expires=self.now + WEEK,
            contact="me@example.org",
        )
        return result_of(self.store.open(attrs.evolve(registration, **values)))

    def prove(self, number: int) -> Registration:
        return result_of(self.store.prove(number, False, self.now))

    @property
    def providers(self) -> list[list[int]]:
        return [[each.pid for each in database.now(list_providers)] for database in self.subs]

    def placement(self, pid: int) -> Placement | None:
        (found,) = self.front.now(placements, [pid])
        return found

    def close(self) -> None:
        for database in (self.front, *self.subs):
            database.blocking.close()


@pytest.fixture
def world(backend: Backend, request: pytest.FixtureRequest) -> Iterator[World]:
    def new_url(name: str) -> str:
        return (
            f"sqlite:{name}.db" if backend.kind == "sqlite" else request.getfixturevalue(backend.kind).new_database()
        )

    made = World(backend, new_url)
    yield made
    made.close()


def test_the_sub_lcc_with_the_most_room_and_an_id_of_its_range(world: World) -> None:
    world.report(1, files=500)
    done = world.prove(world.ask())
    assert (done.state, done.pid) == (Progress.DONE, 101)
    assert world.providers == [[], [101]] and world.placement(101) == Placement(101, 2)
    provider = world.subs[1].now(get_provider, 101)
    assert provider is not None and provider.roots == (SITE,) and provider.contact == "me@example.org"
    assert world.prove(done.number) == done
    world.report(2, files=501)
    other = world.prove(world.ask(ticket_hash="t2", password_hash="p2", folders=("http://other.example/",)))
    assert other.pid == 1 and world.providers == [[1], [101]]


def test_the_sub_lcc_that_watches_the_site_has_it(world: World) -> None:
    pid = world.subs[0].now(find_or_make_watched, SITE, WatchedConfig())
    world.report(1, files=999)
    done = world.prove(world.ask())
    assert done.pid == pid == 1 and world.providers == [[1], []] and world.placement(1) == Placement(1, 1)
    provider = world.subs[0].now(get_provider, 1)
    assert provider is not None and not provider.watched and provider.password_hash == "password"


def test_no_room_anywhere(world: World) -> None:
    number = world.ask()
    world.now += 61  # nobody has reported for so long
    with pytest.raises(RegistrationRefused, match="no room"):
        world.prove(number)
    world.report(1, files=1000)
    with pytest.raises(RegistrationRefused, match="no room"):
        world.prove(number)
    world.front.now(lambda txn: change_sublcc(txn, "b", state=SubState.DRAINING))
    world.report(2, files=0)
    with pytest.raises(RegistrationRefused, match="no room"):
        world.prove(number)
    world.front.now(lambda txn: change_sublcc(txn, "b", state=SubState.OPEN))
    assert world.prove(number).pid == 101 and world.providers == [[], [101]]


def test_a_range_that_is_used_up(world: World) -> None:
    world.subs[0].now(lambda txn: txn.execute("UPDATE meta SET value = '100' WHERE name = 'pid'"))
    world.report(2, files=500)
    with pytest.raises(RegistrationRefused, match="sub-LCC a: no provider id is free up to 100"):
        world.prove(world.ask())


def test_a_sub_lcc_that_is_away_knows_what_nobody_else_does(world: World) -> None:
    world.plan["away"] = world.subs[1]
    number = world.ask()  # what only it knows is looked at when the secret is found
    with pytest.raises(StoreUnavailable):
        world.prove(number)
    assert world.providers == [[], []]
    world.plan["away"] = None
    assert world.prove(number).state is Progress.DONE


def test_limits_count_the_providers_of_all_sub_lccs(world: World) -> None:
    world.restart(providers_per_site=2)
    numbers = {
        name: world.ask(ticket_hash=name, password_hash=name, folders=(SITE,)) for name in ("one", "two", "three")
    }
    for name, number in numbers.items():
        # Here and there in turn.
        world.report(1, files=500 if name == "two" else 0)
        world.report(2, files=0 if name == "two" else 500)
        if name == "three":
            with pytest.raises(RegistrationRefused, match="2 providers already have roots"):
                world.prove(number)
        else:
            world.prove(number)
    assert world.providers == [[1], [101]]
    # What could not be made has left nothing.
    assert world.placement(2) is None
    # Whoever asks only now is told before a file is asked for: for a new provider, and for a further root.
    for more in ({}, {"kind": Proves.ROOT, "pid": world.subs[0].now(add_provider, Provider(0, (), "other"))}):
        with pytest.raises(RegistrationRefused, match="2 providers already have roots") as caught:
            world.ask(ticket_hash="four", password_hash="four", folders=(SITE,), **more)
        assert caught.value.kind == "full" and "site" in caught.value.faults


def test_a_further_root_and_a_new_password_go_where_the_provider_is(world: World) -> None:
    pid = world.subs[1].now(add_provider, Provider(0, (SITE,), "hash"))
    assert result_of(world.store.provider(pid)).roots == (SITE,)  # type: ignore[union-attr]
    assert result_of(world.store.provider(77)) is None and result_of(world.store.provider(777)) is None
    root = "http://more.example.org/"
    done = world.prove(world.ask(kind=Proves.ROOT, folders=(root,), pid=pid, password_hash=""))
    assert done.state is Progress.DONE
    world.prove(world.ask(kind=Proves.PASSWORD, folders=(SITE, root), pid=pid, ticket_hash="t2"))
    provider = world.subs[1].now(get_provider, pid)
    assert provider is not None and provider.roots == (SITE, root) and provider.password_hash == "password"
    gone = world.ask(kind=Proves.ROOT, folders=(root,), pid=777, password_hash="", ticket_hash="t3")
    with pytest.raises(RegistrationRefused, match="no longer registered"):
        world.prove(gone)
    assert world.front.query("SELECT COUNT(*) FROM pmdb") == [(0,)]


def test_a_provider_that_moves_has_to_wait(world: World) -> None:
    pid = world.subs[1].now(add_provider, Provider(0, (SITE,), "hash"))
    row = [(pid, 2, 1, AtHome.FROZEN.value, NOW)]
    world.front.now(lambda txn: txn.insert("pmdb", ["pid", "subid", "epoch", "state", "changed_time"], row))
    number = world.ask(kind=Proves.ROOT, folders=("http://more.example.org/",), pid=pid, password_hash="")
    with pytest.raises(RegistrationRefused, match="moving"):
        world.prove(number)


def test_the_operator_approves(world: World) -> None:
    world.restart(approval=True)
    number = world.ask()
    with pytest.raises(RegistrationRefused, match="has not been found yet"):
        result_of(world.store.approve(number, NOW))
    assert world.prove(number).state is Progress.PROVEN and world.providers == [[], []]
    done = result_of(world.store.approve(number, NOW))
    assert done.state is Progress.DONE and world.providers == [[1], []]
    assert result_of(world.store.approve(number, NOW)) == done


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("again", ["asks", "sweep", "clock set back", "expired"])
def test_a_crash_anywhere_makes_one_provider_or_none(world: World, done: bool, again: str) -> None:
    """Killed before or after the commit of each step; then somebody asks again, or only the sweep comes."""
    for at in range(1, 20):
        name = f"site{at}"
        number = world.ask(ticket_hash=name, password_hash=name, folders=(f"http://{name}.example/",))
        world.plan.update(writes=0, at=at, done=done)
        finished = False
        try:
            world.prove(number)
            finished = True
        except StoreUnavailable:
            pass
        world.plan.update(writes=0, at=0)
        made_before = sum(map(len, world.providers))
        if again == "asks":
            assert world.prove(number).state is Progress.DONE
        else:
            world.now += {"sweep": 61, "clock set back": -86400, "expired": WEEK + 3601}[again]
            result_of(world.store.remove_expired(world.now))
            world.report(1, files=0)
            world.report(2, files=0)
        states = world.front.query("SELECT state FROM pmdb WHERE state <> 'here'")
        assert states == [], (at, done)
        found = [
            (place, each.pid)
            for place, database in enumerate(world.subs, 1)
            for each in database.now(list_providers)
            if each.password_hash == name
        ]
        assert len(found) <= 1, (at, found)
        if again == "asks":
            assert len(found) == 1
        for place, pid in found:
            assert world.placement(pid) == Placement(pid, place)
        if not found:
            assert sum(map(len, world.providers)) == made_before
        if finished:
            assert found and at > 4
            break
    else:
        raise AssertionError("it never ended")


def test_a_sub_lcc_with_another_database_is_opened_anew() -> None:
    opened: list[str] = []

    class Database:
        def __init__(self, url: str) -> None:
            opened.append(url)

        def start(self) -> None:
            opened.append("start")

        def stop(self) -> Deferred[None]:
            opened.append("stop")
            return Deferred()

    databases = SubDatabases(Database)  # type: ignore[arg-type]
    sub: SubLcc = sublcc(1)
    assert databases.of(sub) is databases.of(sub)
    databases.of(attrs.evolve(sub, database="sqlite:/other.db"))
    databases.stopService()
    assert opened == [sub.database, "start", "stop", "sqlite:/other.db", "start", "stop"]
