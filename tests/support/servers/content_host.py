"""A content folder behind a real content port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.protocols.policies import WrappingFactory

from lcc.roles.botm.content_port import ContentPort, content_factory
from lcc.transport.http.client import HttpClient
from lcc.transport.links import PortService
from tests.support.contents import Contents


class _Machine:
    """The BOT-M of a machine, as far as its content port needs it."""

    def __init__(self, machine: int) -> None:
        self.machine = machine

    def is_suspect(self, file_id: int) -> bool:
        return False

    def is_damaged(self, file_id: int) -> bool:
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


class ContentHost(Contents):
    """A content folder behind a real content port, on the socket where a content user API looks for it.

    :ivar knows: machine -> where its content is read.
    :ivar asked: how often somebody asked for another machine.
    """

    def __init__(self, home: Path, machine: int = 1, endpoint: str | None = None) -> None:
        home.mkdir(exist_ok=True)
        self.knows: dict[int, str] = {}
        self.asked = 0
        super().__init__(home)
        self._http = HttpClient(reactor, 5, 5.0)
        clock: Any = reactor
        self._machine = _Machine(machine)
        port = ContentPort(self.folder, self._machine, self._address_of, self._http, clock, 30.0)
        self._factory = _Counting(content_factory(port, clock, 100, 30.0))
        self._port = PortService(reactor, endpoint or f"unix:{home}/content.sock", self._factory)
        self._port.startService()

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
