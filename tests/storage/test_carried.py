"""Batches of content files in the queue and the cache, on each backend."""

from __future__ import annotations

from typing import Any

import pytest

from lcc.errors import code
from lcc.model import FetchResult, QueueRow, Source
from lcc.model.content_batches import FILES_MAX, StoredFile, write_stored
from lcc.storage.queue.moves import staging
from lcc.storage.queue.moves.carried import (
    batch_names,
    carried_key,
    carried_names,
    carried_notice,
    carried_url,
)
from tests.support.queue import Queue, notice

CONTENT = "http://site/content"
NAMES = ["1/100", "1/101", "1/150", "1/7000"]
BATCH = "1/100,1,49,6850"
FILES: list[StoredFile] = [(number, f"{number:032x}") for number in (1, 2, 3, 4)]


def ask(queue: Queue, *names: str) -> list[QueueRow]:
    """A carrier asks for these."""
    queue.send(0, *[carried_notice(CONTENT, name) for name in names], source=Source.POLLED)
    return queue.rows()


def brought(queue: Queue, row: QueueRow, files: list[StoredFile] = FILES, **more: Any) -> FetchResult:
    """The result of a batch; it takes as many file ids as the batch has files."""
    result = queue.fetched(row, md5="", files=write_stored(files), **more)
    queue.file += len(files) - 1
    return result


def here(queue: Queue) -> dict[str, tuple[Any, ...]]:
    """Content that is here: name -> machine, file, length, md5."""
    rows = queue.database.query(
        "SELECT curl, fetched_machineid, fetched_fileid, len, md5 FROM lccurl"
        " WHERE state = 1 AND curl LIKE 'http://site/content/%'"
    )
    return {carried_names(url)[1][0]: tuple(row) for url, *row in rows}


def missed(queue: Queue) -> list[str]:
    return queue.database.now(staging.missed, queue.pid).names


def unasked(queue: Queue, names: list[str]) -> list[str]:
    return queue.database.now(staging.unasked, queue.rules, queue.pid, CONTENT, names)


def left(queue: Queue) -> int:
    return queue.database.now(staging.content_left, queue.pid)


def test_names() -> None:
    assert batch_names(["1/7000", *NAMES, "2/5"], FILES_MAX) == [BATCH, "2/5"]
    assert batch_names(NAMES, 2) == ["1/100,1", "1/150,6850"]
    assert batch_names(NAMES, 1) == NAMES
    assert carried_url(CONTENT, "3/9") == "http://site/content/3/9?relay=yes", "also if another machine has it"
    assert carried_names(carried_url(CONTENT + "/", BATCH)) == (CONTENT, NAMES)
    assert carried_names(carried_url(CONTENT, "3/9")) == (CONTENT, ["3/9"])
    assert carried_notice(CONTENT, "3/9").subtype == ""


def test_a_batch_brings_a_row_for_each_file(queue: Queue) -> None:
    (row,) = ask(queue, BATCH)
    assert left(queue) == 4
    assert unasked(queue, [*NAMES, "1/102"]) == ["1/102"]
    recorded = queue.record(brought(queue, row))
    assert not recorded.again and not recorded.deletes
    assert here(queue) == {name: (1, 1 + i, *(FILES[i] or ())) for i, name in enumerate(NAMES)}
    assert not queue.rows() and left(queue) == 0 and not missed(queue)
    assert unasked(queue, [*NAMES, "1/102"]) == ["1/102"]
    queue.check_books()
    # As if it had been asked for by itself: so fsck has a damaged one fetched again.
    key = carried_key(queue.rules, queue.pid, CONTENT, "1/150")
    assert queue.database.query("SELECT fetched_fileid FROM lccurl WHERE urlkey = ?", [key]) == [(3,)]


def test_what_a_batch_does_not_bring_is_noted(queue: Queue) -> None:
    (row,) = ask(queue, BATCH)
    queue.record(brought(queue, row, [FILES[0], None, FILES[2], None]))
    assert sorted(here(queue)) == ["1/100", "1/150"]
    assert missed(queue) == ["1/101", "1/7000"]
    assert not queue.rows()
    queue.check_books()


@pytest.mark.parametrize("name", ["http-404", "scheme-unsupported", "body-too-long"])
def test_a_batch_that_fails_is_noted_as_a_whole(queue: Queue, name: str) -> None:
    (row,) = ask(queue, BATCH)
    queue.record(queue.failed(row, 404 if name == "http-404" else code(name)))
    assert missed(queue) == NAMES
    assert not queue.rows() and queue.stats("errothers") == 0
    queue.check_books()


