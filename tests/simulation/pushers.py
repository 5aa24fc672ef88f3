"""Sites that push: by IndexNow, over HTTP, to a real push server.  Some are nobody's; of a provider's site pages are
pushed that its sets do not name.

What a site has to push survives its process, as in the tables of a content management system.  A push without an
answer is sent again.  One that is accepted is done, for good, if its key file has always been right; else everything
is pushed again once the key is known to be proven, because what waited for its proof may have been dropped.  Errors
of fetches are read in the report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from twisted.application.service import Service
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater

from lcc.model import StoredError
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline
from lcc.transport.http.client import HttpClient, HttpFailed

from .sites import QUIET_FACTOR, OriginProtocol, Page, Site, in_background

PORT = 9700
INTERVAL_SECONDS = 0.5
WATCHED = f"""
[watched]
interval = {INTERVAL_SECONDS}
bandwidth_bytes = 0
"""
CONFIGURATION = f"""
[push]
listen = "tcp:{PORT}"
connect = "{{wire}}:{{uns}}:9005"
connect_gateway = "{{wire}}:{{uns}}:9008"
unknown_sites = "{{unknown_sites}}"
allow_private = true
keys_max = 100000
requests_max = 100000
connect_timeout = 3
deadline = 6
retry_interval = 5
check_interval = 60
idle_timeout = 20
"""
PATIENCE_SECONDS = 10.0
PUSH_SECONDS = 1.5
REPORT_SHARE = 0.3
"""Of the turns of a site, those in which it reads its report."""
SPOILT_SHARE, SPOILT_SECONDS = 0.3, 20.0
"""Of the key files, those that are wrong at first, and how long at most."""
_ANSWER_BYTES_MAX = 200_000
_PAGES = 5


class PushedPages:
    """What a site pushes.

    :param site: it has them.
    :param number: of its key.
    :param server: address of the push server.
    :ivar pages: those that there are; ``untold``: what is to be pushed (again).
    :ivar unsure: what was accepted, and may be dropped because the key file was wrong.
    :ivar is_spoilt: the key file is wrong, or missing; ``was_spoilt``: it was at first.
    :ivar is_proven: the site has read that its key is.
    :ivar key_was_read: its web server has answered with the right key.
    :ivar accepted: called when a push was, with its paths, and when it was sent.
    :ivar counts: answers by their status, and requests without one.
    :ivar wrong: what must not be, as it was seen.
    """

    def __init__(self, site: Site, timeline: Timeline, number: int, server: str) -> None:
        chance = self.chance = timeline.random(f"pushed {number}")
        self._site = site
        self.server = f"http://{server}:{PORT}"
        self.key = f"key-of-site-{number}"
        self.folder = chance.choice(("", "", "blog/"))
        self.key_path = f"{self.folder}{self.key}.txt"
        self.root = site.root + self.folder
        self.names_location = bool(self.folder) or chance.random() < 0.3
        self.was_spoilt = self.is_spoilt = chance.random() < SPOILT_SHARE
        self._mended_after = chance.uniform(0.0, SPOILT_SECONDS)
        self.is_proven = self.key_was_read = False
        if not self.is_spoilt:
            self._mend_key()
        elif chance.random() < 0.5:
            site.leftovers[self.key_path] = Page(0, f"{self.key} was not found".encode())
        self.pages: dict[str, Page] = {}
        self.untold: dict[str, None] = {}
        self.unsure: dict[str, None] = {}
        self.states: dict[str, int] = {}
        self.accepted: Callable[[list[str], float], object] = lambda paths, began: None
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._errors_read: set[tuple[int, str]] = set()
        self._versions = 0
        self.paths = [f"{self.folder}q{index}.html" for index in range(_PAGES)]
        for path in self.paths[:3]:
            self._change(path)

    def _mend_key(self) -> None:
        self.is_spoilt = False
        self._site.leftovers[self.key_path] = Page(0, self.key.encode())

    def key_was_served(self) -> None:
        """Its web server has answered with what is in the key file."""
        self.key_was_read |= not self.is_spoilt

    @property
    def is_done(self) -> bool:
        """As far as the site knows all is pushed, and will be told."""
        return not (self.untold or self.unsure)

    def _change(self, path: str) -> None:
        self._versions += 1
        self.states[path] = self._versions
        text = f"{path} {self._versions} ".encode() * self.chance.choice((1, 10, 200))
        self.pages[path] = self._site.leftovers[path] = Page(self._versions, text)
        self.untold[path] = None

    def _remove(self, path: str) -> None:
        self._versions += 1
        self.states[path] = self._versions
        del self.pages[path]
        del self._site.leftovers[path]
        self.untold[path] = None

    def live_a_little(self) -> None:
        """A page changes, appears or goes; in time, the key file is mended."""
        if self.is_spoilt and self._site.age > self._mended_after:
            self._mend_key()
        if self.chance.random() < 0.4:
            return
        path = self.chance.choice(self.paths)
        if path in self.pages and self.chance.random() < 0.3:
            self._remove(path)
        else:
            self._change(path)

    def come_to_rest(self) -> None:
        """Nothing changes any longer."""
        if self.is_spoilt:
            self._mend_key()

    def tell_again(self, path: str) -> None:
        """It is not known what became of it."""
        if path in self.states:
            self.untold[path] = None

    def tell_all(self) -> None:
        """What was pushed may be lost."""
        self.untold.update(dict.fromkeys(self.states))

    def fetch_failed(self, path: str) -> None:
        """The site reads that a page could not be fetched: one that is there is pushed again."""
        if path in self.pages:
            self.untold[path] = None

    def knows(self, error: StoredError) -> bool:
        """The site has read that a page could not be fetched, or does not have it any more."""
        is_there = error.url.removeprefix(self._site.root) in self.pages
        return not is_there or (error.time, error.url) in self._errors_read

    # What it hears.

    def was_proven(self) -> None:
        """The site hears that its key is."""
        if not self.is_proven and self.was_spoilt:
            self.tell_all()
        self.is_proven = True
        self.unsure.clear()

    def was_refused(self, why: str) -> None:
        """It hears that its key is refused."""
        if not self.was_spoilt:
            self.wrong.append(f"{self.root}, whose key file was never wrong, is refused: {why}")
        self.untold.update(self.unsure)
        self.unsure.clear()

    def was_accepted(self, states: dict[str, int], began: float) -> None:
        """A push of these states was."""
        self.accepted(list(states), began)
        for path, state in states.items():
            if state == self.states[path]:
                self.untold.pop(path, None)
                if self.was_spoilt and not self.is_proven:
                    self.unsure[path] = None

    def read_report(self, report: dict[str, Any]) -> None:
        """What the push server says of this key."""
        for key in report["keys"]:
            for error in key["errors"]:
                found = error["time"], error["url"]
                if found not in self._errors_read:
                    self._errors_read.add(found)
                    self.fetch_failed(error["url"].removeprefix(self._site.root))
            if key["state"] == "proven":
                self.was_proven()
            elif key["state"] == "refused":
                self.was_refused(key["reason"])


class PushingSite(Site):
    """A site that nobody has registered, and that pushes."""

    def __init__(self, timeline: Timeline, number: int, address: str) -> None:
        super().__init__(timeline, 2000 + number, address)
        self.pid = 0  # nobody watches it yet
        self.process = f"pushing{number}"
        self.name = f"{self.process}.example"
        self.root = f"http://{self.name}/"
        for each in (self.pages, self.untold, self.broken):
            each.clear()
        self.wants_full = self.stays_open = False
        self.interval_seconds = INTERVAL_SECONDS

    def hours_of(self, path: str) -> str:
        """None: pushes have no attributes."""
        return ""


class Pusher:
    """What pushes the pages of a site, and reads its report."""

    def __init__(self, site: Site, reactor: Any) -> None:
        self._site = site
        self._pushed: PushedPages = site.pushed
        self._reactor = reactor
        self._client = HttpClient(reactor, 2, PATIENCE_SECONDS)

    async def run(self) -> None:
        """Until the process ends."""
        site, pushed, chance = self._site, self._pushed, self._pushed.chance
        while True:
            is_quiet = pushed.is_done and not site.changing
            seconds = chance.expovariate(1 / PUSH_SECONDS) * (QUIET_FACTOR if is_quiet else 1)
            await deferLater(self._reactor, seconds)
            if site.changing:
                pushed.live_a_little()
            try:
                if pushed.untold:
                    await self._push()
                if pushed.unsure or chance.random() < REPORT_SHARE:
                    await self._read_report()
            except HttpFailed:
                pushed.counts["unanswered"] += 1

    async def _push(self) -> None:
        site, pushed, chance = self._site, self._pushed, self._pushed.chance
        paths = list(pushed.untold)
        chance.shuffle(paths)
        if len(paths) > 1 and chance.random() < 0.5:
            paths = paths[: chance.randint(1, len(paths) - 1)]
        states, began = {path: pushed.states[path] for path in paths}, site.timeline.now
        fields = {"key": pushed.key}
        if pushed.names_location:
            fields["keyLocation"] = site.url(pushed.key_path)
        urls = [site.url(path) for path in paths]
        if len(urls) == 1 and chance.random() < 0.5:
            query = "&".join(f"{name}={quote(text, safe='')}" for name, text in {"url": urls[0], **fields}.items())
            answer = await self._client.get(pushed.server, f"/indexnow?{query}")
        else:
            body = json.dumps({"host": site.name, "urlList": urls, **fields}).encode()
            answer = await self._client.post(pushed.server, "/indexnow", body, {"Content-Type": "application/json"})
        if answer.status in (200, 202):
            pushed.was_accepted(states, began)
        said = json.loads(await answer.read(_ANSWER_BYTES_MAX))
        pushed.counts[str(answer.status)] += 1
        if answer.status == 200:
            pushed.was_proven()
        elif answer.status == 403:
            pushed.was_refused(said["error"])
        elif answer.status not in (202, 429, 503):
            pushed.wrong.append(f"a push of {pushed.root} is answered {answer.status} {said}")

    async def _read_report(self) -> None:
        site, pushed = self._site, self._pushed
        answer = await self._client.get(pushed.server, f"/indexnow/report?host={site.name}&key={pushed.key}")
        said = json.loads(await answer.read(_ANSWER_BYTES_MAX))
        if answer.status == 200:
            pushed.read_report(said)


class PushingSiteServer(Service):
    """Such a site's process: its web server, and what pushes."""

    def __init__(self, site: PushingSite, process: Process) -> None:
        self._site = site
        self._reactor = process.reactor

    def startService(self) -> None:
        super().startService()
        factory = Factory.forProtocol(lambda: OriginProtocol(self._site, self._reactor))
        factory.noisy = False
        self._reactor.listenTCP(80, factory)
        in_background(Pusher(self._site, self._reactor).run())
