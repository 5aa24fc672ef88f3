"""Books of sets and of writes: which sets are applied, what is told once, which errors are kept."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from lcc.config import QmConfig
from lcc.model import Source
from lcc.model.notifiers import NoticeId
from lcc.storage.queue.intake.said_sets import EPOCHS_MAX
from tests.storage.test_said_sets import known, tell
from tests.support.databases import DirectDatabase, result_of
from tests.support.logs import LoggedErrors
from tests.support.queue import Queue, notice


def test_full_sets_that_come_together_are_completed_one_by_one(queue: Queue) -> None:
    queue.send(1, *[notice(name, "1") for name in "abc"])
    queue.fetch_all()
    full = [queue.header(number, full=True) for number in (2, 3)]
    absorbed = queue.absorb(
        [
            *queue.pieces(full[0], [notice("a", "1"), notice("b", "1")], 1),
            *queue.pieces(full[1], [notice("a", "1")]),
            *queue.pieces(queue.header(4), [notice("c", "1")]),
        ]
    )
    assert [answer.number for answer in absorbed.answers] == [2, 3, 4]
    assert [row.notice.curl[-1] for row in queue.rows() if not row.delete] == ["c"]
    assert queue.cached() == {f"http://site/{name} text/html": "deleted" for name in "bc"} | {
        "http://site/a text/html": "cached"
    }
    queue.check_books()


def test_who_has_never_sent_anything_has_no_rows_without_a_type(queue: Queue) -> None:
    queue.send(1, notice("a"))
    assert queue.stats("untyped") == 0


def test_what_is_lost_is_told_once(queue: Queue) -> None:
    queue.send(1, *[notice(name, "1") for name in "abc"])
    queue.fetch_all()
    ((before,),) = queue.database.query("SELECT value FROM counters WHERE name = 'psetid'")
    told = result_of(queue.store.fetch_again(1, [1, 2, 3], 50))
    assert told.queued == {queue.pid: (before + 1, 1)}
    places = queue.database.query("SELECT psetid, seq FROM qdb ORDER BY seq")
    assert places == [(before + 1, seq) for seq in (1, 2, 3)], "one set"
    assert result_of(queue.store.fetch_again(1, [99], 50)).queued == {}


def test_a_set_that_is_missing_is_restored_from_its_rows(queue: Queue, logged_errors: LoggedErrors) -> None:
    """And from no others."""
    queue.send(1, notice("a"), notice("b"), notice("c"))
    queue.send(2, *[notice(f"{number}") for number in range(7)])
    first, second, third = queue.rows()[:3]
    queue.database.now(lambda txn: txn.execute("DELETE FROM qpsdb WHERE psetid = ?", [first.psetid]))
    queue.record(queue.fetched(second))
    sql = "SELECT firstseq, lastseq, nurls FROM qpsdb WHERE psetid = ?"
    assert queue.database.query(sql, [first.psetid]) == [(first.seq, third.seq, 2)]
    assert len(logged_errors.flush("was missing; restored")) == 1
    queue.check_books()


def test_a_set_that_is_refused_takes_no_epochs_place(queue: Queue) -> None:
    for number in range(1, EPOCHS_MAX + 1):
        tell(queue, number, 1, str(number), epoch=f"e{number}")
    before = known(queue)
    assert len(before) == EPOCHS_MAX
    header = attrs.evolve(queue.header(0, number=9), pid=9999, source=Source.POLLED)
    header = attrs.evolve(header, said=NoticeId("push/p1", "e9", 1, 0))
    absorbed = queue.absorb(queue.pieces(header, [notice("x")]))
    assert [answer.code for answer in absorbed.answers] == [1105]
    assert known(queue) == before


@pytest.mark.parametrize(("source", "sign"), [(Source.TOLD, 1), (Source.POLLED, -1)])
def test_only_the_last_errors_are_kept(database: DirectDatabase, source: Source, sign: int) -> None:
    """Those that are not for the provider have numbers below 0."""
    queue = Queue(database, QmConfig(errors_kept=3))
    for number in range(1, 6):
        queue.send(number if sign > 0 else 0, notice(f"{number}"), source=source)
        queue.record(*[queue.failed(row, 404) for row in queue.rows()])
    numbers = [row[0] * sign for row in queue.database.query("SELECT number FROM urlerrs")]
    assert sorted(numbers) == [3, 4, 5]
    assert queue.stats("errseq" if sign > 0 else "errothers") == 5


def test_deletions_that_are_meant_where_none_are_held(queue: Queue) -> None:
    queue.send(1, notice("a"))
    queue.fetch_all()
    queue.send(2, notice("a", delete=True), deletions=True)
    assert set(queue.cached().values()) == {"deleted"} and not queue.database.query("SELECT 1 FROM orders")


def test_where_locks_are_local_each_write_changes_a_row_that_a_claim_changes(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Galera then commits only one of the two."""

    def fence() -> Any:
        return queue.database.query("SELECT value FROM counters WHERE name = 'fence'")[0][0]

    before = fence()
    queue.send(1, notice("a"))
    assert fence() == before
    dialect = queue.database.now(lambda txn: txn.dialect)
    monkeypatch.setattr(type(dialect), "certifies", True, raising=False)
    queue.send(2, notice("b"))
    assert fence() == before + 1
    queue.claim()
    assert fence() == before + 2


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_what_other_sources_have_said_is_remembered_within_a_transaction(
    queue: Queue, together: bool, cached: bool
) -> None:
    """A push has taken back the page; of pushes an older one does nothing."""
    queue.send(1, notice("a", "1"))
    if cached:
        queue.fetch_all()
    sets = [
        queue.pieces(queue.header(5, source=Source.PUSHED), [notice("a", retract=True)]),
        queue.pieces(queue.header(6), [notice("a", "1")]),
    ]
    for pieces in [[*sets[0], *sets[1]]] if together else sets:
        queue.absorb(pieces)
    table = "lccurl" if cached else "qdb"
    assert queue.database.query(f"SELECT connseq, source, words FROM {table}") == [(6, int(Source.TOLD), "2:5")]
    queue.check_books()


def test_what_was_withdrawn_stays_so_until_somebody_names_it(queue: Queue) -> None:
    """However often it is polled."""
    told, polled, withdrawn = int(Source.TOLD), int(Source.POLLED), 64

    def source() -> int:
        return int(queue.database.query("SELECT source FROM lccurl")[0][0])

    queue.send(0, notice("a"), source=Source.POLLED)
    queue.fetch_all()
    queue.send(0, notice("a"), source=Source.POLLED)
    assert source() == polled
    queue.fetch_all()
    queue.send(1, notice("a", "1"))
    queue.fetch_all()
    queue.send(2, notice("a", delete=True))
    assert source() == polled | withdrawn
    for _ in range(2):
        queue.send(0, notice("a"), source=Source.POLLED)
        assert source() == polled | withdrawn
        queue.fetch_all()
        assert source() == polled | withdrawn
    queue.send(3, notice("a", "1"))
    queue.fetch_all()
    assert source() == told | polled
    queue.check_books()
