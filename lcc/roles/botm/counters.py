"""Plain numbers of a BOT-M since its start."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """Counted since the start, for the console and the metrics.

    :ivar orders_expired: dropped, because their time was over; a robot may have begun them.
    :ivar orders_sent_back: undone, because of their hours, for want of room, or as no robot has begun them.
    """

    orders_taken: int = 0
    orders_expired: int = 0
    orders_sent_back: int = 0
    robots_lost: int = 0
    files_stored: int = 0
    files_stored_bytes: int = 0
    files_removed: int = 0
