"""The token of a front end's changes across moves: each page once, none missed, nothing stale; and listings."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.errors import StoreUnavailable
from lcc.model.frontend.moves import MoveState
from lcc.roles.cu.front import changes, listing
from lcc.roles.cu.front.tokens import FrontToken, Position, parse_front_token
from lcc.roles.cu.query import Query
from lcc.roles.cu.tokens import StartAgain, Token
from lcc.storage.queue.moves import arrivals, arriving_rows
from lcc.storage.views import moved, selected
from lcc.storage.views.selected import Selection
from tests.frontend import caches as caches_of_tests
from tests.frontend.caches import FORM, Follower, Lister, MovingCaches
from tests.support.databases import result_of
from tests.support.switches import LONG

SHARED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NAMES = "abcdef"
P1, P2, P3, P4 = 1, 101, 201, 2


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves come between the pages of an answer, and between those of what was imported."""
    for module in (selected, moved):
        monkeypatch.setattr(module, "EXAMINED_ROWS", 3)
    monkeypatch.setattr(selected, "IMPORTED_NUMBERS", 4)
    monkeypatch.setattr(moved, "IMPORTED_ROWS", 5)


@pytest.fixture
def caches(tmp_path: Path) -> Iterator[MovingCaches]:
    caches = MovingCaches(tmp_path, lambda name: f"sqlite:{tmp_path}/{name}.db")
    yield caches
    caches.close()


def fill(caches: MovingCaches, names: str = NAMES) -> None:
    for pid in caches.pages:
        for name in names:
            caches.put(pid, name)


def test_who_is_up_to_date_is_told_nothing_of_a_move(caches: MovingCaches) -> None:
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    assert follower.copy == caches.cached()
    caches.move(P1, 2)
    caches.clock.advance(2)
    assert follower.answer(cache) == 0
    caches.put(P1, "a")
    assert follower.answer(cache) == 1
    assert follower.copy == caches.cached()


def test_what_changed_before_the_move_is_told_once(caches: MovingCaches) -> None:
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    for name in "abc":
        caches.put(P1, name)
    caches.delete(P1, "d")
    caches.move(P1, 2)
    caches.put(P1, "e")
    caches.clock.advance(2)
    assert follower.answer(cache, None) == 5
    assert follower.copy == caches.cached()
    assert max(follower.told.values()) == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_limit_in_the_middle(caches: MovingCaches, limit: int) -> None:
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    for pid in (P1, P2, P4):
        for name in NAMES:
            caches.put(pid, name)
    caches.move(P1, 3)
    caches.move(P2, 3)
    caches.clock.advance(2)
    follower.catch_up(cache, limit)
    assert follower.copy == caches.cached()
    assert max(follower.told.values()) == 1
    assert parse_front_token(follower.token).flip == 2 and ".k" not in follower.token and ".b" not in follower.token


@pytest.mark.parametrize("route", [(2, 3), (2, 1), (2, 3, 1), (2, 1, 2)])
def test_several_moves_between_two_questions(caches: MovingCaches, route: tuple[int, ...]) -> None:
    fill(caches)
    cache, follower, late = caches.reader(), Follower(Query()), Follower(Query())
    follower.catch_up(cache)
    late.answer(cache, 2)
    caches.put(P1, "a")
    for number, dest in enumerate(route):
        caches.move(P1, dest)
        if number == 0:
            caches.put(P1, "b")
            caches.delete(P1, "c")
    caches.clock.advance(2)
    assert follower.answer(cache) == 3
    assert follower.copy == caches.cached()
    late.catch_up(cache, 1)
    assert late.copy == caches.cached()


def test_the_first_reading_has_all_that_has_arrived(caches: MovingCaches) -> None:
    fill(caches)
    caches.move(P1, 2)
    caches.delete(P1, "b")
    cache, follower = caches.reader(), Follower(Query())
    assert follower.answer(cache, 7) == 7
    caches.move(P2, 1)
    caches.move(P1, 3)
    caches.clock.advance(2)
    follower.catch_up(cache, 4)
    assert follower.copy == caches.cached()


