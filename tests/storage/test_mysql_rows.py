"""Rows read in one go are the rows that PyMySQL reads."""

from __future__ import annotations

import io
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.connections import Connection

from lcc.storage.database.mysql.connection import RowsConnection

KINDS = {"long": (8, 63), "text": (252, 45), "blob": (252, 63), "double": (5, 63), "decimal": (246, 63)}
"""Kind of a column -> the protocol's numbers of its type and its character set."""
VALUES = {
    "long": st.integers(-(2**63), 2**63 - 1).map(lambda number: b"%d" % number),
    "text": st.text(max_size=300).map(str.encode),
    "blob": st.binary(max_size=300),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda number: repr(number).encode()),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: format(number, "f").encode()),
}


def length(size: int) -> bytes:
    """A length as the protocol writes it."""
    if size < 251:
        return bytes([size])
    return b"\xfc" + size.to_bytes(2, "little") if size < 1 << 16 else b"\xfd" + size.to_bytes(3, "little")


def string(data: bytes | None) -> bytes:
    return b"\xfb" if data is None else length(len(data)) + data


def column(name: str, kind: str) -> bytes:
    number, charset = KINDS[kind]
    names = b"".join(string(text.encode()) for text in ("def", "s", "t", "t", name, name))
    return names + b"\x0c" + charset.to_bytes(2, "little") + bytes(4) + bytes([number]) + bytes(5)


def end(more: bool) -> bytes:
    return b"\xfe" + bytes(2) + (b"\x0a\x00" if more else b"\x02\x00")


def wire(packets: list[bytes], number: int = 1) -> bytes:
    return b"".join(
        len(packet).to_bytes(3, "little") + bytes([at & 0xFF]) + packet for at, packet in enumerate(packets, number)
    )


def result(kinds: list[str], rows: list[list[bytes | None]], more: bool) -> list[bytes]:
    """The packets of a result."""
    columns = [column(f"c{at}", kind) for at, kind in enumerate(kinds)]
    data = [b"".join(map(string, row)) for row in rows]
    return [bytes([len(kinds)]), *columns, end(False), *data, end(more)]


class Pieces(io.RawIOBase):
    """Gives bytes in pieces of these sizes, the last size again and again."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = sizes
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]
        some = self._data[self._at : self._at + min(size, len(buffer))]
        self._at += len(some)
        buffer[: len(some)] = some
        return len(some)


class Quiet:
    """A socket that is only told its timeout."""

    def settimeout(self, seconds: float | None) -> None:
        pass

    def close(self) -> None:
        pass


def connection(kind: type[Any], data: bytes, sizes: list[int]) -> Any:
    """A connection on which these bytes arrive, in these pieces."""
    made = kind(defer_connect=True)
    made._sock = Quiet()
    made._rfile = io.BufferedReader(Pieces(data, list(sizes)), 1 << 16)
    made._next_seq_id = 1
    made._current_timeout = made._read_timeout
    return made


def read(reader: Any) -> tuple[Any, ...]:
    """The next result."""
    reader._read_query_result()
    found = reader._result
    return found.rows, found.description, found.affected_rows, found.has_next


kinds_of_columns = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[bytes | None]]]:
    kinds = draw(kinds_of_columns)
    row = st.tuples(*(st.none() | VALUES[kind] for kind in kinds)).map(list)
    return kinds, draw(st.lists(row, max_size=12))


@given(st.lists(tables(), min_size=1, max_size=4), st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_rows_as_pymysql_reads_them(results: list[Any], sizes: list[int]) -> None:
    packets: list[bytes] = []
    for at, (kinds, rows) in enumerate(results, 1):
        packets += result(kinds, rows, more=at < len(results))
    data = wire(packets)
    ours, theirs = connection(RowsConnection, data, sizes), connection(Connection, data, [1 << 20])
    for _ in results:
        assert read(ours) == read(theirs)
    assert ours._next_seq_id == theirs._next_seq_id


ROWS: list[list[bytes | None]] = [[b"%d" % at, b"text %d" % at, None] for at in range(300)]
"""More than there are numbers of packets."""


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 1000, 1 << 20])
def test_columns_are_looked_up(size: int) -> None:
    packets = [part for _ in range(3) for part in result(["long", "text", "blob"], ROWS, more=True)]
    reader = connection(RowsConnection, wire(packets), [size])
    for _ in range(3):
        rows, description, *_ = read(reader)
        assert rows == tuple((at, f"text {at}", None) for at in range(300))
        assert [name for name, *_ in description] == ["c0", "c1", "c2"]
    assert len(reader.known_columns) == 1


def test_long_values() -> None:
    long = [b"a" * 70_000, b"b" * 300, b"c" * 250, b""]
    reader = connection(RowsConnection, wire(result(["text"] * 4, [long, long], more=False)), [5000])
    assert read(reader)[0] == (tuple(value.decode() for value in long),) * 2


@pytest.mark.parametrize("at", [0, 1, 4, 5, 7])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_an_error_in_a_result(at: int, size: int) -> None:
    packets = result(["long", "blob", "text"], ROWS[:3], more=False)
    packets[at:] = [b"\xff" + (1317).to_bytes(2, "little") + b"#70100Query execution was interrupted"]
    with pytest.raises(pymysql.err.OperationalError) as raised:
        read(connection(RowsConnection, wire(packets), [size]))
    assert raised.value.args[0] == 1317


@pytest.mark.parametrize("cut", [0, 3, 10, 40, 150, 200, 1000, -1])
def test_a_lost_connection(cut: int) -> None:
    data = wire(result(["long", "blob", "text"], ROWS, more=False))
    with pytest.raises(pymysql.err.OperationalError) as raised:
        read(connection(RowsConnection, data[:cut], [1 << 20]))
    assert raised.value.args[0] == 2013


def test_a_packet_out_of_order() -> None:
    packets = result(["long", "blob", "text"], ROWS[:3], more=False)
    data = wire(packets[:6]) + wire(packets[6:], 9)
    with pytest.raises(pymysql.err.InternalError, match="sequence"):
        read(connection(RowsConnection, data, [1 << 20]))
