"""The same questions to one LCC and to a front end over three: equal answers, whole, resumable, one sub-LCC away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from lcc.config import CuConfig
from lcc.errors import StoreUnavailable
from lcc.model.frontend.places import AtHome, SubState
from lcc.roles.cu.answers import begin_answer
from lcc.roles.cu.atom import changed_lately
from lcc.roles.cu.cache import OneLcc, row_of
from lcc.roles.cu.formats import FORMATS
from lcc.roles.cu.front.subs import AWAY_SECONDS
from lcc.roles.cu.front.tokens import FrontToken, Position, check_removed, parse_front_token
from lcc.roles.cu.query import Query, parse_query
from lcc.roles.cu.tokens import StartAgain, TokenError
from lcc.roles.cu.waiting import answer_when_changed
from lcc.roles.cu.watcher import PERIOD_SECONDS, ChangeWatcher
from lcc.roles.cu.web.site import build_site
from lcc.storage.database.tables.timeline import current_timeline
from lcc.storage.fe.placements import put_making
from tests.frontend.kit import NOW
from tests.support.databases import Backend, result_of
from tests.support.roles.front_worlds import PIDS, Worlds

JSONL = FORMATS["jsonl"]


def ask(cache: Any, query: Query, form: Any = JSONL) -> bytes:
    answer = result_of(begin_answer(cache, query, form))
    data = b""
    while not answer.ended:
        data += result_of(answer.next_piece()).data
    return data


def rows_of(data: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows, but for the numbers of their changes, which are each LCC's own; the end mark."""
    *rows, end = map(json.loads, data.decode().splitlines())
    for row in rows:
        del row["change"]
    return rows, end


def asked(**fields: Any) -> Query:
    pairs = [
        (name, str(each))
        for name, value in fields.items()
        for each in (value if isinstance(value, tuple) else (value,))
    ]
    return parse_query(pairs)


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Worlds]:
    worlds = Worlds(tmp_path, lambda name: f"sqlite:{tmp_path}/{name}.db")
    yield worlds
    worlds.close()


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"limit": 1},
    {"limit": 260},
    {"provider": (105, 201, 205)},
    {"provider": 999},
    {"mimetype": "text/*"},
    {"mimetype": "image/png", "limit": 30},
    {"prefix": "http://p205.example/"},
    {"buckets": "0-31"},
]


def _both_answer_alike(worlds: Worlds) -> None:
    worlds.fill(700)
    for pid in PIDS:
        worlds.delete(pid, "gone")
    for fields in QUESTIONS:
        one, several = (ask(cache, asked(**fields)) for cache in (worlds.one, worlds.several))
        assert rows_of(one) == rows_of(several), fields
        if "limit" not in fields:
            one, several = (ask(cache, asked(since=0, **fields)) for cache in (worlds.one, worlds.several))
            assert _sorted(rows_of(one)[0]) == _sorted(rows_of(several)[0]), fields
    for form in FORMATS.values():
        whole = asked(mimetype="text/plain")
        texts = [ask(cache, whole, form) for cache in (worlds.one, worlds.several)]
        assert len(texts[0].splitlines()) == len(texts[1].splitlines())
    keys = [row["key"] for row in rows_of(ask(worlds.one, Query()))[0]]
    some = asked(key=tuple(keys[::40]))
    assert rows_of(ask(worlds.one, some)) == rows_of(ask(worlds.several, some))
    for key in (*keys[::100], "00" * 20):
        rows = [
            result_of(Deferred.fromCoroutine(row_of(each, bytes.fromhex(key))))
            for each in (worlds.one, worlds.several)
        ]
        assert [row and row.curl for row in rows] == [rows[0] and rows[0].curl] * 2


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["pid"], row["key"]))


def test_one_lcc_and_three_answer_alike(worlds: Worlds) -> None:
    _both_answer_alike(worlds)


def test_one_lcc_and_three_answer_alike_on_each_database(backend: Backend, request: pytest.FixtureRequest) -> None:
    if backend.kind == "sqlite":
        return  # above
    worlds = Worlds(backend.home, lambda name: request.getfixturevalue(backend.kind).new_database())
    try:
        _both_answer_alike(worlds)
    finally:
        worlds.close()


