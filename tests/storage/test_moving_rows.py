"""Rows of a provider that moves: read, staged, removed and taken over again, all in one database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from lcc.model import FETCH_NOW
from lcc.model.frontend.moves import Move, MoveState
from lcc.storage.database.tables.rows import CACHED, empty_cache_row
from lcc.storage.queue.maintenance.consistency import check_counters
from lcc.storage.queue.maintenance.lost_content import fetch_again
from lcc.storage.queue.moves import arrivals, departing, leaving
from lcc.storage.queue.moves.departing import departing_page, departing_rows, departing_whole
from lcc.storage.queue.moves.following import position_now
from lcc.storage.queue.moves.paged import PAGED, START, Place, pids_in
from lcc.storage.queue.moves.staging import (
    Cursor,
    Staged,
    carried_key,
    stage_page,
    stage_task_ids,
    stage_touched,
    stage_whole,
    staged_keys,
    staged_task_ids,
    unfinished,
)
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

CONTENT = "http://content.example/"
CARRIER = 999
CHANGED = ("change_number", "change_time", "seen")
"""Columns of the cache that are each sub-LCC's own."""


def step(queue: Queue, function: Callable[..., Any], *args: Any) -> Any:
    return result_of(queue.store.move_step(50, function, *args))[0]


def a_move(queue: Queue) -> Move:
    return Move(1, queue.pid, 7, 8, 3, MoveState.FLIPPED, 4, 1, 1, {}, "")


def publish(queue: Queue) -> None:
    """Pages that are cached, deleted, changed, waiting, waiting for their hours, and cancelled."""
    queue.send(1, *[notice(name) for name in "abcdef"], full=True)
    queue.fetch_all()
    queue.send(2, notice("a", delete=True), notice("b", md5="1" * 32), *[notice(f"{number}") for number in range(9)])
    queue.send(3, *[notice(f"hours{number}", hours="3" if number % 2 else "4-5") for number in range(4)])
    queue.send(4, notice("3", delete=True), notice("never", delete=True), notice("c"), notice("new"))


def stage(queue: Queue, kind: str, rows: int = 1000) -> list[Staged]:
    """A pass over all rows."""
    cursor = Cursor(1, queue.database.now(position_now))
    after, found = b"", []
    while True:
        page = queue.database.now(departing_page, queue.pid, kind, after, rows)
        target = (page, CARRIER, CONTENT, cursor)
        found.append(step(queue, stage_page, queue.rules, queue.pid, (kind, after), *target))
        if page.upto is None:
            return found
        after = page.upto


def stage_keys(queue: Queue, keys: list[bytes]) -> Staged:
    _, rows = queue.database.now(departing_rows, keys)
    cursor = Cursor(1, queue.database.now(position_now))
    staged: Staged = step(queue, stage_touched, queue.rules, queue.pid, keys, rows, CARRIER, CONTENT, cursor)
    return staged


def rows_of(queue: Queue, table: str) -> dict[bytes, dict[str, Any]]:
    columns = PAGED[table].table.columns
    found = queue.database.query(f"SELECT {', '.join(columns)} FROM {table} ORDER BY urlkey")
    return {bytes(row[0]): dict(zip(columns, row, strict=True)) for row in found}


def leave(queue: Queue, page_rows: int) -> None:
    place: Place | None = leaving.FROM
    while place is not None:
        place = step(queue, leaving.leave_page, a_move(queue), place, page_rows)


def copy_content(queue: Queue, row: dict[str, Any], file: int, **more: Any) -> None:
    """The carrier has got the content of a row."""
    key = carried_key(queue.rules, CARRIER, CONTENT, f"{row['fetched_machineid']}/{row['fetched_fileid']}")
    copy = empty_cache_row(key, CARRIER) | {"state": CACHED, "md5": row["md5"], "len": row["len"]}
    copy |= {"fetched_machineid": 2, "fetched_fileid": file} | more
    queue.database.now(lambda txn: txn.insert("lccurl", list(copy), [list(copy.values())]))


def arrive(queue: Queue, page_rows: int) -> list[str]:
    damaged: list[str] = []
    step(queue, arrivals.admit, a_move(queue))
    arrived = arrivals.Arrived(True, START)
    while arrived.more:
        arrived = step(queue, arrivals.arrive_page, queue.rules, a_move(queue), arrived.place, page_rows)
        damaged += arrived.damaged
    return damaged


