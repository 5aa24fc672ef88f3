"""What a UNS tells of itself."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """Counted since the start, for the console and the metrics."""

    connections: int = 0
    connections_now: int = 0
    connections_refused: int = 0
    logins_accepted: int = 0
    logins_rejected: int = 0
    sets_accepted: int = 0
    sets_rejected: int = 0
    sets_cut_off: int = 0
    urls_received: int = 0
    urls_refused: int = 0
    set_bytes: int = 0
    """Of the elements of complete sets."""
    sets_passed_on: int = 0
    sets_secured: int = 0
    sets_refused_late: int = 0
    """Refused by the queue manager after the provider had been told that they are accepted: damage."""
    notifier_connections: int = 0
    notifier_connections_refused: int = 0
    notifier_sets_accepted: int = 0
    notifier_sets_rejected: int = 0
    notifier_urls_received: int = 0
    notifier_urls_refused: int = 0
    notifier_watches: int = 0
    notifier_draws: int = 0
    links: int = 0
    """Good hellos of a queue manager."""
