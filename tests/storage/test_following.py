"""What is noted of the changes of a provider that is being copied elsewhere: the key of each row that is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lcc
from lcc.model.frontend.moves import Fence
from lcc.storage.database.tables.key_ranges import provider_of
from lcc.storage.queue.intake import sweep
from lcc.storage.queue.moves import leaving
from lcc.storage.queue.moves.fences import put_fence
from lcc.storage.queue.moves.following import Position, forget_touched, is_known, position_now, touched_after
from tests.storage.test_history import SHARED, History
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

_ROWS = "SELECT * FROM {} ORDER BY urlkey"
_CHANGING = re.compile(r'"(?:UPDATE|DELETE FROM) (?:lccurl|qdb) ')


class Witness:
    """Compares all rows before and after each write with what was noted."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.database = queue.database
        self.noted = 0
        self._write = queue.database.write
        self._before = self._rows()
        self._position = self.database.now(position_now)

    def write(self, function: Callable[..., Any], *args: Any) -> Any:
        done = self._write(function, *args)
        rows = self._rows()
        changed = {key for key in rows.keys() | self._before.keys() if rows.get(key) != self._before.get(key)}
        self._before = rows
        found: set[bytes] = set()
        position = self._position
        for pid in {provider_of(key[1]) for key in changed}:
            keys, position = self.database.now(touched_after, pid, self._position, 100_000)
            found.update(keys)
        assert {key for _, key in changed} <= found
        self.noted += len(changed)
        self._position = position
        return done

    def _rows(self) -> dict[tuple[str, bytes], tuple[Any, ...]]:
        return {
            (table, bytes(row[0])): row
            for table in ("lccurl", "qdb")
            for row in self.database.query(_ROWS.format(table))
        }


def fence(queue: Queue, pid: int, state: Fence, epoch: int = 1) -> None:
    result_of(queue.store.move_step(10, put_fence, pid, epoch, state))


@pytest.fixture
def witness(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Witness]:
    fence(queue, queue.pid, Fence.FOLLOWED)
    one = Witness(queue)
    monkeypatch.setattr(queue.database, "write", one.write)
    yield one


def test_all_that_is_written_is_noted(witness: Witness) -> None:
    queue = witness.queue
    queue.send(1, *(notice(name) for name in "abcdef"))
    queue.fetch_all()
    queue.send(2, notice("a", md5="1" * 32), notice("b", delete=True), notice("c", hours="3"))
    queue.fetch_all()
    queue.send(3, notice("a"), notice("g"), full=True)
    result_of(queue.store.housekeeping(10 + 400 * 86400))
    queue.fetch_all()
    assert witness.noted > 20


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@settings(SHARED, max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_histories(long_lived: Queue, seed: int) -> None:
    queue = long_lived
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "PAGE_ROWS", 2)
        history = History(queue, Random(seed), final=bool(seed % 2))
        fence(queue, queue.pid, Fence.FOLLOWED)
        one = Witness(queue)
        patch.setattr(queue.database, "write", one.write)
        history.run()


def test_only_followed_providers_are_noted(queue: Queue) -> None:
    other = queue.add_provider()
    fence(queue, other, Fence.FOLLOWED)
    queue.send(1, notice("a"))
    touched = "SELECT COUNT(*) FROM touched"
    assert queue.database.query(touched) == [(0,)]
    for epoch, (state, noted) in enumerate([(Fence.FOLLOWED, True), (Fence.FROZEN, True), (Fence.OPEN, False)], 2):
        fence(queue, queue.pid, state, epoch)
        queue.database.now(lambda txn: txn.execute("DELETE FROM touched"))
        queue.fetch_all()
        assert (queue.database.query(touched) == [(1,)]) == (noted and bool(queue.file)), state
        fence(queue, queue.pid, Fence.OPEN, epoch)
        queue.send(epoch, notice("a", md5=f"{epoch}" * 32))


def test_pages_of_what_was_touched(queue: Queue) -> None:
    fence(queue, queue.pid, Fence.FOLLOWED)
    start = queue.database.now(position_now)
    queue.send(1, *(notice(name) for name in "abcde"))
    queue.send(2, notice("c", md5="1" * 32), notice("f"))
    position, found = start, []
    while True:
        keys, position = queue.database.now(touched_after, queue.pid, position, 2)
        found += keys
        if len(keys) < 2:
            break
    assert sorted(found) == sorted(queue.key(name) for name in "abcdef")
    assert queue.database.now(touched_after, queue.pid, position, 2) == ([], position)
    while queue.database.now(forget_touched, queue.pid, 2):
        pass
    assert queue.database.query("SELECT * FROM touched") == []


def test_a_database_that_was_put_back_is_noticed(queue: Queue) -> None:
    fence(queue, queue.pid, Fence.FOLLOWED)
    queue.send(1, notice("a"))
    queue.fetch_all()
    now = queue.database.now(position_now)
    assert queue.database.now(is_known, now)
    queue.claim()
    assert queue.database.now(is_known, now)
    assert not queue.database.now(is_known, now._replace(change=now.change + 1))
    assert not queue.database.now(is_known, now._replace(number=now.number + 1))
    assert not queue.database.now(is_known, Position("another", 0, 0))


def test_statements_name_the_keys_that_they_change() -> None:
    """A statement that changes rows of the cache or the queue and names no keys would not be noted."""
    found = 0
    left = Path(leaving.__file__)  # whoever has left is not followed
    for path in sorted(set(Path(lcc.__file__).parent.glob("storage/**/*.py")) - {left}):
        text = path.read_text()
        for statement in _CHANGING.finditer(text):
            found += 1
            rest = text[statement.start() : statement.start() + 400]
            assert re.search(r"urlkey IN \(\{+in\}+\)", rest), f"{path}: {rest}"
    assert found > 10
