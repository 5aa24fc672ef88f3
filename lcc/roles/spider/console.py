"""What a spider shows and takes at the console."""

from __future__ import annotations

from lcc.domain.wording import Lines, duration, more, number
from lcc.model.spider.crawls import BUCKETS
from lcc.roles.pausing import PausingCommands
from lcc.roles.spider.engine import Spider

CRAWLS_SHOWN = 20


class SpiderCommands(PausingCommands[Spider]):
    """The commands of a spider."""

    PAUSED = "nothing new is told until resume(); pages that come are read"
    RESUMED = "URLs are told again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        state = f"run {engine.run_number}" if engine.run_number else "waits for the database"
        if engine.paused_since is not None:
            state = f"PAUSED for {duration(engine.now() - engine.paused_since)}, tells nothing"
        link, counts = engine.teller.link, engine.counters
        waiting = 0 if link is None else link.waiting_count
        lines: Lines = [
            ("spider", state),
            ("trouble", engine.trouble or "none"),
            ("hosts", f"{len(engine.shares.tokens)} of {BUCKETS} parts; {number(engine.shares.spiders, 'spider')}"),
            ("UNS", self._uns()),
            ("cache", "waiting for changes" if engine.follower.is_caught_up else "reading, or nothing to read"),
        ]
        crawls = sorted(engine.crawls.reading(), key=lambda rules: rules.crawl.name)
        lines += [("crawl", f"{each.crawl.name}: {each.crawl.state.value}") for each in crawls[:CRAWLS_SHOWN]]
        lines += more(CRAWLS_SHOWN, len(crawls), "crawl")
        lines += [("store", f"{name} cannot write: {fault}") for name, fault in engine.store_faults.items()]
        lines.append(("told", f"{number(counts.told, 'URL')}, {number(waiting, 'set')} without an answer"))
        lines.append(
            (
                "read",
                f"{counts.pages:,} pages, {counts.read:,} of crawls; "
                f"{counts.links:,} links, {counts.followed:,} followed",
            )
        )
        dropped = ", ".join(f"{name} {count:,}" for name, count in counts.dropped.most_common())
        lines.append(("dropped", dropped or "nothing"))
        return lines

    def _uns(self) -> str:
        link = self.engine.teller.link
        if link is None or not link.connected:
            return "unreachable"
        return f"takes no sets: {link.held}" if link.held else "connected"
