"""What a person types into a listening robot, and reads there.

Each ``<fetch …/>`` is a document of its own: no hello, no root that stays open.  The answer is one element, with the
header fields, a line each, so that it can be read without a program.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import attrs

from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.xmlfeed import FeedLimits
from lcc.protocols.xmltext import escape, quoted

TYPED_LIMITS = FeedLimits(document_bytes=65536, depth=2, value_chars=8192)
"""The feed of a person: many small documents."""


@attrs.frozen
class TypedFetch(Flat):
    """Fetch this now.

    :ivar file: where to write the content: a plain name; empty: nowhere.
    :ivar mimetype: what is expected; another type is an error; empty: anything.
    :ivar roots: where redirects may lead: URL prefixes, separated by spaces; empty: the URL's own site.
    :ivar etag, modified: of content that one has: if it is still that, it is not fetched.
    :ivar size_bytes: its length, where the server has no entity tags (ftp).
    """

    TAG = "fetch"
    url: str
    file: str = ""
    mimetype: str = ""
    roots: str = ""
    private: bool = False
    insecure: bool = False
    etag: str = ""
    modified: str = ""
    size_bytes: int | None = attrs.field(default=None, metadata={"wire": "size"})


@attrs.frozen
class Quit(Flat):
    """Close the connection."""

    TAG = "quit"


TYPED = Vocabulary(TypedFetch, Quit)


@attrs.frozen
class TypedDone(Flat):
    """How a fetch ended.

    :ivar code: 0: there is content; else the error's code, and ``text`` says it.
    :ivar unchanged: the content that one has is still the right one.
    """

    TAG = "done"
    code: int
    text: str = ""
    status: int = 0
    url: str = ""
    unchanged: bool = False
    size_bytes: int | None = attrs.field(default=None, metadata={"wire": "size"})
    md5: str = ""
    mimetype: str = ""
    charset: str = ""
    modified: str = ""
    etag: str = ""
    wire_bytes: int = attrs.field(default=0, metadata={"wire": "wire"})
    elapsed_ms: int = attrs.field(default=0, metadata={"wire": "ms"})
    file: str = ""


def answer(done: TypedDone, headers: str = "") -> str:
    """The answer as it is written.

    :param headers: as :attr:`lcc.model.Fetched.headers`.
    """
    pairs = json.loads(headers) if headers else []
    if not pairs:
        return f"{done.to_xml()}\n"
    lines = [f"{done.to_xml().removesuffix('/>')}>"]
    for name, text in zip(pairs[::2], pairs[1::2], strict=True):
        lines.append(f"  <header name={quoted(name)}>{escape(text)}</header>")
    return "\n".join([*lines, "</done>\n"])


def moment(seconds: int | None) -> str:
    """A time as the answer says it, ISO 8601; empty: none, or one that no calendar has."""
    try:
        return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
