"""What a UNS writes: order numbers and connections of providers, running full sets.

*Order.*  The sets of a provider are ordered by when they began.  Each gets an order number from a durable counter of
the provider (``connections.lastconnseq``) that all UNSes share.  A login draws one, too; a set keeps the number of
its session unless another session has drawn one since, which needs no write.  Logins that come together share a
transaction, and so do sets that begin together.

The counter may be lost, or restored from a backup (on SQLite it is a file of its own).  This is detected if it is
behind a number in the queue, or in the spool of the UNS; then it jumps ahead (by ``ORDER_JUMP``), because other
spools may hold even later numbers.

*Connections.*  The number shown to a provider counts its connections only.  A UNS of an older version draws a number
for each connection, and counts nothing else: so numbers drawn since ``countedseq`` are its connections.

*Full sets.*  An unsolicited full set is noted (``fullsets``) from its beginning until the queue manager has counted
it, or it is abandoned: so all UNSes together respect the limit, even while the queue manager is unreachable.

On SQLite these tables are a file of their own, ``lcc-connections.db`` beside the main one, so that a UNS never waits
while the queue manager writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred, DeferredList, FirstError, gatherResults, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.config import Config
from lcc.errors import StoreUnavailable
from lcc.interfaces import ISessionStore
from lcc.model import FullSetKey, Session, SetStart
from lcc.storage.database.database import Database
from lcc.storage.database.dialects import SqliteDialect
from lcc.storage.database.gathering import Gathering
from lcc.storage.database.migrations import CONNECTIONS
from lcc.storage.database.transactions import Question, Txn

CONNECTIONS_FILE = "lcc-connections.db"
ORDER_JUMP = 1 << 32
"""How far order numbers jump: spools may hold later ones than the database, which must be older than all new ones.
The counter has room for two thousand million jumps."""

_COUNTER = ("pid", "lastconnseq", "sessions", "countedseq")
_NEW_ROW = ("pid", "lastconnseq", "lastconnip", "lastconntime")
_FULL_SET = ("pid", "connseq", "uns", "time")
_DRAWN = "SELECT pid, lastconnseq FROM connections WHERE pid IN ({in})"
_FENCED = -1
"""In place of the newest order number in the queue, if the provider is moving or has moved (doc/moves.md)."""
_NEWEST = f"CASE WHEN f.pid IS NULL THEN COALESCE(s.maxconnseq, 0) ELSE {_FENCED} END"
_FENCE = "LEFT JOIN fenced f ON f.pid = s.pid AND f.state IN ('frozen', 'left')"
_ABSORBED = f"SELECT s.pid, {_NEWEST} FROM pstats s {_FENCE} WHERE s.pid IN ({{in}})"
_HOLDING = (
    "(EXISTS (SELECT 1 FROM heldsets h WHERE h.pid = s.pid)"
    " OR EXISTS (SELECT 1 FROM fenced a WHERE a.pid = s.pid AND a.state = 'arriving'))"
)
"""Sets are held, or will be: those that come while it arrives (doc/moves.md)."""
_ABSORBED_AND_HOLDING = f"SELECT s.pid, {_NEWEST}, {_HOLDING} FROM pstats s {_FENCE} WHERE s.pid IN ({{in}})"
_BOTH = (
    f"SELECT c.pid, CASE WHEN {_HOLDING} THEN 0 ELSE c.lastconnseq END, {_NEWEST} FROM connections c"
    f" LEFT JOIN pstats s ON s.pid = c.pid {_FENCE} WHERE c.pid IN ({{in}})"
)


@attrs.define
class _Counter:
    """A provider's row of ``connections``."""

    pid: int
    last: int
    sessions: int
    counted: int

    def draw(self, least: int) -> int:
        """The next order number.

        :param least: the highest known one.
        """
        self._count_older()
        self.last = self.counted = (self.last if self.last >= least else least + ORDER_JUMP) + 1
        return self.last

    def _count_older(self) -> None:
        self.sessions += self.last - self.counted

    @property
    def values(self) -> tuple[int, int, int, int]:
        """The columns."""
        return self.pid, self.last, self.sessions, self.counted


