"""The fetcher for ftp: anonymous, passive, binary.

Owns: the idle control connections, each kept for the provider it was made for.
Strategy: one coroutine a fetch.  The length that the server tells before is compared with what came, because the end
of a data connection does not say whether it was the end of the file.  A folder is a document to who asks for it
(:mod:`lcc.fetchers.folders`): listed by MLSD, or LIST where the server does not know that.
Failures: everything that a server can do ends as a FetchError; a kept connection that turns out to be dead before any
reply, or that the server closes with a 421 as its first reply, is replaced once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.interfaces import IHostnameResolver
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.base import CoroutineFetcher, Task
from lcc.fetchers.folders import URI_LIST, read_list, read_mlsd, type_of, wants_folders, write_folder
from lcc.fetchers.ftp_control import FtpControl
from lcc.fetchers.ftp_words import FtpName, data_port, ftp_name, modified_seconds, refusal, size_bytes
from lcc.interfaces import IContentSink
from lcc.model import Fetched

LISTING_BYTES_MAX = 16 << 20
"""Of a folder."""


@implementer(IContentSink)
class _Held:
    """Holds content in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data


class FtpKey(NamedTuple):
    """What a kept connection may be used for: never for another provider."""

    pid: int
    host: str
    port: int
    private: bool


class FtpFetcher(CoroutineFetcher):
    """Fetches ftp URLs."""

    schemes = ("ftp",)

    def __init__(self, reactor: Any, settings: BotConfig, resolver: IHostnameResolver | None = None) -> None:
        super().__init__(reactor, settings, resolver)
        self._idle: dict[FtpKey, FtpControl] = {}
        self._idle_max = 4 * settings.concurrency

    async def run(self, task: Task) -> Fetched:
        """As :meth:`lcc.fetchers.base.CoroutineFetcher.run`."""
        name = ftp_name(task.order.url, wants_folders(task.order))
        key = FtpKey(task.order.pid, name.host, name.port, task.order.private)
        control = self._take(key)
        if control is not None:
            try:
                return await self._on(control, task, name)
            except FetchError:
                if control.replies or not control.lost or control.served == 1:
                    raise
        return await self._on(await self._connect(key), task, name)

    async def _connect(self, key: FtpKey) -> FtpControl:
        return await self.dialer.dial(
            key.host,
            key.port,
            key.private,
            lambda: FtpControl(self.reactor, self.settings, self.connections, self.steps, key),
        )

    async def _on(self, control: FtpControl, task: Task, name: FtpName) -> Fetched:
        """The whole fetch on this connection, which is kept if all goes well, or the file is just not there."""
        control.begin()
        keep = False
        try:
            if control.served == 1:
                await self._login(control)
            transfer = self._list if name.is_folder else self._transfer
            fetched = await transfer(control, task, name)
            keep = True
            return fetched
        except FetchError as error:
            keep = error.entry.name == "http-404"
            raise
        finally:
            task.wire_bytes += control.received_bytes
            if keep:
                self._keep(control)
            else:
                control.abort()

    async def _login(self, control: FtpControl) -> None:
        reply = await control.ask("USER anonymous", login=True)
        if reply.startswith("3"):
            contact = "".join(char for char in self.settings.contact if char.isprintable()) or "anonymous@"
            reply = await control.ask(f"PASS {contact}", login=True)
        if not reply.startswith("2"):
            raise refusal([reply], login=True)  # it wants an account
        await control.ask("TYPE I", login=True)

    async def _transfer(self, control: FtpControl, task: Task, name: FtpName) -> Fetched:
        order = task.order
        mimetype = type_of(order)
        modified = modified_seconds(await self._ask_if_known(control, f"MDTM {name.path}"))
        size = size_bytes(await self._ask_if_known(control, f"SIZE {name.path}"))
        known = modified is not None and size is not None
        if order.conditional and known and (order.modified, order.stored_bytes) == (modified, size):
            return Fetched(0, order.url, mimetype, modified=modified, revalidate=True, unchanged=True)
        if size is not None:
            task.check_size(size)
        await self._retrieve(control, f"RETR {name.path}", task)
        if size is not None and task.size_bytes != size:
            raise FetchError("early-eof", f"{task.size_bytes} bytes of {size}")
        return Fetched(0, order.url, mimetype, modified=modified, revalidate=known)

    async def _list(self, control: FtpControl, task: Task, name: FtpName) -> Fetched:
        """The URLs of what is in a folder."""
        mimetype = type_of(task.order) or URI_LIST
        # A path that begins with a dash would be taken for options.
        path = f"./{name.path}" if name.path.startswith("-") else name.path
        if control.machine_lists:
            try:
                write_folder(task, read_mlsd(await self._lines(control, f"MLSD {path}".rstrip(), task)))
                return Fetched(0, task.order.url, mimetype)
            except FetchError as error:
                if control.lost or error.entry.name != "server-refused":
                    raise
                control.machine_lists = False
        write_folder(task, read_list(await self._lines(control, f"LIST {path}".rstrip(), task)))
        return Fetched(0, task.order.url, mimetype)

    async def _lines(self, control: FtpControl, command: str, task: Task) -> list[str]:
        """What a data connection brings, which is held in memory."""
        held = _Held()
        listing = Task(task.order, held, LISTING_BYTES_MAX)
        try:
            await self._retrieve(control, command, listing)
        finally:
            task.wire_bytes += listing.wire_bytes
        return [line.rstrip("\r") for line in held.data.decode("latin-1").split("\n")]

    async def _retrieve(self, control: FtpControl, command: str, task: Task) -> None:
        """Take all that a data connection brings as the content."""
        download = self.download(task)
        try:
            await self._open_data(control, download)
            try:
                both: list[Deferred[Any]] = [control.send(command), download.done]
                await gatherResults(both, consumeErrors=True)
            except FirstError as first:
                first.subFailure.raiseException()
        finally:
            download.drop()

    async def _ask_if_known(self, control: FtpControl, command: str) -> str:
        """The reply, also where it is a refusal: neither command is one that every server knows."""
        try:
            return await control.ask(command)
        except FetchError as error:
            if control.lost or error.entry.name not in ("http-404", "server-refused", "server-busy"):
                raise
            return ""

    async def _open_data(self, control: FtpControl, download: Any) -> None:
        transport: Any = control.transport
        address = transport.getPeer().host
        reply = ""
        if control.extended:
            try:
                reply = await control.ask("EPSV")
            except FetchError as error:
                if error.entry.name not in ("server-refused", "http-404") or ":" in address:
                    raise  # PASV is for IPv4 only
                control.extended = False
        if not reply:
            reply = await control.ask("PASV")
        port = data_port(reply)
        endpoint = self.dialer.endpoint(address, port, self.settings.connect_timeout)
        await self.dialer.connect(endpoint, download, address, port)

    def _take(self, key: FtpKey) -> FtpControl | None:
        control = self._idle.pop(key, None)
        if control is None or control.lost:
            return None
        self.steps.tell("reused")
        return control

    def _keep(self, control: FtpControl) -> None:
        key: Any = control.key
        if control.lost or self.settings.keepalive <= 0 or key in self._idle:
            control.abort()
            return
        self._idle = {other: idle for other, idle in self._idle.items() if not idle.lost}
        if len(self._idle) >= self._idle_max:
            self._idle.pop(next(iter(self._idle))).abort()
        self._idle[key] = control
        control.rest()
