"""A search server in memory: its real index in a folder, texts read by workers in this process, one fake clock, and
an ``lcc-cu`` that is played."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock

from lcc.config import SearchConfig
from lcc.model.spider.links import ExtractionLimits
from lcc.roles.extraction import ExtractionPool
from lcc.roles.search.engine import SearchServer
from lcc.roles.search.index import SearchIndex
from lcc.search.query import parse_query
from lcc.search.values import IndexedPage, Results, Scopes
from lcc.search.worker import TextWorker
from lcc.testing.inline_extraction import InlineWorker
from tests.support.roles.spider import NOW, Lcc

POISON = b"poison"
"""Ends its worker."""


def indexed(number: int, text: str, title: str = "", **more: Any) -> IndexedPage:
    """A page of provider 1."""
    values: dict[str, Any] = {"provider": 1, "site": "www.example.org", "type": "html", "date": NOW + number} | more
    return IndexedPage(
        key=f"{number:040x}",
        change=number + 1,
        url=f"http://{values['site']}/{number}",
        title=title,
        text=text,
        **values,
    )


def in_thread_now(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
    """In place of threads."""
    return maybeDeferred(function, *args)


class SearchWorld:
    """A search server and an LCC; time goes by with ``advance``.

    :ivar wants_rebuild: an operator has asked for a new index.
    :ivar read_as: names the token of what is started next.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.settings = attrs.evolve(SearchConfig(), **settings)
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.lcc = Lcc({}, self.clock)
        self.wants_rebuild = False
        self.read_as = ""
        self.in_thread: Callable[..., Deferred[Any]] = in_thread_now
        self.pools: list[ExtractionPool] = []
        self.engine = self.start()

    def now(self) -> float:
        return NOW + self.clock.seconds()

    def start(self) -> SearchServer:
        """A search server starts."""
        settings = self.settings
        index = SearchIndex(
            self.folder / "index",
            settings.memory_bytes,
            lambda *args: self.in_thread(*args),
            settings.queries_at_once,
            self.read_as,
        )
        limits = ExtractionLimits(page_chars=settings.text_chars)

        def spawn(protocol: Any) -> InlineWorker:
            return InlineWorker(self.clock, protocol, limits, (), lambda data: POISON in data, make=TextWorker)

        pool = ExtractionPool(self.clock, spawn, limits, 1, "search")
        client: Any = self.lcc
        self.engine = SearchServer(
            settings,
            index,
            client,
            pool,
            lambda: succeed(self.wants_rebuild),
            self._rebuilt,
            self.clock,
            self.now,
        )
        pool.start()
        self.engine.start()
        self.pools.append(pool)
        return self.engine

    def _rebuilt(self) -> Deferred[None]:
        self.wants_rebuild = False
        return succeed(None)

    def advance(self, seconds: float = 3.0, step: float = 0.25) -> None:
        """Time goes by."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            self.clock.pump([0] * 10)

    def search(self, text: str, scopes: Scopes = None, order: str = "", limit: int = 10, after: str = "") -> Results:
        """What a query finds."""
        found: list[Any] = []
        asked = self.engine.search(parse_query(text, order, self.now()), scopes, limit, after)
        Deferred.fromCoroutine(asked).addBoth(found.append)
        assert found
        if not isinstance(found[0], Results):
            found[0].raiseException()
        return found[0]

    def urls(self, text: str, scopes: Scopes = None) -> list[str]:
        """The URLs that a query finds, sorted."""
        return sorted(hit.url for hit in self.search(text, scopes, limit=100).hits)

    def kill(self) -> None:
        """It ends without a word; what it had not committed is lost."""
        engine = self.engine
        engine.stop()

    def close(self) -> None:
        self.engine.stop()
        for pool in self.pools:
            pool.stop()
        self.clock.pump([0] * 5)


def replace(file: Path, data: bytes) -> None:
    """By a new file: the old one may still be mapped, and must not become shorter."""
    file.unlink()
    file.write_bytes(data)
