"""Sites that register themselves while everything goes wrong: over the registration server's HTTP API, by a file on
their web servers.  Then they tell of their pages as all others do.

A newcomer remembers what it was given (its ticket, the file, the password) as somebody does who has written it down:
it survives its process.  Whoever gets no answer asks for a new registration; whoever gets none to a check asks once
more with the same ticket.  Some give up.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from lcc.testing.simulated.timeline import Timeline
from lcc.transport.http.client import HttpClient, HttpFailed

from .publisher import Publisher
from .sites import Page, Site, in_background

PORT = 9500
CONFIGURATION = f"""
[rs]
listen = "tcp:{PORT}"
url = "http://register.example/"
contact = "operator@example.org"
allow_private = true
full_sets = 1000
asks_max = 100000
checks_max = 100000
connect_timeout = 3
deadline = 6
database_timeout = 5
"""
PATIENCE_SECONDS = 10.0
TWICE_SHARE = 0.3
"""Of the checks, those that are asked for twice at once."""
SPOILT_SHARE = 0.3
"""Of the files with secrets, those that have something else in them before the first check is answered."""
GIVES_UP_SHARE = 0.25
"""Of the newcomers, those that never ask again after their first check: they may have a provider, or none."""
_ANSWER_BYTES_MAX = 100_000


class Newcomer(Site):
    """A site that is about to register.

    :param comes_until: it comes before that second.
    :ivar pid: 0: it has not heard that it has a provider.
    :ivar process: its name.
    :ivar ticket: of its registration; empty: it has none.
    :ivar proofs: name of a file -> the secret that belongs there.
    :ivar spoilt: of these files, those that have something else in them.
    :ivar proven: of these files, those that its web server has answered with, secret and all.
    :ivar gives_up: it does after its first check.
    :ivar is_gone: it has given up.
    """

    def __init__(self, timeline: Timeline, number: int, address: str, comes_until: float = 40.0) -> None:
        super().__init__(timeline, 1000 + number, address)
        chance = timeline.random(f"newcomer {number}")
        self.pid = 0
        self.process = f"new{number}"
        self.name = f"new{number}.example"
        self.root = f"http://{self.name}/"
        self.comes_after = chance.uniform(0.0, comes_until)
        self.gives_up = chance.random() < GIVES_UP_SHARE
        self.is_gone = False
        self.ticket = ""
        self.proofs: dict[str, str] = {}
        self.spoilt: set[str] = set()
        self.proven: set[str] = set()
        if chance.random() < 0.3:
            first = chance.randrange(24)
            self.hours = f"{first}-{(first + chance.randint(3, 12)) % 24}"
        if chance.random() < 0.3:
            self.bandwidth_bytes = chance.choice((4_000, 20_000, 200_000))

    def page_at(self, path: str) -> Page | None:
        if path in self.proofs:
            return Page(0, f"{'not ' * (path in self.spoilt)}{self.proofs[path]}\n".encode())
        return super().page_at(path)

    def is_content(self, path: str) -> bool:
        return path not in self.proofs

    def was_served(self, path: str) -> None:
        if path in self.proofs:
            self.proven |= {path} - self.spoilt
        else:
            super().was_served(path)

    @property
    def wishes(self) -> dict[str, str]:
        """What it fills in."""
        bandwidth = "" if self.bandwidth_bytes is None else str(self.bandwidth_bytes)
        return {"contact": "me@example.org", "site": self.root, "hours": self.hours, "bandwidth": bandwidth}


class NewcomersTools(Publisher):
    """A newcomer's process: its web server, somebody who registers, and then its tools.

    :param server: address of the registration server.
    :param checks: called when a check begins.
    :param answered: called with the newcomer and the number of its provider, whenever it is told that.
    """

    _site: Newcomer

    def __init__(
        self,
        *args: Any,
        server: str,
        checks: Callable[[], object],
        answered: Callable[[Newcomer, int], object],
        **named: Any,
    ) -> None:
        super().__init__(*args, **named)
        self._address = f"http://{server}:{PORT}"
        self._checks = checks
        self._answered = answered
        self._client = HttpClient(self._reactor, 4, PATIENCE_SECONDS)

    def begin(self) -> None:
        in_background(self._register())

    async def _register(self) -> None:
        site, chance = self._site, self._site.chance
        await deferLater(self._reactor, max(0.0, site.comes_after - site.age))
        while not site.pid and not site.is_gone:
            try:
                await (self._check() if site.ticket else self._ask())
            except HttpFailed:
                site.unanswered += 1
            await deferLater(self._reactor, chance.expovariate(1 / 1.5))
        if not site.gives_up:
            super().begin()

    async def _post(self, path: str, fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
        body, headers = json.dumps(fields).encode(), {"Content-Type": "application/json"}
        answer = await self._client.post(self._address, path, body, headers)
        shown = json.loads(await answer.read(_ANSWER_BYTES_MAX))
        return answer.status, shown

    async def _ask(self) -> None:
        site = self._site
        status, shown = await self._post("/api/registrations", site.wishes)
        if status == 201:
            site.ticket, site.password = shown["ticket"], shown["password"]
            site.proofs[shown["file"]] = shown["secret"]
            if site.chance.random() < SPOILT_SHARE:
                site.spoilt.add(shown["file"])
        elif status < 429:
            site.miscounted.append(f"{site.root} cannot register: {status} {shown}")

    async def _check(self) -> None:
        site = self._site
        self._checks()
        twice = 1 + (site.chance.random() < TWICE_SHARE)
        checks = [Deferred.fromCoroutine(self._check_once()) for _ in range(twice)]
        site.is_gone = site.gives_up
        await gatherResults(checks, consumeErrors=True).addErrback(_first_reason)
        site.spoilt.clear()  # somebody reads why it was refused

    async def _check_once(self) -> None:
        status, shown = await self._post(f"/api/registrations/{self._site.ticket}/check", {})
        if status == 200 and shown["state"] == "done":
            self._answered(self._site, shown["pid"])


def _first_reason(failure: Any) -> None:
    failure.value.subFailure.raiseException()
