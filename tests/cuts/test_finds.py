"""The cuts find bugs: some are planted, and each must be found by a few cuts of its wire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from twisted.python.failure import Failure

from lcc.client.ahead import Ahead
from lcc.roles.bot.engine import Robot
from lcc.roles.botm.engine import BotMaster
from lcc.roles.notifier import NotifierLink
from lcc.roles.peer import Peer
from lcc.roles.uns.forwarder import Forwarder
from lcc.roles.uns.session import Session
from lcc.roles.upstream import Upstream
from lcc.transport.http.client import HttpFailed
from tests.support.net import Cut
from tests.support.switches import LONG

from .notifying import WIRE
from .whole import cut_all

CUTS = 24 if LONG else 10
stream_closed = Session.stream_closed
link_lost = Forwarder.upstream_lost
upstream_lost = BotMaster.upstream_lost
next_line = Ahead.next


def take_the_set_all_the_same(self: Session, reason: Failure) -> None:
    arriving = self._set
    if arriving is not None and arriving.writer is not None:
        entry = arriving.writer.complete(self._uns.now())
        arriving.writer = None
        self._uns.forwarder.deliver(entry)
    stream_closed(self, reason)


def forget_what_is_not_answered(self: Forwarder, peer: Upstream) -> None:
    self._outstanding.clear()
    link_lost(self, peer)


def forget_results(self: BotMaster, link: Upstream) -> None:
    self._results.__init__()  # type: ignore[misc]  # as in a new process
    upstream_lost(self, link)


def go_on_fetching(self: Robot, link: Upstream) -> None:
    self._link = None


def wait_for_more(self: Peer) -> None:
    """The end of what the peer says changes nothing."""


def forget_what_was_sent(self: NotifierLink) -> None:
    """What was sent is not sent again."""


async def take_a_cut_for_the_end(self: Ahead[bytes]) -> bytes | None:
    try:
        return await next_line(self)
    except HttpFailed:
        return b'{"next": "0"}'


PLANTED = [
    ("full set", "uns", Session, "stream_closed", take_the_set_all_the_same),
    ("chain", "qm", Forwarder, "upstream_lost", forget_what_is_not_answered),
    ("chain", "central", BotMaster, "upstream_lost", forget_results),
    ("chain", "botm", Robot, "upstream_lost", go_on_fetching),
    ("chain", "botm", Peer, "peer_finished", wait_for_more),
    ("users over HTTP", "cu", Ahead, "next", take_a_cut_for_the_end),
    ("notifier", WIRE, NotifierLink, "_begin_again", forget_what_was_sent),
]


@pytest.mark.parametrize(
    ("conversation", "wire", "where", "name", "bug"),
    [
        pytest.param(*planted, marks=[pytest.mark.long] if number % 2 else [])
        for number, planted in enumerate(PLANTED)
    ],
)
def test_a_planted_bug_is_found(
    conversation: str, wire: str, where: Any, name: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(cuts: list[Cut]) -> list[Cut]:
        # Not in what is said at the very beginning: nothing is under way there.
        fitting = [cut for cut in cuts if cut.wire == wire and cut.how != "silence" and cut.after_bytes > 400]
        return Random(2).sample(fitting, CUTS)

    monkeypatch.setattr(where, name, bug)
    _, faults = cut_all(conversation, choose)
    assert faults
