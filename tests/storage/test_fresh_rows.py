"""What was queued a moment ago is read ahead without the database, and is what the database would give."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from lcc.model import Ahead, Cursor, KeyedNotice, SetPiece
from tests.support.databases import result_of
from tests.support.queue import Queue, notice


def read(queue: Queue, cursors: Sequence[Cursor], unknown: Sequence[int] = ()) -> list[Ahead]:
    return list(result_of(queue.store.read_ahead(cursors, unknown)).aheads)


def forget(queue: Queue) -> None:
    """Any write will do."""
    result_of(queue.store.save_state("{}"))


def of_last_set(queue: Queue, limit: int = 10, seq: int = 0) -> Cursor:
    psetid = queue.database.query("SELECT value FROM counters WHERE name = 'psetid'")[0][0]
    return Cursor(queue.pid, psetid, seq, limit)


class Asked(Exception):
    """The database was asked."""


def refuse(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def interact(*arguments: object) -> None:
        raise Asked

    monkeypatch.setattr(queue.database, "interact", interact)


def test_no_query(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.send(1, notice("a"), notice("b"), notice("c"))
    cursors = [of_last_set(queue), of_last_set(queue, 2), of_last_set(queue, seq=1), of_last_set(queue, seq=3)]
    with monkeypatch.context() as patch:
        refuse(queue, patch)
        fresh = [read(queue, [cursor]) for cursor in cursors]
    names = [[row.notice.curl[-1] for row in ahead.rows] for (ahead,) in fresh]
    assert names == [["a", "b", "c"], ["a", "b"], ["b", "c"], []]
    forget(queue)
    assert [read(queue, [cursor]) for cursor in cursors] == fresh


def test_who_had_nothing_to_fetch(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows need not be looked for from the first of its new sets on only."""
    others = [queue.pid, *(queue.add_provider() for _ in range(2))]
    for pid in others:
        queue.pid = pid
        queue.send(1, notice("a"))
        with monkeypatch.context() as patch:
            refuse(queue, patch)
            (ahead,) = read(queue, [Cursor(pid, 0, 0, 10)])
        assert [row.pid for row in ahead.rows] == [pid]


def test_many_providers(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they had anything is not asked."""
    pids = [queue.pid, *(queue.add_provider() for _ in range(5))]
    pieces: list[SetPiece] = []
    for pid in pids:
        queue.pid = pid
        pieces += queue.pieces(queue.header(1), [notice("a")])
    queue.absorb(pieces)
    refuse(queue, monkeypatch)
    assert len(read(queue, [of_last_set(queue)])[0].rows) == 1
    with pytest.raises(Asked):
        read(queue, [Cursor(queue.pid, 0, 0, 10)])


def test_what_comes_from_a_time_slot(queue: Queue) -> None:
    """It was queued before, but not to be fetched now."""
    queue.send(1, notice("a", hours="03:00-04:00"))
    queue.send(2, notice("a"), notice("b"))
    cursor = Cursor(queue.pid, 0, 0, 10)
    fresh = read(queue, [cursor])
    assert {row.notice.curl[-1] for row in fresh[0].rows} == {"a", "b"}
    forget(queue)
    assert fresh == read(queue, [cursor])


def test_asked_where_more_may_be_there(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.send(1, notice("a"))
    queue.send(2, notice("b"))
    cursor = of_last_set(queue)
    refuse(queue, monkeypatch)
    for more in ({"psetid": cursor.psetid - 1}, {"psetid": 0}, {"partial": True}, {"pid": 999, "psetid": 0}):
        with pytest.raises(Asked):
            read(queue, [cursor._replace(**more)])
    with pytest.raises(Asked):
        read(queue, [cursor], [queue.pid])
    assert [row.notice.curl[-1] for row in read(queue, [cursor])[0].rows] == ["b"]


def test_asked_after_any_write(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.send(1, notice("a"))
    cursor = of_last_set(queue)
    forget(queue)
    refuse(queue, monkeypatch)
    with pytest.raises(Asked):
        read(queue, [cursor])


def test_full_sets(queue: Queue) -> None:
    """How much is left of one tells whether others may pass it."""
    queue.send(1, notice("a"), notice("b"), full=True)
    (ahead,) = read(queue, [of_last_set(queue)])
    assert (len(ahead.rows), ahead.full_left) == (2, 2)


def test_cached_content(queue: Queue) -> None:
    """It comes with what its server may confirm."""
    queue.send(1, notice("a", md5="1" * 32))
    (row,) = queue.rows()
    queue.record(queue.fetched(row, etag='"1"', revalidate=True))
    queue.send(2, notice("a"), notice("b"))
    (ahead,) = read(queue, [of_last_set(queue)])
    stored = {row.notice.curl[-1]: row.stored for row in ahead.rows}
    assert stored["a"] is not None and stored["a"].etag == '"1"' and stored["b"] is None
    forget(queue)
    assert read(queue, [of_last_set(queue)]) == [ahead]


def batch(queue: Queue, random: Random, pids: Sequence[int]) -> list[SetPiece]:
    """Sets of several providers, whole or in part, that tell some URLs again, delete some, and wait for hours."""
    pieces = []
    for _ in range(random.randrange(1, 5)):
        queue.pid = random.choice(pids)
        header = queue.header(random.randrange(1, 9))
        notices: list[KeyedNotice] = []
        for _ in range(random.randrange(1, 6)):
            attributes = {
                "delete": random.random() < 0.2,
                "hours": random.choice(["", "", "03:00-04:00"]),
                "length": random.choice([None, 0, 5]),
                "mtime": random.choice([None, 7]),
                "md5": random.choice(["", "2" * 32]),
            }
            notices.append(queue.keyed(notice(random.choice("abcdef"), **attributes)))
        pieces.append(SetPiece(header, 0, tuple(notices), random.random() < 0.8))
        if not pieces[-1].last:
            break  # its rest comes later
    return pieces


@pytest.mark.parametrize("seed", range(6))
def test_as_the_database_says(queue: Queue, seed: int) -> None:
    random = Random(seed)
    pids = [queue.pid, *(queue.add_provider() for _ in range(2))]
    fresh_rows = 0
    for _ in range(25):
        before = of_last_set(queue).psetid
        queue.absorb(batch(queue, random, pids))
        upto = of_last_set(queue).psetid
        cursors = [
            Cursor(
                pid,
                random.choice([0, random.randint(before, upto)]),
                random.choice([0, 0, 1, 2]),
                random.choice([2, 10]),
            )
            for pid in pids
        ]
        fresh = read(queue, cursors)
        fresh_rows += sum(len(ahead.rows) for ahead in fresh)
        forget(queue)
        assert fresh == read(queue, cursors)
        if random.random() < 0.5:
            queue.record(*[queue.fetched(row) for row in queue.rows(random.choice(pids)) if not row.delete])
    assert fresh_rows > 10
