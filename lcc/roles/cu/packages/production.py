"""Makes packages in threads of their own, a step at a time: the next one only when somebody has taken the last one.

A step is some 256 KiB of package, or a few hundred rows.  Threads and packages are bounded, so one slow machine, or
many who ask for packages, hold up nobody else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import Deferred, DeferredList, fail
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from lcc.model import CachedUrl
from lcc.roles.cu.packages.bodies import Bodies
from lcc.roles.cu.packages.kinds import Kind
from lcc.roles.cu.packages.packing import Again, Packing
from lcc.roles.cu.packages.ports import ContentPorts
from lcc.roles.cu.query import Query
from lcc.storage.disk.free_space import DISK_FULL, fault_text
from lcc.transport.ports.connection_limits import ConnectionLimits
from lcc.transport.tls.files import CertificateFiles

STEP_BYTES = 1 << 18
STEP_BYTES_READ = 1 << 22
STEP_PARTS = 256
_LEVEL = 6
T = TypeVar("T")


class GivenUp(Exception):
    """The LCC is stopping."""


class NoRoom(Exception):
    """There is no room for temporary files."""


class TooMany(Exception):
    """As many packages are being made as may be at once.

    :ivar own: for this user; else for all together.
    """

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own = own


@attrs.frozen
class Made:
    """What a step gave.

    :ivar data: the next bytes; there may be none.
    :ivar again: the key of a row that must be read again; None: none.
    :ivar ended: this part of the package is done.
    """

    data: bytes
    again: bytes | None
    ended: bool


@attrs.frozen
class Where:
    """Where content is.

    :ivar folder: the content folder of this machine.
    :ivar machine: its id; 0: there is none.
    :ivar ports: the (central) BOT-M's content port, for everything else; or what gives it for each machine.
    :ivar temporary: for temporary files.
    :ivar certificates: for content ports over TLS (as of :class:`lcc.client.content.ContentClient`).
    :ivar timeout_seconds: for each silence of a content port.
    """

    folder: Path
    machine: int
    ports: str | Callable[[int], str]
    temporary: Path
    certificates: CertificateFiles | None = None
    timeout_seconds: float = 30.0


def package_threads(most: int) -> ThreadPool:
    """Threads, so many at most."""
    return ThreadPool(0, most, "packages")


def content_ports(where: Where) -> ContentPorts:
    """Reads content of other machines."""
    return ContentPorts(where.ports, where.timeout_seconds, where.certificates)


class Production:
    """A package that is being made.

    :param run: ``run(function, *args)`` calls it in a thread.
    :param temporary: where temporary files are.
    """

    def __init__(self, packing: Packing, compress: bool, run: Callable[..., Deferred[Any]], temporary: Path) -> None:
        self._packing = packing
        self._temporary = temporary
        self._squeezer = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS + 16) if compress else None
        self._run = run
        self._steps = packing.begin()
        self._step: Deferred[Any] | None = None
        self._closed = False

    def begin(self) -> None:
        """The next steps make what stands before the rows."""
        self._steps = self._packing.begin()

    def rows(self, rows: list[CachedUrl]) -> None:
        """The next steps make these."""
        self._steps = self._packing.rows(rows)

    def end(self, token: str | None) -> None:
        """The next steps make the end."""
        self._steps = self._packing.end(token)

    def step(self, row: CachedUrl | None = None, last: bool = False) -> Deferred[Made]:
        """Make a little more.

        :param row: that was asked for by the step before.
        :param last: nothing comes after these steps.
        :raises OSError: (as the Deferred's failure) content that was begun cannot be read to its end.
        :raises NoRoom: (so, too) a temporary file cannot be written.
        :raises GivenUp: it was closed.
        """
        if self._closed:
            return fail(GivenUp())
        self._step = self._run(self._make, row, last)
        return _independent(self._step)

    def close(self) -> Deferred[None]:
        """Nothing more is made; fires when no thread has anything to do with it any longer."""
        closed: Deferred[None] = Deferred()

        def close(_: Any) -> None:
            self._steps.close()
            self._packing.close()
            closed.callback(None)

        self._closed = True
        self._packing.abort()
        if self._step is None:
            close(None)
        else:
            self._step.addBoth(close)
        return closed

    def _make(self, row: CachedUrl | None, last: bool) -> Made:
        try:
            return self._make_some(row, last)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            raise NoRoom(f"no temporary file can be written in {fault_text(self._temporary, error)}") from None

    def _make_some(self, row: CachedUrl | None, last: bool) -> Made:
        data: list[bytes] = []
        made = read = 0
        for _ in range(STEP_PARTS):
            try:
                part = self._steps.send(row)
            except StopIteration:
                if last and self._squeezer is not None:
                    data.append(self._squeezer.flush())
                return Made(b"".join(data), None, True)
            row = None
            if isinstance(part, Again):
                return Made(b"".join(data), part.key, False)
            read += len(part)
            if self._squeezer is not None:
                part = self._squeezer.compress(part)
            if part:
                data.append(part)
                made += len(part)
            if made >= STEP_BYTES or read >= STEP_BYTES_READ:
                break
        return Made(b"".join(data), None, False)


class Workshop:
    """Where packages are made.

    :param packages_max: at once.
    :param now: seconds since 1970.
    :param per_user: of those, for one user; 0: no such limit.
    :param make_threads: as :func:`package_threads`.
    :param make_ports: as :func:`content_ports`.
    """

    def __init__(
        self,
        reactor: Any,
        where: Where,
        packages_max: int,
        now: Callable[[], float],
        per_user: int = 0,
        make_threads: Callable[[int], Any] = package_threads,
        make_ports: Callable[[Where], ContentPorts] = content_ports,
    ) -> None:
        self._reactor = reactor
        self._where = where
        self._packages_max = packages_max
        self._limits = ConnectionLimits(packages_max, per_user)
        self._now = now
        self._make_threads = make_threads
        self._make_ports = make_ports
        self._pool: Any = None
        self._made: dict[Production, str] = {}
        self._ending: set[Deferred[None]] = set()

    @property
    def count(self) -> int:
        """Packages that are being made."""
        return len(self._made)

    def start(self) -> None:
        """Take orders from now on."""
        self._pool = self._make_threads(self._packages_max)
        self._pool.start()

    def stop(self) -> Deferred[None]:
        """End: what is being made is given up; no thread is left then."""
        for production in list(self._made):
            self.done(production)
        pool, self._pool = self._pool, None

        def ended(_: Any) -> None:
            if pool is not None:
                pool.stop()

        return DeferredList(list(self._ending)).addCallback(ended)

    def order(self, kind: Kind, query: Query, user: str = "") -> Production:
        """A new package, to be given back with :meth:`done`.

        :param user: whose share it is; empty: nobody's.
        :raises TooMany: there are as many as may be.
        :raises NotInstalled: something is missing for this kind.
        """
        if self._limits.is_used_up(user):
            raise TooMany(own=True)
        if self._pool is None or self._limits.total >= self._packages_max:
            raise TooMany(own=False)
        where = self._where
        writer = kind.make(int(self._now()), where.temporary)
        bodies = Bodies(where.folder, where.machine, self._make_ports(where), where.temporary)
        packing = Packing(writer, bodies, query.selection, query.since is not None)
        production = Production(packing, kind.compress, self._in_thread, where.temporary)
        self._made[production] = user
        self._limits.enter(user)
        return production

    def done(self, production: Production) -> None:
        """This package is complete, or nobody wants it any longer."""
        if production not in self._made:
            return
        user = self._made.pop(production)
        closed = production.close()
        self._ending.add(closed)

        def ended(_: Any) -> None:
            self._ending.discard(closed)
            self._limits.leave(user)

        closed.addCallback(ended)

    def _in_thread(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        if self._pool is None:
            return fail(GivenUp())
        return deferToThreadPool(self._reactor, self._pool, function, *args)


def _independent(work: Deferred[T]) -> Deferred[T]:
    """The same result, for somebody who may cancel; the work goes on then, and its end can still be waited for."""
    result: Deferred[T] = Deferred(lambda _: None)

    def ended(outcome: Any) -> None:
        if not result.called:
            result.callback(outcome)

    work.addBoth(ended)
    return result
