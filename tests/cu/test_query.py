"""Questions of content users, as text."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.roles.cu.query import FIELDS, VALUES_MAX, Query, QueryError, parse_query
from lcc.storage.views.selected import EVERYTHING, Selection, Times


def test_nothing_asked_for_is_everything() -> None:
    assert parse_query([]) == Query()
    assert Query().selection.digest == EVERYTHING


def test_every_field() -> None:
    query = parse_query(
        [
            *(("since", "e.5.0.0"), ("provider", "7"), ("provider", "3"), ("mimetype", "text/*")),
            *(("mimetype", "image/PNG"), ("prefix", "HTTP://Example.org:80/docs/"), ("subtype", "lang: nl")),
            *(("fetched_from", "2026-01-01"), ("fetched_before", "1800000000")),
            *(("modified_from", "2026-01-01T12:00:00+01:00"), ("limit", "10")),
            *(("source", "told"), ("source", "listed")),
        ]
    )
    assert query == Query(
        Selection(
            frozenset({3, 7}),
            ("image/png", "text/*"),
            "http://example.org/docs/",
            "lang: nl",
            Times(1767225600, 1800000000),
            Times(1767265200),
            sources=5,
        ),
        "e.5.0.0",
        10,
    )


def test_rows_by_their_keys() -> None:
    query = parse_query([("key", "0A" * 20), ("key", "0b" * 20)])
    assert query == Query(Selection(keys=frozenset({b"\x0a" * 20, b"\x0b" * 20})))
    with pytest.raises(QueryError, match="key: not with since"):
        parse_query([("key", "0a" * 20), ("since", "0")])


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("colour", "red", "'colour' is not known; there are since, provider"),
        ("provider", "0", "provider: '0' is no whole number"),
        ("provider", "2147483648", "to 2147483647"),
        ("provider", "٣", "provider: "),
        ("key", "0a", "key: '0a' is none: 40 hexadecimal digits"),
        ("key", "٣" * 40, "key: "),
        ("mimetype", "text", "mimetype: 'text' is no pattern"),
        ("prefix", "docs/", "prefix: 'docs/' is not the beginning of a URL"),
        ("prefix", "http://user@example.org/", "prefix: "),
        ("prefix", "http://example.org/" + "a" * 5000, "prefix: longer than 4096"),
        ("subtype", "a" * 2000, "subtype: longer"),
        ("source", "spider", "source: unknown source 'spider' (there are told, pushed"),
        ("source", "told,link", "source: more than one"),
        ("fetched_from", "yesterday", "fetched_from: 'yesterday' is neither ISO 8601"),
        ("modified_before", "2026-13-01", "modified_before: "),
        ("limit", "-1", "limit: '-1' is no whole number"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str, why: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query([(name, value), ("limit", "x")])
    assert why in caught.value.faults[0] or why in str(caught.value)
    assert len(caught.value.faults) == 2, "every fault is told, not only the first"


def test_too_much_of_it() -> None:
    with pytest.raises(QueryError, match="more than"):
        parse_query([("provider", "1")] * (VALUES_MAX + 1))


TIMES = st.builds(Times, st.none() | st.integers(0, 3), st.none() | st.integers(0, 3))
SELECTIONS = st.builds(
    Selection,
    st.none() | st.frozensets(st.integers(1, 3)),
    st.sampled_from([(), ("text/*",), ("text/html",), ("image/*", "text/html")]),
    st.sampled_from(["", "http://a/", "http://a/b"]),
    st.sampled_from(["", "x: y"]),
    TIMES,
    TIMES,
)


@given(SELECTIONS, SELECTIONS)
def test_selections_have_the_same_digest_only_if_they_are_the_same(one: Selection, other: Selection) -> None:
    assert (one.digest == other.digest) == (one == other)


def test_each_part_of_a_selection_is_in_its_digest() -> None:
    keys = frozenset({b"1"})
    parts = attrs.asdict(
        Selection(frozenset({1}), ("text/*",), "http://a/", "x: y", Times(1, None), Times(None, 1), 4, keys),
        recurse=False,
    )
    assert set(parts) == {field.name for field in attrs.fields(Selection)}
    base = Selection(frozenset({2}), ("image/*",), "http://b/", "z: y", Times(2, None), Times(None, 2), 1)
    for name, value in parts.items():
        if name == "buckets":  # whoever takes over a bucket continues with the token of who had it
            assert attrs.evolve(base, buckets=frozenset({1})).digest == base.digest
        else:
            assert attrs.evolve(base, **{name: value}).digest != base.digest, name


def test_order_and_repetition_do_not_make_another_selection() -> None:
    one = parse_query([("mimetype", "a/b"), ("mimetype", "c/d"), ("provider", "1"), ("provider", "2")])
    other = parse_query([("provider", "2"), ("mimetype", "c/d"), ("provider", "1"), ("mimetype", "A/B")])
    assert one == other
    assert parse_query([("mimetype", "*/*")]) == Query()


@given(st.lists(st.tuples(st.sampled_from([*FIELDS, "other"]), st.text(max_size=20)), max_size=12))
def test_any_text_is_a_question_or_an_error(pairs: list[tuple[str, str]]) -> None:
    try:
        parse_query(pairs)
    except QueryError as error:
        assert error.faults


@given(st.none() | st.frozensets(st.integers(1, 9)), st.none() | st.frozensets(st.integers(1, 9)))
def test_within_a_scope(asked: frozenset[int] | None, scope: frozenset[int] | None) -> None:
    narrowed = Selection(providers=asked).within(scope).providers
    everybody = frozenset(range(1, 10))
    expected = (everybody if asked is None else asked) & (everybody if scope is None else scope)
    assert (everybody if narrowed is None else narrowed) == expected
