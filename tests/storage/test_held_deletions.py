"""Full sets that would delete most of a provider: what they did not name waits for somebody's word."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.config import QmConfig
from lcc.domain.notices.deletions import is_mass_deletion
from lcc.errors import StoreUnavailable
from lcc.model import SetAnswer, Source
from lcc.storage.database.tables.order_rows import ALLOW_DELETIONS, DROP_DELETIONS, RETRY, add_order
from lcc.storage.providers.providers import change_provider, get_provider, order_removal, provider_status
from lcc.storage.queue.admin import orders as admin_orders
from lcc.storage.queue.intake import sweep
from lcc.storage.queue.intake import sweep as queue_sweep
from lcc.storage.queue.intake.held_deletions import HeldSweep, held_sweep
from lcc.storage.queue.maintenance import housekeeping
from tests.support.databases import DirectDatabase, result_of
from tests.support.queue import Queue, notice

GUARDED = QmConfig(delete_grace=0, mass_deletion_share=0.5, mass_deletion_floor=2)
TEN = [f"{number}" for number in range(10)]
DAY = 86400


@pytest.fixture(params=[3, 5000])
def queue(database: DirectDatabase, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setattr(sweep, "PAGE_ROWS", request.param)
    return filled(Queue(database, GUARDED))


def filled(queue: Queue) -> Queue:
    queue.send(1, *[notice(name, "1") for name in TEN], full=True)
    queue.fetch_all()
    return queue


def paths(queue: Queue) -> str:
    """What is cached."""
    return "".join(sorted(name.split()[0][12:] for name, state in queue.cached().items() if state == "cached"))


def held(queue: Queue) -> HeldSweep | None:
    return queue.database.now(held_sweep, queue.pid)


def order(queue: Queue, kind: str, psetid: int = 0) -> None:
    there = held(queue)
    queue.database.now(add_order, kind, queue.pid, 0, str(psetid or (there.psetid if there else 0)))


@given(cached=st.integers(0, 10**6), share=st.floats(0, 1), floor=st.integers(0, 1000), data=st.data())
def test_the_rule(cached: int, share: float, floor: int, data: st.DataObject) -> None:
    deletions = data.draw(st.integers(0, cached))
    mass = is_mass_deletion(deletions, cached, share, floor)
    assert mass == (deletions > floor and deletions > share * cached)
    assert not is_mass_deletion(deletions, cached, 1.0, 0), "1 is without limit"
    # A sweep that was interrupted is judged again, by what is left: it does not become too much by that.
    done = data.draw(st.integers(0, deletions))
    assert mass or not is_mass_deletion(deletions - done, cached - done, share, floor)


def test_most_of_a_provider_is_not_deleted_without_a_word(queue: Queue) -> None:
    absorbed = queue.send(2, notice("0", "2"), notice("new", "1"), full=True, now=77)
    assert absorbed.answers == (SetAnswer("e", 2, 0),), "it is accepted"
    queue.fetch_all()
    assert paths(queue) == "0123456789new", "what it tells is done"
    sweep = held(queue)
    assert sweep is not None and (sweep.deletions, sweep.told, sweep.time) == (9, 10, 77)
    status = queue.database.now(provider_status, queue.pid, 0)
    assert (status.deletions_held, status.deletions_of) == (9, 10)
    queue.check_books()


@pytest.mark.parametrize(("kept", "is_held"), [(5, False), (4, True), (0, True)])
def test_up_to_the_share_it_is_deleted(queue: Queue, kept: int, is_held: bool) -> None:
    queue.send(2, *[notice(name, "1") for name in TEN[:kept]], full=True)
    assert paths(queue) == ("0123456789" if is_held else "01234")
    assert (held(queue) is not None) == is_held
    queue.check_books()


def test_what_was_deleted_before_and_what_others_name_does_not_count(queue: Queue) -> None:
    queue.send(2, *[notice(name, delete=True) for name in TEN[6:]])
    queue.send(3, *[notice(f"pushed{name}") for name in TEN[:8]], source=Source.PUSHED)
    queue.fetch_all()
    queue.send(4, *[notice(name, "1") for name in TEN[:2]], full=True)
    sweep = held(queue)
    assert sweep is not None and (sweep.deletions, sweep.told) == (4, 6)
    tombstones = queue.database.query("SELECT urlkey, connseq, confirmed_time FROM lccurl WHERE state = 0")
    queue.send(5, *[notice(name, "1") for name in TEN[:3]], full=True, now=99)
    assert paths(queue) == "012" + "".join(f"pushed{name}" for name in TEN[:8]), "three of six"
    assert set(tombstones) < set(
        queue.database.query("SELECT urlkey, connseq, confirmed_time FROM lccurl WHERE state = 0")
    )
    queue.check_books()


def test_content_that_waits_to_be_fetched_again_goes_as_well(queue: Queue) -> None:
    """Whatever of it is looked at first."""
    queue.send(2, *[notice(name, "2") for name in TEN])
    queue.send(3, full=True, deletions=True)
    assert paths(queue) == "" and all(row.delete for row in queue.rows()) and len(queue.files_to_delete()) == 10
    queue.check_books()


@pytest.mark.parametrize(("floor", "left"), [(10, ""), (9, "0123456789")])
def test_few_are_never_held(database: DirectDatabase, floor: int, left: str) -> None:
    queue = filled(Queue(database, attrs.evolve(GUARDED, mass_deletion_floor=floor)))
    queue.send(2, full=True)
    assert paths(queue) == left


def test_without_limit_nothing_is_held(database: DirectDatabase) -> None:
    queue = filled(Queue(database, attrs.evolve(GUARDED, mass_deletion_share=1.0, mass_deletion_floor=0)))
    queue.send(2, full=True)
    assert paths(queue) == "" and held(queue) is None


def test_a_set_whose_deletions_are_meant_deletes(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    assert held(queue)
    queue.send(3, notice("1", "1"), full=True, deletions=True)
    assert paths(queue) == "1" and held(queue) is None
    queue.check_books()


def test_partial_sets_are_never_held(queue: Queue) -> None:
    queue.send(2, *[notice(name, delete=True) for name in TEN])
    assert paths(queue) == "" and held(queue) is None


def test_the_operator_releases_it_and_what_was_told_since_stays(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    queue.send(3, notice("1", "1"), notice("2", "2"), notice("3", "1", ifabsent=True))
    order(queue, ALLOW_DELETIONS)
    done = queue.carry_out()
    assert done.finished == ((ALLOW_DELETIONS, queue.pid, 0),) and done.work.deletes
    assert paths(queue) == "0123" and held(queue) is None, "2 is queued, and keeps its content"
    queue.check_books()
    queue.fetch_all()
    assert paths(queue) == "0123"
    queue.check_books()


def test_what_is_queued_and_not_named_is_held_as_well(queue: Queue) -> None:
    queue.send(2, notice("a"), notice("b"))
    queue.send(3, notice("b"), full=True)
    assert [row.notice.curl[12:] for row in queue.rows()] == ["a", "b"]
    order(queue, ALLOW_DELETIONS)
    assert queue.carry_out().work.queued, "what was read ahead has to be read again"
    assert [(row.notice.curl[12:], row.delete) for row in queue.rows()] == [("a", True), ("b", False)]
    queue.check_books()


def test_what_is_not_fetched_yet_counts(database: DirectDatabase) -> None:
    """Else it would depend on the robots whether a set is held, and a page that comes in between would be deleted."""
    queue = Queue(database, GUARDED)
    queue.send(1, *[notice(name) for name in TEN], full=True)
    queue.send(2, notice("new"), full=True)
    sweep = held(queue)
    assert sweep is not None and (sweep.deletions, sweep.told) == (10, 10)
    queue.fetch_all()
    assert paths(queue) == "0123456789new"
    queue.check_books()


def test_what_waits_among_what_is_cached_counts_once(queue: Queue) -> None:
    queue.send(2, *[notice(name, "2") for name in TEN], *[notice(f"new{name}") for name in TEN])
    queue.send(3, full=True)
    sweep = held(queue)
    assert sweep is not None and (sweep.deletions, sweep.told) == (20, 20)


def test_only_what_is_held_of_this_provider_is_released(queue: Queue) -> None:
    other, queue.pid = queue.pid, queue.add_provider()
    filled(queue)
    queue.send(2, notice("0", "1"), full=True)
    order(queue, ALLOW_DELETIONS)
    queue.carry_out()
    assert paths(queue) == "0" and held(queue) is None
    queue.check_books()
    queue.pid = other
    assert paths(queue) == "0123456789"
    queue.check_books()


def test_a_partial_set_whose_deletions_are_meant_releases_it(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    queue.send(3, notice("4", "1"), deletions=False)
    queue.carry_out()
    assert held(queue)
    queue.send(4, notice("5", "1"), deletions=True)
    queue.carry_out()
    assert paths(queue) == "045" and held(queue) is None
    queue.check_books()


def test_a_word_of_before_the_set_that_is_held_releases_nothing(queue: Queue) -> None:
    queue.send(4, notice("0", "1"), full=True)
    queue.send(3, notice("1", "1"), deletions=True, uns="another")
    queue.carry_out()
    assert held(queue) and len(paths(queue)) == 10


def test_the_operator_drops_it(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    order(queue, DROP_DELETIONS)
    queue.carry_out()
    assert held(queue) is None and len(paths(queue)) == 10


def test_an_order_is_for_the_set_that_was_seen(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    before = held(queue)
    assert before
    queue.send(3, notice("1", "1"), full=True)
    after = held(queue)
    assert after and after.psetid != before.psetid and after.connseq == 3
    for kind in (ALLOW_DELETIONS, DROP_DELETIONS):
        order(queue, kind, before.psetid)
    queue.carry_out()
    assert held(queue) == after and len(paths(queue)) == 10


def test_a_newer_full_set_takes_its_place(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    queue.send(3, *[notice(name, "1") for name in TEN[:8]], full=True)
    assert paths(queue) == "01234567" and held(queue) is None
    queue.check_books()


def test_an_older_full_set_does_nothing_to_it(queue: Queue) -> None:
    queue.send(3, notice("0", "1"), full=True)
    there = held(queue)
    for deletions in (False, True):
        queue.send(2, notice("old"), full=True, uns="another", deletions=deletions)
        assert held(queue) == there and len(paths(queue)) == 10 and queue.rows() == []


def test_rows_outside_of_the_roots_do_not_count(queue: Queue) -> None:
    queue.send(2, *[notice(f"in/{name}") for name in "abcdef"])
    queue.fetch_all()
    provider = queue.database.now(get_provider, queue.pid)
    assert provider
    queue.database.now(change_provider, attrs.evolve(provider, roots=("http://site/in/",)))
    queue.carry_out()
    queue.send(3, *[notice(f"in/{name}") for name in "abc"], full=True)
    assert held(queue) is None, "three of six, whatever lies outside"
    assert paths(queue) == "in/ain/bin/c"


def test_what_is_fetched_from_outside_of_the_roots_does_not_count(queue: Queue) -> None:
    provider = queue.database.now(get_provider, queue.pid)
    assert provider
    queue.database.now(change_provider, attrs.evolve(provider, roots=("http://site/", "http://other/")))
    queue.carry_out()
    queue.send(2, *[notice(name, furl=f"http://other/{name}") for name in "abcdef"])
    queue.fetch_all()
    queue.database.now(change_provider, provider)
    queue.carry_out()
    queue.send(3, *[notice(name, "1") for name in TEN[:6]], full=True)
    assert held(queue) is None and paths(queue) == "012345", "four of ten"
    queue.check_books()
    queue.send(4, *[notice(name, furl=f"http://site/{name}.html") for name in "ghij"])
    queue.fetch_all()
    queue.send(5, *[notice(name, "1") for name in TEN[:4]], full=True)
    sweep = held(queue)
    assert sweep is not None and (sweep.deletions, sweep.told) == (6, 10), "what is fetched from within does"


def test_what_it_named_and_was_found_damaged_is_fetched_again(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    ((file,),) = queue.database.query("SELECT fetched_fileid FROM lccurl WHERE curl = 'http://site/0'")
    result_of(queue.store.fetch_again(1, [file], 50))
    order(queue, ALLOW_DELETIONS)
    queue.carry_out()
    assert [(row.notice.curl[12:], row.delete) for row in queue.rows()] == [("0", False)]
    queue.fetch_all()
    assert paths(queue) == "0"
    queue.check_books()


def test_what_was_sent_twice_is_held_once(queue: Queue) -> None:
    pieces = queue.pieces(queue.header(2, full=True), [notice("0", "1")])
    queue.absorb(pieces)
    there = held(queue)
    order(queue, DROP_DELETIONS)
    queue.carry_out()
    assert queue.absorb(pieces).answers == (SetAnswer("e", 2, 0),)
    assert there and held(queue) is None, "it is applied, and was judged"


@pytest.mark.parametrize("fails", range(1, 12))
def test_interrupted_anywhere_it_is_held_or_swept_as_a_whole(queue: Queue, fails: int) -> None:
    for connseq, names, deletions, left in ((2, "0", False, 10), (3, "01", True, 2)):
        pieces = queue.pieces(queue.header(connseq, full=True, deletions=deletions), [notice(n, "1") for n in names])
        for attempt in range(20):
            queue.database.fail_after = 1 if attempt < fails else 0
            queue.database.lose = attempt % 2
            try:
                queue.absorb(pieces)
            except StoreUnavailable:
                queue.store = queue.another_store()
                queue.claim()
                continue
            break
        queue.database.lose = queue.database.fail_after = 0
        assert len(paths(queue)) == left and (held(queue) is None) == deletions
        queue.check_books()


@pytest.mark.parametrize("lose", range(6))
def test_a_release_goes_on_where_it_was(queue: Queue, lose: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_orders, "PAGE_ROWS", 2)
    queue.send(2, notice("0", "1"), full=True)
    order(queue, ALLOW_DELETIONS)
    for _ in range(lose):
        queue.database.fail_after = 1
        with pytest.raises(StoreUnavailable):
            result_of(queue.store.carry_out_orders(50))
        queue.database.fail_after = 0
        queue.store = queue.another_store()
        queue.claim()
        if not queue.database.query("SELECT 1 FROM orders"):
            break
    queue.carry_out()
    assert paths(queue) == "0" and held(queue) is None
    assert len(queue.files_to_delete()) == 9, "each once"
    queue.check_books()


def test_what_is_held_is_not_asked_for_again_and_expires(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "PAGE_ROWS", 3)
    queue.send(2, notice("0", "1"), full=True, now=10)
    queue.keep_house(10 + 100 * DAY)
    status = queue.database.now(provider_status, queue.pid, 0)
    assert status.full_set_wanted == "old-files", "that is for what it named"
    queue.send(3, notice("0", "1"), now=10 + 100 * DAY)
    queue.send(4, notice("0", "1"), full=True, now=10 + 101 * DAY)  # wanted, and held again
    there = held(queue)
    assert there and queue.wantid() == 0
    queue.send(5, notice("0", "1"), now=10 + 170 * DAY)
    queue.keep_house(10 + 175 * DAY)
    queue.keep_house(10 + 195 * DAY)
    assert queue.wantid() == 0, "nothing but what is held is old"
    assert paths(queue) == "0", "it expires as anything else"
    assert held(queue) == there
    queue.send(6, notice("0", "1"), now=10 + 280 * DAY)
    queue.keep_house(10 + 282 * DAY)
    assert held(queue) is None, "nothing is left of it"


def test_it_goes_with_its_provider(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), full=True)
    queue.database.now(order_removal, queue.pid)
    queue.carry_out()
    assert held(queue) is None


def test_a_provider_that_is_removed_while_it_is_counted_holds_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = queue.database.write

    def remove_first(function: Any, *args: Any) -> Any:
        if function is queue_sweep.finish_sweep:
            monkeypatch.undo()
            queue.database.now(order_removal, queue.pid)
            queue.carry_out()
        return write(function, *args)

    monkeypatch.setattr(queue.database, "write", remove_first)
    queue.send(2, notice("0", "1"), full=True)
    assert held(queue) is None and paths(queue) == ""


def test_what_it_named_and_an_operator_had_fetched_again_stays(queue: Queue) -> None:
    queue.send(2, notice("0", "1"), notice("late", "1"), full=True)
    (row,) = queue.rows()
    queue.record(queue.failed(row, 403))
    queue.database.now(add_order, RETRY, queue.pid, 403)
    queue.carry_out(60)
    queue.fetch_all(70)
    assert paths(queue) == "0123456789late"
    order(queue, ALLOW_DELETIONS)
    queue.carry_out(80)
    assert paths(queue) == "0late"
    queue.check_books()
