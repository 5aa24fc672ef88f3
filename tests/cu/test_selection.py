"""Answers to content users' questions, page by page, on each database."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from lcc.model import CachedUrl
from lcc.model.spider.crawls import bucket_of
from lcc.roles.cu.query import Query, QueryError, parse_query
from lcc.roles.cu.selection import begin, pages, read_page
from lcc.roles.cu.tokens import StartAgain, TokenError
from lcc.storage.views import selected
from lcc.storage.views.selected import Selection
from tests.support.cache import NOW, Cache

A, B, C = "http://a.example.org/", "http://a.example.org/b/", "http://c.example.org/%2F"


@pytest.fixture(params=[1000, 3, 1], autouse=True)
def examined_rows(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in one page, and in many."""
    monkeypatch.setattr(selected, "EXAMINED_ROWS", request.param)


def answer(cache: Cache, *pairs: tuple[str, str]) -> tuple[list[CachedUrl], str]:
    rows, token = [], ""
    for page in pages(cache.interact, parse_query(pairs)):
        rows += page.rows
        token = str(page.token)
    return rows, token


def names(cache: Cache, *pairs: tuple[str, str]) -> list[str]:
    return sorted(f"{row.pid} {row.curl} {row.mimetype}" for row in answer(cache, *pairs)[0])


def test_buckets_of_hosts(cache: Cache) -> None:
    """Each row belongs to the bucket of its host; a token is good for whichever buckets are asked for next."""
    hosts = [f"{number}.example.org" for number in range(20)] + ["a.example.org:8080"]
    for host in hosts:
        cache.put(1, f"http://{host}/")
    cache.delete(1, f"http://{hosts[0]}/")
    cache.put(2, f"https://{hosts[-1]}/x/y?z")
    number = bucket_of("a.example.org:8080")
    assert number == crc32(b"a.example.org:8080") % 64
    row = f"2 https://{hosts[-1]}/x/y?z text/html"
    assert row in names(cache, ("buckets", str(number)), ("since", "0"))
    assert names(cache, ("buckets", str(number)), ("limit", "1")), "others do not count"
    parts = [[("buckets", "0-31"), ("buckets", "32")], [("buckets", "33-63")]]
    for since in ([], [("since", "0")]):
        found = [names(cache, *part, *since) for part in parts]
        assert sorted(found[0] + found[1]) == names(cache, *since) and all(found)
    _, token = answer(cache, ("since", "0"), *parts[0])
    cache.put(1, "http://later.example.org/")
    assert sum(len(answer(cache, ("since", token), *part)[0]) for part in parts) == 1
    assert len(answer(cache, ("since", token))[0]) == 1
    for text in ("64", "-1", "3-2", "x", "", "1,2", "0-64"):
        with pytest.raises(QueryError, match="buckets: "):
            parse_query([("buckets", text)])


def test_each_field_chooses(cache: Cache) -> None:
    cache.put(1, A)
    cache.put(1, B, "image/png", subtype="x: y")
    cache.put(2, A, "text/plain", fetched_time=NOW + 10)
    cache.put(3, C, "text/html", mtime=NOW + 10)
    cache.put(3, A, "text/html", mtime=None)
    cache.put(2, B)
    cache.delete(2, B)
    everything = {f"1 {A} text/html", f"1 {B} image/png", f"2 {A} text/plain", f"3 {C} text/html", f"3 {A} text/html"}
    assert set(names(cache)) == everything
    assert names(cache, ("provider", "1")) == [f"1 {A} text/html", f"1 {B} image/png"]
    assert names(cache, ("provider", "1"), ("provider", "2"), ("provider", "9")) == [
        *(f"1 {A} text/html", f"1 {B} image/png", f"2 {A} text/plain")
    ]
    assert set(names(cache, ("mimetype", "text/*"))) == everything - {f"1 {B} image/png"}
    assert set(names(cache, ("mimetype", "image/*"), ("mimetype", "text/plain"))) == {
        *(f"1 {B} image/png", f"2 {A} text/plain")
    }
    assert names(cache, ("prefix", C)) == [f"3 {C} text/html"]
    assert names(cache, ("prefix", B)) == [f"1 {B} image/png"]
    assert names(cache, ("prefix", "http://a.example.org/B/")) == [], "paths are told apart by case"
    keys = {f"{row.pid} {row.curl}": ("key", row.key.hex()) for row in answer(cache)[0]}
    gone = [("key", row.key.hex()) for row in answer(cache, ("since", "0"))[0] if row.state == "deleted"]
    assert names(cache, *keys.values(), *gone, ("key", "ab" * 20)) == sorted(everything)
    assert names(cache, keys[f"2 {A}"], keys[f"3 {C}"]) == [f"2 {A} text/plain", f"3 {C} text/html"]
    assert names(cache, *keys.values(), ("provider", "1"), ("mimetype", "text/*")) == [f"1 {A} text/html"]
    assert names(cache, ("subtype", "x: y")) == [f"1 {B} image/png"]
    assert names(cache, ("fetched_from", str(NOW + 10))) == [f"2 {A} text/plain"]
    assert len(names(cache, ("fetched_before", str(NOW + 10)))) == 4
    assert names(cache, ("modified_from", str(NOW + 1))) == [f"3 {C} text/html"]
    assert len(names(cache, ("modified_before", str(NOW + 1)))) == 3, "what is not known is in no time"


