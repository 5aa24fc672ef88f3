"""A slice of ``make hostile-sockets``: hostile sockets at every port, while honest peers are served."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.siege import besiege


def test_honest_peers_are_served_beside_hostile_sockets(tmp_path: Path) -> None:
    outcome = besiege(tmp_path, sockets=140, seconds=2.0, sets=5, big=False)
    assert outcome.attempts >= 140 and outcome.connected_max > 30
