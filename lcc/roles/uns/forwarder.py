"""The link to the queue manager: passes spooled sets on, in the order of their numbers.

*Owns* the list of sets that no queue manager has answered, and who waits for each answer.

*Strategy.*  Sets are sent one behind the other without waiting for answers; what bounds them is the transport: when
its buffer is full nothing is read from the spool.  A large set is never in memory, only a piece of its file.

A provider waits for the queue manager only when the link is up and everything before its set has been passed on.
Else, and when the link breaks or the answer takes too long, its set is *secured*: noted as answered in its file, the
file and its folder synced in a thread, and then the provider is told.  Sets that wait for that share the thread.  A
set is not passed on while it is being secured, so that what the queue manager hears (``answered``) and what the
provider heard agree.

*Failures.*  When the link is made again everything unanswered is sent again from the oldest on; the queue manager
applies each only once.  A file that is not what was written is moved aside: before any of it is sent, if it is from
an earlier run or was sent before; else before its end is.  One that cannot be opened because the process or the
system is short of something is tried again.  A disk that cannot secure a set makes that set rejected; if it may
already have reached the queue manager, its provider's connection is dropped without an answer, because neither answer
would be true.  That a set which was accepted is lost
(its file is damaged, or it was refused too late) is told to the queue manager, between sets, until it has noted that.
When the queue manager says that this spool has gone back in time, everything goes over to a new epoch.
"""

from __future__ import annotations

import errno
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, BinaryIO
from zlib import crc32

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.errors import StreamError, code
from lcc.model import SetHeader
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import FROM_QM, Absorbed, Damage, EndSet, NewEpoch, Noted, Paused
from lcc.roles.peer import PeerFactory
from lcc.roles.uns.counters import Counters
from lcc.roles.uns.delivery import ACCEPTED, Delivery, Verdict, disk_fault, opening
from lcc.roles.uns.sequencer import Sequencer
from lcc.roles.upstream import Upstream
from lcc.storage.disk.free_space import fault_text
from lcc.storage.disk.set_file import SpoolDamaged, SpooledSet
from lcc.storage.disk.spool import PIECE_BYTES, Spool

_log = Logger()

InThread = Callable[..., Deferred[Any]]
"""``in_thread(function, *arguments)``: call it in a thread; its result."""

_PIECES_A_TURN = 16
_SECURING_AT_ONCE = 8
"""Threads: the system joins what is synced at the same time, which is more than one thread can do one by one."""
_SECURED_TOGETHER_MAX = 8
_PROVIDER_GONE = code("provider-gone")
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
_SHORTAGE_SECONDS = 1.0


