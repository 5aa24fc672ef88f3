"""The port of notifiers: what its connections share.

*Owns* what is known of the sets of each notifier (:mod:`lcc.roles.uns.notifiers.known`), and the limits of all of
them together.

*Strategy.*  A notifier's sets go the way of a provider's: the same checks, the same spool, the same link to the
queue manager.  Only few of them are under way at any time, so that a provider's set never waits behind many; a
notifier that sends faster is not read from.  They wait for the queue manager as long as it is connected: only when it
is away are they written to files, many by one sync.  They get a part of the spool; the rest is the providers'.

*Failures.*  What passes is no answer: where the spool has no room, the database or the disk fails, or an operator has
paused this UNS, the notifier is told to hold its sets, and sends all that have no answer again when it is over.  A
notifier that is lost, and comes again, finds what is under way and what was answered; after a crash of this process
the queue manager knows what it has applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import inf
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.config import UnsConfig
from lcc.domain.notices.elements import ElementChecker
from lcc.domain.urls import normalise_root, site_of
from lcc.errors import LccError, StoreUnavailable, UrlError, code
from lcc.model import Provider, SetHeader, SetStart, Source
from lcc.protocols.notifiers import Window
from lcc.roles.uns.counters import Counters
from lcc.roles.uns.delivery import ACCEPTED, Verdict
from lcc.roles.uns.forwarder import Forwarder
from lcc.roles.uns.notifiers.checkers import Checkers
from lcc.roles.uns.notifiers.known import KnownNotifier, KnownNotifiers
from lcc.roles.uns.sequencer import Sequencer
from lcc.storage.disk.set_file import SpooledSet
from lcc.storage.disk.spool import Spool

SET_URLS_MAX = 10_000
SET_BYTES_MAX = 4 << 20
WINDOW_BYTES = 4 << 20
FAILED_SECONDS = 10.0
"""How long sets are held after database or disk have failed."""
SPOOL_SHARE = 0.5
"""A spool that is filled to this share takes no more sets of notifiers."""
_WATCHED_AHEAD_SECONDS = 2.0


class Refused(Exception):
    """A question is not answered.

    :ivar code, text: as the notifier is told.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.code = number
        self.text = text


class Server(Protocol):
    """What the port needs of its UNS (:class:`lcc.roles.uns.engine.Uns`)."""

    settings: UnsConfig
    spool: Spool
    clock: IReactorTime
    now: Callable[[], int]
    counters: Counters
    sequencer: Sequencer
    forwarder: Forwarder
    stopping: bool

    @property
    def takes_sets(self) -> bool: ...
    def is_full(self) -> bool: ...
    def disk_failed(self, error: OSError) -> None: ...
    def notifiers_changed(self) -> None: ...
    def check_hours(self, hours: str) -> None: ...


class OpenNotifier(Protocol):
    """What the hub does with a connection."""

    @property
    def is_held(self) -> bool: ...

    def check(self) -> None:
        """Whether sets are taken may have changed."""

    def room_made(self) -> None:
        """Less is under way."""

    def stop(self) -> None:
        """Answer what is under way, and end."""

    def drop(self) -> None:
        """Cut the connection."""

    def describe(self) -> str:
        """Who it is and what it does, for a person."""


