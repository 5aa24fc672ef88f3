"""Turns of providers that share a host: one of them at a time has its turn, the others wait in their group.

Pure: no I/O, no clock.  Which providers belong together is the matter of :mod:`lcc.roles.qm.schedule.hosts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lcc.model import ProviderHosts
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.hosts import HostGroup, HostGroups, Regrouped
from lcc.roles.qm.schedule.ready_queue import Ready, ReadyQueue
from lcc.roles.qm.schedule.work import ProviderWork


class HostTurns:
    """See :mod:`lcc.roles.qm.schedule.host_turns`.

    :param active: the providers that have their turn.
    :param ready: those that wait for it, and for nobody of their host.
    :param update: puts a provider where it belongs; with nothing out, it gives up its turn if somebody presses.
    :param recall: asks a provider's run back.
    """

    def __init__(
        self,
        hosts: HostGroups,
        active: Mapping[int, ProviderWork],
        ready: ReadyQueue,
        delays: Delays,
        update: Callable[[ProviderWork], None],
        recall: Callable[[ProviderWork], None],
    ) -> None:
        self._hosts = hosts
        self._active = active
        self._ready = ready
        self._delays = delays
        self._update = update
        self._recall = recall

    # Turns.

    def queue_of(self, pid: int) -> ReadyQueue:
        """Where a provider waits for its turn, or would."""
        group = self._hosts.get(pid)
        return self._ready if group is None or pid not in group.waiting else group.waiting

    def leave_queue(self, pid: int) -> None:
        """A provider waits for its turn no longer."""
        self._ready.discard(pid)
        group = self._hosts.get(pid)
        if group is not None:
            group.waiting.discard(pid)
            self._pass_on(group)

    def set_priority(self, pid: int, priority: int) -> None:
        """A provider, which may wait, has this priority now."""
        self.queue_of(pid).set_priority(pid, priority)
        group = self._hosts.get(pid)
        if group is not None and pid in group.waiting:
            self.press(group, priority)

    def begins(self, work: ProviderWork) -> None:
        """A provider has its turn."""
        group = work.group = self._hosts.get(work.pid)
        if group is not None:
            group.turns.add(work.pid)
            group.waiting.discard(work.pid)

    def ends(self, work: ProviderWork) -> None:
        """A provider's turn is over."""
        if work.group is not None:
            work.group.turns.discard(work.pid)
            self._pass_on(work.group)

    def must_wait(self, turn: Ready) -> bool:
        """Whether somebody else of the host has its turn; then this one waits in their group."""
        group = self._hosts.get(turn.pid)
        if group is None or not group.occupied:
            return False
        self._hosts.wait(group, turn)
        self.press(group, turn.priority)
        return True

    def pass_on(self, pid: int) -> None:
        """A provider does not take its turn; another one of its host may."""
        group = self._hosts.get(pid)
        if group is not None:
            self._pass_on(group)

    def _pass_on(self, group: HostGroup) -> None:
        """If nobody of them has the turn, the next one that wants it waits among all others."""
        if not group.occupied and (turn := group.waiting.next()) is not None:
            self._ready.add(turn.pid, turn.place, turn.priority)

    def press(self, group: HostGroup, priority: int) -> None:
        """Somebody of this priority wants the turn."""
        for pid in list(group.turns):
            work = self._active[pid]
            if not work.busy:
                self._update(work)
            elif work.priority < priority and not work.recalled:
                self._recall(work)

    # Groups change.  What is said of a provider that it is about is put where it belongs by the caller.

    def learn(self, provider: ProviderHosts) -> None:
        """A provider may be fetched from these hosts now."""
        work = self._active.get(provider.pid)
        busy = work is not None and work.busy > 0
        self._regrouped(self._hosts.learn(provider, self._delays.now, busy=busy), but=provider.pid)

    def removed(self, pid: int) -> None:
        """A provider is gone."""
        work = self._active.get(pid)
        self._regrouped(self._hosts.removed(pid, 0 if work is None else work.busy, self._delays.now), but=pid)

    def free(self, pid: int) -> None:
        """Nothing is out of a provider any longer."""
        if self._hosts.later:
            self._regrouped(self._hosts.free(pid, self._delays.now), but=pid)

    def answered(self, pid: int, now: float) -> None:
        """An order of a provider, which may have been removed, has come back or is lost."""
        if self._hosts.leaving:
            self._regrouped(self._hosts.answered(pid, now))

    def let_go(self, now: float) -> None:
        """Nothing is out any longer of providers that were withheld."""
        for regrouped in self._hosts.let_go(now):
            self._regrouped(regrouped)
        for group in self._hosts.groups:
            self._pass_on(group)

    def _regrouped(self, regrouped: Regrouped | None, but: int = 0) -> None:
        if regrouped is None:
            return
        works = [work for pid in regrouped.members if (work := self._active.get(pid)) is not None]
        for work in works:
            work.group = self._hosts.get(work.pid)
            if work.group is not None:
                work.group.turns.add(work.pid)
        for turn in regrouped.waiting:
            self._ready.add(turn.pid, turn.place, turn.priority)
        for work in works:
            if work.pid != but and not work.gone:
                self._update(work)
