"""A UNS in one process under one clock: in-memory transports, a fake database, a queue manager on the real wire."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from zope.interface import implementer

from lcc.config import UnsConfig
from lcc.errors import StoreUnavailable
from lcc.interfaces import IProviderReader, ISessionStore
from lcc.model import FullSetKey, Provider, ProviderStatus, Session, SetStart, UrlNotice
from lcc.protocols.cp_uns_client import init
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import FROM_UNS, Absorbed, EndSet, Set, read_notice
from lcc.roles.peer import Peer
from lcc.roles.uns.engine import Uns
from lcc.roles.uns.port import ProviderPort
from lcc.storage.disk.file_system import Disk
from lcc.storage.disk.spool import MEMORY_MAX_BYTES, Spool
from lcc.storage.providers.passwords import hash_password
from tests.support.transports import MemoryTransport

PASSWORD = "0123456789abcdef"
HASH = hash_password(PASSWORD, generated=True)
STATUS = ProviderStatus(0, 0, 10, "", 0, 0, (), 0)
ROOT = "http://site.example/"


@implementer(IProviderReader, ISessionStore)
class FakeDatabase:
    """Providers and sessions in memory."""

    def __init__(self) -> None:
        self.providers: dict[int, Provider] = {7: Provider(7, (ROOT,), HASH), 8: Provider(8, (ROOT,), HASH)}
        self.statuses: dict[int, ProviderStatus] = {}
        self.sessions: dict[int, Session] = {}
        self.left: set[int] = set()
        self.drawn: dict[int, int] = {}
        self.asked_by_sites: dict[str, tuple[float, str]] = {}
        self.under_way: set[FullSetKey] = set()
        self.ended: set[FullSetKey] = set()
        self.used: Counter[int] = Counter()
        self.held: list[Deferred[None]] | None = None
        """Not None: sets that begin wait for these."""
        self.away = False
        self.asked = 0

    def _answer(self, value: Any) -> Deferred[Any]:
        self.asked += 1
        return fail(StoreUnavailable("away")) if self.away else succeed(value)

    def provider(self, pid: int) -> Deferred[Provider | None]:
        return self._answer(self.providers.get(pid))

    def login(self, pid: int) -> Deferred[tuple[Provider, ProviderStatus] | None]:
        provider = self.providers.get(pid)
        return self._answer(provider and (provider, attrs.evolve(self._status(pid), errors=())))

    def has_left(self, pid: int) -> Deferred[bool]:
        return self._answer(pid in self.left)

    def status(self, pid: int, errors_max: int) -> Deferred[ProviderStatus]:
        return self._answer(self._status(pid))

    def _status(self, pid: int) -> ProviderStatus:
        status = self.statuses.get(pid, STATUS)
        if status.full_sets_left is not None:
            status = attrs.evolve(status, full_sets_left=max(0, status.full_sets_left - self.used[pid]))
        return status

    def open_session(self, pid: int, ip: str, now: int, known: int = 0) -> Deferred[Session]:
        before = self.sessions.get(pid, Session(0, "", 0))
        session = Session(before.number + 1, before.last_ip, self._draw(pid, known))
        self.sessions[pid] = Session(session.number, ip, 0)
        return self._answer(session)

    def _draw(self, pid: int, known: int) -> int:
        self.drawn[pid] = max(self.drawn.get(pid, 0), known) + 1
        return self.drawn[pid]

    def last_drawn(self, pids: Collection[int]) -> Deferred[dict[int, int]]:
        return self._answer({pid: self.drawn[pid] for pid in pids if pid in self.drawn})

    def watch(self, root: str, crawl_delay: float | None, private: bool, hours: str) -> Deferred[int]:
        if crawl_delay is not None:
            self.asked_by_sites[root] = crawl_delay, hours
        for pid, provider in self.providers.items():
            if root in provider.roots:
                return self._answer(pid)
        pid = max(self.providers) + 1
        if not self.away:
            self.providers[pid] = Provider(pid, (root,), "", allow_private=private)
        return self._answer(pid)

    def begin_sets(self, starts: Sequence[SetStart], now: int) -> Deferred[list[int | None]]:
        if self.held is not None:
            self.held.append(Deferred())
            return self.held[-1].addCallback(lambda _: self._begin_sets(starts))
        return self._begin_sets(starts)

    def _begin_sets(self, starts: Sequence[SetStart]) -> Deferred[list[int | None]]:
        numbers: list[int | None] = []
        for start in [] if self.away else starts:
            pid = start.pid
            kept = self.drawn.get(pid) == start.held >= start.known
            number = start.held
            if not kept or FullSetKey(pid, number) in self.under_way:
                number = self._draw(pid, start.known)
            if not start.counts:
                numbers.append(number)
                continue
            left = self.statuses.get(pid, STATUS).full_sets_left
            under_way = sum(key.pid == pid for key in self.under_way) + self.used[pid]
            if left is not None and under_way >= left:
                numbers.append(None)
            else:
                numbers.append(number)
                self.ended.discard(FullSetKey(pid, number))
                self.under_way.add(FullSetKey(pid, number))
        return self._answer(numbers)

    def end_full_sets(self, keys: Collection[FullSetKey]) -> Deferred[None]:
        self.ended.update(keys)
        if not self.away:
            self.under_way -= self.ended
        return self._answer(None)

    def keep_full_sets(self, here: Collection[FullSetKey], now: int) -> Deferred[None]:
        if not self.away:
            self.under_way = set(here)
        return self._answer(None)


class RecordingDisk(Disk):
    """The real disk; what is synced and renamed is noted, and operations can be made to fail."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fail: dict[str, OSError] = {}
        self.opened: list[Any] = []

    def close_all(self) -> None:
        """What the system does when a process ends."""
        for file in self.opened:
            file.close()
        self.opened.clear()

    def _note(self, operation: str, path: Any) -> None:
        error = self.fail.get(operation)
        if error is not None:
            raise error
        self.log.append(f"{operation} {path.name}")

    def create(self, path: Any) -> Any:
        self._note("create", path)
        self.opened.append(super().create(path))
        return self.opened[-1]

    def open(self, path: Any) -> Any:
        self._note("open", path)
        self.opened.append(super().open(path))
        return self.opened[-1]

    def write(self, file: Any, data: bytes) -> None:
        self._note("write", Path())
        super().write(file, data)

    def patch(self, path: Any, offset: int, data: bytes, *, create: bool = False) -> None:
        self._note("patch", path)
        super().patch(path, offset, data, create=create)

    def rename(self, source: Any, target: Any) -> None:
        self._note("rename", target)
        super().rename(source, target)

    def remove(self, path: Any) -> bool:
        self._note("remove", path)
        return super().remove(path)

    def sync_file(self, path: Any) -> None:
        self._note("sync_file", path)
        super().sync_file(path)

    def sync_folder(self, path: Any) -> None:
        self._note("sync_folder", path)
        super().sync_folder(path)


