"""All that is not the LCC: the providers, who tell what changes, and their web server; nobody kills this process.

``python -m tests.reliability.world WORLD.json JOURNAL``: commands come line by line on standard input.

* ``pause``: no set is begun any more, and nobody registers; ``paused`` is printed when the last one has its
  answer, or will never have one.
* ``register``: newcomers go on, and nobody else.
* ``go``: go on.
* ``mend``: nothing is wrong with any page any more; the paths of those that there are are printed as a JSON list.

The file says ``seed``, ``port`` (of the web server), ``unses`` (their ports), ``pace`` (seconds between two sets of a
provider, on average), ``providers`` (pid, password and name of each); and, where there are such, ``notifiers`` (the
endpoint of the port of notifiers), ``noticed`` (pid and name of each provider that the notifier tells of), ``rs``
(the port of the registration server), ``newcomers`` (seconds between two of them, on average); ``push`` (the port of
the push server: all providers are :mod:`sites`), ``hub`` (the port of the content user server) and ``subscriber``
(the port of the one that subscribes there: nobody begins before it has).
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.stdio import StandardIO
from twisted.internet.task import LoopingCall, deferLater
from twisted.protocols.basic import LineReceiver
from twisted.web import server
from twisted.web.http import CACHED
from twisted.web.server import Request

from tests.support.processes.origin import WatchfulOrigin

from .journal import JournalWriter
from .newcomers import Newcomers
from .notices import Noticed, Notifier
from .pages import Page, content
from .providers import Provider, Publisher
from .sites import DOCUMENTS, Site
from .subscriber import Subscriber

SLOW_SECONDS = 3.0
LAG_SECONDS = 0.1
"""How often it is measured whether this process keeps up."""
REGISTER_SECONDS = 0.2


class Pages(WatchfulOrigin):
    """The web server of all providers."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def render_GET(self, request: Request) -> int | bytes:
        # Those who ask for proofs are no robots.
        secret = self._world.secret(request.path.decode())
        return super().render_GET(request) if secret is None else secret

    def asked(self, request: Request, path: str, provider: str, active: int) -> float:
        page = self._world.page(path)
        agent = (request.getHeader("user-agent") or "").split(" ")[0]
        pid = self._world.pid(path)
        self._world.note("ask", pid=pid, path=path, agent=agent, active=active, lag=self._world.lag())
        return SLOW_SECONDS if page is not None and page.trouble == "slow" else self._world.answer_seconds

    def answer(self, request: Request, path: str) -> None:
        page = self._world.page(path)
        document, kind = self._world.document(path)
        body = b""
        cut = False
        if document is not None:
            if request.setETag(f'"{hashlib.md5(document).hexdigest()}"'.encode()) is not CACHED:
                body = document
                request.setHeader("content-type", kind)
                request.setHeader("content-length", str(len(body)))
                request.write(body)
        elif page is None or not page.exists:
            request.setResponseCode(404)
        elif page.trouble.isdigit():
            request.setResponseCode(int(page.trouble))
        elif request.setETag(f'"{page.version}"'.encode()) is not CACHED:
            body = content(path, page.version)
            request.setHeader("content-type", "text/html")
            request.setHeader("content-length", str(len(body)))
            cut = page.trouble == "cut"
            if cut:
                body = body[: len(body) // 2]
            request.write(body)
        self._world.note(
            "gave", pid=self._world.pid(path), path=path, status=0 if cut else request.code, bytes=len(body)
        )
        if cut:
            request.transport.loseConnection()  # type: ignore[attr-defined]
        else:
            request.finish()


class World:
    """The providers and what they share."""

    def __init__(self, orders: dict[str, Any], journal: JournalWriter) -> None:
        self.seed: int = orders["seed"]
        self.port: int = orders["port"]
        self.unses: list[int] = orders["unses"]
        self.pace: float = orders["pace"]
        self.answer_seconds: float = orders["answer"]
        self.note = journal.note
        self.on_pause: Deferred[None] | None = None
        self._numbers = 0
        self._busy = 0
        self._paused: list[Deferred[None]] | None = None
        self._registering = False
        self._ticked = 0.0
        self._late = 0.0
        self._providers: dict[str, Provider] = {}
        self._orders = orders
        self._newcomers: Newcomers | None = None
        self._keys: dict[str, bytes] = {}

    def start(self) -> None:
        """Open the port; the providers begin."""
        reactor.listenTCP(self.port, server.Site(Pages(self)), interface="127.0.0.1", backlog=500)  # type: ignore[attr-defined]
        self._ticked = time.monotonic()
        LoopingCall(self._tick).start(LAG_SECONDS, now=False)
        providers = [self._made(*each) for each in self._orders["providers"]]
        self._live(self._begin(providers))
        if "noticed" in self._orders:
            notifier = Notifier(self._orders["notifiers"])
            for pid, name in self._orders["noticed"]:
                noticed = self._providers[name] = Noticed(self, notifier, pid, name)
                self._live(noticed.live())
        if "newcomers" in self._orders:
            self._newcomers = Newcomers(self, self._orders["rs"], self._orders["newcomers"])
            self._live(self._newcomers.live())

    def _made(self, pid: int, password: str, name: str) -> Publisher:
        if "push" not in self._orders:
            return Publisher(self, pid, password, name)
        site = Site(self, pid, password, name, self._orders["push"])
        self._keys[site.key_path] = site.key.encode()
        # Its documents may be asked for before it says anything.
        self._providers[name] = site
        return site

    async def _begin(self, providers: list[Publisher]) -> None:
        if "subscriber" in self._orders:
            await Subscriber(self, self._orders["subscriber"], self._orders["hub"]).subscribe()
        for each in providers:
            self.add(each)

    def add(self, provider: Publisher) -> None:
        """It publishes from now on."""
        self._providers[provider.name] = provider
        for life in provider.lives():
            self._live(life)

    def _live(self, life: Coroutine[Any, Any, None]) -> None:
        Deferred.fromCoroutine(life).addErrback(self._broken)

    def secret(self, path: str) -> bytes | None:
        """What a newcomer, or a site that pushes, has put at this path, as a proof."""
        return self._keys.get(path) or (None if self._newcomers is None else self._newcomers.files.get(path))

    def page(self, path: str) -> Page | None:
        """What the web server has at this path."""
        _, provider, name = path.split("/", 2)
        return self._providers[provider].pages.get(name)

    def document(self, path: str) -> tuple[bytes | None, str]:
        """The sitemap or the feed that it has there, and its type; None: it is none."""
        _, name, file = path.split("/", 2)
        site = self._providers[name]
        return (site.document(file) if isinstance(site, Site) else None), DOCUMENTS.get(file, "")

    def pid(self, path: str) -> int:
        """Whose this path is."""
        return self._providers[path.split("/", 2)[1]].pid

    def next_number(self) -> int:
        """For a set."""
        self._numbers += 1
        return self._numbers

    def lag(self) -> float:
        """By how many seconds this process has been late in its last second or so."""
        return round(max(self._late, time.monotonic() - self._ticked - LAG_SECONDS), 2)

    def _tick(self) -> None:
        now = time.monotonic()
        self._late = max(now - self._ticked - LAG_SECONDS, self._late * 0.8)
        self._ticked = now

    def _broken(self, failure: Any) -> None:
        failure.printTraceback()
        reactor.stop()  # type: ignore[attr-defined]

    # Pauses.

    async def may_begin(self) -> None:
        """Wait until sets may be begun."""
        while self._paused is not None:
            waiting: Deferred[None] = Deferred()
            self._paused.append(waiting)
            await waiting
        self._busy += 1

    async def may_register(self) -> None:
        """Wait until somebody may register."""
        while self._paused is not None and not self._registering:
            await deferLater(reactor, REGISTER_SECONDS)  # type: ignore[arg-type]
        self._busy += 1

    def ended(self) -> None:
        """What may_begin has let begin has ended."""
        self._busy -= 1
        self._tell_paused()

    def pause(self) -> None:
        """Begin no more sets; most of what was wrong with the pages is mended."""
        self._registering = False
        if self._paused is None:
            self._paused = []
        for provider in self._providers.values():
            provider.heal()
        self._tell_paused()

    def register(self) -> None:
        """Let newcomers go on."""
        self._registering = True

    def go(self) -> None:
        """Go on."""
        waiting, self._paused = self._paused or [], None
        for each in waiting:
            each.callback(None)

    def mend(self) -> None:
        """Mend all pages, say which there are."""
        pages = []
        for provider in self._providers.values():
            provider.heal(1.0)
            pages += [page.path for page in provider.pages.values() if page.exists]
        print(json.dumps(pages), flush=True)

    def _tell_paused(self) -> None:
        if self._paused is not None and not self._registering and not self._busy:
            print("paused", flush=True)


class Commands(LineReceiver):
    """Standard input."""

    delimiter = b"\n"

    def __init__(self, world: World) -> None:
        self._world = world

    def lineReceived(self, line: bytes) -> None:
        world = self._world
        {b"pause": world.pause, b"register": world.register, b"go": world.go, b"mend": world.mend}[line]()

    def connectionLost(self, reason: Any = None) -> None:
        if reactor.running:  # type: ignore[attr-defined]
            reactor.stop()  # type: ignore[attr-defined]


def main() -> None:
    """Live until standard input ends."""
    orders = json.loads(Path(sys.argv[1]).read_text())
    world = World(orders, JournalWriter(Path(sys.argv[2])))
    StandardIO(Commands(world))
    reactor.callWhenRunning(world.start)  # type: ignore[attr-defined]
    reactor.run()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
