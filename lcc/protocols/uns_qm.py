"""The wire between a UNS and the queue manager.

The UNS connects.  Each end opens one root element, ``<lcc:stream>``, whose attributes are its hello, and then
sends flat messages for as long as the connection lives::

    UNS  <set …/> <u …/>* <end …/>  <set …/> …        sets in order of their numbers, pipelined
    QM   <absorbed …/>                                one for each set, in the same order

    UNS  <paused …/>                                  whether an operator has it take no sets
    UNS  <damage …/>                                  between sets: a set of this provider is lost
    QM   <noted …/>                                   the provider is asked for a full set
    QM   <newepoch …/>                                in place of everything else: begin a new epoch, then come again

``<u>`` is written by the UNS into its spool in exactly this form, so that passing a set on is copying bytes.
"""

from __future__ import annotations

from itertools import chain

import attrs

from lcc.errors import StreamError
from lcc.model import UrlNotice
from lcc.protocols.fast_elements import FastAttribute, Row, Spelling
from lcc.protocols.flat import Flat, Vocabulary, read_number
from lcc.protocols.xmltext import escape, escape_json


@attrs.frozen
class Set(Flat):
    """A set begins.  The fields are those of :class:`lcc.model.SetHeader`, but for the UNS's name (in its hello).

    :ivar source: the name of its one source (:func:`lcc.model.parse_source`).
    :ivar notifier, said_epoch, said, said_after: who said it to the UNS, and with which id
        (:class:`lcc.model.notifiers.NoticeId`); empty: a provider.
    """

    TAG = "set"
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
    source: str = "told"
    notifier: str = ""
    said_epoch: str = ""
    said: int = 0
    said_after: int = 0


@attrs.frozen
class EndSet(Flat):
    """The set is complete.

    :ivar count: how many ``<u>`` it had; anything else is a damaged spool.
    """

    TAG = "end"
    count: int


@attrs.frozen
class Absorbed(Flat):
    """The set is on stable storage in the queue (code 0), or refused as a whole (11xx)."""

    TAG = "absorbed"
    epoch: str
    number: int
    code: int
    text: str = ""


@attrs.frozen
class Damage(Flat):
    """A set that its provider was told is accepted is lost.  Said again on each connection until it is noted.

    :ivar pid: 0: it is not known whose.
    :ivar number: the number of this message, as if it were a set, so that both ends remember that it was answered: a
        database that is put back from a backup has forgotten it.  0: none could be given out.
    """

    TAG = "damage"
    pid: int
    number: int = 0


@attrs.frozen
class Paused(Flat):
    """Whether an operator has this UNS take no sets from providers.  Said when it changes, and on each connection if
    it is so."""

    TAG = "paused"
    paused: bool


@attrs.frozen
class Noted(Flat):
    """The provider of this ``<damage>`` is asked for a full set from now on; on stable storage."""

    TAG = "noted"
    pid: int
    number: int = 0


@attrs.frozen
class NewEpoch(Flat):
    """The UNS's numbers have gone back in time: it must not give any out in this epoch again."""

    TAG = "newepoch"
    epoch: str


@attrs.frozen
class Ping(Flat):
    """Says only that the peer is alive."""

    TAG = "ping"


FROM_UNS = Vocabulary(Set, EndSet, Damage, Paused, Ping)
"""All but ``<u>``, which :func:`read_notice` reads."""
FROM_QM = Vocabulary(Absorbed, Noted, NewEpoch, Ping)

NOTICE_TAG = "u"

# Printable ASCII that stands in a value as it is meant: all but & < > and the quotes; at most 22,200 characters.
_TEXT = "[ -%(-;=?-~]{0,2000}+(?:&amp;[ -%(-;=?-~]{0,500}+){0,40}+"
_NAME = "[ !#-%(-;=?-~]{0,2000}+(?:&amp;[ !#-%(-;=?-~]{0,500}+){0,40}+"
_NUMBER = r"-?[0-9]{1,18}"
_URL_AND_TYPE = [FastAttribute("c", _NAME), FastAttribute("m", _NAME)]
_SENT = FastAttribute("a", _TEXT, "'")
_USUAL = Spelling(
    NOTICE_TAG,
    [*_URL_AND_TYPE, FastAttribute("d", _NAME), FastAttribute("l", _NUMBER), FastAttribute("t", _NUMBER), _SENT],
)
_SHORT = Spelling(NOTICE_TAG, [*_URL_AND_TYPE, _SENT])
NOTICE_SPELLINGS = (_USUAL, _SHORT)
"""The spelling of most notices by :func:`write_notice` (:mod:`lcc.protocols.fast_elements`); see
:func:`read_notices`."""


def write_notice(notice: UrlNotice) -> str:
    """The ``<u>`` element of a notice; only what is not the default stands in it."""
    curl, furl, burl, mimetype, subtype, md5, length, mtime, hours, delete, ifabsent, named, sent, *asked = notice
    retract, recheck = asked
    text = f'<u c="{escape(curl)}"'
    if mimetype:
        text += f' m="{escape(mimetype)}"'
    if furl:
        text += f' f="{escape(furl)}"'
    if burl:
        text += f' b="{escape(burl)}"'
    if subtype:
        text += f' s="{escape(subtype)}"'
    if md5:
        text += f' d="{md5}"'
    if length is not None:
        text += f' l="{length}"'
    if mtime is not None:
        text += f' t="{mtime}"'
    if hours:
        text += f' h="{escape(hours)}"'
    if delete or ifabsent or named or retract or recheck:
        # A queue manager that knows neither of the last two takes them as named only: it does nothing.
        options = ("d" if delete else "") + ("i" if ifabsent else "") + ("n" if named else "")
        text += f' o="{options}{"nr" if retract else ""}{"nc" if recheck else ""}"'
    if sent:
        text += f" a='{escape_json(sent)}'"
    return text + "/>"


def read_notices(spelling: Spelling, rows: list[Row]) -> list[UrlNotice]:
    """The notices that fast-path elements say: what :func:`read_notice` gives for each of them.

    :param spelling: one of :data:`NOTICE_SPELLINGS`.
    """
    if "&" in "".join(chain.from_iterable(rows)):
        return [read_notice(spelling.attributes(row)) for row in rows]
    make = UrlNotice._make
    if spelling is _SHORT:
        return [
            make((c, "", "", m, "", "", None, None, "", False, False, False, a, False, False)) for c, m, a, _ in rows
        ]
    return [
        make((c, "", "", m, "", d, int(length), int(time), "", False, False, False, a, False, False))
        for c, m, d, length, time, a, _ in rows
    ]


def read_notice(attributes: dict[str, str]) -> UrlNotice:
    """The notice that a ``<u>`` element says.

    :raises StreamError: the element was not written by :func:`write_notice`.
    """
    get = attributes.get
    try:
        length, mtime, options = get("l"), get("t"), get("o", "")
        return UrlNotice(
            attributes["c"],
            get("f", ""),
            get("b", ""),
            get("m", ""),
            get("s", ""),
            get("d", ""),
            None if length is None else read_number(length),
            None if mtime is None else read_number(mtime),
            get("h", ""),
            "d" in options,
            "i" in options,
            "n" in options and "r" not in options and "c" not in options,
            get("a", ""),
            "r" in options,
            "c" in options,
        )
    except (KeyError, ValueError) as error:
        raise StreamError("syntax", f"invalid <u>: {str(error)[:80]}") from None
