"""What the pieces of an answer look like (:class:`lcc.roles.cu.formats.Format`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcc.protocols.cu import answer_end, answer_open
from lcc.roles.cu.formats import Record, row_attributes

_MEDIA_TYPE = "application/xml"


class Rows:
    """Rows without content: all of the answer.

    :param prefix: of the answer's root.
    """

    media_type = _MEDIA_TYPE

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def head(self) -> bytes:
        return answer_open(self._prefix).encode()

    def rows(self, records: Iterable[Record]) -> bytes:
        return "".join([f"<url{row_attributes(record)}/>\n" for record in records]).encode("utf-8", "replace")

    def end(self, token: str | None, missing: Sequence[str] = ()) -> bytes:
        return answer_end(self._prefix, token, missing).encode()


class Frame:
    """Only the answer's end: its head and the rows, which get their content, are written by somebody else."""

    media_type = _MEDIA_TYPE

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def head(self) -> bytes:
        return b""

    def rows(self, records: Iterable[Record]) -> bytes:
        return b""

    def end(self, token: str | None, missing: Sequence[str] = ()) -> bytes:
        return answer_end(self._prefix, token, missing).encode()