def _counter(row: tuple[Any, ...]) -> _Counter:
    pid, last, sessions, counted = row
    # A UNS of an older version may have started over after the row was lost.
    return _Counter(pid, last, sessions, min(counted, last))


class Login(NamedTuple):
    """A connection to be counted; see :meth:`lcc.interfaces.ISessionStore.open_session`."""

    pid: int
    ip: str
    now: int
    known: int


@implementer(ISessionStore)
class SessionStore:
    """See :mod:`lcc.storage.providers.sessions`.

    :param database: of the counters.
    :param main: the database of the queue.
    :param uns: name of this UNS.
    :param full_set_seconds: timeout of running full sets.
    """

    def __init__(self, database: Database, main: Database, uns: str = "uns", full_set_seconds: int = 1 << 40) -> None:
        self.database = database
        self.main = main
        self._uns = uns
        self._full_set_seconds = full_set_seconds
        self._ended: set[FullSetKey] = set()
        self._logins: Gathering[Login, Session] = Gathering(
            lambda logins: Deferred.fromCoroutine(self._count(logins))
        )

    def start(self) -> None:
        """Open the databases."""
        self.database.start()
        self.main.start()

    def stop(self) -> Deferred[None]:
        """Close the databases."""
        ends = [self.database.stop()]
        if self.main is not self.database:
            ends.append(self.main.stop())
        return DeferredList(ends).addCallback(lambda _: None)

    def open_session(self, pid: int, ip: str, now: int, known: int = 0) -> Deferred[Session]:
        def may_begin(session: Session) -> Session:
            if not session.order:
                raise StoreUnavailable(f"provider {pid} is moving to another sub-LCC")
            return session

        return self._logins.ask(Login(pid, ip, now, known)).addCallback(may_begin)

    async def _count(self, logins: list[Login]) -> list[Session]:
        if self.main is self.database:
            return await self.database.write(count_sessions, logins, None)
        absorbed = await self.main.select(absorbed_numbers, sorted({login.pid for login in logins}))
        return await self.database.write(count_sessions, logins, absorbed)

    def begin_sets(self, starts: Sequence[SetStart], now: int) -> Deferred[list[int | None]]:
        return Deferred.fromCoroutine(self._begin_sets(starts, now))

    async def _begin_sets(self, starts: Sequence[SetStart], now: int) -> list[int | None]:
        pids = sorted({start.pid for start in starts})
        drawn, absorbed = await self._standing(pids)
        fenced = {pid for pid, number in absorbed.items() if number == _FENCED}
        if fenced:
            others = iter(await self._begin_sets([start for start in starts if start.pid not in fenced], now))
            return [0 if start.pid in fenced else next(others) for start in starts]
        least = {pid: absorbed.get(pid, 0) for pid in pids}
        for start in starts:
            least[start.pid] = max(least[start.pid], start.known)
        numbers = kept_numbers(starts, drawn, least)
        drawing = [
            attrs.evolve(start, held=number or 0)
            for start, number in zip(starts, numbers, strict=True)
            if start.counts or number is None
        ]
        if not drawing:
            return list(numbers)
        draw = _Draw(drawing, least, self._uns, now, now - self._full_set_seconds, sorted(self._ended))
        try:
            found = await self.database.write(draw.run)
        except BaseException:
            self._ended |= draw.noted  # it may have been committed
            raise
        self._ended.difference_update(draw.ended)
        new = iter(found)
        answers = [
            next(new) if start.counts or number is None else number
            for start, number in zip(starts, numbers, strict=True)
        ]
        counted = sorted({start.pid for start in drawing if start.counts})
        if not counted:
            return list(answers)
        # After the notes: a full set that is counted meanwhile may count twice here, but it is never missed.
        try:
            left = await self.main.select(full_sets_left, counted)
        except BaseException:
            self._ended |= draw.noted
            raise
        allowed = _allowed(starts, answers, draw.under_way, left)
        begun = {(start.pid, number) for start, number in zip(starts, allowed, strict=True)}
        refused = draw.noted.difference(begun)
        if refused:
            # At once, because other UNSes count them.
            await self.end_full_sets(refused).addErrback(lambda failure: failure.trap(StoreUnavailable) and None)
        return allowed

    def _standing(self, pids: list[int]) -> Deferred[tuple[dict[int, int], dict[int, int]]]:
        """The last number drawn, unless sets are held, and the newest one in the queue, by provider."""
        if self.main is self.database:
            return self.database.select(drawn_and_absorbed, pids)
        both = _together(self.database.select(drawn_numbers, pids), self.main.select(absorbed_and_holding, pids))
        return both.addCallback(_without_held)

    def last_drawn(self, pids: Collection[int]) -> Deferred[dict[int, int]]:
        # Where a provider has moved to, what is in the queue was drawn elsewhere; what is drawn next is higher.
        wanted = sorted(pids)
        both = _together(self.database.select(drawn_numbers, wanted), self.main.select(absorbed_numbers, wanted))
        return both.addCallback(lambda found: {pid: max(of.get(pid, 0) for of in found) for pid in pids})

    def end_full_sets(self, keys: Collection[FullSetKey]) -> Deferred[None]:
        self._ended.update(keys)
        if not self._ended:
            return succeed(None)
        ended = sorted(self._ended)
        return self.database.write(forget_full_sets, ended).addCallback(
            lambda _: self._ended.difference_update(ended)
        )

    def keep_full_sets(self, here: Collection[FullSetKey], now: int) -> Deferred[None]:
        return self.database.write(keep_full_sets, self._uns, sorted(here), now)


