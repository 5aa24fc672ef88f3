"""WebSub (https://www.w3.org/TR/websub/): what hubs and subscribers exchange."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import attrs


class HubState(Enum):
    """How far a subscription at a hub is."""

    ASKING = "asking"
    """It is asked for, and the hub has not confirmed it."""
    ACTIVE = "active"
    """The hub has confirmed it."""
    DROPPED = "dropped"
    """The hub does not confirm, or does not push; it is asked again after a long time."""
    LEAVING = "leaving"
    """The feed has gone, or names another hub: it is to be ended."""


class HubOfFeed(NamedTuple):
    """Where a feed is pushed from.

    :ivar topic: the URL by which the hub knows it.
    """

    hub: str
    topic: str


class FeedFacts(NamedTuple):
    """What is known of a feed.

    :ivar task: its id.
    :ivar active: it is polled; False: it is suspended.
    :ivar links: relation and URL of each link to a hub or to itself.
    :ivar changed_time: when news were found in it last; 0: never.
    :ivar due_time: when it is polled next; None: what a poll has found is being read.
    """

    task: int
    url: str
    active: bool
    links: tuple[tuple[str, str], ...]
    read_time: int
    changed_time: int
    due_time: int | None
    every_seconds: int


@attrs.frozen
class HubSubscription:
    """A subscription at a hub.  Times are seconds since 1970; 0: never.

    :ivar id: the last part of its callback's path; nobody can guess it.
    :ivar task: the feed.
    :ivar due_time: when the hub is asked, or it is given up that it answers.
    :ivar asked_time: when the hub was asked and has not confirmed since; 0: nothing is open.
    :ivar active_time: when it was confirmed for the first time.
    :ivar lease_seconds: as the hub said; 0: it did not yet.
    :ivar failures: attempts to subscribe in succession that came to nothing.
    :ivar why: why the last one did, or why it is dropped; empty: there is nothing to say.
    :ivar pushed_time: of the last push; ``pushes``: their number.
    :ivar poll_time: when the feed is to be polled because of a push; 0: not.
    :ivar looks: further polls that follow the next one, in case that finds nothing.
    :ivar polled_time: when it was polled for that reason last.
    :ivar backup_time: when it would be polled, had there been no push; 0: as its task says.
    :ivar news_time: of the last news that were looked at.
    :ivar judge_time: by then, a push of the newest news must have come; 0: there are none.
    :ivar missed: news in succession of which no push came.
    """

    id: str
    task: int
    topic: str
    hub: str
    secret: str = attrs.field(repr=False)
    state: HubState
    made_time: int
    due_time: int
    asked_time: int = 0
    active_time: int = 0
    lease_seconds: int = 0
    expires_time: int = 0
    failures: int = 0
    why: str = ""
    pushed_time: int = 0
    pushes: int = 0
    poll_time: int = 0
    looks: int = 0
    polled_time: int = 0
    backup_time: int = 0
    news_time: int = 0
    judge_time: int = 0
    missed: int = 0