@pytest.mark.parametrize("seed", range(4))
def test_followers_with_any_limit_have_the_same_copy(worlds: Worlds, seed: int) -> None:
    random = Random(seed)
    copies: list[dict[str, Any]] = [{}, {}]
    tokens = ["0", "0"]
    worlds.fill(60, seed)
    for _round in range(60):
        if random.random() < 0.5:
            pid, name = random.choice(PIDS), str(random.randrange(30))
            (worlds.put if random.random() < 0.7 else worlds.delete)(pid, name)
        which = random.randrange(2)
        tokens[which] = _follow(
            (worlds.one, worlds.several)[which], copies[which], tokens[which], random.randint(1, 9)
        )
    for which, cache in enumerate((worlds.one, worlds.several)):
        tokens[which] = _follow(cache, copies[which], tokens[which], None)
    assert copies[0] == copies[1] and copies[0]
    now = {row["key"]: row["md5"] for row in rows_of(ask(worlds.several, Query()))[0]}
    assert copies[1] == now
    assert rows_of(ask(worlds.several, asked(since=tokens[1])))[0] == []


def _follow(cache: Any, copy: dict[str, Any], token: str, limit: int | None) -> str:
    rows, end = rows_of(ask(cache, attrs.evolve(asked(since=token), limit=limit)))
    for row in rows:
        if row["state"] == "deleted":
            copy.pop(row["key"], None)
        else:
            copy[row["key"]] = row["md5"]
    following: str = end["next"]
    return following


def test_with_a_limit_each_sub_lcc_gets_its_turn(worlds: Worlds) -> None:
    worlds.fill(90)
    token, seen = "0", []
    for _ in range(3):
        rows, end = rows_of(ask(worlds.several, asked(since=token, limit=2)))
        token = end["next"]
        seen.append({worlds.cache_of(row["pid"]) for row in rows})
        worlds.fill(9, len(seen))  # the first one always has something new
    assert len(set.union(*seen)) == 3


def test_a_token_of_a_single_lcc_is_good(worlds: Worlds) -> None:
    old = worlds.caches[2]
    old.put(105, "http://p105.example/before")
    own = OneLcc(old.database, ChangeWatcher(old.database, worlds.clock))
    _, end = rows_of(ask(own, asked(since=0)))
    old.put(105, "http://p105.example/after")
    worlds.put(1, "other")
    rows, end = rows_of(ask(worlds.several, asked(since=end["next"])))
    assert [row["curl"] for row in rows] == ["http://p1.example/other", "http://p105.example/after"]
    assert rows_of(ask(worlds.several, asked(since=end["next"])))[0] == []
    with pytest.raises(StartAgain):
        ask(worlds.several, asked(since="another.1.0.0"))
    worlds.database(2).away = True
    with pytest.raises(StoreUnavailable):
        ask(worlds.several, asked(since=f"{old.database.now(current_timeline)}.1.0.0"))


def test_a_sub_lcc_that_is_away(worlds: Worlds) -> None:
    worlds.fill(30)
    _, end = rows_of(ask(worlds.several, asked(since=0)))
    for pid in (1, 105, 201):
        worlds.put(pid, "new")
    away = worlds.database(2)
    away.away = True
    with pytest.raises(StoreUnavailable):
        ask(worlds.several, Query())
    with pytest.raises(StoreUnavailable):
        ask(worlds.several, asked(since="now"))
    rows, end = rows_of(ask(worlds.several, asked(since=end["next"])))
    assert ([row["pid"] for row in rows], end["missing"]) == ([1, 201], ["b"])
    before = away.asked
    rows, end = rows_of(ask(worlds.several, asked(since=end["next"])))
    assert (rows, end["missing"], away.asked) == ([], ["b"], before), "it is not asked again at once"
    for name, mark in (("xml", b'" missing="b"/>\n</lcc:urls>\n'), ("csv", b",b\r\n")):
        assert ask(worlds.several, asked(since=end["next"]), FORMATS[name]).endswith(mark)
    away.away = False
    worlds.clock.advance(AWAY_SECONDS)
    rows, end = rows_of(ask(worlds.several, asked(since=end["next"])))
    assert ([row["pid"] for row in rows], set(end)) == ([105], {"next"})


