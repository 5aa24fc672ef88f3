"""Noticing that a database, or a UNS's spool, has gone back in time, and what is done then.

Each peer's hello says what it remembers (:mod:`lcc.storage.queue.maintenance.repair`); it is compared before
anything else that the peer says is looked at.

* *The database is behind* (a set was answered that it does not know; a BOT-M heard of a change that it does not
  know): it was lost, or restored from a backup.  All providers are asked for full sets (``cache-crash``); the
  database gets a new epoch, so that content users start again; its counters jump ahead.  When several peers remember
  more than the database, that is one loss: it is dealt with once in a run, and what the others say is noted.
* *A UNS is behind* (it would give numbers again that the database knows): its spool was restored from a backup.  New
  sets under old numbers would be taken for sets that are applied already and be lost in silence; so it is told to
  begin a new epoch, and is not listened to until it has.  Sets that it had accepted may be lost with the spool: all
  providers are asked for full sets, also those that have moved away since.

No alarm: a fresh UNS or BOT-M, a UNS with another name, sets that were refused, commits whose answers were lost, a
BOT-M that still names a former epoch of this database.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from lcc.errors import StreamError
from lcc.interfaces import IQueueStore
from lcc.model import UnsStanding
from lcc.model.providers import ERROR_EPOCH_MAX
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import NewEpoch
from lcc.protocols.work import Names
from lcc.roles.qm.part import Hub
from lcc.roles.qm.peers.handler import Connection

_log = Logger()

CACHE_CRASH = "cache-crash"


class Repair:
    """Compares hellos with the database, one at a time.

    :param random: gives numbers in [0, 1), for the names of epochs.
    :ivar epoch: the database's epoch; empty until it is known.
    :ivar losses: how often the database was found to have gone back in time, since the start.
    :ivar spools_behind: how often a UNS was.
    """

    def __init__(self, hub: Hub, store: IQueueStore, random: Callable[[], float]) -> None:
        self._store = store
        self._ask = hub.retry.ask
        self._now = hub.now
        self.epoch = ""
        self.losses = 0
        self.spools_behind = 0
        self._random = random
        self._lock = DeferredLock()
        self._seen: set[tuple[str, str]] = set()
        self._told: set[tuple[str, str]] = set()

    async def compare(self, connection: Connection, hello: Hello) -> bool:
        """Whether the peer may be let in; else it was refused, or told to begin anew."""
        await self._lock.acquire()
        try:
            return await (self._uns if hello.role == "uns" else self._botm)(connection, hello)
        finally:
            self._lock.release()

    # UNSes.

    async def _uns(self, connection: Connection, hello: Hello) -> bool:
        ask, store = self._ask, self._store
        name, epoch, acked = hello.name, hello.epoch, hello.acked
        standing = await ask("a UNS's hello", lambda: store.check_uns(name, epoch, acked, hello.numbers_upto))
        if standing is UnsStanding.SPOOL_BEHIND:
            await self._spool_behind(connection, hello)
            return False
        if standing is UnsStanding.DATABASE_BEHIND:
            await self._database_behind(
                ("uns", f"{name} {epoch}"),
                f"UNS {name} (epoch {epoch}) had set {acked} answered, of which the database knows nothing",
                0,
            )
            await ask("noting what a UNS had answered", lambda: store.note_answered(name, epoch, acked))
        self._seen.add(("uns", f"{name} {epoch}"))
        return True

    async def _spool_behind(self, connection: Connection, hello: Hello) -> None:
        who = (hello.name, hello.epoch)
        if who not in self._told:
            self.spools_behind += 1
            _log.critical(
                "UNS {uns} would reuse set numbers from {upto} on, in epoch {epoch}: its spool was restored from a "
                "backup. Accepted sets may be lost; a new epoch is begun, and full sets are asked for",
                uns=hello.name,
                upto=hello.numbers_upto,
                epoch=hello.epoch,
            )
            # The queue is whole, so unlike after a loss of it nobody else looks for those who have left.
            await self._ask("asking for full sets", lambda: self._store.lose_sets(self._now()))
            self._told.add(who)
        connection.say(NewEpoch(hello.epoch))
        connection.leave()

    # BOT-Ms.

    async def _botm(self, connection: Connection, hello: Hello) -> bool:
        fault = await self._ask("a BOT-M's hello", lambda: self._store.machine_fault(hello.machine))
        if fault:
            connection.stream_failed(StreamError("limit", fault))
            return False
        witness = ("botm", f"{hello.machine}")
        timeline, change = hello.epoch, hello.acked
        if (
            timeline
            and change
            and not await self._ask("a BOT-M's hello", lambda: self._store.check_witness(timeline, change))
        ):
            await self._database_behind(
                witness,
                f"BOT-M {hello.machine} was told of change {change} of timeline {timeline}, of which the database "
                "knows nothing",
                change if timeline.partition("-")[0] == self.epoch else 0,
            )
        self._seen.add(witness)
        await self._names(connection, hello)
        return True

    async def _names(self, connection: Connection, hello: Hello) -> None:
        """A content folder that was lost, or restored from a backup, would give ids again that rows refer to."""
        used = await self._ask("a BOT-M's hello", lambda: self._store.names_used(hello.machine))
        if 0 < hello.names_upto <= used:
            _log.critical(
                "Machine {number} has used file names up to {here} only, but {known} is known: its content folder "
                "was lost or restored from a backup. Files of cached URLs are missing there, until lcc-admin fsck "
                "--repair is run on that machine",
                number=hello.machine,
                here=hello.names_upto - 1,
                known=used,
            )
            connection.say(Names(used + 1))

    # What is done.

    async def _database_behind(self, who: tuple[str, str], why: str, least_change: int) -> None:
        if self.losses and who not in self._seen:
            _log.warn("{why}: part of the loss that was noticed before", why=why)
            return
        self.losses += 1
        _log.critical(
            "The database has gone back in time: {why}. It was lost or restored from a backup. All providers are "
            "asked for full sets, and content users have to start again. Files that were removed since are missing, "
            "until lcc-admin fsck --quick --repair is run on each machine with content",
            why=why,
        )
        error_epoch = 1 + int(self._random() * ERROR_EPOCH_MAX)
        await self._ask(
            "asking all providers for full sets", lambda: self._store.want_full_sets(CACHE_CRASH, error_epoch)
        )
        epoch = "".join(f"{int(self._random() * 65536):04x}" for _ in range(4))
        before = self.epoch
        self.epoch = await self._ask(
            "a new epoch of the database", lambda: self._store.begin_epoch(before, epoch, least_change)
        )
        _log.warn("New epoch of the database: {epoch}", epoch=self.epoch)
