"""The connection counters of providers: the one thing that a UNS writes.

On SQLite they live in a file of their own, ``lcc-connections.db`` beside the main one, so that a UNS never waits
while the queue manager writes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from zope.interface import implementer

from lcc.config import Config
from lcc.interfaces import ISessionStore
from lcc.model import Session
from lcc.storage.database import Database
from lcc.storage.dialects import SqliteDialect
from lcc.storage.migrations import CONNECTIONS
from lcc.storage.transactions import Question, Txn

CONNECTIONS_FILE = "lcc-connections.db"


@implementer(ISessionStore)
class SessionStore:
    """Counts connections.

    :param database: where the counters are.
    :param main: the database of the queue.  Should the counters get lost, or be put back from a backup, they go on
        behind the newest connection that the queue has seen; else its sets would count as older than what is there.
    """

    def __init__(self, database: Database, main: Database) -> None:
        self.database = database
        self.main = main

    def start(self) -> None:
        """Take work from now on."""
        self.database.start()
        self.main.start()

    def stop(self) -> Deferred[None]:
        """Close the databases."""
        ends = [self.database.stop()]
        if self.main is not self.database:
            ends.append(self.main.stop())
        return DeferredList(ends).addCallback(lambda _: None)

    def open_session(self, pid: int, ip: str, now: int) -> Deferred[Session]:
        if self.main is self.database:
            return self.database.write(count_session, pid, ip, now, None)
        newest = self.main.select(newest_absorbed, pid)
        return newest.addCallback(lambda least: self.database.write(count_session, pid, ip, now, least))


_NEWEST_ABSORBED = "SELECT maxconnseq FROM pstats WHERE pid = ?"


def newest_absorbed(txn: Txn, pid: int) -> int:
    """The newest connection of which a set is in the queue."""
    return int(txn.value(_NEWEST_ABSORBED, [pid], 0))


def count_session(txn: Txn, pid: int, ip: str, now: int, least: int | None = 0) -> Session:
    """Count a connection; run twice, it leaves a gap, which does no harm.

    :param least: the new number is above this one; None: above the newest one that the queue has seen, in the same
        database.
    """
    # Makes the row, or locks the one that is there.
    columns = ["pid", "lastconnseq", "lastconnip", "lastconntime"]
    txn.upsert("connections", columns, [(pid, 0, "", 0)], ["pid"], ["pid"])
    questions = [Question("SELECT lastconnseq, lastconnip FROM connections WHERE pid = ?", None, [pid])]
    if least is None:
        questions.append(Question(_NEWEST_ABSORBED, None, [pid]))
    (row,), *newest = txn.query_several(questions)
    least = max([least or 0, *(absorbed for rows in newest for (absorbed,) in rows)])
    connseq = max(row[0], least) + 1
    txn.execute(
        "UPDATE connections SET lastconnseq = ?, lastconnip = ?, lastconntime = ? WHERE pid = ?",
        [connseq, ip[:64], now, pid],
    )
    return Session(connseq, row[1])


def open_session_store(
    config: Config, reactor: Any, random: Random, database: Callable[..., Database] = Database
) -> SessionStore:
    """The session store that a configuration asks for; start and stop it with the role.

    :param database: makes one.
    """
    main = database(config.database.url, config.home, reactor, config.database, random=random)
    if not isinstance(main.dialect, SqliteDialect):
        return SessionStore(main, main)
    url = f"sqlite:{main.dialect.path.with_name(CONNECTIONS_FILE)}"
    own = database(url, Path("/"), reactor, config.database, random=random, series=CONNECTIONS)
    return SessionStore(own, main)
