"""The wire between a notifier (scheduler, push server, spider) and a UNS.

The notifier connects.  Each end opens one root element, ``<lcc:stream>``, whose attributes are its hello, and then
sends flat messages for as long as the connection lives::

    UNS       <window …/>                       once: how much may be on its way
    notifier  <set …/> <url …/>* <end …/>  …    partial sets of any providers, pipelined, with growing numbers
    UNS       <fault …/>                        at once, for each element that is refused
    UNS       <accepted …/> <rejected …/>       for all sets, in the order in which they came
    UNS       <hold …/>                         whether it takes sets for now
    notifier  <again/>                          the sets without an answer follow once more

    notifier  <watch …/>                        a provider for this root, found or made
    UNS       <watched …/>
    notifier  <draw …/>                         an order number, for an asking that begins now
    UNS       <drawn …/>

There are no passwords: the role in the hello, which the certificate or the socket vouches for, says what a notifier
may say (:data:`lcc.model.notifiers.MAY_SAY`).

A set is known by the notifier's role and name, the epoch in its hello, and its number.  What has no answer is sent
again on the next connection, and is applied once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from lcc.errors import StreamError
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello, Ping
from lcc.protocols.xmltext import attributes as written

URL_TAG = "url"
NAME_CHARS = 40
"""The longest name of a notifier, and the longest epoch."""
_is_name = re.compile(rf"[A-Za-z0-9._@-]{{1,{NAME_CHARS}}}").fullmatch


# What a notifier says.


@attrs.frozen
class SetBegin(Flat):
    """A set begins.  Its elements are ``<url>``, with the attributes of the CP/UNS protocol.

    :ivar number: higher than all that were sent on this connection since ``<again/>``.
    :ivar source: the name of one source.
    :ivar order: order number of the asking, from ``<drawn>``; 0: none (a hint, a poll).
    :ivar full: refused: a full set takes away what is told, and nothing else.
    :ivar gaps: only a front end says it: there are sets between this one and the one before on this connection.  They
        went to other sub-LCCs, and may come here yet.
    """

    TAG = "set"
    number: int
    pid: int
    source: str
    order: int = 0
    full: bool = False
    gaps: bool = False


@attrs.frozen
class SetEnd(Flat):
    """The set is complete.

    :ivar count: how many ``<url>`` it had.
    """

    TAG = "end"
    count: int


@attrs.frozen
class Again(Flat):
    """Answers ``<hold hold="no"/>``: all sets that have no answer follow once more, from the oldest on."""

    TAG = "again"


@attrs.frozen
class Watch(Flat):
    """Asks for the provider that has this root; it is made if there is none.

    :ivar id: chosen by the notifier; it comes back with the answer.
    :ivar crawl_delay_ms: the root is a whole host, whose robots.txt asks for so much time between fetches (0: for
        none): the interval of what is watched there.  None: that is not known.
    :ivar hours: in which it wants to be visited, in UTC and slots of the LCC; empty: any.  With ``crawl_delay_ms``.
    :ivar private: an operator has said that the site may be on a private address: for spiders only.
    """

    TAG = "watch"
    id: int
    root: str
    crawl_delay_ms: int | None = None
    private: bool = False
    hours: str = ""


@attrs.frozen
class Draw(Flat):
    """Asks for the order number of an asking that begins now.

    :ivar held: the number that this notifier drew last for the provider, on this connection, for an asking that is
        over: it is given again if nobody has drawn one since, and no set with it waits here.  0: none.
    """

    TAG = "draw"
    id: int
    pid: int
    held: int = 0


# What the UNS says.


@attrs.frozen
class Window(Flat):
    """What a notifier may send.

    :ivar sets: sets without an answer, at most.
    :ivar bytes: of them together, as they are on the wire; a single set may always be sent.
    :ivar set_urls: elements of one set.
    :ivar set_bytes: of one set.
    """

    TAG = "window"
    sets: int
    bytes: int
    set_urls: int
    set_bytes: int


@attrs.frozen
class Hold(Flat):
    """Whether sets are not taken for now: what comes before ``<again/>`` is thrown away.

    :ivar text: why, for people.
    """

    TAG = "hold"
    hold: bool
    text: str = ""


@attrs.frozen
class Fault(Flat):
    """An element is refused.

    :ivar index: which one of the set, from 1.
    :ivar code: 12xx.
    :ivar url: the resolved fetch URL as far as it is known.
    """

    TAG = "fault"
    number: int
    index: int
    code: int
    text: str = ""
    url: str = ""


@attrs.frozen
class Accepted(Flat):
    """All sets up to this number that have no answer yet are accepted: on stable storage."""

    TAG = "accepted"
    upto: int


@attrs.frozen
class Rejected(Flat):
    """The set without an answer that came first is rejected: nothing was changed, and to say it again is no use."""

    TAG = "rejected"
    number: int
    code: int
    text: str = ""


@attrs.frozen
class Watched(Flat):
    """The provider of a root.

    :ivar code: 0; else why there is none.
    """

    TAG = "watched"
    id: int
    pid: int = 0
    code: int = 0
    text: str = ""


@attrs.frozen
class Drawn(Flat):
    """An order number.

    :ivar code: 0; else why there is none.
    """

    TAG = "drawn"
    id: int
    order: int = 0
    code: int = 0
    text: str = ""


FROM_NOTIFIER = Vocabulary(SetBegin, SetEnd, Again, Watch, Draw, Ping)
"""All but ``<url>``."""
FROM_PORT = Vocabulary(Window, Hold, Fault, Accepted, Rejected, Watched, Drawn, Ping)


def write_url(attributes: Mapping[str, str]) -> str:
    """The ``<url>`` element with these attributes."""
    return f"<{URL_TAG}{written(dict(attributes))}/>"


def check_notifier_hello(hello: Hello) -> None:
    """What a notifier says of itself becomes part of its sets' ids.

    :raises StreamError: its name or epoch is missing, too long, or has other characters than A-Z a-z 0-9 . _ @ -
    """
    for what, text in (("name", hello.name), ("epoch", hello.epoch)):
        if not _is_name(text):
            raise StreamError(
                "limit",
                f"the hello of a notifier with {what}={text[:80]!r}: 1 to {NAME_CHARS} of A-Z a-z 0-9 . _ @ -",
            )
