"""Metrics of a search server, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zope.interface import implementer

from lcc.domain.wording import duration, number
from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading, counter, gauge, histogram, not_paused
from lcc.roles.search.engine import FOLLOW, WATCH, SearchServer
from lcc.search.folders import mebibytes

DOCUMENTS = gauge("lcc_search_documents", "Pages that can be found")
UNREAD_NOW = gauge("lcc_search_documents_unread", "Of these, pages whose text could not be read")
HIDDEN = gauge("lcc_search_pages_hidden", "Pages that ask not to be found")
MISSING_NOW = gauge("lcc_search_pages_missing", "Pages whose content the cache could not deliver; requested again")
SIZE = gauge("lcc_search_index_bytes", "Size of the index on the disk")
COMPLETE = gauge("lcc_search_index_complete", "1: all pages of the cache have been read; 0: the index is being built")
LAG = gauge(
    "lcc_search_lag_seconds",
    "Age of the oldest change of the cache that cannot be found yet; 0: none",
)
PAGES = counter("lcc_search_pages", "Pages read from the cache, of any type")
INDEXED = counter("lcc_search_pages_indexed", "Pages added to the index")
REMOVED = counter("lcc_search_pages_removed", "Pages removed from the index")
UNREAD = counter("lcc_search_pages_failed", "Pages whose text could not be read")
COMMITS = counter("lcc_search_commits", "Commits of the index")
REBUILDS = counter("lcc_search_rebuilds", "Rebuilds of the index")
QUERY_SECONDS = histogram("lcc_search_query_seconds", "Duration of answered queries")
REFUSED = counter("lcc_search_queries_refused", "Queries refused: invalid, or too many were waiting")
WAITING = gauge("lcc_search_queries_waiting", "Queries waiting")
PAUSED = gauge("lcc_search_paused", "1: paused by an operator, reads no pages")

BEHIND_SECONDS = 5.0
"""Less is told as up to date."""


@implementer(IRoleMetrics)
class SearchMetrics:
    """Metrics and conditions of a search server."""

    def __init__(self, engine: SearchServer) -> None:
        self._engine = engine
        self.background: Sequence[Any] = ()

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        engine, index, counts = self._engine, self._engine.index, self._engine.counters
        found = index.counts
        yield DOCUMENTS(found.pages)
        yield UNREAD_NOW(found.unread)
        yield HIDDEN(found.hidden)
        yield MISSING_NOW(found.missing)
        yield SIZE(index.size_bytes)
        yield COMPLETE(index.state.complete)
        yield LAG(engine.follower.lag_seconds)
        yield PAGES(counts.pages)
        yield INDEXED(counts.indexed)
        yield REMOVED(counts.removed)
        yield UNREAD(counts.unread)
        yield COMMITS(counts.commits)
        yield REBUILDS(counts.rebuilds)
        yield QUERY_SECONDS(counts.queries.shown())
        yield REFUSED(counts.refused)
        yield WAITING(index.waiting)
        yield PAUSED(engine.paused_since is not None)

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says."""
        engine = self._engine
        yield Condition(
            "reading",
            engine.troubles.get(FOLLOW, ""),
            "see [search] cache, and the log of lcc-cu; if it speaks of the index, make room in [search] folder",
        )
        yield Condition(
            "index",
            engine.index.withheld or engine.index.damaged or engine.troubles.get(WATCH, ""),
            "wait: it is built anew by itself (lcc-admin search rebuild has it begun once more)",
            note=self._index_note(),
        )
        yield not_paused("search", engine.paused_since is not None, "it reads no pages")

    def _index_note(self) -> str:
        index, lag = self._engine.index, self._engine.follower.lag_seconds
        state = "up to date" if lag < BEHIND_SECONDS else f"{duration(lag)} behind"
        if not index.state.complete:
            state = f"being built, because {index.state.why}" if index.state.why else "being built"
        return f"{number(index.documents, 'page')}, {mebibytes(index.size_bytes)}, {state}"
