"""The UNS's end of the CP/UNS conversation: reads what a provider says, writes the answers.

The answer to a set streams: :func:`set_result_open` as soon as the set begins, one
:func:`lcc.protocols.cp_uns.write_fault` for each element that is refused, then :func:`set_accepted` or
:func:`set_rejected`, which close all that is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lcc.errors import SetError, StreamError
from lcc.model import Provider, ProviderStatus, Session, StoredError
from lcc.numbers import INT64_MAX, parse_number
from lcc.protocols.cp_uns import (
    ERROR_TEXT_CHARS,
    URL_TAG,
    CpMessage,
    FastUrls,
    Init,
    SetBegin,
    SetEnd,
    UrlElement,
    unpack_sent,
    write_fault,
)
from lcc.protocols.flat import ID_MAX
from lcc.protocols.xmlfeed import NAMESPACE, Event, FastElements, XmlFeed
from lcc.protocols.xmltext import escape


class ServerReader:
    """Reads what a CP says.

    The first document must be ``<init>`` in the LCC's namespace, each one after it a ``<set>``.  Attributes and child
    elements that are not known are passed over.

    :param feed: where the events come from; asked only for the prefix of the document's root.
    """

    def __init__(self, feed: XmlFeed) -> None:
        self._feed = feed
        self._init_done = False
        self._in_set = False
        self._provider: dict[str, str] | None = None

    def events(self, events: Iterable[Event | FastElements]) -> list[CpMessage]:
        """The messages that these events complete.

        :raises StreamError: an unknown message, or an ``<init>`` without its ``<provider id passwd>``.
        :raises lcc.errors.SetError: "bad-set": ``set`` is neither full nor partial, or ``deletions`` neither yes nor
            no.  It comes with the first event of its document, so that no message is lost by it.
        """
        messages: list[CpMessage] = []
        append = messages.append
        in_set = self._in_set
        name: Any
        for name, payload, depth in events:
            # A start tag brings its attributes, an end tag its text, a run its spelling and its rows.
            if depth == 2:
                if type(payload) is dict:
                    if in_set:
                        if name == URL_TAG:
                            append(UrlElement(payload))
                    elif name == "provider" and self._provider is None:
                        self._provider = payload
                elif type(payload) is list and in_set:
                    append(FastUrls(name, payload))
            elif depth == 1:
                if type(payload) is dict:
                    self._begin(name, payload, messages)
                else:
                    self._finish(messages)
                in_set = self._in_set
        return messages

    def _begin(self, name: str, attributes: dict[str, str], messages: list[CpMessage]) -> None:
        if not self._init_done:
            if name != "init":
                raise StreamError("unknown-message", f"<{name[:80]}> where <init> must come first")
            if self._feed.root_namespace != NAMESPACE:
                raise StreamError("unknown-message", f"<init> is not in the namespace {NAMESPACE}")
            return
        if name != "set":
            raise StreamError("unknown-message", f"<{name[:80]}> where a <set> may come")
        self._in_set = True
        kind = attributes.get("set", "partial")
        if kind not in ("full", "partial"):
            raise SetError("bad-set", f"set={kind[:80]!r} is neither full nor partial")
        deletions = attributes.get("deletions", "no")
        if deletions not in ("yes", "no"):
            raise SetError("bad-set", f"deletions={deletions[:80]!r} is neither yes nor no")
        prefix = self._feed.root_prefix
        told = [_read_number(attributes.get(name, "0"), INT64_MAX) for name in ("errors", "order")]
        messages.append(SetBegin(kind == "full", attributes.get("urlprefix", ""), prefix, deletions == "yes", *told))

    def _finish(self, messages: list[CpMessage]) -> None:
        if self._in_set:
            self._in_set = False
            messages.append(SetEnd())
            return
        self._init_done = True
        provider, self._provider = self._provider, None
        if provider is None or "id" not in provider or "passwd" not in provider:
            raise StreamError("unknown-message", "<init> without <provider id passwd>")
        pid = _read_number(provider["id"], ID_MAX)
        messages.append(Init(pid, provider["passwd"], self._feed.root_prefix, provider.get("address", "")))


def _read_number(text: str, most: int) -> int:
    """0: it is none."""
    try:
        return parse_number(text, most)
    except ValueError:
        return 0


def qualified(prefix: str, name: str) -> str:
    """The name of a message's root under this prefix; '' for a default namespace."""
    return f"{prefix}:{name}" if prefix else name


