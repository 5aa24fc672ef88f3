"""The programs by which a content provider tells the LCC what has changed.

One tells each set on a connection of its own, with the production client.  At some sites another one stays connected
meanwhile, and tells several sets on one connection.  Now and then a third one is greeted beside them.  What a set
says is read when it begins: no two begin at once, but one may begin, and end, while another one is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from zope.interface import implementer

from lcc.errors import code
from lcc.model import Source
from lcc.protocols.cp_uns import InitAccepted
from lcc.provider.client import Submission, Unreachable, submit, uns_endpoint
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.tls import RECORD_OVERHEAD_BYTES
from lcc.transport.http.client import HttpClient

from .by_http import HTTP_SHARE
from .by_http import PATIENCE_SECONDS as HTTP_SECONDS
from .open_session import OpenSession
from .pushers import Pusher
from .sites import QUIET_FACTOR, OriginProtocol, Place, Site, Telling, in_background

QUOTA_CODES = frozenset([code("quota-files"), code("quota-space")])
SECOND_SHARE = 0.15
"""Of the sessions, those that have another one beside them."""
MISTAKE_SHARE = 0.02
"""Of the sets, those that say by mistake that there is nothing."""
ERRORS_SHOWN = 100
"""``[uns] errors_shown``, as it is by default."""


@implementer(IStreamClientEndpoint)
class WatchedEndpoint:
    """Another endpoint, and what still waits to be sent on the connection that was made to it."""

    def __init__(self, inner: IStreamClientEndpoint) -> None:
        self._inner = inner
        self._protocol: Any = None

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        def connected(protocol: IProtocol) -> IProtocol:
            self._protocol = protocol
            return protocol

        return self._inner.connect(protocolFactory).addCallback(connected)

    @property
    def waiting_bytes(self) -> int:
        """What has been written and has not left the machine."""
        transport = None if self._protocol is None else self._protocol.transport
        return 0 if transport is None else int(transport.waiting_bytes)


class Publisher(Service):
    """A provider's tools, and its web server.

    :param unses: addresses of the UNSes.
    :param accepted: called at once when a set was accepted, with its place.
    :param over_tls: its connections are.
    """

    def __init__(
        self,
        site: Site,
        process: Process,
        unses: list[str],
        accepted: Callable[[Site, Place], None],
        over_tls: bool = False,
    ) -> None:
        self._over_tls = over_tls
        self._accepted = accepted
        self._site = site
        self._process = process
        self._unses = unses
        self._reactor = process.reactor
        self._begins = DeferredLock()
        self._client = HttpClient(process.reactor, 2, HTTP_SECONDS)
        self._second = site.timeline.random(f"second session {site.pid} {site.timeline.now}")
        self._mistakes = site.timeline.random(f"mistakes {site.pid} {site.timeline.now}")

    def startService(self) -> None:
        super().startService()
        factory = Factory.forProtocol(lambda: OriginProtocol(self._site, self._reactor))
        factory.noisy = False
        self._reactor.listenTCP(80, factory)
        self.begin()

    def begin(self) -> None:
        """The web server runs: begin to tell of its pages."""
        in_background(self._publish())
        if self._site.stays_open:
            in_background(self._stay_open())
        if self._site.pushed is not None:
            in_background(Pusher(self._site, self._reactor).run())

    async def _publish(self) -> None:
        site, reactor, chance = self._site, self._reactor, self._site.chance
        while True:
            await deferLater(reactor, chance.expovariate(1 / 4.0) * (QUIET_FACTOR if site.is_quiet else 1))
            if site.changing and chance.random() < 0.6:
                site.live_a_little()
            if self._second.random() < SECOND_SHARE:
                reactor.callLater(self._second.expovariate(1 / 0.02), in_background, self._second_session())
            await self._begins.run(lambda: Deferred.fromCoroutine(self._submit()))

    # A set.

    def _endpoint(self, chance: Random) -> IStreamClientEndpoint:
        return uns_endpoint(self._reactor, f"{chance.choice(self._unses)}:9000", self._over_tls)

    def _is_full(self) -> bool:
        site = self._site
        takes_back = site.spoken is not None and site.spoken.needs_full_set
        return site.wants_full or site.mending > 0 or takes_back or (site.changing and site.chance.random() < 0.05)

    def _compose(self, full: bool) -> Telling:
        """What is told now."""
        site, chance = self._site, self._site.chance
        if full:
            paths = sorted(site.pages.keys() | site.broken)
        else:
            paths = list(site.untold)
            chance.shuffle(paths)
            if len(paths) > 1 and chance.random() < 0.3:
                paths = paths[: chance.randint(1, len(paths))]
        elements = [site.element(path) for path in paths]
        if chance.random() < 0.1:
            elements.insert(chance.randint(0, len(elements)), {"c": "http://elsewhere.example/", "m": "text/html"})
        spoken = {} if site.spoken is None else site.spoken.to_tell(full)
        elements += [{"c": path, "m": "text/html"} for path, state in spoken.items() if state[0]]
        absent = {path for path in site.untold if path not in site.pages} if full else set()
        states = {path: site.told_of(path) for path in paths}
        return Telling(full, states, elements, absent, site.timeline.now, dict(site.errors_shown), spoken)

    def _welcomed(self, message: InitAccepted, full: bool) -> None:
        site = self._site
        site.wants_full = message.full_set_wanted or (full and site.wants_full)
        site.held = message.deletions_held > 0
        self._told_errors(message)

    def _told_errors(self, message: InitAccepted) -> None:
        site, shown = self._site, len(message.errors)
        site.last_error_count = message.error_count
        for error in message.errors:
            self._shown(error.url)
            if error.code in QUOTA_CODES and not site.may_be_full:
                site.miscounted.append(f"{error.url} is refused for a quota that {site.pid} has never used up")
        if message.error_count > shown:
            site.wants_full = True  # nobody can say which they were
            if site.spoken is not None:
                site.spoken.tell_all()
        if message.error_count != shown and shown < ERRORS_SHOWN:
            site.miscounted.append(f"{site.pid} is told of {message.error_count} errors, and shown {shown}")

    def _was_accepted(self, place: Place, telling: Telling) -> None:
        site = self._site
        site.accepted += 1
        self._accepted(site, place)
        for path in telling.states:
            site.told_last[path] = max(site.told_last.get(path, 0.0), telling.began)
        if telling.full:
            site.wants_full = False
            site.mending = 0.0 if telling.began > site.mending else site.mending
        if site.spoken is not None:
            for path, state in telling.spoken.items():
                site.spoken.was_told(path, Source.TOLD, state)
        for path, state in telling.states.items():
            # What a second session was shown meanwhile may be younger than this set.
            if state == site.told_of(path) and site.errors_shown.get(path) == telling.shown.get(path):
                site.untold.pop(path, None)
        for path in telling.absent:
            if path not in site.pages and path not in site.broken:
                site.untold.pop(path, None)

    def _shown(self, url: str) -> None:
        site = self._site
        path = url.removeprefix(site.root).partition("?")[0]
        if site.spoken is not None and path in site.spoken.named:
            site.spoken.tell_again(path)
            return
        if site.pushed is not None and path in site.pushed.paths:
            site.pushed.fetch_failed(path)
            return
        site.errors_shown[path] = site.errors_shown.get(path, 0) + 1
        if path not in site.broken:
            site.untold[path] = True  # it is there, so it is told again, as a person would do it

    # On a connection of its own.

    async def _submit(self) -> None:
        site, reactor, chance = self._site, self._reactor, self._site.chance
        # An empty list of what there is, as a tool makes it that did not find its folder.
        mistake = site.changing and self._mistakes.random() < MISTAKE_SHARE
        telling = (
            Telling(True, {}, [], set(), site.timeline.now, dict(site.errors_shown))
            if mistake
            else self._compose(self._is_full())
        )
        if mistake:
            site.mending = telling.began  # whether or not it hears that this was accepted
            site.told_as.clear()
        meant = not (site.mending or site.unheard_mistake)
        deletions = meant and self._mistakes.random() < (0.5 if site.held else 0.1)
        if site.by_http is not None and not mistake and site.by_http.chance.random() < HTTP_SHARE:
            await self._submit_by_http(telling, deletions)
            return
        welcomes: list[InitAccepted] = []
        endpoint = WatchedEndpoint(self._endpoint(chance))

        line_end_bytes = 1 + RECORD_OVERHEAD_BYTES * self._over_tls  # behind the set

        def break_off() -> None:
            """The provider's program is ended in the middle; whether a part of the set has never left it."""
            broke_off[0] = endpoint.waiting_bytes > line_end_bytes
            submitting.cancel()

        def welcome(message: InitAccepted) -> bool:
            welcomes.append(message)
            if chance.random() < 0.1:
                reactor.callLater(chance.uniform(0, 0.004), break_off)
            self._welcomed(message, telling.full)
            telling.shown.update(site.errors_shown)
            return True

        broke_off = [False]
        try:
            submitting = submit(
                reactor,
                endpoint,
                site.pid,
                site.password,
                iter(telling.elements),
                full=telling.full,
                urlprefix=site.root,
                on_welcome=welcome,
                timeout_seconds=30.0,
                connect_timeout_seconds=5.0,
                deletions=deletions,
            )
            answer: Submission = await submitting
        except Unreachable as failure:
            site.unanswered += 1
            if mistake and site.changing:
                site.unheard_mistake = True
            elif mistake:
                site.mending = site.timeline.now
            if welcomes and (broke_off[0] or not failure.uncertain):
                site.cut.add(Place(welcomes[-1].connseq, 0))
            return
        if answer.accepted:
            self._was_accepted(Place(welcomes[-1].connseq, 0), telling)
        else:
            site.rejected += 1

    async def _submit_by_http(self, telling: Telling, deletions: bool) -> None:
        site = self._site
        greeting = await site.by_http.greeting(self._client)
        if greeting is None:
            site.unanswered += 1
            return
        self._welcomed(greeting, telling.full)
        telling.shown.update(site.errors_shown)
        place = await site.by_http.tell(self._reactor, self._client, telling, greeting.errors_upto, deletions)
        if place is None:
            site.unanswered += 1
        else:
            self._was_accepted(place, telling)

    # Beside another one.

    async def _second_session(self) -> None:
        """Somebody else of the provider is greeted at the same time, and tells a set of nothing: it clears the errors
        that this session was shown."""
        site, reactor = self._site, self._reactor
        welcomes: list[InitAccepted] = []

        def welcome(message: InitAccepted) -> bool:
            welcomes.append(message)
            self._told_errors(message)
            return True

        try:
            answer = await submit(
                reactor,
                self._endpoint(self._second),
                site.pid,
                site.password,
                iter(()),
                urlprefix=site.root,
                on_welcome=welcome,
                timeout_seconds=30.0,
                connect_timeout_seconds=5.0,
            )
        except Unreachable:
            return
        if answer.accepted:
            self._accepted(site, Place(welcomes[-1].connseq, 0))

    # On a connection that stays open.

    async def _stay_open(self) -> None:
        reactor, chance = self._reactor, self._site.chance
        while True:
            await deferLater(reactor, chance.expovariate(1 / 8.0) * (QUIET_FACTOR if self._site.is_quiet else 1))
            session = OpenSession(reactor, self._site.pid, self._site.password)
            factory = Factory.forProtocol(session.build_stream)
            factory.noisy = False
            connecting = self._endpoint(chance).connect(factory)
            connecting.addTimeout(5.0, reactor)
            try:
                await connecting
            except Exception:  # however it cannot be reached
                self._site.unanswered += 1
                continue
            await self._tell_several(session)
            session.close()

    async def _tell_several(self, session: OpenSession) -> None:
        site, chance = self._site, self._site.chance
        welcome = await session.welcome
        if welcome is None:
            site.unanswered += 1
            return
        self._welcomed(welcome, full=True)
        for index in range(chance.randint(1, 5)):
            await deferLater(self._reactor, chance.expovariate(1 / 3.0))
            place = Place(welcome.connseq, index)
            await self._begins.acquire()
            try:
                full = self._is_full()
                if not await session.begin(full, site.root):
                    site.unanswered += 1
                    site.cut.add(place)
                    return
                telling = self._compose(full)
            finally:
                self._begins.release()
            breaks = chance.random() < 0.1
            answer = session.tell(telling.elements[: len(telling.elements) // 2 if breaks else None], not breaks)
            if breaks:
                await deferLater(self._reactor, chance.uniform(0, 0.1))
                session.drop()
                site.cut.add(place)
            accepted = await answer
            if not accepted or breaks:
                site.unanswered += accepted is None
                site.rejected += accepted is False
                return
            self._was_accepted(place, telling)


class CarefulPublisher(Publisher):
    """One that makes no mistakes, and nobody beside it.

    Subclasses say when it tells what.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._second = self._mistakes = Random(0)
        self._second.random = lambda: 1.0  # type: ignore[method-assign]  # no chance is that small