def test_limit(cache: Cache) -> None:
    for number in range(7):
        cache.put(1 + number % 2, f"{A}{number}")
    every = [row.key for row in answer(cache)[0]]
    assert every == sorted(every) and len(every) == 7
    for limit in range(1, 9):
        assert [row.key for row in answer(cache, ("limit", str(limit)))[0]] == every[:limit]


def test_limited_changes_go_on_from_their_token(cache: Cache) -> None:
    for number in range(7):
        cache.put(1, f"{A}{number}", "image/png" if number % 2 else "text/html")
    token, seen = "0", []
    for _ in range(5):
        rows, token = answer(cache, ("since", token), ("limit", "1"), ("mimetype", "text/*"))
        seen += [row.curl for row in rows]
    assert seen == [f"{A}{number}" for number in (0, 2, 4, 6)]


def test_a_scope_of_nobody_sees_nothing(cache: Cache) -> None:
    cache.put(1, A)
    nothing = Selection(providers=frozenset())
    assert [row for page in pages(cache.interact, Query(nothing)) for row in page.rows] == []
    assert [row for page in pages(cache.interact, Query(nothing, since="0")) for row in page.rows] == []


def test_what_leaves_the_selection_is_told_as_deleted(cache: Cache) -> None:
    cache.put(1, A, subtype="x: y")
    _, token = answer(cache, ("since", "0"), ("subtype", "x: y"))
    cache.put(1, A, subtype="other: z")
    ((row,), _) = answer(cache, ("since", token), ("subtype", "x: y"))
    assert (row.curl, row.state) == (A, "deleted")


def test_a_token_of_another_selection(cache: Cache) -> None:
    cache.put(1, A)
    _, token = answer(cache, ("since", "0"), ("provider", "1"))
    with pytest.raises(TokenError, match="another selection"):
        answer(cache, ("since", token))


def test_an_epoch_that_ends_while_an_answer_is_read(cache: Cache) -> None:
    cache.put(1, A)
    place = cache.interact(begin, Query(since="0"))
    cache.database.now(lambda txn: txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'"))
    with pytest.raises(StartAgain):
        cache.interact(read_page, place)


def test_what_comes_while_an_answer_is_read_is_left_to_the_next(cache: Cache) -> None:
    cache.put(1, A)
    seen = 0
    for page in pages(cache.interact, Query(since="0")):
        seen += len(page.rows)
        cache.put(1, f"{A}{seen}")
        assert seen < 50
    assert seen == 1


def test_from_now_on(cache: Cache) -> None:
    cache.put(1, A)
    rows, token = answer(cache, ("since", "now"))
    assert rows == []
    cache.put(1, B)
    cache.delete(1, A)
    rows, after = answer(cache, ("since", token))
    assert [(row.curl, row.state) for row in rows] == [(B, "cached"), (A, "deleted")]
    assert answer(cache, ("since", after))[0] == []
