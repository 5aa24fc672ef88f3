"""``lcc-admin fe repair``: a front end's database that was lost, or is of before what has happened since."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from twisted.internet.defer import Deferred, succeed

from lcc.admin.cli import main
from lcc.admin.context import Admin
from lcc.errors import StoreUnavailable
from lcc.model.frontend.moves import Fence, MoveState
from lcc.model.frontend.places import AtHome
from lcc.roles.cu.formats import Nothing
from lcc.roles.cu.front.cache import FrontCache
from lcc.roles.cu.front.robots import FrontRobots
from lcc.roles.cu.front.subs import Subs
from lcc.roles.cu.query import Query
from lcc.roles.qm.moves import mover, obeying
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.fe import moves
from lcc.storage.fe.sublccs import add_sublcc
from lcc.testing.inline_database import InlineDatabase
from tests.frontend.kit import NOW
from tests.frontend.moving import Front, MakeFront, publish
from tests.support.databases import dumped, put_back, result_of
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import pages

FORM = Nothing()
WAITS = "waits: the front end's database was restored"


class Repaired:
    """A front end whose database can be repaired, and a content user who follows it.

    :ivar copy: key -> md5 of what the user has.
    :ivar told: rows that it was told since :meth:`forget`.
    """

    def __init__(self, front: Front) -> None:
        self.front = front
        self.config = front.folder / "front-end.toml"
        url = front.database_url
        self.config.write_text(f'home = "fe"\n[fe]\ndatabase = "{url}"\n')
        self.readers: list[Subs] = []
        self.cache = self.reader()
        self.token = "0"
        self.copy: dict[bytes, str] = {}
        self.told: Counter[bytes] = Counter()

    def admin(self, *arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["--config", str(self.config), *arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result.output

    def repair(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.admin("fe", "repair", "--json", *arguments, code=code))
        return found

    def reader(self) -> FrontCache:
        """A new ``lcc-fe-cu``."""
        front: Any = _Reads(self.front.database)
        known = {url: _Reads(sub.database) for url, sub in zip(self.front.urls, self.front.subs, strict=True)}
        databases: Any = SubDatabases(known.__getitem__)  # type: ignore[arg-type]
        subs = Subs(front, databases, self.front.clock, 100)
        self.readers.append(subs)
        return FrontCache(front, subs, FrontRobots(subs, lambda sub, sites: succeed(None), self.front.clock))

    def follow(self, cache: FrontCache | None = None) -> None:
        """Read on to the end.

        :param cache: what is asked; by default the one that has always been there.
        """
        cache = cache or self.cache
        self.front.clock.advance(6)  # who could not be reached is asked again
        piece = result_of(cache.begin(attrs.evolve(Query(), since=self.token), FORM))
        while True:
            for row in piece.urls:
                self.told[row.key] += 1
                if row.state == "cached":
                    self.copy[row.key] = row.md5
                else:
                    self.copy.pop(row.key, None)
            if piece.after is None:
                break
            piece = result_of(cache.go_on(piece.after, FORM))
        assert not piece.missing
        self.token = piece.token

    def cached(self) -> dict[bytes, str]:
        """What the sub-LCCs have, that users are told."""
        found: dict[bytes, str] = {}
        for sub in self.front.subs:
            rows = sub.query("SELECT urlkey, md5 FROM lccurl WHERE state = 1 AND source <> 32 AND change_number > 0")
            for key, digest in rows:
                assert bytes(key) not in found, "two sub-LCCs have it"
                found[bytes(key)] = digest
        return found

    def close(self) -> None:
        for subs in self.readers:
            subs.stop()


class _Reads:
    """A database as a reader opens it."""

    def __init__(self, database: InlineDatabase) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def start(self) -> None:
        pass

    def stop(self) -> Deferred[None]:
        return succeed(None)


@pytest.fixture
def make(make_front: MakeFront, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Repaired]]:
    made: list[Repaired] = []

    def make(**more: Any) -> Repaired:
        front = make_front(**more)
        made.append(Repaired(front))
        monkeypatch.setattr(Admin, "now", lambda _: int(NOW + front.clock.seconds()))
        return made[-1]

    yield make
    for each in made:
        each.close()


def lost(front: Front) -> None:
    """The database is lost; a new one knows the sub-LCCs."""
    known = [front.sublcc(number) for number in range(1, len(front.subs) + 1)]
    front.database.now(put_back, {name: [] for name in front.database.now(dumped) if name != "meta"})
    front.database.now(lambda txn: txn.execute("DELETE FROM meta WHERE name IN ('subid', 'move', 'flip', 'map')"))
    for sub in known:
        front.database.now(add_sublcc, sub)


async def unavailable(*_: Any) -> Any:
    raise StoreUnavailable("held back by the test")


@contextmanager
def staying(front: Front, when: str) -> Iterator[None]:
    """A move gets no further than this."""
    with pytest.MonkeyPatch.context() as patched:
        if when == "planned":
            patched.setattr(mover.Mover, "_plan", unavailable)
        if when == "begun":  # there is a carrier; the front end's database does not know yet
            patched.setattr(mover.front_moves, "begin_copying", _gone)
        if when == "copying":
            patched.setattr(mover.Mover, "_copy", unavailable)
        if when == "freezing":
            patched.setattr(mover.Mover, "_freeze", unavailable)
        if when == "flipped":
            patched.setattr(mover.Mover, "_arrive", unavailable)
        if when == "admitted":
            patched.setattr(mover, "arrive_page", _gone)
        if when == "arrived":
            patched.setattr(mover.TaskMoves, "arrive", unavailable)
        if when == "active":
            patched.setattr(obeying.Obeying, "_leave", unavailable)
        yield


def _gone(*_: Any) -> Any:
    raise StoreUnavailable("held back by the test")


STATES = {
    "planned": MoveState.PLANNED,
    "begun": MoveState.PLANNED,
    "copying": MoveState.COPYING,
    "freezing": MoveState.FREEZING,
    "flipped": MoveState.FLIPPED,
    "admitted": MoveState.FLIPPED,
    "arrived": MoveState.FLIPPED,
    "active": MoveState.ACTIVE,
    "done": MoveState.DONE,
}
MOVED = ("admitted", "arrived", "active", "done")
UNNOTICED = ("planned", "begun")
"""No sub-LCC obeys anything yet."""


def go_to(front: Front, when: str, number: int = 1) -> None:
    front.go_until(STATES[when], number)
    front.go(1)
    assert front.move(number).state is STATES[when]


def check_all_is_well(world: Repaired, pid: int, home: int) -> None:
    """It is in one place, publishes, can be moved; its reader has what is cached."""
    front = world.front
    front.go(10)
    assert front.place_of(pid) == home
    for sub in front.subs:
        there = sub.query("SELECT 1 FROM pidb WHERE pid = ? AND removed = 0", pid)
        assert len(there) == (sub.number == home)
        assert not sub.query("SELECT 1 FROM staged")
        assert not sub.query("SELECT 1 FROM pidb WHERE password LIKE 'none: move %' AND removed = 0")
    front.site["http://site.example/later.html"] = "later"
    front.sub(home).send(50, pid, *pages("later"))
    front.go(2)
    assert front.log.count((front.sub(home).name, "http://site.example/later.html")) == 1
    world.follow()
    assert world.copy == world.cached()
    other = 3 - home
    number = front.order(pid, other).id
    front.go_until(MoveState.DONE, number)
    front.go(2)
    world.told.clear()
    world.follow()
    assert world.copy == world.cached() and not world.told
    assert len(front.log) == len({url for _, url in front.log}), "a page was fetched twice"


@pytest.mark.parametrize("how", ["lost", "of before"])
@pytest.mark.parametrize("when", STATES)
def test_a_database_is_lost_in_each_state_of_a_move(
    make: Callable[..., Repaired], logged_errors: LoggedErrors, when: str, how: str
) -> None:
    """All runs on meanwhile; then it is repaired, and everything goes on where it was."""
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    world.follow()
    backup = front.database.now(dumped)
    before = front.rows(1, pid)
    front.order(pid, 2)
    with staying(front, when):
        go_to(front, when)
        world.follow()
    if how == "lost":
        lost(front)
    else:
        front.database.now(put_back, backup)
    front.log.clear()
    front.go(3)
    token = world.token
    try:
        # A reader that knows nothing else; it must not take the token for another front end's.
        world.follow(world.reader())
    except StoreUnavailable:
        assert STATES[when] in (MoveState.FLIPPED, MoveState.ACTIVE, MoveState.DONE)
    world.token = token
    shown = world.repair(code=1 if when != "planned" else 0)
    assert (not shown["repairs"]) == (when == "planned") and not shown["problems"] and not shown["applied"]
    assert world.repair("--apply")["repairs"] == shown["repairs"]
    assert world.repair()["repairs"] == []
    home = 2 if when in MOVED else 1
    front.go(20)
    assert front.rows(home, pid) == before
    assert front.log == []
    world.told.clear()
    world.follow(world.reader())
    world.follow()
    assert not world.told
    check_all_is_well(world, pid, home)


ALWAYS = (("copying", "arrived"), ("freezing", "arrived"), ("freezing", "done"), ("flipped", "active"))
PAIRS = [
    pytest.param(first, then, marks=() if (first, then) in ALWAYS else pytest.mark.long)
    for at, first in enumerate(STATES)
    for then in list(STATES)[at + 1 :]
]


@pytest.mark.parametrize(("first", "then"), PAIRS)
def test_a_database_is_put_back_to_the_middle_of_a_move(
    make: Callable[..., Repaired], logged_errors: LoggedErrors, first: str, then: str
) -> None:
    """And runs on so, for long; nothing is fetched by two, or twice, or lost."""
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    with staying(front, first):
        go_to(front, first)
        backup = front.database.now(dumped)
        world.follow()
    with staying(front, then):
        go_to(front, then)
        world.follow()
    front.database.now(put_back, backup)
    front.log.clear()
    front.go(90)
    world.repair("--apply", code=0)
    assert world.repair()["repairs"] == []
    front.go(90)
    logged_errors.flush(WAITS)
    (row,) = front.database.now(lambda txn: txn.query("SELECT subid FROM pmdb WHERE pid = ?", [pid])) or [(1,)]
    if then in MOVED:
        assert row == (2,)
    check_all_is_well(world, pid, row[0])


@pytest.mark.parametrize("then", ["freezing", "cancelled"])
def test_a_move_that_has_flipped_is_done_although_the_next_one_is_cancelled(
    make: Callable[..., Repaired], logged_errors: LoggedErrors, then: str
) -> None:
    """The database is put back to the end of the first move, of which no sub-LCC needs to know any longer."""
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    with staying(front, "active"):
        go_to(front, "active")
        backup = front.database.now(dumped)
    go_to(front, "done")
    front.order(pid, 1)
    with staying(front, "freezing"):
        go_to(front, "freezing", 2)
        if then == "cancelled":
            front.database.now(moves.cancel_move, pid, "no", NOW)
        front.go(2)
    front.database.now(put_back, backup)
    front.go(3)
    world.repair("--apply")
    assert world.repair()["repairs"] == []
    front.go(3)
    logged_errors.flush(WAITS)
    assert front.move(1).state is MoveState.DONE
    front.log.clear()
    check_all_is_well(world, pid, 2)


def make_twin(front: Front, pid: int) -> None:
    """The destination is put back to when it had the provider, which has moved back since; the front end is lost."""
    dest = front.sub(2)
    go_to(front, "done")
    front.go(2)
    backup = dest.database.now(dumped)
    front.order(pid, 1)
    go_to(front, "done", 2)
    dest.database.now(put_back, backup)


def test_of_two_that_have_a_provider_the_one_that_it_has_left_leaves_again(make: Callable[..., Repaired]) -> None:
    """A move from there is noted at the other one, with a higher epoch."""
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    make_twin(front, pid)
    lost(front)
    front.sub(2).start()
    assert world.repair("--apply")["problems"] == []
    front.go(5)
    assert front.place(pid)[:2] == (1, AtHome.HERE)
    assert front.sub(2).query("SELECT 1 FROM pidb WHERE pid = ?", pid) == []
    assert front.sub(1).query("SELECT 1 FROM pidb WHERE pid = ?", pid) == [(1,)]


def test_a_provider_in_two_sub_lccs_is_reported_until_an_operator_says_who_keeps_it(
    make: Callable[..., Repaired],
) -> None:
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    go_to(front, "done")
    twin = front.sub(1).database.now(dumped)["pidb"]
    row = front.sub(2).query("SELECT * FROM pidb WHERE pid = ?", pid)[0]
    assert not twin
    front.sub(1).database.now(_insert, "pidb", row)
    front.sub(1).database.now(lambda txn: txn.execute("UPDATE fenced SET state = 'open', epoch = 3"))
    front.sub(1).database.now(lambda txn: txn.execute("DELETE FROM flips"))
    lost(front)
    front.sub(1).start()
    found = world.repair("--apply", code=1)
    (problem,) = found["problems"]
    assert problem["pid"] == pid and "several sub-LCCs: a (0 files, open at epoch 3), b (" in problem["text"]
    assert f"--keep {pid}=a or --keep {pid}=b" in problem["advice"] and found["repairs"] == []
    text = world.admin("fe", "repair", code=1)
    assert f"NOT REPAIRED: provider {pid} is in several" in text and text.endswith("Nothing else to repair.\n")
    assert "no sub-LCC z" in world.admin("fe", "repair", "--keep", f"{pid}=z", code=2)
    assert "not like 4711=two" in world.admin("fe", "repair", "--keep", "b", code=2)
    world.repair("--apply", "--keep", f"{pid}=b")
    front.go(10)
    assert front.place(pid)[:2] == (2, AtHome.HERE)
    assert front.sub(1).query("SELECT 1 FROM pidb") == []
    assert front.sub(2).query("SELECT 1 FROM pidb WHERE pid = ?", pid) == [(1,)]
    assert world.repair()["repairs"] == []
    assert "at once" in world.repair("--keep", f"{pid}=b", code=1)["problems"][0]["text"]


def _insert(txn: Any, table: str, row: tuple[Any, ...]) -> None:
    txn.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row))


def test_what_a_sub_lcc_that_cannot_be_read_could_contradict_is_not_decided(
    make: Callable[..., Repaired], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(subs=3)
    front = world.front
    pid = publish(front)
    other = front.sub(3).world.provider()
    front.go(1)
    front.order(other, 2)
    go_to(front, "done")
    front.order(pid, 2)
    with staying(front, "admitted"):
        front.go_until(MoveState.FLIPPED, 2)
        front.go(1)
    # Its destination is unreachable: the source only knows that it stands still.
    known = front.sublcc(2)
    lost(front)
    front.database.now(lambda txn: txn.execute("UPDATE fedb SET dburl = 'sqlite:/nowhere/b.db' WHERE subid = 2"))
    found = world.repair("--apply", code=1)
    assert list(found["unread"]) == ["b"]
    (problem,) = found["problems"]
    assert problem["pid"] == pid and problem["text"] == "stands still in a, and may have moved to b"
    # The other one has left, and says where to.
    assert [each["pid"] for each in found["repairs"]] == [other]
    assert front.place(other)[0] == 2
    text = world.admin("fe", "repair", code=1)
    assert "NOT READ: sub-LCC b: " in text and "run this again when b can be read" in text
    front.go(90)
    assert front.sub(1).query("SELECT state FROM fenced WHERE pid = ?", pid) == [(Fence.FROZEN.value,)]
    front.database.now(lambda txn: txn.execute("UPDATE fedb SET dburl = ? WHERE subid = 2", [known.database]))
    assert world.repair("--apply")["problems"] == []
    front.go(10)
    assert front.place(pid)[:2] == front.place(other)[:2] == (2, AtHome.HERE)
    assert {move.state for move in front.database.now(moves.list_moves)} == {MoveState.DONE}


def test_a_destination_that_has_forgotten_a_provider_is_named(make: Callable[..., Repaired]) -> None:
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    backup = front.sub(2).database.now(dumped)
    front.order(pid, 2)
    go_to(front, "done")
    front.sub(2).database.now(put_back, backup)
    for known in (True, False):
        if not known:
            lost(front)
        found = world.repair("--apply", code=1)
        assert "b, which does not know it" in found["problems"][0]["text"] and found["repairs"] == []


def test_numbers_of_sub_lccs_that_were_others_are_named(make: Callable[..., Repaired]) -> None:
    """Tokens, and what the sub-LCCs have noted, name them."""
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    go_to(front, "done")
    one, two = front.sublcc(1), front.sublcc(2)
    lost(front)
    front.database.now(lambda txn: txn.execute("DELETE FROM fedb"))
    front.database.now(add_sublcc, attrs.evolve(two, subid=0))
    front.database.now(add_sublcc, attrs.evolve(one, subid=0))
    front.database.now(lambda txn: txn.execute("UPDATE fedb SET subid = 3 - subid"))
    said = world.admin("fe", "repair", code=1)
    assert "sub-LCC a had another number before, 1; sub-LCC b had another number before, 2" in said
    assert "fe add NAME --number N" in said


def test_a_range_that_is_another_one_is_noted_for_each_provider(make: Callable[..., Repaired]) -> None:
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    front.database.now(lambda txn: txn.execute("UPDATE fedb SET firstpid = firstpid + 50, lastpid = lastpid + 50"))
    assert world.repair("--apply")["repairs"] == [{"pid": pid, "text": "is in a"}]
    assert front.place(pid) == (1, AtHome.HERE, 1)
    assert world.repair()["repairs"] == []


def test_a_provider_that_was_removed_at_its_new_home_stays_gone(make: Callable[..., Repaired]) -> None:
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    front.order(pid, 2)
    go_to(front, "done")
    front.sub(2).database.now(lambda txn: txn.execute("DELETE FROM pidb"))
    lost(front)
    world.repair("--apply")
    assert front.place(pid)[:2] == (2, AtHome.HERE)
    assert world.repair()["repairs"] == []


def test_a_number_of_a_flip_is_not_given_twice(make: Callable[..., Repaired], logged_errors: LoggedErrors) -> None:
    """Somebody orders a move before the repair: it waits for that."""
    world = make()
    front = world.front
    pid = publish(front)
    other = front.sub(1).world.provider()
    front.go(1)
    backup = front.database.now(dumped)
    front.order(pid, 2)
    go_to(front, "done")
    front.database.now(put_back, backup)
    number = front.order(other, 2).id
    front.go(30)
    assert front.move(number).state is MoveState.PLANNED
    with pytest.raises(moves.CannotMove, match="fe repair"):
        front.database.now(moves.cancel_move, other, "no", NOW)
    logged_errors.flush(WAITS)
    world.repair("--apply")
    front.go_until(MoveState.DONE, number)
    assert front.place(other)[0] == front.place(pid)[0] == 2
    flips = [flip for (flip,) in front.sub(2).query("SELECT flip FROM flips ORDER BY flip")]
    assert flips[0] == 1 and flips[1] > 1000


def test_numbers_of_moves_of_which_nothing_else_is_left_are_not_given_out_again(
    make: Callable[..., Repaired],
) -> None:
    world = make()
    front = world.front
    pid = publish(front)
    front.go(1)
    for number in (1, 2):
        front.order(pid, 2)
        while not front.sub(2).query("SELECT 1 FROM setspos WHERE uns = ?", f"move/{number}".encode()):
            front.go(0.1)
        front.database.now(moves.cancel_move, pid, "no", NOW)
        front.go(5)
    world.repair()
    lost(front)
    # The source has obeyed, so it is known there that it stays.
    shown = world.repair(code=1)
    assert shown["counters"]["move"] == 2
    assert "numbers that were given out before" in world.admin("fe", "repair", code=1)
    world.repair("--apply")
    assert world.repair()["counters"] == {}
    assert front.order(pid, 2).id == 3
