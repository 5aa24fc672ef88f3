"""What a UNS knows of the sets of each notifier: which are under way, and how the last ones were answered.

Kept in memory, also while the notifier is away, so that a set that it sends again is not taken twice.  It forgets
answers that the notifier must have heard: no more sets can be without one than its window allows.  What the process
itself forgets, because it was killed, the queue manager knows (:attr:`lcc.model.SetHeader.said`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from lcc.model import SetHeader
from lcc.model.notifiers import NoticeId
from lcc.roles.uns.delivery import ACCEPTED, Verdict

_AWAY_MAX = 100


class Connected(Protocol):
    """What others do with the connection of a notifier."""

    def settled(self) -> None:
        """A set has its answer."""

    def hold(self, why: str, seconds: float) -> None:
        """Take no sets for this long, at least."""

    def drop(self) -> None:
        """Cut the connection."""


@attrs.define(eq=False)
class KnownNotifier:
    """One notifier, in one epoch of its numbers.

    :ivar name: its role and name, as ``push/p1``.
    :ivar outcomes: by number, in the order in which they came: the answer; None: it is under way.
    :ivar connection: None: it is away.
    :ivar failed: sets that could not be stored once, for a reason that may pass, or may be the set's own.
    """

    name: str
    epoch: str
    outcomes: dict[int, Verdict | None] = attrs.field(factory=dict)
    connection: Connected | None = None
    failed: set[int] = attrs.field(factory=set)

    @property
    def role(self) -> str:
        """As its hello says."""
        return self.name.partition("/")[0]

    def id_of(self, number: int, after: int) -> NoticeId:
        """The name of this set of it; it has none between this number and ``after``."""
        return NoticeId(self.name, self.epoch, number, after)

    def begin_again(self, oldest: int) -> None:
        """It sends everything without an answer, from this number on: it has heard the answers to all before."""
        for number in [each for each in self.outcomes if each < oldest]:
            if self.outcomes[number] is not None:
                del self.outcomes[number]

    def settle(self, number: int, verdict: Verdict, kept_max: int) -> None:
        """This is the answer to a set; of the answers so many are kept."""
        outcomes = self.outcomes
        outcomes[number] = verdict
        self.failed.discard(number)
        while len(outcomes) > kept_max:
            first = next(iter(outcomes))
            if outcomes[first] is None:
                return
            del outcomes[first]


class KnownNotifiers:
    """All of them.

    :param kept_max: how many answers are kept for each.
    """

    def __init__(self, kept_max: int) -> None:
        self._kept_max = kept_max
        self._known: dict[tuple[str, str], KnownNotifier] = {}

    def load(self, spooled: Iterable[SetHeader]) -> None:
        """These are what an earlier run left in the spool: accepted where their notifier may have been told so."""
        for header in spooled:
            if header.said is not None and header.answered:
                known = self.get(header.said.notifier, header.said.epoch)
                known.settle(header.said.number, ACCEPTED, self._kept_max)

    def get(self, name: str, epoch: str) -> KnownNotifier:
        """The notifier of this name, and epoch of numbers."""
        key = name, epoch
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _AWAY_MAX:
                self._forget_one()
            known = self._known[key] = KnownNotifier(name, epoch)
        return known

    def connections_of(self, name: str) -> list[Connected]:
        """Those of this name, in whatever epoch."""
        return [each.connection for each in self._known.values() if each.name == name and each.connection is not None]

    def _forget_one(self) -> None:
        for key, known in self._known.items():
            if known.connection is None and None not in known.outcomes.values():
                del self._known[key]
                return
