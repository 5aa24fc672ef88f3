"""Columns, declared once: they are those of the tables, and rows come back as what was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lcc.model import DESCRIPTION, UrlNotice
from lcc.storage.database.table import Table
from lcc.storage.database.tables.rows import (
    CACHE,
    CACHED,
    DELAYS,
    FETCH,
    QUEUE,
    QUEUE_UPDATED,
    SELECT_USER,
    SETS,
    TOLD_COLUMNS,
    TOMBSTONE_UPDATED,
    empty_cache_row,
    notice_values,
    queue_row,
    told_notice,
    told_values,
)
from tests.support.queue import Queue

DEFAULTED = {"qdb": {"bad_code", "bad_text", "bad_time"}}
"""Columns that are written by an UPDATE only."""

TEXT = st.text(max_size=5)
NOTICES = st.builds(
    UrlNotice,
    *[TEXT] * 6,
    length=st.none() | st.integers(0, 9),
    mtime=st.none() | st.integers(0, 9),
    hours=TEXT,
    delete=st.just(False),
    ifabsent=st.booleans(),
    named_only=st.just(False),
    sent=TEXT,
    retract=st.just(False),
    recheck=st.just(False),
)


def columns_of(queue: Queue, table: str) -> set[str]:
    if queue.database.dialect.name == "sqlite":
        return {row[1] for row in queue.database.query(f"PRAGMA table_info({table})")}
    return {row[0] for row in queue.database.query(f"SHOW COLUMNS FROM {table}")}


def test_what_is_declared_is_in_the_tables(queue: Queue) -> None:
    for table in (QUEUE, SETS, CACHE, DELAYS):
        declared = {*table.columns, *DEFAULTED.get(table.name, ())}
        assert declared == columns_of(queue, table.name)
    queue.database.query(f"{SELECT_USER} LIMIT 1")
    queue.database.query(f"SELECT {TOLD_COLUMNS} FROM lccurl LIMIT 1")


def test_a_table_selects_inserts_and_updates_its_columns(queue: Queue) -> None:
    table = Table("meta", ["name"], ["name", "value"])
    now = queue.database.now
    now(lambda txn: table.insert(txn, [("a", "1"), ("b", "1")]))
    now(lambda txn: table.upsert(txn, [("b", "2"), ("c", "2")]))
    now(lambda txn: table.upsert(txn, [("c", "3")], ["name"]))
    where = "WHERE name IN ('a', 'b', 'c') ORDER BY name"
    assert queue.database.query(f"{table.select} {where}") == [("a", "1"), ("b", "2"), ("c", "2")]
    assert table.without(["name"]) == ("value",)


@given(notice=NOTICES)
def test_a_queue_row_has_the_notice(notice: UrlNotice) -> None:
    row = queue_row((b"key", 1, 2, 3, 4, FETCH, 5, 6, 7, 8, 9, 5, "4:3", *notice_values(notice)))
    assert row == (b"key", 1, 2, 3, 4, False, 5, 6, 7, notice, None, 8, 5, "4:3")
    assert [type(value) for value in row.notice] == [type(value) for value in notice]


@given(notice=NOTICES)
def test_a_cache_row_has_what_was_told(notice: UrlNotice) -> None:
    told = (*told_values(notice), notice.md5, notice.length, notice.mtime)
    assert told_notice(told, bytes(20)) == notice._replace(ifabsent=False, sent="")


def test_what_an_update_touches() -> None:
    """A new notice leaves a queue row in its place; a deletion leaves the names."""
    assert set(QUEUE.columns) - set(QUEUE_UPDATED) == {"urlkey", "pid", "psetid", "slot", "seq"}
    names = {"curl", "furl", "burl", "mimetype", "subtype"}
    assert set(CACHE.columns) - set(TOMBSTONE_UPDATED) == names | {"urlkey", "pid", "seen", "generation"}
    assert set(DESCRIPTION) <= set(CACHE.columns)
    row = empty_cache_row(b"key", 7)
    assert tuple(row) == CACHE.columns and (row["urlkey"], row["pid"], row["state"] == CACHED) == (b"key", 7, False)
