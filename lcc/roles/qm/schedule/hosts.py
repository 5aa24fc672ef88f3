"""Providers that share a host, and are fetched from one at a time (``[qm] serial_by_host``).  Pure: no I/O, no clock.

Which providers belong together
    Two providers share a host if a root of the one names the host that a root of the other names, by whatever scheme
    and port.  A host is *serial* if it has several providers and one of them is watched (``watched``), or if it has
    several (``all``).  The providers of a serial host are a group; one with roots on several serial hosts joins their
    groups into one.  So a provider is in one group at most, and nobody waits for two.

What a group means
    One of its members at a time has its turn in the scheduler; the turn is the lock.  A turn ends only when all
    orders of the member are answered or their leases have passed, so a lost BOT-M holds the group as it holds the
    provider.  The others wait here, and cost what a provider costs that waits for its turn: nothing is read for them.
    When the turn ends, the next one goes back among those that wait for their turn, with the place that it had: a
    group knows no order of its own.

    A start of a fetch by one member counts for the intervals of all.  When it is not known what the others began, at
    a start and when a group changes, the interval counts from then.

Who may still be fetched from without a turn
    Members that are withheld after a restart (:meth:`HostGroups.withhold`), and providers that were removed while
    orders were out (:meth:`HostGroups.removed`).  Nobody of the group has a turn meanwhile.  A provider whose roots
    have changed belongs to its old hosts as well, until what is out of it is answered.

Providers that share no serial host have no group.  All roots are known by host, since anybody may be watched at any
time; that is some 400 bytes a provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lcc.model import ProviderHosts
from lcc.roles.qm.schedule.ready_queue import Ready, ReadyQueue

NO, WATCHED, ALL = SERIAL = ("no", "watched", "all")
"""Values of ``[qm] serial_by_host``."""


class HostGroup:
    """Providers of which one at a time is fetched from.

    :ivar turns: the members that have their turn: one; several for a moment, after orders of an earlier queue manager
        or a change of roots, and then those with orders out go first.
    :ivar elsewhere: members that may be fetched from without a turn.
    :ivar waiting: those whose turn it would be.
    :ivar began: when any of them was last fetched from, at the latest (seconds since 1970).
    """

    __slots__ = ("began", "elsewhere", "members", "turns", "waiting")

    def __init__(self, members: frozenset[int], began: float) -> None:
        self.members = members
        self.turns: set[int] = set()
        self.elsewhere: set[int] = set()
        self.waiting = ReadyQueue()
        self.began = began

    @property
    def occupied(self) -> bool:
        """Nobody else may have a turn."""
        return bool(self.turns or self.elsewhere)

    @property
    def contested(self) -> bool:
        """Whoever has a turn and nothing out has to give it up."""
        return len(self.turns) > 1 or bool(self.elsewhere)


class Regrouped(NamedTuple):
    """Groups have changed.

    :ivar members: of the groups that are gone, and of those in their place.
    :ivar waiting: who waited in those that are gone.
    """

    members: set[int]
    waiting: list[Ready]


class HostGroups:
    """All groups.

    :param serial: ``watched``, ``all`` or ``no``.
    :ivar later: what is so of a provider once nothing is out of it.
    :ivar leaving: providers that were removed, with how many of their orders are out.
    """

    def __init__(self, serial: str = WATCHED) -> None:
        self._serial = serial
        self._known: dict[int, ProviderHosts] = {}
        self._at: dict[str, list[int]] = {}
        self._groups: dict[int, HostGroup] = {}
        self.later: dict[int, ProviderHosts] = {}
        self.leaving: dict[int, int] = {}
        self._withheld: set[int] = set()
        self._with_waiting: dict[HostGroup, None] = {}

    def get(self, pid: int) -> HostGroup | None:
        """The group that this provider belongs to; None: it shares no serial host."""
        return self._groups.get(pid)

    @property
    def groups(self) -> list[HostGroup]:
        """Each of them once."""
        return list({id(group): group for group in self._groups.values()}.values())

    @property
    def with_waiting(self) -> list[HostGroup]:
        """Those in which somebody waits for the turn of another one to end."""
        self._with_waiting = {group: None for group in self._with_waiting if group.waiting}
        return list(self._with_waiting)

    @property
    def waiting_count(self) -> int:
        """Providers that wait for the turn of another one to end."""
        return sum(len(group.waiting) for group in self.with_waiting) if self._with_waiting else 0

    def wait(self, group: HostGroup, turn: Ready) -> None:
        """Somebody else has its turn."""
        group.waiting.add(turn.pid, turn.place, turn.priority)
        self._with_waiting[group] = None

    # Which providers there are.

    def load(self, providers: Iterable[ProviderHosts], now: float) -> None:
        """Begin with these."""
        if self._serial == NO:
            return
        for provider in providers:
            self._enter(provider)
        self._group(set(self._known), now)

    def learn(self, provider: ProviderHosts, now: float, *, busy: bool = False) -> Regrouped | None:
        """These are a provider's hosts now; none: it is gone.

        :param busy: it may be being fetched from: it belongs to its former hosts, too, until :meth:`free`.
        :return: None: no group has changed.
        """
        pid = provider.pid
        before = self._known.get(pid)
        if self._serial == NO:
            return None
        self.later.pop(pid, None)
        if before is not None and (busy or pid in self.leaving or pid in self._withheld):
            both = tuple(sorted({*provider.hosts, *before.hosts}))
            union = ProviderHosts(pid, both, provider.watched or before.watched)
            if union != provider:
                self.later[pid] = provider
                provider = union
        if before == provider:
            return None
        touched = self._neighbours(pid)
        self._leave(pid)
        self._enter(provider)
        touched |= self._neighbours(pid)
        return self._regroup(touched, now)

    def free(self, pid: int, now: float) -> Regrouped | None:
        """Nothing is out of this provider any longer."""
        return self.learn(self.later[pid], now) if pid in self.later else None

    # What is out without a turn.

    def withhold(self, pids: Iterable[int]) -> None:
        """These may be being fetched from by order of an earlier queue manager."""
        for pid in pids:
            self._withheld.add(pid)
            if (group := self._groups.get(pid)) is not None:
                group.elsewhere.add(pid)

    def known(self, pid: int) -> None:
        """What is out of this one is known."""
        self._withheld.discard(pid)
        group = self._groups.get(pid)
        if group is not None and pid not in self.leaving:
            group.elsewhere.discard(pid)

    def let_go(self, now: float) -> list[Regrouped]:
        """Nothing is out any longer of those that were withheld."""
        withheld, self._withheld = self._withheld, set()
        for group in self.groups:
            group.elsewhere = set(group.members & self.leaving.keys())
            group.began = now
        return [done for pid in withheld if (done := self.free(pid, now)) is not None]

    def removed(self, pid: int, busy: int, now: float) -> Regrouped | None:
        """A provider is gone.

        :param busy: its orders that are out: :meth:`answered` is to be called for each.
        """
        if busy and pid in self._known:
            self.leaving[pid] = self.leaving.get(pid, 0) + busy
            if (group := self._groups.get(pid)) is not None:
                group.elsewhere.add(pid)
        return self.learn(ProviderHosts(pid, (), False), now)

    def answered(self, pid: int, now: float) -> Regrouped | None:
        """An order has come back, or is lost; only those of removed providers count."""
        left = self.leaving.get(pid)
        if left is None:
            return None
        if left > 1:
            self.leaving[pid] = left - 1
            return None
        del self.leaving[pid]
        return self.free(pid, now)

    # Intervals.

    def began(self, pid: int, begun: float) -> None:
        """A fetch of this provider began then, or earlier."""
        group = self._groups.get(pid)
        if group is not None:
            group.began = max(group.began, begun)

    def stepped(self, step: float) -> None:
        """The wall clock was set by so many seconds."""
        for group in self.groups:
            group.began += step

    # Inside.

    def _enter(self, provider: ProviderHosts) -> None:
        if provider.hosts:
            self._known[provider.pid] = provider
            for host in provider.hosts:
                self._at.setdefault(host, []).append(provider.pid)

    def _leave(self, pid: int) -> None:
        before = self._known.pop(pid, None)
        for host in () if before is None else before.hosts:
            there = self._at[host]
            there.remove(pid)
            if not there:
                del self._at[host]

    def _neighbours(self, pid: int) -> set[int]:
        """It, those of its hosts, and those of their groups."""
        known = self._known.get(pid)
        there = {pid} if known is None else {pid, *(other for host in known.hosts for other in self._at[host])}
        groups = {group for other in there if (group := self._groups.get(other)) is not None}
        return there.union(*(group.members for group in groups))

    def _is_serial(self, there: list[int]) -> bool:
        return self._serial == ALL or any(self._known[pid].watched for pid in there)

    def _regroup(self, touched: set[int], now: float) -> Regrouped | None:
        gone = {id(group): group for pid in touched if (group := self._groups.pop(pid, None)) is not None}
        made = self._group(touched, now)
        if not gone and not made:
            return None
        waiting = [turn for group in gone.values() for turn in group.waiting.first(len(group.waiting))]
        for group in gone.values():
            self._with_waiting.pop(group, None)
        return Regrouped(touched, waiting)

    def _group(self, pids: set[int], now: float) -> bool:
        """Make the groups of these, all of whose neighbours are among them; whether there are any."""
        serial: dict[str, bool] = {}
        made = False
        left = pids & self._known.keys()
        while left:
            first = left.pop()
            found, to_see = {first}, [first]
            while to_see:
                for host in self._known[to_see.pop()].hosts:
                    if host not in serial:
                        serial[host] = self._is_serial(self._at[host])
                        if serial[host]:
                            new = left.intersection(self._at[host])
                            left -= new
                            found |= new
                            to_see += new
            if len(found) > 1:
                made = True
                group = HostGroup(frozenset(found), now)
                group.elsewhere = found & (self._withheld | self.leaving.keys())
                for pid in found:
                    self._groups[pid] = group
        return made
