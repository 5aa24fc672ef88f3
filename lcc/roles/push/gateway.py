"""The conversations of a push server with the UNS, by account: kept for some seconds, because a login costs more than
a set of one page.

A client's request gets the conversation of its own account: the same provider, password and address.  So the UNS
checks each password, and counts it against the address that it came from; with one that was changed or taken away,
sets can begin for :data:`KEPT_SECONDS` more at most.

Of an account there are ``[push] sets_at_once`` conversations at most; further sets wait for one, in order, until it
is not certain any more when they began.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.client.conversation import Conversation, refused
from lcc.protocols.cp_uns import InitAccepted
from lcc.roles.standstills import CERTAIN_SECONDS
from lcc.transport.ports.connection_limits import party_of_host

KEPT_SECONDS = 60.0
IDLE_SECONDS = 10.0
LOGIN_SECONDS = 60.0
"""The UNS gives up before."""


@attrs.frozen
class Account:
    """Who submits sets.

    :ivar address: of the client; empty: it is not known.
    """

    pid: int
    password: str = attrs.field(repr=False)
    address: str = ""

    key: bytes = attrs.field(init=False, repr=False)
    """What tells accounts apart, without the password."""

    @key.default
    def _(self) -> bytes:
        text = "\0".join([str(self.pid), party_of_host(self.address), self.password])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@attrs.define(eq=False)
class _Lane:
    """The conversations of one account.

    :ivar open: all of them; ``idle``: those that nobody uses, by when they were given back.
    """

    open: int = 0
    idle: deque[tuple[float, Conversation]] = attrs.field(factory=deque)
    waiting: deque[Deferred[None]] = attrs.field(factory=deque)

    def wake(self) -> None:
        """A conversation may be had again."""
        while self.waiting:
            first = self.waiting.popleft()
            if not first.called:
                first.callback(None)
                return


class Gateway:
    """See :mod:`lcc.roles.push.gateway`.

    :param connect: makes a connection of this factory; its Deferred fails if the UNS cannot be reached.
    :param at_once: conversations of an account.
    :ivar sets_now: conversations that are in use.
    """

    def __init__(self, connect: Callable[[Any], Deferred[Any]], clock: IReactorTime, at_once: int) -> None:
        self._connect = connect
        self._clock = clock
        self._at_once = at_once
        self._lanes: dict[bytes, _Lane] = {}
        self._closed = False
        self.sets_now = 0

    async def enter(self, account: Account, fresh: bool = False) -> tuple[Conversation, InitAccepted | None]:
        """A conversation that is logged in; to be given back by :meth:`leave`.

        :param fresh: a new one.
        :returns: with what the UNS has said at its beginning, if that was just now.
        :raises Refused: the UNS does not let it in, or cannot be reached.
        """
        key = account.key
        lane = self._lanes.get(key) or _Lane()
        while not self._closed:
            if fresh:
                self._close_one(lane)
            elif lane.idle:
                _, kept = lane.idle.pop()
                if kept.is_open and self._is_young(kept):
                    self.sets_now += 1
                    return kept, None
                kept.drop()
                continue
            if lane.open < self._at_once:
                return await self._log_in(account, key, lane)
            await self._wait(lane)
        raise refused("try-later", "the push server is stopping")

    def leave(self, account: Account, conversation: Conversation) -> None:
        """It is not used any more."""
        self.sets_now -= 1
        lane = self._lanes.get(account.key)
        now = self._clock.seconds()
        if lane is None or not conversation.is_open or self._closed or not self._is_young(conversation):
            conversation.close()
        else:
            lane.idle.append((now, conversation))
            lane.wake()

    def tick(self) -> None:
        """Close what nobody has used for a while."""
        now = self._clock.seconds()
        for lane in list(self._lanes.values()):
            while lane.idle and now - lane.idle[0][0] > IDLE_SECONDS:
                lane.idle.popleft()[1].close()

    def close(self) -> None:
        """Drop all conversations that nobody uses, and take no more sets."""
        self._closed = True
        for lane in list(self._lanes.values()):
            while lane.idle:
                lane.idle.popleft()[1].drop()
            while lane.waiting:
                lane.wake()

    @property
    def conversations(self) -> int:
        """There are now."""
        return sum(lane.open for lane in self._lanes.values())

    def _is_young(self, conversation: Conversation) -> bool:
        return self._clock.seconds() - conversation.since <= KEPT_SECONDS

    def _close_one(self, lane: _Lane) -> None:
        if lane.idle and lane.open >= self._at_once:
            lane.idle.popleft()[1].drop()

    async def _wait(self, lane: _Lane) -> None:
        turn: Deferred[None] = Deferred()
        lane.waiting.append(turn)
        late = self._clock.callLater(
            CERTAIN_SECONDS, lambda: turn.errback(refused("try-later", "too many sets of this provider at once"))
        )
        try:
            await turn
        finally:
            if turn in lane.waiting:
                lane.waiting.remove(turn)
            if late.active():
                late.cancel()

    async def _log_in(self, account: Account, key: bytes, lane: _Lane) -> tuple[Conversation, InitAccepted]:
        def freed(gone: Conversation) -> None:
            lane.open -= 1
            for each in lane.idle:
                if each[1] is gone:
                    lane.idle.remove(each)
                    break
            if not lane.open and not lane.waiting and self._lanes.get(key) is lane:
                del self._lanes[key]
            lane.wake()

        conversation = Conversation(self._clock, account.pid, account.password, account.address, freed)
        lane.open += 1
        self._lanes[key] = lane  # with its last conversation it has gone
        try:
            await self._connect(conversation.factory())
        except Exception:
            freed(conversation)
            raise refused("try-later", "the UNS is unreachable") from None
        late = self._clock.callLater(LOGIN_SECONDS, conversation.drop)
        try:
            greeting = await conversation.login.get()
        except CancelledError:
            conversation.drop()
            raise
        finally:
            if late.active():
                late.cancel()
        self.sets_now += 1
        return conversation, greeting
