"""The push server's engine.

Owns ``pushkey`` and ``pushset`` (:mod:`lcc.storage.push.store`): no push is answered before it is on stable storage.

Strategy: a push is checked by itself (:mod:`lcc.domain.push.indexnow`), against limits of its address and site, and
against what waits already; an order number of its provider is drawn as it arrives; then it is stored, together with
what arrives at the same time.  :class:`~lcc.roles.push.prover.Prover` fetches key files,
:class:`~lcc.roles.push.teller.Teller` tells the UNS.  :class:`~lcc.roles.push.subscriber.Subscriber` has hubs push
what is new in feeds.

Failures: while the database or the claim is missing, pushes are answered 503.  While the UNS is away they are
accepted, as many as ``[push] untold_max``.  A newer push server takes the tables over: this one ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from lcc.config import PushConfig
from lcc.domain.push.indexnow import PushRefused
from lcc.domain.throttle import Throttle
from lcc.errors import Busy, StoreUnavailable
from lcc.model import StoredError
from lcc.model.push.pushes import KeyState, PushClaim, PushRecord, SiteKey, Submission
from lcc.model.sources import Source
from lcc.roles.proof_files import ProofFiles
from lcc.roles.push.counters import Counters
from lcc.roles.push.draws import Draws
from lcc.roles.push.prover import Prover
from lcc.roles.push.sets import SetIntake
from lcc.roles.push.subscriber import Subscriber
from lcc.roles.push.teller import Teller
from lcc.storage.database.database import Database
from lcc.storage.providers.watched import roots_on
from lcc.storage.push.store import PURGED_AT_ONCE, Arrival, PushStore
from lcc.storage.views.inspect import errors_below
from lcc.transport.ports.connection_limits import party_of_host

_log = Logger()
T = TypeVar("T")

TICK_SECONDS = 1.0
PURGE_SECONDS = 600
BOUND_SECONDS = 60
DATABASE_SECONDS = 20.0
ERRORS_SHOWN = 100
BUSY_SECONDS = 30.0
"""After which a sender may try again when there is no room."""


class Report(NamedTuple):
    """What became of pushes.

    :ivar pushes: lately, the newest first; ``errors``: of fetches of what was pushed below the folder of the key.
    """

    key: SiteKey
    pushes: list[PushRecord]
    errors: list[StoredError]


class PushServer:
    """See :mod:`lcc.roles.push.engine`.

    :param main: the database of providers; only read.
    :param clock: the reactor or a clock.
    :param now: seconds since 1970.
    :param ended: called when another push server has claimed the tables.
    :ivar claimed: called with each claim of the tables.
    :ivar subscriber: None: hubs of feeds are left alone.
    :ivar sets: takes the sets of providers; None: none are taken here.
    :ivar paused_since: seconds since 1970; None: it is not paused.
    :ivar unproven: URLs that wait for the proof of a key; ``untold``: that the UNS has not answered.
    """

    def __init__(
        self,
        settings: PushConfig,
        store: PushStore,
        main: Database,
        files: ProofFiles,
        clock: IReactorTime,
        now: Callable[[], float],
        ended: Callable[[], object],
    ) -> None:
        self.settings = settings
        self.now = now
        self.counters = Counters()
        self.draws = Draws()
        self.claimed: Callable[[PushClaim], object] = lambda claim: None
        self.subscriber: Subscriber | None = None
        self.paused_since: float | None = None
        self.unproven = self.untold = 0
        self.is_claimed = False
        self.trouble = ""
        self.sets: SetIntake | None = None
        self.store = store
        self._main = main
        self._clock = clock
        self._ended = ended
        self._requests = Throttle(settings.requests_max, settings.throttle_window)
        self._new_keys = Throttle(settings.keys_max, settings.throttle_window)
        self._prover = Prover(settings, files, store, main, self.draws, self.now, self.counters, self._proof_ended)
        registers = settings.unknown_sites == "register"
        self._teller = Teller(store, main, self.draws, registers, self.counters, self._answered, self._waits_again)
        self._ticker = LoopingCall(self._tick)
        self._ticker.clock = clock
        self._purge_due = self._bound_due = clock.seconds()

    def start(self) -> None:
        """Claim the tables, and work."""
        self._ticker.start(TICK_SECONDS)

    def stop(self) -> None:
        """End; what is not told yet stays in the tables."""
        if self._ticker.running:
            self._ticker.stop()
        self._prover.stop()
        self._teller.stop()
        if self.subscriber is not None:
            self.subscriber.stop()
        if self.draws.link is not None:
            self.draws.link.close()

    def pause(self) -> None:
        """Accept no pushes until :meth:`resume`; what was accepted is told."""
        if self.paused_since is None:
            self.paused_since = self.now()

    def resume(self) -> None:
        """End what :meth:`pause` began."""
        self.paused_since = None

    async def push(self, submission: Submission, address: str = "") -> SiteKey:
        """Take a push.

        :param address: where it comes from; empty: nobody counts that.
        :returns: its key, WAITING, APPROVAL, APPROVED or PROVEN: the push is on stable storage.
        :raises PushRefused: it is not.
        :raises StoreUnavailable: it may or may not be: to be sent again.
        """
        try:
            key = await self._push(submission, address)
        except PushRefused:
            self.counters.refused += 1
            raise
        self.counters.pushes += 1
        self.counters.urls += len(submission.urls)
        return key

    async def _push(self, submission: Submission, address: str) -> SiteKey:
        self.check_claimed()
        known = await self.ask(self.store.find(submission))
        now = int(self.now())
        if known is None or (known.state is KeyState.REFUSED and known.due_time <= now):
            await self._may_be_named(submission, address)
        elif known.state is KeyState.REFUSED:
            raise PushRefused(403, known.why)
        proven = known is not None and known.state is KeyState.PROVEN
        full = "the UNS" if proven else "the proof of their keys"
        count, most = (
            (self.untold, self.settings.untold_max) if proven else (self.unproven, self.settings.unproven_max)
        )
        if count + len(submission.urls) > most:
            raise PushRefused(429, f"{count:,} URLs wait for {full} already, try again later", BUSY_SECONDS)
        pid = known.pid if proven and known is not None else 0
        order = await self.draws.draw(pid) if pid else 0
        storing = self.store.accept(Arrival(submission, pid, order, now))
        # Whether or not who asked still waits.
        key = await self.ask(storing.addCallback(self._stored, len(submission.urls)))
        if key.state is KeyState.REFUSED:
            raise PushRefused(403, key.why)
        return key

    def check_claimed(self) -> None:
        """Something is to be stored.

        :raises PushRefused: nothing can be at present.
        """
        if self.paused_since is not None or not self.is_claimed:
            raise PushRefused(503, "the push server accepts nothing at present, try again later", BUSY_SECONDS)

    def _stored(self, key: SiteKey, count: int) -> SiteKey:
        if key.state is KeyState.PROVEN:
            self.untold += count
            self._teller.tick()
        elif key.state is not KeyState.REFUSED:
            self.unproven += count
            self._prover.tick()
        return key

    async def _may_be_named(self, submission: Submission, address: str) -> None:
        """
        :raises PushRefused: no new key of this site may be named, or from there.
        """
        if self.settings.unknown_sites == "refuse":
            roots = await self.ask(self._main.interact(roots_on, submission.site, 1))
            if not roots:
                raise PushRefused(403, f"{submission.site} is no provider's, and others are not accepted here")
        keys: list[tuple[str, int | str]] = [("site", submission.site)]
        if address:
            keys.append(("address", party_of_host(address)))
        wait = self._new_keys.take(keys, self._clock.seconds())
        if wait:
            raise PushRefused(429, "too many new keys of this site or from this address, try again later", wait)

    def check_rate(self, address: str) -> None:
        """Somebody asks for something.

        :raises PushRefused: too often.
        """
        if not address:
            return
        wait = self._requests.take([("address", party_of_host(address))], self._clock.seconds())
        if wait:
            raise PushRefused(429, "too many requests from this address, try again later", wait)

    async def report(self, host: str, key: str) -> list[Report]:
        """What became of the pushes of a site with a key.

        :param host: normal, with its port unless that is the usual one.
        """
        found = await self.ask(self.store.report([f"http://{host}/", f"https://{host}/"], key))
        reports = []
        for each, pushes in found:
            errors: list[StoredError] = []
            if each.state is KeyState.PROVEN and each.pid:
                asked = self._main.interact(errors_below, each.pid, Source.PUSHED, each.folder, ERRORS_SHOWN)
                errors = await self.ask(asked)
            reports.append(Report(each, pushes, errors))
        return reports

    def _proof_ended(self, count: int, told: bool) -> None:
        self.unproven -= count
        if told:
            self.untold += count
            self._teller.tick()

    def _answered(self, count: int) -> None:
        self.untold -= count

    def _waits_again(self, count: int) -> None:
        self.untold -= count
        self.unproven += count

    async def _tick(self) -> None:
        if self.sets is not None:
            self.sets.gateway.tick()
        try:
            if not self.is_claimed:
                claim = await self.store.claim()
                self.unproven, self.untold = claim.unproven, claim.untold
                self.is_claimed = True
                self.claimed(claim)
            await self.store.check()
            await self._bound_waits()
            if self._clock.seconds() >= self._purge_due:
                await self._purge()
            self._prover.tick()
            self._teller.tick()
            if self.subscriber is not None:
                self.subscriber.tick()
            self.trouble = ""
        except StoreUnavailable as error:
            self.trouble = str(error)  # the store has logged it
        except Busy as error:
            _log.error("{error}: this one ends", error=str(error))
            self.is_claimed = False
            self._ticker.stop()
            self._ended()
        except Exception as error:
            self.trouble = str(error)
            _log.failure("Periodic tick failed")

    async def _bound_waits(self) -> None:
        """The wall clock may have been set back, also while no push server ran: nothing waits for too long.

        Not just when it was: what is under way then is noted later, by the time of before.
        """
        if self._clock.seconds() >= self._bound_due:
            await self.store.bound_waits(int(self.now()), self._prover.longest_waits)
            if self.subscriber is not None:
                await self.subscriber.bound_waits()
            self._bound_due = self._clock.seconds() + BOUND_SECONDS

    async def _purge(self) -> None:
        more = await self.store.purge(int(self.now()) - self.settings.keep) >= PURGED_AT_ONCE
        if self.sets is not None and await self.sets.purge():
            more = True
        # An operator may have refused what waits.
        self.unproven, self.untold = await self.store.counts()
        # What is left goes with the next ticks: it is pushed faster than some thousands in ten minutes.
        self._purge_due = self._clock.seconds() + (0 if more else PURGE_SECONDS)

    def ask(self, question: Deferred[T]) -> Deferred[T]:
        """What the database answers, if it does in time."""

        def late(_result: Any, _seconds: float) -> Any:
            raise StoreUnavailable("the database is not responding")

        answer: Deferred[T] = Deferred()
        question.addBoth(lambda result: None if answer.called else answer.callback(result))
        return answer.addTimeout(DATABASE_SECONDS, self._clock, late)