class Notifiers:
    """See :mod:`lcc.roles.uns.notifiers.hub`.

    :param read: gives a provider.
    :param read_orders: gives the last order numbers drawn.
    :param make_checker: what checks a provider's elements.
    :param watch: gives the provider of a normalised root, and makes it; see :class:`lcc.roles.uns.engine.Uns`.
    """

    def __init__(
        self,
        uns: Server,
        read: Callable[[int], Deferred[Provider | None]],
        read_orders: Callable[[Collection[int]], Deferred[dict[int, int]]],
        make_checker: Callable[[Provider, Source], ElementChecker],
        watch: Callable[..., Deferred[int]],
    ) -> None:
        self.uns = uns
        settings = uns.settings
        self.window = Window(settings.notifier_sets_max, WINDOW_BYTES, SET_URLS_MAX, SET_BYTES_MAX)
        self.checkers = Checkers(uns.clock, read, read_orders, make_checker)
        self.known = KnownNotifiers(2 * settings.notifier_sets_max)
        self.open: dict[OpenNotifier, None] = {}
        """Those that have said hello."""
        self.sets_under_way = 0
        self._sets_max = 2 * settings.notifier_sets_max
        self._watch = watch
        self._next_watch = -inf

    def load(self, spooled: Collection[SetHeader]) -> None:
        """These are what an earlier run left in the spool."""
        self.known.load(spooled)

    def opened(self, connection: OpenNotifier) -> None:
        """It has said hello."""
        self.open[connection] = None
        self.uns.counters.notifier_connections += 1
        self.uns.notifiers_changed()

    def closed(self, connection: OpenNotifier) -> None:
        """It is gone."""
        self.open.pop(connection, None)
        self.uns.notifiers_changed()

    def check(self) -> None:
        """Whether sets are taken may have changed."""
        for connection in list(self.open):
            connection.check()

    def stop(self) -> None:
        """Answer what is under way, and end all connections."""
        for connection in list(self.open):
            connection.stop()

    def drop_all(self) -> None:
        """Cut all connections."""
        for connection in list(self.open):
            connection.drop()

    # For the connections.

    def trouble(self) -> str:
        """Why no sets are taken for now, for people; empty: they are."""
        uns = self.uns
        if uns.stopping:
            return "this UNS stops"
        if not uns.takes_sets:
            return "an operator has paused this UNS"
        if uns.is_full():
            return "the spool is full"
        if uns.spool.size_bytes >= SPOOL_SHARE * uns.spool.size_max_bytes:
            return "the notifiers' part of the spool is full"
        return ""

    @property
    def has_room(self) -> bool:
        """More sets may be under way."""
        return self.sets_under_way < self._sets_max

    def deliver(self, notifier: KnownNotifier, number: int, entry: SpooledSet) -> None:
        """Pass a complete set on; its notifier's connection, if there is one, is told when there is an answer."""
        notifier.outcomes[number] = None
        self.sets_under_way += 1
        self.uns.forwarder.deliver(entry, patient=True).addCallback(partial(self._answered, notifier, number))

    def _answered(self, notifier: KnownNotifier, number: int, verdict: Verdict | None) -> None:
        self.sets_under_way -= 1
        connection = notifier.connection
        # One that is the fault of neither disk nor database may be the set's own: it must not be told again for ever.
        is_certain = verdict is not None and (verdict.of_disk or verdict.code == code("try-later"))
        passing = verdict is not None and (
            is_certain or (verdict.code == code("internal") and number not in notifier.failed)
        )
        if verdict is None or passing:
            # It may or may not have been taken: when it comes again, the queue manager tells.
            notifier.outcomes.pop(number, None)
        if verdict is None:
            if connection is not None:
                connection.drop()
        elif passing:
            if not is_certain:
                notifier.failed.add(number)
            if connection is not None:
                connection.hold(verdict.text or "the set could not be stored", FAILED_SECONDS)
        else:
            notifier.settle(number, verdict, self._sets_max)
            if connection is not None:
                connection.settled()
        if self.sets_under_way == self._sets_max - 1:
            for each in list(self.open):
                each.room_made()

    def note_answered(self, notifier: KnownNotifier, number: int, verdict: Verdict = ACCEPTED) -> None:
        """A set that is not passed on has this answer."""
        notifier.settle(number, verdict, self._sets_max)

    async def draw(self, pid: int, held: int) -> int:
        """The order number of an asking that begins now.

        :raises Refused: there is none.
        """
        uns = self.uns
        try:
            if self.checkers.lacks(pid, 0):
                await self.checkers.load([(pid, 0)])
            self.checkers.checker(pid, Source.LISTED)
            known = uns.forwarder.newest_order(pid)
            # A set with that number may wait here for the queue manager, while the next one is told through another
            # UNS, if this one is lost, and is there first.
            order = await uns.sequencer.begin(SetStart(pid, held if held > known else 0, known))
        except StoreUnavailable as error:
            raise Refused(code("try-later"), str(error)) from None
        except LccError as error:
            raise Refused(error.code, error.text) from None
        self.checkers.drawn(pid, order)
        uns.counters.notifier_draws += 1
        return order

    async def watch(
        self, root: str, crawl_delay_ms: int | None = None, private: bool = False, hours: str = ""
    ) -> int:
        """The provider of this root.

        :param crawl_delay_ms: between fetches, as robots.txt of this host asks for.
        :param private: it may be on a private address.
        :param hours: in UTC, in which its robots.txt wants visits.
        :raises Refused: there is none, and none is made.
        """
        wait = self._watch_wait_seconds()
        if wait:
            waited: Deferred[None] = Deferred()
            self.uns.clock.callLater(wait, waited.callback, None)
            await waited
        try:
            normal = normalise_root(root)
            if crawl_delay_ms is not None and normal != site_of(normal):
                raise UrlError("bad-url", f"{normal[:200]}: robots.txt is about a whole host")
            self.uns.check_hours(hours)
            delay = None if crawl_delay_ms is None else crawl_delay_ms / 1000
            pid = await self._watch(normal, delay, private, hours)
        except StoreUnavailable as error:
            raise Refused(code("try-later"), str(error)) from None
        except LccError as error:
            raise Refused(error.code, error.text) from None
        self.checkers.forget(pid)
        self.uns.counters.notifier_watches += 1
        return pid

    def _watch_wait_seconds(self) -> float:
        """How long this watch has to wait, because there were many."""
        now = self.uns.clock.seconds()
        begins = max(self._next_watch, now - _WATCHED_AHEAD_SECONDS)
        self._next_watch = begins + 1 / self.uns.settings.notifier_watches_per_second
        return max(0.0, begins - now)
