"""A notifier: a scheduler as far as a UNS sees one.  It lists the pages of a site that nobody has registered, and
polls a document of it; a feed hints at some of them.

What it has to tell stands in an outbox, which survives the process as the tables of a real one do; numbers and epoch
stand there, too.  Each connection goes to any of the UNSes: so a set may come through two of them.
"""

from __future__ import annotations

from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater

from lcc.model import Source
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.roles.notifier import NotifierLink, NotifierRefused
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline

from .sites import OriginProtocol, Page, Site, identity, told_of

POLLED = "polled.html"
"""The document that is only polled: nobody lists it."""
NOTICE_SECONDS = 1.2
CONNECTED_SECONDS = 6.0
"""To a UNS, on the average."""
HINT_SHARE = 0.3
"""Of the turns, those in which a feed is read."""
HELD_SHARE = 0.5
"""Of the askings, those that would keep the number of the last one."""


@attrs.define
class Entry:
    """A set in the outbox.

    :ivar states: path -> what it says of it.
    """

    told: SourcedSet
    states: dict[str, Any]
    began: float


class WatchedSite(Site):
    """A site that nobody has registered, and what its notifier remembers of it.

    :ivar outbox: sets without an answer, by number.
    :ivar errors_seen: the numbers of the errors of its pages that the notifier has read.
    :ivar told_again: all of it is told again, because somebody has lost sets.
    """

    def __init__(self, timeline: Timeline, number: int, address: str) -> None:
        super().__init__(timeline, number, address)
        self.outbox: dict[int, Entry] = {}
        self.number = 0
        self.epoch = 1
        self.errors_seen: set[int] = set()
        self.untold_poll = True
        self.polls = 0
        self.broken.clear()
        self.untold.pop("broken.html", None)
        self.wants_full = False
        self.stays_open = False
        self.change_polled()

    def change_polled(self) -> None:
        """The document that is polled has a new content."""
        self.polls += 1
        self.leftovers[POLLED] = Page(self.polls, f"poll {self.polls}".encode())
        self.untold_poll = True

    def tell_all(self) -> None:
        """What was told may be lost."""
        for path in [*self.pages, *self.removed]:
            self.untold[path] = True
        self.untold_poll = True

    def begin_epoch(self) -> None:
        """The database was put back: numbers may have been given out that it does not know."""
        self.epoch += 1
        self.outbox.clear()
        self.errors_seen.clear()
        self.tell_all()


