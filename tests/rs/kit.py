"""A registration server with a real port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from lcc.config import parse_config
from lcc.services import rs
from lcc.services.process.environment import real_environment
from lcc.transport.links import PortService
from tests.support.browser import Browser
from tests.support.databases import Backend


class Office:
    """The services of a registration server; by default sites on loopback may register.

    :param more: further lines of its section of the configuration.
    :param beyond: further sections; ``first``: lines of none.
    """

    def __init__(
        self,
        backend: Backend,
        more: str = "",
        listen: str = "tcp:0:interface=127.0.0.1",
        beyond: str = "",
        allow_private: bool = True,
        any_port: bool = True,
        first: str = "",
    ) -> None:
        text = f"""
            home = "."
            timezone = "UTC"
            {first}
            [database]
            url = "{backend.url}"
            [rs]
            listen = "{listen}"
            any_port = {str(any_port).lower()}
            allow_private = {str(allow_private).lower()}
            {more}
            {beyond}
        """
        self.config = parse_config(text, backend.home)
        self.home: Path = backend.home
        self.services = rs.build(self.config, real_environment(reactor))
        self.services.startService()

    @property
    def port(self) -> int:
        (port,) = (each.bound_port.getHost().port for each in self.services if isinstance(each, PortService))
        return int(port)

    def stop(self) -> Deferred[Any]:
        return self.services.stopService()  # type: ignore[no-any-return]

    def browser(self, **headers: str) -> Browser:
        return Browser(self.port, headers)
