"""A provider at the level of the wire: it sends a set piece by piece, as slowly as a test wants."""

from __future__ import annotations

import socket
import time
from types import TracebackType

from tests.support.processes.system import Site, System
from tests.support.waiting import PATIENCE_SECONDS


class RawProvider:
    """A connection on which a set has begun.

    :param attributes: further attributes of each element.
    """

    def __init__(self, system: System, site: Site, attributes: str = "") -> None:
        self._attributes = attributes
        self._sent = 0
        self._heard = ""
        self._socket = socket.create_connection(("127.0.0.1", system.port), timeout=PATIENCE_SECONDS)
        self._send(
            '<l:init xmlns:l="http://www.lococa.org/1.0">'
            f'<provider id="{site.pid}" passwd="{site.password}"/></l:init>'
        )
        self._hear("init_accepted>")
        self._send(f'<l:set set="partial" urlprefix="{site.url}">')

    def send_elements(self, count: int) -> None:
        """Name so many further URLs."""
        first, self._sent = self._sent, self._sent + count
        self._send(
            "".join(f'<url c="page{n}.html" m="text/html" {self._attributes}/>' for n in range(first, self._sent))
        )

    def send_until_answered(self) -> str:
        """Name URLs until there is an answer; gives it."""
        end = time.monotonic() + PATIENCE_SECONDS
        self._socket.setblocking(False)
        while "set_rejected" not in self._heard:
            assert time.monotonic() < end
            try:
                self.send_elements(200)
            except BlockingIOError:
                time.sleep(0.01)
            try:
                self._heard += self._socket.recv(65536).decode()
            except BlockingIOError:
                pass
        return self._heard

    def end_set(self) -> None:
        """That is all."""
        self._send("</l:set>")

    def answer(self) -> str:
        """Wait for the answer to the set."""
        return self._hear("set_result>")

    def _send(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def _hear(self, end: str) -> str:
        while not self._heard.rstrip().endswith(end):
            data = self._socket.recv(65536)
            assert data, self._heard
            self._heard += data.decode()
        heard, self._heard = self._heard, ""
        return heard

    def __enter__(self) -> RawProvider:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
