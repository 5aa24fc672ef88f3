"""Sets and their elements, on the way from the UNS into the queue."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

import attrs

from lcc.model.notifiers import NoticeId
from lcc.model.sources import Source

KEY_BYTES = 20
"""A URL's key: provider id (4 bytes, big-endian), 12 bytes of a hash of the normalised conceptual URL, 4 bytes of a
hash of the normalised mime type; the last four are zero where a deletion names no mime type ("all views")."""

ANY_TYPE = "*/*"
"""The mime type of a notice that says none: the response's decides."""


class UrlNotice(NamedTuple):
    """One valid ``<url>`` element, checked and resolved by the UNS.

    :ivar curl: the conceptual URL, normalised.
    :ivar furl: the fetch URL, normalised; empty: the same as ``curl``.
    :ivar burl: the browse URL, resolved; empty: the same as ``curl``; ``-``: not browsable.
    :ivar mimetype: normalised, lower case, without parameters; :data:`ANY_TYPE`: not told; empty only in a deletion
        of all views.
    :ivar md5: 32 lower-case hexadecimal digits, or empty.
    :ivar length: bytes told, or None.
    :ivar mtime: seconds since 1970 told, or None.
    :ivar hours: as text, checked; or empty.
    :ivar delete: the content is to be deleted.
    :ivar ifabsent: fetch only what the cache does not have.
    :ivar named_only: the element was refused, but counts as named in a full set; nothing else is to be done.
    :ivar sent: the attributes as sent, a JSON list ``[name, value, …]``.
    :ivar retract: the set's source names it no longer.  What nobody names any longer is deleted.
    :ivar recheck: what is cached is asked for again, by a conditional fetch.
    """

    curl: str
    furl: str = ""
    burl: str = ""
    mimetype: str = ""
    subtype: str = ""
    md5: str = ""
    length: int | None = None
    mtime: int | None = None
    hours: str = ""
    delete: bool = False
    ifabsent: bool = False
    named_only: bool = False
    sent: str = ""
    retract: bool = False
    recheck: bool = False

    def lies_within(self, prefixes: tuple[str, ...]) -> bool:
        """Whether the conceptual and the fetch URL each begin with one of these."""
        return self.curl.startswith(prefixes) and (not self.furl or self.furl.startswith(prefixes))


DESCRIPTION = ("hours", "burl", "subtype")
"""Fields of a notice that describe content without naming it: they may change while the content is unchanged.  All
but the first one are shown to content users."""

description_of: Callable[[UrlNotice], tuple[str, ...]] = itemgetter(*map(UrlNotice._fields.index, DESCRIPTION))
"""The values of these fields."""


@attrs.frozen
class SetHeader:
    """What is known of a set besides its elements.

    :ivar uns, epoch, number: the set's unique id: the UNS's name, the epoch of its spool, and a number that grows
        within the epoch.  A UNS delivers the numbers of an epoch in order.
    :ivar connseq: its order number: the provider's sets are ordered by it.  Sets of one session may have the same.
        0: none, because it is not the site's own word.
    :ivar full: everything the provider has (a full set), not only changes.
    :ivar errors_upto: stored errors up to this number were shown in the set's session.
    :ivar answered: the provider has already been told that it is accepted: it can no longer be refused.
    :ivar time: when it was complete.
    :ivar wantid: the request for a full set that its provider was told of when it connected; 0: none.
    :ivar deletions: its provider means what is deleted by it, however much that is.
    :ivar source: whose word it is: one bit.
    :ivar said: a notifier's own id of it; None: it is a provider's.
    """

    uns: str
    epoch: str
    number: int
    pid: int
    connseq: int
    full: bool
    errors_upto: int
    answered: bool
    time: int
    wantid: int = 0
    deletions: bool = False
    source: Source = Source.TOLD
    said: NoticeId | None = None

    @property
    def is_unsolicited(self) -> bool:
        """A full set that was not asked for."""
        return self.full and not self.wantid


class KeyedNotice(NamedTuple):
    """A notice with its 20-byte key (:data:`KEY_BYTES`)."""

    key: bytes
    notice: UrlNotice


@attrs.frozen
class SetPiece:
    """A run of elements of one set, in order.

    :ivar first_index: how many elements of the set came before.
    :ivar last: the set ends with this piece.
    """

    header: SetHeader
    first_index: int
    notices: tuple[KeyedNotice, ...]
    last: bool


@attrs.frozen
class SetAnswer:
    """The queue's answer to a whole set.

    :ivar code: 0: absorbed, durable; else an 11xx code: refused, nothing was changed.
    """

    epoch: str
    number: int
    code: int
    text: str = ""


class UnsStanding(Enum):
    """How a UNS's memory and the database go together."""

    FINE = "fine"
    """The database knows of every set that was answered."""
    DATABASE_BEHIND = "database behind"
    """A set was answered that the database does not know: it was lost, or put back from a backup."""
    SPOOL_BEHIND = "spool behind"
    """The UNS would give numbers again that the database knows: its spool was put back from a backup."""
