"""Plain numbers of a BOT-M since its start."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """Counted since the start, for the console and the metrics.

    :ivar orders_expired: dropped, because their time was over.
    :ivar orders_sent_back: undone, because of their hours or for want of room.
    """

    orders_taken: int = 0
    orders_expired: int = 0
    orders_sent_back: int = 0
    robots_lost: int = 0
    files_stored: int = 0
    files_stored_bytes: int = 0
    files_removed: int = 0