def test_a_batch_is_tried_again(queue: Queue) -> None:
    (row,) = ask(queue, BATCH)
    queue.record(queue.failed(row, code("connect-refused")))
    (row,) = queue.rows()
    assert left(queue) == 4 and not missed(queue)
    queue.record(brought(queue, row))
    assert sorted(here(queue)) == sorted(NAMES)
    queue.check_books()


def test_an_error_of_a_batch_that_is_asked_for_again_meanwhile(queue: Queue) -> None:
    (out,) = ask(queue, BATCH)
    (row,) = ask(queue, BATCH)
    assert row.generation > out.generation
    recorded = queue.record(queue.failed(out, code("connect-refused")))
    assert list(recorded.held) == [queue.pid] and queue.rows() == [row] and not missed(queue)


def test_a_batch_that_an_older_version_has_stored_as_one_file(queue: Queue) -> None:
    (row,) = ask(queue, BATCH)
    queue.record(queue.fetched(row))
    assert here(queue) == {} and missed(queue) == NAMES
    assert queue.files_to_delete() == [1]
    queue.check_books()


def test_a_result_that_comes_twice_removes_nothing(queue: Queue) -> None:
    (row,) = ask(queue, BATCH)
    result = brought(queue, row)
    queue.record(result)
    before = here(queue)
    assert not queue.record(result).deletes
    # Also when others have taken some of the files over, and nobody the others.
    write = queue.database.now
    keys = [carried_key(queue.rules, queue.pid, CONTENT, name) for name in NAMES]
    queue.send(1, notice("a"))
    queue.fetch_all()
    write(lambda txn: txn.execute("DELETE FROM lccurl WHERE urlkey IN (?, ?)", keys[:2]))
    write(lambda txn: txn.execute("UPDATE lccurl SET fetched_fileid = 2 WHERE urlkey = ?", [queue.key("a")]))
    assert queue.record(result).deletes
    assert queue.files_to_delete() == [1]
    assert {name: row for name, row in before.items() if name in NAMES[2:]}.items() <= here(queue).items()


def test_files_that_are_here_already_are_removed(queue: Queue) -> None:
    """Two batches have some files in common."""
    first, second = ask(queue, BATCH, "1/101,49")
    queue.record(brought(queue, second, FILES[1:3]))
    queue.record(brought(queue, first))
    assert here(queue)["1/101"][1] == 1 and here(queue)["1/100"][1] == 3
    assert queue.files_to_delete() == [4, 5]
    queue.check_books()


def test_a_result_of_an_earlier_life_of_the_row_brings_nothing(queue: Queue) -> None:
    """Its files may have delete orders."""
    (row,) = ask(queue, BATCH)
    result = brought(queue, row)
    queue.record(result)
    keys = [carried_key(queue.rules, queue.pid, CONTENT, name) for name in NAMES]
    queue.database.now(lambda txn: txn.execute_in("DELETE FROM lccurl WHERE urlkey IN ({in})", keys))
    queue.record(result)
    assert queue.files_to_delete() == [1, 2, 3, 4]
    (again,) = ask(queue, BATCH)
    queue.record(result)
    assert here(queue) == {} and queue.rows() == [again]
    queue.record(brought(queue, again))
    assert here(queue)["1/100"][1] == 5
    queue.check_books()


def test_other_files_than_were_asked_for(queue: Queue) -> None:
    (row,) = ask(queue, BATCH)
    queue.record(brought(queue, row, FILES[:3]))
    assert here(queue) == {} and queue.files_to_delete() == [1, 2, 3]
    assert not queue.rows() and left(queue) == 4  # it waits, and is tried again


def test_files_of_an_ordinary_page_are_removed(queue: Queue) -> None:
    queue.send(1, notice("a"))
    (row,) = queue.rows()
    queue.record(brought(queue, row))
    assert queue.cached() == {} and queue.files_to_delete() == [1, 2, 3, 4]


def test_of_a_provider_that_is_removed_nothing_is_kept(queue: Queue) -> None:
    (row,) = ask(queue, BATCH)
    queue.database.now(staging.remove_carrier, queue.pid)
    queue.record(queue.failed(row, 404))
    assert missed(queue) == []
    queue.carry_out()
    queue.record(brought(queue, row))
    assert here(queue) == {} and queue.files_to_delete() == [1, 2, 3, 4]
    assert queue.database.query("SELECT COUNT(*) FROM staged") == [(0,)]
