"""Items of feeds over all sub-LCCs: as those of one LCC, whole, resumable, one sub-LCC away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from lcc.errors import StoreUnavailable
from lcc.model.frontend.places import SubState
from lcc.roles.access import EVERYTHING, Access
from lcc.roles.cu.front.subs import AWAY_SECONDS
from lcc.roles.cu.front.tokens import FrontToken, Position, parse_front_token
from lcc.roles.cu.items import ItemQuery
from lcc.roles.cu.tokens import StartAgain, Token, TokenError
from tests.support.databases import Backend, result_of
from tests.support.roles.front_worlds import Worlds

ALL = ItemQuery()


@pytest.fixture
def worlds(backend: Backend, request: pytest.FixtureRequest) -> Iterator[Worlds]:
    def url(name: str) -> Any:
        if backend.kind == "sqlite":
            return f"sqlite:{backend.home}/{name}.db"
        return request.getfixturevalue(backend.kind).new_database()

    worlds = Worlds(backend.home, url)
    yield worlds
    worlds.close()


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Worlds]:
    worlds = Worlds(tmp_path, lambda name: f"sqlite:{tmp_path}/{name}.db")
    yield worlds
    worlds.close()


def ask(cache: Any, query: ItemQuery, access: Access = EVERYTHING) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The items, but for the numbers of their changes and their sub-LCC; the end mark."""
    page = result_of(cache.items(query, access))
    data = page.data
    while page.after is not None:
        page = result_of(cache.more_items(page.after))
        data += page.data
    *rows, end = map(json.loads, data.splitlines())
    for row in rows:
        del row["change"]
        assert row.pop("lcc", "abc"[row["feed"] - 1]) == "abc"[row["feed"] - 1]
    return rows, end


def since(end: dict[str, Any], **more: Any) -> ItemQuery:
    return ItemQuery(end["next"], **more)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["feed"], row["item"]))


def put_some(worlds: Worlds, count: int = 3, title: str = "x") -> None:
    for task in (1, 2, 3):
        worlds.put_items(task, *({"id": str(number), "title": title, "text": "T"} for number in range(count)))


def test_one_lcc_and_three_have_the_same_items(worlds: Worlds) -> None:
    assert ask(worlds.several, ALL)[0] == ask(worlds.one, ALL)[0] == []
    put_some(worlds, 600)
    rows_only = Access("r", None, False)
    for fields in ({}, {"feeds": frozenset([2])}, {"feeds": frozenset([1, 3, 9])}):
        for access in (EVERYTHING, rows_only, Access("n", frozenset([7]), True)):
            query = ItemQuery(**fields)  # type: ignore[arg-type]
            one, several = (ask(cache, query, access) for cache in (worlds.one, worlds.several))
            assert in_order(one[0]) == in_order(several[0])
            assert ask(worlds.several, attrs.evolve(query, since=several[1]["next"]), access)[0] == []
    _, end = ask(worlds.several, ALL)
    put_some(worlds, 1, "changed")
    rows, end = ask(worlds.several, since(end))
    assert [(row["feed"], row["title"]) for row in rows] == [(task, "changed") for task in (1, 2, 3)]


@pytest.mark.parametrize("seed", range(3))
def test_followers_with_any_limit_have_the_same_items(quick: Worlds, seed: int) -> None:
    random = Random(seed)
    copies: list[dict[Any, Any]] = [{}, {}]
    ends: list[dict[str, Any]] = [{"next": "0"}, {"next": "0"}]

    def follow(which: int, limit: int) -> None:
        rows, ends[which] = ask((quick.one, quick.several)[which], since(ends[which], limit=limit))
        copies[which] |= {(row["feed"], row["item"]): row["title"] for row in rows}

    for number in range(60):
        quick.put_items(random.randint(1, 3), {"id": str(random.randrange(9)), "title": str(number)})
        follow(random.randrange(2), random.randint(1, 4))
    follow(0, 0)
    follow(1, 0)
    assert copies[0] == copies[1] and len(copies[0]) > 9


def test_with_a_limit_each_sub_lcc_gets_its_turn(quick: Worlds) -> None:
    put_some(quick, 9)
    end: dict[str, Any] = {"next": "0"}
    feeds = []
    for _ in range(3):
        rows, end = ask(quick.several, since(end, limit=2))
        feeds.append({row["feed"] for row in rows})
    assert feeds == [{1}, {2}, {3}]


def test_a_sub_lcc_away_is_named_and_its_items_come_later(quick: Worlds) -> None:
    put_some(quick)
    _, end = ask(quick.several, ALL)
    put_some(quick, 1, "new")
    quick.tasks_database(2).away = True
    rows, end = ask(quick.several, since(end))
    assert ([row["feed"] for row in rows], end["missing"]) == ([1, 3], ["b"])
    quick.tasks_database(2).away = False
    quick.clock.advance(AWAY_SECONDS)
    rows, end = ask(quick.several, since(end))
    assert ([row["feed"] for row in rows], set(end)) == ([2], {"next"})
    for number in (1, 2, 3):
        quick.tasks_database(number).away = True
    with pytest.raises(StoreUnavailable):
        ask(quick.several, ALL)


def test_the_token_of_a_single_lcc_is_good_for_items(quick: Worlds) -> None:
    put_some(quick)
    epoch = str(quick.tasks_database(2).query("SELECT value FROM meta WHERE name = 'epoch'")[0][0])
    single = Token(epoch, 2, selection=ALL.digest)
    rows, end = ask(quick.several, ItemQuery(str(single)))
    assert [row["feed"] for row in rows] == [1, 1, 1, 2, 3, 3, 3]
    assert ask(quick.several, since(end))[0] == []
    with pytest.raises(StartAgain):
        ask(quick.several, ItemQuery(str(Token("other", 2, selection=ALL.digest))))


def test_no_forged_token_of_items_is_good(quick: Worlds) -> None:
    put_some(quick)
    _, end = ask(quick.several, ALL)
    token = parse_front_token(end["next"])
    positions = token.positions
    for forged in (
        {**positions, 1: Position("other", 1)},
        {**positions, 1: attrs.evolve(positions[1], number=10**9)},
        {**positions, 77: Position("x", 1)},
    ):
        with pytest.raises(StartAgain):
            ask(quick.several, ItemQuery(str(FrontToken(ALL.digest, forged, knows_moves=False))))
    for text in ("fe1~", "fe1~0~1.a.1.0", "x", "fe1~" + "0" * 100_000):
        with pytest.raises(TokenError):
            ask(quick.several, ItemQuery(text))
    with pytest.raises(TokenError):
        ask(quick.several, since(end, feeds=frozenset([1])))
    quick.set_state("c", SubState.REMOVED)
    quick.clock.advance(1)
    with pytest.raises(StartAgain):
        ask(quick.several, since(end))


def test_a_sub_lcc_without_tasks_has_no_items_and_no_texts(quick: Worlds) -> None:
    quick.put_items(1, {"id": "1", "title": "x"})
    rows, end = ask(quick.several, ALL)
    assert [row["feed"] for row in rows] == [1] and set(parse_front_token(end["next"]).positions) == {1}
    assert result_of(quick.several.tasks(105)) == [] and len(result_of(quick.several.tasks(1))) == 1
    # Its first feed.
    quick.put_items(2, {"id": "1", "title": "y"})
    assert [row["feed"] for row in ask(quick.several, since(end))[0]] == [2]