def _together(*queries: Deferred[Any]) -> Deferred[list[Any]]:
    """The results of all, or why one of them failed."""

    def why(failure: Failure) -> Failure:
        assert isinstance(failure.value, FirstError)
        return failure.value.subFailure

    return gatherResults(queries, consumeErrors=True).addErrback(why)


def absorbed_numbers(txn: Txn, pids: Sequence[int]) -> dict[int, int]:
    """The newest order number in the queue, by provider."""
    return dict(txn.query_in(_ABSORBED, pids))


def drawn_numbers(txn: Txn, pids: Sequence[int]) -> dict[int, int]:
    """The last order number drawn, by provider."""
    return dict(txn.query_in(_DRAWN, pids))


def absorbed_and_holding(txn: Txn, pids: Sequence[int]) -> tuple[dict[int, int], set[int]]:
    """The newest order number in the queue, by provider; and those of which sets are held, or will be."""
    rows = txn.query_in(_ABSORBED_AND_HOLDING, pids)
    return {pid: absorbed for pid, absorbed, _ in rows}, {pid for pid, _, holding in rows if holding}


def _without_held(found: Sequence[Any]) -> tuple[dict[int, int], dict[int, int]]:
    """A set that is told now may be absorbed before those that are held: with the number of one of these it would be
    the older one."""
    drawn, (absorbed, holding) = found
    return {pid: number for pid, number in drawn.items() if pid not in holding}, absorbed


