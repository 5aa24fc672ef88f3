"""Bugs of what lies between hosts: TLS, and wall clocks that disagree."""

from __future__ import annotations

from ..run import MOVES
from .bug import Bug

HOSTS = [
    Bug(
        "tls-connected-early",
        "a link hears of a connection before its handshake, and of its loss: it takes that for impossible",
        "lcc/transport/tls/endpoints.py",
        "        if not self._handshakeDone:\n            self.wrappedProtocol = Protocol()\n",
        "",
    ),
    Bug(
        "delays-by-the-source",
        "P2: delays of a provider that moves are by the wall clock of the queue manager that it came from",
        "lcc/storage/queue/moves/arrivals.py",
        "    if not delay.saved_time or 0 <= ahead < _AHEAD_SECONDS:\n",
        "    if ahead:\n",
        kind=MOVES,
    ),
]
