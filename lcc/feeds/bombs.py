"""Documents made to explode, or to keep feedparser busy.

feedparser drops external and nested entities; what is left is one long entity, named often.  But it looks for
declarations only before the first ``<`` and letter, even one in a comment; behind that, expat expands whatever there
is.  So they are looked for here as XML has them, in one pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lcc.feeds.faults import FeedFault

_PROLOG = re.compile(
    rb"""(?P<comment><!--) | (?P<instruction><\?)
    | <!ENTITY\s{1,100}(?:%\s{1,100})?(?P<name>[^\s"'%>]{1,200})\s{1,100}(?P<value>["'])
    | (?P<quoted>["']) | (?P<doctype><!DOCTYPE) | (?P<root><\w)""",
    re.VERBOSE,
)
_ENDS = {"comment": b"-->", "instruction": b"?>"}
_REFERENCE = re.compile(rb"&([^#;\s&][^;\s&]{0,199});")
_NESTED = re.compile(rb"&(?:#(?:0{0,9}38|x0{0,9}26);)?([^#;\s&][^;\s&]{0,199});|%[^;\s&%]{1,200};|<!ENTITY")
"""In the value of an entity: what is expanded again, where ``&#38;`` is an ampersand by then."""
_ELEMENT = re.compile(rb"<\w")
_SPACES, _LONG_SPACE = re.compile(rb"\s{2,}"), re.compile(rb"\s{100,}")
ENTITIES_MAX = 1000
EXPANSION_BYTES_MAX = 1 << 20


def refuse_bombs(data: bytes) -> None:
    """Refuse a document in UTF-8 whose entities make more than a little of it.

    :raises FeedFault: it is one.
    """
    if b"<!ENTITY" not in data:
        return
    values: dict[bytes, bytes] = {}
    too_many = f"the document declares more than {ENTITIES_MAX} entities"
    if data.count(b"<!ENTITY", 0, _first_element(data)) > ENTITIES_MAX:
        raise FeedFault(too_many)
    for count, (name, value) in enumerate(_declared(data), 1):
        if count > ENTITIES_MAX:
            raise FeedFault(too_many)
        values[name] = max(value, values.get(name, b""), key=len)
    for name, value in values.items():
        if any(each[1] is None or each[1] in values for each in _NESTED.finditer(value)):
            raise FeedFault(f"entity {_shown(name)} is made of other entities: refused as an entity bomb")
    named = Counter(name for each in _REFERENCE.finditer(data) if (name := each[1]) in values)
    expanded = sum(len(values[name]) * count for name, count in named.items())
    if expanded > EXPANSION_BYTES_MAX:
        raise FeedFault(f"entities would make {expanded} bytes: refused as an entity bomb")


def plain_prolog(data: bytes) -> bytes:
    """The document without what takes feedparser the square of its length: white space before the first element, also
    what is left of it between entities when these are removed, and declarations that do not end there."""
    end = _first_element(data)
    head = data[:end]
    unended = head.find(b"<!", head.rfind(b">") + 1)
    if unended >= 0:
        head = head[:unended]
    spaces = _SPACES if b"<!ENTITY" in head else _LONG_SPACE
    return spaces.sub(lambda run: b"\n" if b"\n" in run[0] else b" ", head) + data[end:]


def _first_element(data: bytes) -> int:
    """Where it is, as feedparser sees it; 0: there is none, and it looks for no declarations."""
    element = _ELEMENT.search(data)
    return 0 if element is None else element.start()


def _declared(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and value of each entity that is declared before the first element, parameter entities too."""
    at, in_doctype = 0, False
    while (token := _PROLOG.search(data, at)) and not token["root"]:
        at = token.end()
        kind = token.lastgroup or ""
        if kind == "doctype":
            in_doctype = True
            continue
        if kind == "quoted" and not in_doctype:
            continue  # an apostrophe in what is no XML
        end = data.find(_ENDS.get(kind) or token[kind], at)
        if end < 0:
            return
        if kind == "value":
            yield token["name"], data[at:end]
        at = end + 1


def _shown(name: bytes) -> str:
    return repr(name[:40].decode("utf-8", "replace"))
