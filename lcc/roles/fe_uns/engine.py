"""The front end's proxy of UNSes (seed 002, section 12: FECP): one address for the providers of several sub-LCCs.

*Owns* nothing.  It reads FEDB (the sub-LCCs, kept in memory and read anew every second) and PMDB (asked at each
login).

*Strategy.*  Of a connection it reads ``<init>`` only (:class:`~lcc.roles.fe_uns.login.Login`), finds the sub-LCC that
the provider is in, connects to one of its UNSes, says there what was said here, and splices the two connections
(:mod:`lcc.transport.splice`).  The sub-LCC's UNS judges the password, and does all the rest; by the PROXY protocol it
is told the provider's address.  Any number of these proxies can run side by side.

*Failures.*

* FEDB is away, or has no primary; no UNS of the sub-LCC can be reached: "try again later", in the protocol's words.
* The provider is moving, or being made: its login waits for some seconds, then it hears "try again later".
* An id that no sub-LCC has: what a UNS says to an unknown provider, after the same time; who tries many is throttled.
* A provider sends nonsense, too much, or nothing: as at a UNS.  Who does not read, or vanishes: cut off, once nothing
  has moved for ``idle_timeout``.
* The process is killed: connections are cut, as if the network were; providers come again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from lcc.config import FeUnsConfig
from lcc.domain.frontend.sub_lccs import home_of
from lcc.domain.throttle import LoginThrottle
from lcc.errors import StoreUnavailable
from lcc.model.frontend.places import Placement, SubLcc, SubState
from lcc.roles.asking import in_time
from lcc.roles.fe_uns.counters import Counters
from lcc.transport.ports.connection_limits import Place
from lcc.transport.splice import Splice, SpliceEnd

_log = Logger()

MAP_SECONDS = 1.0
"""Between two readings of FEDB."""
LOOK_SECONDS = 5.0
"""Between two looks at what stands still."""
HOLD_STEP_SECONDS = 0.25
PLACES_KEPT = 10_000
"""How often PMDB is asked whether a provider has moved."""


class Unreachable(Exception):
    """No UNS of a sub-LCC can be reached."""


class OpenLogin(Protocol):
    """What the engine does with a connection that is not spliced yet (:class:`~lcc.roles.fe_uns.login.Login`)."""

    @property
    def place(self) -> Place: ...
    def describe(self) -> str: ...
    def stop(self) -> None: ...
    def drop(self) -> None: ...


class Passing:
    """A provider that is connected to its sub-LCC.

    :ivar since: of the clock.
    """

    def __init__(self, splice: Splice, pid: int, sub: SubLcc, address: str, place: Place, since: float) -> None:
        self.splice = splice
        self.pid = pid
        self.sub = sub
        self.address = address
        self.place = place
        self.since = since


class FeUns:
    """The engine of the proxy.

    :param sublccs: reads FEDB.
    :param placement: asks PMDB; None: the provider has no row.
    :param connect: connects to a UNS of a sub-LCC; fails with :class:`Unreachable`.
    :param now: the wall clock, whole seconds.
    """

    def __init__(
        self,
        settings: FeUnsConfig,
        sublccs: Callable[[], Deferred[list[SubLcc]]],
        placement: Callable[[int], Deferred[Placement | None]],
        connect: Callable[[SubLcc], Coroutine[Deferred[Any], Any, SpliceEnd]],
        clock: IReactorTime,
        now: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.now = now
        self.connect = connect
        self.counters = Counters()
        self.throttle = LoginThrottle(settings.failed_logins, settings.login_window)
        self.sublccs: Mapping[int, SubLcc] | None = None
        """By their numbers; None: not read yet."""
        self.paused_since: int | None = None
        self.stopping = False
        self.passing: dict[Splice, Passing] = {}
        self.logins: set[OpenLogin] = set()
        self._read_sublccs = sublccs
        self._placement = placement
        self._places: OrderedDict[int, int] = OrderedDict()
        """Where providers were that logged in lately: what PMDB says next is most often the same."""
        self._stopped: Deferred[None] | None = None
        self._quiet_looks_max = max(2, round(settings.idle_timeout / LOOK_SECONDS))
        self._loops = LoopingCall(self._read_map), LoopingCall(self._look)

    def start(self) -> None:
        """Read FEDB, from now on."""
        for loop, seconds in zip(self._loops, (MAP_SECONDS, LOOK_SECONDS), strict=True):
            loop.clock = self.clock
            loop.start(seconds)

    def close(self) -> None:
        """Cut all connections."""
        for loop in self._loops:
            if loop.running:
                loop.stop()
        self._drop_all()

    def stop(self) -> Deferred[None]:
        """End: who has not got through is told to try again later; the others go on for ``stop_timeout`` at most.

        :returns: fires when all are gone.
        """
        if self._stopped is None:
            self._stopped = Deferred()
            self.stopping = True
            for login in list(self.logins):
                login.stop()
            timer = self.clock.callLater(self.settings.stop_timeout, self._drop_all)
            self._stopped.addCallback(lambda _: timer.cancel() if timer.active() else None)
            self._are_all_gone()
        stopped: Deferred[None] = Deferred()
        self._stopped.addCallback(stopped.callback)
        return stopped

    def pause(self) -> None:
        """Let nobody in until :meth:`resume`."""
        if self.paused_since is None:
            self.paused_since = self.now()

    def resume(self) -> None:
        """End what :meth:`pause` began."""
        self.paused_since = None

    @property
    def takes_logins(self) -> bool:
        """It is neither paused nor stopped."""
        return self.paused_since is None and not self.stopping

    @property
    def connections(self) -> int:
        """That there are."""
        return len(self.logins) + len(self.passing)

    # For the logins.

    async def find(self, pid: int) -> tuple[SubLcc, Placement] | None:
        """The sub-LCC that a provider is in, and how; None: there can be no such provider.

        :raises StoreUnavailable: the front end's database cannot be reached.
        """
        placement = await in_time(self._placement(pid), self.clock, self.settings.database_timeout)
        if placement is not None:
            self._places[pid] = placement.subid
            self._places.move_to_end(pid)
            if len(self._places) > PLACES_KEPT:
                self._places.popitem(last=False)
        if self.sublccs is None:
            raise StoreUnavailable("the sub-LCCs have not been read yet")
        if placement is None:
            sub = home_of(self.sublccs.values(), pid)
            placement = Placement(pid, 0 if sub is None else sub.subid)
        else:
            sub = self.sublccs.get(placement.subid)
            if sub is None:
                raise StoreUnavailable(f"sub-LCC {placement.subid} is not known yet")
        return None if sub is None or sub.state is SubState.REMOVED else (sub, placement)

    def guess(self, pid: int) -> SubLcc | None:
        """Where a provider probably is, while PMDB is asked; None: nobody knows."""
        sublccs = self.sublccs or {}
        known = self._places.get(pid)
        sub = home_of(sublccs.values(), pid) if known is None else sublccs.get(known)
        return None if sub is None or sub.state is SubState.REMOVED else sub

    def login_opened(self, login: OpenLogin) -> None:
        """A connection begins."""
        self.logins.add(login)
        login.place.take()
        self.counters.connections += 1

    def login_closed(self, login: OpenLogin) -> None:
        """A connection has ended that was not spliced."""
        self.logins.discard(login)
        login.place.leave()
        self._are_all_gone()

    def passes(self, login: OpenLogin, passing: Passing) -> None:
        """A connection is spliced from now on: its login is over."""
        self.logins.discard(login)
        self.passing[passing.splice] = passing
        self.counters.logins_passed += 1
        passing.splice.done.addCallback(lambda _: self._passed(passing))

    def _passed(self, passing: Passing) -> None:
        del self.passing[passing.splice]
        passing.place.leave()
        self.counters.bytes += passing.splice.bytes
        self._are_all_gone()

    # Inside.

    async def _read_map(self) -> None:
        try:
            found = await in_time(self._read_sublccs(), self.clock, self.settings.database_timeout)
        except StoreUnavailable:
            return  # which the store has logged; what was read before stays
        except Exception:
            _log.failure("Cannot read the sub-LCCs")
            return
        self.sublccs = {sub.subid: sub for sub in found}

    def _look(self) -> None:
        for splice in list(self.passing):
            splice.look(self._quiet_looks_max)

    def _drop_all(self) -> None:
        if self.connections:
            _log.info("Dropping {count} connections of providers", count=self.connections)
        for login in list(self.logins):
            login.drop()
        for splice in list(self.passing):
            splice.abort()
        if self._stopped is not None and not self._stopped.called:
            self._stopped.callback(None)

    def _are_all_gone(self) -> None:
        if self._stopped is not None and not self._stopped.called and not self.connections:
            self._stopped.callback(None)
