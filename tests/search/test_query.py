"""The language of queries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.search.query import CLAUSES_MAX, QUERY_CHARS_MAX, QueryError, parse_query
from lcc.search.values import Kind, Order, Query

NOW = datetime(2026, 11, 23, 18, 30, tzinfo=UTC).timestamp()


def parsed(text: str) -> list[tuple[Any, ...]]:
    return [(each.kind, each.text, each.negated) for each in parse_query(text, "", NOW).clauses]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("two words", [(Kind.WORD, "two", False), (Kind.WORD, "words", False)]),
        ('"a phrase" -not -"not this"', [(Kind.PHRASE, "a phrase", False), (Kind.WORD, "not", True)]),
        ('title:word -TITLE:"two words"', [(Kind.TITLE, "word", False), (Kind.TITLE, "two words", True)]),
        ("site:WWW.Example.org", [(Kind.SITE, "www.example.org", False)]),
        ("site:http://www.example.org/a/b", [(Kind.SITE, "www.example.org", False)]),
        ("site:.example.org:8080", [(Kind.SITE, "example.org:8080", False)]),
        ("site:münchen.example", [(Kind.SITE, "xn--mnchen-3ya.example", False)]),
        ("type:PDF -type:htm", [(Kind.TYPE, "pdf", False), (Kind.TYPE, "html", True)]),
        ("type:text/CSV lang:DE", [(Kind.TYPE, "text/csv", False), (Kind.LANGUAGE, "de", False)]),
        # Whatever there is a sense in.
        ('"not closed', [(Kind.PHRASE, "not closed", False)]),
        ('a"b c"d', [(Kind.WORD, "a", False), (Kind.PHRASE, "b c", False), (Kind.WORD, "d", False)]),
        ("http://h.example/x C++ a:b", [(Kind.WORD, "http://h.example/x", False), (Kind.WORD, "C++", False)]),
        ("word * ? - -- \"\" ''", [(Kind.WORD, "word", False)]),
        ("cafe\u0301", [(Kind.WORD, "café", False)]),
    ],
)
def test_what_is_meant(text: str, clauses: list[tuple[Any, ...]]) -> None:
    assert parsed(text)[: len(clauses)] == clauses


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("today", "2026-11-23"),
        ("yesterday", "2026-11-22"),
        ("2026", "2026-01-01"),
        ("2026-03", "2026-03-01"),
        ("2026-3-9", "2026-03-09"),
        ("7d", "2026-11-16T18:30"),
        ("12h", "2026-11-23T06:30"),
        ("1y", "2025-11-23T18:30"),
        ("0001-01-01", "1970-01-01"),
        ("9999y", "1970-01-01"),
    ],
)
def test_dates(text: str, since: str) -> None:
    (clause,) = parse_query(f"since:{text}", "", NOW).clauses
    assert datetime.fromtimestamp(clause.since, UTC) == datetime.fromisoformat(since).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "fault", "at"),
    [
        ("", "no word", None),
        ("  ", "no word", None),
        ("*", "no word", None),
        ("? * +-*/ .", "no word", None),
        ("-not", "only leaves words out", 0),
        ("a site:", "site: has nothing behind it", 2),
        ("a site: b", "site: has nothing behind it", 2),
        ('a site:"x y"', "is not a host", 2),
        ("a title:*", "no word behind it", 2),
        ("a type:doc", "html, pdf, text", 2),
        ("lang:english", "such as en", 0),
        ("since:2026-13", "is not a date", 0),
        ("since:99999d", "is not a date", 0),
        ("x" * (QUERY_CHARS_MAX + 1), "1,001 characters", QUERY_CHARS_MAX),
        ("x " * 50_000, "100,000 characters", QUERY_CHARS_MAX),
        ("x " * (CLAUSES_MAX + 1), "33 parts", 2 * CLAUSES_MAX),
    ],
)
def test_what_is_no_query_is_told_with_its_place(text: str, fault: str, at: int | None) -> None:
    with pytest.raises(QueryError, match=fault) as raised:
        parse_query(text, "", NOW)
    assert raised.value.at == at


def test_orders() -> None:
    assert parse_query("a", "", NOW).order is parse_query("a", "rank", NOW).order is Order.RANK
    assert parse_query("a", "date", NOW).order is Order.DATE
    with pytest.raises(QueryError, match="rank or date"):
        parse_query("a", "size", NOW)


@given(st.text(st.characters() | st.sampled_from('"-: *siteypnc0d')))
def test_whatever_is_asked_is_a_query_or_is_refused(text: str) -> None:
    try:
        query = parse_query(text, "", NOW)
    except QueryError:
        return
    assert isinstance(query, Query) and any(not clause.negated for clause in query.clauses)
    query.text.encode()
    assert all(0 <= clause.at < len(query.text) for clause in query.clauses)
