"""Literals: rows at once are what each value is alone; and the server gives back what was written."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from lcc.storage.database.mysql.literals import literal, literals, row_literals

HOSTILE = ["", "'", "\\", "\\'", "''", "%", "%s", "%%d", "\0", "\n", '"', "x'00'", "--", "/*", ";", "ü€😀", "a"]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))
VALUES = st.one_of(
    TEXTS,
    st.binary(max_size=20),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)
COLUMNS = st.sampled_from([TEXTS, st.binary(max_size=4), st.integers(0, 3), st.none(), st.booleans(), VALUES])


@st.composite
def tables(draw: Any) -> list[tuple[Any, ...]]:
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=5))
    row = st.tuples(*columns)
    return list(draw(st.lists(row, min_size=1, max_size=6)))


@given(tables())
@example([(1, True), (True, 1)])
@example([(1,), (1.0,)])
@example([("%s",), ("%s",)])
@example([("a", 1), ("a'", None)])
def test_rows_are_as_their_values(rows: list[tuple[Any, ...]]) -> None:
    assert row_literals(rows) == ["(" + ",".join(map(literal, row)) + ")" for row in rows]


@given(st.lists(VALUES, max_size=6))
def test_many_are_as_each(values: list[Any]) -> None:
    assert literals(values) == [literal(value) for value in values]
