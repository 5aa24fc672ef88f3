"""What earlier runs of a BOT-M have left is settled; what a crash of its machine has lost is fetched again."""

from __future__ import annotations

import pytest

from lcc.protocols.work import Checked
from lcc.roles.qm.orders import verifier
from lcc.storage.database.tables.content_rows import content_rows
from tests.support.logs import LoggedErrors
from tests.support.roles.qm import FakeBotm, FakeUns, World, pages


@pytest.fixture
def filled(world: World) -> FakeBotm:
    """A BOT-M whose machine has the content of ten pages, in files 1001 to 1010."""
    botm = FakeBotm(world)
    FakeUns(world).send_set(1, world.provider(), pages(*range(10)))
    assert botm.finish_all() == 10
    world.advance(1)
    return botm


def crash(world: World, botm: FakeBotm, first: int, upto: int, run: str = "r2") -> FakeBotm:
    """Its machine has crashed, and is back."""
    botm.close()
    back = FakeBotm(world, run=run, suspect=(first, upto))
    back.file = 2000
    world.advance(1)
    return back


def answer(botm: FakeBotm, *lost: int) -> None:
    asked, botm.asked = botm.asked, []
    botm.say(*[Checked(each.file, each.file not in lost) for each in asked])


def files(world: World) -> list[int]:
    return [row.file for row in world.database.now(content_rows, 1, 0, 10**9, 1000)]


def test_what_is_lost_is_fetched_again(world: World, filled: FakeBotm) -> None:
    assert filled.settled == 1
    back = crash(world, filled, 1004, 1100)
    assert back.settled == 1
    assert [each.file for each in back.asked] == list(range(1004, 1011))
    assert {(each.size_bytes, each.md5) for each in back.asked} == {(10, f"{n}".zfill(32)) for n in range(1004, 1011)}
    assert back.intact == []
    answer(back, 1005, 1009)
    assert back.intact == [1100]
    assert back.finish_all() == 2
    assert files(world) == [1001, 1002, 1003, 1004, 1006, 1007, 1008, 1010, 2001, 2002]
    assert {order.file for order in back.deletes} == {1005, 1009}
    world.advance(20)
    assert back.asked == [] and back.settled == 1


def test_in_pages_with_what_changes_meanwhile(
    world: World, filled: FakeBotm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "PAGE_FILES", 3)
    back = crash(world, filled, 0, 1100)
    FakeUns(world).send_set(2, 1, pages(0, 4), connseq=2)
    back.finish_all()
    seen = []
    while back.asked:
        assert len(back.asked) <= 3
        seen += [each.file for each in back.asked]
        answer(back, *range(1000, 1100))
    # Those of the page that was asked for before the change, and those that are not changed.
    assert seen == [1001, 1002, 1003, 1004, 1006, 1007, 1008, 1009, 1010]
    assert back.intact == [1100]
    # What was changed is not fetched a second time.
    assert back.finish_all() == 8
    assert world.cached_count == 10 and world.count("qdb") == 0


def test_a_connection_that_is_lost_begins_anew(world: World, filled: FakeBotm) -> None:
    back = crash(world, filled, 1001, 1100)
    asked = list(back.asked)
    back.close()
    again = FakeBotm(world, run="r2", earlier=back, suspect=(1001, 1100))
    assert again.asked == []
    world.advance(1)
    assert again.asked == asked
    # An answer to nothing is ignored.
    again.say(Checked(77, False))
    answer(again)
    assert again.intact == [1100] and world.count("qdb") == 0


def test_a_queue_manager_that_is_killed_meanwhile(world: World, filled: FakeBotm) -> None:
    crash(world, filled, 1001, 1100)
    world.start()
    back = FakeBotm(world, run="r2", suspect=(1001, 1100))
    world.advance(1)
    answer(back, 1003)
    assert back.intact == [1100] and back.finish_all() == 1


def test_results_that_still_wait_are_recorded_first(
    world: World, filled: FakeBotm, logged_errors: LoggedErrors
) -> None:
    FakeUns(world, name="other").send_set(1, 1, pages(20), connseq=3)
    (fetch,) = filled.out.values()
    world.database.unavailable = True
    filled.done(fetch)
    filled.close()
    back = FakeBotm(world, run="r2", suspect=(1001, 1100))
    world.advance(30)
    assert back.settled == 0 and back.asked == []
    world.database.unavailable = False
    world.advance(10)
    assert back.settled == 1
    assert [each.file for each in back.asked] == list(range(1001, 1012))
    answer(back)


def test_a_commit_that_was_not_heard_of(world: World, filled: FakeBotm) -> None:
    back = crash(world, filled, 1001, 1100)
    world.database.lose_results = 1
    answer(back, 1003)
    world.advance(5)
    assert back.intact == [1100] and back.finish_all() == 1
    assert world.cached_count == 10


def test_nothing_suspect_is_settled_all_the_same(world: World) -> None:
    botm = FakeBotm(world)
    world.advance(1)
    assert botm.settled == 1 and botm.asked == [] and botm.intact == []
    world.advance(5)
    assert botm.settled == 1
