"""What a spider counts since its start."""

from __future__ import annotations

from collections import Counter

import attrs


@attrs.define
class Counters:
    """
    :ivar pages: that were read, of crawls or not.
    :ivar read: pages whose links were followed, for each crawl.
    :ivar links: links of these pages.
    :ivar followed: links that passed the filters.
    :ivar dropped: links that a filter has dropped, by its name.
    :ivar unread: pages whose links could not be extracted.
    :ivar missing: pages whose content lcc-cu could not give.
    :ivar told: URLs that were told; ``refused``: of these, by the UNS.
    :ivar asked: URLs of which was asked what became of them.
    :ivar answered: of these, those with an answer, by verdict.
    :ivar sites: hosts that became watched providers.
    :ivar orders: of commands and the HTTP interface.
    """

    pages: int = 0
    read: int = 0
    links: int = 0
    followed: int = 0
    dropped: Counter[str] = attrs.field(factory=Counter)
    unread: int = 0
    missing: int = 0
    told: int = 0
    refused: int = 0
    asked: int = 0
    answered: Counter[str] = attrs.field(factory=Counter)
    sites: int = 0
    orders: int = 0