def test_away_at_the_beginning_means_all_of_it_later(worlds: Worlds) -> None:
    worlds.fill(30)
    worlds.database(3).away = True
    first, end = rows_of(ask(worlds.several, asked(since=0)))
    assert end["missing"] == ["c"] and set(parse_front_token(end["next"]).positions) == {1, 2}
    worlds.database(3).away = False
    worlds.clock.advance(AWAY_SECONDS)
    second, _ = rows_of(ask(worlds.several, asked(since=end["next"])))
    assert _sorted(first + second) == _sorted(rows_of(ask(worlds.one, Query()))[0]) and second


def test_sub_lccs_that_come_and_go(worlds: Worlds) -> None:
    worlds.fill(30)
    _, end = rows_of(ask(worlds.several, asked(since=0)))
    worlds.add_sub(4)
    worlds.caches[4].put(301, "http://p301.example/")
    worlds.clock.advance(1)
    rows, end = rows_of(ask(worlds.several, asked(since=end["next"])))
    assert [row["pid"] for row in rows] == [301]
    worlds.set_state("d", SubState.REMOVED)
    worlds.clock.advance(1)
    with pytest.raises(StartAgain):
        ask(worlds.several, asked(since=end["next"]))
    # What it reported last tells who has seen all of it.
    token = parse_front_token(end["next"])
    kept = check_removed(token, {1, 2, 3}, {4: 1})
    assert set(kept.positions) == {1, 2, 3}
    for last in (2, None):
        with pytest.raises(StartAgain):
            check_removed(token, {1, 2, 3}, {4: last})
    # What has moved away from it is told elsewhere, by what it was told then.
    moved_away = attrs.evolve(token, positions={**token.positions, 4: attrs.evolve(token.positions[4], base=0)})
    with pytest.raises(StartAgain):
        check_removed(moved_away, {1, 2, 3}, {4: 1})


def test_a_restored_sub_lcc_says_start_again(worlds: Worlds) -> None:
    worlds.fill(30)
    _, end = rows_of(ask(worlds.several, asked(since=0)))
    worlds.database(2).now(lambda txn: txn.execute("UPDATE meta SET value = 'x' WHERE name = 'epoch'"))
    with pytest.raises(StartAgain):
        ask(worlds.several, asked(since=end["next"]))


def test_waiting_ends_when_any_of_them_changes(worlds: Worlds) -> None:
    _, end = rows_of(ask(worlds.several, asked(since=0)))
    query = asked(since=end["next"])
    for seconds, count in ((10, 1), (2 * PERIOD_SECONDS, 0)):
        waiting = Deferred.fromCoroutine(answer_when_changed(worlds.several, worlds.clock, query, JSONL, seconds))
        assert not waiting.called and worlds.subs.waiting == 3
        if count:
            worlds.put(201, "new")
        worlds.clock.pump([PERIOD_SECONDS] * 4)
        piece = result_of(result_of(waiting).next_piece())
        assert piece.rows == count and worlds.subs.waiting == 0
        query = asked(since=piece.token)
    waiting = Deferred.fromCoroutine(answer_when_changed(worlds.several, worlds.clock, query, JSONL, 10))
    waiting.addErrback(lambda _: None)
    waiting.cancel()
    assert worlds.subs.waiting == 0


def test_the_front_ends_database_may_go_away(worlds: Worlds) -> None:
    worlds.fill(10)
    worlds.front.away = True
    with pytest.raises(StoreUnavailable):
        ask(worlds.several, Query())
    worlds.front.away = False
    ask(worlds.several, Query())
    worlds.front.away = True
    worlds.clock.advance(60)
    assert len(rows_of(ask(worlds.several, Query()))[0]) == 10


def test_content_is_where_its_machine_is(worlds: Worlds) -> None:
    ask(worlds.several, Query())
    addresses = [worlds.subs.content_address(machine) for machine in (1, 10, 11, 30, 31)]
    assert addresses == ["http://sub1/", "http://sub1/", "http://sub2/", "http://sub3/", ""]


