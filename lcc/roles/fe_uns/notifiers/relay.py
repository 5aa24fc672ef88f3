"""The front end's port of notifiers: what its connections share.

*Owns* nothing that outlives it.  A set goes to the sub-LCC that its provider is in, as FEDB and PMDB say; a site that
is to be watched to the one that has a provider for it, else to the one with the most free room.

*Strategy.*  Two notifiers, or two front ends, may ask for the same new site at once: where it goes is claimed in the
front end's database first.

*Failures.*  The front end's database is away: sets wait, questions are answered "try again later".  So it is with
what is for a sub-LCC without a port of notifiers, until an operator says where that is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred

from lcc.domain.urls import normalise_root
from lcc.errors import ConfigError, LccError, StoreUnavailable, code
from lcc.model.frontend.places import AtHome, SubLcc
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import Window
from lcc.roles.fe_uns.engine import FeUns

SET_URLS_MAX = 10_000
SET_BYTES_MAX = 4 << 20
WINDOW_BYTES = 4 << 20


class NotNow(NamedTuple):
    """A provider cannot be spoken of for now.

    :ivar why: for people.
    """

    why: str


Home = SubLcc | NotNow | None
"""Where a provider is; None: there can be no such one."""


class Refused(Exception):
    """A question is not answered.

    :ivar code, text: as the notifier is told.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.code = number
        self.text = text


class SubLink(Protocol):
    """The link of one notifier to one sub-LCC (:class:`lcc.roles.notifier.NotifierLink`)."""

    sub: SubLcc

    @property
    def held(self) -> str: ...
    def tell(self, told: SourcedSet, gaps: bool = False) -> Deferred[NoticeOutcome]: ...
    def watch(
        self, root: str, crawl_delay_ms: int | None = None, hours: str = "", private: bool = False
    ) -> Deferred[int]: ...
    def draw(self, pid: int, held: int = 0) -> Deferred[int]: ...
    def close(self) -> None: ...


class OpenNotifier(Protocol):
    """What is done with a connection."""

    @property
    def name(self) -> str: ...
    def describe(self) -> str: ...
    def stop(self) -> None: ...
    def drop(self) -> None: ...


class NotifierRelay:
    """See :mod:`lcc.roles.fe_uns.notifiers.relay`.

    :param connect: makes a link of this notifier to a sub-LCC's port of notifiers.
    :param choose: the sub-LCC for a site that is to be watched (normalised root); fails with StoreUnavailable; None:
        none has room.
    :param sets_max: of one notifier, without an answer.
    """

    def __init__(
        self,
        uns: FeUns,
        connect: Callable[[SubLcc, Hello], SubLink],
        choose: Callable[[str], Deferred[SubLcc | None]],
        sets_max: int,
    ) -> None:
        self.uns = uns
        self.window = Window(sets_max, WINDOW_BYTES, SET_URLS_MAX, SET_BYTES_MAX)
        self.open: dict[OpenNotifier, None] = {}
        self._connect = connect
        self._choose = choose

    def opened(self, connection: OpenNotifier) -> None:
        """It has said hello; an earlier connection of the same notifier is dropped."""
        for other in [each for each in self.open if each.name == connection.name]:
            other.drop()
        self.open[connection] = None
        self.uns.counters.notifier_connections += 1

    def closed(self, connection: OpenNotifier) -> None:
        """It is gone."""
        self.open.pop(connection, None)

    def stop(self) -> None:
        """Answer what is under way, and end all connections."""
        for connection in list(self.open):
            connection.stop()

    def drop_all(self) -> None:
        """Cut all connections."""
        for connection in list(self.open):
            connection.drop()

    # For the connections.

    def connect(self, sub: SubLcc, hello: Hello) -> SubLink:
        """A link of this notifier to this sub-LCC.

        :raises Refused: its endpoint cannot be used.
        """
        try:
            return self._connect(sub, hello)
        except ConfigError as error:
            raise Refused(code("try-later"), f"sub-LCC {sub.name}: {error}") from None

    async def homes(self, pids: Collection[int]) -> Mapping[int, Home]:
        """Where each of these providers is."""
        asking = {pid: Deferred.fromCoroutine(self._home(pid)) for pid in sorted(pids)}
        return {pid: await home for pid, home in asking.items()}

    async def _home(self, pid: int) -> Home:
        if not self.uns.takes_logins:
            return NotNow("the front end is paused, or stops")
        try:
            found = await self.uns.find(pid)
        except StoreUnavailable as error:
            return NotNow(str(error))
        if found is None:
            return None
        sub, placement = found
        if placement.state is AtHome.FROZEN:
            return NotNow(f"provider {pid} is moving")
        if not sub.notifiers:
            return NotNow(f"sub-LCC {sub.name} takes no notifiers (lcc-admin fe set --notifiers)")
        return sub

    async def site(self, root: str) -> SubLcc:
        """The sub-LCC where this site is watched, or will be.

        :raises Refused: there is none, or nobody can say.
        """
        try:
            sub = await self._choose(normalise_root(root))
        except StoreUnavailable as error:
            raise Refused(code("try-later"), str(error)) from None
        except LccError as error:
            raise Refused(error.code, error.text) from None
        if sub is None:
            raise Refused(code("limit"), "no sub-LCC that is open and not stale has room (lcc-admin fe list)")
        return sub
