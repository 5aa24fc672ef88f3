"""What a BOT-M tells of its robots, for people."""

from __future__ import annotations

import pytest

from lcc.protocols.hello import INTERNAL_LIMITS
from lcc.protocols.work import ROBOT_CHARS, ROBOTS_TOLD, Capacity, Fetch, Robot, Robots, addressed
from lcc.roles.botm.relay import MESSAGE_CHARS_MAX
from lcc.roles.botm.roster import TELL_SECONDS
from tests.support.roles.botm import Bench
from tests.support.roles.robots import FakePeer, fetch_order


def told(qm: FakePeer) -> list[list[Robot]]:
    return [list(each.robots) for each in qm.of(Robots)]


def test_it_tells_who_is_there_and_how_busy(bench: Bench) -> None:
    qm, wire = bench.qm()
    assert told(qm) == []
    bot, line = bench.bot(capacity=4)
    bench.bot(capacity=2, run="b2")
    idle = [Robot("bot-b1", 4, 0, False), Robot("bot-b2", 2, 0, False)]
    assert told(qm)[-1] == idle  # at once
    bench.say(qm, fetch_order(1))
    assert told(qm)[-1] == idle
    bench.clock.advance(TELL_SECONDS)
    bench.settle()
    assert sorted(each.busy for each in told(qm)[-1]) == [0, 1]
    count = len(told(qm))
    bench.clock.advance(TELL_SECONDS)
    bench.settle()
    assert len(told(qm)) == count  # nothing has changed
    for fetch in bot.of(Fetch):
        bench.finish(bot, fetch)
    bench.say(bot, Capacity(4, "", "bot"))
    bench.clock.advance(TELL_SECONDS)
    bench.settle()
    assert told(qm)[-1][0] == Robot("bot-b1", 0, 0, True)
    line.kill(line.client)
    bench.settle()
    assert told(qm)[-1] == [idle[1]._replace(busy=told(qm)[-1][0].busy)]
    wire.kill(wire.server)
    bench.settle()
    again, _ = bench.qm()
    assert [each.name for each in told(again)[-1]] == ["bot-b2"]


@pytest.mark.parametrize("name", ['"' * 300, "\x7f" * 300, "𝄞&<" * 100, "\u0085" * 300])
def test_the_longest_message_passes_all_wires(name: str) -> None:
    robots = [Robot(name[:ROBOT_CHARS], 1 << 61, 1 << 61, True)] * (ROBOTS_TOLD + 5)
    text = addressed(Robots.telling(robots), (1 << 31) - 1)
    assert len(text) < MESSAGE_CHARS_MAX < INTERNAL_LIMITS.value_chars < INTERNAL_LIMITS.token_bytes
    assert len(text.encode()) < INTERNAL_LIMITS.token_bytes