def init_accepted(
    prefix: str,
    session: Session,
    mimetypes: Sequence[str],
    provider: Provider,
    status: ProviderStatus,
    to_gateway: bool = False,
) -> str:
    """The whole ``<init_accepted>``.  A quota without limit shows as ``free=""`` (``allowed=""``)."""
    upto = f' upto="{status.errors_upto}"' if to_gateway else ""
    root = qualified(prefix, "init_accepted")
    files_free = _free(provider.files_max, status.files_used)
    space_free = _free(provider.space_max_bytes, status.space_used_bytes)
    allowed = "" if status.full_sets_left is None else status.full_sets_left
    wanted = f'wanted="yes" reason="{escape(status.full_set_wanted)}"' if status.full_set_wanted else 'wanted="no"'
    parts = [
        f'<{root}>\n<connect_info seq="{session.number}" lastConnectIP="{escape(session.last_ip)}"/>\n',
        *(f"<mime>{escape(pattern)}</mime>\n" for pattern in mimetypes),
        f'<quota>\n<files used="{status.files_used}" free="{files_free}"/>\n',
        f'<space used="{status.space_used_bytes}" free="{space_free}"/>\n',
        f'<fullset allowed="{allowed}" {wanted}/>\n</quota>\n',
        *_held(status),
        f'<processing_status errors="{status.error_count}"{upto} processing="{status.processing}">\n',
    ]
    if status.errors:
        parts.append("<errors>\n")
        parts += map(stored_fault, status.errors)
        parts.append("</errors>\n")
    parts.append(f"</processing_status>\n</{root}>\n")
    return "".join(parts)


def _held(status: ProviderStatus) -> Iterator[str]:
    if status.deletions_held:
        yield f'<deletions held="{status.deletions_held}" of="{status.deletions_of}"/>\n'


def _free(maximum: int | None, used: int) -> str:
    return "" if maximum is None else str(max(0, maximum - used))


def init_rejected(prefix: str, code: int, text: str) -> str:
    """The whole ``<init_rejected>``."""
    root = qualified(prefix, "init_rejected")
    return f'<{root}>\n<reason code="{code}">{escape(text[:ERROR_TEXT_CHARS])}</reason>\n</{root}>\n'


def stored_fault(error: StoredError) -> str:
    """The error container of an earlier fetch."""
    return write_fault(error.code, error.url, unpack_sent(error.sent), error.text)


def set_result_open(prefix: str, order: int = 0) -> str:
    """Opens the answer to a set; error containers may follow.

    :param order: its order number; 0: it is not told.
    """
    told = f' order="{order}"' if order else ""
    return f"<{qualified(prefix, 'set_result')}{told}>\n<errors>\n"


def set_accepted(prefix: str, received: int, blanked_subtypes: int = 0) -> str:
    """Closes an answer that :func:`set_result_open` opened: the set is accepted."""
    blanked = f' blanked_subtypes="{blanked_subtypes}"' if blanked_subtypes else ""
    return f'</errors>\n<set_accepted received="{received}"{blanked}/>\n</{qualified(prefix, "set_result")}>\n'


def set_rejected(prefix: str, code: int, text: str) -> str:
    """Closes an answer that :func:`set_result_open` opened: the set is rejected as a whole."""
    reason = escape(text[:ERROR_TEXT_CHARS])
    return f'</errors>\n<set_rejected code="{code}">{reason}</set_rejected>\n</{qualified(prefix, "set_result")}>\n'
