"""A content user that keeps a copy of the cache: what a search engine does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.task import deferLater

from lcc.client.blocking import CacheError, StartAgain
from lcc.client.cache import CacheClient
from lcc.testing.simulated.process import Process

from .sites import in_background


class Copy:
    """What a content user has stored, whatever becomes of its process.

    :ivar rows: key -> the row as it was told last; deleted ones are gone.
    :ivar token: to come back with.
    :ivar rows_told: so many rows it was told.
    :ivar told_again: of these, those that it had: what a page has may also change, and change back.
    :ivar asked_time: when it asked for what it is told next, on the timeline.
    :ivar may_rest: it may be that it does not ask for a while.
    :ivar applied: called with the key of each row that it was told, that row, and whether it had just that.
    :ivar restarted: called when it begins anew.
    """

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.token = "0"
        self.restarts = 0
        self.contents_read = self.rows_told = self.told_again = 0
        self.asked_time = 0.0
        self.wrong: list[str] = []
        self.may_rest = True
        self.applied: Callable[[str, dict[str, Any], bool], object] = lambda key, row, had: None
        self.restarted: Callable[[], object] = lambda: None


REST_SHARE, REST_SECONDS = 0.3, 10.0
"""Of the answers, those after which a user that rests does so, and for how long on the average."""


class Follower(Service):
    """Applies every change to its copy.

    :param rests: at times it asks for a few changes only, or not at all for a while: providers may move twice between
        two of its questions.
    """

    def __init__(self, copy: Copy, process: Process, address: str, rests: bool = False) -> None:
        self._copy = copy
        self._chance = process.timeline.random(f"follower {process.timeline.now}") if rests else None
        self._process = process
        self._address = address

    def startService(self) -> None:
        super().startService()
        in_background(self._run())

    async def _run(self) -> None:
        reactor, timeline, copy = self._process.reactor, self._process.timeline, self._copy
        client = CacheClient(reactor, f"http://{self._address}:8080", timeout_seconds=20)
        changed: dict[str, dict[str, Any]] = {}

        async def apply(row: dict[str, Any]) -> None:
            changed[row["key"]] = row

        async def commit(token: str) -> None:
            for key, row in changed.items():
                copy.rows_told += 1
                had = _without_number(row) == _without_number(copy.rows.get(key, {}))
                copy.told_again += had
                copy.applied(key, row, had)
                if row["state"] == "cached":
                    copy.rows[key] = row
                else:
                    copy.rows.pop(key, None)
            copy.token = token
            changed.clear()
            if self._process.chance.random() < 0.3 and copy.rows:
                await self._read_one(client)
            if self._chance is not None and copy.may_rest and self._chance.random() < REST_SHARE:
                await deferLater(reactor, self._chance.expovariate(1 / REST_SECONDS))
            copy.asked_time = timeline.now

        while True:
            try:
                copy.asked_time = timeline.now
                limits = {} if self._chance is None else self._chance.choice(({}, {"limit": 1}, {"limit": 7}))
                await client.follow(apply, commit, copy.token, wait=10, **limits)
            except StartAgain:
                copy.rows.clear()
                copy.restarted()
                copy.token = "0"
                copy.restarts += 1
            except CacheError:
                pass
            changed.clear()
            await deferLater(reactor, self._process.chance.uniform(0.5, 2))

    async def _read_one(self, client: CacheClient) -> None:
        row = self._copy.rows[self._process.chance.choice(sorted(self._copy.rows))]
        try:
            content = await client.content(row["key"])
            data = await content.read(1 << 20)
        except CacheError:
            return
        self._copy.contents_read += 1
        from hashlib import md5

        found = md5(data, usedforsecurity=False).hexdigest()
        if found != content.md5:
            self._copy.wrong.append(f"{row['curl']}: the content has the hash {found}, not {content.md5}")


def _without_number(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "change"}
