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

from lcc.config import parse_config
from lcc.roles.botm.content_port import ContentPort, content_factory
from lcc.services import cu
from lcc.storage.content import AttemptFolder, ContentFolder
from lcc.storage.durable import DurableCounter
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
    """The BOT-M of machine 1, as far as its content port needs it."""

    machine = 1

    def is_suspect(self, file_id: int) -> bool:
        return False

    def status(self) -> dict[str, Any]:
        return {}


class ContentHost:
    """A content folder behind a real content port, on the socket where a content user API looks for it."""

    def __init__(self, home: Path) -> None:
        self.folder = ContentFolder(home / "content", lambda path: DurableCounter(path, 100))
        self.folder.open()
        self._http = HttpClient(reactor, 5, 5.0)
        clock: Any = reactor
        port = ContentPort(self.folder, _Machine(), lambda machine: "", self._http, clock, 30.0)
        self._port = PortService(reactor, f"unix:{home}/content.sock", content_factory(port, clock, 100, 30.0))
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

    async def stop(self) -> None:
        await self._port.stopService()
        await self._http.close()


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
        self.services = cu.build(self.config, reactor)
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
