"""What an absorber collects: the set that is arriving, and what takes a set's place when it cannot be absorbed."""

from __future__ import annotations

from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from sys import getsizeof

import attrs

from lcc.domain.keys import url_key, url_keys
from lcc.errors import StreamError
from lcc.model import KeyedNotice, SetHeader, Source, UrlNotice, parse_source, source_text
from lcc.model.notifiers import NoticeId
from lcc.protocols.fast_elements import Row, Spelling
from lcc.protocols.uns_qm import Set, read_notice, read_notices

_ELEMENT_BYTES = 900
"""What an element takes besides its texts."""
_ASCII_BYTES = getsizeof("")
_keyed = partial(tuple.__new__, KeyedNotice)
_url_and_type = itemgetter(UrlNotice._fields.index("curl"), UrlNotice._fields.index("mimetype"))
_texts = attrgetter("curl", *(name for name, default in UrlNotice._field_defaults.items() if default == ""))


@attrs.define(eq=False)
class OpenSet:
    """The set that is arriving.

    :ivar notices: elements that are not cut off yet.
    :ivar notices_bytes: what they take in memory, about.
    :ivar count: elements that have arrived.
    :ivar first: index of the first element in ``notices``.
    :ivar fault: why the set is refused; empty: it is not.
    """

    header: SetHeader
    notices: list[KeyedNotice] = attrs.field(factory=list)
    notices_bytes: int = 0
    count: int = 0
    first: int = 0
    fault: str = ""

    def take(self, attributes: dict[str, str]) -> None:
        """Its next element."""
        self.count += 1
        if self.fault:
            return
        try:
            notice = read_notice(attributes)
        except StreamError as error:
            self.fault = f"element {self.count}: {error.text}"
            return
        self.notices.append(KeyedNotice(url_key(self.header.pid, notice.curl, notice.mimetype), notice))
        # One text of all: one look at its size, and at how many bytes each of its characters takes.
        self.notices_bytes += _ELEMENT_BYTES + getsizeof("".join(_texts(notice)))

    def take_run(self, spelling: Spelling, rows: list[Row]) -> None:
        """Its next elements: as :meth:`take` for each, at once."""
        self.count += len(rows)
        if self.fault:
            return
        notices = read_notices(spelling, rows)
        keys = url_keys(self.header.pid, map(_url_and_type, notices))
        self.notices += map(_keyed, zip(keys, notices, strict=True))
        # Plain values are ASCII: as many bytes as characters.
        self.notices_bytes += (_ELEMENT_BYTES + _ASCII_BYTES) * len(rows) + len("".join(chain.from_iterable(rows)))

    def cut(self) -> tuple[tuple[KeyedNotice, ...], int]:
        """Take out what was not cut off yet: the elements, and what they take in memory."""
        cut = tuple(self.notices), self.notices_bytes
        self.notices.clear()
        self.notices_bytes = 0
        return cut


def open_set(uns: str, message: Set) -> OpenSet:
    """A set of this UNS begins."""
    try:
        source, fault = parse_source(message.source), ""
    except ValueError as error:
        source, fault = Source.TOLD, str(error)
    header = SetHeader(
        uns,
        message.epoch,
        message.number,
        message.pid,
        message.connseq,
        message.full,
        message.errors_upto,
        message.answered,
        message.time,
        message.wantid,
        message.deletions,
        source,
        NoticeId(message.notifier, message.said_epoch, message.said, message.said_after)
        if message.notifier
        else None,
    )
    opened = OpenSet(header, fault=fault)
    if message.full and source is not Source.TOLD:
        opened.fault = f"a full set that is {source_text(source)}: only told ones are full"
    if not message.pid:
        opened.fault = f"{message.pid} is no provider id"
    return opened


@attrs.frozen
class Refusal:
    """Takes a piece's place: the set is refused here, in its turn."""

    header: SetHeader
    text: str


@attrs.frozen
class LostSet:
    """A set of this provider was lost before it came here; 0: nobody knows whose.

    :ivar number: of the message about it; 0: none.
    """

    pid: int
    number: int
