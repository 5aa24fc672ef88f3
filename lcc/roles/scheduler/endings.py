"""Endings of jobs that managers have reported, until they are recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from twisted.internet.defer import Deferred

from lcc.model.tasks import JobResult
from lcc.roles.scheduler.managers import Manager


class Ending(NamedTuple):
    """
    :ivar number: the manager's, for its acknowledgement.
    :ivar chars: the size of its message.
    """

    manager: Manager
    number: int
    result: JobResult
    chars: int


class EndingQueue:
    """Endings that wait, in the order in which they came.

    :param chars_max: where more wait, those who report are told to wait; so much is recorded at once, or one.
    """

    def __init__(self, chars_max: int) -> None:
        self._chars_max = chars_max
        self._endings: deque[Ending] = deque()
        self._chars = 0
        self._room: list[Deferred[None]] = []

    def __len__(self) -> int:
        return len(self._endings)

    def jobs_of(self, name: str) -> set[int]:
        """Jobs whose endings a manager of this name has reported."""
        return {ending.result.id for ending in self._endings if ending.manager.name == name}

    def add(self, ending: Ending) -> Deferred[None] | None:
        """It waits from now on.

        :returns: fires when there is room for more; None: there is.
        """
        self._endings.append(ending)
        self._chars += ending.chars
        if self._chars <= self._chars_max:
            return None
        room: Deferred[None] = Deferred()
        self._room.append(room)
        return room

    def first(self, count_max: int) -> list[Ending]:
        """Those to be recorded next; they wait on."""
        batch: list[Ending] = []
        chars = 0
        for ending in self._endings:
            if len(batch) == count_max or (batch and chars + ending.chars > self._chars_max):
                break
            batch.append(ending)
            chars += ending.chars
        return batch

    def recorded(self, batch: Collection[Ending]) -> None:
        """These, the first ones, wait no longer."""
        for _ in batch:
            self._chars -= self._endings.popleft().chars

    def tell_room(self) -> None:
        """Some were recorded: whoever waits may report more."""
        waiting, self._room = self._room, []
        for each in waiting:
            each.callback(None)
