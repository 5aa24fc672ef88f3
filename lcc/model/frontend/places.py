"""What a front end knows of its sub-LCCs, and where each provider is (seed 002, section 12)."""

from __future__ import annotations

from enum import Enum

import attrs


class SubState(Enum):
    """What a sub-LCC is there for."""

    OPEN = "open"
    DRAINING = "draining"
    """It gets no new providers."""
    REMOVED = "removed"
    """It is gone; its ids are never given out again."""


class AtHome(Enum):
    """How a provider is at its sub-LCC."""

    HERE = "here"
    MAKING = "making"
    """It is being registered: its own row may be there or not."""
    FROZEN = "frozen"
    """It is about to move: who logs in waits."""


@attrs.frozen
class SubLcc:
    """A row of ``fedb``.

    :ivar subid: its number, for ever.
    :ivar uns: endpoints of its UNSes.
    :ivar proxy_protocol: these are told the provider's address (PROXY protocol).
    :ivar notifiers: endpoint of its port of notifiers; empty: none.
    :ivar content: URL of its (central) BOT-M's content port; empty: none.
    :ivar database: URL of its database.
    :ivar first_pid, last_pid: ids of the providers that are made there.
    :ivar first_machine, last_machine: ids of its machines.
    :ivar files_max, space_max_bytes: what it has room for; None: nobody has said.
    :ivar made_time: when it was added, seconds since 1970.
    """

    subid: int
    name: str
    state: SubState
    uns: tuple[str, ...]
    proxy_protocol: bool
    notifiers: str
    content: str
    database: str = attrs.field(repr=False)
    first_pid: int
    last_pid: int
    first_machine: int
    last_machine: int
    files_max: int | None = None
    space_max_bytes: int | None = None
    made_time: int = 0


@attrs.frozen
class Vitals:
    """How a sub-LCC is, as its queue manager has reported.

    :ivar time: when, seconds since 1970.
    :ivar epoch: of its database.
    :ivar providers: that are registered there or watched.
    :ivar files, space_bytes: in its cache.
    :ivar queued: URLs that wait to be fetched.
    :ivar change_number: of the last change of its cache.
    """

    subid: int
    time: int
    epoch: str
    providers: int
    files: int
    space_bytes: int
    queued: int
    change_number: int


@attrs.frozen
class Placement:
    """A row of ``pmdb``: where a provider is.

    :ivar epoch: grows with each step of a move that others must not undo; 0: it has never moved.
    """

    pid: int
    subid: int
    epoch: int = 0
    state: AtHome = AtHome.HERE
