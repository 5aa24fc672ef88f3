"""Ports for servers that are told which one to take."""

from __future__ import annotations

import os
import socket
from itertools import count

_FIRST, _COUNT = 20_000, 12_000
"""Below the ports that Linux gives to outgoing connections and to servers that ask for any."""

_candidates = count(os.getpid() * 97)
_claims: list[int] = []


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port that nobody listens on, and that no other process of these tests gets while this one lives."""
    for candidate in _candidates:
        port = _FIRST + candidate % _COUNT
        claim = socket.socket(socket.AF_UNIX)
        with claim, socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                # An abstract name: there is no file, and the kernel gives it up with the process.
                claim.bind(f"\0lcc-test-port-{port}")
                probe.bind((address, port))
            except OSError:
                continue
            _claims.append(claim.detach())
            return port
    raise AssertionError("unreachable")


def listens(port: int, address: str = "127.0.0.1") -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        return probe.connect_ex((address, port)) == 0