def drawn_and_absorbed(txn: Txn, pids: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Both, from a single database.  The last number drawn is given as 0 while sets are held."""
    rows = txn.query_in(_BOTH, pids)
    return {pid: drawn for pid, drawn, _ in rows}, {pid: absorbed for pid, _, absorbed in rows}


def kept_numbers(starts: Sequence[SetStart], drawn: Mapping[int, int], least: Mapping[int, int]) -> list[int | None]:
    """The number that each of these sets keeps; None: it needs a new one.

    :param starts: in the order in which they began.
    :param drawn: the last number drawn, by provider.
    :param least: the highest known number, by provider.
    """
    drawing: set[int] = set()
    numbers: list[int | None] = []
    for start in starts:
        pid = start.pid
        # After a set that draws, the next set of the same provider needs a later number.
        kept = pid not in drawing and start.held > 0 and drawn.get(pid, 0) == start.held >= least[pid]
        if not kept:
            drawing.add(pid)
        numbers.append(start.held if kept else None)
    return numbers


def _allowed(
    starts: Sequence[SetStart],
    numbers: Sequence[int],
    under_way: Mapping[int, int],
    left: Mapping[int, int | None],
) -> list[int | None]:
    """The numbers; None for full sets that exceed the limit."""
    begun: Counter[int] = Counter()
    answers: list[int | None] = []
    for start, number in zip(starts, numbers, strict=True):
        limit = left.get(start.pid, 0) if start.counts else None
        if limit is not None and under_way.get(start.pid, 0) + begun[start.pid] >= limit:
            answers.append(None)
            continue
        begun[start.pid] += start.counts
        answers.append(number)
    return answers


def _lock(txn: Txn, pids: Iterable[int]) -> None:
    """Create the rows of the counters, or lock them."""
    txn.upsert("connections", _NEW_ROW, [(pid, 0, "", 0) for pid in pids], ["pid"], ["pid"])


def count_sessions(txn: Txn, logins: Sequence[Login], absorbed: Mapping[int, int] | None) -> list[Session]:
    """Count connections, in this order; run twice, it leaves harmless gaps.

    :param absorbed: the newest order number in the queue, by provider; None: it is in the same database.
    """
    pids = sorted({login.pid for login in logins})
    _lock(txn, pids)
    questions = [Question(f"SELECT {', '.join(_COUNTER)}, lastconnip FROM connections WHERE pid IN ({{in}})", pids)]
    if absorbed is None:
        questions.append(Question(_ABSORBED, pids))
    rows, *newest = txn.query_several(questions)
    least = dict(newest[0]) if absorbed is None else absorbed
    counters = {row[0]: _counter(row[:-1]) for row in rows}
    last = {row[0]: (row[-1], 0) for row in rows}
    sessions = []
    for pid, ip, now, known in logins:
        if least.get(pid) == _FENCED:
            sessions.append(Session(0, "", 0))
            continue
        counter = counters[pid]
        order = counter.draw(max(known, least.get(pid, 0)))
        counter.sessions += 1
        sessions.append(Session(counter.sessions, last[pid][0], order))
        last[pid] = ip[:64], now
    columns = (*_COUNTER, "lastconnip", "lastconntime")
    txn.upsert("connections", columns, [(*counters[pid].values, *last[pid]) for pid in pids], ["pid"])
    return sessions


@attrs.define
class _Draw:
    """A transaction that draws order numbers, in the order of the sets; run twice, it leaves gaps.

    :param starts: ``held``: the number that a full set keeps unless another one has it; 0: it gets a new one.
    :param least: the highest known number, by provider.
    :param forgotten: full sets that began by then have timed out.
    :param ended: full sets that are no longer running.
    :ivar noted: full sets that it notes, in whichever attempt is committed.
    :ivar under_way: running full sets before it, by provider.
    """

    starts: Sequence[SetStart]
    least: Mapping[int, int]
    uns: str
    now: int
    forgotten: int
    ended: Sequence[FullSetKey]
    noted: set[FullSetKey] = attrs.field(factory=set)
    under_way: dict[int, int] = attrs.field(factory=dict)

    def run(self, txn: Txn) -> list[int]:
        """Returns the numbers."""
        pids = sorted({start.pid for start in self.starts})
        _lock(txn, pids)
        rows = txn.query_in(f"SELECT {', '.join(_COUNTER)} FROM connections WHERE pid IN ({{in}})", pids)
        counters = {row[0]: _counter(row) for row in rows}
        taken = self._under_way(txn)
        numbers = []
        for start in self.starts:
            counter, number = counters[start.pid], start.held
            if not number or counter.last != number or FullSetKey(start.pid, number) in taken:
                number = counter.draw(self.least[start.pid])
            numbers.append(number)
            if start.counts:
                key = FullSetKey(start.pid, number)
                taken.add(key)
                self.noted.add(key)
        written = [counters[pid].values for pid in pids]
        columns = (*_COUNTER, "lastconnip", "lastconntime")
        txn.upsert("connections", columns, [(*each, "", 0) for each in written], ["pid"], _COUNTER[1:])
        _note_full_sets(txn, self.uns, self.noted, self.now)
        return numbers

    def _under_way(self, txn: Txn) -> set[FullSetKey]:
        """The running full sets of these providers."""
        forget_full_sets(txn, [*self.ended, *self.noted])
        self.noted.clear()
        pids = sorted({start.pid for start in self.starts if start.counts})
        if not pids:
            return set()
        if txn.dialect.certifies:
            # Locks are local to a node, and a set that keeps its number does not change the counter's row.  Of two
            # transactions that insert and delete this row, only one commits.
            txn.upsert("fullsets", _FULL_SET, [(pid, 0, "", 0) for pid in pids], ["pid", "connseq"], ["uns"])
            txn.execute_in("DELETE FROM fullsets WHERE connseq = 0 AND pid IN ({in})", pids)
        txn.execute_in("DELETE FROM fullsets WHERE time <= ? AND pid IN ({in})", pids, [self.forgotten])
        rows = txn.query_in("SELECT pid, connseq FROM fullsets WHERE pid IN ({in})", pids)
        self.under_way = dict(Counter(pid for pid, _ in rows))
        return {FullSetKey(*row) for row in rows}


def _note_full_sets(txn: Txn, uns: str, keys: Iterable[FullSetKey], now: int) -> None:
    rows = [(*key, uns, now) for key in sorted(keys)]
    txn.upsert("fullsets", _FULL_SET, rows, ["pid", "connseq"], ["uns"])


def forget_full_sets(txn: Txn, keys: Iterable[FullSetKey]) -> None:
    """These full sets are no longer running."""
    for key in keys:
        txn.execute("DELETE FROM fullsets WHERE pid = ? AND connseq = ?", list(key))


def keep_full_sets(txn: Txn, uns: str, here: Sequence[FullSetKey], now: int) -> None:
    """Only these full sets of this UNS are running: forget those of an earlier process."""
    known = {FullSetKey(*row) for row in txn.query("SELECT pid, connseq FROM fullsets WHERE uns = ?", [uns])}
    forget_full_sets(txn, sorted(known.difference(here)))
    _note_full_sets(txn, uns, set(here) - known, now)


def full_sets_left(txn: Txn, pids: Sequence[int]) -> dict[int, int | None]:
    """Unsolicited full sets left, by provider; None: no limit."""
    sql = (
        "SELECT p.pid, p.fullsetsallowed, COALESCE(s.fullsets_used, 0) FROM pidb p"
        " LEFT JOIN pstats s ON s.pid = p.pid WHERE p.pid IN ({in})"
    )
    return {
        pid: None if allowed is None else max(0, allowed - used) for pid, allowed, used in txn.query_in(sql, pids)
    }


def open_session_store(
    config: Config, reactor: Any, random: Random, database: Callable[..., Database] = Database
) -> SessionStore:
    """The configured session store; start and stop it with the role.

    :param database: creates a database.
    """
    settings = config.uns.name, config.qm.full_set_period
    main = database(config.database.url, config.home, reactor, config.database, random=random)
    if not isinstance(main.dialect, SqliteDialect):
        return SessionStore(main, main, *settings)
    url = f"sqlite:{main.dialect.path.with_name(CONNECTIONS_FILE)}"
    own = database(url, Path("/"), reactor, config.database, random=random, series=CONNECTIONS)
    return SessionStore(own, main, *settings)
