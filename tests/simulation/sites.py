"""Content providers: their pages and their web servers.

A provider is the oracle of its own pages: it knows what it has, what it was told is accepted, and which errors it was
shown.  What must be true in the end is simple: the cache has what the site has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from hashlib import md5
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.logger import Logger

from lcc.testing.simulated.timeline import EPOCH, Timeline

_log = Logger()

BROKEN = "broken"
"""Pages of this name are told of, and never there: 404."""


@attrs.define
class Page:
    """What is at a path now, and how it is described.

    :ivar version: counts the changes of its content.
    :ivar descriptions: counts the changes of the rest.
    :ivar place: what its fetch URL ends with, a query that means nothing.
    :ivar hours_twice: its hours are told twice over, which means the same: it is seen who is fetched when.
    :ivar status: of the answer.
    :ivar location: where it is now; empty: here.
    """

    version: int
    content: bytes
    descriptions: int = 0
    place: str = ""
    burl: str = ""
    subtype: str = ""
    hours_twice: bool = False
    status: int = 200
    location: str = ""

    @property
    def told(self) -> tuple[int, int]:
        """Which state of it is told."""
        return self.version, self.descriptions

    @property
    def md5(self) -> str:
        return md5(self.content, usedforsecurity=False).hexdigest()


def in_background(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run it; a failure is one of the simulation's.

    Nobody waits for it, and without the garbage collector nobody would hear of a failure.
    """
    Deferred.fromCoroutine(coroutine).addErrback(
        lambda failure: _log.failure("The simulation failed", failure=failure)
    )


def identity(path: str) -> tuple[str, str]:
    """The conceptual name and the mime type of what is at a path: a ``.text`` is another view of the page."""
    if path.endswith(".text"):
        return f"{path[:-5]}.html", "text/plain"
    return path, "text/html"


KEPT = "k"
"""Begins the names of pages that never change, and are told to be fetched only if the cache does not have them."""
KEPT_SHARE = 0.3
"""Of the sites, those that have such pages."""
QUIET_FACTOR = 6
"""So much longer a site waits before it says something again if nothing is to be told, and nothing will change."""
PLAIN_PAGES = 5
"""Sites that tell in fast-path elements have this many times the pages: it begins after the first segment."""


@attrs.define
class SiteFaults:
    """How likely a request ends as …

    :ivar error: 500.
    :ivar cut: the connection is closed in the middle.
    :ivar hang: no answer, ever.
    :ivar slow: an answer after some seconds.
    :ivar slow_seconds: these, at least and at most.
    """

    error: float = 0.0
    cut: float = 0.0
    hang: float = 0.0
    slow: float = 0.0
    slow_seconds: tuple[float, float] = (0.5, 8)


class Place(NamedTuple):
    """Which set of a provider.

    :ivar connection: number that the provider was shown.
    :ivar index: counts the sets on this connection, from 0.
    :ivar order: its order number, where that is known and the connection is not; else 0.
    """

    connection: int
    index: int
    order: int = 0


@attrs.frozen
class Telling:
    """A set, as it is told.

    :ivar states: path -> what is told of it.
    :ivar absent: paths that it deletes, because it does not name them.
    :ivar began: when.
    :ivar shown: path -> errors of it that the provider had been shown by then.
    :ivar spoken: what is told of pages that others name, too.
    """

    full: bool
    states: dict[str, Any]
    elements: list[dict[str, str]]
    absent: set[str]
    began: float
    shown: dict[str, int]
    spoken: dict[str, Any] = attrs.field(factory=dict)


_RECORDED_SECONDS = 5.0
"""So long after an answer what it has brought is in the cache, if nothing goes wrong."""
_FROZEN_SECONDS = 20.0
"""Of a lease of 40 (:mod:`.system`): it counts from when the order went out, which may be long before its fetch."""