class Forwarder:
    """Keeps what is to be passed on, and passes it on while the queue manager is connected.

    :param in_thread: for what waits for the disk.
    :param answer_timeout_seconds: how long a provider waits for the queue manager.
    :param good_hello: called when a queue manager has said hello.
    """

    def __init__(
        self,
        spool: Spool,
        clock: IReactorTime,
        in_thread: InThread,
        answer_timeout_seconds: float,
        counters: Counters,
        sequencer: Sequencer,
        good_hello: Callable[[], None],
    ) -> None:
        self._spool = spool
        self._clock = clock
        self._in_thread = in_thread
        self._answer_timeout_seconds = answer_timeout_seconds
        self._counters = counters
        self._sequencer = sequencer
        self._good_hello = good_hello
        self._unsent: deque[Delivery] = deque()
        self._outstanding: deque[Delivery] = deque()
        self._elements: Counter[int] = Counter()
        self._insecure: list[Delivery] = []
        self._insecure_notices: list[Delivery] = []
        """The same of notifiers' sets: many may come at once, and providers' sets do not wait behind them."""
        self._securing = 0
        self._peer: Upstream | None = None
        self._file: BinaryIO | None = None
        self._file_bytes = self._file_check = 0
        self._part = b""
        self._turn: IDelayedCall | None = None
        self._untold: list[int] = []
        self._acked = "", 0
        self._ending_epoch = False
        self._paused = False
        self._newest: dict[int, int] = {}

    @property
    def connected(self) -> bool:
        """A queue manager is there."""
        return self._peer is not None

    @property
    def waiting_count(self) -> int:
        """Sets that no queue manager has answered."""
        return len(self._unsent) + len(self._outstanding)

    def elements_of(self, pid: int) -> int:
        """Elements in this provider's sets that no queue manager has answered."""
        return self._elements.get(pid, 0)

    @property
    def deliveries(self) -> list[Delivery]:
        """Those sets, oldest first."""
        return [*self._outstanding, *self._unsent]

    @property
    def oldest(self) -> Delivery | None:
        """The first of them; None: there is none."""
        waiting = self._outstanding or self._unsent
        return waiting[0] if waiting else None

    def is_sent(self, delivery: Delivery) -> bool:
        """Whether the queue manager has all of this set."""
        return delivery in self._outstanding

    def tell_paused(self, paused: bool) -> None:
        """Let the queue manager know whether an operator has this UNS take no sets."""
        self._paused = paused
        if self._peer is not None:
            self._peer.say(Paused(paused))

    def load(self, entries: list[SpooledSet]) -> None:
        """Take what an earlier run left."""
        for entry in entries:
            self._add(Delivery(entry))
        self._sequencer.load(entry.header for entry in entries)

    def newest_order(self, pid: int) -> int:
        """No set of this provider that is here has a higher order number."""
        return self._newest.get(pid, 0)

    def deliver(self, entry: SpooledSet, *, patient: bool = False) -> Deferred[Verdict | None]:
        """Pass a complete set on, or secure it.

        :param patient: others before it are no reason to secure it, as long as the queue manager is connected.
        :returns: fires with what the provider is to be told; None: nothing is known.
        """
        delivery = Delivery(entry)
        waiter = delivery.waiter = Deferred()
        backlog = self._peer is None or (bool(self._unsent) and not patient)
        self._add(delivery)
        if backlog:
            self._secure_soon(delivery)
        else:
            delivery.timer = self._clock.callLater(self._answer_timeout_seconds, self._secure_soon, delivery)
            self._pump()
        return waiter

    def secure_waiting(self) -> None:
        """Answer all providers that wait, from the spool where the queue manager is not quicker."""
        for delivery in self.deliveries:
            if delivery.waiter is not None:
                self._secure_soon(delivery)

    def _add(self, delivery: Delivery) -> None:
        header = delivery.entry.header
        if not self.waiting_count:
            self._newest.clear()
        self._newest[header.pid] = max(self._newest.get(header.pid, 0), header.connseq)
        self._elements[header.pid] += delivery.entry.count
        self._unsent.append(delivery)

    def close(self) -> None:
        """Drop the link and all timers; what is spooled stays."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._close_file()
        for delivery in (*self._outstanding, *self._unsent):
            delivery.cancel_timer()
            delivery.waiter = None
        if self._peer is not None:
            self._peer.stream.abort()

    def upstream_factory(self) -> PeerFactory:
        """For the connection to the queue manager."""
        return PeerFactory(self._new_peer)

    def _new_peer(self) -> Upstream:
        spool = self._spool
        hello = Hello(
            role="uns", name=spool.name, epoch=spool.epoch, acked=spool.acked, numbers_upto=spool.numbers_upto
        )
        return Upstream(self, self._clock, hello, frozenset(["qm"]), FROM_QM, self._good_hello)

    # What the queue manager says.

    def upstream_ready(self, peer: Upstream) -> None:
        """A queue manager has said hello: everything unanswered goes to it, from the oldest on."""
        _log.info("Connected to {peer}; {count} sets waiting", peer=peer.describe(), count=self.waiting_count)
        self._counters.links += 1
        self._peer = peer
        self._untold = self._spool.damage.pids
        if self._paused:
            peer.say(Paused(True))
        self._pump()

    def upstream_messages(self, peer: Upstream, messages: list[Flat]) -> None:
        """Answers to sets, and what it has noted.

        :raises StreamError: an answer belongs to no set.
        """
        self._acked = "", 0
        try:
            for message in messages:
                if isinstance(message, Absorbed):
                    self._answered(message)
                elif isinstance(message, Noted):
                    self._damage_noted(message.pid, message.number)
                elif isinstance(message, NewEpoch):
                    self._end_epoch(message.epoch)
        finally:
            epoch, number = self._acked
            if epoch == self._spool.epoch:  # once for all of them; it may have ended meanwhile
                self._spool.acknowledged(number)

    def upstream_resumed(self, peer: Upstream) -> None:
        """The transport has room again."""
        self._pump()

    def upstream_lost(self, peer: Upstream) -> None:
        """The link is gone: who waited for an answer is answered from the spool."""
        if peer is not self._peer:
            return
        _log.info("Lost the queue manager; {count} sets waiting", count=self.waiting_count)
        self._peer = None
        self._close_file()
        self._unsent.extendleft(reversed(self._outstanding))
        self._outstanding.clear()
        for delivery in self._unsent:
            if delivery.sent:
                # It may have been the reason: what is not well-formed any more would be sent again for ever.
                delivery.entry.checked = False
        for delivery in list(self._unsent):
            if delivery.waiter is not None:
                self._secure_soon(delivery)

    def _answered(self, answer: Absorbed) -> None:
        """The queue manager's answer to the oldest set that it has."""
        if not self._outstanding:
            raise StreamError("unknown-message", f"an answer to set {answer.number}, which is not outstanding")
        delivery = self._outstanding[0]
        header = delivery.entry.header
        if (answer.epoch, answer.number) != (header.epoch, header.number):
            raise StreamError(
                "unknown-message", f"an answer to set {answer.number} where {header.number} is the oldest"
            )
        self._outstanding.popleft()
        if answer.code == 0:
            self._counters.sets_passed_on += 1
        elif delivery.waiter is None and header.answered:
            self._counters.sets_refused_late += 1
            _log.critical(
                "Set {number} of provider {pid}, which was told that it is accepted, is refused by the queue "
                "manager and lost: {code} {text}",
                number=header.number,
                pid=header.pid,
                code=answer.code,
                text=answer.text,
            )
            if answer.code != _PROVIDER_GONE:
                self._lost(header)
        else:
            _log.info(
                "The queue manager refuses set {number} of provider {pid}: {code} {text}",
                number=header.number,
                pid=header.pid,
                code=answer.code,
                text=answer.text,
            )
        if header.epoch == self._spool.epoch:
            self._acked = header.epoch, header.number
        self._drop(delivery, Verdict(answer.code, answer.text) if answer.code else ACCEPTED)

    def _damage_noted(self, pid: int, number: int) -> None:
        """The queue manager asks this provider for a full set."""
        if number:
            self._spool.acknowledged(number)
        self._spool.damage.noted(pid)

    def _end_epoch(self, epoch: str) -> None:
        """The queue manager knows higher numbers of this epoch than this spool has given out: begin another one."""
        if self._peer is not None:
            self._peer.stream.abort()
        if epoch != self._spool.epoch or self._ending_epoch:
            return
        _log.critical(
            "The queue manager knows of later sets in epoch {epoch}: this spool was restored from a backup. A new "
            "epoch begins; sets that were accepted since the backup are lost",
            epoch=epoch,
        )
        self._ending_epoch = True
        self._in_thread(self._spool.write_epoch).addCallback(self._begin_epoch).addErrback(
            lambda failure: _log.failure("Cannot begin a new epoch", failure=failure)
        ).addBoth(self._epoch_over)

    def _begin_epoch(self, epoch: str) -> None:
        ended = self._spool.epoch
        self._spool.begin_epoch(epoch)
        for delivery in (*self._outstanding, *self._unsent):
            entry = delivery.entry
            if entry.header.epoch == ended:
                entry.header = attrs.evolve(entry.header, epoch=epoch)
        if self._peer is not None:
            self._peer.stream.abort()  # it knows the old one

    def _epoch_over(self, _: object) -> None:
        self._ending_epoch = False

    def _lost(self, header: SetHeader) -> None:
        """This set, which was accepted, is lost."""
        if header.said is not None:
            _log.critical(
                "Set {number} of {notifier} for provider {pid}, which was told that it is accepted, is lost",
                number=header.said.number,
                notifier=header.said.notifier,
                pid=header.pid,
            )
            return  # a full set of the provider would not bring it back
        self._spool.damage.add(header.pid)
        self._untold.append(header.pid)
        self._pump_soon()

    # Securing.

    def _secure_soon(self, delivery: Delivery) -> None:
        delivery.cancel_timer()
        if delivery.securing or delivery.entry.header.answered:
            return
        delivery.securing = True
        notice = delivery.entry.header.said is not None
        (self._insecure_notices if notice else self._insecure).append(delivery)
        if self._securing < _SECURING_AT_ONCE:
            self._securing += 1
            Deferred.fromCoroutine(self._secure_together()).addErrback(
                lambda failure: _log.failure("Cannot secure sets", failure=failure)
            )

    async def _secure_together(self) -> None:
        """Those that wait while all threads are busy with others share the next one, and its sync of the folder."""
        try:
            while waiting := self._insecure or self._insecure_notices:
                some = waiting[:_SECURED_TOGETHER_MAX]
                del waiting[:_SECURED_TOGETHER_MAX]
                await self._secure(some)
        finally:
            self._securing -= 1

    async def _secure(self, some: list[Delivery]) -> None:
        faults: list[BaseException | None]
        try:
            faults = await self._in_thread(self._spool.secure, [delivery.entry for delivery in some])
        except Exception as error:
            faults = [error] * len(some)
        for delivery, fault in zip(some, faults, strict=True):
            if fault is None:
                self._secured(delivery)
            else:
                self._not_secured(delivery, fault)
        self._pump()

    def _secured(self, delivery: Delivery) -> None:
        delivery.securing = False
        if delivery.over:
            self._spool.remove_file(delivery.entry)
            return
        self._spool.secured(delivery.entry)
        delivery.entry.header = attrs.evolve(delivery.entry.header, answered=True)
        self._counters.sets_secured += 1
        delivery.reply(ACCEPTED)

    def _not_secured(self, delivery: Delivery, error: BaseException) -> None:
        delivery.securing = False
        if delivery.over:
            self._spool.remove_file(delivery.entry)
            return
        number = delivery.entry.header.number
        if isinstance(error, OSError):
            fault = fault_text(self._spool.folder, error)
            _log.error("Cannot sync set {number} to disk: {fault}", number=number, fault=fault)
        else:
            _log.failure("Cannot sync set {number} to disk", failure=Failure(error), number=number)
        if delivery.sent:
            delivery.reply(None)
        else:
            self._unsent.remove(delivery)
            of_disk = isinstance(error, OSError)
            name = disk_fault(error) if isinstance(error, OSError) else "internal"
            self._drop(delivery, Verdict(code(name), "the set could not be stored", of_disk))

    def _drop(self, delivery: Delivery, verdict: Verdict) -> None:
        delivery.cancel_timer()
        delivery.over = True
        self._spool.remove(delivery.entry)
        self._no_longer_here(delivery)
        delivery.reply(verdict)

    def _no_longer_here(self, delivery: Delivery) -> None:
        header = delivery.entry.header
        self._elements[header.pid] -= delivery.entry.count
        if not self._elements[header.pid]:
            del self._elements[header.pid]
        self._sequencer.ended(header)

    # Passing on.

    def _pump(self) -> None:
        if self._turn is None:
            self._pump_now()

    def _pump_soon(self, seconds: float = 0) -> None:
        if self._turn is None:
            self._turn = self._clock.callLater(seconds, self._next_turn)

    def _next_turn(self) -> None:
        self._turn = None
        self._pump_now()

    def _pump_now(self) -> None:
        """Send pieces until the transport's buffer is full, but let others have their turn now and then."""
        pieces = 0
        unflushed = 0
        while self._peer is not None and self._peer.stream.writable:
            if self._file is None:
                while self._untold:
                    self._peer.say(Damage(self._untold.pop(), self._spool.spare_number()))
            if not self._unsent:
                return
            if pieces >= _PIECES_A_TURN:
                self._pump_soon()
                return
            delivery = self._unsent[0]
            try:
                if self._file is None and not self._begin(delivery):
                    return
                unflushed += self._send_piece(delivery)
            except (OSError, SpoolDamaged) as error:
                self._unreadable(delivery, error)
                return
            if unflushed >= PIECE_BYTES:
                pieces += 1
                unflushed = 0
                if self._peer is not None:
                    self._peer.stream.flush()

    def _begin(self, delivery: Delivery) -> bool:
        """Begin a set; False: it cannot be passed on yet, and :meth:`_pump` is called when it can."""
        if delivery.securing or delivery.checking:
            return False
        if not delivery.entry.checked:
            self._check(delivery)
            return False
        assert self._peer is not None
        self._file = self._spool.read(delivery.entry)
        self._file_bytes = self._file_check = 0
        self._part = b""
        delivery.sent = True
        self._peer.say(opening(delivery.entry.header))
        return True

    def _send_piece(self, delivery: Delivery) -> int:
        """Send the next piece of the file that is open; gives how many bytes were read, at least one.

        Only whole elements go out: until the next piece follows, the keep-alive may speak.
        """
        assert self._peer is not None and self._file is not None
        entry = delivery.entry
        data = self._file.read(PIECE_BYTES)
        self._file_bytes += len(data)
        self._file_check = crc32(data, self._file_check)
        elements, end_of_line, self._part = (self._part + data).rpartition(b"\n")
        if end_of_line:
            try:
                text = elements.decode()
            except UnicodeDecodeError:
                raise SpoolDamaged("it is not UTF-8") from None
            self._peer.stream.send(f"{text}\n")
        if self._file_bytes < entry.body_bytes:
            if not data:
                raise SpoolDamaged(f"it ends after {self._file_bytes} of {entry.body_bytes} bytes")
            return len(data)
        if self._file_check != entry.check:
            raise SpoolDamaged("checksum mismatch")
        self._close_file()
        self._unsent.popleft()
        self._outstanding.append(delivery)
        self._peer.say(EndSet(entry.count))
        return len(data) + 200

    def _check(self, delivery: Delivery) -> None:
        delivery.checking = True

        def checked(_: object) -> None:
            delivery.checking = False
            delivery.entry.checked = True
            self._pump_soon()

        def damaged(failure: Failure) -> None:
            delivery.checking = False
            self._unreadable(delivery, failure.value)

        self._in_thread(self._spool.check, delivery.entry).addCallbacks(checked, damaged).addErrback(
            lambda failure: _log.failure("Cannot check a set", failure=failure)
        )

    def _unreadable(self, delivery: Delivery, error: BaseException | None) -> None:
        """The file of the oldest unsent set cannot be read."""
        if self._file is None and isinstance(error, OSError) and error.errno in _SHORTAGES:
            # Nothing is wrong with the file.
            number = delivery.entry.header.number
            _log.error("Cannot read set {number}, retrying: {error}", number=number, error=str(error))
            self._pump_soon(_SHORTAGE_SECONDS)
        else:
            self._set_aside(delivery, str(error), of_disk=isinstance(error, OSError))

    def _set_aside(self, delivery: Delivery, why: str, *, of_disk: bool = False) -> None:
        """The file of the oldest unsent set is of no use.

        :param of_disk: the disk says so, not what it holds.
        """
        begun = self._file is not None
        self._close_file()
        self._unsent.remove(delivery)
        delivery.cancel_timer()
        delivery.over = True
        self._spool.set_aside(delivery.entry, why)
        self._no_longer_here(delivery)
        if delivery.entry.header.answered:
            self._lost(delivery.entry.header)
        delivery.reply(Verdict(code("internal"), "the set could not be stored", of_disk))
        if begun and self._peer is not None:
            # A part of it is on its way: only a new connection makes the queue manager forget that.
            self._peer.stream.abort()
        else:
            self._pump_soon()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
