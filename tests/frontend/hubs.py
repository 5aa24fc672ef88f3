"""The hub of a front end in memory, with one subscriber."""

from __future__ import annotations

from typing import Any

from lxml import etree
from twisted.internet.defer import Deferred

from lcc.config import CuConfig
from lcc.roles.access import EVERYTHING
from lcc.roles.cu.hub.engine import Hub
from lcc.storage.hub.subscribers import HubStore
from tests.frontend.kit import NOW
from tests.support.databases import result_of
from tests.support.roles.callbacks import Callbacks

URL = "https://cache.example.org/"
TOPIC = f"{URL}atom"
CALLBACK = "https://user.example.net/callback"
ATOM = "{http://www.w3.org/2005/Atom}"
GONE = "{http://purl.org/atompub/tombstones/1.0}deleted-entry"
HOST = "user.example.net"


class FrontHub:
    """
    :param worlds: has the front end's ``front`` (database), ``several`` (cache) and ``clock``.
    """

    def __init__(self, worlds: Any) -> None:
        self.worlds = worlds
        self.callbacks = Callbacks()
        self.hub = self._start()

    def _start(self) -> Hub:
        store, asks = HubStore(self.worlds.front, several=True), self.callbacks  # type: ignore[arg-type]
        clock = self.worlds.clock
        settings = CuConfig(url=URL, hub=True)
        now = lambda: NOW + clock.seconds()  # noqa: E731
        hub = Hub(settings, store, self.worlds.several, asks, "content", clock, now, lambda: "0" * 16)  # type: ignore[arg-type]
        hub.start()
        return hub

    def kill(self) -> None:
        self.hub.stop()
        self.hub = self._start()

    def subscribe(self, topic: str = TOPIC) -> None:
        form = {"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": CALLBACK, "hub.secret": ""}
        result_of(Deferred.fromCoroutine(self.hub.request(form, EVERYTHING, "")))
        self.pass_time(3)

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 4)):
            self.worlds.clock.advance(0.25)

    def told(self) -> list[str]:
        """Pages that were delivered since this was asked last; deleted ones with a minus."""
        self.pass_time(4)
        found: list[str] = []
        for body in self.callbacks.got.pop(HOST, []):
            for entry in reversed(etree.fromstring(body)):
                if entry.tag == f"{ATOM}entry":
                    found.append(entry.findtext(f"{ATOM}title").rpartition("/")[2])
                elif entry.tag == GONE:
                    found.append("-")
        return sorted(found)
