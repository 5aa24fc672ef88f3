"""What the cache holds, and what a told element comes to there."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import attrs

from lcc.model.sets import DESCRIPTION, UrlNotice
from lcc.model.sources import COUNTED, Standing


@attrs.frozen
class CachedUrl:
    """A row of ``lccurl``, as a content user sees it.

    :ivar change: the number of its last change; 0: none yet.
    :ivar state: ``cached`` or ``deleted`` (a tombstone).
    :ivar source: mask of all that name it (a tombstone: whose word that is); maybe with a bit of the table's own.
    :ivar md5, length, mtime: of the fetched content (``mtime``: the server's Last-Modified, else the time told).
    :ivar fetched_url: where the content was fetched from, after redirects; None: from the fetch URL itself.
    :ivar change_time: of its last change, seconds since 1970: never before that of a change with a lower number;
        0: it was not noted then.
    """

    key: bytes
    pid: int
    curl: str
    furl: str
    burl: str
    mimetype: str
    subtype: str
    md5: str
    length: int | None
    mtime: int | None
    fetched_time: int | None
    fetched_machineid: int | None
    fetched_fileid: int | None
    change: int
    state: str
    status: int = 0
    charset: str = ""
    etag: str = ""
    headers: str = ""
    confirmed_time: int | None = None
    source: int = 1
    fetched_url: str | None = None
    change_time: int = 0


class ContentRow(NamedTuple):
    """A row of the cache, as the file that holds its content must be.

    :ivar md5: 32 lower-case hexadecimal digits.
    """

    file: int
    key: bytes
    size_bytes: int
    md5: str


class CachedState(NamedTuple):
    """What the rules have to know of a cache row.

    :ivar cached: there is content; False: a tombstone.
    :ivar told_md5, told_length, told_mtime: as the provider told last.
    :ivar md5, length, mtime: of the content.
    :ivar furl: as told last.
    :ivar description: as told last (:data:`lcc.model.sets.DESCRIPTION`).
    :ivar source, words: with ``connseq``: :class:`lcc.model.sources.Standing`.
    """

    cached: bool
    connseq: int
    told_md5: str
    told_length: int | None
    told_mtime: int | None
    md5: str
    length: int | None
    mtime: int | None
    furl: str = ""
    description: tuple[str, ...] = ("",) * len(DESCRIPTION)
    source: int = 1
    words: str = ""

    @property
    def counted(self) -> bool:
        """Whether there is content of one of the provider's pages: it is not only polled."""
        return self.cached and self.source & COUNTED != 0

    @property
    def shown(self) -> tuple[str, ...]:
        """What content users see of the description."""
        return self.description[1:]


class Action(Enum):
    """What to do about a notice.  All but OLDER set the marker of a full set on the rows that are there."""

    OLDER = "older"
    """Nothing at all: something newer is known of this URL."""
    NAMED = "named"
    """Nothing but the marker: the element was refused, it only counts as named."""
    KNOWN = "known"
    """Nothing has to be fetched: remember only that this operation was the last."""
    CONFIRM = "confirm"
    """The content is what the provider has: as KNOWN, and confirmed now."""
    UPDATE = "update"
    """As CONFIRM; the browse URL, subtype or hours are other ones than before, and are recorded."""
    FETCH = "fetch"
    """Queue it; if it is queued, the row keeps its place and gets the new notice."""
    AGAIN = "again"
    """Fetch it again as what it is known as: its row in the queue stays as it is, or gets what the cache has."""
    WITHDRAW = "withdraw"
    """It is only polled from now on: to content users it is deleted, but content and queue row stay."""
    DELETE = "delete"
    """The content goes, a queue row does "nothing", a tombstone stays."""


class Decision(NamedTuple):
    """What to do about a notice where more than the provider's own sets have a say.

    :ivar standing: of the URL from now on.
    :ivar notice: what is queued, by FETCH and AGAIN.
    """

    action: Action
    standing: Standing
    notice: UrlNotice


class Outcome(Enum):
    """What to do about the result of a fetch."""

    STORE = "store"
    """The content goes into the cache, the row is done."""
    STORE_AGAIN = "store again"
    """The content goes into the cache, with nothing told of it; the row stays queued."""
    DISCARD = "discard"
    """The content is not wanted; a row that does "nothing" is done."""
    AGAIN = "again"
    """Failed, but the row has changed since; or it was not tried: it stays queued."""
    RETRY = "retry"
    """The row goes to the end of its set, and waits for a while."""
    HOLD = "hold"
    """The row goes to the end of its set; the provider waits."""
    KEEP = "keep"
    """An error for the provider; the row is done, older content stays."""
    DELETE = "delete"
    """An error for the provider; the row is done, older content goes."""
