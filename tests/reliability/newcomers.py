"""Newcomers of a kill test: they register their sites at the registration server, and publish then."""

from __future__ import annotations

import http.client
from random import Random
from typing import TYPE_CHECKING, Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from tests.support.browser import Reply, Visitor

from .providers import Publisher

if TYPE_CHECKING:
    from .world import World

TWICE_SHARE = 0.3
"""Of the newcomers, those that press the button twice."""
LEAVE_SHARE = 0.2
"""Of those whose question is not answered, those that come never again."""
AGAIN_SECONDS = 0.3
FIRST_PAGES = 4
DONE = (200, 201)


class Newcomers:
    """
    :param port: of the registration server.
    :param pace_seconds: between two newcomers, on average.
    :ivar files: path on the web server -> the secret that is to be found there.
    """

    def __init__(self, world: World, port: int, pace_seconds: float) -> None:
        self.files: dict[str, bytes] = {}
        self._world = world
        self._visitor = Visitor(port)
        self._pace = pace_seconds
        self._random = Random(f"{world.seed} newcomers")
        self._number = 0

    async def live(self) -> None:
        """One after the other, for ever."""
        while True:
            await deferLater(reactor, self._random.expovariate(1 / self._pace))  # type: ignore[arg-type]
            await self._world.may_register()
            await self._register()
            self._world.ended()

    async def _register(self) -> None:
        world = self._world
        self._number += 1
        name = f"n{self._number:03d}"
        site = f"http://127.0.0.1:{world.port}/{name}/"
        given = await self._ask("", {"contact": "me@example.org", "site": site}, 0.0)
        assert given is not None
        self.files[f"/{name}/{given['file']}"] = given["secret"].encode()
        world.note("site", name=name)
        checks = 2 if self._random.random() < TWICE_SHARE else 1
        done = await gatherResults([self._checked(given["ticket"]) for _ in range(checks)])
        pids = sorted({each["pid"] for each in done if each is not None})
        world.note("registered", name=name, pids=pids, password=given["password"])
        if pids:
            world.add(Publisher(world, pids[0], given["password"], name, FIRST_PAGES))

    def _checked(self, ticket: str) -> Deferred[Any]:
        return Deferred.fromCoroutine(self._ask(f"/{ticket}/check", {}, LEAVE_SHARE))

    async def _ask(self, path: str, body: dict[str, str], leave_share: float) -> dict[str, Any] | None:
        """Ask until it is answered.

        :returns: None: it was not, and that was enough.
        """
        while True:
            try:
                reply: Reply = await deferToThread(self._visitor.api, path, body)
            except (OSError, http.client.HTTPException):
                if self._random.random() < leave_share:
                    return None
            else:
                if reply.status in DONE:
                    found: dict[str, Any] = reply.json()
                    return found
                self._world.note("refused", status=reply.status, text=reply.body.decode()[:200])
            await deferLater(reactor, AGAIN_SECONDS)  # type: ignore[arg-type]
