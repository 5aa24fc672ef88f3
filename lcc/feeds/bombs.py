"""Documents made to explode.

feedparser drops external and nested entities; what is left is one long entity, named often.
"""

from __future__ import annotations

import re

from lcc.feeds.faults import FeedFault

_HEAD_END = re.compile(rb"<\w")
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s"'%>]{1,200})\s+["']([^"']*)["']""")
_NESTED = re.compile(rb"&(?!#)[^;\s]{1,200};")
ENTITIES_MAX = 1000
EXPANSION_BYTES_MAX = 1 << 20


def refuse_bombs(data: bytes) -> None:
    """Refuse a document in UTF-8 whose entities make more than a little of it.

    :raises FeedFault: it is one.
    """
    if b"<!ENTITY" not in data:
        return
    start = _HEAD_END.search(data)
    head = data[: start.start()] if start else data
    entities = _ENTITY.findall(head)
    if len(entities) > ENTITIES_MAX:
        raise FeedFault(f"the document declares {len(entities)} entities; {ENTITIES_MAX} are allowed")
    values = dict(entities)
    nested = [name for name, value in entities if any(each[1:-1] in values for each in _NESTED.findall(value))]
    if nested:
        raise FeedFault(f"entity {_shown(nested[0])} is made of other entities: refused as an entity bomb")
    expanded = sum(len(value) * data.count(b"&" + name + b";") for name, value in values.items())
    if expanded > EXPANSION_BYTES_MAX:
        raise FeedFault(f"entities would make {expanded} bytes: refused as an entity bomb")


def _shown(name: bytes) -> str:
    return repr(name[:40].decode("utf-8", "replace"))
