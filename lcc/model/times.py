"""Time slots of the queue."""

from __future__ import annotations

FETCH_NOW = -1
"""The time slot of what may be fetched at any time (seed 002, section 6)."""

RETRY_SLOT_SECONDS = 4
"""What waits to be tried again stands in slots of this length (those of the seed's "bandwidth-delay" table).  Their
numbers are below :data:`FETCH_NOW` and come from the time when they end, so they need no period."""


def retry_slot(due: float) -> int:
    """The slot of a row that is to be tried again at this time (seconds since 1970), or up to a slot later."""
    return FETCH_NOW - 1 + int(-due // RETRY_SLOT_SECONDS)


def retry_time(slot: int) -> int:
    """When the rows of such a slot are due."""
    return (FETCH_NOW - 1 - slot) * RETRY_SLOT_SECONDS
