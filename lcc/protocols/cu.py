"""The conversation between a content user (CU) and the LCC over an XML socket; for authors: ``doc/content-users.md``.

A sequence of documents on one connection, a question and its answer by turns::

    CU   <p:query xmlns:p="http://www.lococa.org/1.0" token="…" since="…" provider="1 2" content="yes" wait="60"/>
    LCC  <p:answer xmlns:p="…"> <url …><content length="N">base64</content></url>* <end next="…"/></p:answer>
         or  … <failed reason="…">text</failed></p:answer>
         or  <p:rejected xmlns:p="…" reason="…"><fault field="…">text</fault>*</p:rejected>

``p`` is whatever prefix the CU chose, or none where it declared a default namespace.  Unlike the UNS's answers, these
declare it: each can be read by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from lcc.errors import StreamError
from lcc.protocols.xmlfeed import NAMESPACE, Event, FeedLimits, XmlFeed
from lcc.protocols.xmltext import escape

QUERY_LIMITS = FeedLimits(document_bytes=65_536, token_bytes=32_768, value_chars=16_384, text_chars=1_024)
"""What is taken of a question."""

FAULT_CHARS = 1_000
"""A fault's text is cut to this length."""
FAULTS_MAX = 100
"""Faults of one question that are told."""


@attrs.frozen
class Question:
    """What a CU asks, unchecked.  Ends its document.

    :ivar attributes: without namespace declarations.
    :ivar elements: names of what stands inside; nothing belongs there.
    :ivar prefix: for the answer's root; empty: a default namespace.
    """

    attributes: dict[str, str] = attrs.field(repr=False)
    elements: tuple[str, ...]
    prefix: str


class QuestionReader:
    """Reads questions.

    :param feed: where the events come from; asked only for the prefix of the document's root.
    """

    def __init__(self, feed: XmlFeed) -> None:
        self._feed = feed
        self._attributes: dict[str, str] = {}
        self._elements: list[str] = []

    def events(self, events: Iterable[Event]) -> Question | None:
        """The question that these events complete, if they do.

        :raises StreamError: it is something else.
        """
        for name, payload, depth in events:
            # A start tag brings its attributes, an end tag its text.
            if depth == 2 and type(payload) is dict:
                self._elements.append(name)
            elif depth == 1:
                if type(payload) is not dict:
                    return Question(self._attributes, tuple(self._elements), answer_prefix(self._feed))
                if name != "query" or self._feed.root_namespace != NAMESPACE:
                    raise StreamError("unknown-message", f"<{name[:80]}> where a <query> in {NAMESPACE} may come")
                self._attributes, self._elements = payload, []
        return None


def answer_prefix(feed: XmlFeed) -> str:
    """The prefix of the question, if it can be had for an answer."""
    prefix = feed.root_prefix
    return "" if feed.root_namespace != NAMESPACE or prefix.lower().startswith("xml") else prefix


def _open(prefix: str, name: str, attributes: str = "") -> str:
    root, declaration = (f"{prefix}:{name}", f"xmlns:{prefix}") if prefix else (name, "xmlns")
    return f'<{root} {declaration}="{NAMESPACE}"{attributes}>\n'


def _close(prefix: str, name: str) -> str:
    return f"</{prefix}:{name}>\n" if prefix else f"</{name}>\n"


def answer_open(prefix: str) -> str:
    """Opens an answer; rows may follow."""
    return _open(prefix, "answer")


def answer_end(prefix: str, token: str | None, missing: Sequence[str] = ()) -> str:
    """Ends an answer: it is complete.

    :param token: to come back with; None: the question was not about changes.
    :param missing: names of sub-LCCs whose rows are not in it.
    """
    following = "" if token is None else f' next="{escape(token)}"'
    without = f' missing="{escape(" ".join(missing))}"' if missing else ""
    return f"<end{following}{without}/>\n" + _close(prefix, "answer")


def answer_failed(prefix: str, reason: str, text: str) -> str:
    """Ends an answer that cannot be completed."""
    return f'<failed reason="{reason}">{escape(text[:FAULT_CHARS])}</failed>\n' + _close(prefix, "answer")


def content_open(size_bytes: int) -> str:
    """Opens a row's content; base64 follows, white space anywhere in it."""
    return f'<content length="{size_bytes}">'


CONTENT_CLOSE = "</content>"


def content_missing(reason: str) -> str:
    """In place of a row's content, or behind what there is of it."""
    return f'<content missing="{reason}"/>'


def rejected(prefix: str, reason: str, faults: Iterable[tuple[str, str]]) -> str:
    """A question that is not answered.

    :param faults: fields (empty: none in particular) with what is wrong with them.
    """
    lines = [
        f'<fault field="{escape(field)}">{escape(text[:FAULT_CHARS])}</fault>\n'
        if field
        else f"<fault>{escape(text[:FAULT_CHARS])}</fault>\n"
        for field, text in list(faults)[:FAULTS_MAX]
    ]
    return _open(prefix, "rejected", f' reason="{reason}"') + "".join(lines) + _close(prefix, "rejected")
