"""Values as literals of MySQL's SQL, and rows of them in bulk.

The session's ``sql_mode`` is ours (:class:`lcc.storage.database.dialects.MysqlDialect`), so that a backslash
escapes.  A statement is sent with its length, so within quotes only the backslash and the quote are special.

:func:`row_literals` gives the same text as :func:`literal` for each value, but works by column: in a batch most
columns have one type, many have one value, and texts hardly ever need escaping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


_LITERALS: dict[type, Callable[[Any], str]] = {
    str: _text,
    bytes: lambda value: "x'" + value.hex() + "'",
    int: str,
    float: repr,
    bool: lambda value: "1" if value else "0",
    type(None): lambda value: "NULL",
}


def literal(value: Any) -> str:
    """The SQL literal of a value."""
    return _LITERALS[type(value)](value)


def literals(values: Sequence[Any]) -> list[str]:
    """Each of the values."""
    kinds = set(map(type, values))
    if kinds == {bytes}:  # keys, mostly
        return [f"x'{value.hex()}'" for value in values]
    return [_LITERALS[type(value)](value) for value in values]


def row_literals(rows: Sequence[Sequence[Any]]) -> list[str]:
    """``(…,…)`` for each row.

    :param rows: at least one; all of one length.
    """
    pattern: list[str] = []
    varying: list[Sequence[Any]] = []
    for column in zip(*rows, strict=True):
        text, values = _column(column)
        pattern.append(text)
        if values is not None:
            varying.append(values)
    filled = f"({','.join(pattern)})"
    if not varying:
        return [filled % ()] * len(rows)
    return list(map(filled.__mod__, zip(*varying, strict=True)))


def _column(column: Sequence[Any]) -> tuple[str, Sequence[Any] | None]:
    """The part of a row's pattern for a column, and the values to fill in; None: the pattern is complete."""
    first = column[0]
    kinds = set(map(type, column))
    if len(kinds) == 1 and float not in kinds and column.count(first) == len(column):  # -0.0 == 0.0
        return literal(first).replace("%", "%%"), None
    if kinds == {str}:
        every = "".join(column)
        if "'" not in every and "\\" not in every:
            return "'%s'", column
    elif kinds == {bytes}:
        return "x'%s'", [value.hex() for value in column]
    elif kinds == {int}:
        return "%d", column
    return "%s", literals(column)
