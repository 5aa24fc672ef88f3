"""Taking sets in from one UNS.

Elements are collected into pieces; while one batch of pieces is being absorbed, what arrives meanwhile waits for
the next: many small sets share a transaction, a big set is cut.  Past ``absorb_ahead`` waiting elements, or
``absorb_ahead_bytes`` of them, the UNS is paused.  A set's answer is sent when the transaction that held its last
element is durable, in the order of the sets.

* *The database is unavailable*: the same pieces are retried, with growing delays; the store applies each element
  once.
* *The connection is lost*: what was not absorbed is dropped, and the UNS sends it again.  A batch that is being
  absorbed may still be; then the store recognises the pieces that come again.
* *A set is damaged* (a ``<u>`` that cannot be read, an element too few): it must neither be absorbed nor come back
  for ever.  It is refused with ``bad-set`` in its turn.  Elements of a big one may already be queued: they are
  notices that the provider did send, so they only cause fetches; nothing is deleted for what a full set did not
  name.  If the provider was already told that the set is accepted, it is asked for a full set (``cache-crash``).
  Should the connection be lost before its UNS has the refusal, it comes again, and may have been answered by then: it
  is refused once more, although later sets are applied already.
* *A set makes the store fail*, in whatever way: the sets of its batch are tried one by one, and the one that fails
  alone is refused in the same manner.
* *The UNS says that a set was lost* before it came here: its provider is asked for a full set, in its turn.
* *Nothing is to be taken in any longer* (:mod:`lcc.roles.qm.intake.overload`): what follows the set in passage is
  not looked at; the connection is closed once everything before that is answered.
* *What is no XML* cannot be answered, because the UNS expects no answer before the set's end: the connection is
  closed with an error in the log.  (The UNS checks its spool before it sends.)
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.config import QmConfig
from lcc.errors import StreamError, code
from lcc.interfaces import IQueueStore
from lcc.model import SetAnswer, SetHeader, SetPiece
from lcc.protocols.fast_elements import Row, Spelling
from lcc.protocols.uns_qm import FROM_UNS, NOTICE_TAG, Damage, EndSet, Noted, Paused, Set
from lcc.protocols.uns_qm import Absorbed as AbsorbedMessage
from lcc.protocols.xmlfeed import Start
from lcc.roles.qm.intake.arrivals import LostSet, OpenSet, Refusal, open_set
from lcc.roles.qm.intake.backlog import Backlog
from lcc.roles.qm.part import ENDINGS, Hub, Part
from lcc.roles.qm.peers.handler import Connection, Handler

_log = Logger()

_BAD_SET = code("bad-set")
_LONGEST_TEXT = 500
_TAKEN_AT_ONCE = 100
"""Elements between two looks at how much memory they take."""
_REFUSED_MAX = 1000
"""Refused sets that are remembered."""


class Absorber(Part, Handler):
    """Handles the messages of a UNS.

    :param name: the UNS's name.
    :param epoch: that of its numbers.
    :param settings: how much is absorbed in one transaction, and may wait before the UNS is paused.
    :param refused: sets that were refused in this run, ``(uns, epoch, number)`` -> why, the newest last; shared
        by all absorbers.
    :ivar paused: an operator has the UNS take no sets.
    """

    ERROR_TEXT = "Cannot absorb sets"

    def __init__(
        self,
        hub: Hub,
        store: IQueueStore,
        connection: Connection,
        name: str,
        epoch: str,
        settings: QmConfig,
        refused: dict[tuple[str, str, int], str],
    ) -> None:
        super().__init__(hub, store)
        self.name = name
        self.paused = False
        self._connection = connection
        self._epoch = epoch
        self._settings = settings
        self._all_refused = refused
        self._draining = False
        self._open: OpenSet | None = None
        self._waiting = Backlog()
        self._absorbing: list[SetPiece] = []
        self._refused: SetHeader | None = None
        self._room: Deferred[None] | None = None
        self._enabled = False
        self._lost = False
        self._never: Deferred[None] = Deferred()

    # The stream's side.

    def elements_received(self, elements: list[Start]) -> Deferred[None] | None:
        opened = self._open
        name: Any
        attributes: Any
        for name, attributes, _depth in elements:
            if self._draining and opened is None:
                break
            is_run = type(attributes) is list
            if name == NOTICE_TAG or is_run:
                if opened is None:
                    raise StreamError("unknown-message", "<u> outside a set")
                if is_run:
                    self._run(opened, name, attributes)
                else:
                    self._element(opened, attributes)
                continue
            message = FROM_UNS.read(name, attributes)
            if isinstance(message, Set):
                opened = self._begin_set(message)
            elif isinstance(message, EndSet):
                self._end_set(message)
                opened = None
            elif isinstance(message, Damage):
                self._damage(message)
            elif isinstance(message, Paused):
                self.paused = message.paused
        self._start()
        if self._draining and opened is None:
            self._drained()
            return self._never
        if self._has_room() or self._lost:
            return None
        self._room = Deferred()
        return self._room

    def stream_failed(self, error: StreamError) -> None:
        opened = self._open
        if opened is not None and error.entry.name != "timeout":
            _log.critical(
                "Set {number} of provider {pid} from UNS {uns} (epoch {epoch}) breaks the stream after {count} "
                "elements; it will be sent again: {error}",
                number=opened.header.number,
                pid=opened.header.pid,
                uns=self.name,
                epoch=opened.header.epoch,
                count=opened.count,
                error=str(error),
            )

    def lost(self) -> None:
        """The connection is gone: nothing is absorbed any longer, but for what is being absorbed."""
        self._lost = True
        self._open = None
        self._waiting.clear()
        self._make_room()

    @property
    def waiting_count(self) -> int:
        """Elements that wait to be absorbed."""
        return self._waiting.count

    @property
    def waiting_bytes(self) -> int:
        """What they take in memory, about."""
        return self._waiting.size_bytes

    def has_some_of(self, pid: int) -> bool:
        """Whether a set of this provider has come in part, or is being absorbed."""
        opened = self._open
        if opened is not None and opened.header.pid == pid:
            return True
        absorbing = self._absorbing if self._job.busy else ()
        return self._waiting.has_some_of(pid) or any(piece.header.pid == pid for piece in absorbing)

    def drain(self) -> None:
        """Take the set in passage, answer everything, and close the connection.  Before the queue manager may write,
        there is nothing that must be answered."""
        if not self._draining:
            self._draining = True
            if not self._enabled:
                self.lost()
            self._drained()

    def enable(self) -> None:
        """The queue manager may write from now on."""
        self._enabled = True
        self._start()

    def stop(self) -> None:
        """End what is going on."""
        self.lost()
        super().stop()

    def _drained(self) -> None:
        if self._draining and self._open is None and not self._waiting and not self._job.busy:
            self._connection.leave()

    # Collecting.

    def _begin_set(self, message: Set) -> OpenSet:
        if self._open is not None:
            raise StreamError("unknown-message", f"<set> within set {self._open.header.number}")
        opened = self._open = open_set(self.name, message)
        before = self._all_refused.get((self.name, message.epoch, message.number))
        if before is not None:
            opened.fault = before
        return opened

    def _element(self, opened: OpenSet, attributes: dict[str, str]) -> None:
        opened.take(attributes)
        self._cut_if_full(opened)

    def _run(self, opened: OpenSet, spelling: Spelling, rows: list[Row]) -> None:
        """As :meth:`_element` for each of them."""
        start = 0
        while start < len(rows):
            size = min(_TAKEN_AT_ONCE, self._settings.absorb_batch - len(opened.notices))
            opened.take_run(spelling, rows[start : start + size])
            start += size
            self._cut_if_full(opened)

    def _cut_if_full(self, opened: OpenSet) -> None:
        settings = self._settings
        if len(opened.notices) >= settings.absorb_batch or opened.notices_bytes >= settings.absorb_batch_bytes:
            self._cut(opened, False)

    def _cut(self, opened: OpenSet, last: bool) -> None:
        notices, size_bytes = opened.cut()
        self._waiting.add(SetPiece(opened.header, opened.first, notices, last), size_bytes)
        opened.first += len(notices)

    def _damage(self, message: Damage) -> None:
        if self._open is not None:
            raise StreamError("unknown-message", f"<damage> within set {self._open.header.number}")
        self._waiting.add(LostSet(message.pid, message.number))

    def _end_set(self, message: EndSet) -> None:
        opened, self._open = self._open, None
        if opened is None:
            raise StreamError("unknown-message", "<end> outside a set")
        if not opened.fault and message.count != opened.count:
            opened.fault = f"{opened.count} elements arrived of {message.count}"
        if opened.fault:
            text = opened.fault if self._was_refused(opened.header) else f"the set is damaged: {opened.fault}"
            self._waiting.add(Refusal(opened.header, text))
        else:
            self._cut(opened, True)

    # Absorbing.

    def _start(self) -> None:
        if self._waiting and self._enabled and not self._lost:
            self._begin(self._absorb_all)

    def _ended(self) -> None:
        self._start()
        self._drained()

    async def _absorb_all(self) -> None:
        while self._waiting and not self._lost:
            first = self._waiting.first
            if isinstance(first, Refusal):
                self._waiting.take()
                await self._refuse(first.header, first.text)
            elif isinstance(first, LostSet):
                self._waiting.take()
                await self._note_lost(first.pid, first.number)
            else:
                settings = self._settings
                await self._absorb(self._waiting.take_batch(settings.absorb_batch, settings.absorb_batch_bytes))
            self._make_room()

    async def _absorb(self, pieces: list[SetPiece]) -> None:
        pieces = [piece for piece in pieces if piece.header is not self._refused]
        if not pieces:
            return
        self._absorbing = pieces
        try:
            outcome = await self._ask("absorbing sets", lambda: self._store.absorb(pieces, self._hub.now()))
        except ENDINGS:
            raise
        except Exception:
            _log.failure("Cannot absorb {count} pieces of sets", count=len(pieces))
            if len(pieces) > 1:
                for piece in pieces:
                    await self._absorb([piece])
                return
            header = self._refused = pieces[0].header
            if self._open is not None and self._open.header is header:
                self._open.fault = "it cannot be stored"  # refused when it has come to its end
            else:
                await self._refuse(header, "it cannot be stored")
            return
        self._hub.absorbed(outcome)
        if not self._lost:
            for answer in outcome.answers:
                self._answer(answer)

    async def _refuse(self, header: SetHeader, text: str) -> None:
        _log.critical(
            "Set {number} of provider {pid} from UNS {uns} (epoch {epoch}) is refused: {text}",
            number=header.number,
            pid=header.pid,
            uns=self.name,
            epoch=header.epoch,
            text=text,
        )
        refused = self._all_refused
        refused[header.uns, header.epoch, header.number] = text
        if len(refused) > _REFUSED_MAX:
            del refused[next(iter(refused))]
        try:
            if header.answered and header.said is None:
                await self._want_full_set(header.pid)
            # Else this UNS would seem to know more than the database when it connects again.
            await self._ask(
                "refusing a set", lambda: self._store.note_answered(header.uns, header.epoch, header.number)
            )
        except ENDINGS:
            raise
        except Exception:
            _log.failure("Cannot note the refusal of set {number}", number=header.number)
        if not self._lost:
            self._answer(SetAnswer(header.epoch, header.number, _BAD_SET, text))

    def _was_refused(self, header: SetHeader) -> bool:
        return (header.uns, header.epoch, header.number) in self._all_refused

    async def _want_full_set(self, pid: int) -> None:
        await self._ask("asking for a full set", lambda: self._store.lose_set(pid, self._hub.now()))

    async def _note_lost(self, pid: int, number: int) -> None:
        _log.critical(
            "UNS {uns} has lost an accepted set of provider {pid} (0: nobody knows whose); asking for a full set",
            uns=self.name,
            pid=pid,
        )
        try:
            if pid:
                await self._want_full_set(pid)
            else:
                await self._ask("asking for full sets", lambda: self._store.lose_sets(self._hub.now()))
            if number:
                await self._ask(
                    "noting what was answered", lambda: self._store.note_answered(self.name, self._epoch, number)
                )
        except ENDINGS:
            raise
        except Exception:
            _log.failure("Cannot ask provider {pid} for a full set", pid=pid)
            return  # without an answer it is said again
        if not self._lost:
            self._connection.say(Noted(pid, number))

    def _answer(self, answer: SetAnswer) -> None:
        self._connection.say(AbsorbedMessage(answer.epoch, answer.number, answer.code, answer.text[:_LONGEST_TEXT]))

    def _has_room(self) -> bool:
        """More may be read."""
        waiting, settings = self._waiting, self._settings
        return waiting.count < settings.absorb_ahead and waiting.size_bytes < settings.absorb_ahead_bytes

    def _make_room(self) -> None:
        if self._room is not None and self._has_room():
            room, self._room = self._room, None
            room.callback(None)
