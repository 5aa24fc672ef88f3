"""Subscribers of the hub of content users (WebSub), and what they ask for."""

from __future__ import annotations

import attrs


@attrs.frozen
class HubAsk:
    """A request that is yet to be confirmed by its callback.  Times are seconds since 1970.

    :ivar id: digest of callback and topic.
    :ivar mode: ``subscribe`` or ``unsubscribe``.
    :ivar cuid: the content user; 0: without a token.
    :ivar timeline, number: from which change on; empty: from now on.
    :ivar party: the user or the address that asks; empty: not known.
    """

    id: bytes
    callback: str
    topic: str
    mode: str
    secret: str = attrs.field(repr=False)
    lease_seconds: int
    cuid: int
    timeline: str
    number: int
    due_time: int
    failures: int = 0
    party: str = ""


@attrs.frozen
class HubSubscriber:
    """One who is told of changes: one row, however far behind.

    :ivar site: of the callback.
    :ivar timeline, number: of the last change that was delivered.
    :ivar dropped: it is told so, then forgotten.
    :ivar due_time: when something is delivered next; 0: nothing is owed.
    :ivar failures: deliveries in succession that came to nothing; since_time: of the first of them.
    :ivar why: why the last one did, or why it is dropped.
    """

    id: bytes
    topicid: bytes
    callback: str
    topic: str
    secret: str = attrs.field(repr=False)
    cuid: int
    timeline: str
    number: int
    dropped: int
    due_time: int
    expires_time: int
    made_time: int
    site: str = ""
    failures: int = 0
    since_time: int = 0
    delivered_time: int = 0
    deliveries: int = 0
    why: str = ""
