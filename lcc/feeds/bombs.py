"""Documents made to explode.

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
ENTITIES_MAX = 1000
EXPANSION_BYTES_MAX = 1 << 20


def refuse_bombs(data: bytes) -> None:
    """Refuse a document in UTF-8 whose entities make more than a little of it.

    :raises FeedFault: it is one.
    """
    if b"<!ENTITY" not in data:
        return
    values: dict[bytes, bytes] = {}
    for count, (name, value) in enumerate(_declared(data), 1):
        if count > ENTITIES_MAX:
            raise FeedFault(f"the document declares more than {ENTITIES_MAX} entities")
        values[name] = max(value, values.get(name, b""), key=len)
    for name, value in values.items():
        if any(each[1] is None or each[1] in values for each in _NESTED.finditer(value)):
            raise FeedFault(f"entity {_shown(name)} is made of other entities: refused as an entity bomb")
    named = Counter(name for each in _REFERENCE.finditer(data) if (name := each[1]) in values)
    expanded = sum(len(values[name]) * count for name, count in named.items())
    if expanded > EXPANSION_BYTES_MAX:
        raise FeedFault(f"entities would make {expanded} bytes: refused as an entity bomb")


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