QmT = TypeVar("QmT", bound="FakeQm")


@attrs.define
class TakenSet:
    """A set as the queue manager read it."""

    begin: Set
    notices: list[UrlNotice]
    whole: bool = False


class FakeQm(Peer):
    """A queue manager on the real wire.

    :ivar answers: gives the answer to a whole set; None: no answer for now.
    """

    def __init__(self, clock: Clock, answers: Callable[[Set], Absorbed | None]) -> None:
        super().__init__(clock, Hello(role="qm", name="qm"), frozenset(["uns"]), FROM_UNS)
        self.answers = answers
        self.sets: list[TakenSet] = []

    @property
    def numbers(self) -> list[int]:
        return [taken.begin.number for taken in self.sets if taken.whole]

    def elements_received(self, elements: list[Any]) -> None:
        for element in elements:
            if element.name == "u":
                self.sets[-1].notices.append(read_notice(element.attributes))
                continue
            message = self.vocabulary.read(element.name, element.attributes)
            if isinstance(message, Set):
                self.sets.append(TakenSet(message, []))
            elif isinstance(message, EndSet):
                taken = self.sets[-1]
                assert message.count == len(taken.notices)
                taken.whole = True
                answer = self.answers(taken.begin)
                if answer is not None:
                    self.say(answer)


