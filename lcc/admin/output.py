"""How listings are written: a table for people, one JSON object a line for programs.

Both are written row by row, so that a listing of millions of rows takes no memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click
from attrs import field, frozen

from lcc.commands.watch import clean
from lcc.domain.wording import utc

_Row = TypeVar("_Row")
_Key = TypeVar("_Key")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


@frozen
class Column:
    """
    :ivar name: of the field of a row.
    :ivar width: at least this many characters; 0: as long as it is (only for the last columns).
    :ivar kind: ``text``, ``number`` (to the right) or ``time``.
    """

    name: str
    width: int = 0
    kind: str = "text"
    title: str = field()

    @title.default
    def _title(self) -> str:
        return self.name


class Listing:
    """Writes rows as a table or as JSON lines.

    :param columns: of the table; JSON shows all fields.
    """

    def __init__(self, columns: Sequence[Column], as_json: bool) -> None:
        self._columns = columns
        self._as_json = as_json
        self._headed = False

    def row(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        if self._as_json:
            click.echo(json.dumps(row))
            return
        if not self._headed:
            self._headed = True
            click.echo(self._line({column.name: column.title for column in self._columns}, titles=True))
        click.echo(clean(self._line(row)))

    def end(self, nothing: str) -> None:
        """After the last row.

        :param nothing: what to say to a person if there was none.
        """
        if not (self._headed or self._as_json):
            click.echo(nothing)

    def _line(self, row: Mapping[str, Any], titles: bool = False) -> str:
        cells = []
        for column in self._columns:
            text = str(row[column.name]) if titles else cell(row[column.name], column.kind)
            cells.append(text.rjust(column.width) if column.kind == "number" else text.ljust(column.width))
        return "  ".join(cells).rstrip()


def pages(
    page: Callable[[_Key], Sequence[_Row]], first: _Key, key: Callable[[_Row], _Key], rows: int
) -> Iterator[Sequence[_Row]]:
    """A table, page by page, so that no transaction lasts long.

    :param page: gives the page behind a key; one of fewer than ``rows`` rows is the last.
    """
    behind = first
    while True:
        found = page(behind)
        yield found
        if len(found) < rows:
            return
        behind = key(found[-1])


def say_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, a line each; what is empty, or a time that is not known, is left out."""
    for name, value in facts:
        if value not in ("", "-"):
            click.echo(clean(f"{name and name + ':':<11} {value}"))


def cell(value: Any, kind: str = "text") -> str:
    """A value formatted for people."""
    if value is None:
        return "-"
    if kind == "time":
        return utc(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value)
