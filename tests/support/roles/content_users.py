"""A content user API with a real port."""

from __future__ import annotations

import http.client
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from lcc.config import parse_config
from lcc.services import cu
from lcc.services.process.environment import real_environment
from lcc.transport.links import PortService
from tests.support.browser import Reply
from tests.support.databases import Backend
from tests.support.openapi import check_content_reply


class Api:
    """The services of a content user API.

    :param more: further lines of its section of the configuration.
    :param home: below that of the backend; two that run at once need two, for each has a socket in it.
    """

    def __init__(
        self,
        backend: Backend,
        more: str = 'without_token = "content"',
        listen: str = "tcp:0:interface=127.0.0.1",
        home: str = ".",
    ) -> None:
        text = f"""
            home = "{home}"
            [database]
            url = "{backend.url.replace("sqlite:", f"sqlite:{backend.home}/")}"
            [cu]
            listen = "{listen}"
            {more}
        """
        self.config = parse_config(text, backend.home)
        self.services = cu.build(self.config, real_environment(reactor))
        self.services.startService()
        self.port = next(
            service.bound_port.getHost().port
            for service in self.services
            if isinstance(service, PortService) and service.setting == "cu.listen"
        )

    @property
    def engine(self) -> Any:
        return self.services.commands.engine

    def stop(self) -> Deferred[Any]:
        return self.services.stopService()  # type: ignore[no-any-return]

    def get(self, path: str, method: str = "GET", **headers: str) -> Deferred[Reply]:
        return deferToThread(self._get, path, method, headers)

    def _get(self, path: str, method: str, headers: dict[str, str]) -> Reply:
        connection = self.connection()
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            response = connection.getresponse()
            reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
            check_content_reply(path, method, reply.status, reply.headers.get("content-type", ""), reply.body)
            return reply
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        """A connection, for code in another thread."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