def test_a_flip_that_the_map_does_not_have_yet(caches: MovingCaches) -> None:
    """The front end's part reads the map once a second: what happens meanwhile is seen with the pages."""
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.answer(cache, 1)
    caches.move(P1, 2)
    # Not a moment later.
    follower.catch_up(cache, 2)
    assert follower.copy == caches.cached()


@pytest.mark.parametrize("state", [MoveState.FLIPPED, MoveState.ACTIVE])
def test_in_the_midst_of_a_move(caches: MovingCaches, state: MoveState) -> None:
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    for name in NAMES:
        caches.put(P1, name)
    moving = caches.move(P1, 2, state)
    while True:
        caches.clock.advance(0.4)
        follower.answer(cache, 2)
        if not moving.step():
            break
    follower.catch_up(cache)
    assert follower.copy == caches.cached()
    assert max(follower.told.values()) <= 2


def test_a_page_that_changes_before_the_map_says_so(caches: MovingCaches) -> None:
    """Nobody is told the version that its former home still has after the one that its new home has already."""
    fill(caches)
    caches.hasty = True
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    caches.put(P1, "a")
    moving = caches.move(P1, 2, MoveState.FLIPPED)
    while caches.homes[P1] == 1:
        moving.step()
    assert caches.put(P1, "a")
    caches.put(P2, "a")
    caches.clock.advance(2)
    follower.answer(cache)
    caches.finish()
    follower.catch_up(cache)
    assert follower.copy == caches.cached()


def test_the_new_home_is_away(caches: MovingCaches) -> None:
    """What it has is told when it is back, though the former home has been read on."""
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    for name in "abc":
        caches.put(P1, name)
    caches.move(P1, 2)
    caches.put(P4, "a")
    caches.databases[2].away = True
    caches.clock.advance(10)
    while follower.answer(cache):
        pass
    caches.put(P4, "b")
    caches.clock.advance(10)
    follower.answer(cache)
    assert ".b" in follower.token
    # Another one moves meanwhile, to one that is there.
    caches.move(P4, 3)
    caches.clock.advance(10)
    follower.catch_up(cache)
    assert caches.key(P1, "a") in follower.copy and follower.copy != caches.cached()
    caches.databases[2].away = False
    caches.clock.advance(10)
    follower.catch_up(cache)
    assert follower.copy == caches.cached()
    assert ".b" not in follower.token
    assert max(follower.told.values()) <= 2


def test_what_is_left_behind_is_not_told(caches: MovingCaches) -> None:
    """The former home removes its rows when its queue manager comes to it; the new one has changed some by then."""
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    caches.put(P3, "a")
    former = caches.version
    caches.move(P3, 1, MoveState.ACTIVE)
    assert caches.put(P3, "a")
    caches.clock.advance(2)
    assert follower.answer(cache) == 1
    assert (caches.key(P3, "a"), former) not in follower.told
    caches.finish()
    assert follower.answer(cache) == 0
    assert follower.copy == caches.cached()


def test_selections(caches: MovingCaches) -> None:
    fill(caches)
    some = Selection(frozenset([P1, P3]))
    cache, follower = caches.reader(), Follower(Query(some))
    follower.catch_up(cache)
    for pid in caches.pages:
        caches.put(pid, "a")
        caches.move(pid, caches.homes[pid] % 3 + 1)
    caches.clock.advance(2)
    assert follower.answer(cache) == 2
    assert follower.copy == caches.cached(lambda pid, _: pid in (P1, P3))


def test_a_token_of_the_version_before(caches: MovingCaches) -> None:
    """It says nothing of moves: all that has arrived is told, as it was then."""
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    former = follower.token.replace("fe2~0~0~", "fe1~0~")
    assert former.startswith("fe1~0~1.")
    for name in NAMES:
        caches.put(P1, name)
    caches.move(P1, 2)
    follower.token = former
    caches.databases[2].away = True
    caches.clock.advance(10)
    follower.catch_up(cache)
    caches.databases[2].away = False
    caches.clock.advance(10)
    follower.catch_up(cache, 2)
    assert follower.copy == caches.cached()
    caches.move(P1, 3)
    caches.clock.advance(2)
    assert follower.answer(cache) == 0


