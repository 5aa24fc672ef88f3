"""What a search server shows and takes at the console."""

from __future__ import annotations

from lcc.domain.wording import Lines, duration, number
from lcc.roles.pausing import PausingCommands
from lcc.roles.search.engine import SearchServer
from lcc.search.folders import mebibytes


class SearchCommands(PausingCommands[SearchServer]):
    """The commands of a search server."""

    PAUSED = "no pages are read until resume(); queries are answered"
    RESUMED = "pages are read again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine, index, counts = self.engine, self.engine.index, self.engine.counters
        state = "answers queries" if index.is_open else "waits for its index"
        if engine.paused_since is not None:
            state = f"PAUSED for {duration(engine.now() - engine.paused_since)}, reads no pages"
        found = index.counts
        return [
            ("search server", state),
            ("trouble", engine.trouble or "none"),
            (
                "index",
                f"{number(found.pages, 'page')}, {mebibytes(index.size_bytes)}"
                f"{'' if index.state.complete else '; being built'}",
            ),
            ("without text", f"{found.unread:,} unread, {found.hidden:,} hidden, {found.missing:,} missing"),
            ("cache", "waiting for changes" if engine.follower.is_caught_up else "reading, or nothing to read"),
            (
                "since start",
                f"{counts.pages:,} pages read, {counts.indexed:,} indexed, {counts.removed:,} removed; "
                f"{number(counts.commits, 'commit')}; {counts.queries.shown().upto[-1]:,} queries answered",
            ),
        ]
