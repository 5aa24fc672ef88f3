"""A soak as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from soak.samples import Window


def spec(found: Sequence[Window], spans: list[dict[str, Any]], title: str) -> dict[str, Any]:
    """For plot.py."""
    minutes = [window.time / 60 for window in found]
    roles = list(found[0].resident_mb) if found else []

    def line(name: str, values: Sequence[float | None]) -> dict[str, Any]:
        known = [(x, y) for x, y in zip(minutes, values, strict=True) if y is not None]
        return {"name": name, "x": [x for x, _ in known], "y": [y for _, y in known]}

    def panel(title: str, y: str, lines: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {"title": title, "x": "minutes", "y": y, "lines": lines, "spans": spans, **more}

    memory = [line(role, [window.resident_mb[role] for window in found]) for role in roles]
    latency = [
        line("p99", [window.p99_ms for window in found]),
        line("p50", [window.p50_ms for window in found]),
    ]
    return {
        "title": title,
        "panels": [
            panel("Resident memory", "MB", memory),
            panel("Told to cached", "ms", latency, ylog=True),
            panel("Pages fetched", "pages/s", [line("LCC", [window.rate for window in found])]),
            panel("Queued", "URLs", [line("queue", [float(window.queued) for window in found])]),
        ],
    }
