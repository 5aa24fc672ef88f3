"""The temporary file in which ``lcccp`` keeps a stream until it has seen its end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from lcc.model.numbers import INT64_MAX, parse_number
from lcc.provider.report import Plan
from lcc.provider.stream_format import (
    READ_BYTES,
    Header,
    StreamFault,
    StreamReader,
    is_deletion,
    read_elements,
)


class Spool:
    """A stream that is complete.

    :ivar plan: what is in it.
    :ivar statefile, token: the state that belongs to it, as ``lcccpstate`` named it; None and '': there is none.
    """

    def __init__(self, file: IO[bytes], plan: Plan, statefile: Path | None, token: str) -> None:
        self._file = file
        self.plan = plan
        self.statefile = statefile
        self.token = token

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _traceback: TracebackType | None) -> None:
        self._file.close()

    def elements(self) -> Iterator[dict[str, str]]:
        """All elements, from the first one on; may be asked again."""
        self._file.seek(0)
        return read_elements(self._file, StreamReader(require_end=False))


def spool_stream(source: IO[bytes], full: bool, allow_mass_delete: bool, require_end: bool) -> Spool:
    """Read a stream to its end.

    :param full: the user wants it sent as a full set.
    :param allow_mass_delete: even if it is empty.
    :raises StreamFault: it is not complete, or not fit to be sent in this way.
    :raises OSError: there is no room for it.
    """
    file = tempfile.TemporaryFile(prefix="lcccp-")  # noqa: SIM115  (closed by the Spool)
    try:
        reader = StreamReader(require_end)
        elements = deletions = size = 0
        read = getattr(source, "read1", source.read)
        while data := read(READ_BYTES):
            for attributes in reader.receive(data):
                elements += 1
                if is_deletion(attributes):
                    deletions += 1
                else:
                    size += _length(attributes.get("len", ""))
            file.write(data)
        reader.finish()
        file.flush()
        header = _state_header(reader, full)
        if header is None:
            if full and elements == deletions and not allow_mass_delete:
                raise StreamFault(
                    "an empty full set deletes the whole site",
                    "see that all of the site was named; if that is right, use --allow-mass-delete",
                )
            return Spool(file, Plan(elements, deletions, size, None, full), None, "")
        plan = Plan(elements, deletions, size, reader.ends[0].added, header.full)
        return Spool(file, plan, header.statefile, header.token)
    except BaseException:
        file.close()
        raise


def _length(text: str) -> int:
    try:
        return parse_number(text, INT64_MAX)
    except ValueError:
        return 0


def _state_header(reader: StreamReader, full: bool) -> Header | None:
    """The header of ``lcccpstate``, if the stream came through it."""
    for header in reader.headers:
        if header.tool == "lcccpstate":
            if len(reader.headers) > 1 or len(reader.ends) > 1:
                raise StreamFault("the output of lcccpstate is joined with other streams", "join them before it")
            if full and not header.full:
                raise StreamFault(
                    "--full with only the changes of a site would delete the rest", "use lcccpstate --full"
                )
            return header
    return None
