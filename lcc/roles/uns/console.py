"""What a UNS shows and takes at the console.  It only reads, but for :meth:`UnsCommands.pause`."""

from __future__ import annotations

import attrs

from lcc.domain.wording import Lines, duration, more, number
from lcc.model import source_text
from lcc.roles.pausing import PausingCommands
from lcc.roles.uns.delivery import Delivery
from lcc.roles.uns.engine import Uns

SESSIONS_SHOWN = 10


class UnsCommands(PausingCommands[Uns]):
    """The commands of a UNS."""

    PAUSED = 'providers are told "try again later" until resume(); spooled sets are forwarded'
    RESUMED = "sets are accepted again"

    def est(self) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        uns, spool, forwarder = self.engine, self.engine.spool, self.engine.forwarder
        stands = "accepts sets"
        if uns.paused_since is not None:
            stands = f"PAUSED for {duration(uns.now() - uns.paused_since)}, accepts no sets"
        elif why := spool.no_room():
            stands = f"accepts no sets: {why}"
        sessions = uns.open_sessions
        share = 100 * spool.size_bytes // spool.size_max_bytes
        damaged = f"; {number(spool.damaged_count, 'damaged file')} set aside" if spool.damaged_count else ""
        lines: Lines = [
            ("UNS", f"{spool.name}: {stands}"),
            ("QM", "connected" if forwarder.connected else "disconnected: sets are answered from the spool"),
            (
                "spool",
                f"{number(forwarder.waiting_count, 'set')} waiting, {spool.size_bytes:,} bytes ({share} %){damaged}",
            ),
        ]
        if spool.damage.pids:
            lines.append(("damage", f"to be told of {number(len(spool.damage.pids), 'provider')} that lost a set"))
        lines.append(("connections", f"{len(sessions):,}, of providers {sum(1 for each in sessions if each.pid):,}"))
        lines += [("", session.describe()) for session in sessions[:SESSIONS_SHOWN]]
        lines += more(SESSIONS_SHOWN, len(sessions), "connection")
        notifiers = list(uns.notifiers.open)
        if notifiers:
            under_way = number(uns.notifiers.sets_under_way, "set")
            lines.append(("notifiers", f"{len(notifiers):,}, with {under_way} under way"))
            lines += [("", notifier.describe()) for notifier in notifiers[:SESSIONS_SHOWN]]
            lines += more(SESSIONS_SHOWN, len(notifiers), "notifier")
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in attrs.asdict(uns.counters).items())
        lines.append(("since start", ", ".join(counts)))
        return lines

    def queue(self, limit: int) -> Lines:
        """As :mod:`lcc.console.commands` says: sets that the queue manager has not answered."""
        deliveries = self.engine.forwarder.deliveries
        lines: Lines = [("set", self._delivery(delivery)) for delivery in deliveries[:limit]]
        lines += more(limit, len(deliveries), "set")
        return lines or [("queue", "no sets waiting")]

    def provider(self, pid: int) -> Lines:
        """As :mod:`lcc.console.commands` says."""
        uns = self.engine
        lines: Lines = [("connection", session.describe()) for session in uns.open_sessions if session.pid == pid]
        sets = [delivery for delivery in uns.forwarder.deliveries if delivery.entry.header.pid == pid]
        lines += [("set", self._delivery(delivery)) for delivery in sets]
        if uns.throttle.is_throttled(pid, "", uns.clock.seconds()):
            lines.append(("logins", "throttled after wrong passwords, except from addresses of recent logins"))
        if pid in uns.spool.damage.pids:
            lines.append(("damage", "it has lost a set; the queue manager has not noted that yet"))
        return lines or [("provider", f"{pid} is not connected here, and has no sets waiting")]

    def _delivery(self, delivery: Delivery) -> str:
        entry, header = delivery.entry, delivery.entry.header
        stands = (
            "waiting for the queue manager's answer"
            if self.engine.forwarder.is_sent(delivery)
            else "being synced to disk"
            if delivery.securing
            else "being forwarded"
            if delivery.sent
            else "waiting to be forwarded"
        )
        who = "its provider" if header.said is None else header.said.notifier
        told = f", {who} was told that it is accepted" if header.answered else ""
        kind = "full set" if header.full else "set"
        if header.said is not None:
            kind = f"set {header.said.number} of {header.said.notifier} ({source_text(header.source)})"
        age = duration(self.engine.now() - header.time)
        return (
            f"{header.number} of provider {header.pid}, {kind} of {entry.count:,} elements, "
            f"{entry.size_bytes:,} bytes, {age} old: {stands}{told}"
        )