def test_a_token_of_a_later_state_of_the_front_ends_database(caches: MovingCaches) -> None:
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    caches.move(P1, 2)
    caches.clock.advance(2)
    follower.catch_up(cache)
    # One that has just been started, and one whose database was put back.
    assert follower.answer(caches.reader()) == 0
    caches.front.now(lambda txn: txn.execute("DELETE FROM moves"))
    caches.front.now(lambda txn: txn.execute("UPDATE meta SET value = '0' WHERE name = 'flip'"))
    since = attrs.evolve(follower.query, since=follower.token)
    with pytest.raises(StoreUnavailable, match="fe repair"):
        result_of(caches.reader().begin(since, FORM))
    # Another front end's: the sub-LCCs do not know its timelines.
    foreign = re.sub(r"~([0-9]+)\.[^.]+\.", r"~\1.other.", follower.token)
    with pytest.raises(StartAgain, match="another front end"):
        result_of(caches.reader().begin(attrs.evolve(since, since=foreign), FORM))


def test_a_deletion_that_was_purged(caches: MovingCaches) -> None:
    """Who has not heard of it begins anew; who has goes on."""
    fill(caches)
    cache, late, early = caches.reader(), Follower(Query()), Follower(Query())
    late.catch_up(cache)
    caches.delete(P1, "a")
    early.catch_up(cache)
    caches.move(P1, 2)
    purge = "DELETE FROM lccurl WHERE state = 0"
    caches.databases[2].now(lambda txn: txn.execute(purge))
    caches.clock.advance(2)
    early.catch_up(cache)
    assert early.copy == caches.cached()
    with pytest.raises(StartAgain, match="deletions"):
        late.catch_up(cache)


@pytest.mark.parametrize("of", ["a single LCC", "a front end"])
def test_a_deletion_that_was_purged_where_the_token_has_never_been(caches: MovingCaches, of: str) -> None:
    """The sub-LCC that it moved to is read from its beginning: the deletion is not there any more."""
    fill(caches)
    cache, late, early = caches.reader(), Follower(Query()), Follower(Query())
    late.catch_up(cache)
    early.catch_up(cache)
    for name in ("a", "b"):
        caches.delete(P1, name)
        early.catch_up(cache)
    caches.move(P1, 2)
    caches.delete(P1, "c")
    caches.databases[2].now(_purge)
    caches.clock.advance(2)
    for follower in (early, late):
        former = parse_front_token(follower.token)
        kept = {subid: position for subid, position in former.positions.items() if subid == 1}
        only = FrontToken(former.selection, kept)
        follower.token = str(only)
        if of == "a single LCC":
            position = only.positions[1]
            follower.token = str(Token(position.timeline, position.number, 0, position.selection))
    early.catch_up(cache)
    with pytest.raises(StartAgain, match="deletions"):
        late.catch_up(cache)


def _purge(txn: Any) -> None:
    last = txn.value(
        "SELECT MAX(change_number) FROM lccurl WHERE state = 0 AND change_number IN"
        " (SELECT change_number FROM origins)"
    )
    txn.execute("DELETE FROM lccurl WHERE state = 0 AND change_number <= ?", [last])
    txn.execute("UPDATE counters SET value = ? WHERE name = 'forgotten'", [last])


def test_the_front_ends_database_is_away_while_a_provider_leaves(caches: MovingCaches) -> None:
    fill(caches)
    cache, follower = caches.reader(), Follower(Query())
    follower.catch_up(cache)
    caches.put(P1, "a")
    caches.put(P3, "a")
    caches.move(P1, 2)
    caches.front.away = True
    caches.clock.advance(2)
    # Where it was and where it is cannot be read without the map; the third can.
    piece = result_of(cache.begin(attrs.evolve(Query(), since=follower.token), FORM))
    while piece.after is not None:
        piece = result_of(cache.go_on(piece.after, FORM))
    assert sorted(piece.missing) == ["a", "b"]
    caches.front.away = False
    caches.clock.advance(2)
    follower.catch_up(cache)
    assert follower.copy == caches.cached()


