"""Providers that are about to move to another sub-LCC, or have: nothing of them is handed out (doc/moves.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lcc.domain.keys import pid_of
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.inactive import Inactive
from lcc.roles.qm.schedule.ready_queue import ReadyQueue
from lcc.roles.qm.schedule.work import ProviderWork


class Frozen:
    """Freezes providers, and thaws them.

    :param active: the providers that have their turn.
    :param taken: rows that are out, or whose results are not recorded: key -> generation.
    :param parked: providers that wait with their rows.
    :param update: puts a provider where it belongs.
    :param recall: nothing more of what is out of it is to be begun.
    """

    def __init__(
        self,
        active: Mapping[int, ProviderWork],
        taken: Mapping[bytes, int],
        parked: set[int],
        ready: ReadyQueue,
        delays: Delays,
        inactive: Inactive,
        update: Callable[[ProviderWork], None],
        recall: Callable[[ProviderWork], None],
    ) -> None:
        self._active = active
        self._taken = taken
        self._parked = parked
        self._ready = ready
        self._delays = delays
        self._inactive = inactive
        self._update = update
        self._recall = recall

    def load(self, pids: Iterable[int]) -> None:
        """Begin with these."""
        self._delays.frozen.update(pids)

    def __contains__(self, pid: int) -> bool:
        return pid in self._delays.frozen

    def freeze(self, pid: int) -> None:
        """Hand out nothing of it, and recall what is out."""
        self._delays.frozen.add(pid)
        work = self._active.get(pid)
        if work is not None:
            if not work.recalled:
                self._recall(work)
            self._update(work)

    def thaw(self, pid: int) -> None:
        """It goes on."""
        self._delays.frozen.discard(pid)
        if pid in self._delays:
            return
        work = self._active.get(pid)
        if work is not None:
            self._parked.discard(pid)
            self._update(work)
        elif pid in self._inactive.delayed:
            self._ready.add(pid, *self._inactive.delayed.pop(pid))

    def is_still(self, pid: int) -> bool:
        """Nothing of it is out, and all results are recorded."""
        work = self._active.get(pid)
        if work is not None and (work.busy or work.doubt is not None or work.recalled):
            return False
        return not any(pid_of(key) == pid for key in self._taken)