@pytest.mark.parametrize(
    "text",
    [
        "fe1~",
        "fe1~x",
        "fe1~0~",
        "fe1~0~1.a.1",
        "fe1~0~1.a.1.0~1.a.2.0",
        "fe1~0~0.a.1.0",
        "fe1~0~99999999999.a.1.0",
        "fe1~0~1.a.9999999999999999999.0",
        "fe1~0~1.a b.1.0",
        "fe1~0" + "~1.a.1.0" * 2000,
        "fe1~0~1.ä.1.0",
        "fe1~0~1.a.1.0" * 100_000,
        "fe2~0",
        "fe2~0~1.a.1.0",
        "fe2~0~-1~1.a.1.0",
        "fe2~0~9999999999999999999~1.a.1.0",
        "fe2~0~1~1.a.1.0.x1",
        "fe2~0~1~1.a.1.0.f",
        "fe2~0~1~1.a.1.0.b1.f1",
        "fe2~0~1~1.a.1.0.f9999999999999999999",
        "fe2~0~1~1.a.1.0.k1",
        "fe2~0~1~1.a.1.0.k1.00",
        "fe2~0~1~1.a.1.0~1.a.2.0",
        "fe1~0~1.a.1.0.f1",
        "fe2~0~1" + "~1.a.1.0" * 2000,
    ],
)
def test_what_is_no_token(worlds: Worlds, text: str) -> None:
    with pytest.raises(TokenError) as raised:
        ask(worlds.several, asked(since=text))
    assert len(str(raised.value)) < 300 or not text.startswith("fe")


def test_tokens_are_for_one_selection_and_no_forged_one_is_good(worlds: Worlds) -> None:
    worlds.fill(5)
    _, end = rows_of(ask(worlds.several, asked(since=0)))
    with pytest.raises(TokenError):
        ask(worlds.several, asked(since=end["next"], provider=1))
    token = parse_front_token(end["next"])
    assert str(token) == end["next"]
    for subid, position in (
        (1, Position("other", 1)),
        (2, attrs.evolve(token.positions[2], number=10**9)),
        (77, Position("x", 1)),
    ):
        forged = FrontToken("0", {**token.positions, subid: position})
        with pytest.raises(StartAgain):
            ask(worlds.several, asked(since=str(forged)))


def test_a_provider_that_is_being_made_is_where_it_will_be(worlds: Worlds) -> None:
    worlds.front.now(put_making, 299, 1, NOW)
    home = result_of(worlds.several.home(299))
    assert home is worlds.subs.all[0].reads and AtHome.MAKING.value == "making"


def test_an_atom_feed_over_all_of_them(worlds: Worlds) -> None:
    for number in range(9):
        worlds.put(PIDS[number % len(PIDS)], f"{number}", change_time=NOW + number)
    found = []
    for cache in (worlds.one, worlds.several):
        rows, token = result_of(Deferred.fromCoroutine(changed_lately(cache, Query())))
        found.append([row.curl for row in rows])
        assert result_of(Deferred.fromCoroutine(changed_lately(cache, asked(since=token)))) == ([], token)
        few, token = result_of(Deferred.fromCoroutine(changed_lately(cache, asked(since=0, limit=2))))
        rest, _ = result_of(Deferred.fromCoroutine(changed_lately(cache, asked(since=token))))
        assert (len(few), {row.curl for row in few + rest}) == (2, set(found[0]))
    assert found[0] == found[1] and len(found[0]) == 9
    worlds.database(2).away = True
    with pytest.raises(StoreUnavailable):
        result_of(Deferred.fromCoroutine(changed_lately(worlds.several, Query())))


def _paths(cache: Any) -> tuple[set[str], set[str]]:
    """The resources of the HTTP interface, and the paths that its document describes."""
    nobody: Any = None
    site: Any = build_site(cache, nobody, nobody, CuConfig(), "content", Clock(), None, nobody)
    children = site.wrappedFactory.resource.children
    return {name.decode() for name in children}, set(json.loads(children[b"openapi.json"]._body)["paths"])


def test_a_front_end_has_the_resources_of_an_lcc(worlds: Worlds) -> None:
    assert _paths(worlds.one) == _paths(worlds.several)
