"""The questions that are asked all the time, and those in the background, are answered by short walks along an index.

What MariaDB is going to do is asked of MariaDB, on tables with many rows of one provider and few of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcc.model import Cursor
from lcc.roles.cu import resourcesync
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import provider_status
from lcc.storage.queue.admin import retry as admin_retry
from lcc.storage.queue.maintenance import consistency, housekeeping
from lcc.storage.queue.results import record
from lcc.storage.queue.schedule import read_ahead as queue_read
from lcc.storage.queue.schedule import time_slots, waiting_retries
from lcc.storage.queue.write_transaction import WriteTransaction
from tests.support.plans import Explaining
from tests.support.queue import Queue, notice

pytestmark = pytest.mark.parametrize("backend", ["mariadb"], indirect=True)

BIG = 3000
NOON = 12 * 3600


@pytest.fixture
def big(queue: Queue) -> Queue:
    """Many rows in the queue, in the cache, and to be deleted."""
    told = [notice(f"{number}", hours="3" if number % 3 == 0 else "") for number in range(BIG)]
    queue.send(1, *told, now=NOON)
    queue.record(*[queue.fetched(row) for row in queue.rows()[: BIG // 3]])
    queue.record(*[queue.failed(row, 403) for row in queue.rows()[:100]])
    queue.send(2, *[notice(f"{number}", delete=True) for number in range(BIG // 2)], now=NOON)
    for number in range(200):
        queue.send(3 + number, notice(f"many{number}", hours="4" if number % 2 else ""), now=NOON)
    first = queue.pid
    for number in range(30):
        queue.pid = queue.add_provider()
        queue.send(1, notice("a"), notice("b"), full=number % 2 == 0, now=NOON)
        queue.record(queue.fetched(queue.rows()[0]))
    queue.pid = first
    tables = "qdb, qpsdb, lccurl, fsmdb, pstats, pidb, urlerrs"
    queue.database.query(f"ANALYZE TABLE {tables}")
    return queue


def plans(queue: Queue, do: Callable[[Explaining], Any]) -> list[tuple[str, str, str, str | None, int]]:
    def explained(txn: Txn) -> list[tuple[str, str, str, str | None, int]]:
        explaining = Explaining(txn)
        do(explaining)
        return explaining.plans

    found = queue.database.now(explained)
    assert found
    return found


def check(
    queue: Queue, do: Callable[[Explaining], Any], *, small: tuple[str, ...] = (), rare: tuple[str, ...] = ()
) -> None:
    """No statement goes through a whole table.

    :param small: tables with a row or so for each machine or job.
    :param rare: statements that may.
    """
    small = (*small, "counters", "chores", "orders", "setspos", "slotsopened")
    for sql, table, access, index, rows in plans(queue, do):
        if table not in small and sql not in rare:
            assert access in ("const", "eq_ref", "ref", "range", "system"), (sql, table, access, rows)
            assert index is not None, sql


def test_reading_ahead(big: Queue) -> None:
    row = big.rows()[len(big.rows()) // 2]
    pids = [big.pid, big.pid + 1]
    for partial in (False, True):
        for place in ((0, 0), (row.psetid, row.seq)):
            cursors = [Cursor(big.pid, *place, 64, partial), Cursor(big.pid + 1, 0, 0, 64, partial)]

            def read(txn: Explaining, cursors: list[Cursor] = cursors) -> None:
                queue_read.read_ahead(txn, big.rules, cursors, pids)

            check(big, read)
            for sql, table, access, _index, _rows in plans(big, read):
                # Not "ref": that goes through all of the set that is gone and not purged yet.
                assert access == "range" or table != "qdb", sql


def test_recording(big: Queue) -> None:
    """Results of many providers; some of their sets are over with them, one goes on behind rows that are gone."""
    rows = [row for row in big.rows() if not row.delete][:100]
    rows += [row for pid in range(big.pid + 1, big.pid + 31) for row in big.rows(pid)]
    assert len({row.pid for row in rows}) == 31
    results = [big.fetched(row) for row in rows] + [big.failed(row, 503) for row in rows[::7]]
    check(
        big,
        lambda txn: record.record_results(
            txn, _run(txn), big.rules, results, [], NOON, big.settings, record.Requeued()
        ),
        small=("pstats", "pidb"),  # here it is all of these providers
    )


def test_parts_of_a_resource_list(big: Queue) -> None:
    """ResourceSync: what an index and its parts cost is what they return, however large the cache."""
    source = resourcesync.Source("http://lcc.example/", big.pid)
    check(big, lambda txn: resourcesync.resource_list(txn, source, 10))
    for part in (0, 7, 99):
        check(big, lambda txn, part=part: resourcesync.resource_part(txn, source, NOON, 100, part))


def test_who_has_work_looks_at_sets_only(big: Queue) -> None:
    """At the start, once: an index with a row for each set and slot, not the rows of the queue."""
    found = plans(big, queue_read.providers_with_work)
    assert {table for _sql, table, *_ in found} == {"q", "p"}
    for _sql, table, access, _index, _rows in found:
        assert access in (("ref", "range", "index") if table == "q" else ("eq_ref", "const", "ref")), found


def test_delete_orders(big: Queue) -> None:
    check(big, lambda txn: queue_read.delete_orders(txn, 1, 10, 200, NOON, 300))
    check(big, lambda txn: queue_read.delete_orders(txn, 7, 0, 200, NOON, 300))


def test_opening_a_slot(big: Queue) -> None:
    for slot in (3, 4, 5):
        for after in ((0, 0), (1, BIG // 2)):
            check(
                big,
                lambda txn, slot=slot, after=after: time_slots.open_slot(  # type: ignore[misc]
                    txn, _run(txn), slot, 100, after, time_slots.Opened()
                ),
            )


def _run(txn: Txn) -> int:
    return int(txn.value("SELECT value FROM counters WHERE name = 'qm_run'"))


def _write(queue: Queue, txn: Txn) -> WriteTransaction:
    return WriteTransaction(txn, _run(txn), NOON, queue.settings)


def test_chores(big: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGE_ROWS", "PAGE_SETS"):
        monkeypatch.setattr(consistency, name, 20)
    monkeypatch.setattr(housekeeping, "PAGE_ROWS", 20)
    monkeypatch.setattr(housekeeping, "PAGE_PROVIDERS", 5)
    for job in housekeeping.JOBS.values():
        progress: bytes | None = b""
        for _ in range(3):
            if progress is None:
                break
            pages: list[bytes | None] = []

            def page(txn: Explaining, at: bytes = progress, job: Any = job, pages: Any = pages) -> None:
                write = _write(big, txn)
                pages.append(job.page(write, big.rules, at))

            check(big, page, rare=("SELECT SUM(nurlproc) FROM pstats",))  # once a day, a row for each provider
            progress = pages[0]


def test_retry(big: Queue) -> None:
    fail_many(big)
    for pid in (0, big.pid):
        for progress in (b"", b"w %d -30 1 5" % NOON, b"e %d %d 0" % (NOON, pid)):
            check(
                big,
                lambda txn, pid=pid, progress=progress: admin_retry.retry_page(  # type: ignore[misc]
                    _write(big, txn), big.rules, pid, 0, progress
                ),
                small=("pidb",),
            )


def fail_many(big: Queue) -> None:
    """Rows of many sets wait to be tried again, in many slots."""
    rows = [row for row in big.rows() if not row.delete]
    for number, row in enumerate(rows[-60:]):
        big.record(big.failed(row, 503), now=NOON + 10 * number)
    big.record(*[big.failed(row, 503) for pid in range(big.pid + 1, big.pid + 31) for row in big.rows(pid)], now=NOON)


def test_what_is_tried_again(big: Queue) -> None:
    fail_many(big)
    for now in (NOON, NOON + 60, NOON + 100_000):
        check(
            big,
            lambda txn, now=now: waiting_retries.open_retries(  # type: ignore[misc]
                txn, _run(txn), now, 100, NOON + 5000.0, time_slots.Opened()
            ),
            small=("pidb",),
        )


def test_a_greeting_looks_at_the_provider_only(big: Queue) -> None:
    check(big, lambda txn: provider_status(txn, big.pid, 50))
    check(big, lambda txn: provider_status(txn, big.pid + 1, 50))
