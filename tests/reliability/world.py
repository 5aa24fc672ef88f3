"""All that is not the LCC: the providers, who tell what changes, and their web server; nobody kills this process.

``python -m tests.reliability.world WORLD.json JOURNAL``: commands come line by line on standard input.

* ``pause``: no set is begun any more; ``paused`` is printed when the last one has its answer, or will never have one.
* ``go``: go on.
* ``mend``: nothing is wrong with any page any more; the paths of those that there are are printed as a JSON list.

The file says ``seed``, ``port`` (of the web server), ``unses`` (their ports), ``pace`` (seconds between two sets of a
provider, on average), ``providers`` (pid, password and name of each).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.stdio import StandardIO
from twisted.internet.task import LoopingCall, deferLater
from twisted.protocols.basic import LineReceiver
from twisted.web.http import CACHED
from twisted.web.server import Request, Site

from lcc.protocols.cp_uns import InitAccepted, UrlFault
from lcc.provider.client import Unreachable, submit, uns_endpoint
from tests.support.processes.origin import WatchfulOrigin

from .cutting import CutEndpoint
from .journal import (
    ACCEPTED,
    DELETE,
    IF_ABSENT,
    REFUSED,
    REJECTED,
    UNKNOWN,
    UNSENT,
    UPDATE,
    JournalWriter,
)
from .pages import Page, content

FIRST_PAGES = 12
FULL_SHARE, CUT_SHARE, LEAVE_SHARE, REFUSED_SHARE, SLIP_SHARE = 0.07, 0.06, 0.06, 0.03, 0.03
LEAVE_SECONDS_MAX = 0.1
"""After that a provider that does not wait for the answer is gone."""
HEALED_SHARE = 0.7
TROUBLES = ("404", "500", "503", "cut", "slow")
SLOW_SECONDS = 3.0
TIMEOUT_SECONDS, CONNECT_SECONDS = 15.0, 5.0
LAG_SECONDS = 0.1
"""How often it is measured whether this process keeps up."""


class Provider:
    """One provider: its pages, and what it tells of them."""

    def __init__(self, world: World, pid: int, password: str, name: str, seed: str) -> None:
        self.pid = pid
        self.pages: dict[str, Page] = {}
        self._world = world
        self._password = password
        self._name = name
        self._random = Random(seed)
        self._pending: set[str] = set()
        self._told = 0
        self._made = 0
        for _ in range(FIRST_PAGES):
            self._new_page()

    async def live(self, first: bool) -> None:
        """Tell sets one after the other, for ever."""
        while True:
            await deferLater(reactor, self._random.expovariate(1 / self._world.pace))
            await self._world.may_begin()
            if first or self._random.random() < FULL_SHARE:
                await self._tell(True)
            else:
                self._change()
                await self._tell(False)
            first = False
            self._world.ended()

    # The pages.

    def _new_page(self) -> None:
        self._made += 1
        name = f"{self._made:04d}.html"
        self.pages[name] = Page(f"/{self._name}/{name}")
        self._pending.add(name)

    def _change(self) -> None:
        random = self._random
        for _ in range(random.randint(1, 4)):
            luck = random.random()
            existing = [name for name, page in self.pages.items() if page.exists]
            if luck < 0.15 or len(existing) < 6:
                self._new_page()
                continue
            name = random.choice(existing)
            page = self.pages[name]
            if luck < 0.25:
                page.exists = False
            elif luck < 0.4:
                page.trouble = "" if page.trouble else random.choice(TROUBLES)
                continue
            else:
                page.version += 1
            self._pending.add(name)
        # Somewhere something was forgotten, or is back.
        if random.random() < 0.1:
            page = random.choice(list(self.pages.values()))
            page.exists, page.version = True, page.version + 1

    def heal(self, share: float = HEALED_SHARE) -> None:
        """So much of what was wrong with the pages is mended."""
        for page in self.pages.values():
            if page.trouble and self._random.random() < share:
                page.trouble = ""

    # The sets.

    def _compose(self, full: bool) -> list[tuple[str, str]]:
        """Names and kinds."""
        random = self._random
        existing = [name for name, page in self.pages.items() if page.exists]
        if full:
            chosen = [(name, UPDATE) for name in existing if random.random() > SLIP_SHARE]
        else:
            pending = sorted(self._pending)
            named = random.sample(pending, min(len(pending), random.randint(1, 8)))
            chosen = [(name, UPDATE if self.pages[name].exists else DELETE) for name in named]
            for name in random.sample(existing, min(len(existing), random.randrange(3))):
                if name not in named:
                    kind = IF_ABSENT if random.random() < 0.2 else UPDATE
                    chosen.append((name, DELETE if random.random() < SLIP_SHARE else kind))
            if random.random() < SLIP_SHARE:
                name = random.choice(list(self.pages))
                chosen = [each for each in chosen if each[0] != name] + [(name, UPDATE)]
        if random.random() < REFUSED_SHARE:
            chosen.append(("refused.mpg", REFUSED))
        random.shuffle(chosen)
        return chosen

    def _element(self, id: str, name: str, kind: str) -> dict[str, str]:
        element = {"c": name, "x": id}
        if kind == DELETE:
            return element | {"op": "delete"}
        if kind == REFUSED:
            return element | {"m": "video/mpeg"}
        element["m"] = "text/html"
        if kind == IF_ABSENT:
            element["ifabsent"] = "yes"
        if self._random.random() < 0.6:
            element |= self.pages[name].told()
        return element

    async def _tell(self, full: bool) -> None:
        random, world = self._random, self._world
        self._told += 1
        number = world.next_number()
        elements, ops = [], []
        for index, (name, kind) in enumerate(self._compose(full)):
            id = f"{self.pid}-{number}-{index}"
            elements.append(self._element(id, name, kind))
            ops.append([id, name, kind, self.pages[name].version if name in self.pages else 0])
        uns = random.choice(world.unses)
        world.note("set", n=number, pid=self.pid, full=full, uns=uns, ops=ops)
        cut = CutEndpoint(uns_endpoint(reactor, f"127.0.0.1:{uns}"), None)
        if random.random() < CUT_SHARE:
            cut.at, cut.abort = random.randrange(3000), random.random() < 0.5

        def welcomed(welcome: InitAccepted) -> bool:
            world.note(
                "welcome",
                n=number,
                seq=welcome.connseq,
                count=welcome.error_count,
                errors=[_fault(each) for each in welcome.errors],
                wanted=welcome.full_set_reason if welcome.full_set_wanted else "",
            )
            return True

        leaving: list[Any] = []

        def sent(_count: int) -> None:
            if leaves:
                leaving.append(reactor.callLater(random.uniform(0, LEAVE_SECONDS_MAX), telling.cancel))  # type: ignore[attr-defined]

        leaves = random.random() < LEAVE_SHARE
        code, faults, received = 0, [], 0
        try:
            telling = submit(
                reactor,
                cut,
                self.pid,
                self._password,
                elements,
                full=full,
                urlprefix=f"http://127.0.0.1:{world.port}/{self._name}/",
                on_welcome=welcomed,
                on_progress=sent,
                timeout_seconds=TIMEOUT_SECONDS,
                connect_timeout_seconds=CONNECT_SECONDS,
            )
            done = await telling
            how = ACCEPTED if done.accepted else REJECTED
            code, faults, received = done.code, [_fault(each) for each in done.faults], done.received
        except Unreachable as failure:
            how = UNKNOWN if failure.uncertain and not cut.done else UNSENT
        for call in leaving:
            if call.active():
                call.cancel()
        world.note("answer", n=number, how=how, code=code, faults=faults, received=received)
        if how == ACCEPTED:
            self._pending -= {name for _, name, _, _ in ops}
        elif random.random() < 0.1:
            self._pending.clear()  # it never learns


def _fault(fault: UrlFault) -> list[Any]:
    return [fault.code, fault.attributes.get("x", "")]


class Pages(WatchfulOrigin):
    """The web server of all providers."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def asked(self, request: Request, path: str, provider: str, active: int) -> float:
        page = self._world.page(path)
        agent = (request.getHeader("user-agent") or "").split(" ")[0]
        pid = self._world.pid(path)
        self._world.note("ask", pid=pid, path=path, agent=agent, active=active, lag=self._world.lag())
        return SLOW_SECONDS if page is not None and page.trouble == "slow" else self._world.answer_seconds

    def answer(self, request: Request, path: str) -> None:
        page = self._world.page(path)
        body = b""
        cut = False
        if page is None or not page.exists:
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
        self.port: int = orders["port"]
        self.unses: list[int] = orders["unses"]
        self.pace: float = orders["pace"]
        self.answer_seconds: float = orders["answer"]
        self.note = journal.note
        self.on_pause: Deferred[None] | None = None
        self._numbers = 0
        self._busy = 0
        self._paused: list[Deferred[None]] | None = None
        self._ticked = 0.0
        self._late = 0.0
        self._providers = {
            name: Provider(self, pid, password, name, f"{orders['seed']} {name}")
            for pid, password, name in orders["providers"]
        }

    def start(self) -> None:
        """Open the port; the providers begin."""
        reactor.listenTCP(self.port, Site(Pages(self)), interface="127.0.0.1", backlog=500)  # type: ignore[attr-defined]
        self._ticked = time.monotonic()
        LoopingCall(self._tick).start(LAG_SECONDS, now=False)
        for provider in self._providers.values():
            # Two connections at once, now and then.
            for first in (True, False):
                Deferred.fromCoroutine(provider.live(first)).addErrback(self._broken)

    def page(self, path: str) -> Page | None:
        """What the web server has at this path."""
        _, provider, name = path.split("/", 2)
        return self._providers[provider].pages.get(name)

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

    def ended(self) -> None:
        """What may_begin has let begin has ended."""
        self._busy -= 1
        self._tell_paused()

    def pause(self) -> None:
        """Begin no more sets; most of what was wrong with the pages is mended."""
        self._paused = []
        for provider in self._providers.values():
            provider.heal()
        self._tell_paused()

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
        if self._paused is not None and not self._busy:
            print("paused", flush=True)


class Commands(LineReceiver):
    """Standard input."""

    delimiter = b"\n"

    def __init__(self, world: World) -> None:
        self._world = world

    def lineReceived(self, line: bytes) -> None:
        {b"pause": self._world.pause, b"go": self._world.go, b"mend": self._world.mend}[line]()

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
