"""What a push server shows and takes at the console."""

from __future__ import annotations

from lcc.domain.wording import Lines, duration, number
from lcc.roles.pausing import PausingCommands
from lcc.roles.push.engine import PushServer


class PushCommands(PausingCommands[PushServer]):
    """The commands of a push server."""

    PAUSED = "pushes are answered 503 until resume(); what was accepted is told"
    RESUMED = "pushes are accepted again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        engine = self.engine
        state = "accepts pushes" if engine.is_claimed else "waits for the database"
        if engine.paused_since is not None:
            state = f"PAUSED for {duration(engine.now() - engine.paused_since)}, accepts nothing"
        counts = engine.counters
        lines = [
            ("push server", state),
            ("trouble", engine.trouble or "none"),
            ("UNS", self._uns()),
            ("accepted", f"{counts.pushes:,} times, {number(counts.urls, 'URL')}"),
            ("refused", f"{counts.refused:,} times"),
            ("keys", f"{counts.proven:,} times proven, {counts.not_proven:,} times not"),
            ("waiting", f"{number(engine.unproven, 'URL')} for a proof, {number(engine.untold, 'URL')} for the UNS"),
            ("told", f"{number(counts.told, 'URL')}, {counts.urls_refused:,} refused"),
            ("sets by HTTP", self._sets()),
        ]
        if engine.subscriber is not None:
            states = ", ".join(f"{count:,} {name}" for name, count in sorted(engine.subscriber.counts.items()))
            lines.append(("hubs", f"{states or 'no subscriptions'}; {counts.pushes_heard:,} pushes heard"))
        return lines

    def _sets(self) -> str:
        sets = self.engine.sets
        if sets is None:
            return "off ([push] connect_gateway)"
        counts = sets.counters
        return f"{counts.accepted:,} accepted, {counts.refused:,} refused, {sets.gateway.sets_now:,} now"

    def _uns(self) -> str:
        link = self.engine.draws.link
        if link is None or not link.connected:
            return "unreachable"
        return f"takes no sets: {link.held}" if link.held else "connected"
