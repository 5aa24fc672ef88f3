"""What content users ask an LCC besides its content: what became of URLs, and what robots.txt of sites say."""

from __future__ import annotations

from typing import NamedTuple

ARRIVING, QUEUED, CACHED, DELETED, UNKNOWN = "arriving", "queued", "cached", "deleted", "unknown"
STATES = (ARRIVING, QUEUED, CACHED, DELETED, UNKNOWN)
"""States of a URL; the first that holds.

- arriving: the set that tells it is on its way to the queue;
- queued: it waits to be fetched, for the first time or again, or is being fetched;
- cached: there is content, and it is not to be fetched now;
- deleted: there was content, or its site has deleted it;
- unknown: none of these.  With an error: it could not be fetched, or was refused.  Without one: nobody has named
  it, or it was dropped as asked, or the error is forgotten.
"""


class AskedUrl(NamedTuple):
    """A URL whose state is asked for.

    :ivar pid: id of its provider.
    :ivar curl: the conceptual URL.
    :ivar set_number: of the notifier's set that tells it; 0: of none.
    """

    pid: int
    curl: str
    set_number: int = 0


class AnsweredUrl(NamedTuple):
    """What became of a URL: of its view that was fetched last, if it has several.

    :ivar state: one of those above.
    :ivar key: of the view, hexadecimal; empty: there is none.
    :ivar mimetype, md5, change, fetched_time, confirmed_time: of the content that is cached, also while it is queued
        again; ``change`` and ``confirmed_time``: of a deletion, too.  Empty or 0: there is none.
    :ivar code: of the last error since then; 0: there was none.  Of a queued one: why it is tried again.
    :ivar error: the same in words.
    :ivar error_time: seconds since 1970.
    """

    pid: int
    curl: str
    state: str
    key: str = ""
    mimetype: str = ""
    md5: str = ""
    change: int = 0
    fetched_time: int = 0
    confirmed_time: int = 0
    code: int = 0
    error: str = ""
    error_time: int = 0


class UnreadRobots(NamedTuple):
    """A site whose robots.txt is not known, or could not be read: nothing that hints name is fetched there for now.

    :ivar origin: ``scheme://host[:port]/``.
    :ivar code: why it could not be read, as of :data:`lcc.errors.ERRORS`; 0: whoever tells of it does not know.
    :ivar checked_time: when that was, seconds since 1970; 0: it was not asked for yet.
    :ivar due_time: when it is asked for again, seconds since 1970.
    """

    origin: str
    code: int
    checked_time: int
    due_time: int


class SiteRobots(NamedTuple):
    """What robots.txt of a site says, as ``is_allowed`` of ``lcc.domain.fetches.robots_rules`` takes it.

    :ivar origin: ``scheme://host[:port]/``.
    :ivar allow: ``rules``: what they say; ``all``; ``none``: nothing, for now; empty: not known yet.
    :ivar rules: its text.
    :ivar checked_time: when this was found out, seconds since 1970; 0: not yet.
    :ivar delay_seconds: that it asks for between fetches; 0: none.
    :ivar providers: root and id of those that have one there, in the order in which they count: a URL is that of the
        first one with a root that it lies in.
    """

    origin: str
    allow: str = ""
    rules: str = ""
    checked_time: int = 0
    delay_seconds: float = 0.0
    providers: tuple[tuple[str, int], ...] = ()
