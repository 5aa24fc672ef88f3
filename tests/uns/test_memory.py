"""What a UNS keeps of sessions that are over: nothing but counts that are bounded."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from lcc.domain import throttle
from lcc.domain.throttle import LoginThrottle
from lcc.protocols.cp_uns_client import init
from lcc.protocols.notifiers import Accepted
from tests.support.roles.notifiers import a_set, connect_notifier
from tests.support.roles.uns import PASSWORD, ROOT, World, url

MANY = 200


def objects() -> Counter[str]:
    """What the garbage collector knows of, by type; but for events of the log, which Twisted keeps until it is told
    where to log to."""
    gc.collect()
    found = (each for each in gc.get_objects() if not (type(each) is dict and "log_time" in each))
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in found)


def answered(world: World) -> None:
    world.send_set("page").half_close()


def rejected(world: World) -> None:
    cp = world.login()
    cp.send(f'<lococa:set set="full" urlprefix="{ROOT}"><url c="a"')
    world.pump()
    cp.send("<")
    cp.half_close()


def cut_off(world: World) -> None:
    cp = world.login()
    cp.send(f'<lococa:set set="full" urlprefix="{ROOT}">' + url("a"))
    world.pump()
    cp.lose()


def not_let_in(world: World) -> None:
    world.login(7, "wrong").half_close()


def silent(world: World) -> None:
    world.connect().lose()


def gone_meanwhile(world: World) -> None:
    """Ends while its login is looked at."""
    world.held_threads = []
    cp = world.connect()
    cp.send(init(7, PASSWORD + "x"))
    world.pump()
    cp.lose()
    world.release_threads()


@pytest.mark.parametrize("session", [answered, rejected, cut_off, not_let_in, silent, gone_meanwhile])
def test_nothing_is_kept_of_a_session_that_is_over(world: World, session: Callable[[World], None]) -> None:
    qm = world.connect_qm()

    def some(count: int) -> None:
        for _ in range(count):
            session(world)
            world.pump()
            world.pass_time(2)
            # What this world keeps itself.
            world.cps.clear()
            world.disk.log.clear()
            world.disk.opened.clear()
            qm.sets.clear()
            world.database.ended.clear()

    some(20)
    before, timers = objects(), len(world.clock.getDelayedCalls())
    some(MANY)
    kept = {name: count for name, count in (objects() - before).items() if count >= MANY // 2}
    assert not kept
    assert not world.uns.open_sessions
    assert len(world.clock.getDelayedCalls()) <= timers + 2


def test_addresses_that_were_let_in_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a UNS grows by while its providers come from ever new addresses: so many are known, no more."""
    monkeypatch.setattr(throttle, "KEYS_MAX", MANY)
    logins = LoginThrottle(5, 60.0)

    def come(first: int) -> None:
        for number in range(first, first + MANY):
            party = f"2001:db8:{number:x}::/64"
            logins.tried(7, float(number), party)
            logins.passed(7, float(number), party)
            logins.failed(party, float(number))

    come(0)
    come(MANY)
    full = sys.getallocatedblocks()
    for more in range(2, 12):
        come(more * MANY)
    assert sys.getallocatedblocks() - full < MANY, "ten times as many addresses"


def test_answers_to_sets_of_notifiers_take_no_object_each(world: World) -> None:
    """So many are kept for each notifier: numbers, and the answer that nearly all have."""
    world.connect_qm()
    notifier = connect_notifier(world)
    before = objects()
    notifier.say(*(a_set(number, "page") for number in range(1, MANY + 1)))
    assert notifier.answers()[-1] == Accepted(MANY)
    world.disk.log.clear()
    world.disk.opened.clear()
    answers = [name for name in objects() - before if name.endswith(".Verdict")]
    assert not answers