def absorbed(begin: Set) -> Absorbed:
    return Absorbed(begin.epoch, begin.number, 0)


class Cp:
    """A provider that writes bytes."""

    def __init__(self, transport: MemoryTransport, protocol: Any) -> None:
        self.transport = transport
        self.protocol = protocol
        self.received = bytearray()
        self.reads = True
        self.waiting: list[bytes] = []

    @property
    def text(self) -> str:
        return self.received.decode()

    @property
    def closed(self) -> bool:
        return self.transport.closed or self.transport.write_closed

    def send(self, data: str | bytes, piece: int = 65536) -> None:
        raw = data.encode() if isinstance(data, str) else data
        self.waiting += [raw[i : i + piece] for i in range(0, len(raw), piece)]

    def half_close(self) -> None:
        self.waiting.append(b"")

    def step(self) -> bool:
        moved = False
        if self.reads and self.transport.out:
            self.received += self.transport.take()
            moved = True
        if self.waiting and not self.transport.paused and not self.transport.closed:
            piece = self.waiting.pop(0)
            if piece:
                self.protocol.dataReceived(piece)
            else:
                self.protocol.readConnectionLost()
            moved = True
        return moved

    def lose(self) -> None:
        self.transport.lose(ConnectionLost())


class World:
    """All of it.

    :param memory_max_bytes: of the spool; 0: small sets have files, too.
    """

    def __init__(self, folder: Path, memory_max_bytes: int = MEMORY_MAX_BYTES, **settings: Any) -> None:
        self.folder = folder
        self._memory_max_bytes = memory_max_bytes
        self.clock = Clock()
        self.disk = RecordingDisk()
        self.settings = UnsConfig(**{"connections_per_provider": 1000, **settings})
        self.database = FakeDatabase()
        self.held_threads: list[Callable[[], None]] | None = None
        self.cps: list[Cp] = []
        self.qm: FakeQm | None = None
        self._ends: tuple[MemoryTransport, MemoryTransport] | None = None
        self.link_capacity = 1 << 40
        self._token: Callable[[], str] = lambda: "epoch1"
        self.start()

    def start(self) -> None:
        size_max, memory_max = self.settings.spool_max_bytes, self._memory_max_bytes
        spool = Spool(self.folder, "uns", size_max, lambda: self._token(), self.disk, 0, memory_max)
        self.spool = spool
        self.uns = Uns(
            self.settings,
            ("text/*",),
            spool,
            self.database,
            self.database,
            self.clock,
            lambda: 1_000_000,
            self._in_thread,
            watch=self.database.watch,
        )
        self.port = ProviderPort(self.uns)
        self.uns.start()

    def restart_with(self, token: Callable[[], str]) -> None:
        """Restart; new epochs are named by ``token``."""
        self._token = token
        self.restart()

    def restart(self) -> None:
        """Kill the process and start it again."""
        self.disk.close_all()
        self.cps.clear()
        self.qm = None
        self._ends = None
        self.clock = Clock()
        self.start()

    def _in_thread(self, function: Any, *arguments: Any) -> Deferred[Any]:
        if self.held_threads is None:
            return maybeDeferred(function, *arguments)
        result: Deferred[Any] = Deferred()
        self.held_threads.append(lambda: maybeDeferred(function, *arguments).chainDeferred(result))
        return result

    def release_threads(self) -> None:
        held, self.held_threads = self.held_threads or [], None
        for work in held:
            work()
        self.pump()

    # Providers.

    def connect(self, capacity: int = 1 << 40, host: str = "192.0.2.7") -> Cp:
        protocol = self.port.buildProtocol(IPv4Address("TCP", host, 4711))
        assert protocol is not None
        transport = MemoryTransport(capacity, host)
        transport.protocol = protocol
        cp = Cp(transport, protocol)
        self.cps.append(cp)
        protocol.makeConnection(transport)
        return cp

    def login(self, pid: int = 7, password: str = PASSWORD, capacity: int = 1 << 40) -> Cp:
        cp = self.connect(capacity)
        cp.send(init(pid, password))
        self.pump()
        if not cp.text and self.held_threads is None:
            self.wait_for_rejections()
        return cp

    def wait_for_rejections(self) -> None:
        """Wrong logins are answered after a while."""
        self.clock.advance(0.5)
        self.pump()

    def send_set(self, name: str, pid: int = 7) -> Cp:
        """Log in and send a partial set of one URL, named ``name``."""
        cp = self.login(pid)
        cp.send(partial(name))
        self.pump()
        return cp

    # The queue manager.

    def connect_qm(
        self,
        answers: Callable[[Set], Absorbed | None] = absorbed,
        make: type[QmT] = FakeQm,  # type: ignore[assignment]
    ) -> QmT:
        qm = self.qm = make(self.clock, answers)
        here, there = MemoryTransport(self.link_capacity), MemoryTransport()
        here.protocol = self.uns.forwarder.upstream_factory().buildProtocol(None)
        there.protocol = qm.build_stream()
        self._ends = here, there
        here.protocol.makeConnection(here)
        there.protocol.makeConnection(there)
        self.pump()
        return qm

    @property
    def has_qm(self) -> bool:
        """The link to the queue manager stands."""
        return self._ends is not None

    def lose_qm(self) -> None:
        ends, self._ends = self._ends, None
        assert ends is not None
        for end in ends:
            end.lose(ConnectionLost())
        self.qm = None

    # Everything moves.

    def pump(self) -> None:
        """Until nothing moves any more.  No time passes."""
        for _ in range(200_000):
            moved = sum(cp.step() for cp in self.cps) > 0
            if self._ends is not None:
                here, there = self._ends
                for source, target in ((here, there), (there, here)):
                    if source.out and not target.paused and not target.closed:
                        target.protocol.dataReceived(source.take())
                        moved = True
                if here.closed or there.closed:
                    self.lose_qm()
            if any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls()):
                self.clock.advance(0)
                moved = True
            if not moved:
                return
        raise AssertionError("it never comes to rest")

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.advance(1)
            self.pump()

    def set_files(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.set"))

    def incoming_files(self) -> list[str]:
        return [path.name for path in (self.folder / "incoming").iterdir()]


def url(name: str, more: str = 'm="text/html"') -> str:
    return f'<url c="{name}" {more}/>'


def partial(*names: str, kind: str = "partial") -> str:
    return f'<lococa:set set="{kind}" urlprefix="{ROOT}">' + "".join(url(name) for name in names) + "</lococa:set>"


def codes(text: str) -> list[int]:
    """All codes in an answer, in order."""
    return [int(number) for number in re.findall(r'code="(\d+)"', text)]


CONVERSATION = (
    '<?xml version="1.0"?>\n'
    + init(7, PASSWORD)
    + "\n<!-- and now -->\n"
    + f'<lococa:set set="full" urlprefix="{ROOT}">\n'
    + url("a")
    + url("http://elsewhere.example/")
    + url("ümlaut/ü", 'm="text/html" subtype="a:b" len="3" mtime="5"')
    + url("b", "")
    + url("c", 'm="text/html" md5="zz"')
    + '<note/><url m="text/html"/>'
    + url("d", 'op="delete"')
    + url("http://elsewhere.example/x", 'm="text/html" outside="drop"')
    + "\n</lococa:set>\n"
    + partial("second")
).encode()
"""A provider's end of a connection, with all kinds of elements, good and bad."""