@pytest.mark.parametrize("kind", PAGED)
def test_only_what_has_changed_is_staged_again(queue: Queue, kind: str) -> None:
    publish(queue)
    rows = rows_of(queue, kind)
    assert sum(staged.changed for staged in stage(queue, kind, 4)) == len(rows)
    assert [staged.changed for staged in stage(queue, kind, 3)] == [0] * (len(rows) // 3 + 1)
    assert stage_keys(queue, list(rows)).changed == len(
        rows_of(queue, ({*PAGED} - {kind}).pop()).keys() & rows.keys()
    )
    name = PAGED[kind].staged.name
    key, other = list(rows)[:2]
    queue.database.now(lambda txn: txn.execute(f"UPDATE {name} SET connseq = 99 WHERE urlkey = ?", [key]))
    assert stage_keys(queue, [key]).changed == 1
    queue.database.now(lambda txn: txn.execute_in(f"DELETE FROM {kind} WHERE urlkey IN ({{in}})", [other]))
    assert sum(staged.changed for staged in stage(queue, kind, 4)) == 1
    found = queue.database.query(f"SELECT urlkey, connseq FROM {name} ORDER BY urlkey")
    assert [bytes(row[0]) for row in found] == sorted(rows.keys() - {other})
    assert 99 not in {row[1] for row in found}


def test_pages_end_with_many_bytes(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departing, "ROWS_AT_ONCE", 2)
    queue.send(1, *[notice(f"{number:02}") for number in range(20)])
    queue.fetch_all()
    queue.database.now(lambda txn: txn.execute("UPDATE lccurl SET headers = ?", ["h" * 1000]))
    rows = rows_of(queue, "lccurl")
    monkeypatch.setattr(departing, "PAGE_BYTES", 5000)
    assert len(stage(queue, "lccurl")) == 4
    keys = [bytes(key) for (key,) in queue.database.query("SELECT urlkey FROM stagedcache ORDER BY urlkey")]
    assert keys == sorted(rows)
    count, found = queue.database.now(departing_rows, keys)
    assert count == 6 and [row[0] for row in found["lccurl"]] == keys[:6]
    # However long one row is, there is always a next one.
    monkeypatch.setattr(departing, "PAGE_BYTES", 1)
    assert len(stage(queue, "lccurl")) == 11
    assert queue.database.now(departing_rows, keys)[0] == 2


@pytest.mark.parametrize("text", [" ", "  x ", "\0"])
def test_texts_of_spaces_move_as_they_are(queue: Queue, text: str) -> None:
    """MariaDB takes them for equal to an empty one."""
    publish(queue)
    for kind, columns in (("lccurl", ("subtype", "headers", "etag", "hours")), ("qdb", ("subtype", "burl"))):
        changed = ", ".join(f"{column} = ?" for column in columns)
        sql = f"UPDATE {kind} SET {changed}"
        texts = (text,) * len(columns)
        queue.database.now(lambda txn, sql=sql, texts=texts: txn.execute(sql, texts))
        stage(queue, kind, 4)
        found = queue.database.query(f"SELECT {', '.join(columns)} FROM {PAGED[kind].staged.name}")
        assert set(found) == {texts}


def test_what_is_queued_behind_the_page_that_leaves_leaves_too(queue: Queue) -> None:
    """A damaged file is told, say, while the provider leaves: its row is queued, where rows have left already."""
    publish(queue)
    cached = queue.database.query("SELECT fetched_machineid, fetched_fileid FROM lccurl WHERE state = 1")
    place: Place | None = leaving.FROM
    while place is not None:
        place = step(queue, leaving.leave_page, a_move(queue), place, 2)
        if cached and place is not None and place[0] == "lccurl":
            step(queue, fetch_again, queue.rules, cached[0][0], [file for _, file in cached])
            assert queue.database.query("SELECT 1 FROM qdb")
            cached = []
    assert not cached
    for table in ("qdb", "lccurl", "qpsdb", "cancelled", "pidb"):
        assert not queue.database.query(f"SELECT 1 FROM {table}"), table


def test_a_file_that_is_damaged_while_rows_arrive_is_fetched_again(queue: Queue) -> None:
    """Its row is in the queue before those that were queued at the source."""
    publish(queue)
    for kind in PAGED:
        stage(queue, kind)
    step(queue, stage_whole, queue.pid, queue.database.now(departing_whole, queue.pid, 3))
    cached = [row for row in rows_of(queue, "lccurl").values() if row["fetched_fileid"]]
    waiting = rows_of(queue, "qdb").keys()
    leave(queue, 1000)
    for file, row in enumerate(cached, 101):
        copy_content(queue, row, file)
    step(queue, arrivals.admit, a_move(queue))
    arrived = step(queue, arrivals.arrive_page, queue.rules, a_move(queue), START)
    step(queue, fetch_again, queue.rules, 2, list(range(101, 101 + len(cached))))
    while arrived.more:
        arrived = step(queue, arrivals.arrive_page, queue.rules, a_move(queue), arrived.place)
    assert rows_of(queue, "qdb").keys() == waiting | {row["urlkey"] for row in cached}


def test_who_has_staged_rows(queue: Queue) -> None:
    """However many there are, a few are looked at."""
    assert queue.database.now(unfinished) == ({}, set())
    publish(queue)
    others = [queue.add_provider() for _ in range(3)]
    stage(queue, "qdb")
    columns = PAGED["lccurl"].table.columns
    for pid, names in ((queue.pid, "ab"), (others[1], "abc"), (others[2], "a")):
        rows = [tuple(empty_cache_row(queue.rules.key(pid, name, "text/html"), pid).values()) for name in names]
        queue.database.now(lambda txn, rows: txn.insert("stagedcache", columns, rows), rows)
    assert queue.database.now(unfinished) == ({}, {queue.pid, *others[1:]})
    assert queue.database.now(pids_in, "stagedqueue") == {queue.pid}
    row = ("pid", "kind", "rowkey", "rowtext")
    keys = [(pid, "a", bytes([number]), "") for number, pid in enumerate([queue.pid, others[0], queue.pid])]
    queue.database.now(lambda txn: txn.insert("staged", row, keys))
    assert sorted(queue.database.now(staged_keys, queue.pid, "a")) == [b"\0", b"\2"]


def test_new_numbers_of_tasks_are_noted(queue: Queue) -> None:
    numbers = {7: 100, 300: 101, 1 << 40: 102}
    queue.database.now(stage_task_ids, queue.pid, numbers)
    queue.database.now(stage_task_ids, queue.add_provider(), {8: 103})
    assert queue.database.now(staged_task_ids, queue.pid) == numbers


@pytest.mark.parametrize("page_rows", [1, 3, 1000])
def test_all_rows_leave_and_arrive(queue: Queue, page_rows: int) -> None:
    publish(queue)
    other = queue.add_provider()
    queue.database.now(
        lambda txn: txn.execute("UPDATE counters SET value = value + 1000 WHERE name IN ('change', 'psetid')")
    )
    cache, waiting = rows_of(queue, "lccurl"), rows_of(queue, "qdb")
    sets = "SELECT psetid, slot, pri, connseq, fullset, nurls, time FROM qpsdb WHERE pid = ?"
    before = queue.database.query(sets, [queue.pid])
    ((change, psetid),) = _counters(queue)
    for kind in PAGED:
        stage(queue, kind, page_rows)
    step(queue, stage_whole, queue.pid, queue.database.now(departing_whole, queue.pid, 3))
    cached = [row for row in cache.values() if row["fetched_fileid"]]
    leave(queue, page_rows)
    for table in ("lccurl", "qdb", "qpsdb", "cancelled"):
        assert queue.database.query(f"SELECT * FROM {table}") == [], table
    assert queue.database.query("SELECT pid FROM pidb") == [(other,)]
    lost, damaged, *copied = cached
    copy_content(queue, damaged, 100, md5="0" * 32)
    for file, row in enumerate(copied, 101):
        copy_content(queue, row, file)
    assert Counter(arrive(queue, page_rows)) == Counter([lost["curl"], damaged["curl"]])

    everything = rows_of(queue, "lccurl")
    assert [row["fetched_fileid"] for row in everything.values() if row["pid"] == CARRIER] == [100]
    arrived = {key: row for key, row in everything.items() if row["pid"] == queue.pid}
    lost_keys = {lost["urlkey"], damaged["urlkey"]}
    for key, row in cache.items():
        own = (*CHANGED, "fetched_machineid", "fetched_fileid", *(["md5"] if key in lost_keys else []))
        assert {**arrived[key], **dict.fromkeys(own)} == {**row, **dict.fromkeys(own)}
        assert arrived[key]["seen"] == (row["seen"] and row["seen"] + psetid)
    files = {file: row["urlkey"] for file, row in enumerate(copied, 101)}
    for row in arrived.values():
        if row["fetched_fileid"]:
            assert row["fetched_machineid"] == 2
            assert row["urlkey"] == files.pop(row["fetched_fileid"])
    assert not files
    numbers = [row["change_number"] for row in arrived.values() if row["change_number"]]
    assert numbers == list(range(change + 1, change + 1 + len(numbers)))
    never = {key for key, row in cache.items() if not row["change_number"]}
    assert never
    assert {key for key, row in arrived.items() if not row["change_number"]} == never
    origins = queue.database.query("SELECT urlkey, change_number, subid, number FROM origins ORDER BY urlkey")
    assert [(bytes(key), *rest) for key, *rest in origins] == [
        (key, arrived[key]["change_number"], 7, row["change_number"])
        for key, row in cache.items()
        if row["change_number"]
    ]

    found = rows_of(queue, "qdb")
    assert waiting.keys() <= found.keys()
    for key, row in waiting.items():
        own_ones = {"psetid": row["psetid"] + psetid, "generation": found[key]["generation"]}
        assert found[key] == row | own_ones | {"seen": row["seen"] and row["seen"] + psetid}
        assert found[key]["generation"] > row["generation"]
    moved = {(row[0] - psetid, *row[1:]) for row in queue.database.query(sets, [queue.pid]) if row[0] <= 2 * psetid}
    assert moved == set(before)
    assert {row["slot"] for row in waiting.values()} > {FETCH_NOW}
    cancelled = {bytes(key) for (key,) in queue.database.query("SELECT urlkey FROM cancelled")}
    assert cancelled == {key for key, row in waiting.items() if row["operation"] == 0} != set()
    for name in (*[table.staged.name for table in PAGED.values()], "staged"):
        assert queue.database.query(f"SELECT * FROM {name}") == [], name


@pytest.mark.parametrize("page_rows", [1, 3])
def test_files_that_are_found_damaged_while_rows_arrive_are_counted(queue: Queue, page_rows: int) -> None:
    publish(queue)
    for kind in PAGED:
        stage(queue, kind)
    step(queue, stage_whole, queue.pid, queue.database.now(departing_whole, queue.pid, 3))
    cached = [row for row in rows_of(queue, "lccurl").values() if row["fetched_fileid"]]
    waiting = rows_of(queue, "qdb").keys()
    leave(queue, page_rows)
    for file, row in enumerate(cached, 101):
        copy_content(queue, row, file)
    step(queue, arrivals.admit, a_move(queue))
    arrived = arrivals.Arrived(True, START)
    damaged: set[bytes] = set()
    while arrived.more:
        arrived = step(queue, arrivals.arrive_page, queue.rules, a_move(queue), arrived.place, page_rows)
        here = queue.database.query("SELECT urlkey, fetched_fileid FROM lccurl WHERE pid = ?", [queue.pid])
        files = [file for key, file in here if file is not None and bytes(key) not in damaged][:1]
        if files and len(damaged) < 4:
            damaged |= {bytes(key) for key, file in here if file in files}
            step(queue, fetch_again, queue.rules, 2, files)
    assert damaged & waiting and damaged - waiting
    step(queue, arrivals.open_arrived, a_move(queue))
    stats = "SELECT nurlproc, files_used, space_used, files_pending, space_pending FROM pstats WHERE pid = ?"
    counted = queue.database.query(stats, [queue.pid])
    progress: bytes | None = b""
    while progress is not None:
        progress = step(queue, check_counters, progress)
    assert queue.database.query(stats, [queue.pid]) == counted


def _counters(queue: Queue) -> list[tuple[int, ...]]:
    return queue.database.query(
        "SELECT c.value, p.value FROM counters c, counters p WHERE c.name = 'change' AND p.name = 'psetid'"
    )


def test_origins_of_tombstones_that_are_forgotten_stay(queue: Queue) -> None:
    """A content user who has not heard of the deletion has to hear that something was forgotten."""
    publish(queue)
    there, gone = min(rows_of(queue, "lccurl")), queue.key("gone")
    rows = [(key, 5, 9, 50) for key in sorted([there, gone])]
    queue.database.now(lambda txn: txn.insert("origins", ("urlkey", "change_number", "subid", "number"), rows))
    leave(queue, 2)
    assert [bytes(key) for (key,) in queue.database.query("SELECT urlkey FROM origins")] == [gone]
    move = a_move(queue)
    flips = queue.database.query("SELECT flip, pid, subid, arrived, epoch FROM flips")
    assert flips == [(move.flip, queue.pid, move.dest, 0, move.epoch)], "readers are told where it is"
