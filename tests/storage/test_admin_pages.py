"""Orders of operators that are carried out in many pages: the removal of a provider, its new hours."""

from __future__ import annotations

import attrs
import pytest

from lcc.model import FETCH_NOW, SITE, Source
from lcc.storage.database.tables.order_rows import CHANGED, REMOVED, next_order
from lcc.storage.providers.providers import change_provider, get_provider, order_removal
from lcc.storage.queue.admin import orders, provider_changed
from tests.support.databases import result_of
from tests.support.queue import Queue, notice

HOUR = 3600


@pytest.mark.parametrize("page_rows", [2, 3, 2000])
def test_a_removed_provider_leaves_tombstones(queue: Queue, monkeypatch: pytest.MonkeyPatch, page_rows: int) -> None:
    """Named by the same as their content, but for polls."""
    monkeypatch.setattr(orders, "PAGE_ROWS", page_rows)
    told, polled = int(Source.TOLD), int(Source.POLLED)
    queue.send(1, *[notice(name) for name in "abcd"], notice("gone"))
    queue.send(0, notice("a"), notice("robots.txt"), source=Source.POLLED)
    queue.fetch_all()
    queue.send(2, notice("gone", delete=True), *[notice(f"new{name}") for name in "abcde"])
    files = {file for (file,) in queue.database.query("SELECT fetched_fileid FROM lccurl WHERE state = 1")}
    former = set(queue.files_to_delete())
    queue.database.now(order_removal, queue.pid)
    assert queue.carry_out().finished == ((REMOVED, queue.pid, 0),)
    assert sorted(set(queue.files_to_delete()) - former) == sorted(files) and len(files) == 5
    assert not queue.database.query("SELECT 1 FROM qdb") and not queue.database.query("SELECT 1 FROM pidb")
    rows = queue.database.query("SELECT curl, state, source, confirmed_time FROM lccurl")
    left = {url.removeprefix("http://site/"): (state, source) for url, state, source, _ in rows}
    assert left.pop("gone") == (0, int(SITE)), "of before"
    assert left == {**dict.fromkeys("abcd", (0, told)), "robots.txt": (0, polled)}
    assert {time for url, _, _, time in rows if not url.endswith("gone")} == {50}
    assert queue.stats("nurlproc") == queue.stats("files_used") == 0 and queue.stats("maxconnseq") == 2
    queue.check_books()


def test_an_order_that_is_gone_is_done(queue: Queue) -> None:
    """The commit that deleted it was not heard of."""
    queue.database.now(order_removal, queue.pid)
    order = queue.database.now(next_order)
    assert order is not None
    again = order._replace(progress=b"q")
    carried_out, _ = result_of(queue.store.move_step(50, orders.carry_out, queue.rules, again))
    assert carried_out is False, "it is further than that"
    for _ in range(2):
        carried_out, _ = result_of(queue.store.move_step(50, orders.carry_out, queue.rules, order))
        assert carried_out is True


@pytest.mark.parametrize("sets_at_once", [1, 2, 1000])
def test_new_hours_of_many_sets(queue: Queue, monkeypatch: pytest.MonkeyPatch, sets_at_once: int) -> None:
    monkeypatch.setattr(provider_changed, "_SETS_AT_ONCE", sets_at_once)
    for number in range(1, 6):
        queue.send(number, notice(f"{number}a", hours="5"), notice(f"{number}b", hours="5,8"), now=3 * HOUR)
    assert {slot for (slot,) in queue.database.query("SELECT slot FROM qdb")} == {5}
    provider = queue.database.now(get_provider, queue.pid)
    assert provider is not None
    queue.database.now(change_provider, attrs.evolve(provider, hours="8-10", priority=7))
    assert [kind for kind, *_ in queue.carry_out(3 * HOUR).finished] == [CHANGED]
    slots = dict(queue.database.query("SELECT curl, slot FROM qdb"))
    assert slots == {
        f"http://site/{number}{name}": FETCH_NOW if name == "a" else 8 for number in range(1, 6) for name in "ab"
    }, "what never meets them is to be reported"
    assert {row[0] for row in queue.database.query("SELECT pri FROM qpsdb")} == {7}
    queue.check_books()
