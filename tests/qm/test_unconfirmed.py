"""What a write has queued that failed, or was cancelled, though it was committed, is fetched; nobody repeats it."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from lcc.domain.keys import url_key
from lcc.errors import StoreUnavailable
from lcc.model import Absorbed, KeyedNotice, SetHeader, SetPiece
from tests.support.roles.qm import FakeBotm, World, pages


def absorb(world: World) -> Deferred[Absorbed]:
    """As the destination of a move does it: once, and no other write is due for a while."""
    pid = world.provider()
    notices = tuple(KeyedNotice(url_key(pid, page.curl, page.mimetype), page) for page in pages(1, 2))
    header = SetHeader("move/1", "e", 1, pid, 0, full=False, answered=False, time=5, errors_upto=0)
    return world.engine.store.absorb([SetPiece(header, 0, notices, True)], world.engine.now())


def begun(world: World) -> FakeBotm:
    """A BOT-M; the queue manager's first housekeeping, which tells as well, is over."""
    botm = FakeBotm(world)
    world.advance(5)
    return botm


def is_fetched(world: World, botm: FakeBotm) -> bool:
    """Within two looks."""
    world.advance(2)
    botm.finish_all()
    return world.cached_count == 2


def test_one_that_failed(world: World) -> None:
    botm = begun(world)
    world.database.lose_results = 1
    failed = absorb(world)
    assert failed.addErrback(lambda failure: failure.trap(StoreUnavailable)).called
    assert world.count("qdb") == 2 and not botm.seen
    assert is_fetched(world, botm)


def test_one_that_was_cancelled(world: World) -> None:
    botm = begun(world)
    world.database.hold_back()
    cancelled = absorb(world).addErrback(lambda failure: failure.trap(CancelledError))
    cancelled.cancel()
    world.advance(5)
    assert world.count("qdb") == 0
    world.database.let_go()
    assert is_fetched(world, botm)


def test_it_is_told_when_the_database_is_back(world: World) -> None:
    botm = begun(world)
    world.database.lose_results = 1
    absorb(world).addErrback(lambda failure: failure.trap(StoreUnavailable))
    world.database.unavailable = True
    world.advance(60)
    assert not botm.seen
    world.database.unavailable = False
    assert is_fetched(world, botm)
