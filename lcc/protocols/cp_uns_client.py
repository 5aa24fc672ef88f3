"""The provider's end of the CP/UNS conversation: writes what a provider says, reads the answers.

The answers carry no namespace declaration, so the feed has to know the prefix: use :func:`reply_feed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lcc.errors import StreamError
from lcc.numbers import INT64_MAX, parse_number
from lcc.protocols.cp_uns import (
    REPLY_LIMITS,
    InitAccepted,
    InitRejected,
    SetAccepted,
    SetBegun,
    SetRejected,
    UnsMessage,
    UrlFault,
)
from lcc.protocols.xmlfeed import NAMESPACE, End, Event, Start, XmlFeed
from lcc.protocols.xmltext import attributes as write_attributes
from lcc.protocols.xmltext import escape, unspeakable

PREFIX = "lococa"
"""The prefix of the seed, used unless another is asked for."""


LISTED_MAX = 10_000
"""Mime types and earlier errors beyond this many are passed over: the UNS decides how many it sends."""

_USUAL = frozenset({"c", "f", "b", "m", "s", "md5", "len", "mtime", "op", "hours", "browse", "ifabsent", "outside"})
_is_name = re.compile(r"""[^\s"'<>&/=\x00-\x1f]+""").fullmatch


def _spoken(what: str, text: str) -> str:
    character = unspeakable(text)
    if character:
        raise ValueError(f"{what}: {character} cannot be told: XML does not carry it")
    return escape(text)


def init(pid: int, password: str, prefix: str = PREFIX, address: str = "") -> str:
    """The whole ``<init>``.

    :param prefix: '' for a default namespace.
    :param address: whom a gateway speaks for.
    :raises ValueError: as :func:`url_element`.
    """
    root, declaration = (f"{prefix}:init", f"xmlns:{prefix}") if prefix else ("init", "xmlns")
    client = f' address="{_spoken("the address", address)}"' if address else ""
    provider = f'<provider id="{pid}" passwd="{_spoken("the password", password)}"{client}/>'
    return f'<{root} {declaration}="{NAMESPACE}">\n{provider}\n</{root}>\n'


def set_begin(
    full: bool,
    urlprefix: str = "",
    prefix: str = PREFIX,
    *,
    deletions: bool = False,
    errors_upto: int = 0,
    order: int = 0,
) -> str:
    """The start tag of a set.

    :param deletions: all that it deletes is meant, however much that is.
    :param errors_upto, order: of a gateway, as :class:`lcc.protocols.cp_uns.SetBegin` says.
    :raises ValueError: as :func:`url_element`.
    """
    kind = "full" if full else "partial"
    prefixed = f' urlprefix="{_spoken("urlprefix", urlprefix)}"' if urlprefix else ""
    meant = ' deletions="yes"' if deletions else ""
    numbers = "".join([f' {name}="{value}"' for name, value in (("errors", errors_upto), ("order", order)) if value])
    return f'<{prefix + ":" if prefix else ""}set set="{kind}"{prefixed}{meant}{numbers}>\n'


def url_element(attributes: dict[str, str]) -> str:
    """One element of a set.

    :raises ValueError: something in it cannot be told: XML has no control characters, for example.  (What would stand
        there instead would be another URL, and two URLs could become one.)
    """
    text = f"<url{write_attributes(attributes)}/>\n"
    if "\ufffd" in text or not _USUAL.issuperset(attributes):
        for name, value in attributes.items():
            if not _is_name(name):
                raise ValueError(f"{name[:80]!r} is no name of an attribute")
            _spoken(name, value)
    return text


def set_end(prefix: str = PREFIX) -> str:
    """The end tag of a set."""
    return f"</{prefix}:set>\n" if prefix else "</set>\n"


def reply_feed(prefix: str = PREFIX) -> XmlFeed:
    """A feed for the answers to a CP that uses this prefix."""
    return XmlFeed(REPLY_LIMITS, prefixes={prefix: NAMESPACE})


