"""The update notification server (UNS): takes sets of URLs in from providers, passes them on (seed 002, section 5).

*Owns* its spool (:mod:`lcc.storage.disk.spool`), one process at a time.  Of the database it reads providers and what
is to be told to them, and writes order numbers, connections, and full sets under way
(:mod:`lcc.storage.providers.sessions`).

*Strategy.*  Each connection is a :class:`~lcc.roles.uns.session.Session`: it checks who is there, tells the provider
how it stands, and takes its sets, element by element, into the spool.  A complete set gets its number and goes to the
one :class:`~lcc.roles.uns.forwarder.Forwarder`, which passes sets on in order over the one link to the queue manager
and says what the provider is to be told.  Nothing is kept in memory but what a transport holds, and some megabytes of
small sets until the queue manager has answered; what waits for longer, waits on the disk.

*Failures.*

* The queue manager is unreachable, slow, or disconnects midway: sets are answered from the spool, once they are on
  stable storage, and passed on later, in order, while new ones come in.
* The spool is over its size, or its disk is full (a reserve is kept): at init and for each further set, "try again
  later"; a set that does not fit any more is rejected, so.
* The database is unreachable: at init and where a set begins, "try again later".
* The disk fails: the set concerned is rejected.  A file that is damaged is moved aside, loudly.
* The process is killed: sets that were arriving are gone, as their providers know; complete ones are passed on by the
  next run.  One that the queue manager had already is applied only once.
* A notifier (scheduler, push server, spider) has a port of its own: see :mod:`lcc.roles.uns.notifiers.hub`.
* A provider sends nonsense, too much, or nothing, tries passwords, or does not read: clear rejection, bounded memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import UnsConfig
from lcc.domain.fetches.hours import DAY_SLOTS, parse_hours
from lcc.domain.mimetypes import MimePatterns
from lcc.domain.notices.elements import ElementChecker
from lcc.domain.throttle import LoginThrottle
from lcc.domain.urls import Roots
from lcc.errors import LccError, SetError, StoreUnavailable
from lcc.interfaces import IProviderReader, ISessionStore
from lcc.model import Provider, Source
from lcc.roles.uns.counters import Counters
from lcc.roles.uns.forwarder import Forwarder, InThread
from lcc.roles.uns.notifiers.hub import Notifiers
from lcc.roles.uns.sequencer import Sequencer
from lcc.storage.disk.free_space import fault_text
from lcc.storage.disk.spool import Spool
from lcc.transport.ports.connection_limits import Place

_log = Logger()
T = TypeVar("T")

_SLOW_LOG_SECONDS = 60.0


class OpenSession(Protocol):
    """What the engine does with a connection (:class:`~lcc.roles.uns.session.Session`)."""

    @property
    def place(self) -> Place: ...
    @property
    def pid(self) -> int: ...

    gateway: bool

    def describe(self) -> str: ...
    def stop(self) -> None: ...
    def drop(self) -> None: ...


class Uns:
    """The engine of a UNS.

    :param settings: the ``[uns]`` table.
    :param mimetypes: patterns of what the LCC takes.
    :param spool: not yet open.
    :param clock: for all timers.
    :param now: the wall clock, whole seconds.
    :param in_thread: calls a function in a thread.
    :param good_hello: called whenever a queue manager has said hello.
    :param slots: of the LCC's period of hours.
    :param watch: gives the provider of a normalised root; it is made, as a watched one, if there is none.  Further
        arguments: the seconds between fetches that robots.txt of its host asks for (None: not known); whether it may
        be on a private address; the hours (UTC) that robots.txt asks for.
    """

    def __init__(
        self,
        settings: UnsConfig,
        mimetypes: tuple[str, ...],
        spool: Spool,
        providers: IProviderReader,
        sessions: ISessionStore,
        clock: IReactorTime,
        now: Callable[[], int],
        in_thread: InThread,
        good_hello: Callable[[], None] = lambda: None,
        slots: int = DAY_SLOTS,
        watch: Callable[..., Deferred[int]] = lambda *site: fail(StoreUnavailable("no providers are made here")),
    ) -> None:
        self.settings = settings
        self.mimetypes = mimetypes
        self.spool = spool
        self.providers = providers
        self.sessions = sessions
        self.clock = clock
        self.now = now
        self.in_thread = in_thread
        self.counters = Counters()
        self.throttle = LoginThrottle(settings.failed_logins, settings.login_window)
        self.sequencer = Sequencer(sessions, clock, self.ask, now)
        self.forwarder = Forwarder(
            spool, clock, in_thread, settings.answer_timeout, self.counters, self.sequencer, good_hello
        )
        self.started = False
        self.stopping = False
        """It takes nothing any more: each provider gets its last answer."""
        self.paused_since: int | None = None
        """Since when an operator has it take no sets (seconds since 1970); None: it does."""
        self._slow_until = self._failing_until = 0.0
        self._told_full = False
        self._stopped: Deferred[None] | None = None
        self._patterns = MimePatterns(mimetypes)
        self._slots = slots
        self._open: set[OpenSession] = set()
        self._by_provider: Counter[tuple[int, bool]] = Counter()
        self._watching = False
        self.notifiers = Notifiers(
            self,
            lambda pid: self.ask(providers.provider(pid)),
            lambda pids: self.ask(sessions.last_drawn(pids)),
            lambda provider, source: self.checker(provider, "", source),
            lambda *site: self.ask(watch(*site)),
        )

    def start(self) -> None:
        """Open the spool; what an earlier run left waits for the queue manager.

        :raises OSError: the spool's folder cannot be used.
        """
        left = self.spool.open()
        self.started = True
        self.forwarder.load(left)
        self.notifiers.load([entry.header for entry in left])
        _log.info(
            "Spool {folder}, epoch {epoch}: {count} sets, {size} bytes",
            folder=str(self.spool.folder),
            epoch=self.spool.epoch,
            count=len(left),
            size=self.spool.size_bytes,
        )

    def stop(self) -> Deferred[None]:
        """End all connections in order: sets that are complete are answered, whatever else is under way is rejected
        with "try again later".

        :returns: fires when all are gone, after ``stop_timeout`` at the latest.
        """
        if self._stopped is None:
            self._stopped = Deferred()
            self.stopping = True
            self.forwarder.secure_waiting()
            for session in list(self._open):
                session.stop()
            self.notifiers.stop()
            timer = self.clock.callLater(self.settings.stop_timeout, self._drop_all)
            self._stopped.addCallback(lambda _: timer.cancel() if timer.active() else None)
            self._are_all_gone()
        stopped: Deferred[None] = Deferred()
        self._stopped.addCallback(stopped.callback)
        return stopped

    def _are_all_gone(self) -> None:
        if self._stopped is not None and not self._stopped.called and not self._open and not self.notifiers.open:
            self._stopped.callback(None)

    def _drop_all(self) -> None:
        if self._open:
            _log.info("Dropping {count} connections of providers", count=len(self._open))
        for session in list(self._open):
            session.drop()
        self.notifiers.drop_all()
        if self._stopped is not None and not self._stopped.called:
            self._stopped.callback(None)

    def close(self) -> None:
        """Cut all connections.  Nothing that was answered is lost."""
        self.forwarder.close()
        self.sequencer.close()
        for session in list(self._open):
            session.drop()
        self.notifiers.drop_all()

    def pause(self) -> None:
        """Take no sets until :meth:`resume`: providers are told to try again later.  Sets that are arriving are
        taken, what is here is passed on."""
        if self.paused_since is None:
            self.paused_since = self.now()
            self.forwarder.tell_paused(True)
            self.notifiers.check()

    def resume(self) -> None:
        """Take sets again."""
        if self.paused_since is not None:
            self.paused_since = None
            self.forwarder.tell_paused(False)
            self.notifiers.check()

    # For the sessions.

    @property
    def takes_sets(self) -> bool:
        """Nobody has it take no sets: it was not paused, and is not stopped."""
        return self.paused_since is None and not self.stopping

    def is_full(self) -> bool:
        """The spool takes no further set."""
        why = self.spool.no_room()
        if why and not self._told_full:
            _log.error("The spool is full: {why}; telling providers to try again later", why=why)
        elif self._told_full and not why:
            _log.info("The spool has room again")
        self._told_full = bool(why)
        return self._told_full

    def disk_failed(self, error: OSError) -> None:
        """The spool's disk has refused something.  It is logged once a minute, not for each set."""
        now = self.clock.seconds()
        if now >= self._failing_until:
            self._failing_until = now + _SLOW_LOG_SECONDS
            _log.error("Spool disk error: {fault}", fault=fault_text(self.spool.folder, error))

    def ask(self, question: Deferred[T]) -> Deferred[T]:
        """What the database answers, if it does in time.

        :raises StoreUnavailable: (as the Deferred's failure) it does not.
        """
        answer: Deferred[T] = Deferred()
        seconds = self.settings.database_timeout

        def late() -> None:
            now = self.clock.seconds()
            if now >= self._slow_until:
                self._slow_until = now + _SLOW_LOG_SECONDS
                _log.warn("No answer from the database for {seconds} s; a provider has to retry", seconds=seconds)
            answer.errback(StoreUnavailable("the database does not answer"))

        timer = self.clock.callLater(seconds, late)

        def answered(result: T | Failure) -> None:
            if timer.active():
                timer.cancel()
                answer.callback(result)

        question.addBoth(answered)
        return answer

    def session_opened(self, session: OpenSession) -> None:
        """A connection begins."""
        self._open.add(session)
        session.place.take()
        self.counters.connections += 1
        self.counters.connections_now = len(self._open)

    def session_let_in(self, session: OpenSession) -> None:
        """It is a provider's."""
        self._by_provider[session.pid, session.gateway] += 1
        self._look_for_standstills()

    def session_closed(self, session: OpenSession) -> None:
        """A connection is gone."""
        self._open.discard(session)
        session.place.leave()
        self.counters.connections_now = len(self._open)
        if session.pid:
            kind = session.pid, session.gateway
            self._by_provider[kind] -= 1
            if not self._by_provider[kind]:
                del self._by_provider[kind]
            self._look_for_standstills()
        self._are_all_gone()

    def notifiers_changed(self) -> None:
        """A notifier has connected, or is gone."""
        self._look_for_standstills()
        self._are_all_gone()

    def _look_for_standstills(self) -> None:
        """As long as somebody is there whose sets are ordered."""
        watching = bool(self._by_provider or self.notifiers.open)
        if watching != self._watching:
            self._watching = watching
            self.sequencer.watch(watching)

    @property
    def open_sessions(self) -> list[OpenSession]:
        """The connections of providers, and of those who have not said who they are."""
        return list(self._open)

    def sessions_of(self, pid: int, gateway: bool = False) -> int:
        """How many connections this provider has now.

        :param gateway: through gateways; else to the port of providers.
        """
        return self._by_provider.get((pid, gateway), 0)

    def check_hours(self, hours: str) -> None:
        """
        :raises LccError: they cannot be understood.
        """
        try:
            parse_hours(hours, self._slots)
        except ValueError as error:
            raise LccError("bad-hours", str(error)) from None

    def checker(self, provider: Provider, urlprefix: str, source: Source = Source.TOLD) -> ElementChecker:
        """What checks the elements of one set.

        :raises SetError: the set cannot be taken.
        """
        try:
            roots, former = Roots(provider.roots), Roots(provider.former_roots)
            return ElementChecker(roots, self._patterns, provider.hours, urlprefix, self._slots, former, source)
        except ValueError as error:
            _log.error("Invalid hours of provider {pid}: {error}", pid=provider.pid, error=str(error))
            raise SetError("internal") from None
