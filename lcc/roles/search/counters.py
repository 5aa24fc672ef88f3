"""What a search server counts since its start."""

from __future__ import annotations

import attrs

from lcc.model.metrics import Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@attrs.define
class Counters:
    """
    :ivar pages: that were read from ``lcc-cu``, of any type.
    :ivar indexed: pages that were put into the index; ``removed``: taken out of it.
    :ivar unread: of these, those whose text could not be read.
    :ivar missing: pages whose content lcc-cu could not give.
    :ivar commits: of the index.
    :ivar rebuilds: how often the index was begun anew.
    :ivar queries: that were answered, by how long that took in seconds.
    :ivar refused: queries that were none, or came while too many waited.
    """

    pages: int = 0
    indexed: int = 0
    removed: int = 0
    unread: int = 0
    missing: int = 0
    commits: int = 0
    rebuilds: int = 0
    refused: int = 0
    queries: Histogram = attrs.field(factory=lambda: Histogram(_SECONDS))
