"""How long processes that were started again took to be connected: read from their logs; reported, not judged.

Counted from its first line in the log (before, Python is loading, which takes as long as the machine is busy), or
from when the last process that was killed or stood still was there again (before, there may be nobody to connect to).
"""

from __future__ import annotations

import time

from .cluster import Cluster

CONNECTED = "Connected to "
"""What the roles that connect to others log when they are."""


class Returns:
    """Watches what was started."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watched: dict[str, tuple[float | None, int]] = {}
        self._seconds: dict[str, list[float]] = {}
        self._whole: float | None = None

    def started(self, names: list[str]) -> None:
        """These were started just now."""
        for name in names:
            if name in self._cluster.configs and self._cluster.role(name) in ("uns", "botm", "bot", "central"):
                self._watched[name] = None, self._size(name)

    def look(self) -> None:
        """See who is back."""
        now = time.monotonic()
        if self._cluster.still or not all(self._cluster.is_up(name) for name in self._cluster.configs):
            self._whole = None
        elif self._whole is None:
            self._whole = now
        for name, (since, size) in list(self._watched.items()):
            if not self._cluster.is_up(name):
                del self._watched[name]  # killed again before
                continue
            if self._size(name) == size:
                continue
            if since is None:
                self._watched[name] = since, size = now, size
            with (self._cluster.folder / f"{name}.log").open("rb") as log:
                log.seek(size)
                if CONNECTED.encode() in log.read():
                    began = since if self._whole is None else max(since, self._whole)
                    self._seconds.setdefault(self._cluster.role(name), []).append(now - began)
                    del self._watched[name]

    def _size(self, name: str) -> int:
        path = self._cluster.folder / f"{name}.log"
        return path.stat().st_size if path.exists() else 0

    def figures(self) -> dict[str, dict[str, float]]:
        """Role -> how many came back, and after how many seconds (median, slowest)."""
        return {
            role: {
                "count": len(times),
                "median": round(sorted(times)[len(times) // 2], 2),
                "slowest": round(max(times), 2),
            }
            for role, times in sorted(self._seconds.items())
        }