class Notifier(Service):
    """The process of the notifier, and the web server of its site.

    :param unses: addresses of the UNSes.
    :param accepted: called when a set was accepted, with its number.
    :param errors: gives the errors of a provider's URLs: number, URL.
    """

    def __init__(self, site: WatchedSite, process: Process, unses: list[str], accepted: Any, errors: Any) -> None:
        self._site = site
        self._process = process
        self._unses = unses
        self._accepted = accepted
        self._errors = errors
        self._reactor = process.reactor
        self._held = 0
        self.link = NotifierLink("scheduler", "sim", f"e{site.epoch}", "run", self._reactor, ask_seconds=60.0)

    def startService(self) -> None:
        super().startService()
        factory = Factory.forProtocol(lambda: OriginProtocol(self._site, self._reactor))
        factory.noisy = False
        self._reactor.listenTCP(80, factory)
        for entry in self._site.outbox.values():
            self._send(entry)
        Deferred.fromCoroutine(self._stay_connected())
        Deferred.fromCoroutine(self._notify())

    def stopService(self) -> None:
        self.link.close()
        super().stopService()

    async def _stay_connected(self) -> None:
        chance = self._site.chance
        while self.running:
            endpoint = clientFromString(self._reactor, f"tcp:{chance.choice(self._unses)}:9005:timeout=5")
            try:
                await endpoint.connect(self.link.factory())
            except Exception:  # however it cannot be reached
                self._site.unanswered += 1
            else:
                until = 0.5 + chance.expovariate(1 / CONNECTED_SECONDS)  # then another UNS has its turn
                while until > 0:
                    await deferLater(self._reactor, min(until, 1.0))
                    until = until - 1.0 if self.link.connected else 0.0
                if self.link.connected:
                    self.link.disconnect()
            await deferLater(self._reactor, chance.uniform(0.1, 2.0))

    async def _notify(self) -> None:
        site, chance = self._site, self._site.chance
        while self.running:
            await deferLater(self._reactor, chance.expovariate(1 / NOTICE_SECONDS))
            if site.changing and chance.random() < 0.6:
                site.live_a_little()
            if site.changing and chance.random() < 0.2:
                site.change_polled()
            self._read_errors()
            try:
                pid = await self.link.watch(site.root)
                if pid != site.pid:
                    site.miscounted.append(f"{site.root} is watched by {pid}, and by {site.pid}")
                if site.untold_poll and self.link.has_room:
                    self._poll()
                if site.untold and self.link.has_room:
                    await self._list()
                if site.changing and self.link.has_room and chance.random() < HINT_SHARE:
                    self._hint()
            except NotifierRefused:
                site.rejected += 1

    def _read_errors(self) -> None:
        """As a scheduler looks in the tables what became of its notices."""
        site = self._site
        for number, url in self._errors(site.pid):
            if number in site.errors_seen:
                continue
            site.errors_seen.add(number)
            path = url.removeprefix(site.root).partition("?")[0]
            if path == POLLED:
                site.untold_poll = True
            elif path in site.pages:
                site.untold[path] = True

    def _poll(self) -> None:
        urls = ({"c": self._site.url(POLLED), "m": "text/html"},)
        self._tell(urls, {POLLED: self._site.polls}, Source.POLLED, 0)

    def _hint(self) -> None:
        """Somebody's feed names pages, some of which may be gone.  It changes nothing of what the site has."""
        site = self._site
        paths = sorted({*site.pages, *site.removed})
        urls = []
        for path in site.chance.sample(paths, min(len(paths), 2)):
            name, mimetype = identity(path)
            urls.append({"c": site.url(name), "m": mimetype})
        self._tell(tuple(urls), {}, Source.FEED, 0)

    async def _list(self) -> None:
        site, chance = self._site, self._site.chance
        held = self._held if chance.random() < HELD_SHARE and not site.outbox else 0
        order = self._held = await self.link.draw(site.pid, held)
        # Only now it is looked what the site has: the number was drawn before the asking began.
        paths = list(site.untold)
        if not paths:
            return  # meanwhile answers have come
        chance.shuffle(paths)
        if len(paths) > 1 and chance.random() < 0.3:
            paths = paths[: chance.randint(1, len(paths))]
        urls = []
        for path in paths:
            url = site.element(path)
            urls.append(url | {name: site.url(url[name]) for name in ("c", "f") if url.get(name)})
        self._tell(tuple(urls), {path: told_of(site, path) for path in paths}, Source.LISTED, order)

    def _tell(self, urls: Any, states: dict[str, Any], source: Source, order: int) -> None:
        site = self._site
        site.number += 1
        entry = Entry(SourcedSet(site.number, site.pid, source, urls, order), states, site.timeline.now)
        site.outbox[site.number] = entry
        self._send(entry)

    def _send(self, entry: Entry) -> None:
        self.link.tell(entry.told).addCallback(self._answered, entry)

    def _answered(self, outcome: NoticeOutcome, entry: Entry) -> None:
        site = self._site
        del site.outbox[outcome.number]
        if outcome.code:
            site.rejected += 1
            return
        if outcome.refused:
            site.miscounted.append(f"elements of set {outcome.number} are refused: {outcome.refused[:2]}")
        site.accepted += 1
        self._accepted(site, outcome.number)
        for path, state in entry.states.items():
            if path == POLLED:
                site.untold_poll = site.untold_poll and state != site.polls
                continue
            site.told_last[path] = max(site.told_last.get(path, 0.0), entry.began)
            if state == told_of(site, path):
                site.untold.pop(path, None)
