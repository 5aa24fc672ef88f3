"""Rows of an answer as bytes: JSON lines, XML, CSV.

Each format has an end mark, so that an answer that was cut off is not taken for a complete one; in an answer about
changes the mark carries the token to come back with.  In JSON lines it is the last line, an object with ``next``
(null if the question was not about changes); in XML the element ``<end/>`` and the document's end; in CSV the last
line, which begins with ``#end``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from lcc.insight.records import FIELDS
from lcc.protocols.xmlfeed import NAMESPACE
from lcc.protocols.xmltext import escape

Record = dict[str, Any]


class Format(Protocol):
    """Makes bytes of an answer.  Keeps nothing from one call to the next, so it may be used by several threads.

    :ivar media_type: what it makes, for HTTP.
    """

    media_type: str

    def head(self) -> bytes:
        """What stands before the first row."""

    def rows(self, records: Iterable[Record]) -> bytes:
        """Some rows."""

    def end(self, token: str | None, missing: Sequence[str] = ()) -> bytes:
        """The end mark; the token to come back with, or None.

        :param missing: names of sub-LCCs whose rows are not in the answer.
        """


class JsonLines:
    """One JSON object a line."""

    media_type = "application/x-ndjson"

    def __init__(self) -> None:
        # Made once: json.dumps with options makes an encoder for each call.
        self._encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode

    def head(self) -> bytes:
        return b""

    def rows(self, records: Iterable[Record]) -> bytes:
        lines = [*map(self._encode, records), ""]
        # A lone surrogate, which only a database that others wrote to can hold, must not end the answer.
        return "\n".join(lines).encode("utf-8", "replace")

    def end(self, token: str | None, missing: Sequence[str] = ()) -> bytes:
        mark = {"next": token, "missing": list(missing)} if missing else {"next": token}
        return self._encode(mark).encode("ascii") + b"\n"


class Xml:
    """One element ``<url/>`` a row, in the LCC's namespace; what is not known is left out."""

    media_type = "application/xml"

    def head(self) -> bytes:
        return f'<?xml version="1.0" encoding="UTF-8"?>\n<lcc:urls xmlns:lcc="{NAMESPACE}">\n'.encode()

    def rows(self, records: Iterable[Record]) -> bytes:
        lines = [f"<url{row_attributes(record)}/>\n" for record in records]
        return "".join(lines).encode("utf-8", "replace")

    def end(self, token: str | None, missing: Sequence[str] = ()) -> bytes:
        mark = {"next": token, "missing": " ".join(missing) or None}
        return f"<end{row_attributes(mark)}/>\n</lcc:urls>\n".encode()


class Csv:
    """RFC 4180, with a line of names first; what is not known is empty."""

    media_type = "text/csv"

    def head(self) -> bytes:
        return (",".join(FIELDS) + "\r\n").encode()

    def rows(self, records: Iterable[Record]) -> bytes:
        text = io.StringIO()
        csv.writer(text).writerows([record[name] for name in FIELDS] for record in records)
        return text.getvalue().encode("utf-8", "replace")

    def end(self, token: str | None, missing: Sequence[str] = ()) -> bytes:
        names = f",{' '.join(missing)}" if missing else ""
        return f"#end,{token or ''}{names}\r\n".encode()


class Nothing:
    """No bytes, for who makes something else of the rows."""

    media_type = ""

    def head(self) -> bytes:
        return b""

    def rows(self, records: Iterable[Record]) -> bytes:
        return b""

    def end(self, token: str | None, missing: Sequence[str] = ()) -> bytes:
        return b""


def row_attributes(record: Record) -> str:
    """The fields as they stand in an XML start tag, each with a space before it; None is left out."""
    # Most values need no escaping; asking for that first costs half as much.
    return "".join(
        [
            f' {name}="{value}"' if type(value) is int or _needs_no_escape(value) else f' {name}="{escape(value)}"'
            for name, value in record.items()
            if value is not None
        ]
    )


def _needs_no_escape(text: str) -> bool:
    return text.isprintable() and "&" not in text and "<" not in text and '"' not in text


FORMATS: dict[str, Format] = {"jsonl": JsonLines(), "xml": Xml(), "csv": Csv()}
"""Name -> format."""
