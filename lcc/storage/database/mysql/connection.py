"""PyMySQL's connection, with a quicker way to read the rows of a SELECT.

PyMySQL reads a row packet by packet and value by value, through several calls for each; half of what a batch cost the
queue manager was that.  Here whole packets are taken out of what has arrived already, and the values of a row are
sliced out in one loop.  And what a result says of its columns, which is longer than many a result, is looked up: a
statement that was asked before has the same columns.

Whatever is not an ordinary row (an error, the end, a packet of 16 MB, one that has arrived in part) is left to
PyMySQL.  The rows are the same ones (tests compare).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR
from pymysql.err import OperationalError
from pymysql.protocol import MysqlPacket

_HEADER_BYTES = 4
_SIZE = 0xFFFFFF
"""The part of a packet's header that is its size; above it stands its number."""
_ERROR = 0xFF
_SPECIAL_FIRST = 0xFB
"""A packet that begins like this or above may be an error, the end, or a row with a NULL or a long value first."""
_NULL, _TWO_BYTES, _THREE_BYTES = 0xFB, 0xFC, 0xFD
_BUFFER_BYTES = 1 << 16
_COLUMNS_KEPT = 250
"""Of a statement with literals in its columns there are many."""

Convert = Callable[[bytes], Any]


class _Columns:
    """What a result says of its columns, and how their values are read."""

    def __init__(self, fields: list[Any], description: tuple[Any, ...], converters: list[tuple[Any, Any]]) -> None:
        self.fields = fields
        self.description = description
        self.converters = converters
        self.converts = [_convert(encoding, converter) for encoding, converter in converters]


def _convert(encoding: str | None, converter: Callable[[Any], Any] | None) -> Convert:
    """As PyMySQL: decode, then convert."""
    if encoding is None:
        return bytes if converter is None else converter
    if converter is None:
        return bytes.decode if encoding in {"utf8", "utf-8"} else lambda data: data.decode(encoding)
    if converter is int:
        return int  # it takes digits in bytes as well
    return lambda data: converter(data.decode(encoding))


class _Replay:
    """Gives packets that were read to PyMySQL's own code."""

    def __init__(self, connection: Any, packets: Sequence[bytes]) -> None:
        self.use_unicode = connection.use_unicode
        self.encoding = connection.encoding
        self.decoders = connection.decoders
        self._packets = iter(packets)

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        return packet_type(next(self._packets), self.encoding)


_Base: Any = MySQLResult  # its stubs know nothing of its inside


class _Result(_Base):  # type: ignore[misc]
    """A result whose rows are read in one go."""

    connection: Any
    field_count: int
    fields: list[Any]
    description: tuple[Any, ...]
    converters: list[tuple[Any, Any]]

    def _get_descriptions(self) -> None:
        connection = self.connection
        count = self.field_count + 1  # and the end
        packets = connection.take_packets(count)
        while len(packets) < count:
            packets.append(connection._read_packet().get_all_data())
        key = tuple(packets)
        known = connection.known_columns
        columns = known.get(key)
        if columns is None:
            self.connection = _Replay(connection, packets)
            try:
                super()._get_descriptions()
            finally:
                self.connection = connection
            if len(known) >= _COLUMNS_KEPT:
                known.clear()
            columns = known[key] = _Columns(self.fields, self.description, self.converters)
        self._columns = columns
        self.fields, self.description, self.converters = columns.fields, columns.description, columns.converters

    def _read_rowdata_packet(self) -> None:
        connection, converts = self.connection, self._columns.converts
        rows: list[tuple[Any, ...]] = []
        while True:
            connection.take_rows(converts, rows)
            packet = connection._read_packet()
            if self._check_packet_is_eof(packet):
                break
            rows.append(self._read_row_from_packet(packet))
        self.connection = None
        self.affected_rows = len(rows)
        self.rows = tuple(rows)


@cache
def _unverified_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class RowsConnection(Connection):
    """Reads many rows at once."""

    _rfile: Any
    _sock: Any
    _next_seq_id: int
    _force_close: Callable[[], None]

    def __init__(self, **arguments: Any) -> None:
        self.known_columns: dict[tuple[bytes, ...], _Columns] = {}
        super().__init__(**arguments)

    def connect(self, sock: Any = None) -> None:
        super().connect(sock)
        # The server is silent until it is asked: there is nothing in the buffer that goes.
        self._rfile = self._sock.makefile("rb", _BUFFER_BYTES)

    def _create_ssl_ctx(self, wanted: ssl.SSLContext | dict[str, Any]) -> ssl.SSLContext:
        """Where nothing is ``wanted``, TLS is used if the server has it, and nothing is verified.

        PyMySQL would read all authorities of the system for that, at each connection: a megabyte of memory.
        """
        if not wanted:
            return _unverified_tls()
        context: ssl.SSLContext = super()._create_ssl_ctx(wanted)  # type: ignore[misc]  # its stubs know nothing of it
        return context

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered)  # type: ignore[misc]
        self._result = None
        result = _Result(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows

    def _arrived(self) -> bytes:
        """What has arrived and is not read, or the next to arrive."""
        try:
            return bytes(self._rfile.peek())
        except OSError as error:
            self._force_close()
            text = f"Lost connection to MySQL server during query ({error})"
            raise OperationalError(CR.CR_SERVER_LOST, text) from None

    def take_packets(self, most: int) -> list[bytes]:
        """Take so many packets, or those of them that have arrived as a whole; an error is not taken."""
        data = self._arrived()
        at, there, number = 0, len(data), self._next_seq_id
        packets: list[bytes] = []
        while len(packets) < most and at + _HEADER_BYTES < there:
            header = int.from_bytes(data[at : at + _HEADER_BYTES], "little")
            begin = at + _HEADER_BYTES
            end = begin + (header & _SIZE)
            if end > there or header >> 24 != number or data[begin] == _ERROR:
                break
            packets.append(data[begin:end])
            number = (number + 1) & 0xFF
            at = end
        if at:
            self._rfile.read(at)
            self._next_seq_id = number
        return packets

    def take_rows(self, converts: Sequence[Convert], rows: list[tuple[Any, ...]]) -> None:
        """Take out of what has arrived all rows up to the first packet that is special, or not there as a whole."""
        data = self._arrived()
        at, there, number = 0, len(data), self._next_seq_id
        while at + _HEADER_BYTES < there:
            header = int.from_bytes(data[at : at + _HEADER_BYTES], "little")
            begin = at + _HEADER_BYTES
            end = begin + (header & _SIZE)
            if end > there or header >> 24 != number or data[begin] >= _SPECIAL_FIRST:
                break
            place = begin
            row: list[Any] = []
            for convert in converts:
                size = data[place]
                place += 1
                if size >= _NULL:
                    if size == _NULL:
                        row.append(None)
                        continue
                    width = 2 if size == _TWO_BYTES else 3 if size == _THREE_BYTES else 8
                    size = int.from_bytes(data[place : place + width], "little")
                    place += width
                after = place + size
                row.append(convert(data[place:after]))
                place = after
            rows.append(tuple(row))
            number = (number + 1) & 0xFF
            at = end
        if at:
            self._rfile.read(at)
            self._next_seq_id = number
