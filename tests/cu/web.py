"""A content user API with a real port, and somebody who asks it from another thread."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.protocols.policies import WrappingFactory

from lcc.config import parse_config
from lcc.roles.botm.content_port import ContentPort, content_factory
from lcc.services import cu
from lcc.services.environment import real_environment
from lcc.storage.disk.content_folder import AttemptFolder, ContentFolder
from lcc.storage.disk.durable import DurableCounter
from lcc.transport.http_client import HttpClient
from lcc.transport.links import PortService
from tests.conftest import Backend

from .described import check_reply

T = TypeVar("T")


@attrs.frozen
class Reply:
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def lines(self) -> list[Any]:
        """The body as JSON lines."""
        return [json.loads(line) for line in self.body.splitlines()]


class _Machine:
    """The BOT-M of a machine, as far as its content port needs it."""

    def __init__(self, machine: int) -> None:
        self.machine = machine

    def is_suspect(self, file_id: int) -> bool:
        return False

    def status(self) -> dict[str, Any]:
        return {}


class _Counting(WrappingFactory):
    """Counts connections."""

    noisy = False
    made = 0

    def buildProtocol(self, addr: Any) -> Any:
        self.made += 1
        return super().buildProtocol(addr)


class ContentHost:
    """A content folder behind a real content port, on the socket where a content user API looks for it.

    :ivar knows: machine -> where its content is read.
    :ivar asked: how often somebody asked for another machine.
    """

    def __init__(self, home: Path, machine: int = 1, endpoint: str | None = None) -> None:
        home.mkdir(exist_ok=True)
        self.knows: dict[int, str] = {}
        self.asked = 0
        self.folder = ContentFolder(home / "content", lambda path: DurableCounter(path, 100))
        self.folder.open()
        self._http = HttpClient(reactor, 5, 5.0)
        clock: Any = reactor
        self._machine = _Machine(machine)
        port = ContentPort(self.folder, self._machine, self._address_of, self._http, clock, 30.0)
        self._factory = _Counting(content_factory(port, clock, 100, 30.0))
        self._port = PortService(reactor, endpoint or f"unix:{home}/content.sock", self._factory)
        self._port.startService()
        self._home = home

    def add(self, data: bytes) -> int:
        """A new content file; its id."""
        file_id = self.folder.reserve()
        attempt = self.folder.attempt(file_id, 1)
        sink = AttemptFolder(self._home / "content").sink(attempt)
        sink.write(data)
        sink.close()
        self.folder.accept(attempt, file_id)
        return file_id

    def as_machine(self, machine: int) -> None:
        """From now on its content is that of another machine."""
        self._machine.machine = machine

    @property
    def port(self) -> int:
        """Of TCP."""
        return self._port.bound_port.getHost().port  # type: ignore[no-any-return]

    @property
    def connections(self) -> int:
        """So many were made to it."""
        return self._factory.made

    async def stop(self) -> None:
        await self._port.stopService()
        await self._http.close()

    def _address_of(self, machine: int) -> str:
        self.asked += 1
        return self.knows.get(machine, "")


class Api:
    """The services of a content user API.

    :param more: further lines of its section of the configuration.
    """

    def __init__(
        self,
        backend: Backend,
        more: str = 'without_token = "content"',
        listen: str = "tcp:0:interface=127.0.0.1",
    ) -> None:
        text = f"""
            home = "."
            [database]
            url = "{backend.url}"
            [cu]
            listen = "{listen}"
            {more}
        """
        self.config = parse_config(text, backend.home)
        self.services = cu.build(self.config, real_environment(reactor))
        self.services.startService()
        self.port = next(
            service.bound_port.getHost().port for service in self.services if isinstance(service, PortService)
        )

    def stop(self) -> Deferred[Any]:
        return self.services.stopService()  # type: ignore[no-any-return]

    def get(self, path: str, method: str = "GET", **headers: str) -> Deferred[Reply]:
        return in_thread(self._get, path, method, headers)

    def _get(self, path: str, method: str, headers: dict[str, str]) -> Reply:
        connection = self.connection()
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            response = connection.getresponse()
            reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
            check_reply(path, method, reply.status, reply.headers.get("content-type", ""), reply.body)
            return reply
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        """A connection, for code in another thread."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


def in_thread(function: Callable[..., T], *args: Any) -> Deferred[T]:
    return deferToThread(function, *args)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        await deferLater(reactor, 0.01)  # type: ignore[arg-type]  # the reactor is a module
    raise AssertionError("it never came true")
