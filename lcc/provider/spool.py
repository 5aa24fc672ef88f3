"""The temporary file in which ``lcccp`` keeps a stream until it has seen its end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

import attrs

from lcc.numbers import INT64_MAX, parse_number
from lcc.provider.names import is_relative
from lcc.provider.report import Plan
from lcc.provider.stream_format import (
    READ_BYTES,
    EndMark,
    Header,
    StreamFault,
    StreamReader,
    is_deletion,
    named,
    read_elements,
)


@attrs.frozen
class Counts:
    """What matters to the state file.

    :ivar relative: updates whose names stand behind the urlprefix.
    :ivar bare_deletions: deletions without a mime type, which mean all views of their page.
    """

    relative: int = 0
    bare_deletions: int = 0


class Spool:
    """A stream that is complete.

    :ivar plan: what is in it.
    :ivar counts: more of what is in it.
    :ivar header, end: the marks of ``lcccpstate``, which name the state that belongs to it; None: it came otherwise.
    """

    def __init__(
        self, file: IO[bytes], plan: Plan, counts: Counts, header: Header | None = None, end: EndMark | None = None
    ) -> None:
        self._file = file
        self.plan = plan
        self.counts = counts
        self.header = header
        self.end = end

    @property
    def statefile(self) -> Path | None:
        """The state that is brought up to date once this was accepted."""
        return None if self.header is None else self.header.statefile

    @property
    def token(self) -> str:
        """That of its pending state."""
        return "" if self.header is None else self.header.token

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
        elements = deletions = size = relative = bare = 0
        read = getattr(source, "read1", source.read)
        while data := read(READ_BYTES):
            for attributes in reader.receive(data):
                elements += 1
                if is_deletion(attributes):
                    deletions += 1
                    bare += not named(attributes, "m")
                else:
                    size += length_of(attributes)
                    relative += is_relative(named(attributes, "c"))
            file.write(data)
        reader.finish()
        file.flush()
        counts = Counts(relative, bare)
        header = _state_header(reader, full)
        if header is None:
            if full and elements == deletions and not allow_mass_delete:
                raise StreamFault(
                    "an empty full set deletes the whole site",
                    "check that the input covers the whole site; if it is correct, use --allow-mass-delete",
                )
            return Spool(file, Plan(elements, deletions, size, None, full), counts)
        plan = Plan(elements, deletions, size, reader.ends[0].added, header.full)
        return Spool(file, plan, counts, header, reader.ends[0])
    except BaseException:
        file.close()
        raise


def length_of(attributes: Mapping[str, str]) -> int:
    """The length of the content that an element tells, in bytes; 0 where it tells none."""
    try:
        return parse_number(attributes.get("len", ""), INT64_MAX)
    except ValueError:
        return 0


def _state_header(reader: StreamReader, full: bool) -> Header | None:
    """The header of ``lcccpstate``, if the stream came through it."""
    for header in reader.headers:
        if header.tool == "lcccpstate":
            if len(reader.headers) > 1 or len(reader.ends) > 1:
                raise StreamFault(
                    "the output of lcccpstate is mixed with other streams", "merge them before lcccpstate"
                )
            if full and not header.full:
                raise StreamFault("--full would delete everything except these changes", "use lcccpstate --full")
            return header
    return None
