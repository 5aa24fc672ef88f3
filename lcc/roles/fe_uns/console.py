"""What the proxy shows and takes at the console.  It only reads, but for :meth:`FeUnsCommands.pause`."""

from __future__ import annotations

import attrs

from lcc.domain.wording import Lines, duration, more
from lcc.roles.fe_uns.engine import FeUns, Passing
from lcc.roles.fe_uns.notifiers.relay import NotifierRelay
from lcc.roles.pausing import PausingCommands

CONNECTIONS_SHOWN = 10


class FeUnsCommands(PausingCommands[FeUns]):
    """The commands of the front end's proxy of UNSes."""

    PAUSED = 'providers are told "try again later" until resume(); open connections go on'
    RESUMED = "providers are let in again"

    def __init__(self, engine: FeUns, relay: NotifierRelay) -> None:
        super().__init__(engine)
        self._relay = relay

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        uns = self.engine
        stands = "lets providers in"
        if uns.paused_since is not None:
            stands = f"PAUSED for {duration(uns.now() - uns.paused_since)}, lets nobody in"
        elif uns.sublccs is None:
            stands = "lets nobody in: the front end's database has not been read yet"
        lines: Lines = [("proxy", stands)]
        for sub in (uns.sublccs or {}).values():
            count = sum(passing.sub.subid == sub.subid for passing in uns.passing.values())
            lines.append(("sub-LCC", f"{sub.name}, {sub.state.value}: {count:,} connections"))
        lines.append(("connections", f"{uns.connections:,}, of them to sub-LCCs {len(uns.passing):,}"))
        shown = [*(login.describe() for login in uns.logins), *map(self._describe, uns.passing.values())]
        lines += [("", text) for text in shown[:CONNECTIONS_SHOWN]]
        lines += more(CONNECTIONS_SHOWN, len(shown), "connection")
        lines += [("notifier", connection.describe()) for connection in self._relay.open]
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in attrs.asdict(uns.counters).items())
        lines.append(("since start", ", ".join(counts)))
        return lines

    def queue(self, limit: int) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        return [("queue", "a proxy keeps nothing")]

    def provider(self, pid: int) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        found = [passing for passing in self.engine.passing.values() if passing.pid == pid]
        lines: Lines = [("connection", self._describe(passing)) for passing in found]
        return lines or [("provider", f"{pid} is not connected here")]

    def _describe(self, passing: Passing) -> str:
        age = duration(self.engine.clock.seconds() - passing.since)
        return (
            f"provider {passing.pid} from {passing.address or 'a UNIX socket'}: at sub-LCC {passing.sub.name} "
            f"for {age}, {passing.splice.bytes:,} bytes"
        )
