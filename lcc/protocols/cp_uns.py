"""The public conversation between a content provider (CP) and a UNS: what both ends share.

Seed 002, section 13, and design 3.1; for authors of providers: ``doc/protocol.md``.  A conversation is a sequence of
documents on one connection::

    CP   <p:init xmlns:p="http://www.lococa.org/1.0"><provider id="7" passwd="…"/></p:init>
    UNS  <p:init_accepted> … </p:init_accepted>
         or  <p:init_rejected><reason code="CC">text</reason></p:init_rejected>
    CP   <p:set set="full|partial" urlprefix="…"><url …/>*</p:set>
    UNS  <p:set_result><errors><url …>text</url>*</errors><set_accepted received="NN"/></p:set_result>
         or  … <set_rejected code="CC">text</set_rejected>

``p`` is whatever prefix the CP chose, or none where it declared a default namespace; the UNS answers with the same
one and declares nothing.

The UNS's end is :mod:`lcc.protocols.cp_uns_server`, the provider's :mod:`lcc.protocols.cp_uns_client`.  The messages
that they read stand here.  Who gets the last message of a document (:class:`Init`, :class:`SetEnd`;
:class:`InitAccepted`, :class:`InitRejected`) finds the stream waiting, and calls ``stream.next_document()`` when it
wants the peer's next document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

import attrs

from lcc.protocols.fast_elements import Row, Spelling
from lcc.protocols.xmlfeed import FeedLimits
from lcc.protocols.xmltext import escape

URL_TAG = "url"

INIT_LIMITS = FeedLimits(document_bytes=65_536)
"""What the UNS takes before it knows who is there."""

SET_LIMITS = FeedLimits()
"""What the UNS takes of a set, but for its total length: ``attrs.evolve(SET_LIMITS, document_bytes=…)``."""

REPLY_LIMITS = FeedLimits(
    token_bytes=262_144, attribute_count=128, value_chars=65_536, text_chars=16_384, name_count=2_048
)
"""What the CP takes of the UNS: error containers give back what was sent, and escaping makes it longer."""

ERROR_TEXT_CHARS = 1_000
"""An error's text is cut to this length."""


# What a CP says.


@attrs.frozen
class Init:
    """The CP says who it is.  Ends its document.

    :ivar address: of a client of the CP, which speaks for it; only a gateway's counts.
    :ivar pid: 0, which nobody has, where the id is no number: the answer must be that of an unknown provider.
    :ivar prefix: what the answer's elements have to begin with; empty: a default namespace.
    """

    pid: int
    password: str = attrs.field(repr=False)
    prefix: str
    address: str = ""


@attrs.frozen
class SetBegin:
    """The set's start tag.

    :ivar prefix: as in :class:`Init`; that of the answer to this set.
    :ivar deletions: all that it deletes is meant.
    :ivar errors_upto, order: only a gateway's count: errors of earlier fetches up to this number have been read; the
        order number that this set got when it was told before, without an answer.  0: none.
    """

    full: bool
    urlprefix: str
    prefix: str
    deletions: bool = False
    errors_upto: int = 0
    order: int = 0


class UrlElement(NamedTuple):
    """One ``<url>`` of a set, unchecked, the attributes as they were sent and in that order."""

    attributes: dict[str, str]


class FastUrls(NamedTuple):
    """Many ``<url>`` one behind the other, read by a spelling that the feed was told of."""

    spelling: Spelling
    rows: list[Row]


@attrs.frozen
class SetEnd:
    """The set is complete.  Ends its document."""


CpMessage = Init | SetBegin | UrlElement | FastUrls | SetEnd


# What a UNS says.


@attrs.frozen
class UrlFault:
    """An error container: a URL that was refused, or that could not be fetched earlier.

    :ivar url: the resolved fetch URL, as far as it was understood.
    :ivar attributes: the element's attributes as they were sent.
    """

    code: int
    text: str
    url: str
    attributes: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class InitAccepted:
    """All that the UNS tells at the beginning.  Ends its document.

    :ivar connseq: counts the provider's connections.
    :ivar last_ip: where the connection before this one came from; empty: there was none.
    :ivar mimetypes: patterns of what the LCC takes.
    :ivar files_free, space_free_bytes: None: without limit.
    :ivar full_sets_left: unsolicited full sets still allowed; None: without limit.
    :ivar full_set_wanted: the LCC asks for a full set, for this ``full_set_reason``.
    :ivar error_count: of earlier fetches; ``errors`` may hold fewer.
    :ivar processing: URLs that wait to be fetched.
    :ivar errors_upto: the number of the latest of them; 0: a UNS tells it to gateways only.
    :ivar deletions_held: what the last full set did not name is not deleted yet, because it is so much: that many of
        ``deletions_of`` pages.  0: nothing is held.
    """

    connseq: int
    last_ip: str
    mimetypes: tuple[str, ...]
    files_used: int = 0
    files_free: int | None = None
    space_used_bytes: int = 0
    space_free_bytes: int | None = None
    full_sets_left: int | None = None
    full_set_wanted: bool = False
    full_set_reason: str = ""
    error_count: int = 0
    errors: tuple[UrlFault, ...] = ()
    processing: int = 0
    deletions_held: int = 0
    deletions_of: int = 0
    errors_upto: int = 0


@attrs.frozen
class InitRejected:
    """The UNS does not want this CP, now or ever.  Ends its document; the UNS closes."""

    code: int
    text: str


@attrs.frozen
class SetBegun:
    """The set has its order number; a UNS tells it to gateways only."""

    order: int


@attrs.frozen
class SetAccepted:
    """The whole set is on stable storage.  The UNS closes.

    :ivar received: the count of valid elements.
    :ivar blanked_subtypes: how many of them were taken without their subtype, because it was not ``type: value``.
    """

    received: int
    blanked_subtypes: int = 0


@attrs.frozen
class SetRejected:
    """Nothing of the set was taken.  The UNS closes."""

    code: int
    text: str


UnsMessage = InitAccepted | InitRejected | UrlFault | SetBegun | SetAccepted | SetRejected


def write_fault(code: int, url: str, attributes: Iterable[tuple[str, str]], text: str) -> str:
    """An error container: ``<url code="…" url="…" …>text</url>``.

    Of what was sent, attributes called ``code`` or ``url`` are left out (they would stand twice), and so are those
    with a namespace prefix (its declaration is not there).
    """
    parts = [f'<url code="{code}" url="{escape(url)}"']
    for name, value in attributes:
        if name != "code" and name != "url" and ":" not in name:
            parts.append(f' {name}="{escape(value)}"')
    parts.append(f">{escape(text[:ERROR_TEXT_CHARS])}</url>\n")
    return "".join(parts)


def unpack_sent(sent: str) -> list[tuple[str, str]]:
    """The attributes that :attr:`lcc.model.StoredError.sent` says.

    None at all where it is damaged: an error without them is better than no error.
    """
    try:
        flat = json.loads(sent) if sent else []
    except ValueError:
        return []
    if not isinstance(flat, list) or len(flat) % 2 or not all(isinstance(text, str) for text in flat):
        return []
    return list(zip(flat[::2], flat[1::2], strict=True))
