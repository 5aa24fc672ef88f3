"""The queue manager's store: the queue and the cache tables, which nobody else writes.

Owns: ``qdb``, ``cancelled``, ``qpsdb``, ``lccurl``, ``fsmdb``, ``setspos``, ``counters``, ``pstats``, ``urlerrs``,
``heldsweeps``; carries out ``orders``.

Strategy: every write is a bounded transaction in the writer thread, in the order of the calls.  Each checks that no
newer queue manager has claimed the database (``counters.qm_run``).  Each is idempotent: a set has its position, a
queue row its generation, and a content file is never stored twice.

Failures: an unreachable database is retried for some seconds, then the caller's Deferred fails with StoreUnavailable,
and the caller repeats the call, or leaves it.  What such a call has done all the same is told by a later one, at the
latest by :meth:`QueueStore.tell_unconfirmed`.  After a newer queue manager has claimed the database it fails with
Busy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredLock, succeed
from zope.interface import implementer

from lcc.config import QmConfig
from lcc.interfaces import IQueueRules, IQueueStore
from lcc.model import (
    Absorbed,
    Ahead,
    CarriedOut,
    Claim,
    ContentRow,
    Cursor,
    Delay,
    DeleteOrder,
    FetchResult,
    Kept,
    Provider,
    ReadAhead,
    Recorded,
    RetryPage,
    SetAnswer,
    SetPiece,
    SlotPage,
    Waiting,
)
from lcc.model.frontend.moves import Fence
from lcc.storage.database.database import Database
from lcc.storage.database.tables.content_rows import content_rows
from lcc.storage.database.tables.order_rows import AdminOrder, next_order
from lcc.storage.database.tables.rows import last_generation
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.database.tables.timeline import continue_timeline, former_timelines
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import get_provider, provider_roots
from lcc.storage.queue.admin.orders import carry_out
from lcc.storage.queue.intake.absorb import absorb_pieces
from lcc.storage.queue.intake.fresh_rows import FreshRows
from lcc.storage.queue.intake.sweep import complete_full_set
from lcc.storage.queue.maintenance.housekeeping import do_next_page
from lcc.storage.queue.maintenance.lost_content import fetch_again
from lcc.storage.queue.maintenance.repair import RepairStore
from lcc.storage.queue.maintenance.saved_state import save_state, saved_time_and_lease
from lcc.storage.queue.moves.fences import HELD_SECONDS, fences, lose_set, lose_sets, note_first_epoch
from lcc.storage.queue.notifications import PendingNotifications, Unconfirmed
from lcc.storage.queue.results.record import Requeued, record_results
from lcc.storage.queue.schedule.read_ahead import delete_orders, providers_with_work, read_ahead
from lcc.storage.queue.schedule.time_slots import (
    Opened,
    delays,
    open_slot,
    save_delays,
    save_slots_opened,
    slots_opened,
)
from lcc.storage.queue.schedule.waiting_retries import open_retries
from lcc.storage.queue.write_transaction import WriteTransaction, claim_run

T = TypeVar("T")

_ORDERS_AT_ONCE = 20
_RETRY_SPARE_SECONDS = 60


@implementer(IQueueStore)
class QueueStore(RepairStore):
    """The queue and the cache.

    :param rules: decide what is to be done (:class:`lcc.domain.notices.rules.QueueRules`).
    """

    def __init__(self, database: Database, rules: IQueueRules, settings: QmConfig) -> None:
        self._database = database
        self._rules = rules
        self._settings = settings
        self._run = -1  # claim() makes it valid
        self._writes = 0
        self._fresh: FreshRows | None = None
        """Of the last write, if that is done."""
        self._absorbing = DeferredLock()
        self._unconfirmed = Unconfirmed()
        self._finished: list[tuple[str, int, int]] = []
        """Orders: kind, provider, code."""
        self._opened = Opened()
        self._opened_retries = Opened()

    def claim(self, now: int) -> Deferred[Claim]:
        def claim(txn: Txn) -> Claim:
            run = claim_run(txn)
            name = continue_timeline(txn)
            note_first_epoch(txn)
            former = {each: last_generation(batch) for each, batch in former_timelines(txn).items()}
            return Claim(run, database_epoch(txn), *saved_time_and_lease(txn), name, former)

        def claimed(result: Claim) -> Claim:
            self._run = result.run
            return result

        return self._database.write(claim).addCallback(claimed)

    def _write(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        self._writes += 1
        self._fresh = None
        return self._database.write(function, self._run, *args)

    def _change(self, pending: PendingNotifications, now: int, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run ``function(write, *args)`` in one :class:`WriteTransaction`."""
        return self._write(_in_write_transaction, now, self._settings, pending, function, args)

    # Sets.

    def absorb(self, pieces: Sequence[SetPiece], now: int) -> Deferred[Absorbed]:
        return self._absorbing.run(lambda: Deferred.fromCoroutine(self._absorb(list(pieces), now)))

    async def _absorb(self, pieces: list[SetPiece], now: int) -> Absorbed:
        with self._unconfirmed.collecting() as pending:
            answers = await self._absorb_into(pending, pieces, now)
        return pending.as_absorbed(answers)

    async def _absorb_into(self, pending: PendingNotifications, pieces: list[SetPiece], now: int) -> list[SetAnswer]:
        settings = self._settings
        answers: list[SetAnswer] = []
        while pieces:
            end = next((at for at, piece in enumerate(pieces, 1) if piece.last and piece.header.full), len(pieces))
            some, pieces = pieces[:end], pieces[end:]
            done = self._write(absorb_pieces, self._rules, some, now, settings, pending)
            number = self._writes
            answered, whole, fresh = await done
            answers += answered
            if number == self._writes:
                self._fresh = fresh
            if whole is not None:
                answers.append(await complete_full_set(self._write, self._rules, whole, now, settings, pending))
        return answers

    @property
    def has_unconfirmed(self) -> bool:
        return bool(self._unconfirmed)

    def tell_unconfirmed(self, now: int) -> Deferred[Absorbed]:
        return self.move_step(now, _nothing).addCallback(lambda told: told[1])

    # The queue.

    def providers_with_work(self) -> Deferred[list[Waiting]]:
        return self._database.interact(providers_with_work)

    def provider_roots(self) -> Deferred[list[tuple[int, bool, list[str]]]]:
        return self._database.select(provider_roots)

    def read_ahead(self, cursors: Sequence[Cursor], unknown: Collection[int] = ()) -> Deferred[ReadAhead]:
        fresh = self._fresh
        known: dict[Cursor, Ahead] = {}
        if fresh is not None:
            known = {cursor: ahead for cursor in cursors if (ahead := fresh.ahead(cursor)) is not None}
            rows = (row for ahead in known.values() for row in ahead.rows)
            if len(known) == len(cursors) and not unknown and not any(fresh.is_cached(row.key) for row in rows):
                return succeed(ReadAhead([known[cursor] for cursor in cursors], {}))
        return self._database.interact(read_ahead, self._rules, list(cursors), list(unknown), known)

    def provider(self, pid: int) -> Deferred[Provider | None]:
        return self._database.select(get_provider, pid)

    def record(
        self,
        results: Sequence[FetchResult],
        removed: Sequence[tuple[bytes, int]],
        now: int,
        closed: Sequence[tuple[bytes, int, int]] = (),
        delays: Sequence[Delay] = (),
        psetids: Collection[int] = (),
    ) -> Deferred[Recorded]:
        arguments = (list(results), list(removed), now, self._settings, Requeued(), list(closed), list(delays))
        return self._write(record_results, self._rules, *arguments, psetids)

    # Delays and slots.

    def delays(self) -> Deferred[list[Delay]]:
        return self._database.interact(delays)

    def save_delays(self, saved: Sequence[Delay]) -> Deferred[None]:
        return self._write(save_delays, list(saved))

    def slots_opened(self) -> Deferred[tuple[float, str]]:
        return self._database.interact(slots_opened)

    def save_slots_opened(self, upto: float, period: str) -> Deferred[None]:
        return self._write(save_slots_opened, upto, period)

    def open_slot(self, slot: int, limit: int, after: tuple[int, int]) -> Deferred[SlotPage]:
        opened = self._opened

        def told(page: SlotPage) -> SlotPage:
            opened.earliest.clear()
            return page

        return self._write(open_slot, slot, limit, after, opened).addCallback(told)

    def open_retries(self, now: int, limit: int) -> Deferred[RetryPage]:
        opened = self._opened_retries

        def told(page: RetryPage) -> RetryPage:
            opened.earliest.clear()
            return page

        latest = now + self._settings.retry_maximum + _RETRY_SPARE_SECONDS
        return self._write(open_retries, now, limit, latest, opened).addCallback(told)

    # Files.

    def deletes(self, machine: int, after: int, limit: int, now: int) -> Deferred[list[DeleteOrder]]:
        grace = self._settings.delete_grace
        return self._database.interact(delete_orders, machine, after, limit, now, grace)

    def deletes_done(self, ids: Sequence[int]) -> Deferred[None]:
        return self._write(_deletes_done, sorted(ids))

    def content_rows(self, machine: int, after: int, upto: int, limit: int) -> Deferred[list[ContentRow]]:
        return self._database.interact(content_rows, machine, after, upto, limit)

    def fetch_again(self, machine: int, files: Sequence[int], now: int) -> Deferred[Absorbed]:
        step = self.move_step(now, fetch_again, self._rules, machine, list(files))
        return step.addCallback(lambda told: told[1])

    # Providers.

    def want_full_set(self, pid: int, reason: str) -> Deferred[None]:
        return self._change(PendingNotifications(), 0, WriteTransaction.want_full_set, pid, reason)

    def lose_set(self, pid: int, now: int) -> Deferred[None]:
        return self._change(PendingNotifications(), now, lose_set, pid)

    def lose_sets(self, now: int) -> Deferred[None]:
        return Deferred.fromCoroutine(self._lose_sets(now))

    async def _lose_sets(self, now: int) -> None:
        after: int | None = 0
        while after is not None:
            after = await self._change(PendingNotifications(), now, lose_sets, now - HELD_SECONDS, after)

    def save_state(self, text: str) -> Deferred[None]:
        return self._write(save_state, text)

    # Moves between sub-LCCs.

    @property
    def rules(self) -> IQueueRules:
        """They decide what is to be done."""
        return self._rules

    def fences(self) -> Deferred[dict[int, Fence]]:
        return self._database.select(fences)

    def move_step(self, now: int, function: Callable[..., T], *args: Any) -> Deferred[tuple[T, Absorbed]]:
        """Run ``function(write, *args)`` in one :class:`WriteTransaction`; gives its result and what is told."""
        return Deferred.fromCoroutine(self._step(now, function, *args))

    async def _step(self, now: int, function: Callable[..., T], *args: Any) -> tuple[T, Absorbed]:
        with self._unconfirmed.collecting() as pending:
            result = await self._change(pending, now, function, *args)
        return result, pending.as_absorbed()

    # In the background.

    def carry_out_orders(self, now: int) -> Deferred[CarriedOut]:
        return Deferred.fromCoroutine(self._carry_out(now))

    async def _carry_out(self, now: int) -> CarriedOut:
        # An order whose end was not confirmed is gone, and not carried out again: it is told with the next ones.
        finished = self._finished
        more = True
        with self._unconfirmed.collecting(tells=False) as pending:
            for _ in range(_ORDERS_AT_ONCE):
                order = await self._database.interact(next_order)
                if order is None:
                    more = False
                    break
                await self._change(pending, now, _carry_out, self._rules, order, finished)
        self._finished = []
        return CarriedOut(tuple(finished), pending.as_absorbed(), more)

    def housekeeping(self, now: int) -> Deferred[Kept]:
        return Deferred.fromCoroutine(self._housekeeping(now))

    async def _housekeeping(self, now: int) -> Kept:
        more, told = await self._step(now, do_next_page, self._rules)
        return Kept(told, more)


def _carry_out(
    write: WriteTransaction, rules: IQueueRules, order: AdminOrder, finished: list[tuple[str, int, int]]
) -> None:
    if carry_out(write, rules, order):
        finished.append((order.kind, order.pid, order.code))


def _nothing(write: WriteTransaction) -> None:
    """Only that all earlier writes are done."""


def _deletes_done(txn: Txn, run: int, ids: list[int]) -> None:
    WriteTransaction(txn, run)
    txn.execute_in("DELETE FROM fsmdb WHERE id IN ({in})", ids)


def _in_write_transaction(
    txn: Txn,
    run: int,
    now: int,
    settings: QmConfig,
    pending: PendingNotifications,
    function: Callable[..., T],
    args: tuple[Any, ...],
) -> T:
    write = WriteTransaction(txn, run, now, settings, pending)
    result = function(write, *args)
    write.flush()
    return result
