"""What the proxy tells of itself."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """Counted since the start, for the console and the metrics."""

    connections: int = 0
    connections_refused: int = 0
    logins_passed: int = 0
    """To a sub-LCC, which judges them."""
    logins_rejected: int = 0
    logins_held: int = 0
    """They had to wait, because the provider was moving or being made."""
    sublccs_unreachable: int = 0
    """Logins of providers whose sub-LCC had no UNS that could be reached."""
    bytes: int = 0
    """Passed on, in both directions, over connections that have ended."""
    notifier_connections: int = 0
    notifier_connections_refused: int = 0
    notifier_sets_accepted: int = 0
    notifier_sets_rejected: int = 0
