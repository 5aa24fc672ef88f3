"""One promise, and whether it was kept."""

from __future__ import annotations

import attrs


@attrs.frozen
class Finding:
    """
    :ivar what: the promise.
    :ivar limit: what the figures may be.
    """

    what: str
    kept: bool
    figures: str
    limit: str

    def line(self) -> str:
        """For people."""
        return f"{'ok  ' if self.kept else 'FAIL'} {self.what}: {self.figures} (limit: {self.limit})"