def test_a_listing_while_a_provider_moves(caches: MovingCaches) -> None:
    fill(caches)
    for before in range(8):
        for dest in (2, 3, 1):
            lister = Lister(caches.reader(), caches)
            for _ in range(before):
                lister.step()
            caches.move(P1, dest)
            caches.clock.advance(0.5)
            while lister.step():
                pass
            assert set(lister.seen.values()) == {1}


def test_a_listing_in_the_midst_of_moves(caches: MovingCaches) -> None:
    fill(caches)
    for dest in (2, 3, 1):
        lister = Lister(caches.reader(), caches)
        while lister.step():
            caches.step(P1, dest)
            caches.step(P4, dest % 3 + 1)
            caches.clock.advance(0.3)
        caches.finish()


# Random histories.

OPERATIONS = (*("put", "step", "follow") * 3, "delete", "list", "pass", "away", "break", "settle")
HISTORY = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11), st.integers(0, 11)), max_size=150)


class Walk:
    """A random history of changes, moves and readers."""

    def __init__(self, caches: MovingCaches, hasty: bool) -> None:
        self.caches = caches
        caches.hasty = hasty
        self.pids = list(caches.pages)
        self.readers = [caches.reader(), caches.reader()]
        some = Selection(frozenset([self.pids[0], self.pids[2]]))
        self.followers = [
            Follower(Query()),
            Follower(Query(some)),
            Follower(Query(Selection(prefix=f"http://p{self.pids[0]}.example/a"))),
            Follower(Query(), careful=True),
        ]
        self.lister = Lister(self.readers[0], caches)
        self.breaks = 0

    def run(self, history: list[tuple[str, int, int]]) -> None:
        for pid in self.pids:
            self.caches.put(pid, "a")
        for operation, one, other in history:
            getattr(self, operation)(one, other)
        self.finish()

    def put(self, one: int, other: int) -> None:
        self.caches.put(self.pids[one % 4], NAMES[other % 6])

    def delete(self, one: int, other: int) -> None:
        self.caches.delete(self.pids[one % 4], NAMES[other % 6])

    def step(self, one: int, other: int) -> None:
        for _ in range(1 + other // 3):
            self.caches.step(self.pids[one % 4], other % 3 + 1)

    def follow(self, one: int, other: int) -> None:
        self._between(one + other)
        follower = self.followers[one % 4]
        follower.step(self.readers[one // 4 % 2], (None, 1, 2, 3, 5)[other % 5])
        self.caches.between = None

    def _between(self, number: int) -> None:
        """Some steps of moves come between two questions to the databases."""
        left = number % 5

        def step() -> None:
            nonlocal left
            if left:
                left -= 1
                self.caches.step(self.pids[(number + left) % 4], (number + left) % 3 + 1)

        self.caches.between = step

    def list(self, one: int, other: int) -> None:
        self._between(one + other)
        if not self.lister.step():
            self.lister = Lister(self.readers[one % 2], self.caches)
        self.caches.between = None

    def away(self, one: int, other: int) -> None:
        database = (self.caches.front, *self.caches.databases.values())[one % 4]
        database.away = not database.away and other < 4

    def pass_(self, one: int, other: int) -> None:
        self.caches.clock.advance((one + 1) * 0.3)

    def break_(self, one: int, other: int) -> None:
        self.breaks += 1
        self.followers[one % 4].give_up()
        if other == 0:
            self.readers[one % 2] = self.caches.reader()

    def settle(self, one: int, other: int) -> None:
        """Everything comes to rest; then a provider moves, and nobody is told anything."""
        self.caches.finish()
        for follower in self.followers:
            follower.catch_up(self.readers[0], 3)
        pid = self.pids[one % 4]
        self.caches.move(pid, self.caches.homes[pid] % 3 + 1)
        self.caches.clock.advance(2)
        for follower in self.followers:
            assert follower.answer(self.readers[other % 2]) == 0

    def finish(self) -> None:
        caches = self.caches
        caches.finish()
        wanted = [
            lambda pid, name: True,
            lambda pid, name: pid in (self.pids[0], self.pids[2]),
            lambda pid, name: pid == self.pids[0] and name == "a",
            lambda pid, name: True,
        ]
        for follower, each in zip(self.followers, wanted, strict=True):
            follower.catch_up(self.readers[0], 3)
            assert follower.copy == caches.cached(each)
            before = follower.rows
            follower.answer(self.readers[1])
            assert follower.rows == before
            if not follower.careful:
                for (key, version), times in follower.told.items():
                    pid = int.from_bytes(key[:4], "big")
                    assert times <= 1 + caches.flips[pid], (key, version, times)


setattr(Walk, "pass", Walk.pass_)
setattr(Walk, "break", Walk.break_)


@settings(SHARED)
@given(history=HISTORY, hasty=st.booleans())
def test_random_histories(tmp_path_factory: pytest.TempPathFactory, history: Any, hasty: bool) -> None:
    walk(tmp_path_factory.mktemp("walk"), history, hasty)


def walk(
    folder: Path,
    history: list[tuple[str, int, int]],
    hasty: bool = False,
    url: Callable[[str], str] | None = None,
) -> None:
    caches = MovingCaches(folder, url or (lambda name: f"sqlite:{folder}/{name}.db"))
    try:
        Walk(caches, hasty).run(history)
    finally:
        caches.close()
        shutil.rmtree(folder)


def random_history(seed: int, length: int = 250) -> list[tuple[str, int, int]]:
    random = Random(seed)
    return [(random.choice(OPERATIONS), random.randrange(12), random.randrange(12)) for _ in range(length)]


@pytest.mark.parametrize("seed", range(200 if LONG else 12))
def test_long_random_histories(tmp_path: Path, seed: int) -> None:
    walk(tmp_path / "walk", random_history(seed), hasty=seed % 2 == 1)


def test_a_random_history_on_mariadb(tmp_path: Path, mariadb: Any) -> None:
    urls: list[str] = []

    def url(name: str) -> str:
        urls.append(mariadb.new_database())
        return urls[-1]

    walk(tmp_path / "walk", random_history(1), hasty=True, url=url)
    for each in urls:
        mariadb.drop_database(each)


def _without_origins(*args: Any) -> Any:
    arrived = arrivals.arrive_page(*args)
    args[0].txn.execute("DELETE FROM origins")
    return arrived


def _in_walks(folder: Path) -> None:
    for seed in range(50):
        walk(folder, random_history(seed, 120))


def _in(test: Callable[[MovingCaches], None]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        caches = MovingCaches(folder, lambda name: f"sqlite:{folder}/{name}.db")
        try:
            test(caches)
        finally:
            caches.close()

    return run


PLANTED: dict[str, tuple[tuple[Any, str, Any], Callable[[Path], None]]] = {
    "rows arrive without origins": ((caches_of_tests, "arrive_page", _without_origins), _in_walks),
    "origin dropped": ((arriving_rows, "_ORIGIN", "?, r.change_number"), _in_walks),
    "stale map": ((changes, "knows_flips", lambda txn, view: True), _in_walks),
    "what is imported is not told": (
        (changes, "imported_page", lambda *args: moved.ImportedPage([], None)),
        _in_walks,
    ),
    "positions go on": ((Position, "seen", property(lambda position: position.number)), _in_walks),
    "stale map of a listing": (
        (listing, "knows_flips", lambda txn, view: True),
        _in(test_a_listing_while_a_provider_moves),
    ),
    "what is left behind is told": (
        (changes, "told_here", lambda txn, view, rows: rows),
        _in(test_what_is_left_behind_is_not_told),
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    plant, find = PLANTED[bug]
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError):
        find(tmp_path / "walk")
