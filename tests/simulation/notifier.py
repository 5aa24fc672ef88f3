"""Notifiers: a scheduler and a push server as far as a UNS sees them.  They list and push the pages of a site that
nobody has registered, and some of a provider's; a document is polled, a feed hints at some pages.

What they have to tell stands in outboxes, which survive the process as the tables of real ones do; numbers and epochs
stand there, too.  Each connection goes to any of the UNSes: so a set may come through two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.endpoints import clientFromString
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater

from lcc.model import Source
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.roles.notifier import NotifierLink, NotifierRefused
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline

from .sites import QUIET_FACTOR, OriginProtocol, Page, Site, identity, in_background

ROLES = SCHEDULER, PUSH = ("scheduler", "push")
POLLED = "polled.html"
"""The document that is only polled: nobody lists it."""
NOTICE_SECONDS = 1.2
HINT_SHARE = 0.3
"""Of the turns, those in which a feed is read."""
HELD_SHARE = 0.5
"""Of the askings, those that would keep the number of the last one."""


@attrs.define
class Entry:
    """A set in the outbox.

    :ivar states: path -> what it says of it.
    :ivar accepted: called when it was.
    """

    told: SourcedSet
    states: dict[str, Any]
    began: float
    accepted: Callable[[], object]


class Outbox:
    """What a notifier has to tell.

    :ivar entries: sets without an answer, by number.
    :ivar epoch: of the numbers.
    """

    def __init__(self, role: str) -> None:
        self.role = role
        self.entries: dict[int, Entry] = {}
        self.number = 0
        self._epochs = 1

    @property
    def epoch(self) -> str:
        """Of the numbers."""
        return f"{self.role}{self._epochs}"

    def begin_epoch(self) -> None:
        """Numbers may have been given out that nobody knows of."""
        self._epochs += 1
        self.entries.clear()


class WatchedSite(Site):
    """A site that nobody has registered, and what its notifier remembers of it.

    :ivar outboxes: of the notifiers, by role.
    :ivar spoken_of: sites of which they speak, this one among them.
    :ivar errors_seen: the numbers of the errors of its pages that the notifier has read.
    :ivar told_again: all of it is told again, because somebody has lost sets.
    """

    def __init__(self, timeline: Timeline, number: int, address: str) -> None:
        super().__init__(timeline, number, address)
        self.outboxes = {role: Outbox(role) for role in ROLES}
        self.spoken_of: list[Site] = []
        self.errors_seen: set[int] = set()
        self.untold_poll = True
        self.polls = 0
        self.broken.clear()
        self.untold.pop("broken.html", None)
        self.wants_full = False
        self.stays_open = False
        self.change_polled()

    @property
    def is_quiet(self) -> bool:
        """The same for what its notifiers say of it and of others."""
        entries = any(outbox.entries for outbox in self.outboxes.values())
        speaks = any(site.is_spoken_of for site in self.spoken_of)
        return super().is_quiet and not (self.untold_poll or entries or speaks)

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
        for site in self.spoken_of:
            site.spoken.tell_all()

    def begin_epoch(self) -> None:
        """The database was put back: numbers may have been given out that it does not know."""
        for outbox in self.outboxes.values():
            outbox.begin_epoch()
        self.errors_seen.clear()
        self.tell_all()


_WIRE = "tcp:{address}:9005:timeout=5"
_TLS_WIRE = "lcctls:{address}:9005:roles=uns:ca=ca.pem:certificate=it.pem:key=it.key:timeout=5"


class Notifier(Service):
    """The process of the notifiers, and the web server of their site.

    :param unses: addresses of the UNSes.
    :param accepted: called when a set was accepted, with the epoch of its number, and that.
    :param errors: gives the errors of a provider's URLs: number, URL.
    :param over_tls: its connections are.
    :ivar connected_seconds: to a UNS, on the average.
    :ivar looks_seconds: between two looks whether it still is.
    """

    connected_seconds, looks_seconds = 6.0, 1.0

    def __init__(
        self,
        site: WatchedSite,
        process: Process,
        unses: list[str],
        accepted: Any,
        errors: Any,
        over_tls: bool = False,
    ) -> None:
        self._site = site
        self._process = process
        self._unses = unses
        self._wire = _TLS_WIRE if over_tls else _WIRE
        self._accepted = accepted
        self._errors = errors
        self._reactor = process.reactor
        self._held: dict[tuple[str, int], int] = {}
        """What was drawn last, by role and provider."""
        self.links = {
            role: NotifierLink(role, "sim", outbox.epoch, "run", self._reactor, ask_seconds=60.0)
            for role, outbox in site.outboxes.items()
        }
        self.link = self.links[SCHEDULER]

    def startService(self) -> None:
        super().startService()
        factory = Factory.forProtocol(lambda: OriginProtocol(self._site, self._reactor))
        factory.noisy = False
        self._reactor.listenTCP(80, factory)
        for role, outbox in self._site.outboxes.items():
            for entry in outbox.entries.values():
                self._send(role, entry)
            in_background(self._stay_connected(self.links[role]))
        in_background(self._notify())
        in_background(self._push())

    def stopService(self) -> None:
        for link in self.links.values():
            link.close()
        super().stopService()

    async def _stay_connected(self, link: NotifierLink) -> None:
        chance = self._site.chance
        while self.running:
            endpoint = clientFromString(self._reactor, self._wire.format(address=chance.choice(self._unses)))
            try:
                await endpoint.connect(link.factory())
            except Exception:  # however it cannot be reached
                self._site.unanswered += 1
            else:
                until = 0.5 + chance.expovariate(1 / self.connected_seconds)  # then another UNS has its turn
                while until > 0:
                    await deferLater(self._reactor, min(until, self.looks_seconds))
                    until = until - self.looks_seconds if link.connected else 0.0
                if link.connected:
                    link.disconnect()
            await deferLater(self._reactor, chance.uniform(0.1, 2.0))

    async def _notify(self) -> None:
        site, chance = self._site, self._site.chance
        while self.running:
            await deferLater(self._reactor, self.pause_seconds())
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
                for each in site.spoken_of:
                    if site.changing and chance.random() < 0.5:
                        each.spoken.live_a_little()
                    await self._speak(each, SCHEDULER, Source.LISTED)
                if site.changing and self.link.has_room and chance.random() < HINT_SHARE:
                    self._hint()
            except NotifierRefused:
                site.rejected += 1

    def pause_seconds(self) -> float:
        """Before it looks again what is to be told."""
        site = self._site
        return site.chance.expovariate(1 / NOTICE_SECONDS) * (QUIET_FACTOR if site.is_quiet else 1)

    async def _push(self) -> None:
        site = self._site
        while self.running:
            await deferLater(self._reactor, self.pause_seconds())
            try:
                for each in site.spoken_of:
                    await self._speak(each, PUSH, Source.PUSHED)
            except NotifierRefused:
                site.rejected += 1

    async def _speak(self, site: Site, role: str, source: Source) -> None:
        """Say of pages what this source says."""
        if not site.spoken.told_by(source) or not self.links[role].has_room:
            return
        order = await self._draw(role, site.pid)
        urls, states = [], {}
        for path in site.spoken.told_by(source):
            url, is_last = site.spoken.element(path, source, order)
            urls.append(url)
            if is_last:
                states[path] = site.spoken.state(path, source)
        if urls:
            told = SourcedSet(0, site.pid, source, tuple(urls), order)
            self._tell(role, told, {}, lambda: [site.spoken.was_told(path, source, states[path]) for path in states])

    async def _draw(self, role: str, pid: int) -> int:
        key, outbox = (role, pid), self._site.outboxes[role]
        held = self._held.get(key, 0) if self._site.chance.random() < HELD_SHARE and not outbox.entries else 0
        order = self._held[key] = await self.links[role].draw(pid, held)
        return order

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
            elif path in site.spoken.named:
                site.spoken.tell_again(path)

    def _poll(self) -> None:
        urls = ({"c": self._site.url(POLLED), "m": "text/html"},)
        told = SourcedSet(0, self._site.pid, Source.POLLED, urls)
        self._tell(SCHEDULER, told, {POLLED: self._site.polls})

    def _hint(self) -> None:
        """Somebody's feed names pages, some of which may be gone.  It changes nothing of what the site has."""
        site = self._site
        paths = sorted({*site.pages, *site.removed})
        urls = []
        for path in site.chance.sample(paths, min(len(paths), 2)):
            name, mimetype = identity(path)
            urls.append({"c": site.url(name), "m": mimetype})
            if path in site.untold or path in site.removed:
                site.told_anew[path] += 1  # it may be fetched for this, and then for the site's own word
        self._tell(SCHEDULER, SourcedSet(0, site.pid, Source.FEED, tuple(urls)), {})

    async def _list(self) -> None:
        site, chance = self._site, self._site.chance
        order = await self._draw(SCHEDULER, site.pid)
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
        told = SourcedSet(0, site.pid, Source.LISTED, tuple(urls), order)
        self._tell(SCHEDULER, told, {path: site.told_of(path) for path in paths})

    def _tell(
        self, role: str, told: SourcedSet, states: dict[str, Any], accepted: Callable[[], object] = lambda: None
    ) -> None:
        outbox = self._site.outboxes[role]
        outbox.number += 1
        told = attrs.evolve(told, number=outbox.number)
        entry = outbox.entries[outbox.number] = Entry(told, states, self._site.timeline.now, accepted)
        self._send(role, entry)

    def _send(self, role: str, entry: Entry) -> None:
        self.links[role].tell(entry.told).addCallback(self._answered, role, entry)

    def _answered(self, outcome: NoticeOutcome, role: str, entry: Entry) -> None:
        site = self._site
        del site.outboxes[role].entries[outcome.number]
        if outcome.code:
            site.rejected += 1
            return
        if outcome.refused:
            site.miscounted.append(f"elements of set {outcome.number} are refused: {outcome.refused[:2]}")
        site.accepted += 1
        self._accepted(site.outboxes[role].epoch, outcome.number)
        entry.accepted()
        for path, state in entry.states.items():
            if path == POLLED:
                site.untold_poll = site.untold_poll and state != site.polls
                continue
            site.told_last[path] = max(site.told_last.get(path, 0.0), entry.began)
            if state == site.told_of(path):
                site.untold.pop(path, None)