class Site:
    """What a provider has, and what it knows of the LCC.

    :ivar untold: path -> True: it must be told (again); what it says is read when it is told.
    :ivar active: requests that the web server is answering now.
    :ivar overlaps: what a polite robot must never do, as it happened.
    :ivar accepted: sets that the LCC said it has accepted.
    :ivar told_last: path -> when the last set began in which it was told, of those that were accepted.
    :ivar stays_open: it tells sets on a connection that stays open, too.
    :ivar asked: called with what each request asks for, query and all.
    :ivar begins: called with each request and the robot's end of its connection.
    """

    def __init__(self, timeline: Timeline, number: int, address: str, plain: bool = False) -> None:
        self.timeline = timeline
        self.plain = plain
        self.pid = number
        self.password = f"password-of-{number}"
        self.address = address
        self.name = f"site{number}.example" if plain else address
        self.root = f"http://{self.name}/"
        self.chance = timeline.random(f"site {number}")
        self.pages: dict[str, Page] = {}
        self.broken: set[str] = set()
        self.removed: list[str] = []
        self.leftovers: dict[str, Page] = {}
        """Removed, but the web server still has them."""
        self.untold: dict[str, bool] = {}
        self.faults = SiteFaults()
        self.active: dict[Any, None] = {}
        self.overlaps: list[str] = []
        self.requests = 0
        self.asked: Callable[[str], object] = lambda target: None
        self.begins: Callable[[Site, Any], object] = lambda site, end: None
        self.served: Counter[str] = Counter()
        """Path -> how often its web server has answered with what is there."""
        self.told_anew: Counter[str] = Counter()
        """Path -> how often it was told in such a way that it may be fetched."""
        self.told_as: dict[str, tuple[str | None, ...]] = {}
        self._served_time: dict[str, float] = {}
        self.wants_full = True
        self.held = False
        """Deletions of it are held, as it was told last."""
        self.mending = 0.0
        """When it told by mistake that it has nothing, and has not told since what it has; 0: it did not."""
        self.unheard_mistake = False
        """Whether such a set had no answer: what the network has of it may come behind newer sets."""
        self.changing = True
        self.accepted = 0
        self.told_last: dict[str, float] = {}
        self.stays_open = self.chance.random() < 0.5
        self.rejected = 0
        self.unanswered = 0
        self.cut: set[Place] = set()
        """Sets that broke off before their end."""
        self.errors_shown: dict[str, int] = {}
        self.last_error_count = -1
        self.miscounted: list[str] = []
        """Greetings whose count of errors was not that of the errors that they showed."""
        self.hours = ""
        self.priority = 0
        self.bandwidth_bytes: int | None = None
        self.interval_seconds: float | None = None
        self.files_max: int | None = None
        self.space_max_bytes: int | None = None
        self._largest: dict[tuple[str, str], int] = {}
        """The largest content that there ever was of each page."""
        self.pushed: Any = None
        """What it pushes (:class:`tests.simulation.pushers.PushedPages`); None: nothing."""
        self.by_http: Any = None
        """How it tells sets by HTTP (:class:`tests.simulation.by_http.SetsByHttp`); None: it does not."""
        self.spoken: Any = None
        """Pages of it that others name, too (:class:`tests.simulation.spoken.Spoken`); None: there are none."""
        self._versions = 0
        self._removals: dict[str, int] = {}
        """Path -> how often it was removed."""
        for index in range(self.chance.randint(2, 9) * (PLAIN_PAGES if plain else 1)):
            self.change(f"p{index}.html")
        kept = timeline.random(f"kept {number}")
        for index in range(kept.randint(1, 3) if kept.random() < KEPT_SHARE else 0):
            self.change(f"{KEPT}{index}.html")
        if self.chance.random() < 0.4:
            self.broken.add(f"{BROKEN}.html")
            self.untold[f"{BROKEN}.html"] = True

    @property
    def is_quiet(self) -> bool:
        """Nothing changes any longer, and as far as its provider knows all is told."""
        return not (self.changing or self.untold or self.wants_full or self.mending or self.held or self.is_spoken_of)

    @property
    def is_spoken_of(self) -> bool:
        """Something is to be told of what others name, too."""
        return self.spoken is not None and bool(self.spoken.untold)

    @property
    def age(self) -> float:
        """Seconds since its world began."""
        return self.timeline.now - EPOCH

    def url(self, path: str) -> str:
        return self.root + path

    def hours_of(self, path: str) -> str:
        """The hours that are told with a path; empty: none.  They meet those of the site."""
        if "7" not in path:
            return ""
        return self.hours or "0-11"

    def change(self, path: str) -> None:
        """A page has a new content."""
        if path in self.removed:
            self.removed.remove(path)
        self._versions += 1
        size = self.chance.choice((0, 10, 300, 3000, 20_000))
        text = f"{self.pid}/{path}/{self._versions} ".encode()
        self.leftovers.pop(path, None)
        self.pages[path] = Page(self._versions, (text * (size // len(text) + 1))[: size + len(text)])
        self.untold[path] = True
        name = identity(path)
        self._largest[name] = max(self._largest.get(name, 0), len(self.pages[path].content))

    # Quotas.

    @property
    def may_be_full(self) -> bool:
        """It has a quota, and may have had more than that at some time."""
        files, size = len(self._largest) + len(self.broken), sum(self._largest.values())
        return (self.files_max is not None and files > self.files_max) or (
            self.space_max_bytes is not None and size > self.space_max_bytes
        )

    def come_to_rest(self) -> None:
        """Nothing changes any longer; what is beyond its quotas is removed."""
        self.changing = False
        if self.unheard_mistake:
            self.unheard_mistake, self.mending = False, self.timeline.now
        if self.pushed is not None:
            self.pushed.come_to_rest()
        while self.files_max is not None and len(self.pages) > self.files_max:
            self.remove(max(self.pages))
        while self.space_max_bytes is not None and self.size_bytes > self.space_max_bytes:
            self.remove(max(self.pages, key=lambda path: len(self.pages[path].content)))

    @property
    def size_bytes(self) -> int:
        """Of all that is there now."""
        return sum(len(page.content) for page in self.pages.values())

    def describe(self, path: str) -> None:
        """A page is described in another way than before; its content stays."""
        page = self.pages[path]
        page.descriptions += 1
        what = self.chance.randrange(4)
        if what == 0:
            page.place = self.chance.choice(("", f"?{page.descriptions}"))
        elif what == 1:
            page.burl = self.chance.choice(("", "-", self.url(f"b{page.descriptions}.html")))
        elif what == 2:
            page.subtype = self.chance.choice(("", f"kind: {page.descriptions}"))
        else:
            page.hours_twice = not page.hours_twice
        self.untold[path] = True

    def description(self, path: str) -> tuple[str, str, str, str]:
        """Fetch URL, browse URL, subtype and hours of a page, as the cache must have them."""
        page = self.pages[path]
        furl = path + page.place
        furl = "" if furl == identity(path)[0] else self.url(furl)
        return furl, page.burl, page.subtype, self._told_hours(path)

    def _told_hours(self, path: str) -> str:
        hours, page = self.hours_of(path), self.pages.get(path)
        return f"{hours},{hours}" if hours and page is not None and page.hours_twice else hours

    def remove(self, path: str) -> None:
        """A page is gone; it may be that the site has forgotten to take it off its web server."""
        page = self.pages.pop(path)
        if self.chance.random() < 0.5:
            self.leftovers[path] = page
        self.removed.append(path)
        self._removals[path] = self._removals.get(path, 0) + 1
        self.untold[path] = True

    def told_of(self, path: str) -> tuple[int, int]:
        """Which state of this path is told now.  One that was left is never there again: a set that told it may be
        accepted after one that told what it was meanwhile."""
        page = self.pages.get(path)
        return (0, self._removals.get(path, 0)) if page is None else page.told

    def live_a_little(self) -> None:
        """Something changes, as it does."""
        kept = [path for path in self.pages if path.startswith(KEPT)]
        if kept and self.chance.random() < 0.5:
            self.untold[self.chance.choice(kept)] = True  # it is told once more, to no effect
        if len(self._lively) > 2 and self.chance.random() < 0.05:
            # Many are gone at once, and only what a full set does not name tells of it.
            for path in self.chance.sample(self._lively, len(self._lively) // 2):
                self.remove(path)
            self.wants_full = True
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            luck = self.chance.random()
            if luck < 0.2 and self.removed:
                self.change(self.removed.pop())  # it is back
            elif luck < 0.25 or not self._lively:
                kind = "text" if self.chance.random() < 0.3 else "html"
                self.change(f"p{self.chance.randrange(16)}.{kind}")
            elif luck < 0.45:
                self.describe(self.chance.choice(self._lively))
            elif luck < 0.8:
                self.change(self.chance.choice(self._lively))
            else:
                self.remove(self.chance.choice(self._lively))

    @property
    def _lively(self) -> list[str]:
        """The pages that change."""
        return [path for path in sorted(self.pages) if not path.startswith(KEPT)]

    def page_at(self, path: str) -> Page | None:
        """What its web server has there."""
        return self.pages.get(path) or self.leftovers.get(path)

    def is_content(self, path: str) -> bool:
        """What is there is for the cache, and asked for by robots."""
        return self.pushed is None or path != self.pushed.key_path

    # Telling.

    def element(self, path: str) -> dict[str, str]:
        """How the LCC is told of a path."""
        told = self._element(path)
        way = tuple(told.get(name) for name in ("op", "f", "md5", "len", "mtime"))
        # What is told while it is being fetched is fetched once more.
        was_fetched = self._served_time.get(path, self.timeline.now) < self.timeline.now - _RECORDED_SECONDS
        if "md5" not in told or way != self.told_as.get(path) or not was_fetched:
            self.told_anew[path] += 1
            self._served_time.pop(path, None)
        self.told_as[path] = way
        return told

    def was_served(self, path: str) -> None:
        """Its web server has answered with what is there."""
        if not self.is_content(path):
            self.pushed.key_was_served()
            return
        self.served[path] += 1
        self._served_time[path] = self.timeline.now

    def _element(self, path: str) -> dict[str, str]:
        page = self.pages.get(path)
        name, mimetype = identity(path)
        other = path[:-5] + (".text" if path.endswith(".html") else ".html")
        if page is None and path not in self.broken:
            if other in self.pages or self.chance.random() < 0.3:
                return {"c": name, "m": mimetype, "f": ""}
            return {"c": name, "op": "delete"}  # all views
        # Attributes that nobody knows are passed over; these make sets that do not fit on the way at once, and
        # elements off the fast path (lcc.roles.uns.fast_set).
        told = {"c": name, "m": mimetype}
        if not self.plain:
            told["x"] = "x" * 300
        place = "" if page is None else page.place
        if name != path or place:
            told["f"] = path + place
        if hours := self._told_hours(path):
            told["hours"] = hours
        if page is not None and page.burl:
            told |= {"browse": "no"} if page.burl == "-" else {"b": page.burl}
        if page is not None and page.subtype:
            told["s"] = page.subtype
        if path.startswith(KEPT) and page is not None:
            told["ifabsent"] = "yes"
        if page is not None and self.chance.random() < (0.3 if path.startswith(KEPT) else 0.8):
            told |= {"md5": page.md5, "len": str(len(page.content)), "mtime": str(1_700_000_000 + page.version)}
        return told


class OriginProtocol(Protocol):
    """The web server of a site: just enough of HTTP/1.1, and a sharp eye on who asks."""

    def __init__(self, site: Site, reactor: Any) -> None:
        self._site = site
        self._reactor = reactor
        self._data = b""
        self._busy = False
        self._call: Any = None

    def dataReceived(self, data: bytes) -> None:
        self._data += data
        if not self._busy and b"\r\n\r\n" in self._data:
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            self._asked(head.decode("ascii"))

    def connectionLost(self, reason: Any = None) -> None:
        self._over()

    def _over(self) -> None:
        self._site.active.pop(self, None)
        if self._call is not None and self._call.active():
            self._call.cancel()

    @property
    def is_open(self) -> bool:
        """Who asked is still there, and was not frozen for so long that its lease may have passed: then nobody
        could end this request, and another robot is let in."""
        transport: Any = self.transport
        if self.connected != 1 or transport.closed or transport.peer.closed:
            return False
        process = transport.peer.process
        return not process.frozen or self._site.timeline.now - process.frozen_time < _FROZEN_SECONDS

    def _asked(self, head: str) -> None:
        site = self._site
        self._busy = True
        site.requests += 1
        line = head.splitlines()[0]
        target = line.split()[1]
        site.asked(target)
        path = target.lstrip("/").partition("?")[0]
        if site.is_content(path):
            self._count(path)
        luck = site.chance.random()
        faults = site.faults
        delay = site.chance.expovariate(1 / 0.01)
        for rate, act in ((faults.error, 500), (faults.cut, -1), (faults.hang, -2), (faults.slow, 0)):
            if luck < rate:
                if act == -2:
                    return
                delay += site.chance.uniform(*faults.slow_seconds) if act == 0 else 0.0
                self._call = self._reactor.callLater(delay, self._answer, path, act)
                return
            luck -= rate
        self._call = self._reactor.callLater(delay, self._answer, path, 0)

    def _count(self, path: str) -> None:
        """See whether a robot that asks now is polite."""
        site = self._site
        if self.is_open:
            site.begins(site, self.transport.peer)  # type: ignore[union-attr]  # it is connected
        others = [other for other in site.active if other.is_open]
        if others and self.is_open:  # else it was under way when its robot gave it up
            site.overlaps.append(f"{site.timeline.now:.3f}: {site.pid} is asked for {path} while {len(others)} run")
        site.active[self] = None

    def _answer(self, path: str, act: int) -> None:
        transport: Any = self.transport
        site = self._site
        page = site.page_at(path)
        status, body, more = 404, b"no such page", ""
        if page is not None:
            status, body = page.status, page.content
        if page is not None and page.location:
            status, more = 302, f"Location: {page.location}\r\n"
        if act == 500:
            status, body = 500, b"no"
        kind = identity(path)[1]
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode()
        if act == -1:
            transport.write((head + body)[: site.chance.randint(0, len(head) + len(body) - 1)])
            transport.loseConnection()
            return
        site.active.pop(self, None)
        self._busy = False
        if status == 200:
            site.was_served(path)
        transport.write(head + body)
        if site.chance.random() < 0.1:
            transport.loseConnection()
        elif b"\r\n\r\n" in self._data:
            self.dataReceived(b"")