class ClientReader:
    """Reads what a UNS says.

    ``<init_accepted>`` or ``<init_rejected>`` come as one message at their document's end (call
    ``stream.next_document()`` then); error containers of a set come one by one, and then :class:`SetAccepted` or
    :class:`SetRejected`.  What is not known inside a message is passed over.
    """

    def __init__(self) -> None:
        self._root = ""
        self._path: list[str] = []
        self._attributes: list[dict[str, str]] = []
        self._begin_init()

    def _begin_init(self) -> None:
        self._connect_info: dict[str, str] = {}
        self._quota: dict[str, dict[str, str]] = {}
        self._deletions: dict[str, str] = {}
        self._status: dict[str, str] = {}
        self._mimetypes: list[str] = []
        self._faults: list[UrlFault] = []
        self._reason: tuple[int, str] | None = None

    def events(self, events: Iterable[Event]) -> list[UnsMessage]:
        """The messages that these events complete.

        :raises StreamError: an unknown message, or one that lacks what it must say.
        """
        messages: list[UnsMessage] = []
        for event in events:
            if isinstance(event, Start):
                self._path.append(event.name)
                self._attributes.append(event.attributes)
                if event.depth == 1 and event.name not in ("init_accepted", "init_rejected", "set_result"):
                    raise StreamError("unknown-message", f"<{event.name[:80]}>")
                if event.depth == 1 and "order" in event.attributes:
                    messages.append(SetBegun(_number(event.attributes, "order")))
            else:
                self._element(event, self._path, self._attributes[-1], messages)
                self._path.pop()
                self._attributes.pop()
        return messages

    def _element(self, end: End, path: list[str], attributes: dict[str, str], messages: list[UnsMessage]) -> None:
        """An element is complete: ``path`` leads to it from the root."""
        match path:
            case ["set_result", "errors", "url"]:
                messages.append(_fault(attributes, end.text))
            case ["set_result", "set_accepted"]:
                messages.append(
                    SetAccepted(_number(attributes, "received"), _number(attributes, "blanked_subtypes", 0))
                )
            case ["set_result", "set_rejected"]:
                messages.append(SetRejected(_number(attributes, "code"), end.text.strip()))
            case ["init_rejected", "reason"]:
                self._reason = (_number(attributes, "code"), end.text.strip())
            case ["init_rejected"]:
                if self._reason is None:
                    raise StreamError("unknown-message", "<init_rejected> without <reason>")
                messages.append(InitRejected(*self._reason))
            case ["init_accepted", "connect_info"]:
                self._connect_info = attributes
            case ["init_accepted", "mime"]:
                if len(self._mimetypes) < LISTED_MAX:
                    self._mimetypes.append(end.text.strip())
            case ["init_accepted", "quota", name]:
                self._quota[name] = attributes
            case ["init_accepted", "deletions"]:
                self._deletions = attributes
            case ["init_accepted", "processing_status", "errors", "url"]:
                if len(self._faults) < LISTED_MAX:
                    self._faults.append(_fault(attributes, end.text))
            case ["init_accepted", "processing_status"]:
                self._status = attributes
            case ["init_accepted"]:
                messages.append(self._accepted())
                self._begin_init()

    def _accepted(self) -> InitAccepted:
        files, space, fullset = (self._quota.get(name, {}) for name in ("files", "space", "fullset"))
        return InitAccepted(
            _number(self._connect_info, "seq", 0),
            self._connect_info.get("lastConnectIP", ""),
            tuple(self._mimetypes),
            _number(files, "used", 0),
            _limit(files, "free"),
            _number(space, "used", 0),
            _limit(space, "free"),
            _limit(fullset, "allowed"),
            fullset.get("wanted") == "yes",
            fullset.get("reason", ""),
            _number(self._status, "errors", 0),
            tuple(self._faults),
            _number(self._status, "processing", 0),
            _number(self._deletions, "held", 0),
            _number(self._deletions, "of", 0),
            _number(self._status, "upto", 0),
        )


def _number(attributes: dict[str, str], name: str, default: int | None = None) -> int:
    text = attributes.get(name)
    if text is None and default is not None:
        return default
    try:
        return parse_number(text or "", INT64_MAX)
    except ValueError:
        raise StreamError("unknown-message", f"{name}={text!r:.80} where a number must stand") from None


def _limit(attributes: dict[str, str], name: str) -> int | None:
    return _number(attributes, name) if attributes.get(name) else None


def _fault(attributes: dict[str, str], text: str) -> UrlFault:
    code = _number(attributes, "code")
    sent = {name: value for name, value in attributes.items() if name not in ("code", "url")}
    return UrlFault(code, text.strip(), attributes.get("url", ""), sent)
