"""With 10,000 providers no page walks through a table: what the databases are going to do is asked of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from lcc.config import DatabaseConfig
from lcc.errors import StoreUnavailable
from lcc.model import Delay, Provider
from lcc.roles.web.pages import providers as pages
from lcc.storage.database.database import Database
from lcc.storage.database.tables.order_rows import is_open
from lcc.storage.database.tables.rows import DELAYS
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import _write
from lcc.storage.views import failures as failures_of
from lcc.storage.views import provider_pages
from lcc.storage.views.inspect import kept_errors
from tests.support.databases import Backend, DirectDatabase
from tests.support.plans import Explaining
from tests.support.queue import Queue, notice

PROVIDERS = 10_000
NOW = 12 * 3600


@pytest.fixture
def many(backend: Backend) -> Queue:
    """10,000 providers; some with sets and errors."""
    queue = Queue(DirectDatabase(backend.url, backend.home))

    def fill(txn: Txn) -> None:
        providers = [Provider(pid, (f"http://site{pid}/",), f"h{pid}", contact=f"c{pid}@x") for pid in (2, 3)]
        for provider in providers:
            _write(txn, provider)
        columns = "pid, password, filesmax, spacemax, fullsetsallowed, bandwidth, timeofday, timezone, priority,"
        columns += " allow_private, insecure, removed, contact"
        names = [name.strip() for name in columns.split(",")]
        rows = [(pid, f"h{pid}", *[None] * 4, "", "", 0, 0, 0, 0, "") for pid in range(4, PROVIDERS + 1)]
        txn.insert("pidb", names, rows)
        txn.insert("proots", ["pid", "position", "root"], [(row[0], 0, f"http://site{row[0]}/") for row in rows])
        txn.insert("pstats", ["pid", "nurlproc"], [(row[0], row[0] % 7) for row in rows])
        DELAYS.insert(txn, [Delay(row[0], NOW + 1e9, "hours") for row in rows[::10]])

    queue.database.now(fill)
    queue.send(1, *[notice(f"{number}") for number in range(2000)], now=NOW)
    queue.record(*[queue.failed(row, 404 if row.seq % 2 else 503) for row in queue.rows()[:600]], now=NOW)
    if queue.database.dialect.name == "mysql":
        queue.database.query("ANALYZE TABLE pidb, proots, pstats, pdelays, qdb, qpsdb, urlerrs, lccurl")
    return queue


QUESTIONS: dict[str, Callable[[Txn], Any]] = {
    "a page of the list": lambda txn: provider_pages.providers_after(txn, 5000, 50, NOW),
    "the page before": lambda txn: provider_pages.providers_before(txn, 5000, 50, NOW),
    "those with most": lambda txn: provider_pages.these_providers(txn, range(1, 51), NOW),
    "a provider": lambda txn: pages._look_at(txn, 1, NOW, 3, 1000),
    "its errors": lambda txn: kept_errors(txn, 1, 404, (0, 0), 100),
    "its failures": lambda txn: failures_of.failures(txn, NOW, 1000, 1),
    "its URLs": lambda txn: provider_pages.urls_beginning(txn, 1, "http://site/1", None, 500, 100),
    "an order": lambda txn: is_open(txn, 3),
}


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_mariadb_walks_along_indexes(many: Queue) -> None:
    def explained(txn: Txn, question: Callable[[Txn], Any]) -> Any:
        explaining = Explaining(txn)
        question(explaining)
        return explaining.plans

    for name, question in QUESTIONS.items():
        for sql, table, access, index, rows in many.database.now(explained, question):
            if table in ("meta", "orders", "qmstate"):
                continue
            assert access in ("const", "eq_ref", "ref", "range", "system"), (name, sql, table, access, rows)
            assert index is not None, (name, sql)


class ExplainingSqlite(Txn):
    """Explains each SELECT before it is done.

    :ivar plans: (statement, step).
    """

    def __init__(self, txn: Txn) -> None:
        self.dialect = txn.dialect
        self._cursor = txn._cursor
        self.plans: list[tuple[str, str]] = []

    def query(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        self.plans += [(sql, row[3]) for row in super().query(f"EXPLAIN QUERY PLAN {sql}", parameters)]
        return super().query(sql, parameters)

    def one(self, sql: str, parameters: Any = ()) -> tuple[Any, ...] | None:
        rows = self.query(sql, parameters)
        return rows[0] if rows else None


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_sqlite_walks_along_indexes(many: Queue) -> None:
    def explained(txn: Txn, question: Callable[[Txn], Any]) -> list[tuple[str, str]]:
        explaining = ExplainingSqlite(txn)
        question(explaining)
        return explaining.plans

    for name, question in QUESTIONS.items():
        plans = many.database.now(explained, question)
        assert plans
        for sql, step in plans:
            # A derived table is scanned, which has as many rows as its LIMIT says.
            scans = re.match(r"SCAN (?!some\b|kept\b|waiting\b|\(|CONSTANT)(\w+)", step)
            assert scans is None, (name, sql, step)


@pytest.mark.parametrize("backend", ["sqlite", "mariadb"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_who_reads_cannot_write_and_has_a_limit(backend: Backend) -> None:
    database = Database(
        backend.url, backend.home, reactor, DatabaseConfig(retries=0), random=Random(1), read_seconds=0.3
    )
    database.start()
    try:
        await database.write(lambda txn: txn.execute("DELETE FROM orders"))
        with pytest.raises(Exception, match=r"(?i)read.?only"):
            await database.interact(lambda txn: txn.execute("DELETE FROM orders"))
        long = {
            "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n",
            "mariadb": "SELECT COUNT(*) FROM seq_1_to_100000 a, seq_1_to_100000 b, seq_1_to_100000 c",
        }[backend.kind]
        with pytest.raises(StoreUnavailable, match=r"exceeded 0\.3 seconds"):
            await database.interact(lambda txn: txn.query(long))
        assert await database.interact(lambda txn: txn.value("SELECT 1")) == 1
    finally:
        await database.stop()
