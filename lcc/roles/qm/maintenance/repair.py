"""Noticing that a database, or a UNS's spool, has gone back in time, and what is done then.

Each peer's hello says what it remembers (:mod:`lcc.storage.queue.repair`); it is compared before anything else that
the peer says is looked at.

* *The database is behind* (a set was answered that it does not know; a BOT-M heard of a change that it does not
  know): it was lost, or put back from a backup.  All providers are asked for full sets (``cache-crash``); the
  database gets a new epoch, so that content users start again; its counters jump ahead.  When several peers remember
  more than the database, that is one loss: it is dealt with once in a run, and what the others say is noted.
* *A UNS is behind* (it would give numbers again that the database knows): its spool was put back from a backup.  New
  sets under old numbers would be taken for sets that are applied already and be lost in silence; so it is told to
  begin a new epoch, and is not listened to until it has.  Sets that it had accepted may be lost with the spool: all
  providers are asked for full sets.

No alarm: a fresh UNS or BOT-M, a UNS with another name, sets that were refused, commits whose answers were lost, a
BOT-M that still names a former epoch of this database.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import Busy, StreamError
from lcc.interfaces import IQueueStore
from lcc.model import Claim, UnsStanding
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import NewEpoch
from lcc.protocols.work import Names
from lcc.roles.qm.patience import Patience
from lcc.roles.qm.peers.connections import Caller, Guest
from lcc.roles.qm.peers.handshake import Newcomer

_log = Logger()

CACHE_CRASH = "cache-crash"


class Repairing(Protocol):
    """What is needed of the engine."""

    def fatal(self, error: Busy) -> None:
        """A newer queue manager has claimed the database."""


class Repair:
    """Compares hellos with the database.

    :param random: gives numbers in [0, 1), for the names of epochs.
    :ivar epoch: the database's epoch; empty until it is known.
    :ivar losses: how often the database was found to have gone back in time, since the start.
    :ivar spools_behind: how often a UNS was.
    """

    def __init__(
        self, engine: Repairing, store: IQueueStore, patience: Patience, random: Callable[[], float]
    ) -> None:
        self.epoch = ""
        self.losses = 0
        self.spools_behind = 0
        self._engine = engine
        self._store = store
        self._patience = patience
        self._random = random
        self._lock = DeferredLock()
        self._seen: set[tuple[str, str]] = set()
        self._told: set[tuple[str, str]] = set()
        self._works: set[Deferred[None]] = set()
        self._early: list[Callable[[], None]] = []
        self._stopped = False

    def begin(self, claim: Claim) -> None:
        """The database is there: look at those who came before."""
        self.epoch = claim.database_epoch
        early, self._early = self._early, []
        for examine in early:
            examine()

    def stop(self) -> None:
        """End what is going on."""
        self._stopped = True
        self._early.clear()
        for work in list(self._works):
            work.cancel()

    def welcome(self, visitor: Caller, hello: Hello, admit: Callable[[], Guest]) -> Guest:
        """Somebody has said hello: what is to be done with what it says.

        :param admit: lets it in.
        """
        if not (hello.epoch and (hello.acked or hello.numbers_upto)) and not (hello.machine and hello.names_upto):
            return admit()  # it remembers nothing
        newcomer = Newcomer(admit)
        examine = partial(self._start, visitor, hello, newcomer)
        if self.epoch:
            examine()
        else:
            self._early.append(examine)
        return newcomer

    def _start(self, visitor: Caller, hello: Hello, newcomer: Newcomer) -> None:
        work: Deferred[None] = Deferred.fromCoroutine(self._examine(visitor, hello, newcomer))
        self._works.add(work)
        work.addErrback(lambda failure: failure.trap(CancelledError) and None)
        work.addErrback(self._failed, visitor)
        work.addBoth(lambda _: self._works.discard(work))

    def _failed(self, failure: Failure, visitor: Caller) -> None:
        if isinstance(failure.value, Busy):
            self._engine.fatal(failure.value)
            return
        if isinstance(failure.value, StreamError):
            visitor.stream_failed(failure.value)  # its hello was in order, but it cannot be let in
            return
        _log.failure("The hello of {peer} cannot be examined", failure=failure, peer=visitor.describe())
        visitor.drop()

    async def _examine(self, visitor: Caller, hello: Hello, newcomer: Newcomer) -> None:
        await self._lock.acquire()
        try:
            known = await (self._uns if hello.role == "uns" else self._botm)(visitor, hello)
        finally:
            self._lock.release()
        if known and not self._stopped:
            newcomer.let_in()

    # UNSes.

    async def _uns(self, visitor: Caller, hello: Hello) -> bool:
        ask, store = self._patience.ask, self._store
        name, epoch, acked = hello.name, hello.epoch, hello.acked
        standing = await ask("a UNS's hello", lambda: store.check_uns(name, epoch, acked, hello.numbers_upto))
        if standing is UnsStanding.SPOOL_BEHIND:
            await self._spool_behind(visitor, hello)
            return False
        if standing is UnsStanding.DATABASE_BEHIND:
            await self._database_behind(
                ("uns", f"{name} {epoch}"),
                f"UNS {name} (epoch {epoch}) had set {acked} answered, of which the database knows nothing",
                0,
            )
            await ask("settling with a UNS", lambda: store.settle_uns(name, epoch, acked))
        self._seen.add(("uns", f"{name} {epoch}"))
        return True

    async def _spool_behind(self, visitor: Caller, hello: Hello) -> None:
        who = (hello.name, hello.epoch)
        if who not in self._told:
            self.spools_behind += 1
            _log.critical(
                "UNS {uns} would give set numbers from {upto} on again, in epoch {epoch}: its spool was put back "
                "from a backup. It is told to begin a new epoch; what it had accepted may be lost, so all providers "
                "are asked for full sets",
                uns=hello.name,
                upto=hello.numbers_upto,
                epoch=hello.epoch,
            )
            await self._want_all()
            self._told.add(who)
        visitor.say(NewEpoch(hello.epoch))
        visitor.leave()

    # BOT-Ms.

    async def _botm(self, visitor: Caller, hello: Hello) -> bool:
        witness = ("botm", f"{hello.machine}")
        timeline, change = hello.epoch, hello.acked
        if (
            timeline
            and change
            and not await self._patience.ask("a BOT-M's hello", lambda: self._store.check_witness(timeline, change))
        ):
            await self._database_behind(
                witness,
                f"BOT-M {hello.machine} was told of change {change} of timeline {timeline}, of which the database "
                "knows nothing",
                change if timeline.partition("-")[0] == self.epoch else 0,
            )
        self._seen.add(witness)
        await self._names(visitor, hello)
        return True

    async def _names(self, visitor: Caller, hello: Hello) -> None:
        """A content folder that was lost, or put back from a backup, would give ids again that rows refer to."""
        used = await self._patience.ask("a BOT-M's hello", lambda: self._store.names_used(hello.machine))
        if 0 < hello.names_upto <= used:
            _log.critical(
                "Machine {number} has given out file names up to {here} only; {known} is known: its content folder "
                "was lost or put back from a backup. Files of cached URLs are missing there, until lcc-admin fsck "
                "--repair is run on that machine",
                number=hello.machine,
                here=hello.names_upto - 1,
                known=used,
            )
            visitor.say(Names(used + 1))

    # What is done.

    async def _database_behind(self, who: tuple[str, str], why: str, least_change: int) -> None:
        if self.losses and who not in self._seen:
            _log.warn("{why}; it belongs to the loss that was noticed before", why=why)
            return
        self.losses += 1
        _log.critical(
            "The database has gone back in time: {why}. It was lost or put back from a backup. All providers are "
            "asked for full sets, and content users have to start again. Files that were removed since are missing, "
            "until lcc-admin fsck --quick --repair is run on each machine with content",
            why=why,
        )
        await self._want_all(order_lost=True)
        epoch = "".join(f"{int(self._random() * 65536):04x}" for _ in range(4))
        before = self.epoch
        self.epoch = await self._patience.ask(
            "a new epoch of the database", lambda: self._store.begin_epoch(before, epoch, least_change)
        )
        _log.warn("The database's epoch is {epoch} from now on", epoch=self.epoch)

    async def _want_all(self, order_lost: bool = False) -> None:
        await self._patience.ask(
            "asking all providers for full sets",
            lambda: self._store.want_full_sets(CACHE_CRASH, order_lost),
        )
