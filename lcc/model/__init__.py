"""The values that the rooms of the LCC hand to each other.

All are immutable; units stand in the names.  Times are whole seconds since 1970 (UTC).  The ones that exist by the
million (a set's elements, queue rows) are named tuples, because those are the cheapest to make; the rest are frozen
attrs classes.
"""

from __future__ import annotations

from lcc.model.cache import Action, CachedState, CachedUrl, ContentRow, Outcome
from lcc.model.fetches import DeleteOrder, Fetched, FetchOrder, FetchResult, FetchStep, MachineState
from lcc.model.providers import (
    FullSetKey,
    Progress,
    Proves,
    Provider,
    ProviderStatus,
    Registration,
    Session,
    SetStart,
    StoredError,
    Wishes,
)
from lcc.model.queue import (
    Absorbed,
    Ahead,
    CarriedOut,
    Claim,
    Cursor,
    Delay,
    Kept,
    QueuedState,
    QueueRow,
    Quota,
    ReadAhead,
    Recorded,
    RetryPage,
    SlotPage,
    Stored,
    Waiting,
    content_token,
)
from lcc.model.sets import (
    DESCRIPTION,
    KEY_BYTES,
    KeyedNotice,
    SetAnswer,
    SetHeader,
    SetPiece,
    UnsStanding,
    UrlNotice,
    description_of,
)
from lcc.model.times import FETCH_NOW, RETRY_SLOT_SECONDS, retry_slot, retry_time

__all__ = [
    "DESCRIPTION",
    "FETCH_NOW",
    "KEY_BYTES",
    "RETRY_SLOT_SECONDS",
    "Absorbed",
    "Action",
    "Ahead",
    "CachedState",
    "CachedUrl",
    "CarriedOut",
    "Claim",
    "ContentRow",
    "Cursor",
    "Delay",
    "DeleteOrder",
    "FetchOrder",
    "FetchResult",
    "FetchStep",
    "Fetched",
    "FullSetKey",
    "Kept",
    "KeyedNotice",
    "MachineState",
    "Outcome",
    "Progress",
    "Proves",
    "Provider",
    "ProviderStatus",
    "QueueRow",
    "QueuedState",
    "Quota",
    "ReadAhead",
    "Recorded",
    "Registration",
    "RetryPage",
    "Session",
    "SetAnswer",
    "SetHeader",
    "SetPiece",
    "SetStart",
    "SlotPage",
    "Stored",
    "StoredError",
    "UnsStanding",
    "UrlNotice",
    "Waiting",
    "Wishes",
    "content_token",
    "description_of",
    "retry_slot",
    "retry_time",
]
